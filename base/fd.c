/* File descriptors of memtrace within the traced program. */
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
