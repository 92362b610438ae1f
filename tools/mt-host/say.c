/* What mt-host says on stderr. */
#include "cli.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static void say_line(const char *format, va_list args)
{
    flockfile(stderr);
    fprintf(stderr, "%s: ", program_invocation_short_name); /* "mt-host", or "memtrace host" */
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    funlockfile(stderr);
}

void mt_hostrun_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(format, args);
    va_end(args);
}

int mt_hostrun_refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(format, args);
    va_end(args);
    return EXIT_USAGE;
}

int mt_hostrun_usage(const char *mode, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; %s%s%s --help says more\n", program_invocation_short_name, mode ? " " : "",
            mode ? mode : "");
    va_end(args);
    return EXIT_USAGE;
}
