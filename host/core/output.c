/* Opens the trace's output: a regular file, a FIFO with a reader, a device, or a descriptor that the user
 * has opened. */
#define _GNU_SOURCE
#include "output.h"
#include "descriptors.h"
#include "platform.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define WAIT_STEP_NS 5000000u
#define WAIT_WORDS 400 /* steps before a message about the wait: 2 s */
#define PATH_ROOM 4096
#define LINKS 16 /* maximum chain of symbolic links */
static char name[4096];

/* ---- open ---- */

const char *mt_core_output_name(const char *pattern)
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

/* Adds the process id: x.mtc becomes x.1234.mtc, other names x.1234. */
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

static uint32_t output_user(void)
{
    return (uint32_t)mt_sys(__NR_geteuid, 0, 0, 0, 0, 0, 0);
}

static int output_refuse(const struct stat *st, const char *path, char *why, size_t size)
{
    uint32_t me = output_user();
    if (S_ISCHR(st->st_mode))
        return 0; /* /dev/null, a terminal: allowed to all with write permission */
    if (!S_ISREG(st->st_mode) && !S_ISFIFO(st->st_mode))
        snprintf(why, size, "%s is neither a regular file nor a FIFO nor a character device; give another -o",
                 path);
    else if (st->st_uid != me)
        snprintf(why, size, "%s belongs to user %u, not to us; give another -o", path, (unsigned)st->st_uid);
    else if (S_ISREG(st->st_mode) && st->st_nlink > 1)
        snprintf(why, size, "%s has %lu hard links and is not overwritten; give another -o", path,
                 (unsigned long)st->st_nlink);
    else
        return 0;
    return EPERM;
}

static int output_failed(const char *path, int error, char *why, size_t size)
{
    if (error == ENOENT)
        snprintf(why, size, "%s cannot be written: its folder does not exist; create it or give another -o",
                 path);
    else
        snprintf(why, size, "%s cannot be written: %s; give another -o", path, strerror(error));
    return error;
}

/* ---- symbolic links: the user's own are followed, others refused ---- */

/* Resolves `to`, the target of a link at `path`, into `path`. */
static int lead_on(char *path, const char *to)
{
    char *slash = strrchr(path, '/');
    size_t at = *to != '/' && slash ? (size_t)(slash + 1 - path) : 0;
    if (at + strlen(to) >= PATH_ROOM)
        return ENAMETOOLONG;
    strcpy(path + at, to);
    return 0;
}

/* Follows one step from the link at `path`. Link and owner are read from one descriptor, so that nobody
 * can exchange it in between. */
static int output_follow(char *path, char *why, size_t size)
{
    char to[PATH_ROOM];
    struct stat st;
    long fd = mt_sys(__NR_open, (long)path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0, 0);
    if (fd < 0)
        return output_failed(path, (int)-fd, why, size);
    int rc = fstat((int)fd, &st) ? errno : 0;
    long n = mt_sys(__NR_readlinkat, fd, (long)"", (long)to, sizeof to - 1, 0, 0);
    mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
    if (rc || n < 0)
        return output_failed(path, rc ? rc : (int)-n, why, size);
    if (st.st_uid != output_user()) {
        snprintf(why, size,
                 "%s is a symbolic link of user %u and is not followed; remove it or give another -o", path,
                 (unsigned)st.st_uid);
        return ELOOP;
    }
    to[n] = 0;
    rc = lead_on(path, to);
    return rc ? output_failed(path, rc, why, size) : 0;
}

/* Resolves links at the end of `path`. */
static int output_resolve(const char *path, char real[PATH_ROOM], char *why, size_t size)
{
    struct stat st;
    if (snprintf(real, PATH_ROOM, "%s", path) >= PATH_ROOM)
        return output_failed(path, ENAMETOOLONG, why, size);
    for (unsigned i = 0; !lstat(real, &st); i++) {
        int rc = !S_ISLNK(st.st_mode) ? 0
                 : i == LINKS         ? output_failed(path, ELOOP, why, size)
                                      : output_follow(real, why, size);
        if (rc || !S_ISLNK(st.st_mode))
            return rc;
    }
    return 0; /* does not exist yet */
}

/* ---- descriptors that the user has opened for us ---- */

int mt_core_output_number(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout"))
        return 1;
    if (!strcmp(path, "/dev/stderr"))
        return 2;
    for (unsigned i = 0; i < 2; i++) {
        size_t n = strlen(folders[i]);
        const char *digits = path + n;
        if (!strncmp(path, folders[i], n) && *digits && strspn(digits, "0123456789") == strlen(digits) &&
            strlen(digits) < 8)
            return (int)strtol(digits, NULL, 10);
    }
    return -1;
}

/* Takes a descriptor as it is: at its present position, shared with all that hold it. */
static int take_number(struct mt_core_output *o, int number, const char *path, char *why, size_t size)
{
    struct stat st;
    long mode = mt_sys(__NR_fcntl, number, F_GETFL, 0, 0, 0, 0);
    if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY || (mode & O_PATH)) {
        snprintf(why, size, "%s: descriptor %d is not open for writing; give another -o", path, number);
        return EBADF;
    }
    long fd = mt_descriptor_copy(number);
    if (fd < 0 || fstat((int)fd, &st))
        return output_failed(path, fd < 0 ? (int)-fd : errno, why, size);
    *o = (struct mt_core_output){.fd = (int)fd, .fifo = 1, .dev = st.st_dev, .ino = st.st_ino};
    mt_descriptor_watch(o);
    return 0;
}

/* ---- files ---- */

/* Opens without truncating. EAGAIN: a FIFO without reader. */
static int open_once(const char *path, int *fd, char *why, size_t size)
{
    struct stat st;
    if (!lstat(path, &st)) {
        int rc = output_refuse(&st, path, why, size);
        if (rc)
            return rc;
    }
    long rc;
    do
        rc = mt_descriptor_up(mt_sys(__NR_open, (long)path,
                                     O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_CREAT,
                                     0600, 0, 0, 0));
    while (rc == -EINTR);
    *fd = (int)rc;
    if (rc == -ENXIO)
        return EAGAIN;
    return rc < 0 ? output_failed(path, (int)-rc, why, size) : 0;
}

/* Checks the file behind the descriptor, as the path may have changed since lstat. */
static int output_adopt(struct mt_core_output *o, int fd, const char *path, char *why, size_t size)
{
    struct stat st;
    if (fstat(fd, &st))
        return output_failed(path, errno, why, size);
    int rc = output_refuse(&st, path, why, size);
    if (rc)
        return rc;
    o->fifo = !S_ISREG(st.st_mode);
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
    /* Addresses are private, even if the file existed before. */
    if ((st.st_mode & 07777) != 0600)
        rc = (int)-mt_sys(__NR_fchmod, fd, 0600, 0, 0, 0, 0);
    if (!rc)
        rc = (int)-mt_sys(__NR_ftruncate, fd, 0, 0, 0, 0, 0);
    return rc ? output_failed(path, rc, why, size) : 0;
}

static int open_one(struct mt_core_output *o, const char *path, char *why, size_t size)
{
    char real[PATH_ROOM];
    int fd = -1, number = mt_core_output_number(path), rc;
    *o = (struct mt_core_output){.fd = -1};
    if (number >= 0)
        return take_number(o, number, path, why, size);
    if ((rc = output_resolve(path, real, why, size)))
        return rc;
    for (unsigned step = 0; (rc = open_once(real, &fd, why, size)) == EAGAIN; step++) {
        if (step == WAIT_WORDS)
            mt_plat_report(
                "%s is a FIFO; waiting for a reader (for example: memtrace convert --order=time %s)", path,
                path);
        mt_plat_sleep_ns(WAIT_STEP_NS);
    }
    if (rc)
        return rc;
    rc = output_adopt(o, fd, path, why, size);
    if (rc) {
        mt_sys(__NR_close, fd, 0, 0, 0, 0, 0);
        return rc;
    }
    o->fd = fd;
    mt_core_output_remember(o);
    mt_descriptor_watch(o);
    return 0;
}

int mt_core_output_open(struct mt_core_output *o, const char *path, char *why, size_t size)
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
