/* memtrace host: traces the memory accesses of a program; docs/man/memtrace-host.md is its manual. */
#include "cli.h"
#include "base/create.h"
#include "base/near.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void main_show(const struct command *c)
{
    struct words path = {0}, rest = {0};
    mt_words_add(&path, c->path);
    for (size_t i = 1; i < c->argv.count; i++)
        mt_words_add(&rest, c->argv.word[i]);
    mt_words_print(&c->env);
    fputs(c->env.count ? " " : "", stdout);
    mt_words_print(&path);
    fputs(rest.count ? " " : "", stdout);
    mt_words_print(&rest);
    putchar('\n');
    mt_words_free(&path);
    mt_words_free(&rest);
}

/* The engines would each say it, after the program has begun. */
static int main_has_place(const struct request *r)
{
    struct stat st;
    char folder[PATH_MAX];
    const char *slash = strrchr(r->output, '/');
    if (!slash || slash == r->output ||
        (size_t)snprintf(folder, sizeof folder, "%.*s", (int)(slash - r->output), r->output) >= sizeof folder)
        return 1;
    return strchr(folder, '%') || (stat(folder, &st) == 0 && S_ISDIR(st.st_mode));
}

/* The program, a script, or a file that it is given. The number of the process is not known yet. */
static int main_reads(const struct request *r, const struct program *p)
{
    const char *script = p->script ? r->program[0] : p->path;
    int reads = mt_output_is_input(r->output, p->path) || mt_output_is_input(r->output, script);
    for (size_t i = 1; i < p->argv.count && !reads; i++)
        reads = mt_output_is_input(r->output, p->argv.word[i]);
    return reads;
}

static int main_trace(const struct request *r, const struct command *c, const char *engine)
{
    struct trace_before before;
    int talk = !r->quiet && (r->verbose || isatty(STDERR_FILENO));
    if (!main_has_place(r))
        return mt_cli_refuse("%s: its folder does not exist: create it or give another -o", r->output);
    mt_hostrun_trace_before(&before, r->output);
    if (r->verbose)
        mt_cli_say("engine %s: %s", engine, c->path);
    if (talk && r->signals)
        mt_cli_say("silent until: kill -USR1 %d; until kill -USR2 %d", (int)getpid(), (int)getpid());
    int number, code = mt_hostrun_command_run(c, &number);
    if (talk && number)
        mt_cli_say("the program was ended by signal %d (%s)", number, strsignal(number));
    mt_hostrun_trace_words(r, &before, talk);
    return code;
}

int main(int argc, char **argv)
{
    struct request r;
    struct program p = {.path = ""};
    struct command c = {.path = ""};
    const char *engine;
    mt_cli_name = program_invocation_short_name; /* "mt-host", or "memtrace host" */
    mt_words_begin("memtrace host: no memory");
    int code = mt_hostrun_request_read(&r, argc, argv);
    if (code == 0)
        code = mt_hostrun_program_find(&p, &r);
    if (code == 0 && r.unasked && p.instrumented && !p.ordered && strchr("al", *r.engine)) /* auto, llvm */
        code = mt_hostrun_request_mode(&r, "mat");
    if (code == 0 && r.argv0 && !p.script)
        mt_words_replace(&p.argv, 0, r.argv0);
    if (code == 0)
        code = mt_hostrun_engine_command(&r, &p, &c, &engine);
    if (code == 0 && r.show)
        main_show(&c);
    else if (code == 0 && r.exec)
        code = mt_hostrun_command_become(&c);
    else if (code == 0 && main_reads(&r, &p))
        code = mt_cli_refuse("the output %s is what is run or read; give another -o", r.output);
    else if (code == 0)
        code = main_trace(&r, &c, engine);
    mt_words_free(&c.argv);
    mt_words_free(&c.env);
    mt_hostrun_program_free(&p);
    mt_hostrun_request_free(&r);
    return code == -1 ? mt_near_told() : code; /* -1: words on stdout were asked for */
}
