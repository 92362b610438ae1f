/* What mt-ptx says holds names of its input: what a terminal could obey in them becomes visible. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "llvm-pass/unit/options.h"
#include "base/short.h"
#include "mt-ptx.h"
#include "base/text.h"

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

/* ---- signals that LLVM brings about: what there is to say is put together before ---- */

static char say_end[1024];

static void say_signal(int number)
{
    const char *name = sigabbrev_np(number);
    struct iovec parts[] = {{(void *)(uintptr_t)"memtrace: SIG", 13},
                            {(void *)(uintptr_t)name, strlen(name)},
                            {say_end, strlen(say_end)}};
    if (writev(2, parts, 3) < 0) {
        return; /* nobody listens */
    }
    raise(number); /* now as it is by default, when this returns */
}

void mt_ptxtool_say_signals(const char *kernel)
{
    static char stack[65536]; /* the program's own may be what is used up */
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    struct sigaction action = {.sa_handler = say_signal, .sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER};
    snprintf(
        say_end, sizeof say_end,
        " while LLVM compiled %s%s: %s in MEMTRACE_PTX_OPTIONS makes other code of it, which may go well\n",
        kernel ? "kernel " : "the module", kernel ? mt_short(kernel).text : "",
        mt_pass_options.vectors ? "--mt-vectors=off" : "--mt-cpu=x86-64-v2");
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &action, NULL);
    }
}
