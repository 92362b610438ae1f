/* The communication analysis: launches, actors and transfers; accesses of kernels and of the host; shards. */
#define _GNU_SOURCE

#include "comm.h"
#include "memtrace/grow.h"
#include "memtrace/hash.h"
#include "memtrace/order.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Consecutive accesses of one actor, with the current access or row of accesses. */
struct run {
    uint32_t self, instance;
    uint32_t first;  /* first actor of the launch; lower numbers belong to earlier launches */
    uint32_t source; /* actor or host of the transfer `transfer` */
    uint32_t judged; /* actor to which `sender` applies */
    enum mt_sender sender;
    size_t transfer;
    uint64_t cta;
    uint64_t load, store, from[MT_SENDER_KINDS]; /* bytes to be added to the actor's */
    uint64_t record;                             /* number of the current access, or of its row's first one */
    uint64_t base;                               /* address at which the access begins */
    uint32_t size;                               /* bytes of one access of a row */
    uint32_t times;                              /* number of times that the access is made */
    uint64_t kept;                               /* latest record whose address is among the keys */
    uint64_t region;                             /* region of the last access, and whether it belongs to this
                                                  * shard */
    bool mine;
    bool crossing; /* 1: the current access spans several shards */
    bool selected;
};

/* Returns 1 if data of writer `src` (not 0, not this actor) counts as communication when this run reads
 * it. */
INLINE bool counts(const struct mt_comm *c, const struct run *run, uint32_t src, const bool plain)
{
    if (src & MT_ENTRY_HOST)
        return true;
    if (plain)
        return src < run->first || c->actors[src].instance != run->instance;
    if (src >= run->first && c->options.strict)
        return false;
    if (c->options.local)
        return c->actors[src].cta != run->cta;
    return c->actors[src].instance != run->instance;
}

/* Returns the relation of actor `src`, whose data counts, to this run. */
INLINE enum mt_sender sender_of(const struct mt_comm *c, struct run *run, uint32_t src)
{
    if (src != run->judged) {
        run->judged = src;
        run->sender = src >= run->first                ? MT_FROM_SAME_LAUNCH
                      : c->actors[src].cta == run->cta ? MT_FROM_SAME_CTA
                                                       : MT_FROM_EARLIER_LAUNCH;
    }
    return run->sender;
}

static int comm_fail(struct mt_comm *c, const char *why);

/* Adds the addresses under which an access with communicated bytes is listed. Bytes read before have theirs
 * among the keys already, unless they were read in a launch that is not reported. */
INLINE void keep(struct mt_comm *c, struct run *run, uint64_t start, bool fresh)
{
    int rc = 0;
    if (run->record != run->kept) {
        run->kept = run->record;
        rc = mt_keyset_add(&c->keys, run->base);
    }
    if (rc == 0 && start != run->base && (fresh || c->partial))
        rc = mt_keyset_add(&c->keys, start);
    if (rc != 0)
        comm_fail(c, "out of memory");
}

/* Passes the communicated bytes, all of one writer, to the readers. */
INLINE void comm_access_read(struct mt_comm *c, const struct run *run, uint32_t src, uint64_t address,
                             uint64_t size)
{
    if (c->options.readers && run->selected && !(src & MT_ENTRY_HOST))
        mt_readers_read(&c->readers, c->actors[src].instance, run->instance, address, size);
}

static size_t comm_transfer(struct mt_comm *c, uint32_t src, uint32_t dst);

/* Counts `bytes` communicated bytes of src in accesses [first, last] of the current row (0 and 0 for a single
 * access); no other actor had read `fresh` of them before. `one`: the access is made once. */
INLINE void take(struct mt_comm *c, struct run *run, uint32_t src, uint64_t bytes, uint64_t fresh,
                 uint64_t first, uint64_t last, const bool one)
{
    uint64_t times = one ? 1 : run->times;
    if (!(src & MT_ENTRY_HOST)) {
        run->from[sender_of(c, run, src)] += bytes * times;
        if (fresh)
            c->actors[src].comm_store += fresh;
    } else if (fresh) {
        c->hosts[src & MT_ENTRY_MAX].comm_store += fresh;
    }
    if (!run->selected)
        return;
    if (src != run->source) {
        uint32_t instance = src & MT_ENTRY_HOST ? src : c->actors[src].instance;
        run->transfer = comm_transfer(c, instance, run->instance);
        if (run->transfer == SIZE_MAX) {
            run->source = 0;
            return;
        }
        run->source = src;
    }
    struct mt_transfer *t = &c->transfers[run->transfer];
    t->size += bytes * times;
    if (__builtin_expect(run->crossing, 0)) {
        mt_comm_cross(c, run->record, t->src, t->dst);
        return;
    }
    first += run->record;
    last += run->record;
    t->count += times * (last - first + (t->last != first));
    t->last = last;
}

/* Returns 1 if a reader of this entry may be its first one. Without host accesses this does not matter for
 * host writes, whose pages may then stay uniform. */
INLINE bool unread(const struct mt_comm *c, uint32_t entry, const bool plain)
{
    if (!plain && c->options.host)
        return !(entry & MT_ENTRY_READ);
    return !(entry & (MT_ENTRY_READ | MT_ENTRY_HOST));
}

/* Converts a page before marks are set. Returns 0, or -1 without memory. */
INLINE int not_uniform(struct mt_comm *c, struct mt_page *p, const bool plain)
{
    return p->mask == 0 && p->uniform && unread(c, p->uniform, plain) ? mt_page_to_words(c->shadow, p) : 0;
}

/* Returns the address at which the access that wrote entry i began; with starts. */
INLINE uint64_t start_of(const struct mt_page *p, unsigned i)
{
    return p->mask ? p->start[i] : p->uniform_start;
}

/* Returns -1. */
static int comm_fail(struct mt_comm *c, const char *why)
{
    if (!c->why)
        c->why = why;
    return -1;
}

/* Makes room for element n of an array, as mt_grow does. */
static int comm_reserve(struct mt_comm *c, void *array, size_t n, size_t *room, size_t size)
{
    return mt_grow(array, room, n + 1, size) == 0 ? 0 : comm_fail(c, "out of memory");
}

static int comm_host_init(struct mt_comm *c);

int mt_comm_init(struct mt_comm *c, const struct mt_comm_options *options)
{
    memset(c, 0, sizeof *c);
    c->options = *options;
    c->shadow = malloc(sizeof *c->shadow);
    if (!c->shadow || mt_shadow_init(c->shadow, options->addresses) != 0)
        return comm_fail(c, "out of memory");
    /* Actor 0 does not exist: entry 0 means never written. */
    if (comm_reserve(c, &c->actors, 0, &c->actor_room, sizeof *c->actors) != 0)
        return -1;
    memset(c->actors, 0, sizeof *c->actors);
    c->nactors = 1;
    if (options->readers)
        mt_readers_init(&c->readers);
    return comm_host_init(c);
}

void mt_comm_forget(struct mt_comm *c)
{
    if (c->shadow)
        mt_shadow_free(c->shadow);
    free(c->shadow);
    c->shadow = NULL;
    mt_readers_forget(&c->readers);
}

static void comm_host_free(struct mt_comm *c);

void mt_comm_free(struct mt_comm *c)
{
    mt_comm_forget(c);
    free(c->launches);
    free(c->actors);
    free(c->transfers);
    free(c->crossings);
    free(c->crossed);
    comm_host_free(c);
    mt_pairmap_free(&c->actor_index);
    mt_pairmap_free(&c->instance_index);
    mt_pairmap_free(&c->transfer_index);
    mt_keyset_free(&c->keys);
    mt_readers_free(&c->readers);
    memset(c, 0, sizeof *c);
}

/* ---- launches, actors, transfers ---- */

int mt_comm_launch(struct mt_comm *c, const char *kernel, int selected)
{
    if (c->nlaunches == UINT32_MAX)
        return comm_fail(c, "more than 2^32 - 1 launches");
    if (comm_reserve(c, &c->launches, c->nlaunches, &c->launch_room, sizeof *c->launches) != 0)
        return -1;
    mt_pairmap_clear(&c->actor_index);
    mt_pairmap_clear(&c->instance_index);
    mt_pairmap_clear(&c->transfer_index);
    mt_readers_launch(&c->readers);
    c->last_actor = 0;
    c->partial |= !selected;
    c->launches[c->nlaunches++] =
        (struct mt_comm_launch){kernel, (uint32_t)c->nactors, (uint32_t)c->nactors, selected};
    return 0;
}

/* Returns the actor of this CTA and SM in the current launch, created if necessary; 0 on failure. */
static uint32_t comm_actor(struct mt_comm *c, uint64_t cta, uint32_t smid)
{
    const uint64_t *known = mt_pairmap_find(&c->actor_index, cta, smid);
    if (known)
        return (uint32_t)*known;
    if (c->nactors > MT_ENTRY_MAX) {
        comm_fail(c, "more than 2^30 - 1 CTA instances: select inputs or cut the trace");
        return 0;
    }
    if (comm_reserve(c, &c->actors, c->nactors, &c->actor_room, sizeof *c->actors) != 0)
        return 0;
    const uint64_t *instance = mt_pairmap_get(&c->instance_index, cta, 0, c->nactors);
    if (!instance || !mt_pairmap_get(&c->actor_index, cta, smid, c->nactors)) {
        comm_fail(c, "out of memory");
        return 0;
    }
    uint32_t id = (uint32_t)c->nactors++;
    c->actors[id] = (struct mt_actor){
        .cta = cta, .smid = smid, .launch = (uint32_t)(c->nlaunches - 1), .instance = (uint32_t)*instance};
    c->launches[c->nlaunches - 1].end = id + 1;
    return id;
}

/* Returns an index in c->transfers, created if necessary; SIZE_MAX on failure. */
static size_t comm_transfer(struct mt_comm *c, uint32_t src, uint32_t dst)
{
    /* A CTA often reads from a few neighbours in turn. Readers belong to one launch, so the cached entries
     * stay valid. */
    struct mt_recent_transfer *recent = &c->recent_transfers[(src ^ dst << 2) % MT_RECENT_TRANSFERS];
    if (recent->src == src && recent->dst == dst)
        return recent->at;
    if (comm_reserve(c, &c->transfers, c->ntransfers, &c->transfer_room, sizeof *c->transfers) != 0)
        return SIZE_MAX;
    const uint64_t *at = mt_pairmap_get(&c->transfer_index, src, dst, c->ntransfers);
    if (!at) {
        comm_fail(c, "out of memory");
        return SIZE_MAX;
    }
    *recent = (struct mt_recent_transfer){src, dst, (size_t)*at};
    if (recent->at == c->ntransfers)
        c->transfers[c->ntransfers++] = (struct mt_transfer){.src = src, .dst = dst, .last = UINT64_MAX};
    return recent->at;
}

/* ---- loads and stores of ranges: any alignment, several accesses at once, whole stretches with one writer
 * ---- */

/* Returns the end of the entries equal to entry[i], at most `end`. */
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

/* Adds the keys of accesses [first, last] that read entries whose writers began at start[i .. end - 1]. */
static void keep_range(struct mt_comm *c, struct run *run, const uint64_t *start, unsigned i, unsigned end,
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
            rc = mt_keyset_add(&c->keys, start[i]);
    if (rc != 0)
        comm_fail(c, "out of memory");
}

/* Loads bytes [from, to) of page p, which begins at `origin`. */
static void load_page(struct mt_comm *c, struct run *run, struct mt_page *p, uint64_t origin, unsigned from,
                      unsigned to)
{
    if (not_uniform(c, p, false) != 0)
        return;
    while (from < to) {
        const struct mt_page_part part = mt_page_part_at(p, from);
        const unsigned shift = part.shift, stop = to < part.end ? to : part.end;
        const unsigned i = (from - part.first) >> shift;
        unsigned end = equal_to(part.entry, i, ((stop - 1 - part.first) >> shift) + 1) << shift;
        end += part.first;
        if (end > stop)
            end = stop;
        uint32_t entry = part.entry[i], src = entry & ~MT_ENTRY_READ;
        if (src == 0 || src == run->self || !counts(c, run, src, false)) {
            from = end;
            continue;
        }
        uint64_t fresh = 0;
        if (unread(c, entry, false)) {
            if (shift == 2 && (end & 3) && (end & ~3u) > from)
                end &= ~3u;
            if (shift == 2 && ((from | end) & 3)) { /* part of a word is read for the first time */
                if (mt_page_to_bytes(c->shadow, p) != 0)
                    return;
                continue;
            }
            if (shift == MT_PIECE_BITS) {
                if (!mt_page_piece(c->shadow, p, from >> MT_PIECE_BITS))
                    return;
                continue;
            }
            fresh = end - from;
            for (unsigned k = i; k < (end - part.first) >> shift; k++)
                part.entry[k] = entry | MT_ENTRY_READ;
        }
        uint64_t first = 0, last = 0;
        if (run->size) {
            first = (origin + from - run->base) / run->size;
            last = (origin + end - 1 - run->base) / run->size;
        }
        if (c->options.addresses && run->selected && !(src & MT_ENTRY_HOST))
            keep_range(c, run, part.start, i, ((end - 1 - part.first) >> shift) + 1, fresh != 0, first, last);
        comm_access_read(c, run, src, origin + from, end - from);
        take(c, run, src, end - from, fresh, first, last, false);
        from = end;
    }
}

/* Returns how many of the bytes [from, to) belong to this shard. */
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

/* Handle pages [page, end) as a whole, without memory for each. mt_readers_stretch returns 1 if the pages
 * before *next share one set (otherwise `page` must be read byte by byte); mt_readers_read_stretch then reads
 * all of them, which counts as `bytes` bytes. */
static int comm_readers_stretch(const struct mt_readers *r, uint64_t page, uint64_t end, uint64_t *next)
{
    const struct mt_spans *spans = &r->state->spans;
    if (mt_shadow_peek(r->state, page))
        return 0;
    size_t at = mt_spans_at(spans, page);
    if (at < spans->n) {
        const struct mt_page_span *s = &spans->at[at];
        uint64_t limit = s->first <= page ? s->end : s->first;
        end = end < limit ? end : limit;
    }
    for (*next = page + 1; *next < end && !mt_shadow_peek(r->state, *next);)
        ++*next;
    return 1;
}

/* Passes whole pages of one writer to the readers. */
static void comm_range_read(struct mt_comm *c, const struct run *run, uint32_t src, uint64_t page,
                            uint64_t end)
{
    struct mt_readers *r = &c->readers;
    if (!c->options.readers || !run->selected || src & MT_ENTRY_HOST)
        return;
    src = c->actors[src].instance;
    for (uint64_t next; page < end && !r->lost; page = next)
        if (comm_readers_stretch(r, page, end, &next)) {
            uint64_t ours = comm_range_owned(c, page << MT_PAGE_BITS, next << MT_PAGE_BITS);
            if (ours)
                mt_readers_read_stretch(r, src, run->instance, page, next, ours);
        } else {
            next = page + 1;
            mt_readers_read(r, src, run->instance, page << MT_PAGE_BITS, MT_PAGE_BYTES);
        }
}

/* Loads consecutive pages from `address` on that do not exist and have one writer, at most `size` bytes.
 * Returns the bytes. */
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
    if (ours && c->options.addresses && run->selected && !(src & MT_ENTRY_HOST))
        keep_range(c, run, &read.start, 0, 1, fresh, first, last);
    if (fresh && mt_spans_set(&c->shadow->spans, &read) != 0)
        c->shadow->failed = 1;
    if (ours) {
        comm_range_read(c, run, src, page, next);
        take(c, run, src, ours, fresh ? ours : 0, first, last, false);
    }
    return bytes;
}

/* Makes the current access load `size` bytes at `address`, with any alignment. */
static void mt_comm_load(struct mt_comm *c, struct run *run, uint64_t address, uint64_t size)
{
    int far = size >= MT_SHADOW_FAR; /* a large access spans regions of several shards */
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

/* Stores words of a row inside one page. */
static int store_page(struct mt_comm *c, struct run *run, uint64_t address, unsigned size)
{
    struct mt_page *p = mt_shadow_make(c->shadow, address >> MT_PAGE_BITS);
    if (!p)
        return -1;
    if (p->mask == MT_PAGE_BYTES - 1)
        return 1; /* the row does not consist of words */
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
            for (unsigned i = 0; i < n; i += 4) /* the page is in byte form */
                mt_shadow_fill(c->shadow, address + i, 4, run->self,
                               address + i - (address + i - run->base) % run->size);
        address += n;
        left -= n;
    }
}

/* Returns 1 if a range of accesses belongs to this shard only, 0 if to another one, -1 if it spans
 * several. */
static int comm_range_whole(struct mt_comm *c, uint64_t base, uint64_t bytes)
{
    if (base + bytes - 1 < base) /* wraps around the end of the address space */
        return -1;
    if (c->shards <= 1)
        return 1;
    if (base >> MT_REGION_BITS != (base + bytes - 1) >> MT_REGION_BITS)
        return -1;
    return mt_comm_owns(c, base);
}

/* Counts the volumes of `count` accesses; tells whether they load and store. */
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

/* Makes `count` adjacent accesses of one kind, the first at `base`; they get the next numbers. Returns false,
 * without changes, if they must be made one by one. */
static bool comm_row(struct mt_comm *c, struct run *run, uint32_t meta, uint64_t base, uint32_t count)
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

/* Makes the same access `count` times. */
static bool comm_repeat(struct mt_comm *c, struct run *run, uint32_t meta, uint64_t base, uint32_t count)
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
        /* Atomics after the first one read their own bytes. */
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

/* ---- inner loops: bytes of records and runs against the shadow ----
 * The same source is compiled several times: for the default options (`plain`) and for all others, for all
 * pages and for those of one shard. */

/* Loads whole aligned words inside one page. */
INLINE void load_words(struct mt_comm *c, struct run *run, uint64_t address, unsigned size, const bool plain)
{
    struct mt_page *p = mt_shadow_find(c->shadow, address >> MT_PAGE_BITS);
    if (!p)
        return;
    unsigned from = address & (MT_PAGE_BYTES - 1);
    if (__builtin_expect(p->mask == MT_PAGE_BYTES - 1, 0)) {
        mt_comm_load(c, run, address, size);
        return;
    }
    if (not_uniform(c, p, plain) != 0)
        return;
    for (unsigned i = from >> 2; i < (from + size) >> 2; i++) {
        uint32_t entry = p->entry[i & p->mask], src = entry & ~MT_ENTRY_READ;
        if (src == 0 || src == run->self || !counts(c, run, src, plain))
            continue;
        uint64_t fresh = 0;
        if (unread(c, entry, plain)) {
            p->entry[i & p->mask] = entry | MT_ENTRY_READ;
            fresh = 4;
        }
        if (!plain && c->options.addresses && run->selected && !(src & MT_ENTRY_HOST))
            keep(c, run, start_of(p, i & p->mask), fresh != 0);
        if (!plain)
            comm_access_read(c, run, src, address - from + 4 * i, 4);
        take(c, run, src, 4, fresh, 0, 0, plain);
    }
}

/* Loads bytes with any alignment. Pages that only the host wrote have one writer, who is not marked as
 * read. */
INLINE void load_bytes(struct mt_comm *c, struct run *run, uint64_t address, uint32_t size, const bool plain)
{
    const struct mt_page *p = mt_shadow_find(c->shadow, address >> MT_PAGE_BITS);
    unsigned from = address & (MT_PAGE_BYTES - 1);
    if (from + size > MT_PAGE_BYTES || (p && (p->mask != 0 || unread(c, p->uniform, plain)))) {
        mt_comm_load(c, run, address, size);
        return;
    }
    uint32_t src = p ? p->uniform & ~MT_ENTRY_READ : 0;
    if (src == 0 || src == run->self || !counts(c, run, src, plain))
        return;
    if (!plain)
        comm_access_read(c, run, src, address, size);
    take(c, run, src, size, 0, 0, 0, plain);
}

INLINE void store_words(struct mt_comm *c, struct run *run, uint64_t address, unsigned size, const bool plain)
{
    struct mt_page *p = mt_shadow_make(c->shadow, address >> MT_PAGE_BITS);
    if (!p)
        return;
    unsigned from = address & (MT_PAGE_BYTES - 1);
    if (__builtin_expect(p->mask == MT_PAGE_BYTES - 1, 0)) {
        mt_shadow_fill(c->shadow, address, size, run->self, address);
        return;
    }
    for (unsigned i = from >> 2; i < (from + size) >> 2; i++) {
        p->entry[i] = run->self;
        if (!plain && p->start)
            p->start[i] = address;
    }
}

/* Loads and stores words at once: nobody reads a word's mark between its load and its store. */
INLINE void atomic_words(struct mt_comm *c, struct run *run, uint64_t address, unsigned size,
                         const bool plain)
{
    struct mt_page *p = mt_shadow_find(c->shadow, address >> MT_PAGE_BITS);
    if (__builtin_expect(!p || p->mask != MT_PAGE_WORDS - 1, 0)) {
        load_words(c, run, address, size, plain);
        store_words(c, run, address, size, plain);
        return;
    }
    unsigned i = (address & (MT_PAGE_BYTES - 1)) >> 2, end = i + (size >> 2);
    for (uint64_t at = address; i < end; i++, at += 4) {
        uint32_t entry = p->entry[i], src = entry & ~MT_ENTRY_READ;
        if (src != 0 && src != run->self && counts(c, run, src, plain)) {
            uint64_t fresh = unread(c, entry, plain) ? 4 : 0;
            if (!plain && c->options.addresses && run->selected && !(src & MT_ENTRY_HOST))
                keep(c, run, p->start[i], fresh != 0);
            if (!plain)
                comm_access_read(c, run, src, at, 4);
            take(c, run, src, 4, fresh, 0, 0, plain);
        }
        p->entry[i] = run->self;
        if (!plain && p->start)
            p->start[i] = address;
    }
}

/* Shards of an access: this one, another one, several. */
enum where { MINE, OTHERS, SEVERAL };
INLINE enum where comm_access_place(const struct mt_comm *c, struct run *run, uint64_t address, uint32_t size)
{
    uint64_t region = address >> MT_REGION_BITS;
    if (__builtin_expect((address + size - 1) >> MT_REGION_BITS != region, 0))
        return SEVERAL;
    if (region != run->region) {
        run->region = region;
        run->mine = mt_comm_owns(c, address);
    }
    return run->mine ? MINE : OTHERS;
}

static void comm_fill(struct mt_comm *c, uint64_t address, uint64_t length, uint32_t entry, uint64_t start);

/* Makes the parts of an access that belong to this shard; the shard of its beginning counts the volumes. */
static __attribute__((noinline)) void comm_access_several(struct mt_comm *c, struct run *run, uint32_t meta,
                                                          uint64_t address)
{
    uint32_t type = meta >> 28, size = meta & MT_RAW_MAX_SIZE;
    int loads = type == MT_LOAD || type == MT_ATOMIC, stores = type == MT_STORE || type == MT_ATOMIC;
    if (mt_comm_owns(c, address)) {
        run->load += loads ? size : 0;
        run->store += stores ? size : 0;
        c->unknown += type == MT_UNKNOWN;
    }
    run->crossing = true;
    if (size >= MT_SHADOW_FAR) {
        if (loads)
            mt_comm_load(c, run, address, size);
        if (stores)
            comm_fill(c, address, size, run->self, address);
        run->crossing = false;
        return;
    }
    uint64_t at = address;
    for (uint32_t done = 0, n; done < size; done += n, at += n) {
        uint64_t room = (1u << MT_REGION_BITS) - (at & ((1u << MT_REGION_BITS) - 1));
        n = size - done < room ? size - done : (uint32_t)room;
        if (!mt_comm_owns(c, at))
            continue;
        if (loads)
            mt_comm_load(c, run, at, n);
        if (stores)
            mt_shadow_fill(c->shadow, at, n, run->self, address);
    }
    run->crossing = false;
}

/* Makes one access; `run` has its number and address. */
INLINE void access_one(struct mt_comm *c, struct run *run, uint32_t meta, uint64_t address, const bool plain,
                       const bool sharded)
{
    uint32_t type = meta >> 28, size = meta & MT_RAW_MAX_SIZE;
    if (sharded) {
        enum where w = comm_access_place(c, run, address, size);
        if (w == SEVERAL)
            comm_access_several(c, run, meta, address);
        if (w != MINE)
            return;
    }
    bool words = ((address | size) & 3) == 0 && (address & (MT_PAGE_BYTES - 1)) + size <= MT_PAGE_BYTES;
    if (type == MT_ATOMIC && words) {
        run->load += size;
        run->store += size;
        atomic_words(c, run, address, size, plain);
        return;
    }
    if (type == MT_LOAD || type == MT_ATOMIC) {
        run->load += size;
        if (__builtin_expect(words, 1))
            load_words(c, run, address, size, plain);
        else
            load_bytes(c, run, address, size, plain);
    }
    if (type == MT_STORE || type == MT_ATOMIC) {
        run->store += size;
        if (__builtin_expect(words, 1))
            store_words(c, run, address, size, plain);
        else
            mt_shadow_fill(c->shadow, address, size, run->self, address);
    }
    c->unknown += type == MT_UNKNOWN;
}

/* ---- records ---- */

/* Returns how many records from records[0] on form a row: each begins at the end of the one before, and they
 * differ in nothing else. */
INLINE size_t in_a_row(const struct mt_raw_record *r, size_t count)
{
    uint64_t size = r->w[0] & MT_RAW_MAX_SIZE;
    size_t n = 1;
    while (n < count && r[n].w[0] == r[0].w[0] && r[n].w[1] == r[n - 1].w[1] + size && r[n].w[2] == r[0].w[2])
        n++;
    return n;
}

enum { ROW = 6 }; /* minimum length of a row */

/* Makes the accesses of records[0 .. count) that have one actor; returns their number. */
INLINE size_t run_records(struct mt_comm *c, struct run *run, const struct mt_raw_record *r, size_t count,
                          const bool plain, const bool sharded)
{
    uint64_t cta = r[0].w[2];
    uint32_t smid = (uint32_t)(r[0].w[0] >> 32);
    size_t i = 0;
    do {
        uint32_t meta = (uint32_t)r[i].w[0];
        uint64_t address = r[i].w[1];
        if (i + ROW <= count && r[i + ROW - 1].w[0] == r[i].w[0] &&
            r[i + ROW - 1].w[1] == address + (ROW - 1) * (uint64_t)(meta & MT_RAW_MAX_SIZE)) {
            size_t room = ((1u << MT_REGION_BITS) - (address & ((1u << MT_REGION_BITS) - 1))) /
                          (meta & MT_RAW_MAX_SIZE); /* rows end at the end of a region */
            size_t n = room < ROW ? 0 : in_a_row(r + i, count - i < room ? count - i : room);
            if (n >= ROW && comm_row(c, run, meta, address, (uint32_t)n)) {
                i += n;
                continue;
            }
        }
        run->record++;
        run->base = address;
        access_one(c, run, meta, address, plain, sharded);
        i++;
    } while (i < count && r[i].w[2] == cta && (uint32_t)(r[i].w[0] >> 32) == smid);
    return i;
}

/* ---- actors ---- */

/* Initialises `run` for accesses of this CTA and SM with numbers from `record` + 1 on. Returns 0 or -1. */
INLINE int run_begin(struct mt_comm *c, struct run *run, uint64_t cta, uint32_t smid, uint64_t record)
{
    const struct mt_comm_launch *launch = &c->launches[c->nlaunches - 1];
    uint32_t self = c->last_actor;
    if (!self || c->actors[self].cta != cta || c->actors[self].smid != smid)
        self = c->last_actor = comm_actor(c, cta, smid);
    *run = (struct run){.self = self,
                        .instance = c->actors[self].instance,
                        .first = launch->first,
                        .cta = cta,
                        .record = record,
                        .kept = UINT64_MAX,
                        .region = UINT64_MAX,
                        .times = 1,
                        .selected = launch->selected && (c->options.transfers || c->options.addresses)};
    return self ? 0 : -1;
}

INLINE void run_end(struct mt_comm *c, const struct run *run)
{
    struct mt_actor *a = &c->actors[run->self];
    a->load += run->load;
    a->store += run->store;
    for (int i = 0; i < MT_SENDER_KINDS; i++)
        a->from[i] += run->from[i];
}

static int comm_access_failed(struct mt_comm *c)
{
    return c->shadow->failed ? comm_fail(c, "out of memory") : c->why ? -1 : 0;
}

INLINE int all_records(struct mt_comm *c, const struct mt_raw_record *r, size_t count, const bool plain,
                       const bool sharded)
{
    for (size_t i = 0; i < count;) {
        struct run run;
        if (run_begin(c, &run, r[i].w[2], (uint32_t)(r[i].w[0] >> 32), c->records + i) != 0)
            return -1;
        i += run_records(c, &run, r + i, count - i, plain, sharded);
        run_end(c, &run);
    }
    c->records += count;
    return comm_access_failed(c);
}

/* ---- runs ---- */

/* Returns 1 if a row of lanes may begin here, by a quick check. */
INLINE bool row_soon(const uint64_t *a, uint32_t count, uint32_t size)
{
    return count >= ROW && a[ROW - 1] == a[0] + (ROW - 1) * (uint64_t)size;
}

/* Returns the number of adjacent lanes from a[0] on, as blocks with rows of 8 or 16 threads have; 0: too
 * few. */
INLINE uint32_t row_of_lanes(const uint64_t *a, uint32_t count, uint32_t size)
{
    if (!row_soon(a, count, size))
        return 0;
    uint32_t n = 1;
    while (n < count && a[n] == a[n - 1] + size)
        n++;
    return n < ROW ? 0 : n;
}

/* Makes the loads of `size` bytes, one or two words, by lanes from a[0] on up to the next row, whose data
 * does not count, or comes from the writer of the current transfer and was read before: they change sums
 * only. Returns their number. */
INLINE uint32_t comm_access_known(struct mt_comm *c, struct run *run, const uint64_t *a, uint32_t count,
                                  uint32_t size, const bool plain)
{
    const struct mt_shadow *s = c->shadow;
    const uint32_t self = run->self, source = run->source;
    uint32_t k = 0, taken = 0, last = 0;
    for (; k < count; k++) {
        const uint64_t number = a[k] >> MT_PAGE_BITS;
        const unsigned slot = number & 1023;
        const struct mt_page *p = s->recent[slot].page;
        if (s->recent[slot].number != number || (a[k] & (size - 1)) || row_soon(a + k, count - k, size))
            break;
        if (!p)
            continue;
        if (p->mask >= MT_PAGE_WORDS)
            break;
        const uint32_t word = (uint32_t)(a[k] >> 2), entry = p->entry[word & p->mask],
                       src = entry & ~MT_ENTRY_READ;
        if (p->entry[(word + size / 8) & p->mask] != entry)
            break;
        if (src == 0 || src == self)
            continue;
        if (src != source || unread(c, entry, plain) || !(plain || src & MT_ENTRY_HOST))
            break; /* with options, data of a kernel may not count, or may be among the keys */
        taken++;
        last = k;
    }
    if (taken) {
        struct mt_transfer *t = &c->transfers[run->transfer];
        if (!(source & MT_ENTRY_HOST))
            run->from[sender_of(c, run, source)] += (uint64_t)taken * size;
        t->size += (uint64_t)taken * size;
        t->count += taken;
        t->last = run->record + last + 1;
    }
    run->record += k;
    run->load += (uint64_t)k * size;
    return k;
}

INLINE void comm_access_lanes(struct mt_comm *c, struct run *run, const struct mt_access_run *r,
                              const bool plain, const bool sharded)
{
    const uint32_t size = r->meta & MT_RAW_MAX_SIZE;
    bool known = !sharded && r->meta >> 28 == MT_LOAD && (size == 4 || size == 8);
    for (uint32_t k = 0, n; k < r->count; k += n) {
        n = row_of_lanes(r->addresses + k, r->count - k, size);
        if (n && comm_row(c, run, r->meta, r->addresses[k], n))
            continue;
        n = known ? comm_access_known(c, run, r->addresses + k, r->count - k, size, plain) : 0;
        known = known && (n || !k); /* writers that change from lane to lane are not tried again */
        if (n)
            continue;
        n = 1;
        run->record++;
        run->base = r->addresses[k];
        access_one(c, run, r->meta, r->addresses[k], plain, sharded);
    }
}

INLINE void one_run(struct mt_comm *c, struct run *run, const struct mt_access_run *r, const bool plain,
                    const bool sharded)
{
    uint32_t size = r->meta & MT_RAW_MAX_SIZE;
    uint64_t base = r->base, stride = (uint64_t)r->stride;
    if (r->addresses) {
        comm_access_lanes(c, run, r, plain, sharded);
        return;
    }
    if (r->count > 1) {
        if (stride == size && comm_row(c, run, r->meta, base, r->count))
            return;
        /* Backwards no two accesses overlap either, so the order does not matter. */
        if (stride == 0 - (uint64_t)size &&
            comm_row(c, run, r->meta, base + stride * (r->count - 1), r->count))
            return;
        if (stride == 0 && comm_repeat(c, run, r->meta, base, r->count))
            return;
    }
    for (uint32_t k = 0; k < r->count; k++, base += stride) {
        run->record++;
        run->base = base;
        access_one(c, run, r->meta, base, plain, sharded);
    }
}

INLINE int all_runs(struct mt_comm *c, const struct mt_access_run *r, size_t count, const bool plain,
                    const bool sharded)
{
    for (size_t i = 0; i < count;) {
        struct run run;
        uint64_t cta = r[i].cta;
        uint32_t smid = r[i].smid;
        if (run_begin(c, &run, cta, smid, c->records) != 0)
            return -1;
        do {
            one_run(c, &run, &r[i], plain, sharded);
            c->records += r[i].count;
            i++;
        } while (i < count && r[i].cta == cta && r[i].smid == smid);
        run_end(c, &run);
    }
    return comm_access_failed(c);
}

/* ---- volumes only ---- */

/* Masks of the size: bytes that a type loads and stores. */
static const uint32_t loads[4] = {[MT_LOAD] = UINT32_MAX, [MT_ATOMIC] = UINT32_MAX};
static const uint32_t stores[4] = {[MT_STORE] = UINT32_MAX, [MT_ATOMIC] = UINT32_MAX};

static int volumes_records(struct mt_comm *c, const struct mt_raw_record *r, size_t count)
{
    for (size_t i = 0; i < count;) {
        struct run run;
        uint64_t cta = r[i].w[2], load = 0, store = 0;
        uint32_t smid = (uint32_t)(r[i].w[0] >> 32);
        if (run_begin(c, &run, cta, smid, 0) != 0)
            return -1;
        do {
            uint32_t meta = (uint32_t)r[i].w[0], type = meta >> 28 & 3, size = meta & MT_RAW_MAX_SIZE;
            load += size & loads[type];
            store += size & stores[type];
            c->unknown += type == MT_UNKNOWN;
            i++;
        } while (i < count && r[i].w[2] == cta && (uint32_t)(r[i].w[0] >> 32) == smid);
        run.load = load;
        run.store = store;
        run_end(c, &run);
    }
    c->records += count;
    return 0;
}

static int volumes_runs(struct mt_comm *c, const struct mt_access_run *r, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct run run;
        uint32_t type = r[i].meta >> 28 & 3, size = r[i].meta & MT_RAW_MAX_SIZE;
        if (run_begin(c, &run, r[i].cta, r[i].smid, 0) != 0)
            return -1;
        run.load = (uint64_t)(size & loads[type]) * r[i].count;
        run.store = (uint64_t)(size & stores[type]) * r[i].count;
        c->unknown += type == MT_UNKNOWN ? r[i].count : 0;
        c->records += r[i].count;
        run_end(c, &run);
    }
    return 0;
}

/* ---- the variants ---- */

static int is_plain(const struct mt_comm *c)
{
    const struct mt_comm_options *o = &c->options;
    return !(o->local || o->strict || o->addresses || o->host || o->readers);
}

#define VARIANTS(what, type)                                                                                 \
    static int what##_plain(struct mt_comm *c, const type *r, size_t n)                                      \
    {                                                                                                        \
        return all_##what(c, r, n, true, false);                                                             \
    }                                                                                                        \
    static int what##_any(struct mt_comm *c, const type *r, size_t n)                                        \
    {                                                                                                        \
        return all_##what(c, r, n, false, false);                                                            \
    }                                                                                                        \
    static int what##_shard(struct mt_comm *c, const type *r, size_t n)                                      \
    {                                                                                                        \
        return all_##what(c, r, n, false, true);                                                             \
    }                                                                                                        \
    static int what##_plain_shard(struct mt_comm *c, const type *r, size_t n)                                \
    {                                                                                                        \
        return all_##what(c, r, n, true, true);                                                              \
    }                                                                                                        \
    int mt_comm_##what(struct mt_comm *c, const type *r, size_t n)                                           \
    {                                                                                                        \
        if (c->options.volumes)                                                                              \
            return volumes_##what(c, r, n);                                                                  \
        if (c->shards > 1)                                                                                   \
            return is_plain(c) ? what##_plain_shard(c, r, n) : what##_shard(c, r, n);                        \
        return is_plain(c) ? what##_plain(c, r, n) : what##_any(c, r, n);                                    \
    }

VARIANTS(records, struct mt_raw_record)
VARIANTS(runs, struct mt_access_run)

/* ---- the host: copies, and accesses of host code if a host trace has them ---- */

/* Cache of the host actors of sites, by the site's number. */
enum { RECENT = 1024 };
struct mt_host_recent {
    const struct mt_host_site_info *info;
    uint32_t superstep, host;
};

static int comm_host_init(struct mt_comm *c)
{
    if (mt_host_locations_init(&c->places) != 0 ||
        (c->options.host && !(c->host_recent = calloc(RECENT, sizeof *c->host_recent))))
        return comm_fail(c, "out of memory");
    return 0;
}

static void comm_host_free(struct mt_comm *c)
{
    mt_host_locations_free(&c->places);
    mt_pairmap_free(&c->host_index);
    free(c->host_recent);
    free(c->hosts);
}

/* Returns the superstep of host code: that of the next launch, or of the current program. */
static uint32_t host_step(const struct mt_comm *c)
{
    return (uint32_t)c->nlaunches - (c->options.threads && c->nlaunches > 0);
}

/* Returns the host actor of a location in the current superstep, created if necessary; UINT32_MAX on
 * failure. */
static uint32_t host_actor(struct mt_comm *c, uint32_t place)
{
    uint64_t *known = mt_pairmap_get(&c->host_index, place, host_step(c), 0);
    if (!known) {
        comm_fail(c, "out of memory");
        return UINT32_MAX;
    }
    if (*known)
        return (uint32_t)(*known - 1);
    if (c->nhosts > MT_ENTRY_MAX) {
        comm_fail(c, "more than 2^30 host writes");
        return UINT32_MAX;
    }
    if (comm_reserve(c, &c->hosts, c->nhosts, &c->host_room, sizeof *c->hosts) != 0)
        return UINT32_MAX;
    c->hosts[c->nhosts] = (struct mt_host_actor){.superstep = host_step(c), .place = place};
    *known = ++c->nhosts;
    return (uint32_t)(c->nhosts - 1);
}

/* ---- copies ---- */

int mt_comm_moves(const struct mt_comm *c, const struct mt_copy_event *e)
{
    int from_host = e->kind == MT_COPY_H2D || e->kind == MT_COPY_H2H;
    return e->kind == MT_COPY_D2D || e->kind == MT_COPY_D2H || (from_host && c->options.host);
}

int mt_comm_nobody(struct mt_comm *c, const struct mt_copy_event *e, uint32_t *nobody)
{
    *nobody = 0;
    if (e->kind == MT_COPY_H2D || e->kind == MT_COPY_H2H || e->kind == MT_COPY_SET) {
        uint32_t host = host_actor(c, 0);
        if (host == UINT32_MAX)
            return -1;
        *nobody = MT_ENTRY_HOST | host;
    }
    return 0;
}

static void comm_fill_rows(struct mt_comm *c, const struct mt_copy_event *e, uint32_t entry);

int mt_comm_copy(struct mt_comm *c, const struct mt_copy_event *e)
{
    uint32_t nobody;
    if (c->options.volumes)
        return 0;
    if (mt_comm_nobody(c, e, &nobody) != 0)
        return -1;
    if (!mt_comm_moves(c, e)) {
        comm_fill_rows(c, e, nobody);
        return c->shadow->failed ? comm_fail(c, "out of memory") : 0;
    }
    return c->shards <= 1 ? mt_comm_move(&c, 1, e) : 0;
}

/* ---- accesses ---- */

/* Counts `bytes` bytes that an actor wrote and the host reads. */
static int host_takes(struct mt_comm *c, uint32_t host, uint32_t src, unsigned bytes, int crossing)
{
    c->hosts[host].comm_load += bytes;
    if (!c->options.transfers || !mt_comm_host_selected(c, &c->hosts[host]))
        return 0;
    size_t i = comm_transfer(c, c->actors[src].instance, MT_ENTRY_HOST | host);
    if (i == SIZE_MAX)
        return -1;
    struct mt_transfer *t = &c->transfers[i];
    t->size += bytes;
    if (crossing) {
        mt_comm_cross(c, c->host_accesses, t->src, t->dst);
        return 0;
    }
    t->count += t->last != c->host_accesses;
    t->last = c->host_accesses;
    return 0;
}

/* Returns the page if it exists, or NULL; a span may cover it. */
static struct mt_page *page_of(struct mt_comm *c, uint64_t number)
{
    return c->shadow->ncombs ? mt_shadow_find(c->shadow, number) : mt_shadow_peek(c->shadow, number);
}

/* Loads for the host. Bytes stay unread for CTAs: it is not communication between CTAs. */
static int host_load(struct mt_comm *c, uint32_t host, uint64_t address, uint64_t size)
{
    int crossing = c->shards > 1 && address >> MT_REGION_BITS != (address + size - 1) >> MT_REGION_BITS;
    while (size > 0) {
        unsigned from = address & (MT_PAGE_BYTES - 1);
        unsigned n = size < MT_PAGE_BYTES - from ? (unsigned)size : MT_PAGE_BYTES - from;
        int mine = c->shards <= 1 || mt_comm_owns(c, address);
        struct mt_page *p = mine ? page_of(c, address >> MT_PAGE_BITS) : NULL;
        const struct mt_page_span *span =
            mine && !p ? mt_spans_find(&c->shadow->spans, address >> MT_PAGE_BITS) : NULL;
        uint32_t all = (p && !p->mask ? p->uniform : span ? span->entry : 0) & ~MT_ENTRY_READ;
        if (all && !(all & MT_ENTRY_HOST) && host_takes(c, host, all, n, crossing) != 0)
            return -1;
        for (unsigned i = from; p && p->mask && i < from + n;) {
            unsigned end = p->mask == MT_PAGE_WORDS - 1 ? (i | 3) + 1 : i + 1;
            if (end > from + n)
                end = from + n;
            uint32_t src = mt_page_entry(p, i) & ~MT_ENTRY_READ;
            if (src && !(src & MT_ENTRY_HOST) && host_takes(c, host, src, end - i, crossing) != 0)
                return -1;
            i = end;
        }
        address += n;
        size -= n;
    }
    return 0;
}

static uint32_t host_of_site(struct mt_comm *c, const struct mt_host_site_info *info)
{
    struct mt_host_recent *r = &c->host_recent[(info->site >> 2 ^ info->site << 8) % RECENT];
    if (r->info == info && r->superstep == host_step(c))
        return r->host;
    uint32_t place = mt_host_locations_of(&c->places, info);
    if (place == MT_LOCATION_FAILED) {
        comm_fail(c, "out of memory");
        return UINT32_MAX;
    }
    uint32_t host = host_actor(c, place);
    if (host != UINT32_MAX)
        *r = (struct mt_host_recent){info, host_step(c), host};
    return host;
}

int mt_comm_host(struct mt_comm *c, const struct mt_host_access *a, size_t count)
{
    static const struct {
        unsigned char reads, writes;
    } does[] = {
#define MT_HOST_OP(name, code, reads, writes, text) [code] = {reads, writes},
#include "memtrace/container.def"
    };
    for (size_t i = 0; i < count; i++) {
        unsigned op = (unsigned)a[i].site->op;
        if (op >= sizeof does / sizeof *does || !(does[op].reads | does[op].writes))
            continue;
        uint32_t host = host_of_site(c, a[i].site);
        if (host == UINT32_MAX)
            return -1;
        c->host_accesses++;
        int mine = c->shards <= 1 || mt_comm_owns(c, a[i].address);
        if (does[op].reads) {
            c->hosts[host].load += mine ? a[i].size : 0;
            if (!c->options.threads && host_load(c, host, a[i].address, a[i].size) != 0)
                return -1;
        }
        if (does[op].writes) {
            c->hosts[host].store += mine ? a[i].size : 0;
            if (!c->options.threads)
                comm_fill(c, a[i].address, a[i].size, MT_ENTRY_HOST | host, 0);
        }
    }
    return c->shadow->failed ? comm_fail(c, "out of memory") : 0;
}

/* ---- shards: ownership, copies between shards, merging of results ---- */

static size_t transfers_combine(struct mt_transfer *t, size_t n);

void mt_comm_shard(struct mt_comm *c, unsigned shard, unsigned shards)
{
    c->shard = shard;
    c->shards = shards;
    c->readers.most /= shards;
}

int mt_comm_meet(struct mt_comm *c, uint64_t cta, uint32_t smid)
{
    return comm_actor(c, cta, smid) ? 0 : -1;
}

/* Returns how many of `length` bytes from `address` on lie in the region of `address`. */
static uint64_t in_region(uint64_t address, uint64_t length)
{
    uint64_t room = (1ull << MT_REGION_BITS) - (address & ((1ull << MT_REGION_BITS) - 1));
    return length < room ? length : room;
}

/* Calls mt_shadow_fill for the bytes of this shard. */
static void comm_fill(struct mt_comm *c, uint64_t address, uint64_t length, uint32_t entry, uint64_t start)
{
    /* Large fills are stored in all shards; existing pages of the owners take precedence. */
    if (c->shards <= 1 || length >= MT_SHADOW_FAR) {
        mt_shadow_fill(c->shadow, address, length, entry, start);
        return;
    }
    for (uint64_t n; length > 0; address += n, length -= n) {
        n = in_region(address, length);
        if (mt_comm_owns(c, address))
            mt_shadow_fill(c->shadow, address, n, entry, start);
    }
}

/* Sets the writer of the copy's rows to `entry`, as far as they belong to this shard. */
static void comm_fill_rows(struct mt_comm *c, const struct mt_copy_event *e, uint32_t entry)
{
    const struct mt_comb rows = {e->dst, e->width, e->height, e->dpitch, entry, 0, 0};
    if (c->shards <= 1 || e->height > MT_SHADOW_TALL || e->dpitch == e->width) {
        mt_shadow_fill_rows(c->shadow, &rows);
        return;
    }
    for (uint64_t row = 0; row < e->height && !c->shadow->failed; row++)
        comm_fill(c, e->dst + row * e->dpitch, e->width, entry, 0);
}

/* ---- accesses that span shards ---- */

void mt_comm_cross(struct mt_comm *c, uint64_t record, uint32_t src, uint32_t dst)
{
    const struct mt_crossing *last = c->ncrossings ? &c->crossings[c->ncrossings - 1] : NULL;
    if (last && last->record == record && last->src == src && last->dst == dst)
        return;
    if (comm_reserve(c, &c->crossings, c->ncrossings, &c->crossing_room, sizeof *c->crossings) == 0)
        c->crossings[c->ncrossings++] = (struct mt_crossing){record, src, dst};
}

static int by_ends(const struct mt_crossing *x, const struct mt_crossing *y)
{
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    return x->dst < y->dst ? -1 : x->dst > y->dst;
}

static int crossing_order(const void *a, const void *b)
{
    const struct mt_crossing *x = a, *y = b;
    int d = by_ends(x, y);
    return d ? d : x->record < y->record ? -1 : x->record > y->record;
}

/* Collects all notes in the first shard, where each access counts once for each writer: as a transfer of no
 * bytes. */
int mt_comm_add_crossings(struct mt_comm *const *shards, unsigned n)
{
    struct mt_comm *c = shards[0];
    for (unsigned i = 1; i < n; i++) {
        for (size_t k = 0; k < shards[i]->ncrossings; k++) {
            const struct mt_crossing *x = &shards[i]->crossings[k];
            mt_comm_cross(c, x->record, x->src, x->dst);
        }
        shards[i]->ncrossings = 0;
    }
    struct mt_crossing *x = c->crossings;
    if (c->ncrossings == 0)
        return c->why ? -1 : 0;
    qsort(x, c->ncrossings, sizeof *x, crossing_order);
    for (size_t i = 0; i < c->ncrossings;) {
        struct mt_transfer t = {.src = x[i].src, .dst = x[i].dst, .last = UINT64_MAX};
        size_t k = i;
        for (; k < c->ncrossings && by_ends(&x[k], &x[i]) == 0; k++)
            t.count += k == i || x[k].record != x[k - 1].record;
        i = k;
        if (comm_reserve(c, &c->crossed, c->ncrossed, &c->crossed_room, sizeof *c->crossed) != 0)
            return -1;
        c->crossed[c->ncrossed++] = t;
    }
    c->ncrossings = 0;
    if (c->ncrossed > 2 * c->crossed_low + 1024) { /* time to combine entries with equal ends */
        c->ncrossed = transfers_combine(c->crossed, c->ncrossed);
        c->crossed_low = c->ncrossed;
    }
    return c->why ? -1 : 0;
}

/* ---- copies ---- */

int mt_comm_move(struct mt_comm *const *shards, unsigned n, const struct mt_copy_event *e)
{
    uint32_t nobody;
    const struct mt_rows rows = {e->dst, e->src, e->width, e->height, e->dpitch, e->spitch};
    struct mt_shadow **part = malloc(n * sizeof *part);
    if (!part || mt_comm_nobody(shards[0], e, &nobody) != 0) {
        free(part);
        return comm_fail(shards[0], "out of memory");
    }
    for (unsigned i = 0; i < n; i++)
        part[i] = shards[i]->shadow;
    const struct mt_shadow_parts parts = {part, n, mt_comm_owner, 1u << MT_REGION_BITS};
    int rc = mt_shadow_move(&parts, &rows, nobody);
    free(part);
    return rc == 0 ? 0
           : rc == -1
               ? comm_fail(shards[0], "out of memory")
               : comm_fail(shards[0], "a copy of so many rows, from memory that was filled in rows, cannot "
                                      "be followed: --no-host leaves copies out");
}

/* ---- results ---- */

MT_ORDER_2(transfer_order, struct mt_transfer, src, dst)

/* Sorts transfers and adds up those with equal ends. Returns the number left. */
static size_t transfers_combine(struct mt_transfer *t, size_t n)
{
    size_t out = 0;
    if (n) /* t may be NULL if n is 0 */
        qsort(t, n, sizeof *t, transfer_order);
    for (size_t i = 0; i < n; i++) {
        if (out > 0 && transfer_order(&t[out - 1], &t[i]) == 0) {
            t[out - 1].size += t[i].size;
            t[out - 1].count += t[i].count;
        } else {
            t[out++] = t[i];
        }
    }
    return out;
}

static int add_transfers(struct mt_comm *into, const struct mt_transfer *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (comm_reserve(into, &into->transfers, into->ntransfers, &into->transfer_room,
                         sizeof *into->transfers) != 0)
            return -1;
        into->transfers[into->ntransfers++] = t[i];
    }
    return 0;
}

int mt_comm_merge(struct mt_comm *into, const struct mt_comm *from)
{
    if (into->nactors != from->nactors || into->nlaunches != from->nlaunches || into->nhosts != from->nhosts)
        return comm_fail(into, "shards disagree about the actors");
    for (size_t i = 0; i < from->nactors; i++) {
        struct mt_actor *a = &into->actors[i];
        const struct mt_actor *b = &from->actors[i];
        a->load += b->load;
        a->store += b->store;
        a->comm_store += b->comm_store;
        for (int s = 0; s < MT_SENDER_KINDS; s++)
            a->from[s] += b->from[s];
    }
    for (size_t i = 0; i < from->nhosts; i++) {
        struct mt_host_actor *a = &into->hosts[i];
        const struct mt_host_actor *b = &from->hosts[i];
        a->load += b->load;
        a->store += b->store;
        a->comm_load += b->comm_load;
        a->comm_store += b->comm_store;
    }
    into->unknown += from->unknown;
    if (mt_keyset_merge(&into->keys, &from->keys) != 0)
        return comm_fail(into, "out of memory");
    if (into->options.readers)
        mt_readers_add(&into->readers, from->readers.lost ? NULL : from->readers.sets + 1,
                       from->readers.n - 1);
    if (add_transfers(into, from->crossed, from->ncrossed) != 0)
        return -1;
    return add_transfers(into, from->transfers, from->ntransfers);
}

int mt_comm_merged(struct mt_comm *c)
{
    int rc = add_transfers(c, c->crossed, c->ncrossed);
    c->ncrossed = 0;
    c->ntransfers = transfers_combine(c->transfers, c->ntransfers);
    return rc;
}
