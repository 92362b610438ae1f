/* Companions that are files. */
#define _GNU_SOURCE
#include "internal.h"
#include "memtrace/grow.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 1 << 16,
    HEADER = 1 << 16, /* the first line of a companion is shorter */
    LINE = 1 << 24    /* bytes: no line of ours is nearly as long */
};

struct companion_buffer {
    char *text;
    size_t used, room;
    uint64_t offset; /* of text[0] in the file */
};

/* Hands on the whole lines of the buffer; with `all` what is after the last LF, too. 0, or -1 without memory.
 */
static int companion_take(struct mt_companion *c, struct companion_buffer *b, int all)
{
    const char *lf = all ? NULL : memrchr(b->text, '\n', b->used);
    size_t n = all ? b->used : lf ? (size_t)(lf - b->text) + 1 : 0;
    if (n && mt_companion_add(c, b->text, n, b->offset) != 0)
        return -1;
    memmove(b->text, b->text + n, b->used - n);
    b->used -= n;
    b->offset += n;
    return 0;
}

/* The lines of an open file. 0, or -1 with *err. */
static int companion_lines(struct mt_companion *c, int fd, const char *path, struct mt_error *err)
{
    struct companion_buffer b = {0};
    ssize_t n = 0;
    int rc = 0;
    while (rc == 0 && b.used < LINE) {
        if ((rc = mt_grow(&b.text, &b.room, b.used + PIECE, 1)) != 0)
            break;
        do
            n = read(fd, b.text + b.used, PIECE);
        while (n < 0 && errno == EINTR);
        b.used += n > 0 ? (size_t)n : 0;
        if (n < 0 || (rc = companion_take(c, &b, n == 0)) != 0 || n == 0)
            break;
    }
    if (n < 0) {
        uint64_t at = b.offset + b.used;
        int e = errno;
        rc = mt_error_set(err, MT_E_SYSTEM, e, at, path, "read error at byte %llu: %s",
                          (unsigned long long)at, strerror(e));
    } else if (rc != 0) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for the companion");
    } else if (n > 0) {
        rc = mt_error_set(err, MT_E_CORRUPT, 0, b.offset, path,
                          "a line of more than 16 MiB: this is no companion (without it: --no-companion)");
    }
    free(b.text);
    return rc;
}

/* A descriptor; -1: errno. Not a device: it may have no end. */
static int companion_open(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    int e = fstat(fd, st) != 0           ? errno
            : S_ISDIR(st->st_mode)       ? EISDIR
            : S_ISCHR(st->st_mode)       ? ENOTSUP
            : S_ISBLK(st->st_mode)       ? ENOTSUP
            : fcntl(fd, F_SETFL, 0) != 0 ? errno
                                         : 0;
    if (!e)
        return fd;
    close(fd);
    errno = e;
    return -1;
}

struct mt_companion *mt_companion_load(const char *path, struct mt_error *err)
{
    struct stat st;
    int fd = companion_open(path, &st);
    if (fd < 0) {
        int e = errno;
        mt_error_set(err, MT_E_INPUT, e, 0, path, "cannot open the companion: %s",
                     e == ENOTSUP ? "it is a device, not a file" : strerror(e));
        return NULL;
    }
    struct mt_companion *c = mt_companion_new(path);
    if (!c)
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for the companion");
    int rc = c ? companion_lines(c, fd, path, err) : -1;
    close(fd);
    if (rc != 0) {
        mt_companion_free(c);
        return NULL;
    }
    c->regular = S_ISREG(st.st_mode);
    c->own = c->regular && st.st_uid == geteuid();
    mt_companion_sort(c);
    return c;
}

struct mt_companion *mt_companion_head(const char *path)
{
    char text[HEADER];
    struct stat st;
    size_t n = 0;
    ssize_t got = 1;
    int fd = companion_open(path, &st);
    while (fd >= 0 && S_ISREG(st.st_mode) && n < sizeof text && got &&
           ((got = read(fd, text + n, sizeof text - n)) >= 0 || errno == EINTR))
        n += got > 0 ? (size_t)got : 0;
    if (fd >= 0)
        close(fd);
    const char *lf = memchr(text, '\n', n);
    struct mt_companion *c = lf ? mt_companion_new(path) : NULL;
    if (!c || mt_companion_add(c, text, (size_t)(lf - text), 0) == 0)
        return c;
    mt_companion_free(c);
    return NULL;
}
