/* Spooling of inputs that cannot be read twice to unnamed files. All are copied concurrently: their program
 * may have several streams, and an unread one would block it. */
#define _GNU_SOURCE
#include "internal.h"
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

int mt_spool_create(struct mt_error *err)
{
    const char *dir = getenv("TMPDIR");
    if (!dir || !*dir)
        dir = "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)) {
        char name[4096];
        if ((size_t)snprintf(name, sizeof name, "%s/memtrace-spool-XXXXXX", dir) < sizeof name &&
            (fd = mkostemp(name, O_CLOEXEC)) >= 0)
            unlink(name);
    }
    if (fd < 0) {
        int e = errno;
        mt_error_set(err, MT_E_SYSTEM, e, 0, dir, "cannot make a spool file: %s (TMPDIR names another place)",
                     strerror(e));
    }
    return fd;
}

int mt_spool_write(int fd, const char *p, size_t n, struct mt_error *err)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno != EINTR) {
            int e = errno;
            return mt_error_set(
                err, MT_E_SYSTEM, e, 0, "spool file",
                "%s (TMPDIR names another place; --no-companion reads one input without spool file)",
                strerror(e));
        }
        if (w > 0) {
            p += w;
            n -= (size_t)w;
        }
    }
    return 0;
}

/* Returns 1 if a trace can begin with these bytes. Other inputs, which may be endless, are read only as far
 * as the message requires. */
static int spool_is_trace(const char *p)
{
    unsigned char first = (unsigned char)p[0];
    return first == MT_RAW_RECORD_SIZE || first == (MT_MTC_MAGIC & 0xff);
}

int mt_spool_fill(const int *fd, const int *spool, size_t n, const struct mt_stop *stop, uint64_t *read_bytes,
                  struct mt_error *err)
{
    enum { ROOM = 1 << 20 };
    struct pollfd *p = calloc(n, sizeof *p);
    char *buffer = malloc(ROOM), *begun = calloc(n, 1);
    int rc = -1;
    if (!p || !buffer || !begun) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, "spool file", "no memory");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = (struct pollfd){.fd = fd[i], .events = POLLIN};
        begun[i] = lseek(spool[i], 0, SEEK_CUR) > 0;
    }
    for (size_t open_inputs = n; open_inputs > 0 && !mt_stopped(stop);) {
        if (poll(p, n, 100) <= 0)
            continue;
        for (size_t i = 0; i < n; i++) {
            if (p[i].fd < 0 || !p[i].revents)
                continue;
            ssize_t got = read(p[i].fd, buffer, ROOM);
            if (got > 0) {
                if (mt_spool_write(spool[i], buffer, (size_t)got, err) != 0)
                    goto out;
                __atomic_fetch_add(read_bytes, (uint64_t)got, __ATOMIC_RELAXED);
            }
            if (got > 0 && (begun[i] || spool_is_trace(buffer))) {
                begun[i] = 1;
            } else if (got >= 0 || (errno != EINTR && errno != EAGAIN)) {
                p[i].fd = -1;
                open_inputs--;
            }
        }
    }
    rc = 0;
out:
    free(p);
    free(begun);
    free(buffer);
    return rc;
}
