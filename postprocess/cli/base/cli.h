/* Shared by all commands: filters, inputs and outputs, signals, progress. Messages and exit codes are in
 * base/say.h. */
#ifndef MT_CLI_CLI_H
#define MT_CLI_CLI_H

#include "base/command.h"
#include "base/say.h"
#include "memtrace/trace.h"
#include "output/json/json.h"
#include <getopt.h>
#include "base/regex.h"
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* 1 after SIGINT, SIGTERM or SIGHUP. A second signal ends the program, as do three seconds after the first.
 */
extern volatile sig_atomic_t mt_cli_stop;
/* Catches signals from now on; ignored ones stay ignored. */
void mt_stop_begin(void);
/* Says on a terminal that opening the FIFO `path` waits for its writer. Does nothing for other files. */
void mt_cli_waits(const char *path);

#define MT_PART_PAGE "page, which needs the package node-d3," /* for mt_cli_left_out */

/* Returns the exit code for an error of the reader. */
int mt_cli_exit_code(const struct mt_error *err);

/* Prints an error of the reader; returns its exit code. */
int mt_cli_failed(const struct mt_error *err);

/* Launches that are reported. */
struct mt_filter {
    regex_t kernels;
    int has_kernels;
    const char *kernels_text, *supersteps_text; /* text of the options; NULL: all */
    uint64_t first, end;                        /* range of launches [first, end) */
};

void mt_filter_init(struct mt_filter *f);
int mt_filter_kernels(struct mt_filter *f,
                      const char *text); /* returns 0, or MT_EXIT_USAGE after a message */
int mt_filter_supersteps(struct mt_filter *f, const char *text); /* "A..B", "A..", "..B" or "A" */
int mt_filter_match(const struct mt_filter *f, const char *kernel, uint64_t superstep);

/* Prints a message, after reading, if the filters excluded all `launches`. */
void mt_filter_explain(const struct mt_filter *f, uint64_t launches, uint64_t chosen);

void mt_filter_free(struct mt_filter *f);

/* Inputs on the command line, and their options. */
struct mt_inputs {
    const char *const *paths;
    size_t npaths;
    const char **companions;
    size_t ncompanions, companion_room;
    unsigned flags;                    /* flags of enum mt_source_flags */
    const struct mt_launch_ends *ends; /* ends of launches, as in mt_source_options */
    uint64_t first, end;               /* range of the input, as in mt_source_options */
    const int *fds;                    /* open descriptors, as in mt_source_options */
    const unsigned char *absent;       /* as in mt_source_options */
    unsigned threads;                  /* threads that decode compact traces; 0: one per processor */
    char **listed;                     /* traces found in folders; owned */
    size_t nlisted, listed_room;
    int on; /* 1: a signal does not end the reading; the caller does */
};

/* Returns the number of processors that this process may use, at most 32. */
unsigned mt_cli_processors(void);

int mt_inputs_companion(struct mt_inputs *in, const char *path); /* returns 0 or MT_EXIT_FAILURE */

/* Takes the paths argv[optind…]. Removes companions from argv if their traces are there, too. */
void mt_inputs_take(struct mt_inputs *in, int argc, char **argv);

/* Replaces folders, and patterns (? and *) that are no file's name, by the traces of the newest run in them.
 * Called after mt_inputs_take, with the flags set. Returns 0, or an exit code after a message. */
int mt_inputs_folders(struct mt_inputs *in);

/* Calls `take` with the traces of each run in the folder, oldest first, until it returns an exit code other
 * than 0 and MT_EXIT_INPUT. Returns an exit code. */
int mt_inputs_runs(const char *dir, unsigned flags,
                   int (*take)(void *arg, const char *const *paths, size_t n), void *arg);

/* Returns 1 if an input says that shared or local memory was recorded, even if no kernel uses it. */
int mt_inputs_spaces(const struct mt_inputs *in);

void mt_inputs_free(struct mt_inputs *in);

/* Opens the inputs. Returns NULL after a message, with the exit code in *code. Usage errors are no path at
 * all, and a file that is no trace (with MT_SOURCE_HOST, no compact trace): the message names its kind and
 * the command that reads it. */
struct mt_source *mt_inputs_source(struct mt_inputs *in, int *code);

/* Prints all notes and returns their exit code. *complete is as in mt_source_notes, but -1 if neither
 * completeness nor a gap is known. */
int mt_inputs_finish(struct mt_source *s, int *complete);

/* Calls mt_command_options; if that printed help or a list, checks that it was written. Returns as
 * mt_command_options does. */
int mt_cli_options(const struct mt_command *c, int argc, char **argv, int (*take)(void *arg, int option),
                   void *arg);

/* Returns 1 if the text is a number from `least` to `most`, and nothing else. */
int mt_cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *n);

/* Returns the index of the text in the NULL-terminated list, or -1 after suggesting a similar word. */
int mt_cli_word(const char *text, const char *const *list);

/* Suggests the word of the list that the `n` characters are probably meant to be, if there is one. */
void mt_cli_hint(const char *text, size_t n, const char *const *list);

/* Handles --kernels, --launches, --companion, --no-companion and --quiet; returns as `take` does. */
int mt_common_option(int o, struct mt_inputs *in, struct mt_filter *f);

/* An output: FILE, or standard output for NULL and "-". The file is unchanged before mt_output_ready. */
struct mt_output {
    const char *path;
    int fd, created, ready;
    int cut;   /* 1: incomplete after a failed write */
    int error; /* errno of a failed write of its stream */
    struct mt_output *next;
};

/* Registers a file that the command reads, so that no output may replace it; before any output is opened.
 * mt_inputs_take does so for its paths. */
void mt_output_spare(const char *path);

/* Returns 0, or an exit code after a message. */
int mt_output_open(struct mt_output *o, const char *path);

/* Checks an output that another function opens (see mt_output_is_input). Returns 0, or an exit code after a
 * message. */
int mt_output_other(const char *path);

int mt_output_ready(struct mt_output *o); /* once; later calls do nothing */

/* Reports a failed write; returns MT_EXIT_FAILURE. */
int mt_output_failed(struct mt_output *o, int error);

/* Returns a stream that owns the descriptor and whose writes are not interrupted by signals. NULL: see errno.
 */
FILE *mt_output_whole(int fd);

/* Opens the output as a stream (NULL after a message), and closes it (0, or an exit code after a message).
 * Unless mt_output_ready was called, the output becomes ready when the stream first flushes its buffer. */
FILE *mt_output_stream(struct mt_output *o);

int mt_output_close(struct mt_output *o, FILE *f);

/* Ends an output without a stream: all was written, or `failed` with this errno value. Returns 0, or an exit
 * code after a message. */
int mt_output_end(struct mt_output *o, int failed, int error);

/* Ends an output of JSON and closes the JSON. Returns 0, or an exit code after a message. */
int mt_output_json(struct mt_output *o, struct mt_json *j);

/* Removes the file if it was created but never became ready, or is incomplete after a failed write. */
void mt_output_abandon(struct mt_output *o);

/* Progress of reading that takes more than two seconds: a changing line on a terminal, else a line every ten
 * seconds. */
struct mt_progress {
    int on, terminal, shown;
    struct timespec begin, last;
};

void mt_progress_init(struct mt_progress *p);
void mt_progress_step(struct mt_progress *p, struct mt_source *s, uint64_t records);
void mt_progress_end(struct mt_progress *p);

/* ---- ending early ---- */

/* Tells that a signal has ended a program that ran for the command. Its output is read for about a second;
 * then the command ends as after a signal of its own. */
void mt_stop_soon(int number);

/* Registers a temporary folder, which is removed with its files at the end; the caller owns the name. NULL:
 * none. */
void mt_stop_scratch(const char *folder);

/* Removes a folder and the files in it. */
void mt_stop_remove(const char *folder);

#endif
