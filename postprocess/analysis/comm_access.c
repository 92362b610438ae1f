/* The hot loop: each record's bytes against the shadow. Compiled twice from one text, once for the default
 * options
 * (`plain`) and once for all others. */
#include "comm_internal.h"
#include <stdbool.h>

#define INLINE static inline __attribute__((always_inline))

/* Consecutive records of one actor. */
struct run {
    uint32_t self, instance;
    uint32_t first;  /* first actor of the launch: older ones are of other supersteps */
    uint32_t source; /* actor or host whose transfer is `transfer` */
    size_t transfer;
    uint64_t cta, comm_load;
    uint64_t record;  /* number of the record under way */
    uint64_t address; /* at which it begins */
    uint64_t kept;    /* the last record whose address is among the keys */
    bool selected;
};

/* Does data of writer `src` (not 0, not this actor) count when this run reads it? */
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

/* The addresses under which an access that took communicated bytes is found. Bytes that were taken before
 * have their start among the keys already, unless a launch that is not reported took them. */
INLINE void keep(struct mt_comm *c, struct run *run, uint64_t start, bool fresh)
{
    int rc = 0;
    if (run->record != run->kept) {
        run->kept = run->record;
        rc = mt_keyset_add(&c->keys, run->address);
    }
    if (rc == 0 && (fresh || c->partial))
        rc = mt_keyset_add(&c->keys, start);
    if (rc != 0)
        mt_comm_fail(c, "out of memory");
}

/* The run took `bytes` bytes of src; `fresh` of them had not been read by another before. */
INLINE void take(struct mt_comm *c, struct run *run, uint32_t src, uint64_t bytes, uint64_t fresh,
                 uint64_t start, const bool plain)
{
    if (!(src & MT_ENTRY_HOST)) {
        run->comm_load += bytes;
        if (fresh)
            c->actors[src].comm_store += fresh;
        if (!plain && c->options.addresses && run->selected)
            keep(c, run, start, fresh != 0);
    } else if (fresh) {
        c->hosts[src & MT_ENTRY_MAX].comm_store += fresh;
    }
    if (!run->selected)
        return;
    if (src != run->source) {
        uint32_t instance = src & MT_ENTRY_HOST ? src : c->actors[src].instance;
        run->transfer = mt_comm_transfer(c, instance, run->instance);
        if (run->transfer == SIZE_MAX) {
            run->source = 0;
            return;
        }
        run->source = src;
    }
    struct mt_transfer *t = &c->transfers[run->transfer];
    t->size += bytes;
    t->count += t->last != run->record;
    t->last = run->record;
}

/* May a reader of this entry be its first one? Without host accesses nobody asks that of host writes, whose
 * pages may then stay uniform. */
INLINE bool unread(const struct mt_comm *c, uint32_t entry, const bool plain)
{
    if (!plain && c->options.host)
        return !(entry & MT_ENTRY_READ);
    return !(entry & (MT_ENTRY_READ | MT_ENTRY_HOST));
}

/* Before marks are made: 0, or -1 without memory. */
INLINE int not_uniform(struct mt_comm *c, struct mt_page *p, const bool plain)
{
    return !plain && c->options.host && p->mask == 0 && p->uniform ? mt_page_to_words(c->shadow, p) : 0;
}

/* Bytes [from, to) of one page, any alignment, any form of page. */
static void load_slow(struct mt_comm *c, struct run *run, struct mt_page *p, unsigned from, unsigned to)
{
    if (not_uniform(c, p, false) != 0)
        return;
    while (from < to) {
        unsigned shift = p->mask == MT_PAGE_WORDS - 1 ? 2 : 0;
        unsigned end = p->mask == 0 ? to : shift ? (from | 3) + 1 : from + 1;
        if (end > to)
            end = to;
        unsigned i = from >> shift & p->mask;
        uint32_t entry = p->entry[i], src = entry & ~MT_ENTRY_READ;
        if (src == 0 || src == run->self || !counts(c, run, src, false)) {
            from = end;
            continue;
        }
        uint64_t fresh = 0;
        if (unread(c, entry, false)) {
            if (shift && end - from < 4) { /* a part of a word is read for the first time */
                if (mt_page_to_bytes(c->shadow, p) != 0)
                    return;
                continue;
            }
            fresh = end - from;
            p->entry[i] = entry | MT_ENTRY_READ;
        }
        take(c, run, src, end - from, fresh, p->start && p->mask ? p->start[i] : 0, false);
        from = end;
    }
}

static __attribute__((noinline)) void load_span(struct mt_comm *c, struct run *run, uint64_t address,
                                                uint64_t size)
{
    while (size > 0) {
        unsigned from = address & (MT_PAGE_BYTES - 1);
        uint64_t n = size < MT_PAGE_BYTES - from ? size : MT_PAGE_BYTES - from;
        struct mt_page *p = mt_shadow_find(c->shadow, address >> MT_PAGE_BITS);
        if (p)
            load_slow(c, run, p, from, from + (unsigned)n);
        address += n;
        size -= n;
    }
}

/* Whole aligned words inside one page. */
INLINE void load_words(struct mt_comm *c, struct run *run, uint64_t address, unsigned size, const bool plain)
{
    struct mt_page *p = mt_shadow_find(c->shadow, address >> MT_PAGE_BITS);
    if (!p)
        return;
    unsigned from = address & (MT_PAGE_BYTES - 1);
    if (__builtin_expect(p->mask == MT_PAGE_BYTES - 1, 0)) {
        load_slow(c, run, p, from, from + size);
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
        take(c, run, src, 4, fresh, !plain && p->start && p->mask ? p->start[i] : 0, plain);
    }
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

/* `begin` of records[0 .. count) are of one actor; how many. */
INLINE size_t run_records(struct mt_comm *c, struct run *run, const struct mt_raw_record *r, size_t count,
                          const bool plain)
{
    uint64_t load = 0, store = 0;
    uint64_t cta = r->w[2];
    uint32_t smid = (uint32_t)(r->w[0] >> 32);
    size_t i = 0;
    do {
        uint32_t meta = (uint32_t)r[i].w[0], type = meta >> 28, size = meta & MT_RAW_MAX_SIZE;
        uint64_t address = r[i].w[1];
        bool words = ((address | size) & 3) == 0 && (address & (MT_PAGE_BYTES - 1)) + size <= MT_PAGE_BYTES;
        run->record++;
        run->address = address;
        if (type == MT_LOAD || type == MT_ATOMIC) {
            load += size;
            if (__builtin_expect(words, 1))
                load_words(c, run, address, size, plain);
            else
                load_span(c, run, address, size);
        }
        if (type == MT_STORE || type == MT_ATOMIC) {
            store += size;
            if (__builtin_expect(words, 1))
                store_words(c, run, address, size, plain);
            else
                mt_shadow_fill(c->shadow, address, size, run->self, address);
        }
        c->unknown += type == MT_UNKNOWN;
        i++;
    } while (i < count && r[i].w[2] == cta && (uint32_t)(r[i].w[0] >> 32) == smid);
    c->actors[run->self].load += load;
    c->actors[run->self].store += store;
    return i;
}

INLINE int all_records(struct mt_comm *c, const struct mt_raw_record *r, size_t count, const bool plain)
{
    const struct mt_comm_launch *launch = &c->launches[c->nlaunches - 1];
    for (size_t i = 0; i < count;) {
        uint64_t cta = r[i].w[2];
        uint32_t smid = (uint32_t)(r[i].w[0] >> 32), self = c->last_actor;
        if (!self || c->actors[self].cta != cta || c->actors[self].smid != smid)
            self = c->last_actor = mt_comm_actor(c, cta, smid);
        if (!self)
            return -1;
        struct run run = {.self = self,
                          .instance = c->actors[self].instance,
                          .first = launch->first,
                          .cta = cta,
                          .record = c->records + i,
                          .kept = UINT64_MAX,
                          .selected = launch->selected && c->options.transfers};
        if (!plain && c->options.addresses)
            run.selected = launch->selected;
        i += run_records(c, &run, r + i, count - i, plain);
        c->actors[self].comm_load += run.comm_load;
    }
    c->records += count;
    return c->shadow->failed ? mt_comm_fail(c, "out of memory") : c->why ? -1 : 0;
}

static int records_plain(struct mt_comm *c, const struct mt_raw_record *r, size_t count)
{
    return all_records(c, r, count, true);
}

static int records_any(struct mt_comm *c, const struct mt_raw_record *r, size_t count)
{
    return all_records(c, r, count, false);
}

int mt_comm_records(struct mt_comm *c, const struct mt_raw_record *r, size_t count)
{
    const struct mt_comm_options *o = &c->options;
    return o->local || o->strict || o->addresses || o->host ? records_any(c, r, count)
                                                            : records_plain(c, r, count);
}
