#define _GNU_SOURCE
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

#define WAIT_STEP_NS 5000000u
#define WAIT_WORDS 400  /* steps until we say that we wait: 2 s */
#define KERNEL_SIGSET 8 /* bytes */
#define SLURP_MAX (64u << 20)
#ifndef F_DUPFD_CLOEXEC
#define F_DUPFD_CLOEXEC 1030 /* the kernel's */
#endif

static char name[4096];
static char whole_path[4096]; /* of the open file, whatever folder the program goes to; empty: unknown */

/* ---- open ---- */

const char *mt_output_name(const char *pattern)
{
    size_t n = 0;
    for (const char *p = pattern; *p; p++) {
        int pid = p[0] == '%' && p[1] == 'p', room = (int)(sizeof name - n);
        int wrote = pid ? snprintf(name + n, (size_t)room, "%u", mt_plat_pid())
                        : snprintf(name + n, (size_t)room, "%c", *p);
        if (wrote >= room)
            return NULL;
        n += (size_t)wrote;
        p += pid;
    }
    name[n] = 0;
    return name;
}

/* x.mtc becomes x.1234.mtc, others x.1234. */
static int add_pid(void)
{
    char end[8] = "";
    size_t n = strlen(name);
    if (n > 4 && !strcmp(name + n - 4, ".mtc")) {
        n -= 4;
        strcpy(end, ".mtc");
    }
    int room = (int)(sizeof name - n);
    return snprintf(name + n, (size_t)room, ".%u%s", mt_plat_pid(), end) < room ? 0 : -1;
}

static int refuse(const struct stat *st, const char *path, char *why, size_t size)
{
    uint32_t me = (uint32_t)mt_sys(__NR_geteuid, 0, 0, 0, 0, 0, 0);
    if (S_ISLNK(st->st_mode))
        snprintf(why, size, "%s is a symbolic link and is not followed; remove it or give another -o", path);
    else if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
        snprintf(why, size, "%s is neither a regular file nor a FIFO; give another -o", path);
    else if (st->st_uid != me)
        snprintf(why, size, "%s belongs to user %u, not to us; give another -o", path, (unsigned)st->st_uid);
    else if (S_ISREG(st->st_mode) && st->st_nlink > 1)
        snprintf(why, size, "%s has %lu hard links and is not overwritten; give another -o", path,
                 (unsigned long)st->st_nlink);
    else
        return 0;
    return S_ISLNK(st->st_mode) ? ELOOP : EPERM;
}

static int failed(const char *path, int error, char *why, size_t size)
{
    if (error == ENOENT)
        snprintf(why, size, "%s cannot be written: its folder does not exist; create it or give another -o",
                 path);
    else
        snprintf(why, size, "%s cannot be written: %s; give another -o", path, strerror(error));
    return error;
}

/* The same file under a number of 3 or more; a negative errno value stays. */
static long up(long fd)
{
    if (fd < 0 || fd > 2)
        return fd;
    long higher = mt_sys(__NR_fcntl, fd, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
    mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    return higher;
}

/* Opens without truncating. EAGAIN: a FIFO without reader. */
static int open_once(const char *path, int *fd, char *why, size_t size)
{
    struct stat st;
    if (!lstat(path, &st)) {
        int rc = refuse(&st, path, why, size);
        if (rc)
            return rc;
    }
    long rc;
    do
        rc = up(mt_sys(__NR_open, (long)path,
                       O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_CREAT, 0600, 0, 0, 0));
    while (rc == -EINTR);
    *fd = (int)rc;
    if (rc == -ENXIO)
        return EAGAIN;
    return rc < 0 ? failed(path, (int)-rc, why, size) : 0;
}

/* The file behind the descriptor is what counts: the path may have changed since lstat. */
static int adopt(struct mt_output *o, int fd, const char *path, char *why, size_t size)
{
    struct stat st;
    if (fstat(fd, &st))
        return failed(path, errno, why, size);
    int rc = refuse(&st, path, why, size);
    if (rc)
        return rc;
    o->fifo = S_ISFIFO(st.st_mode);
    o->dev = st.st_dev;
    o->ino = st.st_ino;
    long flags = mt_sys(__NR_fcntl, fd, F_GETFL, 0, 0, 0, 0);
    mt_sys(__NR_fcntl, fd, F_SETFL, flags & ~(long)O_NONBLOCK, 0, 0, 0);
    if (o->fifo)
        return 0;
    if (mt_sys(__NR_flock, fd, LOCK_EX | LOCK_NB, 0, 0, 0, 0) == -EWOULDBLOCK) {
        snprintf(why, size, "%s is being written by another traced process; give another -o", path);
        return EBUSY;
    }
    /* Addresses are nobody else's business, though the file was there before. */
    if ((st.st_mode & 07777) != 0600)
        rc = (int)-mt_sys(__NR_fchmod, fd, 0600, 0, 0, 0, 0);
    if (!rc)
        rc = (int)-mt_sys(__NR_ftruncate, fd, 0, 0, 0, 0, 0);
    return rc ? failed(path, rc, why, size) : 0;
}

static void remember_path(int fd)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = mt_sys(__NR_readlink, (long)link, (long)whole_path, sizeof whole_path - 1, 0, 0, 0);
    whole_path[n > 0 && n < (long)sizeof whole_path - 1 ? n : 0] = 0;
}

static int open_one(struct mt_output *o, const char *path, char *why, size_t size)
{
    int fd = -1, rc;
    *o = (struct mt_output){.fd = -1};
    for (unsigned step = 0; (rc = open_once(path, &fd, why, size)) == EAGAIN; step++) {
        if (step == WAIT_WORDS)
            mt_plat_report("%s is a FIFO; waiting for a reader (for example: mt-merge < %s)", path, path);
        mt_plat_sleep_ns(WAIT_STEP_NS);
    }
    if (rc)
        return rc;
    rc = adopt(o, fd, path, why, size);
    if (rc)
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    else
        o->fd = fd;
    if (!rc)
        remember_path(fd);
    return rc;
}

int mt_output_open(struct mt_output *o, const char *path, char *why, size_t size)
{
    char taken[sizeof name];
    int rc = open_one(o, path, why, size);
    if (rc != EBUSY || path != name)
        return rc;
    strcpy(taken, name);
    if (add_pid())
        return rc;
    rc = open_one(o, name, why, size);
    if (!rc)
        mt_plat_report("%s is being written by another traced process; this one's trace is %s", taken, name);
    return rc;
}

/* 1 while the number still means the file. */
static int is_ours(const struct mt_output *o, int fd)
{
    struct stat st;
    int saved = errno;
    int same = fd >= 0 && !fstat(fd, &st) && st.st_dev == o->dev && st.st_ino == o->ino;
    errno = saved;
    return same;
}

void mt_output_close(struct mt_output *o)
{
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

/* The program has closed our descriptor: the same file again, at its end. 0 or EBADF. */
static int open_again(struct mt_output *o)
{
    if (o->fifo || !*whole_path)
        return EBADF;
    long fd = up(mt_sys(__NR_open, (long)whole_path,
                        O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0, 0, 0));
    if (fd < 0)
        return EBADF;
    if (!is_ours(o, (int)fd) || mt_sys(__NR_flock, fd, LOCK_EX | LOCK_NB, 0, 0, 0, 0) ||
        mt_sys(__NR_lseek, fd, 0, SEEK_END, 0, 0, 0) < 0) {
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
        return EBADF;
    }
    o->fd = (int)fd; /* the old number is the program's */
    return 0;
}

/* SIGPIPE and SIGXFSZ go to the thread that writes: hold them back, and swallow the one we caused. */
struct held {
    uint64_t mine, old, pending;
};

static struct held hold(int signo)
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

int mt_output_write(struct mt_output *o, const void *data, size_t bytes)
{
    if (o->error || o->fd < 0)
        return o->error ? o->error : EBADF;
    if (!is_ours(o, o->fd) && (o->error = open_again(o)))
        return o->error;
    struct held h = hold(o->fifo ? SIGPIPE : SIGXFSZ);
    o->error = write_all(o->fd, data, bytes);
    let_go(&h, o->error);
    return o->error;
}

/* ---- scratch files and small input files ---- */

static int own(struct mt_output *o, long fd)
{
    struct stat st;
    *o = (struct mt_output){.fd = (int)fd};
    if (fstat(o->fd, &st))
        return errno;
    o->dev = st.st_dev;
    o->ino = st.st_ino;
    return 0;
}

int mt_output_scratch(struct mt_output *o, char *why, size_t size)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];
    if (!folder || !*folder)
        folder = "/tmp";
    for (uint64_t attempt = 0; attempt < 100; attempt++) {
        snprintf(path, sizeof path, "%s/memtrace-%u-%llx", folder, mt_plat_pid(),
                 (unsigned long long)(mt_plat_now_ns() + attempt));
        long fd = up(
            mt_sys(__NR_open, (long)path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600, 0, 0, 0));
        if (fd == -EEXIST || fd == -EINTR)
            continue;
        if (fd >= 0)
            mt_sys(__NR_unlink, (long)path, 0, 0, 0, 0, 0);
        else
            snprintf(why, size, "no scratch file in %s: %s; set TMPDIR", folder, strerror((int)-fd));
        return fd >= 0 ? own(o, fd) : (int)-fd;
    }
    snprintf(why, size, "no scratch file in %s: names are taken; set TMPDIR", folder);
    return EEXIST;
}

static int pread_all(int fd, char *p, size_t bytes, uint64_t offset)
{
    while (bytes) {
        long n = mt_sys(__NR_pread64, fd, (long)p, (long)bytes, (long)offset, 0, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)-n : EIO;
        p += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int mt_output_pread(const struct mt_output *o, void *data, size_t bytes, uint64_t offset)
{
    return is_ours(o, o->fd) ? pread_all(o->fd, data, bytes, offset) : EBADF;
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

int mt_output_pwrite(const struct mt_output *o, const void *data, size_t bytes, uint64_t offset)
{
    if (!is_ours(o, o->fd))
        return EBADF;
    struct held h = hold(SIGXFSZ);
    int rc = pwrite_all(o->fd, data, bytes, offset);
    let_go(&h, rc);
    return rc;
}

char *mt_output_slurp(const char *path, size_t *bytes, char *why, size_t size)
{
    struct stat st;
    char *text = NULL;
    long fd = mt_sys(__NR_open, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0, 0);
    int rc = fd < 0 ? (int)-fd : fstat((int)fd, &st) ? errno : 0;
    if (!rc && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > SLURP_MAX))
        rc = EINVAL;
    if (!rc && !(text = mt_plat_map((size_t)st.st_size + 1)))
        rc = ENOMEM;
    if (!rc && st.st_size && (rc = pread_all((int)fd, text, (size_t)st.st_size, 0))) {
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
