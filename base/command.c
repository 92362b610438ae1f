/* Parses the command lines of all commands, from the rows of command.def. */
#include "command.h"
#include "near.h"
#include "say.h"
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
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help)                                  \
    {MT_OPT_HOST_##field, name, letter},
#include "host_options.def"
};

static const struct row {
    enum mt_option_id id;
    const char *argument;
    unsigned of;
    enum group group;
    const char *what;
    const char *kinds, *standard; /* of host_options.def: its modes, its default value */
} rows[] = {
#define MT_OPTION(id, name, letter)
#define MT_OPTION_OF(id, argument, commands, group, what)                                                    \
    {MT_OPT_##id, argument, commands, MT_GROUP_##group, what, NULL, ""},
#include "command.def"
#undef MT_OPTION
#undef MT_OPTION_OF
#define ARGUMENT_STRING(values) values
#define ARGUMENT_NUMBER(values) values
#define ARGUMENT_POWER(values) values
#define ARGUMENT_LIST(values) values
#define ARGUMENT_SWITCH(values) "[=" values "]"
#define MT_HOST_OPTION(kind, field, letter, name, modes, def, values, help)                                  \
    {MT_OPT_HOST_##field, ARGUMENT_##kind(values), MT_OF_HOST, MT_GROUP_RESULT, help, modes, def},
#include "host_options.def"
};
#define ROWS (sizeof rows / sizeof *rows)

enum { INDENT = 24, WIDTH = 100 };

const char *mt_command_option(int id)
{
    return options[id - MT_OPT_FIRST - 1].name;
}

static int command_letter(const struct row *r)
{
    return options[r->id - MT_OPT_FIRST - 1].letter;
}

void mt_command_table(unsigned of, int hidden, struct option *list, char *letters)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (!(r->of & of) || (!r->what && !hidden))
            continue;
        int letter = command_letter(r), argument = !*r->argument         ? no_argument
                                                   : *r->argument == '[' ? optional_argument
                                                                         : required_argument;
        *list++ = (struct option){mt_command_option((int)r->id), argument, NULL, (int)r->id};
        if (letter)
            *letters++ = (char)letter;
        for (int k = 0; letter && k < argument; k++)
            *letters++ = ':';
    }
    *list = (struct option){0};
    *letters = 0;
}

/* ---- help ---- */

/* Prints `text` wrapped at WIDTH, with all lines but the first indented by INDENT. '\n' breaks a line. */
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
    char text[600];
    const char *name = mt_command_option((int)r->id);
    int letter = command_letter(r);
    const char *equals = *r->argument && *r->argument != '[' ? "=" : "";
    int n = letter ? printf("  -%c, --%s%s%s", letter, name, equals, r->argument)
                   : printf("      --%s%s%s", name, equals, r->argument);
    if (n + 1 >= INDENT)
        n = printf("\n") - 1;
    printf("%*s", INDENT - n, "");
    snprintf(text, sizeof text, *r->standard ? "%s (default %s)" : "%s", r->what, r->standard);
    command_wrapped(*r->standard ? text : r->what, INDENT);
}

/* Returns 1 if the help lists the row. */
static int command_helps(const struct mt_command *c, const struct row *r)
{
    return r->of & c->of && r->what && (c->kind ? r->kinds && strchr(r->kinds, c->kind) : !r->kinds);
}

void mt_command_help(const struct mt_command *c)
{
    fputs(c->before, stdout);
    for (int g = 0; g < MT_GROUPS; g++)
        for (size_t i = 0, any = 0; i < ROWS; i++) {
            if (rows[i].group != (enum group)g || !command_helps(c, &rows[i]))
                continue;
            if (!any++)
                printf("\n%s%s", c->kind ? "" : headings[g], c->kind ? "" : ":\n");
            command_row(&rows[i]);
        }
    printf("\n%s", c->after);
}

/* Prints the options as a Markdown table, for manual pages. */
static void command_markdown(const struct mt_command *c)
{
    puts("| option | meaning |\n|---|---|");
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (!command_helps(c, r))
            continue;
        int letter = command_letter(r);
        const char *equals = *r->argument && *r->argument != '[' ? "=" : "";
        fputs("| ", stdout);
        if (letter)
            printf("`-%c`, ", letter);
        printf("`--%s%s", mt_command_option((int)r->id), equals);
        for (const char *p = r->argument; *p; p++)
            printf("%s%c", *p == '|' ? "\\" : "", *p);
        fputs("` | ", stdout);
        for (const char *p = r->what; *p; p++)
            fputs(*p == '\n' ? "<br>" : *p == '|' ? "\\|" : (char[]){*p, 0}, stdout);
        puts(" |");
    }
}

/* ---- parsing ---- */

/* Returns the command's option with getopt_long's letter or number `o`, or NULL. */
static const struct row *command_find(const struct mt_command *c, int o)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].of & c->of && o && ((int)rows[i].id == o || command_letter(&rows[i]) == o))
            return &rows[i];
    return NULL;
}

/* Prints the values that an option accepts, for shell completion. */
static void command_values(const struct row *r, int (*take)(void *arg, int option), void *arg)
{
    const char *p = strchr(r->argument, '|') ? r->argument : "";
    for (size_t n; *p; p += n + (p[n] == '|')) {
        p += strspn(p, "[=");
        n = strcspn(p, "|]");
        if (*p < 'A' || *p > 'Z') /* upper case: a placeholder such as NAME */
            printf("%.*s\n", (int)n, p);
    }
    if (r->id != MT_OPT_OUTPUT && !r->kinds)
        take(arg, (int)r->id);
}

/* Answers --help, --version and completion requests on stdout. Returns 1 if there was one. */
static int command_asked(const struct mt_command *c, int argc, char **argv,
                         int (*take)(void *arg, int option), void *arg)
{
    struct option list[MT_OPT_END - MT_OPT_FIRST];
    char letters[MT_OPT_LETTERS];
    mt_command_table(c->of, 0, list, letters);
    if (mt_near_completion(argc, argv, letters, list))
        return 1;
    if (argc == 2 && strcmp(argv[1], "--help-markdown") == 0) {
        command_markdown(c);
        return 1;
    }
    int o = mt_near_values(argc, argv, letters, list);
    if (o > 0)
        command_values(command_find(c, o), take, arg);
    return o != 0;
}

/* Reports a wrong option; `o` and `word` come from getopt_long. */
static int command_refuse(const struct mt_command *c, int o, const char *word, const struct option *list)
{
    const struct row *r = command_find(c, optopt);
    if (o == ':')
        return mt_cli_usage("--%s needs a value (%s)", mt_command_option((int)r->id), r->argument);
    if (r)
        return mt_cli_usage("%s: this option takes no value", word);
    if (optopt)
        return mt_cli_usage("unknown option -%c", optopt);
    const char *near = mt_near_option(word, list);
    return near ? mt_cli_usage("option %s is unknown: did you mean --%s?", word, near)
                : mt_cli_usage("option %s is unknown, or short for several", word);
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
    char letters[MT_OPT_LETTERS + 2] = "+:";
    int rc = 0, o;
    opterr = 0;
    if (command_asked(c, argc, argv, take, arg))
        return -1;
    mt_command_table(c->of, 1, list, letters + 2);
    while (rc == 0 && (o = getopt_long(argc, argv, letters + !c->stops, list, NULL)) != -1) {
        int id = o == '?' || o == ':' ? 0 : (int)command_find(c, o)->id;
        if (!id)
            rc = command_refuse(c, o, argv[optind - 1], list);
        else if (id == MT_OPT_HELP)
            mt_command_help(c);
        else if (id == MT_OPT_VERSION)
            command_version(argv[0]);
        else
            rc = take(arg, id);
        if (id == MT_OPT_HELP || id == MT_OPT_VERSION)
            return -1;
    }
    return rc;
}
