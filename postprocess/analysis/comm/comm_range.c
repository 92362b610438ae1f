/* Loads and stores of ranges: any alignment, several accesses at a time. A stretch of memory with one writer
 * is taken at once. */
#include "comm_access.h"

/* End of the entries equal to entry[i], at most `end`. */
static unsigned equal_to(const uint32_t *entry, unsigned i, unsigned end)
{
    uint32_t e = entry[i++];
    for (; i + 8 <= end; i += 8) {
        uint32_t differ = 0;
        for (unsigned k = 0; k < 8; k++)
            differ |= entry[i + k] ^ e;
        if (differ)
            break;
    }
    while (i < end && entry[i] == e)
        i++;
    return i;
}

/* The keys of accesses [first, last] that took entries [i, end) of page p. */
static void keep_range(struct mt_comm *c, struct run *run, const struct mt_page *p, unsigned i, unsigned end,
                       bool fresh, uint64_t first, uint64_t last)
{
    int rc = 0;
    for (uint64_t k = first; k <= last && rc == 0; k++)
        if (run->record + k != run->kept) {
            run->kept = run->record + k;
            rc = mt_keyset_add(&c->keys, run->base + k * run->size);
        }
    if (fresh || c->partial)
        for (; i < end && rc == 0; i++)
            rc = mt_keyset_add(&c->keys, start_of(p, i));
    if (rc != 0)
        mt_comm_fail(c, "out of memory");
}

/* Bytes [from, to) of page p, which begins at `origin`. */
static void load_page(struct mt_comm *c, struct run *run, struct mt_page *p, uint64_t origin, unsigned from,
                      unsigned to)
{
    if (not_uniform(c, p, false) != 0)
        return;
    while (from < to) {
        unsigned shift = p->mask == 0 ? MT_PAGE_BITS : p->mask == MT_PAGE_WORDS - 1 ? 2 : 0;
        unsigned i = from >> shift, end = equal_to(p->entry, i, ((to - 1) >> shift) + 1) << shift;
        if (end > to)
            end = to;
        uint32_t entry = p->entry[i], src = entry & ~MT_ENTRY_READ;
        if (src == 0 || src == run->self || !counts(c, run, src, false)) {
            from = end;
            continue;
        }
        uint64_t fresh = 0;
        if (unread(c, entry, false)) {
            if (shift == 2 && (end & 3) && (end & ~3u) > from)
                end &= ~3u;
            if (shift == 2 && ((from | end) & 3)) { /* a part of a word is read for the first time */
                if (mt_page_to_bytes(c->shadow, p) != 0)
                    return;
                continue;
            }
            fresh = end - from;
            for (unsigned k = i; k < end >> shift; k++)
                p->entry[k] = entry | MT_ENTRY_READ;
        }
        uint64_t first = 0, last = 0;
        if (run->size) {
            first = (origin + from - run->base) / run->size;
            last = (origin + end - 1 - run->base) / run->size;
        }
        if (c->options.addresses && run->selected && !(src & MT_ENTRY_HOST))
            keep_range(c, run, p, i, ((end - 1) >> shift) + 1, fresh != 0, first, last);
        comm_access_read(c, run, src, origin + from, end - from);
        take(c, run, src, end - from, fresh, first, last, false);
        from = end;
    }
}

/* Of bytes [from, to): how many are this shard's. */
static uint64_t comm_range_owned(const struct mt_comm *c, uint64_t from, uint64_t to)
{
    uint64_t bytes = 0;
    if (c->shards <= 1)
        return to - from;
    for (uint64_t n; from < to; from += n) {
        n = (1ull << MT_REGION_BITS) - (from & ((1ull << MT_REGION_BITS) - 1));
        n = n < to - from ? n : to - from;
        bytes += mt_comm_owns(c, from) ? n : 0;
    }
    return bytes;
}

/* Whole pages of one writer are read. */
static void comm_range_read(struct mt_comm *c, const struct run *run, uint32_t src, uint64_t page,
                            uint64_t end)
{
    struct mt_readers *r = &c->readers;
    if (!c->options.readers || !run->selected || src & MT_ENTRY_HOST)
        return;
    src = c->actors[src].instance;
    for (uint64_t next; page < end && !r->lost; page = next)
        if (mt_readers_stretch(r, page, end, &next)) {
            uint64_t ours = comm_range_owned(c, page << MT_PAGE_BITS, next << MT_PAGE_BITS);
            if (ours)
                mt_readers_read_stretch(r, src, run->instance, page, next, ours);
        } else {
            next = page + 1;
            mt_readers_read(r, src, run->instance, page << MT_PAGE_BITS, MT_PAGE_BYTES);
        }
}

/* Pages from `address` on that do not exist and have one writer, at most `size` bytes: how many bytes. */
static uint64_t load_gap(struct mt_comm *c, struct run *run, uint64_t address, uint64_t size)
{
    uint64_t page = address >> MT_PAGE_BITS, end = page + (size >> MT_PAGE_BITS), next = page + 1;
    size_t at = mt_spans_at(&c->shadow->spans, page);
    const struct mt_page_span *span = at < c->shadow->spans.n ? &c->shadow->spans.at[at] : NULL;
    if (span && span->first <= page)
        end = end < span->end ? end : span->end;
    else if (span)
        end = end < span->first ? end : span->first;
    while (next < end && !mt_shadow_peek(c->shadow, next))
        next++;
    uint64_t bytes = (next - page) << MT_PAGE_BITS;
    uint32_t entry = span && span->first <= page ? span->entry : 0, src = entry & ~MT_ENTRY_READ;
    if (src == 0 || src == run->self || !counts(c, run, src, false))
        return bytes;
    uint64_t ours = comm_range_owned(c, address, address + bytes), first = 0, last = 0;
    int fresh = unread(c, entry, false);
    struct mt_page_span read = {page, next, entry | MT_ENTRY_READ, span->start, span->version};
    if (run->size) {
        first = (address - run->base) / run->size;
        last = (address + bytes - 1 - run->base) / run->size;
    }
    if (ours && c->options.addresses && run->selected && !(src & MT_ENTRY_HOST)) {
        const struct mt_page like = {.uniform_start = read.start};
        keep_range(c, run, &like, 0, 1, fresh, first, last);
    }
    if (fresh && mt_spans_set(&c->shadow->spans, &read) != 0)
        c->shadow->failed = 1;
    if (ours) {
        comm_range_read(c, run, src, page, next);
        take(c, run, src, ours, fresh ? ours : 0, first, last, false);
    }
    return bytes;
}

void mt_comm_load(struct mt_comm *c, struct run *run, uint64_t address, uint64_t size)
{
    int far = size >= MT_SHADOW_FAR; /* then it has regions of several shards */
    while (size > 0 && !c->shadow->failed) {
        uint64_t number = address >> MT_PAGE_BITS;
        unsigned from = address & (MT_PAGE_BYTES - 1);
        uint64_t n = size < MT_PAGE_BYTES - from ? size : MT_PAGE_BYTES - from;
        if (far && n == MT_PAGE_BYTES && !c->shadow->ncombs && !mt_shadow_peek(c->shadow, number)) {
            n = load_gap(c, run, address, size);
        } else if (!far || c->shards <= 1 || mt_comm_owns(c, address)) {
            struct mt_page *p = mt_shadow_find(c->shadow, number);
            if (p)
                load_page(c, run, p, address - from, from, from + (unsigned)n);
        }
        address += n;
        size -= n;
    }
}

/* The words of a row inside one page. */
static int store_page(struct mt_comm *c, struct run *run, uint64_t address, unsigned size)
{
    struct mt_page *p = mt_shadow_make(c->shadow, address >> MT_PAGE_BITS);
    if (!p)
        return -1;
    if (p->mask == MT_PAGE_BYTES - 1)
        return 1; /* not words */
    unsigned from = (address & (MT_PAGE_BYTES - 1)) >> 2, end = from + (size >> 2);
    for (unsigned i = from; i < end; i++)
        p->entry[i] = run->self;
    if (p->start && run->size == 4)
        for (unsigned i = from; i < end; i++, address += 4)
            p->start[i] = address;
    else if (p->start)
        for (unsigned i = from; i < end; i++, address += 4)
            p->start[i] = address - (address - run->base) % run->size;
    return 0;
}

static void store_row(struct mt_comm *c, struct run *run, uint32_t count)
{
    uint64_t address = run->base, left = (uint64_t)run->size * count;
    bool words = ((address | run->size) & 3) == 0 && (left < MT_SHADOW_FAR || run->size < MT_PAGE_BYTES);
    if (!c->shadow->starts && (!words || left >= MT_SHADOW_FAR)) {
        mt_shadow_fill(c->shadow, address, left, run->self, 0);
        return;
    }
    if (!words) {
        for (uint32_t k = 0; k < count; k++, address += run->size)
            mt_shadow_fill(c->shadow, address, run->size, run->self, address);
        return;
    }
    while (left > 0) {
        unsigned room = MT_PAGE_BYTES - (unsigned)(address & (MT_PAGE_BYTES - 1));
        unsigned n = left < room ? (unsigned)left : room;
        if (store_page(c, run, address, n) != 0)
            for (unsigned i = 0; i < n; i += 4) /* a page of bytes */
                mt_shadow_fill(c->shadow, address + i, 4, run->self,
                               address + i - (address + i - run->base) % run->size);
        address += n;
        left -= n;
    }
}

/* A stretch of accesses that is this shard's alone: 1; another's: 0; parts of several: -1. */
static int comm_range_whole(struct mt_comm *c, uint64_t base, uint64_t bytes)
{
    if (base + bytes - 1 < base) /* around the end of the address space */
        return -1;
    if (c->shards <= 1)
        return 1;
    if (base >> MT_REGION_BITS != (base + bytes - 1) >> MT_REGION_BITS)
        return -1;
    return mt_comm_owns(c, base);
}

/* Volumes of `count` accesses, and which halves they have. */
static void comm_range_volumes(struct mt_comm *c, struct run *run, uint32_t meta, uint32_t count, bool *loads,
                               bool *stores)
{
    uint32_t type = meta >> 28;
    uint64_t bytes = (uint64_t)(meta & MT_RAW_MAX_SIZE) * count;
    *loads = type == MT_LOAD || type == MT_ATOMIC;
    *stores = type == MT_STORE || type == MT_ATOMIC;
    run->load += *loads ? bytes : 0;
    run->store += *stores ? bytes : 0;
    c->unknown += type == MT_UNKNOWN ? count : 0;
}

bool mt_comm_row(struct mt_comm *c, struct run *run, uint32_t meta, uint64_t base, uint32_t count)
{
    uint32_t size = meta & MT_RAW_MAX_SIZE;
    int where = comm_range_whole(c, base, (uint64_t)size * count);
    bool loads, stores;
    if (where < 0)
        return false;
    if (where > 0) {
        comm_range_volumes(c, run, meta, count, &loads, &stores);
        run->record++;
        run->base = base;
        run->size = size;
        if (loads)
            mt_comm_load(c, run, base, (uint64_t)size * count);
        if (stores)
            store_row(c, run, count);
        run->size = 0;
        run->record--;
    }
    run->record += count;
    return true;
}

bool mt_comm_repeat(struct mt_comm *c, struct run *run, uint32_t meta, uint64_t base, uint32_t count)
{
    uint32_t size = meta & MT_RAW_MAX_SIZE;
    int where = comm_range_whole(c, base, size);
    bool loads, stores;
    if (where < 0)
        return false;
    if (where > 0) {
        comm_range_volumes(c, run, meta, count, &loads, &stores);
        run->record++;
        run->base = base;
        /* Atomics after the first one find what they wrote themselves. */
        run->times = stores ? 1 : count;
        if (loads)
            mt_comm_load(c, run, base, size);
        run->times = 1;
        if (stores)
            mt_shadow_fill(c->shadow, base, size, run->self, base);
        run->record--;
    }
    run->record += count;
    return true;
}
