/* What a command takes: rows of command.def. */
#include "command.h"
#include "near.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum group {
    MT_GROUP_RESULT,
    MT_GROUP_CHOICE,
    MT_GROUP_ANALYSIS,
    MT_GROUP_INPUT,
    MT_GROUP_GENERAL,
    MT_GROUPS
};
static const char *const headings[MT_GROUPS] = {"Result", "What is looked at", "How", "Input", "General"};

static const struct {
    enum mt_option_id id;
    const char *name;
    int letter;
} options[] = {
#define MT_OPTION(id, name, letter) {MT_OPT_##id, name, letter},
#define MT_OPTION_OF(id, argument, commands, group, what)
#include "command.def"
#undef MT_OPTION
#undef MT_OPTION_OF
};
#define OPTIONS (sizeof options / sizeof *options)

static const struct row {
    enum mt_option_id id;
    const char *argument;
    unsigned of;
    enum group group;
    const char *what;
} rows[] = {
#define MT_OPTION(id, name, letter)
#define MT_OPTION_OF(id, argument, commands, group, what)                                                    \
    {MT_OPT_##id, argument, commands, MT_GROUP_##group, what},
#include "command.def"
#undef MT_OPTION
#undef MT_OPTION_OF
};
#define ROWS (sizeof rows / sizeof *rows)

enum { INDENT = 24, WIDTH = 100 };

static int command_argument(const struct row *r)
{
    return !*r->argument ? no_argument : *r->argument == '[' ? optional_argument : required_argument;
}

void mt_command_table(unsigned of, int hidden, struct option *list, char *letters)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (!(r->of & of) || (!r->what && !hidden))
            continue;
        int letter = options[r->id - MT_OPT_FIRST - 1].letter, argument = command_argument(r);
        *list++ = (struct option){options[r->id - MT_OPT_FIRST - 1].name, argument, NULL, (int)r->id};
        if (letter)
            *letters++ = (char)letter;
        for (int k = 0; letter && k < argument; k++)
            *letters++ = ':';
    }
    *list = (struct option){0};
    *letters = 0;
}

/* ---- help ---- */

/* `text` in lines that end before WIDTH, all but the first after `INDENT` blanks; '\n' ends one, too. */
static void command_wrapped(const char *text, int column)
{
    for (int begun = 0; *text; begun = 1) {
        int n = (int)strcspn(text, " \n");
        if (begun && (text[-1] == '\n' || column + 1 + n > WIDTH)) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        } else if (begun) {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, text);
        column += n;
        text += n + (text[n] != 0);
    }
    putchar('\n');
}

static void command_row(const struct row *r)
{
    const char *name = options[r->id - MT_OPT_FIRST - 1].name;
    int letter = options[r->id - MT_OPT_FIRST - 1].letter;
    const char *equals = *r->argument && *r->argument != '[' ? "=" : "";
    int n = letter ? printf("  -%c, --%s%s%s", letter, name, equals, r->argument)
                   : printf("      --%s%s%s", name, equals, r->argument);
    if (n + 1 >= INDENT)
        n = printf("\n") - 1;
    printf("%*s", INDENT - n, "");
    command_wrapped(r->what, INDENT);
}

void mt_command_help(const struct mt_command *c)
{
    fputs(c->before, stdout);
    for (int g = 0; g < MT_GROUPS; g++)
        for (size_t i = 0, any = 0; i < ROWS; i++) {
            if (!(rows[i].of & c->of) || rows[i].group != (enum group)g || !rows[i].what)
                continue;
            if (!any++)
                printf("\n%s:\n", headings[g]);
            command_row(&rows[i]);
        }
    printf("\n%s", c->after);
}

/* The same for a manual page, a row of a table for each. */
static void command_markdown(unsigned of)
{
    puts("| option | meaning |\n|---|---|");
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (!(r->of & of) || !r->what)
            continue;
        int letter = options[r->id - MT_OPT_FIRST - 1].letter;
        const char *equals = *r->argument && *r->argument != '[' ? "=" : "";
        fputs("| ", stdout);
        if (letter)
            printf("`-%c`, ", letter);
        printf("`--%s%s", options[r->id - MT_OPT_FIRST - 1].name, equals);
        for (const char *p = r->argument; *p; p++)
            printf("%s%c", *p == '|' ? "\\" : "", *p);
        fputs("` | ", stdout);
        for (const char *p = r->what; *p; p++)
            fputs(*p == '\n' ? "<br>" : *p == '|' ? "\\|" : (char[]){*p, 0}, stdout);
        puts(" |");
    }
}

/* ---- parsing ---- */

static enum mt_option_id command_id(int o)
{
    for (size_t i = 0; o <= MT_OPT_FIRST && i < OPTIONS; i++)
        if (options[i].letter == o)
            return options[i].id;
    return (enum mt_option_id)o;
}

/* What is asked for in place of work: words on stdout. 1: it was. */
static int command_asked(const struct mt_command *c, int argc, char **argv,
                         int (*take)(void *arg, int option), void *arg)
{
    struct option list[MT_OPT_END - MT_OPT_FIRST];
    char letters[2 * (MT_OPT_END - MT_OPT_FIRST)];
    mt_command_table(c->of, 0, list, letters);
    if (mt_near_completion(argc, argv, letters, list))
        return 1;
    if (argc == 2 && strcmp(argv[1], "--help-markdown") == 0) {
        command_markdown(c->of);
        return 1;
    }
    int o = mt_near_values(argc, argv, letters, list);
    if (o > 0)
        take(arg, (int)command_id(o));
    return o != 0;
}

static int command_refuse(const struct mt_command *c, const char *argument, const struct option *list)
{
    const char *near = mt_near_option(argument, list);
    return near ? c->wrong("did you mean --%s?", near) : c->wrong("unknown or incomplete option");
}

static void command_version(const char *path)
{
    const char *slash = strrchr(path, '/');
    printf("%s (memtrace) %s\n", slash ? slash + 1 : path, MEMTRACE_VERSION);
}

int mt_command_options(const struct mt_command *c, int argc, char **argv, int (*take)(void *arg, int option),
                       void *arg)
{
    struct option list[MT_OPT_END - MT_OPT_FIRST];
    char letters[2 * (MT_OPT_END - MT_OPT_FIRST) + 1] = "+";
    int rc = 0, o;
    if (command_asked(c, argc, argv, take, arg))
        return -1;
    mt_command_table(c->of, 1, list, letters + (c->stops != 0));
    while (rc == 0 && (o = getopt_long(argc, argv, letters, list, NULL)) != -1) {
        enum mt_option_id id = command_id(o);
        if (o == '?')
            rc = command_refuse(c, argv[optind - 1], list);
        else if (id == MT_OPT_HELP)
            mt_command_help(c);
        else if (id == MT_OPT_VERSION)
            command_version(argv[0]);
        else
            rc = take(arg, (int)id);
        if (id == MT_OPT_HELP || id == MT_OPT_VERSION)
            return -1;
    }
    return rc;
}
