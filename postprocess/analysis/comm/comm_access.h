/* Shared by comm_access.c and comm_range.c: accesses of one actor, and what they take from others. */
#ifndef MT_ANALYSIS_COMM_ACCESS_H
#define MT_ANALYSIS_COMM_ACCESS_H
#include <stdbool.h>
#include "comm_internal.h"

#define INLINE static inline __attribute__((always_inline))

/* Consecutive accesses of one actor, and the one or the row of them that is under way. */
struct run {
    uint32_t self, instance;
    uint32_t first;  /* first actor of the launch: older ones are of other supersteps */
    uint32_t source; /* actor or host whose transfer is `transfer` */
    uint32_t judged; /* actor that is a `sender` */
    enum mt_sender sender;
    size_t transfer;
    uint64_t cta;
    uint64_t load, store, from[MT_SENDER_KINDS]; /* bytes, to be added to the actor's */
    uint64_t record;                             /* number of the (first) access under way */
    uint64_t base;                               /* at which it begins */
    uint32_t size;                               /* bytes of one access of a row */
    uint32_t times;                              /* so often the access is made */
    uint64_t kept;                               /* the last record whose address is among the keys */
    uint64_t region;                             /* of the last access, and is it this shard's? */
    bool mine;
    bool crossing; /* the access under way has parts in several shards */
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

/* What actor `src`, whose data count, is to this run. */
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

/* The addresses under which an access that took communicated bytes is found. Bytes that were taken before
 * have their start among the keys already, unless a launch that is not reported took them. */
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
        mt_comm_fail(c, "out of memory");
}

/* The bytes that it takes, all of one writer. */
INLINE void comm_access_read(struct mt_comm *c, const struct run *run, uint32_t src, uint64_t address,
                             uint64_t size)
{
    if (c->options.readers && run->selected && !(src & MT_ENTRY_HOST))
        mt_readers_read(&c->readers, c->actors[src].instance, run->instance, address, size);
}

/* Accesses [first, last] of the row under way (0 and 0 of a single access) took `bytes` bytes of src; `fresh`
 * of them had not been read by another before. `one`: the access is made once. */
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
        run->transfer = mt_comm_transfer(c, instance, run->instance);
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
    return p->mask == 0 && p->uniform && unread(c, p->uniform, plain) ? mt_page_to_words(c->shadow, p) : 0;
}

/* Where the access began that wrote entry i; with starts. */
INLINE uint64_t start_of(const struct mt_page *p, unsigned i)
{
    return p->mask ? p->start[i] : p->uniform_start;
}

/* comm_range.c. The access under way loads `size` bytes at `address`, any alignment. */
void mt_comm_load(struct mt_comm *c, struct run *run, uint64_t address, uint64_t size);
/* `count` accesses of one kind, each where the one before ends, the first at `base`; they get the next
 * numbers. False, and nothing was done, if they have to be made one by one. */
bool mt_comm_row(struct mt_comm *c, struct run *run, uint32_t meta, uint64_t base, uint32_t count);
/* The same access `count` times. */
bool mt_comm_repeat(struct mt_comm *c, struct run *run, uint32_t meta, uint64_t base, uint32_t count);
#endif
