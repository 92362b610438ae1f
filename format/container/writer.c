/* Writer that appends chunks to a compact trace, from any thread, and keeps their index. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "writer.h"
#include "pages.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#define XXH_NO_STREAM
#ifdef MT_CONTAINER_STORED
#include <assert.h>
#define XXH_VECTOR 0 /* scalar: the compiler's vector headers need a whole C library */
#ifndef static_assert
#define static_assert _Static_assert /* xxhash.h uses static_assert, and PinCRT's assert.h lacks it */
#endif
#endif
#include <xxhash.h>
#ifndef MT_CONTAINER_STORED
#define ZSTD_STATIC_LINKING_ONLY /* custom memory, also with the shared library */
#include <zstd.h>
#endif

enum { HEAD = sizeof(struct mt_mtc_chunk), ALIGN = 8, BEFORE = 64 };
enum {
    FAST = 3,
    PROBE = 1 << 12,
    PROBED = 12 * PROBE
}; /* levels up to FAST probe payloads of at least
    * PROBED bytes */

#ifndef MT_CONTAINER_STORED
static void *pack_get(void *unused, size_t bytes)
{
    size_t *p = mt_pages(bytes + BEFORE);
    if (!p)
        return NULL;
    *p = bytes + BEFORE;
    return (char *)p + BEFORE;
}

static void pack_give(void *unused, void *p)
{
    if (p)
        mt_pages_free((char *)p - BEFORE, *(size_t *)((char *)p - BEFORE));
}
#endif

struct mt_packer *mt_packer_new(void)
{
    return mt_pages(sizeof(struct mt_packer));
}

void mt_packer_free(struct mt_packer *p)
{
    if (!p)
        return;
#ifndef MT_CONTAINER_STORED
    ZSTD_freeCCtx(p->context);
#endif
    mt_pages_free(p->buffer, p->room);
    mt_pages_free(p, sizeof *p);
}

int mt_packer_reserve(struct mt_packer *p, size_t payload)
{
    size_t want = HEAD + payload + ALIGN;
    if (want <= p->room)
        return 0;
    want += want / 2; /* the next payload is not much larger */
    unsigned char *more = mt_pages(want);
    if (!more) /* a smaller buffer is sufficient */
        return -1;
    mt_pages_free(p->buffer, p->room);
    p->buffer = more;
    p->room = want;
    return 0;
}

#ifndef MT_CONTAINER_STORED
/* Returns 1 if samples of a large payload hardly compress. Addresses of gathers have no pattern, and
 * compressing them takes longer than anything else for them. The payload is noise if no sample shrinks by a
 * quarter; the first one lies beyond other columns. */
static int pack_noise(struct mt_packer *p, const unsigned char *plain, size_t bytes)
{
    for (size_t i = 2; i <= 8; i += 3) {
        size_t n = ZSTD_compressCCtx(p->context, p->buffer + HEAD, bytes, plain + bytes / 10 * i, PROBE, 1);
        if (ZSTD_isError(n) || n < PROBE - PROBE / 4)
            return 0;
    }
    return 1;
}
#endif

/* Compresses a payload. Returns the stored bytes after the head, or 0 to store it uncompressed. */
static size_t pack_compress(struct mt_packer *p, int level, const void *plain, size_t bytes)
{
#ifdef MT_CONTAINER_STORED
    return 0;
#else
    if (level <= 0 || bytes < 32)
        return 0;
    if (!p->context)
        p->context = ZSTD_createCCtx_advanced((ZSTD_customMem){pack_get, pack_give, NULL});
    if (!p->context)
        return 0;
    if (level <= FAST && bytes >= PROBED && pack_noise(p, plain, bytes))
        return 0;
    /* The room is limited to `bytes`: a larger result is not needed. */
    size_t n = ZSTD_compressCCtx(p->context, p->buffer + HEAD, bytes, plain, bytes, level);
    return ZSTD_isError(n) || n >= bytes ? 0 : n;
#endif
}

/* Builds the whole chunk in p->buffer. Sets codec, stored_bytes, plain_bytes and check of p->head; the caller
 * sets the rest. A payload that compression would not shrink is stored. Returns 0, or -1 without memory. */
static int pack_chunk(struct mt_packer *p, int level, const void *plain, size_t bytes)
{
    struct mt_mtc_chunk *head = &p->head;
    if (mt_packer_reserve(p, bytes) != 0)
        return -1;
    size_t stored = pack_compress(p, level, plain, bytes);
    if (head->type == MT_MTC_META && bytes / MT_MTC_META_RATIO > stored)
        stored = 0; /* readers refuse such a ratio as a trap */
    head->codec = stored ? MT_MTC_ZSTD : MT_MTC_STORED;
    if (!stored) {
        stored = bytes;
        if (bytes)
            memcpy(p->buffer + HEAD, plain, bytes);
    }
    head->stored_bytes = stored;
    head->plain_bytes = bytes;
    uint64_t seed = XXH3_64bits(head, offsetof(struct mt_mtc_chunk, check));
    head->check = XXH3_64bits_withSeed(p->buffer + HEAD, stored, seed);
    memcpy(p->buffer, head, HEAD);
    size_t padded = (stored + ALIGN - 1) / ALIGN * ALIGN;
    memset(p->buffer + HEAD + stored, 0, padded - stored);
    p->bytes = HEAD + padded;
    return 0;
}

void mt_pack_digest(const void *text, size_t bytes, uint64_t digest[2])
{
    XXH128_hash_t h = XXH3_128bits(text, bytes);
    digest[0] = h.high64;
    digest[1] = h.low64;
}

struct mt_mtc_writer {
    struct mt_mtc_file file;
    int level;
    int lock;                  /* guards all fields below */
    int off;                   /* errno value of the failure, 0: none */
    uint64_t bytes;            /* bytes written so far */
    struct mt_mtc_index *list; /* chunks written; NULL with chunks: no memory for an index */
    uint64_t chunks, room;
    int no_index;
    struct mt_packer *idle;
};

/* Waiting threads yield the processor, since the holder may be inside write(2). */
static void writer_lock(struct mt_mtc_writer *w)
{
    for (unsigned tries = 0; __atomic_exchange_n(&w->lock, 1, __ATOMIC_ACQUIRE);)
        if (++tries % 64 == 0)
            sched_yield();
        else
            __builtin_ia32_pause();
}

static void writer_unlock(struct mt_mtc_writer *w)
{
    __atomic_store_n(&w->lock, 0, __ATOMIC_RELEASE);
}

static uint64_t writer_now(clockid_t clock)
{
    struct timespec t = {0, 0};
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Writes bytes. Called under the lock. */
static int writer_append(struct mt_mtc_writer *w, const void *data, size_t bytes)
{
    if (w->off)
        return w->off;
    int e = w->file.write(w->file.self, data, bytes);
    if (e)
        __atomic_store_n(&w->off, e, __ATOMIC_RELAXED); /* also read without the lock */
    else
        __atomic_store_n(&w->bytes, w->bytes + bytes, __ATOMIC_RELAXED);
    return w->off;
}

struct mt_mtc_writer *mt_mtc_writer_again(const struct mt_mtc_file *file, const struct mt_mtc_head *from,
                                          int level, char *why, size_t size)
{
    struct mt_mtc_head head = *from;
    struct mt_mtc_writer *w = calloc(1, sizeof *w);
    if (!w) {
        snprintf(why, size, "no memory for writing a container");
        return NULL;
    }
    w->file = *file;
    w->level = level;
    head.head_bytes = sizeof head;
    head.check = XXH3_64bits(&head, offsetof(struct mt_mtc_head, check));
    int e = writer_append(w, &head, sizeof head);
    if (e) {
        snprintf(why, size, "cannot write the head of the container: %s", strerror(e));
        free(w);
        return NULL;
    }
    return w;
}

struct mt_mtc_writer *mt_mtc_writer_open(const struct mt_mtc_file *file, uint64_t features, int level,
                                         char *why, size_t size)
{
    struct mt_mtc_head head = {.magic = MT_MTC_MAGIC,
                               .version = MT_MTC_VERSION,
                               .minor = features & MT_MTC_HAS_BLOCKS   ? MT_MTC_MINOR
                                        : features & MT_MTC_HAS_FENCES ? MT_MTC_MINOR - 1
                                        : features & MT_MTC_HAS_COPIES ? MT_MTC_MINOR - 2
                                        : features & MT_MTC_HAS_SPACES ? MT_MTC_MINOR - 3
                                                                       : MT_MTC_MINOR - 3,
                               .features = features,
                               .start_ns = writer_now(CLOCK_MONOTONIC),
                               .wall_ns = writer_now(CLOCK_REALTIME),
                               .pid = (uint32_t)getpid()};
    return mt_mtc_writer_again(file, &head, level, why, size);
}

/* Adds an index entry for the chunk that is about to be written at w->bytes. Called under the lock. */
static void writer_remember(struct mt_mtc_writer *w, const struct mt_mtc_chunk *head)
{
    if (w->chunks == w->room && !w->no_index) {
        uint64_t more = w->room ? w->room * 2 : 256;
        struct mt_mtc_index *p = mt_pages(more * sizeof *p);
        w->no_index = !p; /* readers can find the chunks by scanning */
        if (p) {
            if (w->room)
                memcpy(p, w->list, w->room * sizeof *p);
            mt_pages_free(w->list, w->room * sizeof *p);
            w->list = p;
            w->room = more;
        }
    }
    if (!w->no_index)
        w->list[w->chunks] = (struct mt_mtc_index){.offset = w->bytes,
                                                   .key = head->key,
                                                   .first = head->first,
                                                   .last = head->last,
                                                   .items = head->items,
                                                   .type = head->type,
                                                   .flags = head->flags};
    w->chunks++;
}

/* Returns an idle packer with its own buffer, or NULL without memory. */
static struct mt_packer *take_packer(struct mt_mtc_writer *w)
{
    writer_lock(w);
    struct mt_packer *p = w->idle;
    if (p)
        w->idle = p->next;
    writer_unlock(w);
    return p ? p : mt_packer_new();
}

int mt_mtc_pack(struct mt_packer *p, int level, enum mt_mtc_chunk_type type, unsigned flags, uint64_t key,
                uint64_t first, uint64_t last, uint64_t items, const void *plain, size_t bytes)
{
    p->head = (struct mt_mtc_chunk){.magic = MT_MTC_CHUNK_MAGIC,
                                    .type = (uint16_t)type,
                                    .flags = (uint8_t)flags,
                                    .items = items,
                                    .key = key,
                                    .first = first,
                                    .last = last};
    if (bytes > MT_MTC_MAX_PLAIN)
        return EFBIG;
    return pack_chunk(p, level, plain, bytes) == 0 ? 0 : ENOMEM;
}

/* Appends the chunk in `p`, unless packing failed with errno value `e`. */
static int append_chunk(struct mt_mtc_writer *w, const struct mt_packer *p, int e)
{
    if (e && !w->off)
        __atomic_store_n(&w->off, e, __ATOMIC_RELAXED);
    if (!w->off) {
        writer_remember(w, &p->head);
        writer_append(w, p->buffer, p->bytes);
    }
    return w->off;
}

int mt_mtc_append(struct mt_mtc_writer *w, const struct mt_packer *p)
{
    writer_lock(w);
    int e = append_chunk(w, p, 0);
    writer_unlock(w);
    return e;
}

int mt_mtc_write(struct mt_mtc_writer *w, enum mt_mtc_chunk_type type, unsigned flags, uint64_t key,
                 uint64_t first, uint64_t last, uint64_t items, const void *plain, size_t bytes)
{
    int e = __atomic_load_n(&w->off, __ATOMIC_RELAXED);
    struct mt_packer *p = e ? NULL : take_packer(w);
    if (!e)
        e = p ? mt_mtc_pack(p, w->level, type, flags, key, first, last, items, plain, bytes) : ENOMEM;
    writer_lock(w);
    e = append_chunk(w, p, e);
    if (p) {
        p->next = w->idle;
        w->idle = p;
    }
    writer_unlock(w);
    return e;
}

uint64_t mt_mtc_writer_bytes(const struct mt_mtc_writer *w)
{
    return __atomic_load_n(&w->bytes, __ATOMIC_RELAXED);
}

/* Writes index and tail, if the index fits into a chunk. */
static void writer_finish(struct mt_mtc_writer *w)
{
    struct mt_mtc_tail tail = {.index = w->bytes, .chunks = w->chunks, .magic = MT_MTC_TAIL_MAGIC};
    size_t bytes = w->chunks * sizeof *w->list;
    struct mt_packer *p;
    if (w->off || w->no_index || bytes > MT_MTC_MAX_PLAIN || !(p = take_packer(w)))
        return;
    p->next = w->idle;
    w->idle = p;
    if (mt_mtc_pack(p, w->level, MT_MTC_INDEX, 0, 0, 0, 0, w->chunks, w->list, bytes) != 0)
        return; /* no memory: the file is valid without an index */
    tail.check = XXH3_64bits(&tail, offsetof(struct mt_mtc_tail, check));
    if (writer_append(w, p->buffer, p->bytes) == 0)
        writer_append(w, &tail, sizeof tail);
}

int mt_mtc_writer_close(struct mt_mtc_writer *w)
{
    if (!w)
        return 0;
    writer_finish(w);
    int e = w->off;
    while (w->idle) {
        struct mt_packer *p = w->idle;
        w->idle = p->next;
        mt_packer_free(p);
    }
    mt_pages_free(w->list, w->room * sizeof *w->list);
    free(w);
    return e;
}
