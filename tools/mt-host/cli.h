/* memtrace host: what its files share. docs/man/memtrace-host.md is its manual.
 *
 * Exit status: that of the traced program (128 + number when a signal ended it); 2 when the command line is
 * wrong or names a program that cannot be traced; 1 when the engine cannot run. Functions that return an int
 * return 0 or one of these two, after saying on stderr what is wrong and what helps. */
#ifndef MT_HOST_CLI_H
#define MT_HOST_CLI_H
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include "base/part.h"
#include "base/say.h"
#include "base/words.h"

enum { EXIT_ENGINE = 1, EXIT_USAGE = 2 };

/* Says what is wrong in a command line; returns EXIT_USAGE. `mode` may be NULL. */
__attribute__((format(printf, 2, 3))) int mt_hostrun_usage(const char *mode, const char *format, ...);
/* ---- the command line ---- */

/* A row of host/core/options.def. */
struct option_row {
    char kind; /* S string, N number, P power of two, B switch (0|1), L list */
    char letter;
    const char *name, *modes /* of M A I */, *values, *standard /* default */, *help;
};
extern const struct option_row option_rows[];
extern const size_t option_count;

struct request {
    const char *engine; /* auto, llvm, dynamorio, qemu, pin */
    const char *mode;   /* mat, insn, atomic */
    int unasked;        /* no word said which: the default one, with --library=data */
    struct words given; /* the mode's options: "threshold", "4096", "signal", "1" … */
    struct words core;  /* the same for mt_core_options_parse: "mat", "--threshold=4096" … */
    const char *output; /* as given, or the mode's default */
    int container;      /* that is what it is */
    int signals;        /* --signal 1 */
    int show, verbose, quiet;
    int exec;          /* become the program: it was one that we traced before its exec */
    const char *argv0; /* NULL: the program's name as given */
    char **program;    /* its argv */
};
/* Reads it. -1: nothing more to do, exit with 0. */
int mt_hostrun_request_read(struct request *r, int argc, char **argv);
/* Another mode for one that was not asked for. */
int mt_hostrun_request_mode(struct request *r, const char *mode);
void mt_hostrun_request_free(struct request *r);
/* Help on one mode, or NULL: on the program; on stdout. */
void mt_hostrun_help_print(const char *mode);

/* ---- the program to trace ---- */

struct program {
    char path[PATH_MAX]; /* the ELF file that will run: for a script, its interpreter */
    struct words argv;   /* argv[0] as the program will see it */
    int instrumented;    /* built with mt-cc --host */
    int ordered;         /* --host=atomic */
    int script;
};
/* Looks for it in PATH as a shell does and makes sure that it can be traced. */
int mt_hostrun_program_find(struct program *p, const struct request *r);
void mt_hostrun_program_free(struct program *p);

/* ---- engines ---- */

struct command {
    char path[PATH_MAX]; /* of what runs */
    struct words argv;
    struct words env; /* NAME=value */
};
/* Chooses (for "auto") and makes the command; *engine is its name. */
int mt_hostrun_engine_command(const struct request *r, const struct program *p, struct command *c,
                              const char **engine);
/* The path of a qemu that can trace: 0, or -1 and why there is none. */
int mt_hostrun_qemu_find(char path[PATH_MAX], const char **why);
int mt_hostrun_qemu_command(const struct request *r, const struct program *p, struct command *c);
int mt_hostrun_dynamorio_command(const struct request *r, const struct program *p, struct command *c);
/* 0 and both paths, or -1 and why the engine is not usable. */
int mt_hostrun_dynamorio_find(char drrun[PATH_MAX], char client[PATH_MAX], const char **why);
/* What --engines prints: each engine, whether it is usable here, and why not; on stdout. */
void mt_hostrun_engines_print(void);
int mt_hostrun_pin_command(const struct request *r, const struct program *p, struct command *c);
/* ---- run, and words on the trace ---- */

/* Runs the command; signals sent to memtrace host go to the program. Returns the exit status for memtrace
 * host. *number: of the signal that ended it, 0: none. */
int mt_hostrun_command_run(const struct command *c, int *number);
/* Becomes the command; returns an exit code only when that fails. */
int mt_hostrun_command_become(const struct command *c);

/* What the output was before the run, so that an old trace is not taken for the new one. */
struct trace_before {
    int there;
    struct stat st;
    struct timespec now;
};
void mt_hostrun_trace_before(struct trace_before *b, const char *path);
/* Words on the trace: where it is, what it has, what to do next. Says always when there is none; the rest
 * only with `talk`. */
void mt_hostrun_trace_words(const struct request *r, const struct trace_before *before, int talk);
#endif
