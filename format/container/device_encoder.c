/* Encoder of a launch's runs to the columns of a device chunk: docs/trace-format.md, "Device chunk". */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "leb.h"
#include "memtrace/record.h"
#include "memtrace/container.h"
#include "memtrace/device.h"
#include "pages.h"
#include "memtrace/hash.h"
#include "region.h"
#include "writer.h"

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

#define MT_NONE UINT32_MAX

#define MT_VISITS 8192u

struct mt_context { /* warp of a CTA on an SM, or the CTA if warps are unknown */
    uint64_t cta;   /* cta, smid and warp as in struct mt_access_run */
    uint32_t smid, warp;
    uint64_t address;   /* address of the context's last run */
    uint32_t slot;      /* slot of the context's last run, 0: none yet */
    uint32_t successor; /* context that followed this one last, MT_NONE: none yet */
};

struct mt_shape { /* arrangement of the lanes of a run */
    uint64_t stride, apart;
    uint32_t mask, count;
    uint32_t irregular; /* 1: `delta` applies instead of `stride` */
    uint32_t row;       /* accesses of a row; not 0: `delta` equals stride, apart and row */
    uint64_t delta[MT_MTC_MAX_LANES];
};

/* Half of a run, as words that are compared at once. */
typedef uint64_t mt_half_run __attribute__((vector_size(32), may_alias, aligned(8)));

struct mt_table_slot { /* site with a type and a size; compared fields share a cache line */
    /* Previous run, at the address predicted by its stride: base is last + stride; cta, smid and warp are 0.
     * The high half of the last word is 0, or 1 if no run can equal it. */
    mt_half_run like[2];
    uint64_t last, stride, difference, step, own_difference, offset;
    uint32_t visited;      /* context of the previous run, MT_NONE: none yet */
    uint32_t next, second; /* the two latest different successors, latest first; MT_NONE: none */
    uint32_t seen, now;
    uint32_t site, meta;
    uint32_t others; /* for runs without site: next slot with the same meta, or MT_NONE */
    uint64_t low;
    struct mt_shape shape[2]; /* shape[now] is the current one */
} __attribute__((aligned(64)));

/* Hash table. A cell holds index + 1 and the number of the chunk that filled it. */
struct mt_index {
    uint64_t *cells;
    uint32_t mask, used;
};

struct mt_own {
    uint64_t who; /* key: epoch, context, slot */
    uint64_t address;
};

/* Pending write to the table of struct mt_own. The first run of a slot in a new context does not search that
 * table, and most entries are never searched. */
struct mt_visit {
    uint32_t context, slot;
    uint64_t address;
};

/* Chunk under construction: positions in its columns. */
struct mt_device_work {
    struct mt_mtc_device_encoder *e;
    unsigned char *tokens, *contexts, *shapes, *bases, *lanes;
    uint32_t context; /* context of the previous run */
    uint32_t fresh;   /* context of the previous run if it is new and has had all runs since, else MT_NONE */
    uint32_t newest_site; /* site of the newest slot */
    unsigned token;       /* bits of the next run's token that are known already */
};

struct mt_mtc_device_encoder {
    struct mt_device_work begin, at; /* columns: their beginnings and the current positions */
    uint64_t pieces, accesses, room; /* room: maximum number of pieces; also of gathers by default */
    uint32_t epoch;                  /* number of the chunk */
    struct mt_context *contexts;
    struct mt_table_slot *slots; /* [0] stands for "before the first run" */
    uint32_t ncontexts, nslots;
    size_t context_room, slot_room;
    struct mt_index context_index, slot_index; /* a search adds contexts beyond the first `used` */
    uint64_t top;                              /* greatest CTA so far, in launch order */
    uint32_t top_warp;                         /* greatest warp of the greatest CTA */
    struct mt_own *own;                        /* MT_MTC_OWN_PLACES entries, without the pending `visits` */
    struct mt_visit *visits;
    uint32_t nvisits;
    struct mt_block_region *regions; /* BLOCK_REGIONS entries; NULL: none yet */
    struct mt_block_region *region;  /* that of the last block, or NULL */
    uint32_t nregions, newest;       /* regions of the chunk; last site of the newest one */
    uint64_t block_cta;              /* of the last block */
    uint32_t block_smid, block_warp;
    uint32_t repeats, sms; /* blocks like it that have not been written; their SMs begin again at 0 after sms
                            * (0: not known) */
    unsigned char *out;
    size_t out_room;
};

/* Returns a CTA's position in launch order, for comparison. */
static inline uint64_t mt_context_order(uint64_t cta)
{
    return (cta & 0xffff) << 48 | (cta >> 16 & 0xffff) << 32 | cta >> 32;
}

/* Returns 1 if a warp of a CTA follows all known ones in launch order. It is then new and must be added. */
static inline int mt_context_ahead(struct mt_mtc_device_encoder *e, uint64_t at, uint32_t warp)
{
    uint64_t cta = mt_context_order(at);
    if (e->ncontexts && (cta < e->top || (cta == e->top && warp <= e->top_warp)))
        return 0;
    e->top = cta;
    e->top_warp = warp;
    return 1;
}

/* Returns the entry for the last address of slot s in context c; it is valid if its `who` equals *who. Visits
 * must have been written. */
static inline struct mt_own *mt_own_place(const struct mt_mtc_device_encoder *e, uint32_t c, uint32_t s,
                                          uint64_t *who)
{
    *who = (uint64_t)e->epoch << 42 | (uint64_t)c << 21 | s;
    return &e->own[MT_MTC_OWN_PLACE(c, s)];
}

enum { MT_LAP = 8 }; /* maximum number of slots of a lap */

enum {
    BLOCK_REGIONS = 64, /* regions whose last blocks are known; a power of 2 */
    BLOCK_HALVES = MT_REGION_WORDS_MAX / 4,
    BLOCK_BASES = 2 * MT_REGION_ACCESSES,
};

/* A region (format/container/region.h) of the chunk, with its last block. */
struct mt_block_region {
    /* Words of an entry: which must differ from the warp before by `by` alone; which of all mean something.
     */
    mt_half_run fixed[BLOCK_HALVES], by[BLOCK_HALVES], real[BLOCK_HALVES];
    const struct mt_region *of;
    uint32_t site_base, epoch, number, warps;
    uint64_t laps, base[BLOCK_BASES], difference[BLOCK_BASES], apart[BLOCK_BASES], step[MT_REGION_ACCESSES];
};

/* Words of a run as two halves: positions of the base and CTA words, and words of a half. */
enum { MT_HALF_BASE = 0, MT_HALF_CTA = 3, MT_HALF_WORDS = 4 };

_Static_assert(sizeof(struct mt_access_run) == sizeof(mt_half_run[2]) &&
                   offsetof(struct mt_access_run, cta) == MT_HALF_CTA * 8 &&
                   offsetof(struct mt_access_run, smid) == MT_HALF_WORDS * 8 &&
                   offsetof(struct mt_access_run, warp) == MT_HALF_WORDS * 8 + 4 &&
                   offsetof(struct mt_access_run, stride) == 8 &&
                   offsetof(struct mt_access_run, apart) == 16 &&
                   offsetof(struct mt_access_run, meta) == MT_HALF_WORDS * 8 + 8 &&
                   offsetof(struct mt_access_run, site) == MT_HALF_WORDS * 8 + 12 &&
                   offsetof(struct mt_access_run, count) == MT_HALF_WORDS * 8 + 16 &&
                   offsetof(struct mt_access_run, mask) == MT_HALF_WORDS * 8 + 20 &&
                   offsetof(struct mt_access_run, row) == (2 * MT_HALF_WORDS - 1) * 8,
               "runs are compared and foreseen by words");

#define MT_WIDE __attribute__((target("avx2")))

static const char device_no_memory[] = "no memory for encoding a chunk";

/* Mask of a run's second half, without the padding after `row`. */
static const mt_half_run mt_half_real = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT32_MAX};

/* Returns the bits in which a run differs from the prediction `like` in context x. */
static inline MT_WIDE mt_half_run mt_run_odd(const struct mt_access_run *r, const mt_half_run *like,
                                             const mt_half_run *x)
{
    const mt_half_run *half = (const void *)r;
    return (half[0] ^ like[0] ^ x[0]) | ((half[1] & mt_half_real) ^ like[1] ^ x[1]);
}

static inline MT_WIDE int mt_half_is_zero(mt_half_run h)
{
    return _mm256_testz_si256((__m256i)h, (__m256i)h);
}

static inline int mt_is_slot(const struct mt_mtc_device_encoder *e, uint32_t slot,
                             const struct mt_access_run *r)
{
    return slot != MT_NONE && e->slots[slot].site == r->site && e->slots[slot].meta == r->meta;
}

/* Tables of the encoder of device chunks: they grow as needed; a new chunk empties them without clearing. */

enum { CONTEXTS = 1024, SLOTS = 32, EPOCHS = 1 << 22 }; /* initial numbers; both stay below 2^21 in a chunk */

/* Makes room in `*p` for `want` elements of `size` bytes. Returns 0, or -1 without memory. */
static int device_tables_grow(void **p, size_t *room, size_t want, size_t size)
{
    if (want <= *room)
        return 0;
    size_t more = *room * 2 > want ? *room * 2 : want;
    void *q = mt_pages(more * size);
    if (!q)
        return -1;
    if (*room)
        memcpy(q, *p, *room * size);
    mt_pages_free(*p, *room * size);
    *p = q;
    *room = more;
    return 0;
}

static int index_room(struct mt_index *x, uint32_t cells)
{
    if (x->cells)
        mt_pages_free(x->cells, ((size_t)x->mask + 1) * sizeof *x->cells);
    x->mask = cells - 1;
    x->cells = mt_pages(cells * sizeof *x->cells);
    return x->cells ? 0 : -1;
}

/* Clears the tables for a new chunk. Returns 0, or -1 without memory. */
static int tables_begin(struct mt_mtc_device_encoder *e)
{
    if ((!e->own && !(e->own = mt_pages(MT_MTC_OWN_PLACES * sizeof *e->own))) ||
        (!e->visits && !(e->visits = mt_pages(MT_VISITS * sizeof *e->visits))))
        return -1;
    if ((!e->context_index.cells && index_room(&e->context_index, 4 * CONTEXTS) != 0) ||
        (!e->slot_index.cells && index_room(&e->slot_index, 4 * SLOTS) != 0))
        return -1;
    if (device_tables_grow((void **)&e->contexts, &e->context_room, CONTEXTS, sizeof *e->contexts) != 0 ||
        device_tables_grow((void **)&e->slots, &e->slot_room, SLOTS, sizeof *e->slots) != 0)
        return -1;
    if (++e->epoch == EPOCHS) {
        memset(e->own, 0, MT_MTC_OWN_PLACES * sizeof *e->own);
        memset(e->context_index.cells, 0, ((size_t)e->context_index.mask + 1) * sizeof(uint64_t));
        memset(e->slot_index.cells, 0, ((size_t)e->slot_index.mask + 1) * sizeof(uint64_t));
        if (e->regions)
            memset(e->regions, 0, BLOCK_REGIONS * sizeof *e->regions);
        e->epoch = 1;
    }
    e->context_index.used = e->slot_index.used = 0;
    e->ncontexts = e->nvisits = 0;
    e->nslots = 1;
    e->slots[0].next = e->slots[0].second = MT_NONE;
    e->region = NULL;
    e->nregions = e->newest = 0;
    e->block_cta = 0;
    e->block_smid = e->block_warp = e->repeats = e->sms = 0;
    return 0;
}

static void tables_free(struct mt_mtc_device_encoder *e)
{
    mt_pages_free(e->contexts, e->context_room * sizeof *e->contexts);
    mt_pages_free(e->slots, e->slot_room * sizeof *e->slots);
    mt_pages_free(e->own, MT_MTC_OWN_PLACES * sizeof *e->own);
    mt_pages_free(e->visits, MT_VISITS * sizeof *e->visits);
    mt_pages_free(e->regions, BLOCK_REGIONS * sizeof *e->regions);
    if (e->context_index.cells)
        mt_pages_free(e->context_index.cells, ((size_t)e->context_index.mask + 1) * sizeof(uint64_t));
    if (e->slot_index.cells)
        mt_pages_free(e->slot_index.cells, ((size_t)e->slot_index.mask + 1) * sizeof(uint64_t));
}

static uint32_t device_tables_mix(uint64_t a, uint64_t b)
{
    uint64_t h = mt_hash_number(a) ^ (b * UINT64_C(0xc2b2ae3d27d4eb4f));
    return (uint32_t)((h ^ h >> 29) * UINT64_C(0xff51afd7ed558ccd) >> 32);
}

static uint32_t hash_context(uint64_t cta, uint32_t warp, uint32_t smid)
{
    return device_tables_mix(cta, (uint64_t)smid << 32 | warp);
}

static uint32_t hash_slot(uint32_t site, uint32_t meta)
{
    return device_tables_mix(site, meta);
}

static void device_encoder_index_put(struct mt_index *x, uint32_t epoch, uint32_t hash, uint32_t number)
{
    uint32_t i = hash & x->mask;
    while (x->cells[i] >> 32 == epoch)
        i = (i + 1) & x->mask;
    x->cells[i] = (uint64_t)epoch << 32 | number;
}

static void device_tables_put_context(struct mt_mtc_device_encoder *e, uint32_t number)
{
    const struct mt_context *c = &e->contexts[number];
    device_encoder_index_put(&e->context_index, e->epoch, hash_context(c->cta, c->warp, c->smid), number);
}

/* Adds all contexts to the index. Returns 0, or -1 without memory. */
static int device_tables_index_contexts(struct mt_mtc_device_encoder *e)
{
    struct mt_index *x = &e->context_index;
    uint32_t cells = x->mask + 1;
    while (2 * e->ncontexts >= cells)
        cells *= 4;
    if (cells != x->mask + 1) {
        if (index_room(x, cells) != 0)
            return -1;
        x->used = 0;
    }
    for (; x->used < e->ncontexts; x->used++)
        device_tables_put_context(e, x->used);
    return 0;
}

static uint32_t device_tables_find_context(const struct mt_mtc_device_encoder *e,
                                           const struct mt_access_run *r)
{
    const struct mt_index *x = &e->context_index;
    for (uint32_t i = hash_context(r->cta, r->warp, r->smid) & x->mask; x->cells[i] >> 32 == e->epoch;
         i = (i + 1) & x->mask) {
        const struct mt_context *c = &e->contexts[(uint32_t)x->cells[i]];
        if (c->cta == r->cta && c->warp == r->warp && c->smid == r->smid)
            return (uint32_t)x->cells[i];
    }
    return MT_NONE;
}

static uint32_t device_tables_add_context(struct mt_mtc_device_encoder *e, const struct mt_access_run *r,
                                          int *is_new)
{
    uint32_t number = e->ncontexts;
    *is_new = 1;
    if (__builtin_expect(number == e->context_room, 0) &&
        device_tables_grow((void **)&e->contexts, &e->context_room, (size_t)number + 1,
                           sizeof *e->contexts) != 0)
        return MT_NONE;
    e->contexts[number] =
        (struct mt_context){.cta = r->cta, .warp = r->warp, .smid = r->smid, .successor = MT_NONE};
    return e->ncontexts++;
}

static __attribute__((noinline)) uint32_t device_tables_search(struct mt_mtc_device_encoder *e,
                                                               const struct mt_access_run *r, int *is_new)
{
    if (device_tables_index_contexts(e) != 0)
        return MT_NONE;
    uint32_t found = device_tables_find_context(e, r);
    return found != MT_NONE ? found : device_tables_add_context(e, r, is_new);
}

/* Returns the number of the run's context, or MT_NONE without memory. *is_new is set if it was created; the
 * tables may then have moved. */
static uint32_t mt_context_of(struct mt_mtc_device_encoder *e, const struct mt_access_run *r, int *is_new)
{
    return mt_context_ahead(e, r->cta, r->warp) ? device_tables_add_context(e, r, is_new)
                                                : device_tables_search(e, r, is_new);
}

/* Writes the pending visits to the table. */
static void own_write(struct mt_mtc_device_encoder *e)
{
    for (uint32_t i = 0; i < e->nvisits; i++) {
        const struct mt_visit *v = &e->visits[i];
        uint64_t who;
        struct mt_own *o = mt_own_place(e, v->context, v->slot, &who);
        o->who = who;
        o->address = v->address;
    }
    e->nvisits = 0;
}

/* Returns the first slot of this site and meta, or MT_NONE. */
static uint32_t device_encoder_slot_find(const struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta)
{
    const struct mt_index *x = &e->slot_index;
    for (uint32_t i = hash_slot(site, meta) & x->mask; x->cells[i] >> 32 == e->epoch; i = (i + 1) & x->mask) {
        const struct mt_table_slot *s = &e->slots[(uint32_t)x->cells[i]];
        if (s->site == site && s->meta == meta)
            return (uint32_t)x->cells[i];
    }
    return MT_NONE;
}

static uint32_t slot_add(struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta)
{
    struct mt_index *x = &e->slot_index;
    uint32_t number = e->nslots, first = device_encoder_slot_find(e, site, meta);
    if (device_tables_grow((void **)&e->slots, &e->slot_room, (size_t)number + 1, sizeof *e->slots) != 0)
        return MT_NONE;
    struct mt_table_slot *s = &e->slots[number];
    memset(s, 0, offsetof(struct mt_table_slot, shape));
    memset(&s->shape[0], 0, offsetof(struct mt_shape, delta));
    memset(&s->shape[1], 0, offsetof(struct mt_shape, delta));
    s->next = s->second = s->others = s->visited = MT_NONE;
    s->site = site;
    s->meta = meta;
    if (first != MT_NONE) { /* the index has only the first slot of a site and meta */
        s->others = e->slots[first].others;
        e->slots[first].others = number;
        return e->nslots++;
    }
    if (2 * x->used > x->mask) {
        if (index_room(x, 4 * (x->mask + 1)) != 0)
            return MT_NONE;
        for (uint32_t i = 1; i < number; i++)
            if (device_encoder_slot_find(e, e->slots[i].site, e->slots[i].meta) == MT_NONE)
                device_encoder_index_put(x, e->epoch, hash_slot(e->slots[i].site, e->slots[i].meta), i);
    }
    x->used++;
    device_encoder_index_put(x, e->epoch, hash_slot(site, meta), number);
    return e->nslots++;
}

/* ---- Repeating runs: what is common to all of them is done once ---- */

/* ---- laps of a loop ---- */

/* Slots that repeat in the same order. */
struct lap {
    uint32_t n;
    struct mt_table_slot *slot[MT_LAP];
    uint32_t number[MT_LAP];
    struct mt_own *own[MT_LAP]; /* entries for the last addresses, by slot */
};

/* Returns 1 if the runs before `end`, the last one of slot `s`, form a lap in which the distance of each
 * slot's runs in context c equals its stride. */
static int device_laps_found(const struct mt_mtc_device_encoder *e, struct lap *l, struct mt_table_slot *s,
                             uint32_t c, const struct mt_access_run *end)
{
    struct mt_table_slot *now = s;
    l->n = 0;
    do {
        uint32_t slot = now->next;
        uint64_t who;
        if (l->n == MT_LAP || slot == MT_NONE)
            return 0;
        now = &e->slots[slot];
        struct mt_own *o = mt_own_place(e, c, slot, &who);
        if (now->visited != c || o->who != who || o->address != now->last || now->step != now->stride ||
            now->own_difference != now->stride)
            return 0;
        l->slot[l->n] = now;
        l->own[l->n++] = o;
    } while (now != s);
    for (uint32_t i = 0; i < l->n; i++) {
        const struct mt_access_run *r = &end[(int)i - (int)l->n];
        if (!mt_is_slot(e, (uint32_t)(l->slot[i] - e->slots), r) || r->base != l->slot[i]->last)
            return 0; /* still on the way into the loop */
    }
    return !e->nvisits;
}

/* Returns the number of whole laps of `l`, which follow a lap before `runs`: each run differs from the one a
 * lap before only by the predicted distance. */
static inline MT_WIDE size_t device_laps_count(const struct lap *l, const struct mt_access_run *runs,
                                               size_t count)
{
    const mt_half_run *now = (const void *)runs, *was = now - 2 * (size_t)l->n;
    mt_half_run by[MT_LAP];
    size_t laps = 0;
    for (uint32_t i = 0; i < l->n; i++)
        by[i] = (mt_half_run){l->slot[i]->stride};
    for (; count >= l->n; count -= l->n, laps++) {
        mt_half_run odd = {0}, rest = {0};
        for (uint32_t i = 0; i < l->n; i++, now += 2, was += 2) {
            odd |= (now[0] - was[0]) ^ by[i];
            rest |= now[1] ^ was[1];
        }
        if (!mt_half_is_zero(odd | (rest & mt_half_real)))
            break;
    }
    return laps;
}

/* Updates the tables after `laps` laps, with the same result as for each run alone. */
static void device_laps_go_on(const struct lap *l, size_t laps)
{
    const struct mt_table_slot *end = l->slot[l->n - 1];
    uint64_t before = end->last + (laps - 1) * end->stride;
    for (uint32_t i = 0; i < l->n; i++) {
        struct mt_table_slot *s = l->slot[i];
        uint64_t far = laps * s->stride;
        s->like[0][MT_HALF_BASE] += far;
        s->last += far;
        s->offset = s->last - before;
        before = s->last;
    }
}

/* Returns how many of `runs` repeat the laps before them. The encoder is at a run of slot s in context c, and
 * the MT_LAP runs before `runs` were predicted. The runs are then in the tables, each with token 0. */
static MT_WIDE size_t device_laps(struct mt_device_work *w, struct mt_table_slot *s, uint32_t c,
                                  const struct mt_access_run *runs, size_t count)
{
    struct lap l;
    size_t laps = device_laps_found(w->e, &l, s, c, runs) ? device_laps_count(&l, runs, count) : 0;
    if (!laps)
        return 0;
    device_laps_go_on(&l, laps);
    for (uint32_t i = 0; i < l.n; i++)
        l.own[i]->address = l.slot[i]->last;
    return laps * l.n;
}

/* ---- warp after warp ---- */

/* Returns 1 if the newest context is the last in launch order, so that the next warp is new. */
static int device_laps_at_top(const struct mt_mtc_device_encoder *e, uint32_t c)
{
    const struct mt_context *x = &e->contexts[c];
    return c + 1 == e->ncontexts && e->top == mt_context_order(x->cta) && e->top_warp == x->warp;
}

/* Finds the slots of a warp's first l->n runs, which were predicted. Returns 1 if all slots are different. */
static int device_laps_of_warp(struct mt_mtc_device_encoder *e, struct lap *l)
{
    uint32_t slot = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        slot = e->slots[slot].next;
        for (uint32_t k = 0; k < i; k++)
            if (l->number[k] == slot)
                return 0;
        l->number[i] = slot;
        l->slot[i] = &e->slots[slot];
    }
    return 1;
}

/* Writes a new context, added behind context b. */
static unsigned char *put_context(unsigned char *out, const struct mt_context *r, const struct mt_context *b)
{
    unsigned char *flags = out++;
    uint64_t dx = (r->cta >> 32) - (b->cta >> 32);
    int beside = (uint32_t)dx == 1 && (uint32_t)r->cta == (uint32_t)b->cta;
    uint32_t warp = b->warp == MT_RUN_NO_WARP ? b->warp : r->cta == b->cta ? b->warp + 1 : 0;
    *flags = r->cta == b->cta ? 0 : beside ? 1 : 2;
    if (*flags == 2) {
        out = mt_leb_signed(out, (uint64_t)(int32_t)(uint32_t)dx);
        out = mt_leb_signed(out, (uint64_t)(int16_t)((r->cta >> 16) - (b->cta >> 16)));
        out = mt_leb_signed(out, (uint64_t)(int16_t)(r->cta - b->cta));
    }
    if (r->warp != warp) {
        *flags |= 4;
        out = mt_leb_signed(out, (uint64_t)(int32_t)(r->warp - warp));
    }
    if (r->smid != b->smid) {
        *flags |= 8;
        out = mt_leb_signed(out, (uint64_t)(int32_t)(r->smid - b->smid));
    }
    return out;
}

/* Adds the lap of a new warp to the columns and tables. */
static inline void device_laps_add(struct mt_device_work *w, const struct lap *l,
                                   const struct mt_access_run *r)
{
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t c = e->ncontexts++;
    struct mt_visit *v = e->visits + e->nvisits;
    unsigned char *tokens = w->tokens;
    e->contexts[c - 1].successor = c;
    e->contexts[c] = (struct mt_context){.cta = r->cta,
                                         .warp = r->warp,
                                         .smid = r->smid,
                                         .successor = MT_NONE,
                                         .slot = l->number[l->n - 1],
                                         .address = r[l->n - 1].base};
    if (r->smid == r[-1].smid)
        *w->contexts++ = r->cta != r[-1].cta;
    else
        w->contexts = put_context(w->contexts, &e->contexts[c], &e->contexts[c - 1]);
    for (uint32_t i = 0; i < l->n; i++) {
        v[i] = (struct mt_visit){c, l->number[i], r[i].base};
        tokens[i] = 0;
    }
    tokens[0] = 3;
    w->tokens += l->n;
    e->nvisits += l->n;
}

/* Returns how many warps do the same as the warp of the l->n runs before `runs`, each a stride further. */
static inline MT_WIDE size_t device_laps_warps(struct mt_device_work *w, const struct lap *l,
                                               const struct mt_access_run *runs, size_t count)
{
    struct mt_mtc_device_encoder *e = w->e;
    const struct mt_access_run *r = runs;
    mt_half_run by[MT_LAP];
    size_t most = (MT_VISITS - e->nvisits) / l->n, warps = 0;
    most = most < count / l->n ? most : count / l->n;
    most = most < e->context_room - e->ncontexts ? most : e->context_room - e->ncontexts;
    for (uint32_t i = 0; i < l->n; i++)
        by[i] = (mt_half_run){l->slot[i]->stride};
    for (; warps < most; warps++, r += l->n) {
        const mt_half_run *now = (const void *)r, *was = now - 2 * (size_t)l->n;
        uint64_t cta = r->cta - r[-1].cta, who = r->smid | (uint64_t)r->warp << 32,
                 before = r[-1].smid | (uint64_t)r[-1].warp << 32;
        if (r[-1].warp == MT_RUN_NO_WARP || (cta ? cta != UINT64_C(1) << 32 || r->warp || !(r->cta >> 32)
                                                 : who - before != UINT64_C(1) << 32))
            break;
        mt_half_run odd = {0}, rest = {0};
        const mt_half_run of[2] = {{0, 0, 0, cta}, {who - before}};
        for (uint32_t i = 0; i < l->n; i++, now += 2, was += 2) {
            odd |= (now[0] - was[0]) ^ (by[i] | of[0]);
            rest |= (now[1] - was[1]) ^ of[1];
        }
        if (!mt_half_is_zero(odd | (rest & mt_half_real)))
            break;
        device_laps_add(w, l, r);
    }
    return warps;
}

/* Returns how many of `runs` belong to warps that do the same as context c. c is new and had `n` runs just
 * before `runs`, all predicted. The runs are then in the columns and tables; w->context is the last
 * warp's. */
static MT_WIDE size_t device_warps(struct mt_device_work *w, uint32_t n, uint32_t c,
                                   const struct mt_access_run *runs, size_t count)
{
    struct mt_mtc_device_encoder *e = w->e;
    struct lap l = {.n = n};
    if (!device_laps_at_top(e, c) || !device_laps_of_warp(e, &l))
        return 0;
    size_t warps = device_laps_warps(w, &l, runs, count);
    if (!warps)
        return 0;
    const struct mt_context *x = &e->contexts[e->ncontexts - 1];
    device_laps_go_on(&l, warps);
    for (uint32_t i = 0; i < n; i++)
        l.slot[i]->visited = e->ncontexts - 1;
    e->top = mt_context_order(x->cta);
    e->top_warp = x->warp;
    w->context = w->fresh = e->ncontexts - 1;
    return warps * n;
}

/* Writes numbers of `width` (0 to 56) bits each, without gaps, and up to 8 bytes beyond the end. Returns the
 * position after the numbers. */
static unsigned char *device_encoder_bits(unsigned char *out, const uint64_t *a, uint32_t n, unsigned width)
{
    uint64_t bits = 0;
    unsigned have = 0;
    for (uint32_t i = 0; i < n; i++) {
        bits |= a[i] << have; /* have is below 8 */
        have += width;
        memcpy(out, &bits, sizeof bits);
        out += have / 8;
        bits >>= have / 8 * 8;
        have %= 8;
    }
    return out + (have != 0);
}

/* Writes numbers as multiples of 1 << shift above the anchor, up to 64 bits wide. Neighbours are combined
 * where possible, since each step depends on the one before. */
static unsigned char *device_encoder_bits_above(unsigned char *out, const uint64_t *a, uint32_t n,
                                                uint64_t anchor, unsigned shift, unsigned width)
{
    uint64_t v[MT_MTC_MAX_LANES];
    for (uint32_t i = 0; i < n; i++)
        v[i] = (a[i] - anchor) >> shift;
    if (width == 64) {
        memcpy(out, v, n * sizeof *v);
        return out + n * sizeof *v;
    }
    for (; width <= 28 && n % 2 == 0 && n; n /= 2, width *= 2)
        for (uint32_t i = 0; i < n / 2; i++)
            v[i] = v[2 * i] | v[2 * i + 1] << width;
    return device_encoder_bits(out, v, n, width);
}

static void own_later(struct mt_mtc_device_encoder *e, uint32_t c, uint32_t s, uint64_t address)
{
    if (__builtin_expect(e->nvisits == MT_VISITS, 0))
        own_write(e);
    e->visits[e->nvisits++] = (struct mt_visit){c, s, address};
}

enum {
    ANONYMOUS = 64,
    FAR = 1 << 16
}; /* ANONYMOUS: slots for runs without site; FAR: distance from which
    * such addresses are unrelated */
enum { NEW_MASK = 1, NEW_COUNT = 2, NEW_STRIDE = 4 };
enum { NEAR = 3 }; /* contexts after one that are tried before the index is searched */
enum { SAME_LANES = 0x80, WHOLE = 64, PACKED_MAX = 56 };

/* ---- contexts (warps) ---- */

static int is_context(const struct mt_context *c, const struct mt_access_run *r)
{
    return c->cta == r->cta && c->warp == r->warp && c->smid == r->smid;
}

/* Creates the context of most new warps: the one after the newest warp, in its CTA or the first one in the
 * next. Returns MT_NONE for other warps. */
static inline uint32_t device_encoder_beside(struct mt_device_work *w, const struct mt_access_run *r)
{
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t before = w->context, now = e->ncontexts;
    struct mt_context *b = &e->contexts[before];
    uint64_t by = r->cta - b->cta;
    if (now == e->context_room || r->smid != b->smid || b->warp == MT_RUN_NO_WARP ||
        r->warp != (by ? 0 : b->warp + 1) || (by && by != UINT64_C(1) << 32) ||
        !mt_context_ahead(e, r->cta, r->warp))
        return MT_NONE;
    e->contexts[now] = (struct mt_context){
        .cta = r->cta, .warp = r->warp, .smid = r->smid, .successor = MT_NONE, .address = b->address};
    e->ncontexts++;
    *w->contexts++ = by != 0;
    w->token |= 3;
    return w->fresh = b->successor = now;
}

/* Returns the run's context if it is the successor of context c (*way is 1), or one of those that appeared
 * after c (2): warps that take turns now and then overtake each other. MT_NONE: look it up. */
static inline uint32_t device_encoder_near(const struct mt_mtc_device_encoder *e, uint32_t c,
                                           const struct mt_access_run *r, unsigned *way)
{
    uint32_t next = e->contexts[c].successor;
    *way = 1;
    if (next != MT_NONE && is_context(&e->contexts[next], r))
        return next;
    *way = 2;
    for (next = c + 1; next <= c + NEAR && next < e->ncontexts; next++)
        if (is_context(&e->contexts[next], r))
            return next;
    return MT_NONE;
}

/* Encodes that context `now`, which is not new, follows context c, whose successor it was not. */
static inline void device_encoder_follow(struct mt_device_work *w, uint32_t c, uint32_t now)
{
    w->contexts = mt_leb_signed(w->contexts, (uint64_t)now - c);
    w->e->contexts[c].successor = now;
}

/* Returns the number of the run's context and adds its bits to w->token. MT_NONE: no memory. */
static inline uint32_t device_encoder_context_of(struct mt_device_work *w, const struct mt_access_run *r)
{
    static const struct mt_context none = {.warp = MT_RUN_NO_WARP};
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t before = w->context, now;
    int is_new = 0;
    if (before != MT_NONE) {
        const struct mt_context *b = &e->contexts[before];
        if (is_context(b, r))
            return before;
        if (b->successor == MT_NONE && (now = device_encoder_beside(w, r)) != MT_NONE)
            return now;
        w->fresh = MT_NONE;
        unsigned way;
        if ((now = device_encoder_near(e, before, r, &way)) != MT_NONE) {
            w->token |= way;
            if (way == 2)
                device_encoder_follow(w, before, now);
            return now;
        }
    }
    if ((now = mt_context_of(e, r, &is_new)) == MT_NONE)
        return now;
    if (!is_new) {
        w->token |= 2;
        w->contexts = mt_leb_signed(w->contexts, (uint64_t)now - before);
    } else {
        w->token |= 3;
        w->contexts = put_context(w->contexts, &e->contexts[now], now ? &e->contexts[now - 1] : &none);
        e->contexts[now].address = before != MT_NONE ? e->contexts[before].address : 0;
        w->fresh = now;
    }
    if (before != MT_NONE)
        e->contexts[before].successor = now;
    return now;
}

/* ---- slots (accesses of the code) ---- */

/* Returns the address that base code `code` predicts; 3: the address that the difference is relative to.
 * `own`: the slot's last address in the context, or NULL. */
static inline uint64_t device_encoder_predict(const struct mt_mtc_device_encoder *e,
                                              const struct mt_table_slot *s, uint32_t c, const uint64_t *own,
                                              unsigned code)
{
    if (code == 0)
        return s->last + s->stride;
    if (code == 1)
        return e->contexts[c].address + s->offset;
    if (code == 2)
        return own ? *own + s->step : s->last;
    return own ? *own : s->last;
}

/* Returns 1 if this is the slot's first run in context c, which is new. */
static inline int device_encoder_first(const struct mt_device_work *w, const struct mt_table_slot *s,
                                       uint32_t c)
{
    return w->fresh == c && s->visited != c;
}

/* Returns the slot's last address in context c, or NULL. Valid until the next call. */
static inline const uint64_t *device_encoder_own(struct mt_device_work *w, uint32_t slot, uint32_t c)
{
    uint64_t who;
    if (device_encoder_first(w, &w->e->slots[slot], c))
        return NULL;
    if (w->e->nvisits)
        own_write(w->e);
    const struct mt_own *o = mt_own_place(w->e, c, slot, &who);
    return o->who == who ? &o->address : NULL;
}

static int device_encoder_hits(struct mt_device_work *w, uint32_t slot, uint32_t c, uint64_t base)
{
    const struct mt_mtc_device_encoder *e = w->e;
    const struct mt_table_slot *s = &e->slots[slot];
    const uint64_t *own = device_encoder_own(w, slot, c);
    return device_encoder_predict(e, s, c, own, 0) == base ||
           device_encoder_predict(e, s, c, own, 1) == base || device_encoder_predict(e, s, c, own, 2) == base;
}

/* Returns the slot of a run without site that predicted the address, or had a near one; MT_NONE: create
 * one. */
static uint32_t device_encoder_anonymous(struct mt_device_work *w, const struct mt_access_run *r, uint32_t c)
{
    const struct mt_mtc_device_encoder *e = w->e;
    const struct mt_table_slot *l = &e->slots[e->contexts[c].slot];
    uint64_t nearest = UINT64_MAX;
    uint32_t best = MT_NONE, n = 0;
    if (l->next != MT_NONE && e->slots[l->next].site == 0 && e->slots[l->next].meta == r->meta &&
        device_encoder_hits(w, l->next, c, r->base))
        return l->next;
    if (l->second != MT_NONE && e->slots[l->second].site == 0 && e->slots[l->second].meta == r->meta &&
        device_encoder_hits(w, l->second, c, r->base))
        return l->second;
    for (uint32_t i = device_encoder_slot_find(e, 0, r->meta); i != MT_NONE; i = e->slots[i].others, n++) {
        uint64_t d = r->base - e->slots[i].last;
        d = d >> 63 ? 0 - d : d;
        if (d < nearest) {
            nearest = d;
            best = i;
        }
    }
    return nearest < FAR || n >= ANONYMOUS ? best : MT_NONE;
}

static uint32_t device_encoder_slot_of(struct mt_device_work *w, const struct mt_access_run *r, uint32_t c)
{
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t before = e->contexts[c].slot, now;
    struct mt_table_slot *l = &e->slots[before];
    if (__builtin_expect(r->site == 0, 0))
        now = device_encoder_anonymous(w, r, c);
    else if (mt_is_slot(e, l->next, r))
        return l->next;
    else if (mt_is_slot(e, l->second, r))
        now = l->second;
    else
        now = device_encoder_slot_find(e, r->site, r->meta);
    if (now == l->next && now != MT_NONE)
        return now;
    if (now == MT_NONE) {
        if ((now = slot_add(e, r->site, r->meta)) == MT_NONE)
            return now;
        l = &e->slots[before]; /* the slots may have moved */
        w->token |= 3 << 2;
        w->shapes = mt_leb_signed(w->shapes, (uint64_t)(int32_t)(r->site - w->newest_site));
        w->shapes = mt_leb(w->shapes, r->meta);
        w->newest_site = r->site;
        e->slots[now].last = e->slots[now].low = e->contexts[c].address;
    } else if (now == l->second) {
        w->token |= 1 << 2;
    } else {
        w->token |= 2 << 2;
        w->contexts = mt_leb(w->contexts, now);
    }
    l->second = l->next;
    l->next = now;
    return now;
}

/* ---- shapes (lanes) ---- */

/* Returns 1 if the lanes are at the same distances from the first one as before. For a whole warp there is no
 * branch, so that the compiler vectorises it. */
static int device_encoder_as_before(const uint64_t *a, uint64_t base, const uint64_t *delta, uint32_t n)
{
    uint64_t odd = 0;
    if (n == MT_MTC_MAX_LANES)
        for (uint32_t i = 0; i < MT_MTC_MAX_LANES; i++)
            odd |= (a[i] - base) ^ delta[i];
    else
        for (uint32_t i = 1; i < n && !odd; i++)
            odd = (a[i] - base) ^ delta[i];
    return !odd;
}

/* Returns 1 if the rows are arranged as before. */
static int device_encoder_rows_as_before(const struct mt_shape *h, const struct mt_access_run *r)
{
    if (h->row == r->row)
        return h->stride == (uint64_t)r->stride && h->apart == (uint64_t)r->apart;
    uint64_t room[MT_RUN_ROWS];
    struct mt_access_run apart = mt_run_without_rows(r, room);
    return device_encoder_as_before(apart.addresses, r->base, h->delta, r->count);
}

static inline int device_encoder_is_shape(const struct mt_shape *h, const struct mt_access_run *r)
{
    if (h->mask != r->mask || h->count != r->count)
        return 0;
    if (__builtin_expect(r->row != 0, 0))
        return h->irregular && device_encoder_rows_as_before(h, r);
    if (!r->addresses)
        return !h->irregular && (h->stride == (uint64_t)r->stride || r->count == 1);
    return h->irregular && r->addresses[1] - r->base == h->delta[1] &&
           device_encoder_as_before(r->addresses, r->base, h->delta, r->count);
}

static void device_encoder_new_shape(struct mt_device_work *w, struct mt_shape *h,
                                     const struct mt_access_run *r)
{
    unsigned char *flags = w->shapes++;
    *flags = 0;
    if (r->mask && r->mask != UINT32_MAX) {
        *flags |= NEW_MASK;
        memcpy(w->shapes, &r->mask, sizeof r->mask);
        w->shapes += sizeof r->mask;
    } else if (!r->mask) {
        *flags |= NEW_COUNT;
        w->shapes = mt_leb(w->shapes, r->count);
    }
    uint64_t usual = r->meta & ((1u << 28) - 1), stride = r->count == 1 ? usual : (uint64_t)r->stride;
    if (stride != usual) {
        *flags |= NEW_STRIDE;
        w->shapes = mt_leb_signed(w->shapes, stride);
    }
    h->irregular = 0;
    h->mask = r->mask;
    h->count = r->count;
    h->stride = stride;
}

static unsigned device_encoder_bits_of(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

struct span {
    uint64_t low, high;
};

/* Finds the span of a whole warp's addresses, half a run at a time; signs are flipped because the processor
 * compares signed numbers. */
static MT_WIDE struct span device_encoder_span_wide(const uint64_t *a)
{
    const mt_half_run *v = (const void *)a, sign = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    __m256i low = (__m256i)(v[0] ^ sign), high = low;
    struct span s = {UINT64_MAX, 0};
    for (unsigned i = 1; i < MT_MTC_MAX_LANES / 4; i++) {
        __m256i now = (__m256i)(v[i] ^ sign);
        low = _mm256_blendv_epi8(low, now, _mm256_cmpgt_epi64(low, now));
        high = _mm256_blendv_epi8(high, now, _mm256_cmpgt_epi64(now, high));
    }
    mt_half_run least = (mt_half_run)low ^ sign, most = (mt_half_run)high ^ sign;
    for (unsigned i = 0; i < 4; i++) {
        s.low = least[i] < s.low ? least[i] : s.low;
        s.high = most[i] > s.high ? most[i] : s.high;
    }
    return s;
}

static struct span device_encoder_span(const uint64_t *a, uint32_t n)
{
    struct span s = {UINT64_MAX, 0};
    if (n == MT_MTC_MAX_LANES && __builtin_cpu_supports("avx2"))
        return device_encoder_span_wide(a);
    for (uint32_t i = 0; i < n; i++) {
        s.low = a[i] < s.low ? a[i] : s.low;
        s.high = a[i] > s.high ? a[i] : s.high;
    }
    return s;
}

/* Encodes lanes that have addresses of their own. Returns the token's base code. */
static __attribute__((noinline)) unsigned
device_encoder_gather(struct mt_device_work *w, struct mt_table_slot *s, const struct mt_access_run *run)
{
    uint64_t room[MT_RUN_ROWS];
    const struct mt_access_run apart = mt_run_without_rows(run, room), *r = &apart;
    const struct mt_shape *was = &s->shape[s->now];
    struct mt_shape *h = &s->shape[s->now ^= 1];
    struct span span = device_encoder_span(r->addresses, r->count);
    uint64_t low = span.low, high = span.high, any = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        h->delta[i] = r->addresses[i] - r->base;
        any |= h->delta[i];
    }
    /* Choice between the anchor of the previous run and a new one. */
    unsigned mine = device_encoder_bits_of(high - low), kept = device_encoder_bits_of(high - s->low),
             code = 0;
    if (low < s->low || (kept - mine) * r->count > 8 * (1 + device_encoder_bits_of(s->low ^ low) / 7)) {
        w->bases = mt_leb_signed(w->bases, low - s->low);
        s->low = low;
        code = 1;
    }
    any |= r->base - s->low;
    unsigned shift = any ? (unsigned)__builtin_ctzll(any) : 0,
             width = device_encoder_bits_of((high - s->low) >> shift);
    width = width > PACKED_MAX ? WHOLE : width > 4 && width < 8 ? 8 : width;
    int same = was->mask == r->mask && was->count == r->count;
    *w->lanes++ = (unsigned char)(width | (same ? SAME_LANES : 0));
    *w->lanes++ = (unsigned char)shift;
    if (!same) {
        memcpy(w->lanes, &r->mask, sizeof r->mask);
        w->lanes += sizeof r->mask;
        if (!r->mask)
            w->lanes = mt_leb(w->lanes, r->count);
    }
    w->lanes = device_encoder_bits_above(w->lanes, r->addresses, r->count, s->low, shift, width);
    h->irregular = 1;
    h->mask = r->mask;
    h->count = r->count;
    h->row = run->row;
    h->stride = (uint64_t)run->stride;
    h->apart = run->row ? (uint64_t)run->apart : 0;
    return code;
}

/* ---- runs ---- */

/* Updates the predictions after a run, except those from the slot's last address in the context. */
static inline void device_encoder_note(struct mt_table_slot *s, struct mt_context *x, uint64_t base)
{
    if (s->seen) {
        uint64_t d = base - s->last;
        s->stride = d == s->difference ? d : s->stride;
        s->difference = d;
    }
    s->offset = base - x->address;
    s->last = base;
    s->seen = 1;
    x->address = base;
}

/* Updates the predictions after a further run of the slot in context c. Returns 1 if it is as far from the
 * slot's last address in its context as the run before was in its own. */
static inline int device_encoder_again(struct mt_mtc_device_encoder *e, struct mt_table_slot *s, uint32_t c,
                                       uint32_t slot, uint64_t base)
{
    uint64_t who;
    int steady = 0;
    if (__builtin_expect(e->nvisits != 0, 0))
        own_write(e);
    struct mt_own *o = mt_own_place(e, c, slot, &who);
    if (o->who == who) {
        uint64_t d = base - o->address;
        steady = d == s->own_difference;
        s->step = steady ? d : s->step;
        s->own_difference = d;
    }
    o->who = who;
    o->address = base;
    return steady;
}

/* Predicts that the slot's next run equals this one. Writes whole words, as parts are slow to read back. */
static inline void device_encoder_foresee(struct mt_table_slot *s, const struct mt_access_run *r)
{
    if (!r->site || (!r->row && r->addresses)) {
        s->like[1][MT_HALF_WORDS - 1] = UINT64_C(1) << 32;
        return;
    }
    s->like[0] = (mt_half_run){s->last + s->stride, (uint64_t)r->stride, (uint64_t)r->apart, 0};
    s->like[1] =
        (mt_half_run){0, r->meta | (uint64_t)r->site << 32, r->count | (uint64_t)r->mask << 32, r->row};
}

/* Encodes the run's first address and updates the predictions. */
static void device_encoder_base(struct mt_device_work *w, const struct mt_access_run *r, uint32_t c,
                                uint32_t slot)
{
    struct mt_mtc_device_encoder *e = w->e;
    struct mt_table_slot *s = &e->slots[slot];
    struct mt_context *x = &e->contexts[c];
    uint64_t base = r->base;
    const uint64_t *own = device_encoder_own(w, slot, c);
    unsigned code = 0;
    if (w->token >> 6 == 3) {
        code = device_encoder_gather(w, s, r);
    } else if (base != s->last + s->stride) {
        for (code = 1; code < 3 && device_encoder_predict(e, s, c, own, code) != base;)
            code++;
        if (code == 3)
            w->bases = mt_leb_signed(w->bases, base - device_encoder_predict(e, s, c, own, 3));
    }
    device_encoder_note(s, x, base);
    x->slot = slot;
    if (device_encoder_first(w, s, c))
        own_later(e, c, slot, base);
    else
        device_encoder_again(e, s, c, slot, base);
    s->visited = c;
    device_encoder_foresee(s, r);
    *w->tokens++ = (unsigned char)(w->token | code << 4);
    w->token = 0;
}

/* ---- predicted runs (the common case) ---- */

enum { STEADY = 2 * MT_LAP }; /* number of predicted runs before laps are searched */

/* Returns the number of predicted runs of context c, each with the slot that followed the warp's last one
 * before. Inner loop: each instruction counts. */
static inline __attribute__((always_inline)) MT_WIDE size_t
device_encoder_foreseen(struct mt_device_work *w, const struct mt_access_run *runs, size_t count, uint32_t c)
{
    struct mt_mtc_device_encoder *e = w->e;
    struct mt_context *x = &e->contexts[c];
    struct mt_table_slot *s = &e->slots[x->slot], *now;
    const mt_half_run of[2] = {{0, 0, 0, x->cta}, {x->smid | (uint64_t)x->warp << 32}};
    unsigned char *tokens = w->tokens;
    uint64_t before = x->address;
    uint32_t fresh = w->fresh, slot;
    size_t i = 0, steady = 0;
    for (; i < count && (slot = s->next) != MT_NONE; i++, s = now) {
        now = &e->slots[slot];
        if (!mt_half_is_zero(mt_run_odd(&runs[i], now->like, of)))
            break;
        uint64_t base = runs[i].base;
        if (fresh == c && now->visited != c)
            own_later(e, c, slot, base);
        else
            steady += (unsigned)device_encoder_again(e, now, c, slot, base);
        now->visited = c;
        now->difference = now->stride;
        now->offset = base - before;
        now->last = before = base;
        now->like[0] += (mt_half_run){
            now->stride}; /* the field is written as a whole, because it is soon read as a whole */
        tokens[i] = 0;
        if (__builtin_expect(steady == STEADY, 0)) {
            size_t n = device_laps(w, now, c, &runs[i + 1], count - i - 1);
            memset(tokens + i + 1, 0, n);
            i += n;
            before = now->last;
            steady = 0;
        }
    }
    if (i) {
        *tokens = (unsigned char)w->token;
        w->token = 0;
        w->tokens = tokens + i;
        x->address = before;
        x->slot = (uint32_t)(s - e->slots);
    }
    return i;
}

/* ---- warps that take turns ---- */

/* Returns 1 if the run is as predicted for the slot, except perhaps for its address and context. */
static inline MT_WIDE int device_encoder_is_like(const struct mt_table_slot *s, const struct mt_access_run *r)
{
    static const mt_half_run low = {0, UINT64_MAX, UINT64_MAX, 0},
                             high = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const mt_half_run *half = (const void *)r;
    return mt_half_is_zero(((half[0] ^ s->like[0]) & low) | (((half[1] & mt_half_real) ^ s->like[1]) & high));
}

/* Updates the tables by a run of slot s in context c, which is not new and has had all of its fields
 * predicted but perhaps the address. Returns its base code; 3, with the tables unchanged, if none predicts
 * the address. */
static inline MT_WIDE unsigned device_encoder_turn(const struct mt_mtc_device_encoder *e,
                                                   struct mt_table_slot *s, uint32_t slot,
                                                   struct mt_context *x, uint32_t c,
                                                   const struct mt_access_run *r)
{
    static const mt_half_run but_cta = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
    uint64_t base = r->base, by = base - s->last, who;
    struct mt_own *o = mt_own_place(e, c, slot, &who);
    int had = o->who == who;
    uint64_t far = base - (had ? o->address : s->last);
    unsigned hits = (unsigned)(by == s->stride) | (unsigned)(base - x->address == s->offset) << 1 |
                    (unsigned)(far == (had ? s->step : 0)) << 2; /* no branches: nobody could predict them */
    if (!hits)
        return 3;
    if (had) {
        s->step = far == s->own_difference ? far : s->step;
        s->own_difference = far;
    }
    o->who = who;
    o->address = base;
    s->stride = by == s->difference ? by : s->stride;
    s->difference = by;
    s->offset = base - x->address;
    s->last = x->address = base;
    s->visited = c;
    s->like[0] = (*(const mt_half_run *)(const void *)r & but_cta) + (mt_half_run){s->stride};
    x->slot = slot;
    return (unsigned)__builtin_ctz(hits);
}

/* Encodes runs of warps that take turns: each belongs to a context near the one before, and to the slot that
 * followed the context's last one. Returns their number. Inner loop, as device_encoder_foreseen. */
static __attribute__((noinline)) MT_WIDE size_t device_encoder_turns(struct mt_device_work *w,
                                                                     const struct mt_access_run *runs,
                                                                     size_t count)
{
    struct mt_mtc_device_encoder *e = w->e;
    struct mt_context *contexts = e->contexts; /* neither table moves here */
    struct mt_table_slot *slots = e->slots;
    unsigned char *tokens = w->tokens;
    uint32_t c = w->context, next, slot;
    unsigned code, way;
    size_t i = 0;
    for (; c != MT_NONE && i < count; c = next, i++) {
        next = device_encoder_near(e, c, &runs[i], &way);
        if (next == MT_NONE)
            break;
        slot = slots[contexts[next].slot].next;
        if (slot == MT_NONE || !device_encoder_is_like(&slots[slot], &runs[i]))
            break;
        if (__builtin_expect(e->nvisits != 0, 0))
            own_write(e);
        if ((code = device_encoder_turn(e, &slots[slot], slot, &contexts[next], next, &runs[i])) == 3)
            break;
        tokens[i] = (unsigned char)(way | code << 4);
        if (way == 2)
            device_encoder_follow(w, c, next);
    }
    w->tokens = tokens + i;
    w->context = c;
    w->fresh = i ? MT_NONE : w->fresh;
    return i;
}

/* Encodes the next run of w->context if it is as predicted except for its address. */
static MT_WIDE size_t device_encoder_elsewhere(struct mt_device_work *w, const struct mt_access_run *r)
{
    uint32_t slot = w->e->slots[w->e->contexts[w->context].slot].next;
    if (slot == MT_NONE || !device_encoder_is_like(&w->e->slots[slot], r))
        return 0;
    device_encoder_base(w, r, w->context, slot);
    return 1;
}

/* Encodes all runs up to the first unpredicted one; its context is then w->context (MT_NONE: no memory). */
static MT_WIDE size_t device_encoder_wide(struct mt_device_work *w, const struct mt_access_run *runs,
                                          size_t count)
{
    size_t i = 0, n;
    do {
        i += device_encoder_turns(w, &runs[i], count - i);
        if (i == count)
            break;
        uint32_t was = w->context;
        w->context = device_encoder_context_of(w, &runs[i]);
        n = w->context == MT_NONE ? 0 : device_encoder_foreseen(w, &runs[i], count - i, w->context);
        i += n;
        if (i == count || w->context == MT_NONE)
            break;
        if (is_context(&w->e->contexts[w->context], &runs[i]))
            i += n = device_encoder_elsewhere(w, &runs[i]);
        else if (n && n <= MT_LAP && w->fresh == w->context && w->context != was)
            i += device_warps(w, (uint32_t)n, w->context, &runs[i], count - i);
    } while (n && i < count);
    return i;
}

/* Encodes predicted runs; on an old processor one by one, as the other runs. */
static inline size_t device_encoder_quick(struct mt_device_work *w, const struct mt_access_run *runs,
                                          size_t count)
{
    int apart = !runs->row && runs->addresses; /* runs with addresses are never predicted */
    if (!apart && __builtin_expect(__builtin_cpu_supports("avx2") != 0, 1))
        return device_encoder_wide(w, runs, count);
    w->context = device_encoder_context_of(w, runs);
    return 0;
}

/* ---- any runs ---- */

/* Encodes a run of w->context. Returns 0, or -1 without memory. */
static int device_encoder_other(struct mt_device_work *w, const struct mt_access_run *r)
{
    uint32_t c = w->context, slot = c != MT_NONE ? device_encoder_slot_of(w, r, c) : MT_NONE;
    if (slot == MT_NONE)
        return -1;
    struct mt_table_slot *s = &w->e->slots[slot];
    if (!device_encoder_is_shape(&s->shape[s->now], r)) {
        int other = device_encoder_is_shape(&s->shape[s->now ^ 1], r), apart = r->row || r->addresses;
        w->token |= other ? 1 << 6 : apart ? 3 << 6 : 2 << 6;
        if (other || !apart)
            s->now ^= 1;
        if (!other && !apart)
            device_encoder_new_shape(w, &s->shape[s->now], r);
    }
    device_encoder_base(w, r, c, slot);
    return 0;
}

/* Replaces evenly spaced lane addresses in *r by a stride. */
static void device_encoder_straighten(struct mt_access_run *r)
{
    uint64_t stride = r->count > 1 ? r->addresses[1] - r->addresses[0] : 0;
    r->base = r->addresses[0];
    if (r->addresses[r->count - 1] != r->base + (r->count - 1) * stride)
        return;
    for (uint32_t i = 2; i < r->count; i++)
        if (r->addresses[i] - r->addresses[i - 1] != stride)
            return;
    r->stride = (int64_t)stride;
    r->addresses = NULL;
}

/* Encodes a run with addresses: as a regular one, or as pieces with as many lanes as a gather has. Returns 0,
 * or -1 without memory. */
static int encode_addresses(struct mt_device_work *w, const struct mt_access_run *from)
{
    struct mt_access_run r = *from;
    for (uint32_t left = from->count; left; left -= r.count) {
        r.addresses = from->addresses + (from->count - left);
        r.count = left < MT_MTC_MAX_LANES ? left : MT_MTC_MAX_LANES;
        device_encoder_straighten(&r);
        if ((r.addresses || !device_encoder_quick(w, &r, 1)) && device_encoder_other(w, &r) != 0)
            return -1;
    }
    return 0;
}

/* Encodes rows, or a run without rows. Returns 0, or -1 without memory. */
static int encode_rows(struct mt_device_work *w, const struct mt_access_run *from)
{
    struct mt_access_run r = *from;
    if (r.count <= r.row || (uint64_t)r.apart == r.row * (uint64_t)r.stride) {
        r.row = 0;
        r.addresses = NULL;
    }
    return device_encoder_quick(w, &r, 1) ? 0 : device_encoder_other(w, &r);
}

/* ---- runs that cannot be encoded ---- */

const char mt_device_bad[] =
    "a run without accesses, or with another number of lanes than its mask, or of no known type";

/* Returns 1 if the mask, which is not 0, has as many lanes as the run. */
static int device_encoder_counts(const struct mt_access_run *r)
{
    uint32_t m = r->mask;
    m -= m >> 1 & 0x55555555; /* not every x86-64 has an instruction to count bits */
    m = (m & 0x33333333) + (m >> 2 & 0x33333333);
    return ((m + (m >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24 == r->count;
}

/* Returns 1 if the run can be encoded. */
static int device_good(const struct mt_access_run *r)
{
    if (!(r->meta & ((1u << 28) - 1)) || !mt_rec_known(r->meta >> 28))
        return 0;
    if (__builtin_expect(r->mask == UINT32_MAX, 1))
        return r->count == MT_MTC_MAX_LANES;
    return r->count && (!r->mask || device_encoder_counts(r)) && (!r->row || r->count <= MT_RUN_ROWS);
}

/* Encodes a run that was not predicted. Returns NULL, or the reason for failure. */
static const char *device_encoder_judged(struct mt_device_work *w, const struct mt_access_run *r)
{
    if (!device_good(r))
        return mt_device_bad;
    int failed = r->row         ? encode_rows(w, r)
                 : r->addresses ? encode_addresses(w, r)
                                : device_encoder_other(w, r);
    return failed ? device_no_memory : NULL;
}

/* Appends runs to the columns, which have room. Returns NULL, or a reason for failure. */
static const char *device_encode(struct mt_device_work *w, const struct mt_access_run *runs, size_t count)
{
    const char *why = NULL;
    for (size_t i = 0; !why && i < count && (i += device_encoder_quick(w, &runs[i], count - i)) < count; i++)
        why = device_encoder_judged(w, &runs[i]);
    return why;
}

/* ---- blocks ---- A region's accesses by one warp or several that follow one another, as one token. Contexts
 * and slots know nothing of them. */

/* Number of runs whose room in each column is enough for a block of n accesses: 56 bytes of contexts; 5 + 16
 * n of shapes for a new region and 30 n for distances; 20 n of bases. */
#define BLOCK_ROOM(n) (2 * (uint64_t)(n) + 1)

static void block_word(struct mt_block_region *g, uint32_t word, int fixed)
{
    g->real[word / 4][word % 4] = UINT64_MAX;
    g->fixed[word / 4][word % 4] = fixed ? UINT64_MAX : 0;
}

/* Fills in what is known of a region before its first block. */
static void block_learn(struct mt_block_region *g, const struct mt_region *of, uint32_t site_base)
{
    static const uint32_t words[] = {MT_REGION_OF, MT_REGION_CTA, MT_REGION_WARP, MT_REGION_BASE,
                                     MT_REGION_ZERO};
    uint32_t last = of->bases + (of->loop ? 1 + of->n : 0);
    memset(g, 0, sizeof *g);
    g->of = of;
    g->site_base = site_base;
    g->warps = 1;
    g->laps = 1;
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
        block_word(g, words[i], 1);
    for (uint32_t i = 0; i < last; i++)
        block_word(g, mt_region_word(i), i >= of->bases);
    g->by[MT_REGION_WARP / 4][MT_REGION_WARP % 4] = UINT64_C(1) << 32;
}

/* Describes a new region in the shapes column. */
static void block_describe(struct mt_device_work *w, const struct mt_block_region *g)
{
    struct mt_mtc_device_encoder *e = w->e;
    w->shapes = mt_leb(w->shapes, g->of->n);
    for (uint32_t i = 0; i < g->of->n; i++) {
        const struct mt_region_access *a = &g->of->access[i];
        uint32_t site = a->site + g->site_base;
        w->shapes = mt_leb_signed(w->shapes, (uint64_t)(int32_t)(site - e->newest));
        w->shapes = mt_leb(w->shapes, a->meta);
        *w->shapes++ = (unsigned char)a->rows;
        w->shapes = mt_leb_signed(w->shapes, (uint64_t)(int64_t)a->stride);
        e->newest = site;
    }
}

enum { MT_BLOCK_NEW = 8 }; /* MT_BLOCK_OTHER, and the region is to be described */

/* Returns the region of an entry; *token: 0, MT_BLOCK_OTHER or MT_BLOCK_NEW. NULL: no memory. */
static struct mt_block_region *block_region(struct mt_device_work *w, const uint64_t *word, unsigned *token)
{
    struct mt_mtc_device_encoder *e = w->e;
    const struct mt_region *of = mt_region_of(word);
    uint32_t site_base = (uint32_t)(word[MT_REGION_BASE] >> 32);
    struct mt_block_region *g = e->region;
    if (g && g->of == of && g->site_base == site_base)
        return g;
    if (!e->regions && !(e->regions = mt_pages(BLOCK_REGIONS * sizeof *e->regions)))
        return NULL;
    g = &e->regions[mt_hash_number(word[MT_REGION_OF] + site_base) & (BLOCK_REGIONS - 1)];
    *token = MT_BLOCK_OTHER;
    if (g->of != of || g->site_base != site_base || g->epoch != e->epoch) {
        e->region = e->region == g ? NULL : e->region; /* its place is taken */
        block_learn(g, of, site_base);
        g->epoch = e->epoch;
        g->number = e->nregions++;
        *token = MT_BLOCK_NEW;
    }
    return g;
}

/* Returns how many entries, at most `most` in `units`, are of warps that follow one another in a CTA, each as
 * far from the one before. */
static MT_WIDE size_t block_warps_wide(const struct mt_block_region *g, const uint64_t *word, size_t units,
                                       size_t most)
{
    uint32_t halves = 2 * g->of->units;
    const mt_half_run *was = (const void *)word, *now = was + halves,
                      *end = was + 2 * units; /* of the last whole entry, or beyond */
    mt_half_run by[BLOCK_HALVES], odd = {0};
    size_t n = 1;
    if (most < 2 || end - now < halves)
        return 1;
    for (uint32_t i = 0; i < halves; i++) {
        by[i] = now[i] - was[i];
        odd |= (by[i] ^ g->by[i]) & g->fixed[i];
    }
    while (mt_half_is_zero(odd)) {
        was = now;
        now += halves;
        if (++n == most || end - now < halves)
            break;
        for (uint32_t i = 0; i < halves; i++)
            odd |= ((now[i] - was[i]) ^ by[i]) & g->real[i];
    }
    return n;
}

/* The same for entries of one unit, most by far: three accesses at most, in registers. */
static MT_WIDE size_t block_warps_short(const struct mt_block_region *g, const uint64_t *word, size_t units,
                                        size_t most)
{
    const mt_half_run *now = (const void *)word, real0 = g->real[0], real1 = g->real[1];
    mt_half_run was0 = now[0], was1 = now[1], by0, by1;
    size_t n = 1;
    most = most < units ? most : units;
    if (most < 2)
        return 1;
    by0 = now[2] - was0;
    by1 = now[3] - was1;
    mt_half_run odd = ((by0 ^ g->by[0]) & g->fixed[0]) | ((by1 ^ g->by[1]) & g->fixed[1]);
    while (mt_half_is_zero(odd)) {
        was0 += by0;
        was1 += by1;
        now += 2;
        if (++n == most)
            break;
        odd = ((now[2] - was0 - by0) & real0) | ((now[3] - was1 - by1) & real1);
    }
    return n;
}

static size_t block_warps(const struct mt_block_region *g, const uint64_t *word, size_t units, size_t most)
{
    if (!__builtin_cpu_supports("avx2"))
        return 1;
    return (g->of->units == 1 ? block_warps_short : block_warps_wide)(g, word, units, most);
}

/* Writes who made the block's accesses, and how often. Returns the flags. */
static unsigned block_who(struct mt_device_work *w, struct mt_block_region *g, const uint64_t *word,
                          uint32_t warps, uint64_t laps)
{
    struct mt_mtc_device_encoder *e = w->e;
    uint64_t cta = word[MT_REGION_CTA], was = e->block_cta;
    uint32_t smid = (uint32_t)word[MT_REGION_WARP], warp = (uint32_t)(word[MT_REGION_WARP] >> 32), due = 0;
    uint64_t dx = (cta >> 32) - (was >> 32);
    unsigned flags = cta == was ? 0 : (uint32_t)dx == 1 && (uint32_t)cta == (uint32_t)was ? 1 : 2;
    if (!flags)
        due = e->block_warp + (e->region == g ? g->warps : 0);
    if (flags == 2) {
        w->contexts = mt_leb_signed(w->contexts, (uint64_t)(int32_t)(uint32_t)dx);
        w->contexts = mt_leb_signed(w->contexts, (uint64_t)(int16_t)((cta >> 16) - (was >> 16)));
        w->contexts = mt_leb_signed(w->contexts, (uint64_t)(int16_t)(cta - was));
    }
    if (warp != due) {
        flags |= MT_BLOCK_WARP;
        w->contexts = mt_leb_signed(w->contexts, (uint64_t)(int32_t)(warp - due));
    }
    if (smid != e->block_smid) {
        flags |= MT_BLOCK_SM;
        w->contexts = mt_leb_signed(w->contexts, (uint64_t)(int32_t)(smid - e->block_smid));
    }
    if (warps != g->warps) {
        flags |= MT_BLOCK_WARPS;
        w->contexts = mt_leb(w->contexts, warps);
    }
    if (laps != g->laps) {
        flags |= MT_BLOCK_LAPS;
        w->contexts = mt_leb(w->contexts, laps);
    }
    e->block_cta = cta;
    e->block_smid = smid;
    e->block_warp = warp;
    g->warps = warps;
    g->laps = laps;
    return flags;
}

/* Writes numbers that are not all as in the block before, and keeps them. */
static void block_numbers(struct mt_device_work *w, uint64_t *was, const uint64_t *now, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        w->shapes = mt_leb_signed(w->shapes, now[i]);
        was[i] = now[i];
    }
}

/* Where a block's accesses are; and bits that are not 0 if that is not as expected. */
struct block_place {
    uint64_t base[BLOCK_BASES], apart[BLOCK_BASES], step[MT_REGION_ACCESSES], bases_odd, aparts_odd,
        steps_odd;
};

static inline void block_place(struct block_place *p, const struct mt_block_region *g, const uint64_t *word,
                               uint32_t warps, uint64_t from, uint64_t laps)
{
    const struct mt_region *of = g->of;
    const uint64_t *next = word + (size_t)of->units * MT_REGION_WORDS;
    p->bases_odd = p->aparts_odd = p->steps_odd = 0;
    for (uint32_t i = 0; i < of->bases; i++)
        p->base[i] = word[mt_region_word(i)];
    for (uint32_t i = 0; i < of->bases; i++) {
        p->apart[i] = warps > 1 ? next[mt_region_word(i)] - p->base[i] : g->apart[i];
        p->aparts_odd |= p->apart[i] ^ g->apart[i];
    }
    for (uint32_t i = 0; of->loop && i < of->n; i++) {
        uint64_t step = mt_region_step(of, word, i);
        p->step[i] = laps > 1 ? step : g->step[i];
        p->steps_odd |= p->step[i] ^ g->step[i];
        for (uint32_t k = 0; from && k < of->access[i].rows; k++)
            p->base[of->access[i].first + k] += from * step;
    }
    for (uint32_t i = 0; i < of->bases; i++)
        p->bases_odd |= p->base[i] ^ (g->base[i] + g->difference[i]);
}

static void block_at(struct mt_block_region *g, const uint64_t *base)
{
    for (uint32_t i = 0; i < g->of->bases; i++) {
        g->difference[i] = base[i] - g->base[i];
        g->base[i] = base[i];
    }
}

/* Writes the blocks that repeated the one before. */
static void block_settle(struct mt_device_work *w)
{
    struct mt_mtc_device_encoder *e = w->e;
    if (!e->repeats)
        return;
    *w->tokens++ = MT_RUN_BLOCK | MT_BLOCK_REPEATS;
    w->contexts = mt_leb(w->contexts, e->repeats);
    w->contexts = mt_leb(w->contexts, e->sms);
    e->repeats = 0;
}

/* Takes a block that does the same as the one before, in the next CTA on the next SM, as far from it as that
 * from its own. Returns 1 if it is one. */
static int block_repeats(struct mt_mtc_device_encoder *e, struct mt_block_region *g, const uint64_t *word,
                         uint64_t warps, uint64_t laps, const struct block_place *p)
{
    uint64_t cta = word[MT_REGION_CTA], who = word[MT_REGION_WARP];
    uint32_t smid = (uint32_t)who, was = e->block_smid;
    if (cta - e->block_cta != UINT64_C(1) << 32 || !(cta >> 32) || who >> 32 || warps != g->warps ||
        laps != g->laps || p->bases_odd | p->aparts_odd | p->steps_odd)
        return 0;
    uint32_t sms = smid ? e->sms : was + 1; /* 0: not known */
    if ((smid && smid != was + 1) || smid >= sms || (e->repeats && sms != e->sms))
        return 0;
    e->sms = sms;
    e->repeats++;
    e->block_cta = cta;
    e->block_smid = smid;
    e->block_warp = 0;
    block_at(g, p->base);
    return 1;
}

/* Writes a block. */
static void block_put(struct mt_device_work *w, const uint64_t *word, uint32_t warps, uint64_t laps,
                      unsigned token, struct mt_block_region *g, const struct block_place *p)
{
    block_settle(w);
    if (token)
        w->contexts = mt_leb(w->contexts, g->number);
    if (token == MT_BLOCK_NEW)
        block_describe(w, g);
    unsigned char *flags = w->contexts++;
    *flags = (unsigned char)(block_who(w, g, word, warps, laps) | (p->aparts_odd ? MT_BLOCK_APART : 0) |
                             (p->steps_odd ? MT_BLOCK_STEPS : 0));
    if (p->aparts_odd)
        block_numbers(w, g->apart, p->apart, g->of->bases);
    if (p->steps_odd)
        block_numbers(w, g->step, p->step, g->of->n);
    for (uint32_t i = 0; p->bases_odd && i < g->of->bases; i++)
        w->bases = mt_leb_signed(w->bases, p->base[i] - g->base[i] - g->difference[i]);
    block_at(g, p->base);
    *w->tokens++ =
        (unsigned char)(MT_RUN_BLOCK | (token ? MT_BLOCK_OTHER : 0) | (p->bases_odd ? MT_BLOCK_BASES : 0));
    w->e->region = g;
}

/* Chunks of device runs: checks runs, makes room for the columns, and joins the columns to a payload. */

enum {                     /* maximum bytes that one run adds to a column */
       CONTEXT_BYTES = 40, /* a new context: flags 1, CTA 3 * 10, warp 5, SM 5; or a number 5; and a slot 5 */
       SHAPE_BYTES = 36,   /* a new slot: 5 + 5; a shape: 1 + 4 + 5 + 10 */
       BASE_BYTES = 10,
       LANE_BYTES = 280, /* 2 + 4 + 5 + 32 * 8, and 8 bytes written beyond the end */
};

_Static_assert(3 * CONTEXT_BYTES >= 56 && 3 * SHAPE_BYTES >= 5 + 46 && 2 * SHAPE_BYTES >= 46 &&
                   2 * BASE_BYTES >= 20,
               "room for a block");

struct mt_mtc_device_encoder *mt_mtc_device_encoder_new(void)
{
    return mt_pages(sizeof(struct mt_mtc_device_encoder));
}

void mt_mtc_device_encoder_free(struct mt_mtc_device_encoder *e)
{
    if (!e)
        return;
    tables_free(e);
    mt_pages_free(e->out, e->out_room);
    mt_pages_free(e, sizeof *e);
}

/* Returns the number of accesses if each run is one piece, or 0. The encoder finds invalid runs later. */
static uint64_t device_chunk_accesses(const struct mt_access_run *runs, size_t count)
{
    uint64_t sum = 0;
    uint32_t odd = 0;
    for (size_t i = 0; i < count; i++) {
        sum += runs[i].count;
        odd |= (runs[i].count - 1) / MT_MTC_MAX_LANES;
    }
    return odd ? 0 : sum;
}

/* Computes the room that the runs need at most. Returns 0, or the reason why they cannot be encoded. */
static const char *device_chunk_measure(const struct mt_access_run *runs, size_t count, uint64_t *pieces,
                                        uint64_t *gathers, uint64_t *accesses)
{
    uint64_t more = 0, apart = 0, sum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_access_run *r = &runs[i];
        if (!device_good(r))
            return mt_device_bad;
        sum += r->count;
        if (r->row || r->addresses) {
            uint64_t n = (r->count + (uint64_t)MT_MTC_MAX_LANES - 1) / MT_MTC_MAX_LANES;
            apart += n;
            more += n - 1;
        }
    }
    *pieces = count + more;
    *gathers = apart;
    *accesses = sum;
    return NULL;
}

/* reasons for failure */

/* Makes room for the columns, one after the other. */
static const char *device_chunk_begin(struct mt_mtc_device_encoder *e, uint64_t pieces, uint64_t gathers)
{
    size_t want = sizeof(struct mt_mtc_columns) + pieces * (1 + CONTEXT_BYTES + SHAPE_BYTES + BASE_BYTES) +
                  gathers * LANE_BYTES + 64;
    if (want > e->out_room) {
        mt_pages_free(e->out, e->out_room);
        e->out_room = 0;
        if (!(e->out = mt_pages(want)))
            return device_no_memory;
        e->out_room = want;
    }
    if (tables_begin(e) != 0)
        return device_no_memory;
    struct mt_device_work *w = &e->at;
    *w = (struct mt_device_work){.e = e, .context = MT_NONE, .fresh = MT_NONE};
    w->tokens = e->out + sizeof(struct mt_mtc_columns);
    w->contexts = w->tokens + pieces;
    w->shapes = w->contexts + pieces * CONTEXT_BYTES;
    w->bases = w->shapes + pieces * SHAPE_BYTES;
    w->lanes = w->bases + pieces * BASE_BYTES;
    e->begin = *w;
    e->pieces = e->accesses = 0;
    e->room = pieces;
    return NULL;
}

const char *mt_mtc_device_begin(struct mt_mtc_device_encoder *e, size_t runs)
{
    return device_chunk_begin(e, runs, runs);
}

/* Encodes runs for which there is room. Returns 0, or the reason why they cannot be encoded. */
static const char *device_chunk_add(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs,
                                    size_t count, uint64_t pieces, uint64_t accesses)
{
    struct mt_device_work w = e->at; /* local copy, so that it can stay in registers */
    block_settle(&w);
    const char *why = device_encode(&w, runs, count);
    if (why)
        return why;
    e->at = w;
    e->pieces += pieces;
    e->accesses += accesses;
    return NULL;
}

/* Adds the runs before the first region, all or none. */
static int device_chunk_runs(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                             struct mt_mtc_place *at, const char **why)
{
    size_t n = 1;
    while (n < count && runs[n].count)
        n++;
    uint64_t pieces = n, gathers,
             accesses = device_chunk_accesses(runs, n); /* 0: unknown, and measured below */
    *why = accesses ? NULL : device_chunk_measure(runs, n, &pieces, &gathers, &accesses);
    if (*why || e->pieces + pieces > e->room || e->pieces + pieces > MT_MTC_MAX_RUNS ||
        e->accesses + accesses > MT_MTC_MAX_ACCESSES)
        return 0;
    *why = device_chunk_add(e, runs, n, pieces, accesses);
    at->run += n;
    at->accesses += accesses;
    return 1;
}

/* Returns the number of laps, or of warps that do `laps` of them, that there is room for. */
static uint64_t device_chunk_laps(const struct mt_mtc_device_encoder *e, const struct mt_region *of,
                                  uint64_t laps, uint64_t most)
{
    uint64_t left = MT_MTC_MAX_ACCESSES - e->accesses, each = of->n * (uint64_t)MT_MTC_MAX_LANES;
    if (laps < 1 << 12 && most <= left >> 22) /* no division: at most 2^10 accesses a lap */
        return most;
    left /= each;
    return laps > left ? 0 : most < left / laps ? most : left / laps;
}

/* Adds the regions before the first run, as blocks, as far as they fit. */
static int device_chunk_regions(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs,
                                size_t count, struct mt_mtc_place *at, const char **why)
{
    struct mt_device_work w = e->at;
    uint64_t before = at->accesses;
    size_t units = 0, warps;
    for (; units < count && !runs[units].count;
         units += at->lap ? 0 : warps * mt_region_units(&runs[units])) {
        const uint64_t *word = mt_region_entry_of(&runs[units]);
        const struct mt_region *of = mt_region_of(word);
        uint64_t all = mt_region_laps(of, word), laps = all - at->lap, room = BLOCK_ROOM(of->n);
        unsigned token = 0;
        if (e->pieces + room > e->room || e->nregions == MT_MTC_MAX_REGIONS)
            break;
        warps = device_chunk_laps(e, of, laps, count - units);
        if (!warps || at->lap) {
            laps = device_chunk_laps(e, of, 1, laps);
            warps = 1;
        }
        if (!laps)
            break;
        struct mt_block_region *g = block_region(&w, word, &token);
        if (!g) {
            *why = device_no_memory;
            break;
        }
        if (laps == all)
            warps = block_warps(g, word, count - units, warps);
        struct block_place p;
        block_place(&p, g, word, (uint32_t)warps, at->lap, laps);
        if (!token && block_repeats(e, g, word, warps, laps, &p)) {
            e->pieces += e->repeats == 1;
        } else {
            block_put(&w, word, (uint32_t)warps, laps, token, g, &p);
            e->pieces += room;
        }
        uint64_t accesses = warps * laps * of->n * MT_MTC_MAX_LANES;
        e->accesses += accesses;
        at->accesses += accesses;
        at->lap = at->lap + laps < all ? at->lap + laps : 0;
        if (at->lap)
            break;
    }
    e->at = w;
    at->run += units;
    return at->accesses != before;
}

int mt_mtc_device_add(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                      struct mt_mtc_place *at, const char **why)
{
    int any = 0, some = 1;
    *why = NULL;
    while (some && !*why && at->run < count) {
        const struct mt_access_run *r = &runs[at->run];
        some = (r->count ? device_chunk_runs : device_chunk_regions)(e, r, count - at->run, at, why);
        any |= some;
    }
    return any;
}

/* Moves the column from `from` to `end` down to `to`. Returns its bytes. */
static uint32_t device_chunk_close(unsigned char **to, const unsigned char *from, const unsigned char *end)
{
    size_t bytes = (size_t)(end - from);
    memmove(*to, from, bytes);
    *to += bytes;
    return (uint32_t)bytes;
}

size_t mt_mtc_device_end(struct mt_mtc_device_encoder *e, uint64_t *accesses, const void **payload)
{
    struct mt_device_work *w = &e->at;
    const struct mt_device_work *at = &e->begin;
    block_settle(w);
    struct mt_mtc_columns columns = {.runs = (uint32_t)(w->tokens - at->tokens)};
    unsigned char *to = w->tokens;
    columns.contexts = device_chunk_close(&to, at->contexts, w->contexts);
    columns.shapes = device_chunk_close(&to, at->shapes, w->shapes);
    columns.bases = device_chunk_close(&to, at->bases, w->bases);
    columns.lanes = device_chunk_close(&to, at->lanes, w->lanes);
    memcpy(e->out, &columns, sizeof columns);
    *payload = e->out;
    *accesses = e->accesses;
    return (size_t)(to - e->out);
}

size_t mt_mtc_encode_device(struct mt_mtc_device_encoder *e, const struct mt_access_run *runs, size_t count,
                            uint64_t *accesses, const void **payload, const char **why)
{
    uint64_t pieces, gathers;
    *why = device_chunk_measure(runs, count, &pieces, &gathers, accesses);
    if (!*why && (count > MT_MTC_MAX_RUNS || pieces > MT_MTC_MAX_RUNS || *accesses > MT_MTC_MAX_ACCESSES))
        *why = "too many runs or accesses for one chunk";
    if (!*why)
        *why = device_chunk_begin(e, pieces, gathers);
    if (!*why)
        *why = device_chunk_add(e, runs, count, pieces, *accesses);
    if (*why)
        return 0;
    return mt_mtc_device_end(e, accesses, payload);
}
