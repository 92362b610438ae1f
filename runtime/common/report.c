#include "report.h"
#include "options.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILES_SAID 16

static void line(const char *format, va_list ap)
{
    int saved = errno;
    char text[2048] = "memtrace: ";
    size_t n = strlen(text);
    int m = vsnprintf(text + n, sizeof text - n - 1, format, ap);
    if (m > 0)
        n += (size_t)m < sizeof text - n - 1 ? (size_t)m : sizeof text - n - 2;
    text[n++] = '\n';
    for (size_t done = 0; done < n;) {
        ssize_t w = write(STDERR_FILENO, text + done, n - done);
        if (w <= 0 && errno != EINTR)
            break; /* nowhere left to say it */
        done += w > 0 ? (size_t)w : 0;
    }
    errno = saved;
}

void mt_report(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    line(format, ap);
    va_end(ap);
}

void mt_report_file(const char *format, ...)
{
    static _Atomic unsigned said;
    unsigned n = said++;
    va_list ap;
    va_start(ap, format);
    if (n < FILES_SAID)
        line(format, ap);
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
    line(format, ap);
    va_end(ap);
}

void mt_say(const char *format, ...)
{
    va_list ap;
    if (!mt_options()->verbose)
        return;
    va_start(ap, format);
    line(format, ap);
    va_end(ap);
}
