/* System calls of the guest that change its address space, its program (exec) or its signal handlers. */
#define _GNU_SOURCE
#include "syscalls.h"
#include "follow.h"
#include "guest.h"
#include "modules.h"
#include "../core/output.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <ctype.h>
#include <elf.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* ---- exec: the traced program becomes another one ---- */

enum { OWN = 7 }; /* memtrace host --engine=ENGINE --exec --argv0=… … -- PATH */

static const char *follower;
static char engine_word[64];
static char *const *word;
static int words;
static char output[PATH_MAX];
static char program[PATH_MAX];

void mt_follow_start(const char *host, const char *engine, char *const *w, int count,
                     const struct mt_core_options *o)
{
    char folder[PATH_MAX / 2];
    follower = host;
    snprintf(engine_word, sizeof engine_word, "--engine=%s", engine);
    word = w;
    words = count;
    int whole = *o->output == '/' || mt_core_output_number(o->output) >= 0;
    int there = whole || getcwd(folder, sizeof folder);
    int n = snprintf(output, sizeof output, "%s%s%s",
                     whole   ? ""
                     : there ? folder
                             : ".",
                     whole ? "" : "/", o->output);
    if (n < 0 || (size_t)n >= sizeof output)
        follower = NULL;
}

void mt_follow_program(const char *path)
{
    snprintf(program, sizeof program, "%s", path ? path : "");
}

/* Reads the command line of another process of this engine, which runs memtrace's words, with the program
 * behind -0 ARGV0. */
static int follow_other(const char *pid, char out[PATH_MAX])
{
    char name[64], text[PATH_MAX * 2], *word = text;
    snprintf(name, sizeof name, "/proc/%.20s/cmdline", pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    for (int i = 0; i < 5; i++) { /* qemu -plugin WORDS -0 ARGV0 PROGRAM */
        word += strlen(word) + 1;
        if (word >= text + n || (i == 0 && strcmp(word, "-plugin")) || (i == 2 && strcmp(word, "-0")))
            return -1;
    }
    n = *word == '/' ? snprintf(out, PATH_MAX, "%s", word)
                     : snprintf(out, PATH_MAX, "/proc/%.20s/cwd/%s", pid, word);
    return n < PATH_MAX ? 0 : -1;
}

/* Returns the file that the program means. For /proc/PID/exe the kernel's answer is the engine: then `out`
 * has the program that runs under it. Else returns `path`. */
static const char *follow_file(const char *path, char out[PATH_MAX])
{
    struct stat named, own;
    char pid[24];
    int end = 0;
    if (sscanf(path, "/proc/%20[^/]/exe%n", pid, &end) != 1 || !end || path[end] || stat(path, &named) ||
        stat("/proc/self/exe", &own) || named.st_dev != own.st_dev || named.st_ino != own.st_ino)
        return path;
    if (!strcmp(pid, "self") || !strcmp(pid, "thread-self") || strtol(pid, NULL, 10) == getpid())
        snprintf(out, PATH_MAX, "%s", program);
    else if (follow_other(pid, out) != 0)
        return path;
    return *out ? out : path;
}

/* Returns 1 if memtrace host can trace this file: an x86-64 program or a script. */
static int follow_can(const char *path)
{
    union {
        Elf64_Ehdr elf;
        char text[64];
    } head;
    struct stat st;
    int can = 0, fd = follower ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & (S_ISUID | S_ISGID)) &&
        read(fd, &head, sizeof head) >= 2)
        can = !memcmp(head.text, "#!", 2) ||
              (!memcmp(head.elf.e_ident, ELFMAG, SELFMAG) && head.elf.e_ident[EI_CLASS] == ELFCLASS64 &&
               head.elf.e_machine == EM_X86_64);
    if (fd >= 0)
        close(fd);
    return can;
}

/* Computes the next name: "a/x.mtc" -> "a/x.exec1.mtc" -> "a/x.exec2.mtc"; a FIFO keeps its name. */
static int next_output(char next[PATH_MAX])
{
    struct stat st;
    char *slash = strrchr(output, '/'), *dot = strrchr(output, '.'), *mark;
    size_t stem = dot && dot > slash + 1 ? (size_t)(dot - output) : strlen(output), end = stem;
    unsigned number = 1;
    if (mt_core_output_number(output) >= 0 || (stat(output, &st) == 0 && !S_ISREG(st.st_mode)))
        return snprintf(next, PATH_MAX, "%s", output) < PATH_MAX ? 0 : -1;
    while (end > 0 && isdigit((unsigned char)output[end - 1]))
        end--;
    mark = output + end - strlen(".exec");
    if (end < stem && mark > slash && !strncmp(mark, ".exec", 5)) {
        number = (unsigned)strtoul(output + end, NULL, 10) + 1;
        end -= strlen(".exec");
    } else {
        end = stem;
    }
    int n = snprintf(next, PATH_MAX, "%.*s.exec%u%s", (int)end, output, number, output + stem);
    return n > 0 && n < PATH_MAX ? 0 : -1;
}

/* Becomes memtrace host after the trace is closed. A file named only in /proc (a descriptor, which exec
 * may close) stays open. Returns only on failure (or if exec is not followed). */
static void mt_follow(const char *path, char *const *argv, char *const *envp)
{
    static char *no_words[] = {NULL};
    char next[PATH_MAX], name[PATH_MAX + 16], file[PATH_MAX + 2], *first = NULL;
    size_t n = 0, count = 0;
    if (!follower || next_output(next) != 0)
        return;
    argv = argv ? argv : no_words;
    while (argv[count])
        count++;
    char **line = malloc((OWN + (size_t)words + 2 + count + 1) * sizeof *line);
    if (!line || asprintf(&first, "--argv0=%s", count ? argv[0] : path) < 0)
        goto out;
    snprintf(name, sizeof name, "--output=%s", next);
    int fd = !strncmp(path, "/proc/", 6) || !strncmp(path, "/dev/fd/", 8) ? open(path, O_RDONLY) : -1;
    if (fd >= 0)
        snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    else
        snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path);
    line[n++] = "memtrace";
    line[n++] = "host";
    line[n++] = engine_word;
    line[n++] = "--exec";
    line[n++] = first;
    line[n++] = word[0];
    for (int i = 1; i < words; i++)
        if (strncmp(word[i], "--output=", 9) != 0)
            line[n++] = word[i];
    line[n++] = name;
    line[n++] = "--";
    line[n++] = file;
    for (size_t i = 1; i < count; i++)
        line[n++] = argv[i];
    line[n] = NULL;
    execve(follower, line, envp);
out:
    free(first);
    free(line);
}

enum { PAGE = 4096, CLOSE_ON_EXEC = 4 /* CLOSE_RANGE_CLOEXEC */ };

static uint64_t syscalls_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static int syscalls_failed(int64_t result)
{
    return result < 0 && result >= -4095;
}

static uint64_t program_break; /* 0: unknown yet; changes under the engine's lock of the address space */

/* Returns a vector of the guest's strings for the host. Guest addresses are the host's unless the user
 * moved them; exec is not followed then. */
static char *const *syscalls_vector(uint64_t address)
{
    return address ? (char *const *)(uintptr_t)mt_guest(address) : NULL;
}

/* Prepares for an exec of the program. */
static void syscalls_leaves(const char *path, uint64_t argv, uint64_t envp)
{
    char real[PATH_MAX];
    if (access(path, X_OK) != 0)
        return;
    const char *file = follow_file(path, real);
    int follow = mt_guest_base == 0 && mt_core_on() && follow_can(file);
    mt_core_stop(0);
    if (follow)
        mt_follow(file, syscalls_vector(argv), syscalls_vector(envp));
    if (file != path && mt_guest_base == 0) /* the kernel would run the engine */
        execve(file, syscalls_vector(argv), syscalls_vector(envp));
}

void mt_syscall_in_child(int64_t number, const uint64_t args[6])
{
    char real[PATH_MAX];
    const char *path = mt_guest(args[0]);
    if (mt_guest_base != 0)
        return;
    if (number == SYS_execve && access(path, X_OK) == 0 && follow_file(path, real) != path)
        execve(real, syscalls_vector(args[1]), syscalls_vector(args[2]));
    if (number == SYS_execveat) /* older engines lack it */
        syscall(SYS_execveat, args[0], args[1], args[2], args[3], args[4]);
}

/* execveat(descriptor, path, argv, envp, flags) */
static void syscalls_leaves_at(const uint64_t args[6])
{
    char name[PATH_MAX];
    const char *path = mt_guest(args[1]);
    int fd = (int)args[0], n = 0;
    if (access(path, F_OK) != 0 && errno == EFAULT)
        return;
    if (!*path && args[4] & AT_EMPTY_PATH)
        n = snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    else if (*path != '/' && fd != AT_FDCWD)
        n = snprintf(name, sizeof name, "/proc/self/fd/%d/%s", fd, path);
    if (n < PATH_MAX)
        syscalls_leaves(n ? name : path, args[2], args[3]);
}

void mt_syscall_enter(struct mt_syscall *s, struct mt_core_thread *t, int64_t number, const uint64_t args[6],
                      uint64_t site)
{
    s->number = number;
    s->site = site;
    memcpy(s->args, args, sizeof s->args);
    switch (number) {
    case SYS_close:
        mt_core_descriptors_closing((uint32_t)args[0], (uint32_t)args[0]);
        break;
    case SYS_dup2:
    case SYS_dup3:
        mt_core_descriptors_closing((uint32_t)args[1], (uint32_t)args[1]);
        break;
    case SYS_close_range:
        if (!(args[2] & CLOSE_ON_EXEC))
            mt_core_descriptors_closing((uint32_t)args[0], (uint32_t)args[1]);
        break;
    case SYS_munmap: /* now: afterwards another thread may have got the range */
        if (args[0] % PAGE == 0 && args[1]) {
            mt_modules_changed(args[0], syscalls_pages(args[1]));
            if (!s->silent)
                mt_core_unmap(t, args[0], syscalls_pages(args[1]));
        }
        break;
    case SYS_execve:
        syscalls_leaves(mt_guest(args[0]), args[1], args[2]);
        break;
    case SYS_execveat:
        syscalls_leaves_at(args);
        break;
    default:
        break;
    }
}

/* ---- loads by the kernel ---- */

uint32_t mt_syscall_site(uint64_t ip)
{
    return mt_core_site_of(ip + 1, &(struct mt_core_site){.ip = ip, .op = MT_HOST_LOAD, .runtime = 1});
}

/* Copies from the program's memory, which may be unmapped. */
static int syscalls_copy(void *to, uint64_t from, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)mt_guest(from), bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes ? 0 : -1;
}

static unsigned syscalls_add(struct mt_core_operand *o, unsigned n, uint64_t address, uint64_t bytes)
{
    if (!bytes || n == MT_CORE_OPERANDS)
        return n;
    o[n] = (struct mt_core_operand){.address = address, .size = bytes < INT_MAX ? (uint32_t)bytes : INT_MAX};
    return n + 1;
}

/* Reads vectors; the kernel takes no longer ones. */
static unsigned syscalls_vectors(struct mt_core_operand *o, uint64_t vectors, uint64_t count, uint64_t *at)
{
    struct iovec v;
    unsigned n = 0;
    for (; *at < count && count <= IOV_MAX && n < MT_CORE_OPERANDS; ++*at) {
        if (syscalls_copy(&v, vectors + *at * sizeof v, sizeof v) != 0)
            break;
        n = syscalls_add(o, n, (uint64_t)(uintptr_t)v.iov_base, v.iov_len);
    }
    return n;
}

unsigned mt_syscall_reads(int64_t number, const uint64_t args[6], uint64_t *at,
                          struct mt_core_operand o[MT_CORE_OPERANDS])
{
    struct msghdr message;
    unsigned n = 0;
    switch (number) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_sendto:
        n = *at ? 0 : syscalls_add(o, 0, args[1], args[2]);
        *at = 1;
        break;
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
        n = syscalls_vectors(o, args[1], args[2], at);
        break;
    case SYS_sendmsg:
        if (syscalls_copy(&message, args[1], sizeof message) == 0)
            n = syscalls_vectors(o, (uint64_t)(uintptr_t)message.msg_iov, message.msg_iovlen, at);
        break;
    default:
        break;
    }
    return n;
}

static void syscalls_remapped(const struct mt_syscall *s, struct mt_core_thread *t, uint64_t base)
{
    const uint64_t *a = s->args;
    mt_modules_changed(a[0], syscalls_pages(a[1]));
    mt_modules_changed(base, syscalls_pages(a[2]));
    if (!s->silent)
        mt_core_remap(t, a[0], syscalls_pages(a[1]), base, syscalls_pages(a[2]), s->site);
}

static void syscalls_broke(const struct mt_syscall *s, struct mt_core_thread *t, uint64_t now)
{
    uint64_t was = __atomic_exchange_n(&program_break, now, __ATOMIC_RELAXED);
    if (was && was != now)
        mt_core_brk(t, was, now, s->site);
}

/* Returns 1 for a new process; clone also makes threads. */
static int syscalls_is_child(const struct mt_syscall *s, int64_t number)
{
    uint64_t flags = number == SYS_clone3 ? mt_guest_u64(s->args[0]) : s->args[0];
    return number == SYS_fork || number == SYS_vfork || !(flags & CLONE_THREAD);
}

void mt_syscall_return(struct mt_syscall *s, struct mt_core_thread *t, int64_t number, int64_t result)
{
    if (number == SYS_close_range)
        mt_core_descriptors_closed();
    if (s->number != number || syscalls_failed(result)) {
        s->number = -1;
        return;
    }
    s->number = -1;
    switch (number) {
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
    case SYS_clone3:
        if (result > 0 && syscalls_is_child(s, number))
            mt_core_child();
        break;
    case SYS_mmap:
        mt_modules_changed((uint64_t)result, syscalls_pages(s->args[1]));
        if (!s->silent)
            mt_core_alloc(t, MT_CORE_MMAP, (uint64_t)result, syscalls_pages(s->args[1]), s->site);
        break;
    case SYS_mremap:
        syscalls_remapped(s, t, (uint64_t)result);
        break;
    case SYS_brk:
        syscalls_broke(s, t, (uint64_t)result);
        break;
    default:
        break;
    }
}
