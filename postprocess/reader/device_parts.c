/* Device chunks in any order, for processes that share the reading of one compact trace. */
#define _GNU_SOURCE
#include "reader/container/container.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BATCH = 4096 };

struct mt_device_parts {
    struct mt_host_reader *reader;
    struct mt_chunk_payload plain;
    struct mt_device_decoder decoder;
    uint64_t offset, items; /* offset and accesses of the current chunk */
    struct mt_access_run runs[BATCH];
    uint64_t lanes[BATCH * MT_MTC_MAX_LANES];
};

static const char *device_parts_why_not(const struct mt_host_reader *r)
{
    size_t n;
    const struct mt_device_launch *l = mt_device_launches(r, &n);
    if (!r->window.regular || r->head.features & MT_MTC_HAS_HOST)
        return "is not a file of kernels' accesses alone";
    if (!r->chunks.indexed)
        return "has no index";
    if (r->problems.count)
        return "is damaged";
    for (size_t i = 0; i < n; i++)
        if (!l[i].whole || !l[i].named)
            return "has launches that are not whole";
    return NULL;
}

struct mt_device_parts *mt_device_parts_open(const char *path, struct mt_error *err)
{
    struct mt_device_parts *p = calloc(1, sizeof *p);
    if (!p) {
        mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, path, "no memory for a reader");
        return NULL;
    }
    p->reader = mt_host_reader_open(path, NULL, err);
    const char *why = p->reader ? device_parts_why_not(p->reader) : NULL;
    if (why)
        mt_error_set(err, MT_E_INPUT, 0, 0, path, "cannot be read by parts: %s", why);
    if (p->reader && !why)
        return p;
    mt_device_parts_close(p);
    return NULL;
}

void mt_device_parts_close(struct mt_device_parts *p)
{
    if (!p)
        return;
    mt_host_reader_close(p->reader);
    mt_device_decode_free(&p->decoder);
    mt_chunk_payload_free(&p->plain);
    free(p);
}

uint64_t mt_device_parts_digest(const struct mt_device_parts *p)
{
    const struct mt_chunk_list *l = &p->reader->chunks;
    return XXH3_64bits(l->entries, l->count * sizeof *l->entries);
}

uint64_t mt_device_parts_accesses(const struct mt_device_parts *p, size_t chunk)
{
    return p->reader->chunks.entries[p->reader->device.chunks[chunk]].items;
}

static int device_parts_damaged(const struct mt_device_parts *p, const char *why, struct mt_error *err)
{
    if (why)
        return mt_error_set(err, MT_E_CORRUPT, 0, p->offset, p->reader->window.name, "a chunk %s", why);
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, p->reader->window.name, "no memory for reading a chunk");
}

int mt_device_parts_seek(struct mt_device_parts *p, size_t chunk, struct mt_error *err)
{
    struct mt_host_reader *r = p->reader;
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    if (chunk >= r->device.nchunks)
        return mt_error_set(err, MT_E_INPUT, 0, 0, r->window.name, "has no chunk number %zu", chunk);
    const struct mt_mtc_index *e = &r->chunks.entries[r->device.chunks[chunk]];
    enum mt_chunk_state state = mt_chunk_at(&r->window, e->offset, &head, &stored, err);
    p->offset = e->offset;
    if (state == MT_CHUNK_END)
        return device_parts_damaged(p, "is missing", err);
    if (state != MT_CHUNK_WHOLE)
        return -1;
    if (head.type != e->type || head.key != e->key || head.first != e->first || head.flags != e->flags)
        return device_parts_damaged(p, "is another one than the index says", err);
    p->items = head.items;
    p->decoder.features = r->head.features;
    if (mt_chunk_unpack(&p->plain, r->window.name, e->offset, &head, stored, err) != 0)
        return -1;
    return mt_device_decode_start(&p->decoder, p->plain.data, p->plain.bytes) != 0
               ? device_parts_damaged(p, p->decoder.why, err)
               : 0;
}

int mt_device_parts_next(struct mt_device_parts *p, const struct mt_access_run **runs, size_t *count,
                         struct mt_error *err)
{
    struct mt_device_decoder *d = &p->decoder;
    *runs = p->runs;
    if (mt_device_decode_next(d, p->runs, p->lanes, BATCH, count) != 0)
        return device_parts_damaged(p, d->why, err);
    if (*count > 0)
        return 1;
    return d->accesses == p->items && mt_device_decode_done(d)
               ? 0
               : device_parts_damaged(p, "has other accesses than its head says", err);
}
