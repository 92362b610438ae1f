/* Where the launches of a raw trace end, found from any place in it: nothing but an end mark has 24 zero
 * bytes in a row (a record has some byte of its type and size that is not zero; the longest row that two of
 * them can make at usual addresses has 23). What is found is checked against the launches' names and the size
 * of records. */
#define _GNU_SOURCE
#include "reader/base/internal.h"
#include "memtrace/grow.h"
#include <fcntl.h>
#include <unistd.h>

enum { PIECE = 1 << 17 /* stays in the processor's cache */, NAME_PIECE = 4096 };

/* As many of n bytes at `at` as there are; -1 with *err. */
static ssize_t read_at(int fd, const char *path, void *out, size_t n, uint64_t at, struct mt_error *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno != EINTR) {
            int e = errno;
            return mt_error_set(err, MT_E_SYSTEM, e, at, path, "read error at byte %llu: %s",
                                (unsigned long long)at, strerror(e));
        }
        if (got == 0)
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

struct list {
    uint64_t *at;
    size_t n, room;
};

static int ends_append(struct list *l, uint64_t at)
{
    if (mt_grow(&l->at, &l->room, l->n + 1, sizeof *l->at) != 0)
        return -1;
    l->at[l->n++] = at;
    return 0;
}

/* The first byte from i on at which a row of 24 zeros may begin: such a row has all of one of the words that
 * are 16 bytes apart. n: none does that is whole. */
static size_t ends_skip(const unsigned char *p, size_t i, size_t n)
{
    size_t word = i;
    for (uint64_t value = 1; word + sizeof value <= n; word += 16) {
        memcpy(&value, p + word, sizeof value);
        if (value == 0)
            break;
    }
    return word == i ? i : word - 15; /* the word before has a byte that is not zero */
}

/* Ends of rows of zeros in p[0 .. n), which are at `base`; *zeros: of the row under way. */
static int ends_scan(struct list *l, const unsigned char *p, size_t n, uint64_t base, uint64_t from,
                     uint64_t *zeros)
{
    for (size_t i = 0; i < n;) {
        if (*zeros == 0)
            i = ends_skip(p, i, n);
        if (p[i++] == 0) {
            ++*zeros;
            continue;
        }
        if (*zeros >= MT_RAW_RECORD_SIZE && base + i - 1 > from && ends_append(l, base + i - 1) != 0)
            return -1;
        *zeros = 0;
    }
    return 0;
}

int mt_raw_ends(const char *path, uint64_t from, uint64_t to, uint64_t **ends, size_t *count,
                struct mt_error *err)
{
    struct list l = {NULL, 0, 0};
    unsigned char *buffer = malloc(PIECE);
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = -1;
    uint64_t at = from < MT_RAW_RECORD_SIZE ? 0 : from - MT_RAW_RECORD_SIZE, zeros = 0, last = to + 1;
    if (fd < 0 || !buffer) {
        mt_error_set(err, fd < 0 ? MT_E_INPUT : MT_E_SYSTEM, errno, 0, path, "cannot read: %s",
                     strerror(errno));
        goto out;
    }
    while (at < last) {
        size_t want = last - at < PIECE ? (size_t)(last - at) : PIECE;
        ssize_t n = read_at(fd, path, buffer, want, at, err);
        if (n < 0)
            goto out;
        rc = ends_scan(&l, buffer, (size_t)n, at, from, &zeros);
        at += (uint64_t)n;
        if (rc == 0 && (size_t)n < want) { /* the end of the file */
            if (zeros >= MT_RAW_RECORD_SIZE && at > from && at <= to)
                rc = ends_append(&l, at);
            break;
        }
        if (rc != 0)
            break;
    }
    if (rc != 0)
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for its launches");
out:
    free(buffer);
    if (fd >= 0)
        close(fd);
    if (rc != 0) {
        free(l.at);
        return -1;
    }
    *ends = l.at;
    *count = l.n;
    return 0;
}

/* Is a launch in bytes [from, end)? */
static int is_launch(int fd, const char *path, uint64_t from, uint64_t end)
{
    char piece[NAME_PIECE];
    struct mt_error err;
    for (uint64_t at = from; at < end;) {
        ssize_t n =
            read_at(fd, path, piece, end - at < sizeof piece ? (size_t)(end - at) : sizeof piece, at, &err);
        const char *lf = n > 0 ? memchr(piece, '\n', (size_t)n) : NULL;
        if (n <= 0)
            return 0;
        if (lf)
            return (end - (at + (uint64_t)(lf - piece) + 1)) % MT_RAW_RECORD_SIZE == 0 &&
                   end - (at + (uint64_t)(lf - piece) + 1) >= MT_RAW_RECORD_SIZE;
        at += (uint64_t)n;
    }
    return 0;
}

int mt_raw_ends_fit(const char *path, uint64_t size, const uint64_t *ends, size_t count, size_t first,
                    size_t step)
{
    unsigned char byte = 0;
    struct mt_error err;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int fit = fd >= 0 && read_at(fd, path, &byte, 1, 0, &err) == 1 && byte == MT_RAW_RECORD_SIZE &&
              size == (count ? ends[count - 1] : 1);
    for (size_t i = first; i < count && fit; i += step)
        fit = is_launch(fd, path, i ? ends[i - 1] : 1, ends[i]);
    if (fd >= 0)
        close(fd);
    return fit;
}
