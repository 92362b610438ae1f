/* What mt-host says on stderr. */
#include "cli.h"
#include <stdarg.h>
#include <stdio.h>

static void say_line(const char *format, va_list args)
{
    flockfile(stderr);
    fputs("mt-host: ", stderr);
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
    fputs("mt-host: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; mt-host%s%s --help says more\n", mode ? " " : "", mode ? mode : "");
    va_end(args);
    return EXIT_USAGE;
}
