/* Messages of a command on stderr: one line, "PROGRAM: sentence". Code inside traced programs uses report.h,
 * which leaves stdio, errno and signals alone. Exit codes: 0 success; 1 runtime failure (system, memory,
 * output that cannot be written to the end); 2 usage error (options, inputs that cannot be opened, outputs
 * that cannot be created); 3 input truncated, corrupt or incomplete, or reading was interrupted: the intact
 * part is reported. */
#ifndef MT_BASE_SAY_H
#define MT_BASE_SAY_H

enum { MT_EXIT_OK = 0, MT_EXIT_FAILURE = 1, MT_EXIT_USAGE = 2, MT_EXIT_INPUT = 3 };

extern const char *mt_cli_name; /* "memtrace extract"; set by main */
/* 1: prints nothing, since another process does */
extern int mt_cli_quiet;
/* 1 with -q: prints only failures and incomplete traces */
extern int mt_cli_brief;

/* Prints a message. Control characters in it are made visible. */
__attribute__((format(printf, 1, 2))) void mt_cli_say(const char *format, ...);
/* Prints a note; silent with -q. */
__attribute__((format(printf, 1, 2))) void mt_cli_note(const char *format, ...);
/* Prints an error; returns MT_EXIT_FAILURE. */
__attribute__((format(printf, 1, 2))) int mt_cli_fail(const char *format, ...);
/* Prints an error; returns MT_EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int mt_cli_refuse(const char *format, ...);
/* Reports a wrong command line and where to find help; returns MT_EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int mt_cli_usage(const char *format, ...);
/* Reports that a part was left out of the build (MEMTRACE_PARTS) and how to add it; returns MT_EXIT_USAGE. */
int mt_cli_left_out(const char *part);
#endif
