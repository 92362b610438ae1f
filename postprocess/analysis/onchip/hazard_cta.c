/* See hazard_cta.h. */
#include "hazard_cta.h"
#include "memtrace/grow.h"
#include "memtrace/record.h"
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, WORD = 4 };

static const struct mt_hazard_cell untouched = {.writer = MT_HAZARD_NOBODY, .reader = MT_HAZARD_NOBODY};

void mt_hazard_cta_reset(struct mt_hazard_cta *c)
{
    memset(c->clock, 0, sizeof c->clock);
    memset(c->barrier, 0, sizeof c->barrier);
    memset(c->at, -1, sizeof c->at);
    memset(c->lanes, 0, sizeof c->lanes);
    for (uint32_t w = 0; w < MT_HAZARD_WARPS; w++)
        c->clock[w][w] = 1;
    c->generation = 1;
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

void mt_hazard_go_on(struct mt_hazard_cta *c, uint32_t warp, uint32_t lanes)
{
    if (c->at[warp] < 0 || !(c->lanes[warp] & lanes))
        return;
    struct mt_hazard_barrier *b = &c->barrier[c->at[warp]];
    for (uint32_t m = b->waiting; m; m &= m - 1) {
        uint32_t w = (uint32_t)__builtin_ctz(m);
        cta_join(c->clock[w], b->clock);
        c->clock[w][w]++;
        c->at[w] = -1;
        c->lanes[w] = 0;
    }
    memset(b, 0, sizeof *b);
    c->generation++;
}

static uint32_t barrier_place(uint64_t number)
{
    return number < 16 ? (uint32_t)number : number == MT_BARRIER_CLUSTER ? 16 : 17;
}

void mt_hazard_sync(struct mt_hazard_cta *c, uint32_t warp, uint32_t lanes, uint32_t kind, uint64_t number)
{
    uint32_t place = barrier_place(number);
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

/* Is what the thread did at that time ordered before what the warp does now? */
static int is_before(const struct mt_hazard_cta *c, uint32_t thread, uint32_t clock, uint32_t warp)
{
    uint32_t other = thread / LANES;
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

/* Another warp's load since the newest barrier, that is not the last one. */
static int has_other_readers(const struct mt_hazard_cta *c, const struct mt_hazard_cell *x, uint32_t warp)
{
    return x->generation == c->generation && x->readers & ~(1u << warp);
}

static int cell_load(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                     uint64_t address)
{
    uint32_t me = a->warp * LANES + a->lane;
    int rc = 0;
    if (x->writer != MT_HAZARD_NOBODY && x->writer != me && x->write_type == MT_STORE &&
        !is_before(c, x->writer, x->write_clock, a->warp))
        rc = cell_tell(a, MT_HAZARD_RAW, x->writer, x->write_site, x->write_type, address);
    if (x->generation != c->generation)
        x->readers = 0;
    x->generation = c->generation;
    x->readers |= 1u << a->warp;
    x->reader = (uint16_t)me;
    x->read_clock = c->clock[a->warp][a->warp];
    x->read_site = a->site;
    return rc;
}

static int cell_store(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address)
{
    uint32_t me = a->warp * LANES + a->lane;
    int rc = 0, plain = a->type == MT_STORE;
    if (x->writer != MT_HAZARD_NOBODY && x->writer != me && (plain || x->write_type == MT_STORE) &&
        x->write_run != c->run && !is_before(c, x->writer, x->write_clock, a->warp))
        rc = cell_tell(a, MT_HAZARD_WAW, x->writer, x->write_site, x->write_type, address);
    if (!rc && plain && x->reader != MT_HAZARD_NOBODY &&
        ((x->reader != me && !is_before(c, x->reader, x->read_clock, a->warp)) ||
         has_other_readers(c, x, a->warp)))
        rc = cell_tell(a, MT_HAZARD_WAR, x->reader, x->read_site, MT_LOAD, address);
    x->writer = (uint16_t)me;
    x->write_clock = c->clock[a->warp][a->warp];
    x->write_site = a->site;
    x->write_type = (uint8_t)a->type;
    x->write_run = c->run;
    x->reader = MT_HAZARD_NOBODY;
    x->readers = 0;
    return rc;
}

static int cell_touch(struct mt_hazard_cta *c, struct mt_hazard_cell *x, const struct mt_hazard_access *a,
                      uint64_t address)
{
    return a->type == MT_LOAD ? cell_load(c, x, a, address) : cell_store(c, x, a, address);
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
