/* A container as a row of chunks: its head, its meta chunks, the next chunk of a FIFO, its end. */
#include "container.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

int mt_container_head(struct mt_window *w, struct mt_mtc_head *h, struct mt_error *err)
{
    size_t got;
    const unsigned char *p = mt_window_get(w, 0, sizeof *h, &got, err);
    if (!p)
        return -1;
    memcpy(h, p, got);
    if (got < sizeof h->magic || h->magic != MT_MTC_MAGIC) {
        if (got == 0)
            return mt_error_set(err, MT_E_TRUNCATED, 0, 0, w->name, "the container is empty");
        return mt_error_set(err, MT_E_INPUT, 0, 0, w->name, "not a container: it does not begin like one");
    }
    if (got < sizeof *h)
        return mt_error_set(err, MT_E_TRUNCATED, 0, 0, w->name, "the container ends inside its head");
    if (h->check != XXH3_64bits(h, offsetof(struct mt_mtc_head, check)) || h->head_bytes < sizeof *h ||
        h->head_bytes % 8 || h->head_bytes > 1 << 20)
        return mt_error_set(err, MT_E_CORRUPT, 0, 0, w->name, "the head of the container is damaged");
    uint64_t known =
        MT_MTC_HAS_HOST | MT_MTC_HAS_TIMES | MT_MTC_HAS_DEVICE | MT_MTC_HAS_SPACES | MT_MTC_HAS_COPIES;
    uint64_t unknown = (h->features & UINT32_MAX) & ~known;
    if (h->version != MT_MTC_VERSION || unknown)
        return mt_error_set(
            err, MT_E_INPUT, 0, 0, w->name,
            "a container of version %u with features 0x%llx: this reader knows version %u and "
            "features 0x%llx; a newer memtrace reads it",
            h->version, (unsigned long long)h->features, MT_MTC_VERSION, (unsigned long long)known);
    return 0;
}

int mt_container_take_meta(struct mt_host_reader *r, uint64_t offset, const struct mt_mtc_chunk *head,
                           const unsigned char *stored, struct mt_error *err)
{
    struct mt_chunk_payload plain = {0};
    int rc = mt_meta_bound(&r->meta.bound, r->window.name, offset, head, err);
    if (rc == 0)
        rc = mt_chunk_unpack(&plain, r->window.name, offset, head, stored, err);
    if (rc == 0 && mt_meta_add(&r->meta, (char *)plain.data, plain.bytes, offset) != 0)
        rc = mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a container");
    mt_chunk_payload_free(&plain);
    return rc;
}

int mt_companion_speaks(const struct mt_companion *c)
{
    return c->has_header || c->has_end || c->nlaunches || c->nallocs || c->ncopies || c->bad_lines || c->lost;
}

int mt_container_whole(struct mt_host_reader *r, struct mt_error *err)
{
    if (r->cut_told || r->chunks.indexed || mt_companion_speaks(r->meta.companion))
        return 0;
    r->cut_told = 1;
    return mt_error_set(err, MT_E_TRUNCATED, 0, r->window.regular ? r->window.size : r->done, r->window.name,
                        MT_CONTAINER_CUT);
}

int mt_container_stopped(struct mt_host_reader *r, struct mt_error *err)
{
    if (!mt_stopped(&r->window.stop))
        return 0;
    mt_error_set(err, MT_E_STOPPED, EINTR, 0, r->window.name, "stopped while reading");
    return 1;
}

int mt_container_next_live(struct mt_host_reader *r, uint64_t *offset, struct mt_mtc_chunk *head,
                           const unsigned char **stored, struct mt_error *err)
{
    uint64_t at = *offset = r->next;
    struct mt_error ignored;
    int found;
    if (at == MT_NOTHING_LEFT)
        return 0;
    switch (mt_chunk_at(&r->window, at, head, stored, err)) {
    case MT_CHUNK_END:
        return 0;
    case MT_CHUNK_SYSTEM:
        return -1;
    case MT_CHUNK_WHOLE:
        r->next = mt_chunk_end(at, head);
        return 1;
    default:
        found = mt_chunk_resync(&r->window, &r->next, 0, &ignored);
        if (found > 0)
            err->code = MT_E_CORRUPT;
        else if (found < 0)
            *err = ignored;
        else
            r->next = MT_NOTHING_LEFT; /* what is left is not a chunk */
        return -1;
    }
}
