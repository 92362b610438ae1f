/* Accesses on their way to those who own what they touch. */
#define _GNU_SOURCE
#include "rounds.h"
#include "turns.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static uint64_t unit_turns(unsigned rows, uint32_t block)
{
    return (uint64_t)rows << 32 | (uint64_t)block << 40;
}

/* ---- sending ---- */

/* The actor of this access is new to the launch, as far as this rank knows. 0, or -1. */
static int route_announce(struct mt_rounds *s, uint64_t cta, uint64_t smid)
{
    uint64_t *known = mt_pairmap_get(&s->known, cta, smid, 0);
    if (!known)
        return -1;
    if (*known)
        return 0;
    *known = 1;
    if (mt_grow(&s->mine, &s->mine_room, s->nmine + 1, sizeof *s->mine) != 0)
        return -1;
    s->mine[s->nmine++] = (struct mt_announced){s->launch, cta, smid};
    return 0;
}

/* The receiver knows which launch is under way. */
static inline int route_mark(struct mt_ranks *t, unsigned to)
{
    struct mt_rounds *s = t->rounds;
    const struct mt_raw_record mark = {{MT_UNIT_MARK, s->launch, 0}};
    if (s->marked[to] == s->launch + 1)
        return 0;
    s->marked[to] = s->launch + 1;
    return mt_exchange_add(&t->exchange, to, &mark, sizeof mark);
}

static int route_send_units(struct mt_ranks *t, unsigned to, const struct mt_raw_record *units, size_t n)
{
    return route_mark(t, to) != 0 ? -1 : mt_exchange_add(&t->exchange, to, units, n * sizeof *units);
}

/* To every owner of a part of the access, with its number. */
static int route_send_several(struct mt_ranks *t, struct mt_raw_record r, uint64_t number)
{
    uint64_t region = r.w[1] >> MT_REGION_BITS, n = mt_rec_size(&r);
    uint64_t left = ((r.w[1] & ((1u << MT_REGION_BITS) - 1)) + n - 1) >> MT_REGION_BITS;
    struct mt_raw_record units[2] = {r, {{number, 0, 0}}};
    units[0].w[0] |= MT_UNIT_SEVERAL;
    for (uint64_t i = 0; i <= left; i++) {
        unsigned to = mt_comm_owner((region + i) << MT_REGION_BITS, t->size);
        if (t->rounds->sent[to] == number)
            continue;
        t->rounds->sent[to] = number;
        if (route_send_units(t, to, units, 2) != 0)
            return -1;
    }
    return 0;
}

static int route_crosses(uint64_t address, uint32_t size)
{
    return address >> MT_REGION_BITS != (address + size - 1) >> MT_REGION_BITS;
}

/* The record with this number. */
static int route_send_record(struct mt_ranks *t, const struct mt_raw_record *r, uint64_t number)
{
    return route_crosses(r->w[1], (uint32_t)r->w[0] & MT_RAW_MAX_SIZE)
               ? route_send_several(t, *r, number)
               : route_send_units(t, mt_comm_owner(r->w[1], t->size), r, 1);
}

static struct mt_raw_record route_record_of(const struct mt_access_run *r, uint64_t address)
{
    return (struct mt_raw_record){{(uint64_t)r->smid << 32 | r->meta, address, r->cta}};
}

/* `count` accesses of the run, evenly spaced or at `given` addresses, to one rank. */
static int route_send_run(struct mt_ranks *t, unsigned to, const struct mt_access_run *r, uint64_t base,
                          uint32_t count, const uint64_t *given)
{
    struct mt_raw_record units[2 + (MT_MTC_MAX_LANES + 2) / 3];
    size_t n = given ? count : 0, length = 2 + (n + 2) / 3;
    units[0] = route_record_of(r, base);
    if (count == 1)
        return route_send_units(t, to, units, 1);
    units[0].w[0] |= MT_UNIT_RUN;
    units[length - 1] = (struct mt_raw_record){{0}}; /* no byte is sent that was not written */
    units[1] = (struct mt_raw_record){{(uint64_t)r->stride, count, n}};
    if (given)
        memcpy(&units[2], given, n * sizeof *given);
    return route_send_units(t, to, units, length);
}

/* Accesses [i, end) of a run with given addresses, none of which crosses regions. */
static int route_send_gather(struct mt_ranks *t, const struct mt_access_run *r, uint32_t i, uint32_t end)
{
    unsigned owner[MT_MTC_MAX_LANES];
    uint64_t mine[MT_MTC_MAX_LANES];
    uint32_t left = 0;
    for (uint32_t k = i; k < end; k++) {
        owner[k - i] = mt_comm_owner(r->addresses[k], t->size);
        left |= 1u << (k - i);
    }
    while (left) {
        uint32_t first = (uint32_t)__builtin_ctz(left), n = 0;
        for (uint32_t rest = left; rest; rest &= rest - 1) {
            uint32_t k = (uint32_t)__builtin_ctz(rest);
            if (owner[k] != owner[first])
                continue;
            mine[n++] = r->addresses[i + k];
            left &= ~(1u << k);
        }
        if (route_send_run(t, owner[first], r, mine[0], n, mine) != 0)
            return -1;
    }
    return 0;
}

/* Accesses [i, end) of an evenly spaced run, none of which crosses regions. */
static int route_send_row(struct mt_ranks *t, const struct mt_access_run *r, uint32_t i, uint32_t end)
{
    while (i < end) {
        uint64_t base = r->base + i * (uint64_t)r->stride;
        unsigned owner = mt_comm_owner(base, t->size);
        uint32_t from = i;
        for (i++; i < end && mt_comm_owner(r->base + i * (uint64_t)r->stride, t->size) == owner; i++)
            ;
        if (route_send_run(t, owner, r, base, i - from, NULL) != 0)
            return -1;
    }
    return 0;
}

/* Are all bytes of the run in one region, without a look at each? */
static int route_in_one_region(const struct mt_access_run *r)
{
    uint64_t step = r->stride < 0 ? 0 - (uint64_t)r->stride : (uint64_t)r->stride;
    if (r->addresses || (r->count > 1 && step >= 1u << MT_REGION_BITS))
        return 0;
    uint64_t reach = r->count > 1 ? step * (r->count - 1) : 0;
    if (reach >= 1u << MT_REGION_BITS)
        return 0;
    return !route_crosses(r->stride < 0 ? r->base - reach : r->base,
                          (uint32_t)reach + (r->meta & MT_RAW_MAX_SIZE));
}

/* A run whose first access has this number. */
static int route_run(struct mt_ranks *t, const struct mt_access_run *r, uint64_t number)
{
    if (route_in_one_region(r))
        return route_send_run(t, mt_comm_owner(r->base, t->size), r, r->base, r->count, NULL);
    for (uint32_t i = 0, end; i < r->count; i = end) {
        uint64_t address = r->addresses ? r->addresses[i] : r->base + i * (uint64_t)r->stride;
        end = i + 1;
        if (route_crosses(address, r->meta & MT_RAW_MAX_SIZE)) {
            if (route_send_several(t, route_record_of(r, address), number + i) != 0)
                return -1;
            continue;
        }
        while (end < r->count &&
               !route_crosses(r->addresses ? r->addresses[end] : r->base + end * (uint64_t)r->stride,
                              r->meta & MT_RAW_MAX_SIZE))
            end++;
        if ((r->addresses ? route_send_gather(t, r, i, end) : route_send_row(t, r, i, end)) != 0)
            return -1;
    }
    return 0;
}

/* ---- this rank's part ---- */

/* Rows that take turns, each to its owner; those of one owner take turns there, too. first[]: the first
 * access of each. */
static int route_send_turns(struct mt_ranks *t, const struct mt_turns *rows,
                            const struct mt_raw_record *first)
{
    unsigned left = (1u << rows->period) - 1;
    while (left) {
        struct mt_raw_record units[2 * MT_TURNS_PERIOD];
        unsigned to = mt_comm_owner(first[__builtin_ctz(left)].w[1], t->size), n = 0;
        for (unsigned rest = left; rest; rest &= rest - 1) {
            unsigned i = (unsigned)__builtin_ctz(rest);
            if (mt_comm_owner(first[i].w[1], t->size) != to)
                continue;
            left &= ~(1u << i);
            units[2 * n] = first[i];
            units[2 * n].w[0] |= MT_UNIT_RUN;
            units[2 * n++ + 1] = (struct mt_raw_record){{(uint64_t)rows->stride[i], rows->count, 0}};
        }
        units[1].w[1] |= unit_turns(n, rows->block);
        if (route_send_units(t, to, units, 2 * n) != 0)
            return -1;
    }
    return 0;
}

/* Records, the first of which has the number `number`. 0; 1: there is one that cannot be; -1: no memory. */
static int route_piece(struct mt_ranks *t, const struct mt_raw_record *r, size_t n, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    const struct mt_raw_record *last = NULL;
    struct mt_turns rows;
    for (size_t i = 0, length; i < n; i += length) {
        if ((!last || last->w[2] != r[i].w[2] || (last->w[0] ^ r[i].w[0]) >> 32) &&
            route_announce(s, r[i].w[2], r[i].w[0] >> 32) != 0)
            return -1;
        last = &r[i];
        length = mt_turns_records(&s->turns, &rows, last, n - i, MT_REGION_BITS);
        for (size_t k = i; k < i + (length ? rows.period : 1); k++) {
            uint32_t meta = (uint32_t)r[k].w[0];
            if (meta >= 4u << 28 || !(meta & MT_RAW_MAX_SIZE))
                return 1;
        }
        if ((length ? route_send_turns(t, &rows, last) : route_send_record(t, last, number + i)) != 0)
            return -1;
        length += length == 0;
    }
    return 0;
}

/* The same of records of a raw trace. */
static int route_records(struct mt_ranks *t, const struct mt_span *span, uint64_t from, size_t n,
                         uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    int rc = 0;
    mt_stats_accesses(n);
    for (size_t done = 0, piece; done < n && rc == 0; done += piece) {
        piece = n - done < MT_ROUND_PIECE ? n - done : MT_ROUND_PIECE;
        if (mt_parts_records(&s->parts, span->path, span->offset + (from + done) * MT_RAW_RECORD_SIZE,
                             s->slice, piece) != 0)
            return 1;
        rc = route_piece(t, s->slice, piece, number + done);
    }
    return rc;
}

/* What was held goes, with the rows that are in it. */
static int route_release(struct mt_ranks *t)
{
    struct mt_rounds *s = t->rounds;
    size_t n = s->held;
    s->held = 0;
    return n ? route_piece(t, s->slice, n, s->held_number) : 0;
}

/* A short run, as records: their neighbours may make rows of them, as threads do that load a few elements
 * side by side. */
static int route_hold(struct mt_ranks *t, const struct mt_access_run *r, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    int rc = s->held + MT_ROUND_SHORT > MT_ROUND_PIECE ? route_release(t) : 0;
    s->held_number = s->held ? s->held_number : number;
    for (uint32_t i = 0; i < r->count; i++)
        s->slice[s->held++] = route_record_of(r, r->base + i * (uint64_t)r->stride);
    return rc;
}

/* r[0], which has this number, and those of the next n that go with it; *length: how many. */
static int route_runs(struct mt_ranks *t, const struct mt_access_run *r, size_t n, size_t *length,
                      uint64_t number)
{
    struct mt_turns rows;
    struct mt_raw_record first[MT_TURNS_PERIOD];
    *length = mt_turns_runs(&t->rounds->turns, &rows, r, n, MT_REGION_BITS);
    if (*length == 0) {
        *length = 1;
        if (!r->addresses && r->count <= MT_ROUND_SHORT)
            return route_hold(t, r, number);
        int rc = route_release(t);
        return rc ? rc : route_run(t, r, number);
    }
    if (route_release(t) != 0)
        return -1;
    for (unsigned i = 0; i < rows.period; i++)
        first[i] = route_record_of(&r[i], r[i].base);
    return route_send_turns(t, &rows, first);
}

/* The same of a chunk that has so many accesses. */
static int route_chunk(struct mt_ranks *t, struct mt_device_parts *p, size_t chunk, uint64_t number)
{
    struct mt_rounds *s = t->rounds;
    const struct mt_access_run *runs, *last = NULL;
    struct mt_access_run before;
    uint64_t end = number + mt_device_parts_accesses(p, chunk);
    struct mt_error err;
    size_t n;
    int rc = mt_device_parts_seek(p, chunk, &err);
    mt_stats_accesses(end - number);
    while (rc == 0 && (rc = mt_device_parts_next(p, &runs, &n, &err)) > 0) {
        for (size_t i = 0, length; i < n; i += length) {
            if ((!last || last->cta != runs[i].cta || last->smid != runs[i].smid) &&
                route_announce(s, runs[i].cta, runs[i].smid) != 0)
                return -1;
            last = &runs[i];
            if (route_runs(t, last, n - i, &length, number) != 0)
                return -1;
            for (size_t k = 0; k < length; k++)
                number += last[k].count;
        }
        before = *last; /* the next runs take its place */
        last = &before;
        rc = 0;
    }
    return rc != 0 || number != end ? 1 : route_release(t);
}

/* The part of a span that costs [lo, hi); it costs [pos, *pos'). Moves *pos and s->number on. */
static int route_span(struct mt_ranks *t, const struct mt_span *span, uint64_t *pos, uint64_t lo, uint64_t hi)
{
    struct mt_rounds *s = t->rounds;
    int rc = 0;
    if (!span->chunks) {
        uint64_t from = lo > *pos ? lo - *pos : 0, end = hi > *pos ? hi - *pos : 0;
        end = end < span->count ? end : span->count;
        if (from < end)
            rc = route_records(t, span, from, (size_t)(end - from), s->number + from + 1);
        *pos += span->count;
        s->number += span->count;
        return rc;
    }
    struct mt_device_parts *p = mt_parts_chunks(&s->parts, span->path);
    for (uint64_t i = 0; p && i < span->count && rc == 0; i++) {
        size_t chunk = (size_t)(span->offset + i);
        uint64_t accesses = mt_device_parts_accesses(p, chunk);
        if (*pos >= lo && *pos < hi)
            rc = route_chunk(t, p, chunk, s->number + 1);
        *pos += mt_part_cost(accesses);
        s->number += accesses;
    }
    return p ? rc : 1;
}

int mt_rounds_route(struct mt_ranks *t)
{
    struct mt_rounds *s = t->rounds;
    uint64_t pos = 0, lo = s->cost * t->rank / t->size, hi = s->cost * (t->rank + 1) / t->size;
    int rc = 0;
    s->nmine = 0;
    s->launch = 0;
    s->number = t->comm.records;
    memset(s->marked, 0, t->size * sizeof *s->marked);
    for (size_t i = 0; i < s->nevents && rc == 0; i++) {
        if (s->events[i].kind == MT_ROUND_LAUNCH) {
            s->launch++;
            mt_pairmap_clear(&s->known);
        } else if (s->events[i].kind == MT_ROUND_SPAN) {
            rc = route_span(t, &s->events[i].u.span, &pos, lo, hi);
        }
    }
    return rc;
}
