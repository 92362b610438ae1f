/* Fatbins as CUDA 9 to 13 write them: a header, then entries, each with a header of its own. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <lz4.h>
#include <zstd.h>
#include "mt-ptx.h"

#define FATBIN_MAGIC 0xba55ed50u
#define PACKED_LZ4 0x2000u
#define PACKED_ZSTD 0x8000u
#define MAX_UNPACKED ((size_t)1 << 30)

uint64_t mt_ptxtool_limit = MT_PTX_LIMIT;

/* What a small file may not unpack to. */
static int fatbin_is_bomb(const char *name, const struct fatbin_entry *e)
{
    if (e->unpacked <= mt_ptxtool_limit || e->unpacked / 128 <= e->size) {
        return 0;
    }
    fprintf(stderr,
            "memtrace: %s: %zu bytes of its fatbin unpack to %zu, which is more than code does; --limit=%zuM "
            "lets it\n",
            name, e->size, e->unpacked, (e->unpacked >> 20) + 1);
    return 1;
}

static int fatbin_damaged(const char *name)
{
    fprintf(stderr, "memtrace: %s: its fatbin is damaged, or of a kind that is not known here\n", name);
    return 3;
}

int mt_ptxtool_fatbin_is(const unsigned char *data, size_t size)
{
    struct fatbin_header h;
    if (size < sizeof h) {
        return 0;
    }
    memcpy(&h, data, sizeof h);
    return h.magic == FATBIN_MAGIC && h.header_size >= sizeof h;
}

/* One entry at data; its whole length in *length. 0, or -1. */
static int fatbin_entry_at(const unsigned char *data, size_t size, struct fatbin_entry *e, size_t *length)
{
    struct entry_header h;
    if (size < sizeof h) {
        return -1;
    }
    memcpy(&h, data, sizeof h);
    if (h.header_size < sizeof h || h.header_size > size || h.size > size - h.header_size) {
        return -1;
    }
    int packed = (h.flags & (PACKED_LZ4 | PACKED_ZSTD)) != 0;
    *e =
        (struct fatbin_entry){.kind = h.kind, .arch = h.arch, .flags = h.flags, .data = data + h.header_size};
    e->size = packed && h.packed_size && h.packed_size <= h.size ? h.packed_size : h.size;
    e->unpacked = packed ? h.unpacked_size : 0;
    *length = h.header_size + h.size;
    return packed && (!h.unpacked_size || h.unpacked_size > MAX_UNPACKED) ? -1 : 0;
}

int mt_ptxtool_fatbin_walk(const char *name, const unsigned char *data, size_t size,
                           int (*each)(void *ctx, unsigned fatbin, const struct fatbin_entry *e), void *ctx)
{
    unsigned number = 0;
    size_t at = 0;
    while (at + sizeof(struct fatbin_header) <= size) {
        struct fatbin_header h;
        memcpy(&h, data + at, sizeof h);
        if (h.magic != FATBIN_MAGIC) { /* the next one is aligned */
            at += 8;
            continue;
        }
        if (h.header_size < sizeof h || h.header_size > size - at || h.size > size - at - h.header_size) {
            return fatbin_damaged(name);
        }
        const unsigned char *p = data + at + h.header_size;
        for (size_t left = h.size, length; left >= sizeof(struct entry_header); p += length, left -= length) {
            struct fatbin_entry e;
            if (fatbin_entry_at(p, left, &e, &length) != 0) {
                return fatbin_damaged(name);
            }
            int code = each(ctx, number, &e);
            if (code != 0) {
                return code;
            }
        }
        number++;
        at += (h.header_size + h.size + 7) & ~(size_t)7;
    }
    return 0;
}

int mt_ptxtool_fatbin_unpack(const char *name, const struct fatbin_entry *e, struct bytes *out)
{
    size_t n = e->unpacked ? e->unpacked : e->size;
    int bad = 0;
    if (fatbin_is_bomb(name, e)) {
        return 3;
    }
    out->data = malloc(n + 1);
    if (!out->data) {
        fprintf(stderr, "memtrace: out of memory\n");
        return 1;
    }
    out->size = n;
    if (!e->unpacked) {
        memcpy(out->data, e->data, n);
    } else if (e->flags & PACKED_ZSTD) {
        bad = ZSTD_decompress(out->data, n, e->data, e->size) != n;
    } else {
        bad = n > INT_MAX || e->size > INT_MAX || /* of one block: it must fill the room */
              LZ4_decompress_safe((const char *)e->data, (char *)out->data, (int)e->size, (int)n) != (int)n;
    }
    if (bad) {
        mt_cudabin_bytes_free(out);
        return fatbin_damaged(name);
    }
    return 0;
}
