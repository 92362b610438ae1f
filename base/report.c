/* Messages to the user: one line on stderr, "memtrace: …". */
#include "report.h"
#include "held.h"
#include "options.h"
#include "text.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_SAID 16
#define ONCE 256 /* number of different messages remembered; others are printed every time */

static void report_line(const char *format, va_list ap)
{
    int saved = errno;
    char text[2048] = "memtrace: ";
    size_t n = strlen(text);
    char plain[sizeof text];
    if (vsnprintf(plain, sizeof plain, format, ap) > 0)
        n += mt_text_visible(text + n, sizeof text - n - 1, plain, strlen(plain));
    text[n++] = '\n';
    struct mt_held h = mt_hold(SIGPIPE); /* stderr may be a closed pipe, which must not end the program */
    int failed = 0;
    for (size_t done = 0; done < n;) {
        ssize_t w = write(STDERR_FILENO, text + done, n - done);
        failed = w < 0 ? errno : 0;
        if (w <= 0 && failed != EINTR)
            break; /* stderr is closed or full */
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

/* ---- repeated messages ---- */

struct report_words {
    char *text;
    unsigned long long more; /* repetitions since the first */
};
/* Set while a thread uses the table; others then print their message even if it is a repetition. Not a lock,
 * which fork would have to take: ThreadSanitizer supports at most 64 held at once. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static struct report_words said[ONCE];
static unsigned nsaid;

static const char *report_after_number(const char *s)
{
    return strncmp(s, "0x", 2) == 0 ? s + 2 + strspn(s + 2, "0123456789abcdef") : s + strspn(s, "0123456789");
}

/* Returns 1 if two messages differ only in numbers (threads, addresses, counts), but not in a number after a
 * colon, which is a line. */
static int report_alike(const char *a, const char *b)
{
    for (; *a && *a == *b; a++, b++)
        if (*a != ':') {
            a = report_after_number(a + 1) - 1;
            b = report_after_number(b + 1) - 1;
        }
    return *a == *b;
}

/* Counts a message. Returns 1 if it is to be printed. */
static int report_first(const char *text)
{
    unsigned i = 0;
    if (atomic_flag_test_and_set(&busy))
        return 1;
    while (i < nsaid && !report_alike(said[i].text, text))
        i++;
    int first = i == nsaid;
    if (!first)
        said[i].more++;
    else if (nsaid < ONCE && (said[nsaid].text = strdup(text)))
        nsaid++;
    atomic_flag_clear(&busy);
    return first;
}

static void report_once(const char *format, va_list ap)
{
    char text[2048];
    vsnprintf(text, sizeof text, format, ap);
    if (report_first(text))
        mt_report("%s", text);
}

void mt_report_once(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    report_once(format, ap);
    va_end(ap);
}

void mt_note_once(const char *format, ...)
{
    va_list ap;
    if (mt_options()->quiet)
        return;
    va_start(ap, format);
    report_once(format, ap);
    va_end(ap);
}

void mt_report_again(void)
{
    if (atomic_flag_test_and_set(&busy))
        return;
    for (unsigned i = 0; i < nsaid; i++) {
        if (said[i].more)
            mt_report("%llu times more: %s", said[i].more, said[i].text);
        said[i].more = 0;
    }
    atomic_flag_clear(&busy);
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
