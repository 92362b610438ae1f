/* Finds the program as a shell and the kernel would: PATH, #! lines, kind of ELF file. */
#include "cli.h"
#include "elf.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD = 256, NESTING = 4 }; /* as the kernel: length of a #! line, scripts as interpreters of scripts */

/* Replaces the script in p->path by its interpreter, as the kernel does: interpreter, the rest of the line as
 * one word, path of the script, its arguments. */
static int unfold_script(struct program *p, const char *head)
{
    char line[HEAD + 1], interpreter[PATH_MAX], *name, *rest;
    struct words argv = {0};
    snprintf(line, sizeof line, "%s", head + 2);
    line[strcspn(line, "\n")] = 0;
    name = line + strspn(line, " \t");
    rest = name + strcspn(name, " \t");
    if (*rest)
        *rest++ = 0;
    rest += strspn(rest, " \t");
    for (size_t n = strlen(rest); n && strchr(" \t\r", rest[n - 1]);)
        rest[--n] = 0;
    int why = *name ? (snprintf(interpreter, sizeof interpreter, "%s", name), 0) : ENOENT;
    if (why == 0 && (why = mt_files_runs(interpreter)))
        return mt_cli_refuse("%s: its interpreter %s cannot be run: %s", p->path, name, strerror(why));
    if (why)
        return mt_cli_refuse("%s: its first line names no interpreter", p->path);
    mt_words_add(&argv, interpreter);
    if (*rest)
        mt_words_add(&argv, rest);
    mt_words_add(&argv, p->path);
    for (size_t i = 1; i < p->argv.count; i++)
        mt_words_add(&argv, p->argv.word[i]);
    mt_words_free(&p->argv);
    p->argv = argv;
    p->script = 1;
    strcpy(p->path, interpreter);
    return 0;
}

static int check_elf(struct program *p, const struct elf_facts *f, mode_t mode)
{
    if (!f->traceable && f->machine[0] && strcmp(f->machine, "x86-64") != 0)
        return mt_cli_refuse("%s is a program for %s; only x86-64 programs can be traced", p->path,
                             f->machine);
    if (!f->traceable)
        return mt_cli_refuse("%s is an ELF file, but not a program that can be run", p->path);
    if (mode & (S_ISUID | S_ISGID) && geteuid() != 0)
        mt_cli_say("%s is set-user-id: traced, it runs with your own rights", p->path);
    p->instrumented = f->instrumented;
    p->ordered = f->ordered;
    return 0;
}

/* 0: an ELF program; 1: a script was unfolded, look again; less: an exit code, negative. */
static int program_look(struct program *p)
{
    struct stat st;
    struct elf_facts facts;
    _Alignas(8) char head[HEAD + 1] = "";
    int code, fd = open(p->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0) {
        code = -mt_cli_refuse("%s cannot be read: %s", p->path, fd < 0 ? strerror(errno) : "it is empty");
        goto out;
    }
    ssize_t got = pread(fd, head, HEAD, 0);
    if (got < 0) {
        code = -mt_cli_refuse("%s cannot be read: %s", p->path, strerror(errno));
        goto out;
    }
    head[got] = 0;
    if (strncmp(head, "#!", 2) == 0) {
        code = unfold_script(p, head) ? -EXIT_USAGE : 1;
        goto out;
    }
    mt_hostrun_elf_read(head, (size_t)got, p->path, &facts);
    if (facts.is_elf)
        code = -check_elf(p, &facts, st.st_mode);
    else
        code = -mt_hostrun_usage(
            NULL, "%s is neither a program nor a script with a #! line; if it is a shell script: sh %s",
            p->path, p->path);
out:
    if (fd >= 0)
        close(fd);
    return code;
}

int mt_hostrun_program_find(struct program *p, const struct request *r)
{
    char *const *argv = r->program;
    memset(p, 0, sizeof *p);
    int why = mt_files_executable(argv[0], p->path);
    if (why == ENOENT && !strchr(argv[0], '/'))
        return mt_cli_refuse("%s: there is no such program in PATH%s", argv[0],
                             r->unasked ? ", nor such a kind of trace (mat, insn, atomic)" : "");
    if (why)
        return mt_cli_refuse("%s: %s", argv[0], strerror(why));
    for (; *argv; argv++)
        mt_words_add(&p->argv, *argv);
    for (int depth = 0; depth <= NESTING; depth++) {
        int code = program_look(p);
        if (code <= 0)
            return -code;
    }
    return mt_cli_refuse("%s: scripts that run scripts, too many levels of them", p->path);
}

void mt_hostrun_program_free(struct program *p)
{
    mt_words_free(&p->argv);
}
