/* Runs the command, or becomes it. */
#include "cli.h"
#include "base/run.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_failed(const struct command *c, int why)
{
    mt_cli_say("%s cannot be run: %s", c->path, strerror(why));
    return EXIT_ENGINE;
}

int mt_hostrun_command_become(const struct command *c)
{
    for (size_t i = 0; i < c->env.count; i++)
        putenv(c->env.word[i]);
    execv(c->path, c->argv.word);
    return run_failed(c, errno);
}

int mt_hostrun_command_run(const struct command *c, int *number)
{
    struct mt_program_run child = {.path = c->path, .argv = c->argv.word, .env = c->env.word};
    int code = mt_child_run(&child);
    *number = child.ended;
    return code < 0 ? run_failed(c, child.why) : code;
}
