/* Output files of the runtime: regular files or FIFOs in a folder that others may write to. */
#include "file.h"
#include "fork.h"
#include "held.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- File descriptors of memtrace within the traced program ---- */

int mt_fd_up(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int up = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), saved = errno;
    close(fd);
    errno = saved;
    return up;
}

int mt_fd_take(struct mt_fd *d, int fd)
{
    struct stat st;
    d->fd = mt_fd_up(fd);
    if (d->fd < 0)
        return -1;
    if (!fstat(d->fd, &st)) {
        d->dev = st.st_dev;
        d->ino = st.st_ino;
        return 0;
    }
    int saved = errno;
    close(d->fd);
    d->fd = -1;
    errno = saved;
    return -1;
}

int mt_fd_is(const struct mt_fd *d)
{
    struct stat st;
    int fd = __atomic_load_n(&d->fd, __ATOMIC_ACQUIRE);
    return fd >= 0 && !fstat(fd, &st) && st.st_dev == d->dev && st.st_ino == d->ino;
}

void mt_fd_close(struct mt_fd *d)
{
    if (mt_fd_is(d))
        close(d->fd);
    d->fd = -1;
}

/* ---- Opens the output file of option -o ---- */

/* Returns 1 if both paths name the same regular file; writing to a pipe or a device overwrites nothing. */
static int create_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           (S_ISREG(x.st_mode) || S_ISDIR(x.st_mode) || S_ISBLK(x.st_mode));
}

static int create_ends(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* Returns 1 if the output lies in the folder, which stands for all traces in it. */
static int create_is_inside(const char *output, const char *folder)
{
    char above[PATH_MAX];
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
    int n = snprintf(above, sizeof above, "%.*s.", slash ? (int)(slash - output) + 1 : 0, output);
    return (strncmp(name, "MemTrace-", 9) == 0 || create_ends(name, ".mtc")) && n < (int)sizeof above &&
           create_same(above, folder);
}

int mt_output_is_input(const char *output, const char *input)
{
    char other[PATH_MAX];
    struct stat st;
    if (create_same(output, input))
        return 1;
    if (stat(output, &st) != 0) /* no file yet, so no input */
        return 0;
    int n = create_ends(input, ".meta") ? snprintf(other, sizeof other, "%.*s", (int)strlen(input) - 5, input)
                                        : snprintf(other, sizeof other, "%s.meta", input);
    return (n < (int)sizeof other && create_same(output, other)) || create_is_inside(output, input);
}

static int create_is_anothers(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid != 0;
}

int mt_create(const char *path, const char **why)
{
    /* O_CREAT even if the file exists: Linux then checks its owner in sticky folders like /tmp. */
    int flags = O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC, fd = open(path, flags | O_NOFOLLOW, 0666);
    if (fd < 0 && errno == ELOOP && create_is_anothers(path)) {
        *why = "is a symbolic link of another user and is not followed; remove it, or name another file";
        return -1;
    }
    if (fd < 0 && errno == ELOOP)
        fd = open(path, flags, 0666);
    *why = fd < 0 ? strerror(errno) : NULL;
    return fd;
}

/* ---- Finds programs by name, as a shell does ---- */

int mt_files_runs(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || access(path, X_OK) != 0)
        return errno;
    return S_ISDIR(st.st_mode) ? EISDIR : 0;
}

int mt_files_executable(const char *name, char path[PATH_MAX])
{
    const char *list = getenv("PATH");
    int why, worst = ENOENT;
    if (strlen(name) >= PATH_MAX)
        return ENAMETOOLONG;
    if (strchr(name, '/')) {
        strcpy(path, name);
        return mt_files_runs(path);
    }
    for (list = list ? list : "/usr/bin:/bin"; *name; list++) {
        int n = (int)strcspn(list, ":");
        if (snprintf(path, PATH_MAX, "%.*s%s%s", n, list, n ? "/" : "./", name) < PATH_MAX) {
            if ((why = mt_files_runs(path)) == 0)
                return 0;
            if (why == EACCES)
                worst = why;
        }
        list += n;
        if (!*list)
            break;
    }
    return worst;
}

#define WAIT_STEP_NS 5000000
#define WAIT_WORDS_NS 2000000000u /* time before the user is told of the wait */

/* ---- fork ---- */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(list_lock, MT_FORK_LEAVES);
static struct mt_file *list;
static volatile int forked;

static void file_in_child(void)
{
    forked = 1;
    for (struct mt_file *f = list; f; f = f->next)
        mt_fd_close(&f->at); /* else a FIFO's reader would not see the end when the parent closes it */
    list = NULL;
}

int mt_forked(void)
{
    return forked;
}

static void file_install(void)
{
    pthread_atfork(NULL, NULL, file_in_child);
}

void mt_fork_counts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, file_install);
}

static void file_enlist(struct mt_file *f)
{
    mt_fork_counts();
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

static int file_refuse(const struct stat *st, const char *path, char *why, size_t size)
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

/* Opens without truncating. Turns ENXIO (FIFO without a reader) into EAGAIN. */
static int file_open_once(const char *path, int create, int *fd, char *why, size_t size)
{
    struct stat st;
    if (!lstat(path, &st)) {
        int rc = file_refuse(&st, path, why, size);
        if (rc)
            return rc;
    }
    int flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (create ? O_CREAT : 0);
    do
        *fd = mt_fd_up(open(path, flags, 0600));
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0 && errno == ENXIO)
        return EAGAIN;
    return *fd < 0 ? open_failed(path, errno, why, size) : 0;
}

/* Checks and takes over an open descriptor. It checks the file behind the descriptor, since the path may have
 * changed after lstat. */
static int file_adopt(struct mt_file *f, int fd, const char *path, enum mt_file_mode mode, char *why,
                      size_t size)
{
    struct stat st;
    if (fstat(fd, &st))
        return open_failed(path, errno, why, size);
    int rc = file_refuse(&st, path, why, size);
    if (rc)
        return rc;
    f->fifo = S_ISFIFO(st.st_mode);
    if (mode == MT_FILE_RESUME && (f->fifo || st.st_dev != f->at.dev || st.st_ino != f->at.ino)) {
        snprintf(why, size, "%s was replaced while the program ran; the rest is lost", path);
        return ESTALE;
    }
    f->at.dev = st.st_dev;
    f->at.ino = st.st_ino;
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
    /* Addresses and names are private, even in a file that existed before. */
    if ((st.st_mode & 07777) != 0600 && fchmod(fd, 0600))
        return open_failed(path, errno, why, size);
    return ftruncate(fd, 0) ? open_failed(path, errno, why, size) : 0;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the file's absolute path, valid after chdir, or NULL. */
static char *path_of(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0 && n < (ssize_t)sizeof path - 1 ? strdup(path) : NULL;
}

int mt_file_open(struct mt_file *f, const char *path, enum mt_file_mode mode, char *why, size_t size)
{
    int fd = -1, rc;
    f->at.fd = -1;
    f->whole_path = NULL;
    uint64_t begin = now_ns();
    for (int told = 0;;) {
        rc = file_open_once(path, mode != MT_FILE_RESUME, &fd, why, size);
        if (rc != EAGAIN || mode != MT_FILE_WAIT)
            break;
        if (!told && now_ns() - begin >= WAIT_WORDS_NS) {
            told = 1;
            mt_note("%s is a FIFO; waiting for a reader (for example: memtrace extract %s)", path, path);
        }
        nanosleep(&(struct timespec){0, WAIT_STEP_NS}, NULL);
    }
    if (rc) {
        if (rc == EAGAIN)
            snprintf(why, size, "%s is a FIFO and nobody reads it", path);
        return rc;
    }
    rc = file_adopt(f, fd, path, mode, why, size);
    if (rc) {
        close(fd);
        return rc;
    }
    f->at.fd = fd;
    f->whole_path = f->fifo ? NULL : path_of(fd);
    file_enlist(f);
    return 0;
}

void mt_file_close(struct mt_file *f)
{
    free(f->whole_path);
    f->whole_path = NULL;
    if (f->at.fd < 0 || forked)
        return;
    pthread_mutex_lock(&list_lock);
    *f->prev = f->next;
    if (f->next)
        f->next->prev = f->prev;
    pthread_mutex_unlock(&list_lock);
    mt_fd_close(&f->at);
}

/* ---- descriptors that the program has closed ---- */

/* Opens the same file again and seeks to its end. Returns 0 or ESTALE. */
static int file_open_again(struct mt_file *f)
{
    struct mt_fd again = {.fd = -1};
    int fd =
        f->whole_path ? open(f->whole_path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (fd < 0 || mt_fd_take(&again, fd))
        return ESTALE;
    if (again.dev != f->at.dev || again.ino != f->at.ino || flock(again.fd, LOCK_EX | LOCK_NB) ||
        lseek(again.fd, 0, SEEK_END) < 0) {
        close(again.fd);
        return ESTALE;
    }
    __atomic_store_n(&f->at.fd, again.fd, __ATOMIC_RELEASE); /* the old number now belongs to the program */
    return 0;
}

/* Ensures that the descriptor refers to the file, after opening it again if necessary. Returns 0 or an errno
 * value. */
static int file_ready(struct mt_file *f)
{
    if (f->at.fd < 0 || forked)
        return EBADF;
    if (mt_fd_is(&f->at))
        return 0;
    pthread_mutex_lock(&list_lock); /* several threads may write at once */
    int rc = mt_fd_is(&f->at) ? 0 : file_open_again(f);
    pthread_mutex_unlock(&list_lock);
    return rc;
}

/* ---- write ---- */

static int file_write_all(int fd, const char *p, size_t bytes, int64_t offset, size_t *done)
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

int mt_file_write(struct mt_file *f, const void *data, size_t bytes, int64_t offset, size_t *done)
{
    *done = 0;
    int rc = file_ready(f);
    if (rc)
        return rc;
    struct mt_held h = mt_hold(f->fifo ? SIGPIPE : SIGXFSZ);
    rc = file_write_all(f->at.fd, data, bytes, offset, done);
    mt_let_go(&h, rc);
    return rc;
}

const char *mt_file_reason(int error)
{
    if (error == EPIPE)
        return "its reader closed the FIFO";
    if (error == EFBIG)
        return "the file size limit is reached (ulimit -f)";
    if (error == ESTALE)
        return "the program closed its descriptor, and it cannot be opened again";
    return strerror(error);
}

int mt_file_cut(struct mt_file *f, uint64_t bytes)
{
    int rc = file_ready(f);
    return rc ? rc : ftruncate(f->at.fd, (off_t)bytes) ? errno : 0;
}
