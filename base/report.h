/* Words to the user: one line on stderr, "memtrace: …". Thread-safe; a line is written in one piece; errno
 * and the program's stdio buffers are left alone. */
#ifndef MT_COMMON_REPORT_H
#define MT_COMMON_REPORT_H

/* Something is wrong and the user must know. */
void mt_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for files that cannot be written: after 16 of them only that there are more. */
void mt_report_file(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Good to know; silent under MEMTRACE_QUIET=1. */
void mt_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same two, of what may come for each launch: once, and how often it came when the process ends. Words
 * are alike but for their numbers; lines of files are not numbers. */
void mt_report_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mt_note_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The process ends: what came again. */
void mt_report_again(void);
/* Only under MEMTRACE_VERBOSE=1. */
void mt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
