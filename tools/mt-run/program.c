/* What a program is, and why it cannot be traced. */
#include "mt-run.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/binary.h"
#include "base/part.h"

#define RELINK                                                                                               \
    "build it with NVCC_APPEND_FLAGS=\"--cudart=shared\" in the environment (or nvcc --cudart=shared)"
enum { HEAD = 256, NESTING = 4 }; /* as the kernel: length of a #! line, scripts as interpreters of scripts */

/* With rights that its caller lacks the dynamic linker takes nothing from the environment. */
static int program_check_rights(const char *path, const struct stat *st)
{
    const char *bit = st->st_mode & S_ISUID && st->st_uid != getuid() ? "set-user-id"
                      : (st->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st->st_gid != getgid()
                          ? "set-group-id"
                      : getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0
                          ? "a file with capabilities"
                          : NULL;
    return bit ? mt_cli_refuse(
                     "%s is %s: nothing can be loaded into such a program; run a copy of it without that",
                     path, bit)
               : 0;
}

static const char *program_machine(const Elf64_Ehdr *h)
{
    static char other[32];
    switch (h->e_machine) {
    case EM_386:
        return "32-bit x86";
    case EM_X86_64:
        return "x32";
    case EM_AARCH64:
        return "AArch64";
    case EM_PPC64:
        return "PowerPC";
    default:
        snprintf(other, sizeof other, "machine %u", h->e_machine);
        return other;
    }
}

static int program_check_version(const char *path, int major)
{
    char name[64], file[PATH_MAX];
    snprintf(name, sizeof name, "memtrace/cudart/%s", mt_binary_node(major));
    return major && mt_files_part(name, file) == 0
               ? 0
               : mt_cli_refuse("%s has the runtime of a CUDA version that this memtrace does not take over",
                               path);
}

static int program_check_cudart(struct program *p, const char *path, const struct mt_binary *o)
{
    const struct mt_binary_symbols *where;
    int major;
    switch (mt_binary_cudart(o, &where, &major)) {
    case MT_CUDART_NAMELESS:
        return mt_cli_refuse(
            "%s has a static CUDA runtime whose symbols were stripped, so that it cannot be taken "
            "over: do not strip it, or " RELINK,
            path);
    case MT_CUDART_STATIC:
        p->what = "its static CUDA runtime is taken over in memory";
        return program_check_version(path, major);
    case MT_CUDART_SHARED:
        p->what = "its shared CUDA runtime is replaced";
        return 0;
    default:
        p->what = "it has no CUDA runtime itself; its libraries are looked at as they are loaded";
        return 0;
    }
}

/* On a GPU the driver loads us, into whatever loads the driver. */
static int program_check_injected(struct program *p, const char *path, const struct mt_binary *o)
{
    if (!*mt_binary_linker(o) && !o->soname && mt_binary_section(o, ".nv_fatbin"))
        return mt_cli_refuse(
            "%s is linked statically as a whole (-static): nothing can be loaded into it; link it "
            "without -static",
            path);
    p->what = "its kernels are traced on the GPU as they are";
    return 0;
}

static int program_check_object(struct program *p, const char *path, const struct mt_binary *o)
{
    const char *linker = mt_binary_linker(o);
    if (p->injected)
        return program_check_injected(p, path, o);
    if (*linker && !mt_binary_has_auditors(linker))
        return mt_cli_refuse("%s asks for the dynamic linker %s, which has no auditors as glibc's has: link "
                             "it with glibc",
                             path, linker);
    if (!*linker && mt_binary_section(o, ".nv_fatbin"))
        return mt_cli_refuse(
            "%s is linked statically as a whole (-static): nothing can be loaded into it; link it "
            "without -static",
            path);
    if (!*linker && o->soname) {
        p->what = "it is a dynamic linker: the program that it runs is looked at as it is loaded";
        return 0;
    }
    if (!*linker) {
        p->what = "it is linked statically: only programs that it starts are traced";
        return 0;
    }
    return program_check_cudart(p, path, o);
}

/* Not what object.c reads: a text, or for another machine. */
static int program_check_other(const char *path, const char *head, size_t n)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)head; /* these fields are where those of 32 bits are */
    if (n < 20 || memcmp(head, ELFMAG, SELFMAG) != 0)
        return 0; /* a shell runs it */
    if (h->e_ident[EI_DATA] != ELFDATA2LSB)
        return mt_cli_refuse("%s is a program for a big-endian machine: only x86-64 programs can be traced",
                             path);
    return mt_cli_refuse("%s is a program for %s: only x86-64 programs of 64 bits can be traced", path,
                         program_machine(h));
}

/* The interpreter of a #! line, cut out of it in place; NULL: no such line. */
static char *program_interpreter(char *head)
{
    if (strncmp(head, "#!", 2) != 0)
        return NULL;
    head[strcspn(head, "\n")] = 0;
    char *name = head + 2 + strspn(head + 2, " \t");
    name[strcspn(name, " \t\r")] = 0;
    return name;
}

static int program_look(struct program *p, const char *path, int depth)
{
    struct stat st;
    struct mt_binary o;
    _Alignas(8) char head[HEAD + 1] = "";
    char *interpreter;
    int fd = open(path, O_RDONLY | O_CLOEXEC), code = 0;
    ssize_t n = fd < 0 ? -1 : pread(fd, head, HEAD, 0);
    if (fd < 0 || n < 0 || fstat(fd, &st) != 0) {
        mt_cli_say("%s cannot be read, and is not looked at: %s", path, strerror(errno));
    } else if ((interpreter = program_interpreter(head)) != NULL) {
        p->what = "it is a script: what runs it is looked at as it loads libraries";
        code = depth < NESTING ? program_look(p, interpreter, depth + 1) : 0;
    } else if ((code = program_check_rights(path, &st)) == 0) {
        int why = mt_binary_open(&o, path);
        if (why == 0) {
            code = program_check_object(p, path, &o);
            mt_binary_close(&o);
        } else if (why == ENOEXEC) {
            code = program_check_other(path, head, (size_t)n);
        } else {
            mt_cli_say("%s cannot be read, and is not looked at: %s", path, strerror(why));
        }
    }
    if (fd >= 0)
        close(fd);
    return code;
}

int mt_run_program_find(struct program *p, const char *name, const struct engine *e)
{
    *p = (struct program){.what = "", .injected = e->injects};
    int why = mt_files_executable(name, p->path);
    if (why)
        return mt_cli_refuse("%s: %s", name,
                             why == ENOENT && !strchr(name, '/') ? "there is no such program in PATH"
                                                                 : strerror(why));
    return program_look(p, p->path, 0);
}
