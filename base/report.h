/* Messages to the user: one line on stderr, "memtrace: …". Thread-safe; a line is written in one piece; errno
 * and the program's stdio buffers are unchanged. */
#ifndef MT_COMMON_REPORT_H
#define MT_COMMON_REPORT_H

/* Reports an error that the user must know. */
void mt_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reports a file that cannot be written. After 16 such messages, says once that there are more. */
void mt_report_file(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a note; silent under MEMTRACE_QUIET=1. */
void mt_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Report or note that may recur with each launch: printed once, and counted at exit. Messages that differ
 * only in numbers are the same; line numbers after a file name are not ignored. */
void mt_report_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mt_note_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints how often repeated messages came. Called at exit. */
void mt_report_again(void);
/* Prints a message under MEMTRACE_VERBOSE=1 only. */
void mt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
