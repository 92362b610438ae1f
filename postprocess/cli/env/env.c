/* memtrace env: prints the runtime's environment variables with their values in this process. `memtrace env
 * --markdown` prints the table of the documentation. Exit codes: 0, 1 write error, 2 usage. */
#include "cli/base/commands.h"
#include "cli/base/cli.h"
#include "base/near.h"
#include "base/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_command command = {
    .of = MT_OF_ENV,
    .before =
        "Usage: memtrace env [OPTION]\n"
        "Lists the MEMTRACE_* variables that traced programs read: name, default, value now, meaning.\n",
    .after = "Exit code: 0 fine, 1 the output failed, 2 wrong usage.\n",
};

static const char *env_shown(const char *s)
{
    return *s ? s : "(empty)";
}

static void env_plain(void)
{
#define MT_OPTION(kind, field, name, def, values, help)                                                      \
    {                                                                                                        \
        const char *now = getenv(name);                                                                      \
        printf("%-22s default %-16s values %-14s\n", name, env_shown(def), values);                          \
        if (now)                                                                                             \
            printf("%22s now     %s\n", "", env_shown(now));                                                 \
        printf("%22s %s\n", "", help);                                                                       \
    }
#include "base/options.def"
}

/* Writes a table cell, with '|' escaped. */
static void env_cell(const char *s)
{
    for (; *s; s++)
        fputs(*s == '|' ? "\\|" : (char[2]){*s, 0}, stdout);
}

static void env_markdown(void)
{
    puts("| variable | default | values | meaning |");
    puts("|---|---|---|---|");
#define MT_OPTION(kind, field, name, def, values, help)                                                      \
    printf("| `%s` | ", name);                                                                               \
    fputs(*def ? "`" def "`" : "(empty)", stdout);                                                           \
    fputs(" | ", stdout);                                                                                    \
    env_cell(values);                                                                                        \
    fputs(" | ", stdout);                                                                                    \
    env_cell(help);                                                                                          \
    puts(" |");
#include "base/options.def"
}

static void env_set(void)
{
#define MT_OPTION(kind, field, name, def, values, help)                                                      \
    if (getenv(name))                                                                                        \
        printf("%s=%s\n", name, getenv(name));
#include "base/options.def"
}

static int env_option(void *arg, int o)
{
    *(int *)arg = o;
    return 0;
}

int mt_env_command(int argc, char **argv)
{
    int what = 0, code = mt_cli_options(&command, argc, argv, env_option, &what);
    if (code)
        return code < 0 ? MT_EXIT_OK : code;
    if (optind < argc)
        return mt_cli_usage("'%s' is too much", argv[optind]);
    (what == MT_OPT_MARKDOWN ? env_markdown : what == MT_OPT_QUIET ? env_set : env_plain)();
    return mt_near_told();
}
