/* mt-env: prints the table of environment variables that the runtime reads, with this process's values.
 * `mt-env --markdown` prints the table as it is in the documentation. Exit codes: 0,
 * 1 write error, 2 usage. */
#include "options.h"
#include "cli/base/near.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mt_env_usage(FILE *f, int rc)
{
    fputs("usage: mt-env [OPTION]\n"
          "Lists the MEMTRACE_* variables that traced programs read: name, default, value now, meaning.\n"
          "  -q, --quiet    those that are set now alone, as NAME=value\n"
          "      --markdown the table for the documentation\n"
          "  -h, --help     this text\n"
          "  -V, --version  the version\n",
          f);
    return rc;
}

static const char *mt_env_shown(const char *s)
{
    return *s ? s : "(empty)";
}

static void mt_env_plain(void)
{
#define MT_OPTION(kind, field, name, def, values, help)                                                      \
    {                                                                                                        \
        const char *now = getenv(name);                                                                      \
        printf("%-22s default %-16s values %-14s\n", name, mt_env_shown(def), values);                       \
        if (now)                                                                                             \
            printf("%22s now     %s\n", "", mt_env_shown(now));                                              \
        printf("%22s %s\n", "", help);                                                                       \
    }
#include "options.def"
}

/* '|' would end a cell. */
static void mt_env_cell(const char *s)
{
    for (; *s; s++)
        fputs(*s == '|' ? "\\|" : (char[2]){*s, 0}, stdout);
}

static void mt_env_markdown(void)
{
    puts("| variable | default | values | meaning |");
    puts("|---|---|---|---|");
#define MT_OPTION(kind, field, name, def, values, help)                                                      \
    printf("| `%s` | ", name);                                                                               \
    fputs(*def ? "`" def "`" : "(empty)", stdout);                                                           \
    fputs(" | ", stdout);                                                                                    \
    mt_env_cell(values);                                                                                     \
    fputs(" | ", stdout);                                                                                    \
    mt_env_cell(help);                                                                                       \
    puts(" |");
#include "options.def"
}

static void mt_env_set(void)
{
#define MT_OPTION(kind, field, name, def, values, help)                                                      \
    if (getenv(name))                                                                                        \
        printf("%s=%s\n", name, getenv(name));
#include "options.def"
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"markdown", no_argument, NULL, 'm'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    int c, what = 0;
    if (mt_near_completion(argc, argv, "qhV", options) || mt_near_values(argc, argv, "qhV", options))
        return mt_near_told("mt-env");
    while (what != 'h' && what != 'V' && (c = getopt_long(argc, argv, "qhV", options, NULL)) != -1) {
        const char *near = c == '?' ? mt_near_option(argv[optind - 1], options) : NULL;
        if (near)
            fprintf(stderr, "mt-env: did you mean --%s?\n", near);
        if (c == '?')
            return mt_env_usage(stderr, 2);
        what = c;
    }
    if (what == 'h')
        mt_env_usage(stdout, 0);
    else if (what != 'V' && optind < argc)
        return mt_env_usage(stderr, 2);
    if (what == 'V')
        puts("mt-env (memtrace) " MEMTRACE_VERSION);
    else if (what == 'm')
        mt_env_markdown();
    else if (what == 'q')
        mt_env_set();
    else
        mt_env_plain();
    return mt_near_told("mt-env");
}
