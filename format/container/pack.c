/* Compression and checksums of chunks. The only file in this folder that uses zstd and XXH3. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pack.h"
#include "pages.h"
#include <string.h>
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
    PROBE = 1 << 14,
    PROBED = 16 * PROBE
}; /* levels up to FAST probe payloads of at least
    * PROBED bytes */

#ifndef MT_CONTAINER_STORED
static void *pack_get(void *unused, size_t bytes)
{
    (void)unused;
    size_t *p = mt_pages(bytes + BEFORE);
    if (!p)
        return NULL;
    *p = bytes + BEFORE;
    return (char *)p + BEFORE;
}

static void pack_give(void *unused, void *p)
{
    (void)unused;
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

static int make_room(struct mt_packer *p, size_t payload)
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

int mt_packer_reserve(struct mt_packer *p, size_t bytes)
{
    return make_room(p, bytes);
}

#ifndef MT_CONTAINER_STORED
/* Returns 1 if samples of a large payload do not compress. Payloads of random gathers have no pattern, and
 * trying to compress them would dominate the time. The payload is noise if no sample shrinks by a thirtieth;
 * the first sample lies beyond other columns. */
static int is_noise(struct mt_packer *p, const unsigned char *plain, size_t bytes)
{
    for (size_t i = 1; i <= 16; i += 5) {
        size_t n = ZSTD_compressCCtx(p->context, p->buffer + HEAD, bytes, plain + bytes / 20 * i, PROBE, 1);
        if (ZSTD_isError(n) || n < PROBE - PROBE / 30)
            return 0;
    }
    return 1;
}
#endif

/* Compresses a payload. Returns the stored bytes after the head, or 0 to store it uncompressed. */
static size_t pack_compress(struct mt_packer *p, int level, const void *plain, size_t bytes)
{
#ifdef MT_CONTAINER_STORED
    (void)p, (void)level, (void)plain, (void)bytes;
    return 0;
#else
    if (level <= 0 || bytes < 32)
        return 0;
    if (!p->context)
        p->context = ZSTD_createCCtx_advanced((ZSTD_customMem){pack_get, pack_give, NULL});
    if (!p->context)
        return 0;
    if (level <= FAST && bytes >= PROBED && is_noise(p, plain, bytes))
        return 0;
    /* The room is limited to `bytes`: a larger result is not needed. */
    size_t n = ZSTD_compressCCtx(p->context, p->buffer + HEAD, bytes, plain, bytes, level);
    return ZSTD_isError(n) || n >= bytes ? 0 : n;
#endif
}

int mt_pack(struct mt_packer *p, int level, const void *plain, size_t bytes)
{
    struct mt_mtc_chunk *head = &p->head;
    if (make_room(p, bytes) != 0)
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

void mt_pack_head(struct mt_mtc_head *head)
{
    head->check = XXH3_64bits(head, offsetof(struct mt_mtc_head, check));
}

void mt_pack_tail(struct mt_mtc_tail *tail)
{
    tail->check = XXH3_64bits(tail, offsetof(struct mt_mtc_tail, check));
}

void mt_pack_digest(const void *text, size_t bytes, uint64_t digest[2])
{
    XXH128_hash_t h = XXH3_128bits(text, bytes);
    digest[0] = h.high64;
    digest[1] = h.low64;
}
