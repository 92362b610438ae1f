/* A window on the bytes of a container: anywhere in a regular file, forward only in a FIFO. */
#define _GNU_SOURCE
#include "container.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AHEAD = 1 << 16 };

static int window_fail(struct mt_error *err, enum mt_code code, int sys, const char *name, const char *what)
{
    return mt_error_set(err, code, sys, 0, name, "%s: %s", what, strerror(sys));
}

int mt_window_open_fd(struct mt_window *w, int fd, const char *name, int owned, struct mt_error *err)
{
    struct stat st;
    memset(w, 0, sizeof *w);
    w->fd = fd;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode))
        return window_fail(err, MT_E_INPUT, S_ISDIR(st.st_mode) ? EISDIR : errno, name, "cannot read");
    w->regular = S_ISREG(st.st_mode);
    off_t here = w->regular ? lseek(fd, 0, SEEK_CUR) : 0;
    w->start = here > 0 ? (uint64_t)here : 0;
    w->size = w->regular && (uint64_t)st.st_size > w->start ? (uint64_t)st.st_size - w->start : 0;
    w->name = strdup(name);
    if (!w->name)
        return window_fail(err, MT_E_SYSTEM, ENOMEM, name, "no memory for a reader");
    w->owned = owned;
    return 0;
}

int mt_window_open(struct mt_window *w, const char *path, const volatile sig_atomic_t *stop,
                   struct mt_error *err)
{
    int named = strcmp(path, "-") != 0;
    /* Non-blocking, so that a FIFO without writer can be waited for with an eye on `stop`. */
    int fd = named ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : STDIN_FILENO;
    if (fd < 0)
        return window_fail(err, MT_E_INPUT, errno, path, "cannot open");
    int rc = mt_window_open_fd(w, fd, path, named, err);
    if (rc != 0 && named)
        close(fd);
    w->stop.user = stop;
    return rc;
}

void mt_window_close(struct mt_window *w)
{
    if (w->owned && w->fd >= 0)
        close(w->fd);
    free(w->buffer);
    free(w->name);
    memset(w, 0, sizeof *w);
    w->fd = -1;
}

static int window_grow(struct mt_window *w, size_t want, struct mt_error *err)
{
    if (want <= w->room)
        return 0;
    size_t more = want < AHEAD ? AHEAD : want;
    unsigned char *p = realloc(w->buffer, more);
    if (!p)
        return window_fail(err, MT_E_SYSTEM, ENOMEM, w->name, "no memory for a chunk");
    w->buffer = p;
    w->room = more;
    return 0;
}

/* Appends what one read gives; `wanted`: length to reach. 1; 0 at the end; -1. */
static int read_more(struct mt_window *w, size_t wanted, struct mt_error *err)
{
    for (;;) {
        uint64_t at = w->base + w->length;
        if (mt_stopped(&w->stop) || (!w->regular && !mt_wait_readable(w->fd, &w->stop)))
            return mt_error_set(err, MT_E_STOPPED, EINTR, 0, w->name, "stopped while reading");
        unsigned char *to = w->buffer + w->length;
        size_t n = (wanted > AHEAD ? wanted : AHEAD) - w->length;
        ssize_t got = w->regular ? pread(w->fd, to, n, (off_t)(w->start + at)) : read(w->fd, to, n);
        if (got > 0) {
            w->length += (size_t)got;
            return 1;
        }
        if (got == 0)
            return 0;
        if (errno != EINTR && errno != EAGAIN) {
            int e = errno;
            return mt_error_set(err, MT_E_SYSTEM, e, at, w->name, "read error at byte %llu: %s",
                                (unsigned long long)at, strerror(e));
        }
    }
}

/* What is before `offset`, as far as it is there. */
static void window_forget(struct mt_window *w, uint64_t offset)
{
    size_t drop = offset - w->base < w->length ? (size_t)(offset - w->base) : w->length;
    if (drop)
        memmove(w->buffer, w->buffer + drop, w->length - drop);
    w->length -= drop;
    w->base += drop;
}

const unsigned char *mt_window_get(struct mt_window *w, uint64_t offset, size_t n, size_t *got,
                                   struct mt_error *err)
{
    if (w->regular) {
        uint64_t left = offset < w->size ? w->size - offset : 0;
        n = n < left ? n : (size_t)left;
        if (offset < w->base || offset > w->base + w->length)
            w->length = 0, w->base = offset;
    }
    if (offset > w->base) /* a FIFO is never asked for what it has not got yet, except to skip */
        window_forget(w, offset);
    while (w->base < offset || w->length < n) {
        /* The room of a FIFO's window grows with what has come, not with what a head promises. */
        size_t want = w->regular || n < 2 * w->length ? n : 2 * w->length;
        if (window_grow(w, want < AHEAD ? AHEAD : want, err) != 0)
            return NULL;
        int more = w->eof && !w->regular ? 0 : read_more(w, want, err);
        if (more < 0)
            return NULL;
        if (more == 0) {
            w->eof = 1;
            break;
        }
        if (w->base < offset)
            window_forget(w, offset);
    }
    *got = w->base == offset ? (w->length < n ? w->length : n) : 0;
    return w->buffer ? w->buffer : (const unsigned char *)"";
}

/* Bytes of [offset, offset + n) that have come, reading those that need not be waited for. */
static size_t window_arrived(struct mt_window *w, uint64_t offset, size_t n)
{
    struct mt_error ignored; /* who reads on finds it again */
    window_forget(w, offset);
    while (w->base == offset && w->length < n && !w->eof) {
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        if (poll(&p, 1, 0) <= 0 || !(p.revents & POLLIN))
            break;
        size_t want = n < 2 * w->length ? n : 2 * w->length;
        if (window_grow(w, want < AHEAD ? AHEAD : want, &ignored) != 0 || read_more(w, want, &ignored) <= 0)
            break;
    }
    return w->base == offset ? w->length : 0;
}

int mt_window_has_chunk(struct mt_window *w, uint64_t offset)
{
    struct mt_mtc_chunk head;
    if (window_arrived(w, offset, sizeof head) < sizeof head)
        return 0;
    memcpy(&head, w->buffer, sizeof head);
    return head.magic == MT_MTC_CHUNK_MAGIC && head.stored_bytes <= MT_MTC_MAX_PLAIN &&
           window_arrived(w, offset, sizeof head + head.stored_bytes) >= sizeof head + head.stored_bytes;
}
