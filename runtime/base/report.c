/* Words to the user: one line on stderr, "memtrace: …". */
#include "report.h"
#include "held.h"
#include "options.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILES_SAID 16

static void report_line(const char *format, va_list ap)
{
    int saved = errno;
    char text[2048] = "memtrace: ";
    size_t n = strlen(text);
    int m = vsnprintf(text + n, sizeof text - n - 1, format, ap);
    if (m > 0)
        n += (size_t)m < sizeof text - n - 1 ? (size_t)m : sizeof text - n - 2;
    text[n++] = '\n';
    struct mt_held h = mt_hold(SIGPIPE); /* who reads stderr may be gone: that must not end the program */
    int failed = 0;
    for (size_t done = 0; done < n;) {
        ssize_t w = write(STDERR_FILENO, text + done, n - done);
        failed = w < 0 ? errno : 0;
        if (w <= 0 && failed != EINTR)
            break; /* nowhere left to say it */
        done += w > 0 ? (size_t)w : 0;
    }
    mt_let_go(&h, failed);
    errno = saved;
}

void mt_report(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    report_line(format, ap);
    va_end(ap);
}

void mt_report_file(const char *format, ...)
{
    static _Atomic unsigned said;
    unsigned n = said++;
    va_list ap;
    va_start(ap, format);
    if (n < FILES_SAID)
        report_line(format, ap);
    va_end(ap);
    if (n == FILES_SAID)
        mt_report("more files cannot be written; they are not named any more");
}

void mt_note(const char *format, ...)
{
    va_list ap;
    if (mt_options()->quiet)
        return;
    va_start(ap, format);
    report_line(format, ap);
    va_end(ap);
}

void mt_say(const char *format, ...)
{
    va_list ap;
    if (!mt_options()->verbose)
        return;
    va_start(ap, format);
    report_line(format, ap);
    va_end(ap);
}
