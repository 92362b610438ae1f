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
        mt_cli_say("no memory");
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
        return mt_cli_refuse("%s was not built with mt-cc --host; build it so, or use --engine=qemu",
                             p->path);
    strcpy(c->path, p->path);
    for (size_t i = 0; i < p->argv.count; i++)
        mt_words_add(&c->argv, p->argv.word[i]);
    add_environment(r, c);
    return 0;
}

/* ---- engines on machine code, the best first ---- */

static int engine_dynamorio(char text[PATH_MAX], const char **why)
{
    char client[PATH_MAX];
    return mt_hostrun_dynamorio_find(text, client, why);
}

static int engine_pin(char text[PATH_MAX], const char **why)
{
    const char *root = getenv("PIN_ROOT");
    *why = "PIN_ROOT names no Pin kit, and pin is not in PATH";
    if (root && *root)
        return snprintf(text, PATH_MAX, "%s/pin", root) < PATH_MAX && access(text, X_OK) == 0 ? 0 : -1;
    return mt_files_executable("pin", text) == 0 ? 0 : -1;
}

static const struct {
    const char *name;
    int (*usable)(char path[PATH_MAX], const char **why); /* 0 and what runs, or -1 */
    int (*command)(const struct request *r, const struct program *p, struct command *c);
    int chosen; /* when none is asked for */
} engines[] = {
    {"dynamorio", engine_dynamorio, mt_hostrun_dynamorio_command, 1},
    {"qemu", mt_hostrun_qemu_find, mt_hostrun_qemu_command, 1},
    {"pin", engine_pin, mt_hostrun_pin_command, 0},
};

/* Of those that are chosen unasked the first that is usable; the last one if none is: its command says what
 * to do. */
static const char *engine_machine(void)
{
    char path[PATH_MAX];
    const char *why, *last = NULL;
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (engines[i].chosen) {
            last = engines[i].name;
            if (engines[i].usable(path, &why) == 0)
                break;
        }
    return last;
}

void mt_hostrun_engines_print(void)
{
    char path[PATH_MAX];
    const char *why;
    printf("%-10s usable: for programs built with mt-cc --host\n", "llvm");
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (engines[i].usable(path, &why) == 0)
            printf("%-10s usable: %s\n", engines[i].name, path);
        else
            printf("%-10s not usable: %s\n", engines[i].name, why);
}

int mt_hostrun_engine_command(const struct request *r, const struct program *p, struct command *c,
                              const char **engine)
{
    *engine = r->engine;
    if (strcmp(r->engine, "auto") == 0)
        *engine = p->instrumented && strcmp(r->mode, "insn") != 0 ? "llvm" : engine_machine();
    if (strcmp(*engine, "llvm") == 0)
        return llvm_command(r, p, c);
    if (p->instrumented) /* one trace is enough */
        mt_words_add(&c->env, "MEMTRACE_HOST=off");
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (strcmp(*engine, engines[i].name) == 0)
            return engines[i].command(r, p, c);
    return mt_cli_refuse("unknown engine %s", *engine);
}
