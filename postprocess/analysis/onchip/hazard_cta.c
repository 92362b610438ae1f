/* See hazard_cta.h. */
#include "hazard_cta.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, WORD = 4, NUMBERED = 16 };

static const struct mt_hazard_cell untouched = {.store.thread = MT_HAZARD_NOBODY,
                                                .atomic.thread = MT_HAZARD_NOBODY};

void mt_hazard_cta_reset(struct mt_hazard_cta *c)
{
    memset(c->clock, 0, sizeof c->clock);
    memset(c->barrier, 0, sizeof c->barrier);
    memset(c->at, -1, sizeof c->at);
    memset(c->lanes, 0, sizeof c->lanes);
    for (uint32_t w = 0; w < MT_HAZARD_WARPS; w++)
        c->clock[w][w] = 1;
    c->run = 0;
    c->nwords = 0;
    c->nbytes = 0;
}

void mt_hazard_cta_free(struct mt_hazard_cta *c)
{
    free(c->words);
    free(c->bytes);
    free(c);
}

size_t mt_hazard_cta_bytes(const struct mt_hazard_cta *c)
{
    return sizeof *c + (c->words_room + c->bytes_room) * sizeof *c->words;
}

/* ---- order ---- */

static void cta_join(uint32_t *into, const uint32_t *from)
{
    for (uint32_t i = 0; i < MT_HAZARD_WARPS; i++)
        into[i] = from[i] > into[i] ? from[i] : into[i];
}

static void cta_pass(struct mt_hazard_cta *c, uint32_t warp, const struct mt_hazard_barrier *b)
{
    cta_join(c->clock[warp], b->clock);
    c->clock[warp][warp]++;
    c->at[warp] = -1;
    c->lanes[warp] = 0;
}

void mt_hazard_go_on(struct mt_hazard_cta *c, uint32_t warp, uint32_t lanes)
{
    int place = c->at[warp];
    if (place < 0 || !(c->lanes[warp] & lanes))
        return;
    struct mt_hazard_barrier *b = &c->barrier[place];
    if (place >=
        NUMBERED) { /* arrivals and waits are apart: others may have come to wait for what is yet to come */
        b->waiting &= ~(1u << warp);
        cta_pass(c, warp, b);
        return;
    }
    for (uint32_t m = b->waiting; m; m &= m - 1)
        cta_pass(c, (uint32_t)__builtin_ctz(m), b);
    memset(b, 0, sizeof *b);
}

static uint32_t barrier_place(uint64_t number)
{
    return number < 16 ? (uint32_t)number : number == MT_BARRIER_CLUSTER ? 16 : 17;
}

void mt_hazard_sync(struct mt_hazard_cta *c, uint32_t warp, uint32_t lanes, uint32_t kind, uint64_t number)
{
    uint32_t place = barrier_place(number);
    if (place < NUMBERED || c->at[warp] != (int)place || kind != MT_SYNC_BARRIER) /* else it asks again */
        mt_hazard_go_on(c, warp, lanes);
    if (kind == MT_SYNC_WARP) {
        c->clock[warp][warp]++;
        return;
    }
    cta_join(c->barrier[place].clock, c->clock[warp]);
    if (kind == MT_SYNC_ARRIVE) {
        c->clock[warp][warp]++;
        return;
    }
    c->barrier[place].waiting |= 1u << warp;
    c->at[warp] = (int8_t)place; /* lanes at two of them at a time: the later one counts for all */
    c->lanes[warp] |= lanes;
}

/* Is what a warp did at that time ordered before what this one does now? */
static int is_before(const struct mt_hazard_cta *c, uint32_t other, uint32_t clock, uint32_t warp)
{
    return other == warp ? clock < c->clock[warp][warp] : clock <= c->clock[warp][other];
}

/* ---- cells ---- */

static int cell_tell(const struct mt_hazard_access *a, enum mt_hazard_kind kind, uint32_t thread,
                     uint32_t site, uint32_t type, uint64_t address)
{
    struct mt_hazard x = {.site = {site, a->site},
                          .type = {type, a->type},
                          .kind = (uint8_t)kind,
                          .within = thread / LANES == a->warp,
                          .thread = {thread, a->warp * LANES + a->lane},
                          .address = address};
    return a->found(a->arg, &x);
}

/* Another thread's write in another instruction, that nothing orders before this access. */
static int cell_races(const struct mt_hazard_cta *c, const struct mt_hazard_write *w,
                      const struct mt_hazard_access *a)
{
    return w->thread != MT_HAZARD_NOBODY && w->thread != a->warp * LANES + a->lane && w->run != c->run &&
           !is_before(c, w->thread / LANES, w->clock, a->warp);
}

static int cell_load(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                     uint64_t address)
{
    struct mt_hazard_read now = {c->clock[a->warp][a->warp], a->site, 1u << a->lane, a->warp};
    int rc = 0;
    if (cell_races(c, &x->store, a))
        rc = cell_tell(a, MT_HAZARD_RAW, x->store.thread, x->store.site, MT_STORE, address);
    else if (cell_races(c, &x->atomic, a))
        rc = cell_tell(a, MT_HAZARD_RAW, x->atomic.thread, x->atomic.site, MT_ATOMIC, address);
    for (int i = 0; i < 2; i++)
        if (x->read[i].lanes && x->read[i].warp == now.warp && x->read[i].clock == now.clock)
            now.lanes |= x->read[i].lanes;
    if (x->read[0].lanes && x->read[0].warp != now.warp)
        x->read[1] = x->read[0];
    x->read[0] = now;
    return rc;
}

/* A write after the loads of a warp. */
static int cell_after(const struct mt_hazard_cta *c, const struct mt_hazard_read *r,
                      const struct mt_hazard_access *a, uint64_t address)
{
    uint32_t lanes = r->warp == a->warp ? r->lanes & ~(1u << a->lane) : r->lanes;
    if (!lanes || is_before(c, r->warp, r->clock, a->warp))
        return 0;
    int rc = cell_tell(a, MT_HAZARD_WAR, r->warp * LANES + (uint32_t)__builtin_ctz(lanes), r->site, MT_LOAD,
                       address);
    return rc ? rc : 1;
}

static int cell_write(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address)
{
    struct mt_hazard_write now = {c->clock[a->warp][a->warp], a->site, c->run,
                                  (uint16_t)(a->warp * LANES + a->lane)};
    int rc = 0, plain = a->type == MT_STORE;
    if (cell_races(c, &x->store, a))
        rc = cell_tell(a, MT_HAZARD_WAW, x->store.thread, x->store.site, MT_STORE, address);
    else if (plain && cell_races(c, &x->atomic, a))
        rc = cell_tell(a, MT_HAZARD_WAW, x->atomic.thread, x->atomic.site, MT_ATOMIC, address);
    for (int i = 0; !rc && i < 2; i++)
        rc = cell_after(c, &x->read[i], a, address);
    *(plain ? &x->store : &x->atomic) = now;
    if (plain) {
        x->atomic.thread = MT_HAZARD_NOBODY;
        memset(x->read, 0, sizeof x->read);
    }
    return rc < 0 ? -1 : 0;
}

static int cell_touch(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address)
{
    return a->type == MT_LOAD ? cell_load(c, x, a, address) : cell_write(c, x, a, address);
}

static int cta_reach(struct mt_hazard_cta *c, size_t words)
{
    if (words <= c->nwords)
        return 0;
    if (mt_grow(&c->words, &c->words_room, words, sizeof *c->words) != 0)
        return -1;
    while (c->nwords < words)
        c->words[c->nwords++] = untouched;
    return 0;
}

/* The four cells of a word's bytes; they begin as the word is. NULL: no memory. */
static struct mt_hazard_cell *cta_split(struct mt_hazard_cta *c, struct mt_hazard_cell *word)
{
    size_t at = c->nbytes ? c->nbytes : WORD; /* 0: none */
    if (word->bytes)
        return &c->bytes[word->bytes];
    if (mt_grow(&c->bytes, &c->bytes_room, at + WORD, sizeof *c->bytes) != 0)
        return NULL;
    for (size_t i = 0; i < WORD; i++)
        c->bytes[at + i] = *word;
    c->nbytes = at + WORD;
    word->bytes = (uint32_t)at;
    return &c->bytes[at];
}

int mt_hazard_touch(struct mt_hazard_cta *c, const struct mt_hazard_access *a)
{
    uint64_t at = a->address, end = a->address + a->size;
    int rc = cta_reach(c, (end + WORD - 1) / WORD);
    while (rc == 0 && at < end) {
        struct mt_hazard_cell *word = &c->words[at / WORD], *bytes;
        uint64_t next = at / WORD * WORD + WORD, stop = next < end ? next : end;
        if (at % WORD == 0 && stop == next && !word->bytes) {
            rc = cell_touch(c, word, a, at);
        } else if (!(bytes = cta_split(c, word))) {
            rc = -1;
        } else {
            for (uint64_t i = at; rc == 0 && i < stop; i++)
                rc = cell_touch(c, &bytes[i % WORD], a, i);
        }
        at = stop;
    }
    return rc;
}
