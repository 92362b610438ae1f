/* Host chunks of one thread (or, in file order, of all), one at a time. */
#include "reader/container/container.h"

enum { RECORDS_MAX = 4096 };

static uint32_t size_of(void *arg, uint32_t site)
{
    const struct mt_host_site_info *s = mt_meta_site(arg, site);
    return s ? s->size : 0;
}

static int host_stream_memory(const struct mt_host_reader *r, struct mt_error *err)
{
    return mt_error_set(err, MT_E_SYSTEM, ENOMEM, 0, r->window.name, "no memory for reading a chunk");
}

/* Threads may be many and short: room for what the chunk has, up to a limit. */
static int make_room(struct mt_host_stream *s, uint64_t items)
{
    size_t most = s->most ? s->most : RECORDS_MAX, want = items < most ? (size_t)items + 1 : most;
    if (want <= s->capacity)
        return 0;
    void *p = realloc(s->room, want * sizeof *s->room);
    if (!p)
        return -1;
    s->room = p;
    s->capacity = want;
    return 0;
}

int mt_host_stream_start(struct mt_host_stream *s, struct mt_host_reader *r, uint64_t offset,
                         const struct mt_mtc_chunk *head, const unsigned char *stored, struct mt_error *err)
{
    int timed = (r->head.features & MT_MTC_HAS_TIMES) != 0;
    s->open = 0;
    if (head->items > MT_MTC_MAX_ITEMS)
        return mt_error_set(err, MT_E_CORRUPT, 0, offset, r->window.name,
                            "a chunk of %llu items: more than any has, it is skipped",
                            (unsigned long long)head->items);
    if (mt_chunk_unpack(&s->plain, r->window.name, offset, head, stored, err) != 0)
        return -1;
    if (make_room(s, head->items) != 0 ||
        mt_decode_start(&s->decoder, s->plain.data, s->plain.bytes, timed, head->first) != 0)
        return host_stream_memory(r, err);
    s->decoder.size_of = size_of;
    s->decoder.arg = &r->meta;
    s->offset = offset;
    s->thread = head->key;
    s->items = head->items;
    s->last = head->last;
    s->open = 1;
    return 0;
}

int mt_host_stream_load(struct mt_host_stream *s, struct mt_host_reader *r, const struct mt_mtc_index *entry,
                        struct mt_error *err)
{
    struct mt_mtc_chunk head;
    const unsigned char *stored;
    enum mt_chunk_state state = mt_chunk_at(&r->window, entry->offset, &head, &stored, err);
    s->open = 0;
    r->done += state == MT_CHUNK_WHOLE ? sizeof head + head.stored_bytes : 0;
    if (state == MT_CHUNK_WHOLE && head.type == entry->type && head.key == entry->key)
        return mt_host_stream_start(s, r, entry->offset, &head, stored, err);
    if (state == MT_CHUNK_WHOLE || state == MT_CHUNK_END)
        return mt_error_set(err, MT_E_CORRUPT, 0, entry->offset, r->window.name,
                            "here is another chunk than the index says");
    return -1;
}

static int at_end(struct mt_host_stream *s, struct mt_host_reader *r, struct mt_error *err)
{
    const struct mt_decoder *d = &s->decoder;
    s->open = 0;
    if (d->items == s->items && d->seq == s->last)
        return 0;
    return mt_error_set(
        err, MT_E_CORRUPT, 0, s->offset, r->window.name,
        "a chunk has %llu items and ends at sequence number %llu, its head says %llu and %llu",
        (unsigned long long)d->items, (unsigned long long)d->seq, (unsigned long long)s->items,
        (unsigned long long)s->last);
}

int mt_host_stream_next(struct mt_host_stream *s, struct mt_host_reader *r, size_t keep,
                        struct mt_host_item *item, struct mt_error *err)
{
    struct mt_decoder *d = &s->decoder;
    size_t count;
    if (!s->open)
        return 0;
    int rc = mt_decode_next(d, s->room + keep, s->capacity - keep, &count, item);
    if (rc == 0)
        return at_end(s, r, err);
    if (rc > 0 && d->items <= s->items) {
        if (count)
            *item = (struct mt_host_item){.kind = MT_HOST_ITEM_RECORDS,
                                          .records = s->room + keep,
                                          .count = count,
                                          .seq = d->seq,
                                          .time = s->room[keep].time};
        item->thread = s->thread;
        return 1;
    }
    s->open = 0;
    if (rc < 0 && !d->why)
        return host_stream_memory(r, err);
    return mt_error_set(
        err, MT_E_CORRUPT, 0, s->offset, r->window.name, "a chunk %s (byte %llu of its payload)",
        rc < 0 ? d->why : "has more items than its head says", (unsigned long long)(d->at - d->begin));
}

void mt_host_stream_free(struct mt_host_stream *s)
{
    mt_chunk_payload_free(&s->plain);
    mt_decode_free(&s->decoder);
    free(s->room);
    memset(s, 0, sizeof *s);
}
