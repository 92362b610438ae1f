/* See hazard_cta.h. */
#include "hazard_cta.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

enum { LANES = MT_HAZARD_LANES, WORD = 4 };

static const struct mt_hazard_cell untouched = {.store.thread = MT_HAZARD_NOBODY,
                                                .atomic.thread = MT_HAZARD_NOBODY};

void mt_hazard_cta_reset(struct mt_hazard_cta *c)
{
    mt_hazard_order_reset(&c->order);
    c->run = 0;
    c->nwords = 0;
    c->nbytes = 0;
}

void mt_hazard_cta_free(struct mt_hazard_cta *c)
{
    mt_hazard_order_free(&c->order);
    free(c->words);
    free(c->bytes);
    free(c);
}

size_t mt_hazard_cta_bytes(const struct mt_hazard_cta *c)
{
    return sizeof *c + c->order.bytes + (c->words_room + c->bytes_room) * sizeof *c->words;
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
           !mt_hazard_is_before(a->group, w->thread, w->time);
}

/* Of the loads' lanes those of other threads that nothing orders before this access. */
static uint32_t cell_unordered(const struct mt_hazard_read *r, const struct mt_hazard_access *a)
{
    uint32_t left = 0;
    for (uint32_t m = r->warp == a->warp ? r->lanes & ~(1u << a->lane) : r->lanes; m; m &= m - 1)
        if (!mt_hazard_is_before(a->group, r->warp * LANES + (uint32_t)__builtin_ctz(m), r->time))
            left |= m & -m;
    return left;
}

static int cell_load(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                     uint64_t address)
{
    struct mt_hazard_read now = {a->group->time, a->site, 1u << a->lane, a->warp}, *last = &x->read[0];
    int rc = 0;
    if (cell_races(c, &x->store, a))
        rc = cell_tell(a, MT_HAZARD_RAW, x->store.thread, x->store.site, MT_STORE, address);
    else if (cell_races(c, &x->atomic, a))
        rc = cell_tell(a, MT_HAZARD_RAW, x->atomic.thread, x->atomic.site, MT_ATOMIC, address);
    if (last->lanes && last->warp == now.warp && last->time == now.time) {
        now.lanes |= last->lanes;
    } else if (last->lanes && cell_unordered(last, a)) {
        struct mt_hazard_read before = x->read[1];
        x->read[1] = *last;
        if (before.lanes && before.warp == now.warp && before.time == now.time)
            now.lanes |= before.lanes;
    }
    *last = now;
    return rc;
}

/* A write after loads. */
static int cell_after(const struct mt_hazard_read *r, const struct mt_hazard_access *a, uint64_t address)
{
    uint32_t lanes = cell_unordered(r, a);
    if (!lanes)
        return 0;
    int rc = cell_tell(a, MT_HAZARD_WAR, r->warp * LANES + (uint32_t)__builtin_ctz(lanes), r->site, MT_LOAD,
                       address);
    return rc ? rc : 1;
}

static int cell_write(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address)
{
    struct mt_hazard_write now = {a->group->time, a->site, c->run, (uint16_t)(a->warp * LANES + a->lane)};
    int rc = 0, plain = a->type == MT_STORE;
    if (cell_races(c, &x->store, a))
        rc = cell_tell(a, MT_HAZARD_WAW, x->store.thread, x->store.site, MT_STORE, address);
    else if (plain && cell_races(c, &x->atomic, a))
        rc = cell_tell(a, MT_HAZARD_WAW, x->atomic.thread, x->atomic.site, MT_ATOMIC, address);
    for (int i = 0; !rc && i < 2; i++)
        rc = cell_after(&x->read[i], a, address);
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
