/* Operations by address: chains per key, filled in the order of the records.
 * Spilling and the way out are in addresses_out.c. */
#define _GNU_SOURCE
#include "addresses_internal.h"
#include "memtrace/grow.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define INLINE static inline __attribute__((always_inline))

int mt_addresses_fail(struct mt_addresses *a, const char *why, int sys)
{
    if (!a->why) {
        a->why = why;
        a->sys = sys;
    }
    return -1;
}

int mt_addresses_init(struct mt_addresses *a, struct mt_keyset *keys, uint64_t budget)
{
    memset(a, 0, sizeof *a);
    a->fd = -1;
    a->keys = keys;
    a->superstep = UINT64_MAX;
    a->budget = budget / sizeof *a->pool;
    if (a->budget < 2 * MT_BLOCK_MOST)
        a->budget = 2 * MT_BLOCK_MOST;
    if (a->budget > UINT32_MAX)
        a->budget = UINT32_MAX;
    a->used = 1; /* block 0 is not one */
    a->chain = calloc(keys->count + 1, sizeof *a->chain);
    /* Takes room only as far as it is used. */
    void *p = mmap(NULL, a->budget * sizeof *a->pool, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
        madvise(p, a->budget * sizeof *a->pool, MADV_HUGEPAGE);
        a->pool = p;
    }
    return a->chain && a->pool ? 0 : mt_addresses_fail(a, "no memory for the addresses", 0);
}

void mt_addresses_free(struct mt_addresses *a)
{
    if (a->pool)
        munmap(a->pool, a->budget * sizeof *a->pool);
    if (a->chain && a->fd >= 0)
        close(a->fd);
    free(a->chain);
    free(a->who);
    free(a->what);
    free(a->segment);
    mt_pairmap_free(&a->who_index);
    mt_pairmap_free(&a->what_index);
    memset(a, 0, sizeof *a);
    a->fd = -1;
}

/* ---- who and what, by number ---- */

static int addresses_reserve(struct mt_addresses *a, void *array, size_t n, size_t *room, size_t size)
{
    if (n == UINT32_MAX)
        return mt_addresses_fail(a, "more than 2^32 - 1 CTA instances in the section addresses", 0);
    return mt_grow(array, room, n + 1, size) == 0 ? 0
                                                  : mt_addresses_fail(a, "no memory for the addresses", 0);
}

static uint32_t find_who(struct mt_addresses *a, uint64_t superstep, uint64_t cta, uint32_t smid)
{
    if (a->superstep != superstep) {
        mt_pairmap_clear(&a->who_index);
        a->superstep = superstep;
        a->last_who = UINT32_MAX;
    }
    uint64_t *known = mt_pairmap_get(&a->who_index, cta, smid, UINT64_MAX);
    if (!known) {
        mt_addresses_fail(a, "no memory for the addresses", 0);
        return UINT32_MAX;
    }
    if (*known == UINT64_MAX) {
        if (addresses_reserve(a, &a->who, a->nwho, &a->who_room, sizeof *a->who) != 0)
            return UINT32_MAX;
        a->who[a->nwho] = (struct mt_operator){cta, superstep, smid};
        *known = a->nwho++;
    }
    return a->last_who = (uint32_t)*known;
}

/* As a rule that of the record before. */
INLINE uint32_t who_of(struct mt_addresses *a, uint64_t superstep, uint64_t cta, uint32_t smid)
{
    if (a->superstep == superstep && a->last_who != UINT32_MAX && a->who[a->last_who].cta == cta &&
        a->who[a->last_who].smid == smid)
        return a->last_who;
    return find_who(a, superstep, cta, smid);
}

static uint32_t what_of(struct mt_addresses *a, uint32_t before, uint32_t meta)
{
    uint64_t *known = mt_pairmap_get(&a->what_index, before, meta, UINT64_MAX);
    if (!known) {
        mt_addresses_fail(a, "no memory for the addresses", 0);
        return UINT32_MAX;
    }
    if (*known == UINT64_MAX) {
        if (addresses_reserve(a, &a->what, a->nwhat, &a->what_room, sizeof *a->what) != 0)
            return UINT32_MAX;
        a->what[a->nwhat] = (struct mt_operation_kind){before, meta};
        *known = a->nwhat++;
    }
    return (uint32_t)*known;
}

/* ---- chains ---- */

/* Puts the chain's last operation after the others. 0, or -1. */
static int addresses_push(struct mt_addresses *a, struct mt_chain *c)
{
    if (c->used == c->room) {
        uint16_t room = c->room == 0 ? 3 : c->room < MT_BLOCK_MOST / 2 ? 2 * c->room + 1 : MT_BLOCK_MOST - 1;
        if (a->used + room + 1 > a->budget) {
            int rc = mt_addresses_spill(a); /* the last operations of all chains, too */
            return rc;
        }
        uint32_t block = (uint32_t)a->used;
        a->used += room + 1u;
        a->pool[block] = (struct mt_operation){0, room, 0}; /* next block, size */
        if (c->tail)
            a->pool[c->tail].who = block;
        else
            c->head = block;
        c->tail = block;
        c->room = room;
        c->used = 0;
    }
    a->pool[c->tail + 1 + c->used++] = c->last;
    c->last.count = 0;
    return 0;
}

/* Another operation than the last one. */
static __attribute__((noinline)) int addresses_next(struct mt_addresses *a, struct mt_chain *c, uint32_t who,
                                                    uint32_t what)
{
    if (c->last.count && addresses_push(a, c) != 0)
        return -1;
    c->last = (struct mt_operation){who, what, 1};
    return 0;
}

INLINE int addresses_append(struct mt_addresses *a, uint64_t rank, uint32_t who, uint32_t what)
{
    struct mt_chain *c = &a->chain[rank];
    a->operations++;
    if (c->last.who == who && c->last.what == what && c->last.count - 1 < UINT32_MAX - 1) {
        c->last.count++;
        return 0;
    }
    return addresses_next(a, c, who, what);
}

/* ---- records ---- */

/* Ranks are counts of bits: nearly every processor has an instruction for that. The thread sanitizer's calls
 * would be in the resolver, too, where they cannot be made yet. */
#if defined __x86_64__ && !defined __SANITIZE_THREAD__
#define WITH_COUNTING __attribute__((target_clones("popcnt", "default")))
#else
#define WITH_COUNTING
#endif

/* The last few kinds that were met: `meta` and the bytes before the key, and their number. */
struct recent {
    struct {
        uint64_t kind; /* 0: none, as each access has a size */
        uint32_t what;
    } at[8];
};

/* Its number. UINT32_MAX without memory. */
static __attribute__((noinline)) uint32_t recent_find(struct mt_addresses *a, struct recent *r, unsigned i,
                                                      uint64_t kind)
{
    uint32_t what = what_of(a, (uint32_t)(kind >> 32), (uint32_t)kind);
    if (what != UINT32_MAX) {
        r->at[i].kind = kind;
        r->at[i].what = what;
    }
    return what;
}

INLINE int addresses_operation(struct mt_addresses *a, struct recent *r, uint32_t who, uint64_t rank,
                               uint32_t before, uint32_t meta)
{
    uint64_t kind = (uint64_t)before << 32 | meta;
    unsigned i = (before ^ meta ^ meta >> 28) & 7;
    uint32_t what = r->at[i].kind == kind ? r->at[i].what : recent_find(a, r, i, kind);
    return what == UINT32_MAX ? -1 : addresses_append(a, rank, who, what);
}

/* The keys among `size` bytes at `address`, all of page p; `before`: bytes of the access before them. */
INLINE int page_keys(struct mt_addresses *a, struct recent *r, uint32_t who, const struct mt_keypage *p,
                     uint64_t address, uint32_t size, uint32_t before, uint32_t meta)
{
    unsigned at = address & ((1u << MT_KEY_BITS) - 1), end = at + size;
    for (unsigned w = at >> 6; w <= (end - 1) >> 6; w++) {
        uint64_t bits = p->bits[w];
        if (w == at >> 6)
            bits &= ~0ull << (at & 63);
        if (w == (end - 1) >> 6 && (end & 63))
            bits &= (1ull << (end & 63)) - 1;
        for (; bits; bits &= bits - 1) {
            unsigned in_page = w << 6 | (unsigned)__builtin_ctzll(bits);
            if (addresses_operation(a, r, who, mt_keyset_rank(p, in_page), before + in_page - at, meta) != 0)
                return -1;
        }
    }
    return 0;
}

/* The same in any number of pages. */
static __attribute__((noinline)) int range_keys(struct mt_addresses *a, struct recent *r, uint32_t who,
                                                uint64_t address, uint32_t meta)
{
    uint32_t size = meta & MT_RAW_MAX_SIZE;
    for (uint32_t done = 0; done < size;) {
        uint32_t room = (1u << MT_KEY_BITS) - (uint32_t)(address & ((1u << MT_KEY_BITS) - 1));
        uint32_t n = size - done < room ? size - done : room;
        const struct mt_keypage *p = mt_keyset_find(a->keys, address >> MT_KEY_BITS);
        if (p && page_keys(a, r, who, p, address, n, done, meta) != 0)
            return -1;
        address += n;
        done += n;
    }
    return 0;
}

INLINE int access_keys(struct mt_addresses *a, struct recent *r, uint32_t who, uint64_t address,
                       uint32_t meta)
{
    uint32_t size = meta & MT_RAW_MAX_SIZE;
    unsigned bit = address & 63;
    if (__builtin_expect(bit + size > 64 || size == 64, 0))
        return range_keys(a, r, who, address, meta);
    /* nearly all: in one word of the bitmap */
    const struct mt_keypage *p = mt_keyset_find(a->keys, address >> MT_KEY_BITS);
    unsigned in_page = address & ((1u << MT_KEY_BITS) - 1);
    uint64_t bits = p ? p->bits[in_page >> 6] >> bit & ((1ull << size) - 1) : 0;
    if (!bits)
        return 0;
    uint64_t rank = mt_keyset_rank(p, in_page);
    for (; bits; bits &= bits - 1, rank++)
        if (addresses_operation(a, r, who, rank, (uint32_t)__builtin_ctzll(bits), meta) != 0)
            return -1;
    return 0;
}

/* As many of records[0 .. n) as are like the first one and, in its page, where no key is. */
INLINE size_t addresses_beside(struct mt_addresses *a, const struct mt_raw_record *r, size_t n)
{
    uint64_t page = r->w[1] >> MT_KEY_BITS, size = r->w[0] & MT_RAW_MAX_SIZE;
    if (mt_keyset_find(a->keys, page))
        return 0;
    size_t k = 0;
    while (k < n && r[k].w[0] == r[0].w[0] && r[k].w[2] == r[0].w[2] && r[k].w[1] >> MT_KEY_BITS == page &&
           (r[k].w[1] + size - 1) >> MT_KEY_BITS == page)
        k++;
    return k;
}

WITH_COUNTING int mt_addresses_records(struct mt_addresses *a, const struct mt_raw_record *records, size_t n,
                                       uint64_t superstep)
{
    struct recent recent = {0};
    const struct mt_raw_record *r = records, *end = records + n;
    a->records += n;
    while (r < end) {
        uint64_t cta = r->w[2], smid = r->w[0] >> 32;
        uint32_t who = who_of(a, superstep, cta, (uint32_t)smid);
        if (who == UINT32_MAX)
            return -1;
        do {
            size_t beside = addresses_beside(a, r, (size_t)(end - r));
            if (!beside && access_keys(a, &recent, who, r->w[1], (uint32_t)r->w[0]) != 0)
                return -1;
            r += beside ? beside : 1;
        } while (r < end && r->w[2] == cta && r->w[0] >> 32 == smid);
    }
    return a->why ? -1 : 0;
}

WITH_COUNTING int mt_addresses_runs(struct mt_addresses *a, const struct mt_access_run *runs, size_t n,
                                    uint64_t superstep)
{
    struct recent r = {0};
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *run = &runs[i];
        uint32_t who = who_of(a, superstep, run->cta, run->smid);
        if (who == UINT32_MAX)
            return -1;
        uint64_t address = run->base;
        for (uint32_t k = 0; k < run->count; k++, address += (uint64_t)run->stride)
            if (access_keys(a, &r, who, run->addresses ? run->addresses[k] : address, run->meta) != 0)
                return -1;
        a->records += run->count;
    }
    return a->why ? -1 : 0;
}
