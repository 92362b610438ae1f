/* memtrace env: prints the table of environment variables that the runtime reads, with this process's values.
 * `memtrace env --markdown` prints the table as it is in the documentation. Exit codes: 0,
 * 1 write error, 2 usage. */
#include "base/options.h"
#include "base/command.h"
#include "base/near.h"
#include "base/say.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_command command = {
    .of = MT_OF_ENV,
    .before =
        "Usage: memtrace env [OPTION]\n"
        "Lists the MEMTRACE_* variables that traced programs read: name, default, value now, meaning.\n",
    .after = "Exit code: 0 fine, 1 the output failed, 2 wrong usage.\n",
    .wrong = mt_cli_usage,
};

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
#include "base/options.def"
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
#include "base/options.def"
}

static void mt_env_set(void)
{
#define MT_OPTION(kind, field, name, def, values, help)                                                      \
    if (getenv(name))                                                                                        \
        printf("%s=%s\n", name, getenv(name));
#include "base/options.def"
}

static int mt_env_option(void *arg, int o)
{
    *(int *)arg = o;
    return 0;
}

int main(int argc, char **argv)
{
    mt_cli_name = "mt-env";
    int what = 0, code = mt_command_options(&command, argc, argv, mt_env_option, &what);
    if (code > 0)
        return code;
    if (code == 0 && optind < argc)
        return mt_cli_usage("'%s' is too much", argv[optind]);
    if (code == 0 && what == MT_OPT_MARKDOWN)
        mt_env_markdown();
    else if (code == 0 && what == MT_OPT_QUIET)
        mt_env_set();
    else if (code == 0)
        mt_env_plain();
    return mt_near_told();
}
