/* What mt-ptx says holds names of its input: what a terminal could obey in them becomes visible. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mt-ptx.h"
#include "reader/base/text.h"

static FILE *say_plain; /* stderr as it was */

/* Lines stay lines. */
static void say_put(FILE *to, const char *text, size_t n)
{
    const char *end = text + n;
    while (text < end) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        char *visible = mt_text_visible_copy(text, (size_t)((lf ? lf : end) - text));
        fputs(visible ? visible : "out of memory", to);
        free(visible);
        if (lf) {
            fputc('\n', to);
        }
        text = lf ? lf + 1 : end;
    }
}

void mt_ptxtool_put(FILE *to, const char *text)
{
    say_put(to, text, strlen(text));
}

static ssize_t say_write(void *unused, const char *text, size_t n)
{
    (void)unused;
    say_put(say_plain, text, n);
    return (ssize_t)n;
}

void mt_ptxtool_say_visibly(void)
{
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = say_write});
    if (f) {
        setvbuf(f, NULL, _IOLBF, BUFSIZ); /* characters stay whole */
        say_plain = stderr;
        stderr = f;
    }
}
