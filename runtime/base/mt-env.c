/* mt-env: prints the table of environment variables that the runtime reads, with this process's values.
 * `mt-env --markdown` prints the table as it is in the documentation. Exit codes: 0,
 * 1 write error, 2 usage. */
#include "options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int mt_env_usage(FILE *f, int rc)
{
    fputs("usage: mt-env [--markdown]\n"
          "Lists the MEMTRACE_* variables that traced programs read: name, default, value now, meaning.\n"
          "  --markdown  the table for the documentation\n"
          "  --help\n",
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

int main(int argc, char **argv)
{
    if (argc > 2)
        return mt_env_usage(stderr, 2);
    if (argc == 2 && !strcmp(argv[1], "--help"))
        return mt_env_usage(stdout, 0);
    if (argc == 2 && strcmp(argv[1], "--markdown"))
        return mt_env_usage(stderr, 2);
    if (argc == 2)
        mt_env_markdown();
    else
        mt_env_plain();
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
