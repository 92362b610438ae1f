/* Messages of a command on stderr. */
#include "say.h"
#include "text.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *mt_cli_name = "mt";
int mt_cli_quiet, mt_cli_brief;

/* Prints one message. `end` follows the sentence and contains the line's end. */
static void say_line(const char *format, va_list args, const char *end)
{
    static char
        spare[1024]; /* static, since the message may be about lack of memory; used under stderr's lock */
    char *text = NULL;
    va_list again;
    if (mt_cli_quiet)
        return;
    flockfile(stderr);
    va_copy(again, args);
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
        vsnprintf(spare, sizeof spare, format, again);
    }
    va_end(again);
    fprintf(stderr, "%s: ", mt_cli_name);
    mt_text_put(stderr, text ? text : spare);
    fputs(end, stderr);
    funlockfile(stderr);
    free(text);
}

void mt_cli_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(format, args, "\n");
    va_end(args);
}

void mt_cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!mt_cli_brief)
        say_line(format, args, "\n");
    va_end(args);
}

int mt_cli_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(format, args, "\n");
    va_end(args);
    return MT_EXIT_FAILURE;
}

int mt_cli_refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say_line(format, args, "\n");
    va_end(args);
    return MT_EXIT_USAGE;
}

int mt_cli_usage(const char *format, ...)
{
    char end[128];
    va_list args;
    snprintf(end, sizeof end, " (see %.100s --help)\n", mt_cli_name);
    va_start(args, format);
    say_line(format, args, end);
    va_end(args);
    return MT_EXIT_USAGE;
}

int mt_cli_left_out(const char *part)
{
    return mt_cli_refuse(
        "the part %s was left out of this build; cmake -UMEMTRACE_PARTS gives a build folder all parts",
        part);
}
