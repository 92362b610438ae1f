/* Small blocks of device memory, apart from the program's own heap: a kernel that writes past its block hits
 * other device memory, as on a GPU, and not malloc's own data. */
#define _GNU_SOURCE
#include "arena.h"
#include "base/fork.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define UNITS (MT_ARENA_SEGMENT / MT_ARENA_UNIT)
#define GUARD 65536u /* unmapped bytes after a segment */

struct mt_segment {
    struct mt_segment *next;
    char *base;
    struct mt_fd file;          /* file under the segment; ino 0: none */
    unsigned free;              /* number of free units */
    unsigned start;             /* all units below are in use */
    unsigned char taken[UNITS]; /* bytes, as they are faster to test than bits */
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static struct mt_segment *segments;

static unsigned units_of(size_t bytes)
{
    return (unsigned)((bytes + MT_ARENA_UNIT - 1) / MT_ARENA_UNIT);
}

/* Makes a segment at a multiple of 64 KiB, the largest alignment needed. */
static struct mt_segment *make_segment(void)
{
    struct mt_segment *s = calloc(1, sizeof *s);
    size_t whole = MT_ARENA_SEGMENT + 2 * GUARD;
    char *p =
        s ? mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
    if (p == MAP_FAILED)
        goto failed;
    char *base = (char *)(((uintptr_t)p + GUARD - 1) / GUARD * GUARD);
    if (base > p)
        munmap(p, (size_t)(base - p));
    munmap(base + MT_ARENA_SEGMENT + GUARD, (size_t)(p + whole - (base + MT_ARENA_SEGMENT + GUARD)));
    if (mprotect(base, MT_ARENA_SEGMENT, PROT_READ | PROT_WRITE)) {
        munmap(base, MT_ARENA_SEGMENT + GUARD);
        goto failed;
    }
    s->base = base;
    s->free = UNITS;
    return s;
failed:
    free(s);
    return NULL;
}

/* Returns the first of `n` consecutive free units, at a multiple of `step`, or UNITS if there are none. */
static unsigned arena_find(const struct mt_segment *s, unsigned n, unsigned step)
{
    unsigned at = (s->start + step - 1) / step * step;
    while (at + n <= UNITS) {
        const unsigned char *busy = memchr(s->taken + at, 1, n);
        if (!busy)
            return at;
        at = ((unsigned)(busy - s->taken) + step) / step * step;
    }
    return UNITS;
}

static void *arena_take(struct mt_segment *s, unsigned at, unsigned n)
{
    memset(s->taken + at, 1, n);
    s->free -= n;
    while (s->start < UNITS && s->taken[s->start])
        s->start++;
    return s->base + (size_t)at * MT_ARENA_UNIT;
}

void *mt_arena_get(size_t bytes, size_t align, struct mt_segment **from)
{
    unsigned n = units_of(bytes), step = units_of(align), at = UNITS;
    struct mt_segment *s;
    void *p = NULL;
    pthread_mutex_lock(&lock);
    for (s = segments; s; s = s->next)
        if (s->free >= n && (at = arena_find(s, n, step)) != UNITS)
            break;
    if (!s && (s = make_segment())) {
        s->next = segments;
        segments = s;
        at = 0;
    }
    if (s)
        p = arena_take(s, at, n);
    *from = s;
    pthread_mutex_unlock(&lock);
    return p;
}

/* Keeps the last segment: programs that allocate and free in turn would map and unmap it each time. */
static void drop_if_empty(struct mt_segment *s)
{
    struct mt_segment **at = &segments;
    if (s->free != UNITS || (segments == s && !s->next))
        return;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    munmap(s->base, MT_ARENA_SEGMENT + GUARD);
    if (s->file.ino)
        mt_fd_close(&s->file);
    free(s);
}

void mt_arena_put(struct mt_segment *from, void *p, size_t bytes)
{
    unsigned at = (unsigned)((size_t)((char *)p - from->base) / MT_ARENA_UNIT), n = units_of(bytes);
    pthread_mutex_lock(&lock);
    memset(from->taken + at, 0, n);
    from->free += n;
    if (at < from->start)
        from->start = at;
    drop_if_empty(from);
    pthread_mutex_unlock(&lock);
}

/* Copies the contents into a file of `bytes`. Returns its descriptor, or -1. */
static int arena_file(const char *from, uint64_t bytes)
{
    int fd = memfd_create("memtrace-ipc", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(fd, from + done, bytes - done, (off_t)done);
        if (n <= 0) {
            close(fd);
            return -1;
        }
        done += (uint64_t)n;
    }
    return fd;
}

int mt_memory_share(void *base, size_t bytes, struct mt_fd *file)
{
    int made = arena_file(base, bytes);
    if (made < 0)
        return errno ? errno : EIO;
    if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, made, 0) == MAP_FAILED) {
        close(made);
        return ENOMEM;
    }
    return mt_fd_take(file, made) ? errno : 0;
}

int mt_arena_share(struct mt_segment *s, const void *p, const struct mt_fd **file, uint64_t *offset)
{
    pthread_mutex_lock(&lock);
    int rc = s->file.ino ? 0 : mt_memory_share(s->base, MT_ARENA_SEGMENT, &s->file);
    pthread_mutex_unlock(&lock);
    *file = &s->file;
    *offset = (uint64_t)((const char *)p - s->base);
    return rc;
}
