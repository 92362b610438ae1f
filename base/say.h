/* Words of a command on stderr: one line, "PROGRAM: sentence". What runs inside traced programs has report.h,
 * which leaves stdio, errno and signals alone.
 *
 * Exit codes: 0 fine; 1 runtime failure (system, memory, output); 2 usage (options, inputs that cannot be
 * opened); 3 the input is truncated, corrupt or incomplete, or reading was interrupted:
 * what was whole is reported. */
#ifndef MT_BASE_SAY_H
#define MT_BASE_SAY_H

enum { MT_EXIT_OK = 0, MT_EXIT_FAILURE = 1, MT_EXIT_USAGE = 2, MT_EXIT_INPUT = 3 };

extern const char *mt_cli_name; /* "memtrace extract"; main sets it */
/* While it is not 0, nothing is said: another process says it. */
extern int mt_cli_quiet;
/* -q: nothing is said but what makes the program fail, or the trace incomplete. */
extern int mt_cli_brief;

/* Names that a terminal could obey become visible in the sentence. */
__attribute__((format(printf, 1, 2))) void mt_cli_say(const char *format, ...);
/* The same for what is good to know and no more: not with -q. */
__attribute__((format(printf, 1, 2))) void mt_cli_note(const char *format, ...);
/* The same; returns MT_EXIT_FAILURE. */
__attribute__((format(printf, 1, 2))) int mt_cli_fail(const char *format, ...);
/* The same; returns MT_EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int mt_cli_refuse(const char *format, ...);
/* Says that the command line is wrong and where help is; returns MT_EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int mt_cli_usage(const char *format, ...);
/* Says that a part was left out of the build (MEMTRACE_PARTS), and how it comes back; returns MT_EXIT_USAGE.
 */
int mt_cli_left_out(const char *part);
#endif
