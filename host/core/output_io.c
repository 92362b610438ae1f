/* Reads and writes files that output.c has opened. */
#define _GNU_SOURCE
#include "descriptors.h"
#include "output.h"
#include "platform.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define KERNEL_SIGSET 8 /* bytes of the kernel's signal set */
#define SLURP_MAX (64u << 20)

static char whole_path[4096]; /* path of the open file, absolute as the program may change folders; empty:
                               * unknown */

void mt_core_output_remember(const struct mt_core_output *o)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", o->fd);
    long n = mt_sys(__NR_readlink, (long)link, (long)whole_path, sizeof whole_path - 1, 0, 0, 0);
    whole_path[n > 0 && n < (long)sizeof whole_path - 1 ? n : 0] = 0;
}

/* Returns 1 while the number still means the file. */
static int is_ours(const struct mt_core_output *o, int fd)
{
    struct stat st;
    int saved = errno;
    int same = fd >= 0 && !fstat(fd, &st) && st.st_dev == o->dev && st.st_ino == o->ino;
    errno = saved;
    return same;
}

void mt_core_output_close(struct mt_core_output *o)
{
    mt_descriptor_leave(o);
    if (is_ours(o, o->fd))
        mt_sys(__NR_close, o->fd, 0, 0, 0, 0, 0);
    o->fd = -1;
}

/* ---- write ---- */

static int write_all(int fd, const char *p, size_t bytes)
{
    while (bytes) {
        long n = mt_sys(__NR_write, fd, (long)p, (long)bytes, 0, 0, 0);
        if (n == -EINTR || n == -EAGAIN)
            continue;
        if (n <= 0)
            return n ? (int)-n : ENOSPC;
        p += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Reopens the file at its end after the program has closed our descriptor. Returns 0 or EBADF. */
static int open_again(struct mt_core_output *o)
{
    if (o->fifo || !*whole_path)
        return EBADF;
    long fd = mt_descriptor_up(mt_sys(__NR_open, (long)whole_path,
                                      O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0, 0));
    if (fd < 0)
        return EBADF;
    if (!is_ours(o, (int)fd) || mt_sys(__NR_flock, fd, LOCK_EX | LOCK_NB, 0, 0, 0, 0) ||
        mt_sys(__NR_lseek, fd, 0, SEEK_END, 0, 0, 0) < 0) {
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
        return EBADF;
    }
    o->fd = (int)fd; /* the old number is the program's now */
    return 0;
}

/* SIGPIPE and SIGXFSZ go to the writing thread: they are blocked, and the one we caused is consumed. */
struct held {
    uint64_t mine, old, pending;
};

static struct held output_io_hold(int signo)
{
    struct held h = {.mine = 1ull << (signo - 1)};
    mt_sys(__NR_rt_sigpending, (long)&h.pending, KERNEL_SIGSET, 0, 0, 0, 0);
    mt_sys(__NR_rt_sigprocmask, SIG_BLOCK, (long)&h.mine, (long)&h.old, KERNEL_SIGSET, 0, 0);
    return h;
}

static void let_go(struct held *h, int error)
{
    if ((error == EPIPE || error == EFBIG) && !(h->pending & h->mine)) {
        long none[2] = {0, 0};
        while (mt_sys(__NR_rt_sigtimedwait, (long)&h->mine, 0, (long)none, KERNEL_SIGSET, 0, 0) == -EINTR)
            ;
    }
    mt_sys(__NR_rt_sigprocmask, SIG_SETMASK, (long)&h->old, 0, KERNEL_SIGSET, 0, 0);
}

static int write_now(struct mt_core_output *o, const void *data, size_t bytes)
{
    if (o->error || o->fd < 0)
        return o->error ? o->error : EBADF;
    if (!is_ours(o, o->fd) && (o->error = open_again(o)))
        return o->error;
    struct held h = output_io_hold(o->fifo ? SIGPIPE : SIGXFSZ);
    o->error = write_all(o->fd, data, bytes);
    let_go(&h, o->error);
    return o->error;
}

int mt_core_output_write(struct mt_core_output *o, const void *data, size_t bytes)
{
    mt_spin_lock(&o->lock);
    int rc = write_now(o, data, bytes);
    mt_spin_unlock(&o->lock);
    return rc;
}

/* ---- scratch files and small input files ---- */

static int output_io_own(struct mt_core_output *o, long fd)
{
    struct stat st;
    *o = (struct mt_core_output){.fd = (int)fd};
    if (fstat(o->fd, &st))
        return errno;
    o->dev = st.st_dev;
    o->ino = st.st_ino;
    mt_descriptor_watch(o);
    return 0;
}

int mt_core_output_scratch(struct mt_core_output *o, char *why, size_t size)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    if (!folder || !*folder)
        folder = "/tmp";
    for (uint64_t attempt = 0; attempt < 100; attempt++) {
        snprintf(path, sizeof path, "%s/memtrace-%u-%llx", folder, mt_plat_pid(),
                 (unsigned long long)(mt_plat_now_ns() + attempt));
        long fd = mt_descriptor_up(
            mt_sys(__NR_open, (long)path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600, 0, 0, 0));
        if (fd == -EEXIST || fd == -EINTR)
            continue;
        if (fd >= 0)
            mt_sys(__NR_unlink, (long)path, 0, 0, 0, 0, 0);
        else
            snprintf(why, size, "no scratch file in %s: %s; set TMPDIR", folder, strerror((int)-fd));
        return fd >= 0 ? output_io_own(o, fd) : (int)-fd;
    }
    snprintf(why, size, "no scratch file in %s: names are taken; set TMPDIR", folder);
    return EEXIST;
}

int mt_core_output_pread(struct mt_core_output *o, void *data, size_t bytes, uint64_t offset)
{
    mt_spin_lock(&o->lock);
    int rc = is_ours(o, o->fd) ? mt_plat_pread(o->fd, data, bytes, offset) : EBADF;
    mt_spin_unlock(&o->lock);
    return rc;
}

static int pwrite_all(int fd, const char *p, size_t bytes, uint64_t offset)
{
    while (bytes) {
        long n = mt_sys(__NR_pwrite64, fd, (long)p, (long)bytes, (long)offset, 0, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)-n : ENOSPC;
        p += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int mt_core_output_pwrite(struct mt_core_output *o, const void *data, size_t bytes, uint64_t offset)
{
    int rc = EBADF;
    mt_spin_lock(&o->lock);
    if (is_ours(o, o->fd)) {
        struct held h = output_io_hold(SIGXFSZ);
        rc = pwrite_all(o->fd, data, bytes, offset);
        let_go(&h, rc);
    }
    mt_spin_unlock(&o->lock);
    return rc;
}

char *mt_core_output_slurp(const char *path, size_t *bytes, char *why, size_t size)
{
    struct stat st;
    char *text = NULL;
    long fd = mt_sys(__NR_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    int rc = fd < 0 ? (int)-fd : fstat((int)fd, &st) ? errno : 0;
    if (!rc && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SLURP_MAX))
        rc = EINVAL;
    if (!rc && !(text = mt_plat_map((size_t)st.st_size + 1)))
        rc = ENOMEM;
    if (!rc && st.st_size && (rc = mt_plat_pread((int)fd, text, (size_t)st.st_size, 0))) {
        mt_plat_unmap(text, (size_t)st.st_size + 1);
        text = NULL;
    }
    if (fd >= 0)
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    if (rc)
        snprintf(why, size, "%s cannot be read: %s", path,
                 rc == EINVAL ? "not a small regular file" : strerror(rc));
    else
        *bytes = (size_t)st.st_size;
    return text;
}
