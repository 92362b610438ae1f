/* The hot loops: the bytes of records and runs against the shadow. Compiled several times from one text: for
 * the default options (`plain`) and for all others, for all pages and for those of one shard. Ranges of
 * several accesses at a time are in comm_range.c. */
#include "comm_access.h"

/* Whole aligned words inside one page. */
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

/* Any alignment. Pages that the host wrote and nobody else have one writer, who is not marked as read. */
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

/* Both at once: nobody reads a word's mark between its load and its store. */
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

/* Is the access in regions of one shard or, if not, of several? */
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

/* The parts of an access that belong to this shard; the one that has its beginning counts the volumes. */
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
            mt_comm_fill(c, address, size, run->self, address);
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

/* One access; `run` has its number and address. */
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

/* Neighbours from records[0] on that differ in nothing but that each begins where the one before ends. */
INLINE size_t in_a_row(const struct mt_raw_record *r, size_t count)
{
    uint64_t size = r->w[0] & MT_RAW_MAX_SIZE;
    size_t n = 1;
    while (n < count && r[n].w[0] == r[0].w[0] && r[n].w[1] == r[n - 1].w[1] + size && r[n].w[2] == r[0].w[2])
        n++;
    return n;
}

enum { ROW = 6 }; /* as many are worth it */

/* Those of records[0 .. count) that are of one actor; how many. */
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
                          (meta & MT_RAW_MAX_SIZE); /* rows end with the region */
            size_t n = room < ROW ? 0 : in_a_row(r + i, count - i < room ? count - i : room);
            if (n >= ROW && mt_comm_row(c, run, meta, address, (uint32_t)n)) {
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

/* Sets `run` up for accesses of this CTA on this SM that have numbers from `record` + 1 on. 0, or -1. */
INLINE int run_begin(struct mt_comm *c, struct run *run, uint64_t cta, uint32_t smid, uint64_t record)
{
    const struct mt_comm_launch *launch = &c->launches[c->nlaunches - 1];
    uint32_t self = c->last_actor;
    if (!self || c->actors[self].cta != cta || c->actors[self].smid != smid)
        self = c->last_actor = mt_comm_actor(c, cta, smid);
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
    return c->shadow->failed ? mt_comm_fail(c, "out of memory") : c->why ? -1 : 0;
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

/* Does a row of lanes begin here, as far as one look says? */
INLINE bool row_soon(const uint64_t *a, uint32_t count, uint32_t size)
{
    return count >= ROW && a[ROW - 1] == a[0] + (ROW - 1) * (uint64_t)size;
}

/* Lanes from a[0] on that lie side by side, as the rows of a block of 8 or 16 threads a row do;
 * 0: too few. */
INLINE uint32_t row_of_lanes(const uint64_t *a, uint32_t count, uint32_t size)
{
    if (!row_soon(a, count, size))
        return 0;
    uint32_t n = 1;
    while (n < count && a[n] == a[n - 1] + size)
        n++;
    return n < ROW ? 0 : n;
}

/* Lanes from a[0] on, up to the next row, that load `size` bytes, a word or two, of data that do not count,
 * or that are of the source whose transfer is under way and were read before: they change nothing but sums.
 * How many. */
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
        const uint32_t word = (uint32_t)(a[k] >> 2), entry = p->entry[word & p->mask],
                       src = entry & ~MT_ENTRY_READ;
        if (p->mask >= MT_PAGE_WORDS || p->entry[(word + size / 8) & p->mask] != entry)
            break;
        if (src == 0 || src == self)
            continue;
        if (src != source || unread(c, entry, plain) || !(plain || src & MT_ENTRY_HOST))
            break; /* with options, what a kernel wrote may not count, or is among the keys */
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
        if (n && mt_comm_row(c, run, r->meta, r->addresses[k], n))
            continue;
        n = known ? comm_access_known(c, run, r->addresses + k, r->count - k, size, plain) : 0;
        known = known && (n || !k); /* sources that change from lane to lane are not asked for again */
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
        if (stride == size && mt_comm_row(c, run, r->meta, base, r->count))
            return;
        /* Backwards, no two touch the same bytes either: who comes first makes no difference. */
        if (stride == 0 - (uint64_t)size &&
            mt_comm_row(c, run, r->meta, base + stride * (r->count - 1), r->count))
            return;
        if (stride == 0 && mt_comm_repeat(c, run, r->meta, base, r->count))
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

/* ---- volumes alone ---- */

/* What a type loads and stores of its size. */
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
