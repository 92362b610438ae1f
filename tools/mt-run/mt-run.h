/* mt-run: runs a program that was not built for memtrace, traced. docs/man/mt-run.md is its manual.
 *
 * main.c         the command line
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
#include "words.h"

enum { EXIT_FAILED = 1, EXIT_REFUSED = 2 };

/* One line on stderr with "mt-run: " before it. */
void mt_run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; returns EXIT_REFUSED. */
int mt_run_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- program.c */
struct program {
    char path[PATH_MAX]; /* what is started: of a script, the script */
    const char *what;    /* a word on its CUDA runtime for -v */
};
/* Finds it in PATH as a shell does, and makes sure that it can be traced. */
int mt_run_program_find(struct program *p, const char *name);

/* ---- environment.c */
/* For the program at `path`: puts ours before what is there, once. */
int mt_run_environment_set(const char *path);
/* The variables as words for a shell, on stdout. */
void mt_run_environment_print(void);

/* ---- libraries.c */
/* Runs a program and waits for it. The exit code, or EXIT_FAILED after a message. */
int mt_run_wait(char *const *argv, const posix_spawn_file_actions_t *actions);
/* Adds the paths of all libraries that the program or library is linked to. Nothing of them runs. With `talk`
 * those that are not found are said. */
int mt_run_libraries(const char *path, struct words *files, int talk);

/* ---- list.c */
/* Which device code the file and its libraries carry. */
int mt_run_list(const char *name);
#endif
