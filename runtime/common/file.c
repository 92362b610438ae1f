#define _GNU_SOURCE
#include "file.h"
#include "report.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WAIT_STEP_NS 5000000
#define WAIT_WORDS_NS 2000000000u /* until we say that we wait */

/* ---- fork ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mt_file *list;
static volatile int forked;

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    forked = 1;
    for (struct mt_file *f = list; f; f = f->next) {
        close(f->fd); /* a FIFO's reader must see the end when the parent closes it */
        f->fd = -1;
    }
    list = NULL;
    pthread_mutex_unlock(&list_lock);
}

int mt_forked(void)
{
    return forked;
}

static void install(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

static void enlist(struct mt_file *f)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    pthread_mutex_lock(&list_lock);
    f->next = list;
    f->prev = &list;
    if (list)
        list->prev = &f->next;
    list = f;
    pthread_mutex_unlock(&list_lock);
}

/* ---- open ---- */

#define WAY_OUT "; remove it, or set MEMTRACE_DIR or MEMTRACE_PATTERN"

static int refuse(const struct stat *st, const char *path, char *why, size_t size)
{
    if (S_ISLNK(st->st_mode))
        snprintf(why, size, "%s is a symbolic link and is not followed" WAY_OUT, path);
    else if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
        snprintf(why, size, "%s is neither a regular file nor a FIFO" WAY_OUT, path);
    else if (st->st_uid != geteuid())
        snprintf(why, size, "%s belongs to user %u, not to us" WAY_OUT, path, (unsigned)st->st_uid);
    else if (S_ISREG(st->st_mode) && st->st_nlink > 1)
        snprintf(why, size, "%s has %lu hard links and is not overwritten" WAY_OUT, path,
                 (unsigned long)st->st_nlink);
    else
        return 0;
    return S_ISLNK(st->st_mode) ? ELOOP : EPERM;
}

static int open_failed(const char *path, int error, char *why, size_t size)
{
    if (error == ENOENT)
        snprintf(why, size, "%s cannot be written: its folder does not exist; create it, or set MEMTRACE_DIR",
                 path);
    else if (error == EMFILE)
        snprintf(why, size, "%s cannot be written: too many open files; raise the limit (ulimit -n)", path);
    else
        snprintf(why, size, "%s cannot be written: %s; set MEMTRACE_DIR or MEMTRACE_PATTERN", path,
                 strerror(error));
    return error;
}

/* Opens without truncating. ENXIO (FIFO, no reader) is turned into EAGAIN. */
static int open_once(const char *path, int create, int *fd, char *why, size_t size)
{
    struct stat st;
    if (!lstat(path, &st)) {
        int rc = refuse(&st, path, why, size);
        if (rc)
            return rc;
    }
    int flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (create ? O_CREAT : 0);
    do
        *fd = open(path, flags, 0600);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0 && errno == ENXIO)
        return EAGAIN;
    return *fd < 0 ? open_failed(path, errno, why, size) : 0;
}

/* The file behind the descriptor is what counts: the path may have changed since lstat. */
static int adopt(struct mt_file *f, int fd, const char *path, enum mt_file_mode mode, char *why, size_t size)
{
    struct stat st;
    if (fstat(fd, &st))
        return open_failed(path, errno, why, size);
    int rc = refuse(&st, path, why, size);
    if (rc)
        return rc;
    f->fifo = S_ISFIFO(st.st_mode);
    if (mode == MT_FILE_RESUME && (f->fifo || st.st_dev != f->dev || st.st_ino != f->ino)) {
        snprintf(why, size, "%s was replaced while the program ran; the rest is lost", path);
        return ESTALE;
    }
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK))
        return open_failed(path, errno, why, size);
    if (f->fifo)
        return 0;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        snprintf(why, size,
                 "%s is being written by another traced process; set MEMTRACE_DIR, or MEMTRACE_PATTERN "
                 "with %%p for the process id",
                 path);
        return EBUSY;
    }
    if (mode == MT_FILE_RESUME)
        return lseek(fd, 0, SEEK_END) < 0 ? open_failed(path, errno, why, size) : 0;
    return ftruncate(fd, 0) ? open_failed(path, errno, why, size) : 0;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int mt_file_open(struct mt_file *f, const char *path, enum mt_file_mode mode, char *why, size_t size)
{
    int fd = -1, rc;
    f->fd = -1;
    uint64_t begin = now_ns();
    for (int told = 0;;) {
        rc = open_once(path, mode != MT_FILE_RESUME, &fd, why, size);
        if (rc != EAGAIN || mode != MT_FILE_WAIT)
            break;
        if (!told && now_ns() - begin >= WAIT_WORDS_NS) {
            told = 1;
            mt_note("%s is a FIFO; waiting for a reader (for example: mt-extract %s)", path, path);
        }
        nanosleep(&(struct timespec){0, WAIT_STEP_NS}, NULL);
    }
    if (rc) {
        if (rc == EAGAIN)
            snprintf(why, size, "%s is a FIFO and nobody reads it", path);
        return rc;
    }
    rc = adopt(f, fd, path, mode, why, size);
    if (rc) {
        close(fd);
        return rc;
    }
    f->fd = fd;
    enlist(f);
    return 0;
}

void mt_file_close(struct mt_file *f)
{
    if (f->fd < 0 || forked)
        return;
    pthread_mutex_lock(&list_lock);
    *f->prev = f->next;
    if (f->next)
        f->next->prev = f->prev;
    pthread_mutex_unlock(&list_lock);
    close(f->fd);
    f->fd = -1;
}

/* ---- write ---- */

static int write_all(int fd, const char *p, size_t bytes, int64_t offset, size_t *done)
{
    *done = 0;
    while (*done < bytes) {
        ssize_t n = offset < 0 ? write(fd, p + *done, bytes - *done)
                               : pwrite(fd, p + *done, bytes - *done, offset + (int64_t)*done);
        if (n > 0)
            *done += (size_t)n;
        else if (n == 0)
            return ENOSPC;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

/* SIGPIPE and SIGXFSZ go to the thread that writes: hold them back, and swallow the one we caused. */
int mt_file_write(struct mt_file *f, const void *data, size_t bytes, int64_t offset, size_t *done)
{
    *done = 0;
    if (f->fd < 0 || forked)
        return EBADF;
    int signo = f->fifo ? SIGPIPE : SIGXFSZ;
    sigset_t mine, old, pending;
    sigemptyset(&mine);
    sigaddset(&mine, signo);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &mine, &old);
    int rc = write_all(f->fd, data, bytes, offset, done);
    if ((rc == EPIPE || rc == EFBIG) && !sigismember(&pending, signo))
        while (sigtimedwait(&mine, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

const char *mt_file_reason(int error)
{
    if (error == EPIPE)
        return "its reader closed the FIFO";
    if (error == EFBIG)
        return "the file size limit is reached (ulimit -f)";
    return strerror(error);
}

int mt_file_cut(struct mt_file *f, uint64_t bytes)
{
    if (f->fd < 0 || forked)
        return EBADF;
    return ftruncate(f->fd, (off_t)bytes) ? errno : 0;
}
