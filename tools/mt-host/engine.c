/* Which engine, and its command. */
#include "cli.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options in the environment: words of options.def with blanks between them; a backslash makes the next
 * character an ordinary one. */
static void add_environment(const struct request *r, struct command *c)
{
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    for (size_t i = 0; f && i < r->core.count; i++) {
        if (i)
            fputc(' ', f);
        for (const char *s = r->core.word[i]; *s; s++) {
            if (strchr(" \t\n\\", *s))
                fputc('\\', f);
            fputc(*s, f);
        }
    }
    if (!f || fclose(f) != 0) {
        mt_hostrun_say("no memory");
        exit(EXIT_ENGINE);
    }
    mt_words_addf(&c->env, "MEMTRACE_HOST=%s", text);
    free(text);
}

static int llvm_command(const struct request *r, const struct program *p, struct command *c)
{
    if (strcmp(r->mode, "insn") == 0)
        return mt_hostrun_usage("insn",
                                "the compile-time engine knows no machine instructions; use --engine=qemu");
    if (!p->instrumented)
        return mt_hostrun_refuse("%s was not built with mt-cc --host; build it so, or use --engine=qemu",
                                 p->path);
    strcpy(c->path, p->path);
    for (size_t i = 0; i < p->argv.count; i++)
        mt_words_add(&c->argv, p->argv.word[i]);
    add_environment(r, c);
    return 0;
}

int mt_hostrun_engine_command(const struct request *r, const struct program *p, struct command *c,
                              const char **engine)
{
    *engine = r->engine;
    if (strcmp(r->engine, "auto") == 0)
        *engine = p->instrumented && strcmp(r->mode, "insn") != 0 ? "llvm" : "qemu";
    if (strcmp(*engine, "llvm") == 0)
        return llvm_command(r, p, c);
    if (p->instrumented) /* one trace is enough */
        mt_words_add(&c->env, "MEMTRACE_HOST=off");
    return strcmp(*engine, "pin") == 0 ? mt_hostrun_pin_command(r, p, c) : mt_hostrun_qemu_command(r, p, c);
}
