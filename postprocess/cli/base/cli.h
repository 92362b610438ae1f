/* What the mt- programs share: filters, inputs and outputs, interruption, progress; words and exit codes are
 * in base/say.h. */
#ifndef MT_CLI_CLI_H
#define MT_CLI_CLI_H

#include "base/command.h"
#include "base/say.h"
#include "memtrace/trace.h"
#include "output/json/json.h"
#include <getopt.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* 1 after SIGINT, SIGTERM or SIGHUP. A second one ends the program, and so do three seconds after the first.
 */
extern volatile sig_atomic_t mt_cli_stop;
/* Signals are caught from here on; those that are ignored stay so. */
void mt_stop_begin(void);
/* Says on a terminal that opening `path`, if it is a FIFO, waits for who writes to it. */
void mt_cli_waits(const char *path);

void mt_cli_version(void);
#define MT_PART_PAGE "page, which needs the package node-d3," /* for mt_cli_left_out */

/* Exit code of an error of the reader. */
int mt_cli_exit_code(const struct mt_error *err);

/* Says it and returns that. */
int mt_cli_failed(const struct mt_error *err);

/* Which launches are reported. */
struct mt_filter {
    regex_t kernels;
    int has_kernels;
    const char *kernels_text, *supersteps_text; /* NULL: all */
    uint64_t first, end;                        /* supersteps [first, end) */
};

void mt_filter_init(struct mt_filter *f);
int mt_filter_kernels(struct mt_filter *f, const char *text);    /* 0, or MT_EXIT_USAGE after saying why */
int mt_filter_supersteps(struct mt_filter *f, const char *text); /* "A..B", "A..", "..B", "A" */
int mt_filter_match(const struct mt_filter *f, const char *kernel, uint64_t superstep);

/* After reading: says it if the filters left nothing of `launches`. */
void mt_filter_explain(const struct mt_filter *f, uint64_t launches, uint64_t chosen);

void mt_filter_free(struct mt_filter *f);

/* The inputs on the command line and the options that go with them. */
struct mt_inputs {
    const char *const *paths;
    size_t npaths;
    const char **companions;
    size_t ncompanions, companion_room;
    unsigned flags;                    /* enum mt_source_flags */
    const struct mt_launch_ends *ends; /* as in mt_source_options */
    uint64_t first, end;               /* the same */
    const int *fds;                    /* the same */
    unsigned threads;                  /* that decode compact traces; 0: one for each processor */
    char **listed;                     /* what folders stand for, owned */
    size_t nlisted, listed_room;
    int on; /* a signal does not end the reading: the caller does */
};

/* Processors that this process may use, but at most 32. */
unsigned mt_cli_processors(void);

int mt_inputs_companion(struct mt_inputs *in, const char *path); /* 0, or MT_EXIT_FAILURE */

/* The paths: argv[optind…], but for companions whose traces are there, too: these are taken out of argv. */
void mt_inputs_take(struct mt_inputs *in, int argc, char **argv);

/* After mt_inputs_take, with the flags set: folders, and patterns (? and *) that no file is called by, become
 * the traces of the newest run in them. 0, or an exit code after saying why. */
int mt_inputs_folders(struct mt_inputs *in);

/* The traces of each run in the folder, oldest first, until `take` returns an exit code but 0 and
 * MT_EXIT_INPUT. An exit code. */
int mt_inputs_runs(const char *dir, unsigned flags,
                   int (*take)(void *arg, const char *const *paths, size_t n), void *arg);

/* 1: one of them says that shared or local memory was recorded, whether or not any kernel uses it. */
int mt_inputs_spaces(const struct mt_inputs *in);

void mt_inputs_free(struct mt_inputs *in);

/* NULL after saying why, with the exit code in *code. No path is a usage error, and so is a file of another
 * kind than a trace (or, with MT_SOURCE_HOST, a container): the message names what it is and who reads it. */
struct mt_source *mt_inputs_source(struct mt_inputs *in, int *code);

/* Both. */
struct mt_source *mt_inputs_open(struct mt_inputs *in, int argc, char **argv, int *code);

/* Says all notes and returns the exit code that they ask for; *complete as of mt_source_notes, but -1 when
 * nothing is known to be missing, nor that all is there. */
int mt_inputs_finish(struct mt_source *s, int *complete);

/* mt_command_options, and -1 also says that words on stdout are there. An exit code if not. */
int mt_cli_options(const struct mt_command *c, int argc, char **argv, int (*take)(void *arg, int option),
                   void *arg);

/* 1 if the text is a number from `least` to `most`, and nothing else. */
int mt_cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *n);

/* The place of the text in the list, which NULL ends; -1: it is not there, and a word like it is named. */
int mt_cli_word(const char *text, const char *const *list);

/* --format of a program that has one format: 0, or MT_EXIT_USAGE after saying so. */
int mt_cli_format(const char *only);

/* Says which word of the list the `n` characters were probably meant to be, if there is one. */
void mt_cli_hint(const char *text, size_t n, const char *const *list);

/* --kernels, --launches, --companion, --no-companion and --quiet, as `take`. */
int mt_common_option(int o, struct mt_inputs *in, struct mt_filter *f);

/* Where results go: FILE, or standard output for NULL and "-".
 * The file is not touched before mt_output_ready. */
struct mt_output {
    const char *path;
    int fd, created, ready;
    int cut;   /* it lacks what could not be written */
    int error; /* of a write of its stream */
    struct mt_output *next;
};

/* A file that the command reads, and no output may replace; before any is opened. mt_inputs_take does it. */
void mt_output_spare(const char *path);

/* 0, or an exit code after saying why. */
int mt_output_open(struct mt_output *o, const char *path);

/* The same of an output that another function opens: is it one of those (mt_output_is_input)? */
int mt_output_other(const char *path);

int mt_output_ready(struct mt_output *o); /* once; later calls do nothing */

/* Says that it cannot be written; MT_EXIT_FAILURE. */
int mt_output_failed(struct mt_output *o, int error);

/* A stream that owns the descriptor; signals interrupt none of its writes. NULL: errno. */
FILE *mt_output_whole(int fd);

/* As a stream, NULL after saying why; and its end: 0, or an exit code after saying why. Without
 * mt_output_ready before, it is ready when the first bytes leave the stream's buffer. */
FILE *mt_output_stream(struct mt_output *o);

int mt_output_close(struct mt_output *o, FILE *f);

/* Without a stream: all has been written, or `failed` with this errno value. 0, or an exit code after saying
 * why. */
int mt_output_end(struct mt_output *o, int failed, int error);

/* The same of JSON, which ends here. */
int mt_output_json(struct mt_output *o, struct mt_json *j);

/* Removes a file that was made and never became ready, or that lacks what could not be written. */
void mt_output_abandon(struct mt_output *o);

/* On a terminal a line that changes, when reading takes more than two seconds; else a line every ten. */
struct mt_progress {
    int on, terminal, shown;
    struct timespec begin, last;
};

void mt_progress_init(struct mt_progress *p);
void mt_progress_step(struct mt_progress *p, struct mt_source *s, uint64_t records);
void mt_progress_end(struct mt_progress *p);

/* ---- How a command ends before its time ---- */

/* A signal has come to a program that ran for the command, and ended it. What it left is read for a second or
 * so; then all is as after a signal of our own. */
void mt_stop_soon(int number);

/* A folder of our own that the end removes with the files in it; its name stays the caller's. NULL: none. */
void mt_stop_scratch(const char *folder);

/* Removes a folder and the files in it. */
void mt_stop_remove(const char *folder);

#endif
