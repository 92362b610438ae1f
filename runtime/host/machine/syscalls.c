/* What the guest asks the kernel for that matters here: its address space, exec. */
#define _GNU_SOURCE
#include "syscalls.h"
#include "follow.h"
#include "guest.h"
#include "modules.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, CLOSE_ON_EXEC = 4 /* CLOSE_RANGE_CLOEXEC */ };

static uint64_t syscalls_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static int syscalls_failed(int64_t result)
{
    return result < 0 && result >= -4095;
}

static uint64_t
    program_break; /* 0: not known yet; changes under the lock of the address space that an engine has */

/* A vector of strings of the guest as the host sees it; guest addresses are the host's unless the user moved
 * them, then exec is not followed. */
static char *const *syscalls_vector(uint64_t address)
{
    return address ? (char *const *)(uintptr_t)mt_guest(address) : NULL;
}

/* The program is about to become another one. */
static void syscalls_leaves(const char *path, uint64_t argv, uint64_t envp)
{
    char real[PATH_MAX];
    if (access(path, X_OK) != 0)
        return;
    const char *file = mt_follow_file(path, real);
    int follow = mt_guest_base == 0 && mt_core_on() && mt_follow_can(file);
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
    if (number == SYS_execve && access(path, X_OK) == 0 && mt_follow_file(path, real) != path)
        execve(real, syscalls_vector(args[1]), syscalls_vector(args[2]));
    if (number == SYS_execveat) /* older engines do not have it */
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
