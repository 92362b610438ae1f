/* memtrace run: runs a program that was not built for memtrace, traced. docs/man/memtrace-run.md is its
 * manual.
 *
 * main.c         the command line
 * engine.c       GPU or CPU device, and what is needed for that
 * program.c      what the program is, and whether it can be traced
 * environment.c  what makes the dynamic linker load us
 * libraries.c    which libraries it loads
 * list.c         --list
 *
 * Functions return 0, or the exit code after a message: 1 failure, 2 usage or a program that cannot be
 * traced. */
#ifndef MT_TOOLS_MT_RUN_H
#define MT_TOOLS_MT_RUN_H
#include <limits.h>
#include <spawn.h>
#include "base/say.h"
#include "base/words.h"

enum { EXIT_FAILED = 1, EXIT_REFUSED = 2 };

/* ---- engine.c */
struct engine {
    int gpu;     /* there is one, or the user says so */
    int asked;   /* -d gpu */
    int injects; /* the program is traced on the GPU as it is; else on the CPU device */
    char injection[PATH_MAX], library[PATH_MAX]; /* ours, and NVIDIA's; "": there is none */
    char why[2 * PATH_MAX];                      /* a sentence: what is missing, and the way out */
};
void mt_run_engine_find(struct engine *e);
/* Says what is not as the user would expect; refuses what cannot be. */
int mt_run_engine_check(const struct engine *e);
/* --list: what would happen on a GPU, and what happens here. */
void mt_run_engine_list(const struct engine *e);

/* ---- program.c */
struct program {
    char path[PATH_MAX]; /* what is started: of a script, the script */
    const char *what;    /* a word on its CUDA runtime for -v */
    int injected;        /* it is traced on a GPU, where its runtime stays as it is */
};
/* Finds it in PATH as a shell does, and makes sure that it can be traced by this engine. */
int mt_run_program_find(struct program *p, const char *name, const struct engine *e);

/* ---- environment.c */
/* For the program at `path`: puts ours before what is there, once. */
int mt_run_environment_set(const char *path, const struct engine *e);
/* The variables as words for a shell, on stdout. */
void mt_run_environment_print(void);

/* ---- libraries.c */
/* Runs a program and waits for it. The exit code, or EXIT_FAILED after a message. */
int mt_run_wait(char *const *argv, const posix_spawn_file_actions_t *actions);
/* Adds the paths of all libraries that the program or library is linked to. Nothing of them runs. With `talk`
 * those that are not found are said. */
int mt_run_libraries(const char *path, struct words *files, int talk);

/* ---- list.c */
/* What traces here, and which device code the file and its libraries carry; NULL: the first alone. */
int mt_run_list(const char *name);
/* --cache-list or --cache-clear of the folder where programs keep images; the exit code. */
int mt_run_cache(const char *what);
#endif
