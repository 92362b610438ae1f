/* What memtrace host says of a wrong command line. */
#include "cli.h"
#include <stdio.h>

int mt_hostrun_usage(const char *mode, const char *format, ...)
{
    char end[PATH_MAX];
    va_list args;
    snprintf(end, sizeof end, "; %s%s%s --help says more\n", mt_cli_name, mode ? " " : "", mode ? mode : "");
    va_start(args, format);
    mt_cli_line(format, args, end);
    va_end(args);
    return EXIT_USAGE;
}
