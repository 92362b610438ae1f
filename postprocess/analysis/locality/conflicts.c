/* Conflicts: bytes that two CTAs of one launch access, at least one of them with a plain store. */
#include "conflicts.h"
#include "memtrace/grow.h"
#include "byte_states.h"
#include "analysis/base/cells.h"
#include "analysis/base/order.h"
#include <stdlib.h>
#include <string.h>

struct state {
    struct mt_launch_window_state w;
    struct mt_cells cells; /* state of each byte */
    struct mt_byte_states states;
};

static void conflicts_drop(struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    mt_cells_free(&s->cells);
    mt_byte_states_free(&s->states);
    free(s);
}

static int conflicts_touch(struct state *s, const struct mt_piece *p, uint32_t side, uint64_t cta)
{
    uint32_t from = 0,
             to = 0; /* what the byte before went through: 0 stays 0 for nobody, so it is not known */
    uint64_t address = p->address, bytes = p->bytes;
    while (bytes) {
        uint64_t n;
        uint32_t *c = mt_cells_at(&s->cells, address, bytes, &n);
        if (!c)
            return -1;
        for (uint64_t i = 0; i < n; i++) {
            if (c[i] != from || !to) {
                from = c[i];
                to = mt_byte_states_step(&s->states, from, side, cta);
                if (to == MT_STATE_FAILED)
                    return -1;
            }
            c[i] = to;
        }
        address += n;
        bytes -= n;
    }
    return 0;
}

int mt_conflicts_runs(struct mt_conflicts *x, const struct mt_access_run *runs, size_t n)
{
    struct state *s = (struct state *)x->window.tail;
    const struct mt_run_launch *l = &s->w.launch;
    if (!l->selected)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        uint32_t at = 0;
        struct mt_piece piece;
        if (mt_run_type(r) > MT_ATOMIC)
            continue;
        uint32_t side = mt_site_line(l->sites, r->site) << 2 | mt_run_type(r);
        for (uint32_t k = 0; r->addresses && k < r->count; k++)
            mt_cells_soon(&s->cells, r->addresses[k]);
        while (mt_run_piece(r, &at, &piece))
            if (conflicts_touch(s, &piece, side, mt_cta_order(r->cta)) != 0)
                return -1;
    }
    return 0;
}

/* ---- a launch is whole ---- */

/* Two CTAs, a with side i and b with side j: 1 if there are two different ones. */
static int conflicts_two(const struct mt_byte_side *i, const struct mt_byte_side *j, uint64_t *a, uint64_t *b)
{
    *a = i->cta[0];
    *b = i == j || j->cta[0] == *a ? j->cta[1] : j->cta[0];
    if (*b == *a) {
        *a = i->cta[1];
        *b = j->cta[0];
    }
    return *a != *b;
}

static struct mt_conflict *conflict_of(struct mt_conflicts *x, struct mt_pairmap *pairs,
                                       const struct mt_run_launch *l, uint32_t a, uint32_t b)
{
    uint64_t *i = mt_pairmap_get(pairs, a, b, UINT64_MAX);
    if (!i)
        return NULL;
    if (*i == UINT64_MAX) {
        if (mt_grow(&x->list, &x->room, x->count + 1, sizeof *x->list) != 0)
            return NULL;
        *i = x->count++;
        x->list[*i] = (struct mt_conflict){.superstep = l->superstep,
                                           .seq = l->seq,
                                           .kernel = l->kernel,
                                           .cooperative = l->cooperative,
                                           .side = {a, b},
                                           .address = UINT64_MAX};
    }
    return &x->list[*i];
}

/* The conflicts of `bytes` bytes that are in one state, the first of them at `address`. */
static int conflicts_of(struct mt_conflicts *x, struct mt_pairmap *pairs, const struct state *s,
                        size_t number, uint64_t bytes, uint64_t address)
{
    const struct mt_byte_state *t = &s->states.states[number];
    const struct mt_byte_side *sides = s->states.sides + t->first;
    for (size_t i = 0; i < t->count; i++)
        for (size_t j = i; j < t->count; j++) {
            uint64_t a, b;
            if (mt_side_type(sides[i].side) != MT_STORE && mt_side_type(sides[j].side) != MT_STORE)
                continue;
            if (!conflicts_two(&sides[i], &sides[j], &a, &b))
                continue;
            struct mt_conflict *c = conflict_of(x, pairs, &s->w.launch, sides[i].side, sides[j].side);
            if (!c)
                return -1;
            if (!c->bytes || address < c->address) {
                c->address = address;
                c->cta[0] = mt_cta_of_order(a);
                c->cta[1] = mt_cta_of_order(b);
            }
            c->bytes += bytes;
        }
    return 0;
}

static int close_launch(void *arg, struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    struct mt_pairmap pairs = {0};
    int rc = -1;
    uint64_t *bytes = calloc(s->states.nstates, sizeof *bytes);
    uint64_t *address = calloc(s->states.nstates, sizeof *address);
    if (!bytes || !address)
        goto out;
    mt_cells_sort(&s->cells);
    for (size_t p = 0; p < s->cells.count; p++) {
        const struct mt_cells_page *page = s->cells.pages[p];
        for (size_t i = 0; i < MT_CELLS_PAGE; i++)
            if (bytes[page->cell[i]]++ == 0)
                address[page->cell[i]] = (page->number << MT_CELLS_BITS) + i;
    }
    rc = 0;
    for (size_t i = 1; rc == 0 && i < s->states.nstates; i++)
        if (bytes[i])
            rc = conflicts_of(arg, &pairs, s, i, bytes[i], address[i]);
out:
    free(bytes);
    free(address);
    mt_pairmap_free(&pairs);
    return rc;
}

/* ---- parts ---- */

/* A byte in state `a` that also saw what state `b` of another part says. */
static uint32_t conflicts_joined(struct state *s, uint32_t a, const struct mt_byte_states *other, uint32_t b)
{
    const struct mt_byte_state *t = &other->states[b];
    for (size_t i = 0; i < t->count && a != MT_STATE_FAILED; i++) {
        const struct mt_byte_side *side = &other->sides[t->first + i];
        for (int k = 0; k < 1 + (side->cta[1] != side->cta[0]) && a != MT_STATE_FAILED; k++)
            a = mt_byte_states_step(&s->states, a, side->side, side->cta[k]);
    }
    return a;
}

static int merge_launch(void *x, struct mt_launch_window_state *into, struct mt_launch_window_state *from)
{
    struct state *a = (struct state *)into, *b = (struct state *)from;
    uint32_t was = 0, with = 0, now = 0;
    (void)x;
    for (size_t p = 0; p < b->cells.count; p++) {
        const struct mt_cells_page *page = b->cells.pages[p];
        uint64_t n;
        uint32_t *c = mt_cells_at(&a->cells, page->number << MT_CELLS_BITS, MT_CELLS_PAGE, &n);
        for (size_t i = 0; c && i < MT_CELLS_PAGE; i++) {
            if (!page->cell[i])
                continue;
            if (c[i] != was || page->cell[i] != with) {
                was = c[i];
                with = page->cell[i];
                now = conflicts_joined(a, was, &b->states, with);
                if (now == MT_STATE_FAILED)
                    return -1;
            }
            c[i] = now;
        }
        if (!c)
            return -1;
    }
    return 0;
}

static void pack_state(struct mt_parcel *p, const struct mt_launch_window_state *w)
{
    const struct state *s = (const struct state *)w;
    mt_parcel_u64(p, s->states.nstates);
    for (size_t i = 1; i < s->states.nstates; i++) {
        const struct mt_byte_state *t = &s->states.states[i];
        mt_parcel_u64(p, t->count);
        mt_parcel_bytes(p, s->states.sides + t->first, t->count * sizeof *s->states.sides);
    }
    mt_parcel_cells(p, &s->cells);
}

static void unpack_state(struct mt_unpack *u, struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    size_t n = mt_unpack_count(u, sizeof(uint64_t));
    for (size_t i = 1; i < n && !u->failed; i++) {
        size_t count = mt_unpack_count(u, sizeof *s->states.sides);
        struct mt_byte_side *sides = mt_unpack_array(u, count, sizeof *sides);
        u->failed = u->failed || mt_byte_states_intern(&s->states, sides, count) != i;
        free(sides);
    }
    mt_unpack_cells(u, &s->cells);
}

static struct mt_launch_window_state *conflicts_make(const struct mt_run_launch *launch)
{
    struct mt_launch_window_state *s = mt_launch_window_new(sizeof(struct state), launch);
    if (s && mt_byte_states_init(&((struct state *)s)->states) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static const struct mt_launch_window_ops ops = {merge_launch, close_launch,   conflicts_drop,
                                                pack_state,   conflicts_make, unpack_state};

int mt_conflicts_init(struct mt_conflicts *x, const struct mt_run_options *o)
{
    (void)o;
    memset(x, 0, sizeof *x);
    x->window.ops = &ops;
    return 0;
}

int mt_conflicts_launch(struct mt_conflicts *x, const struct mt_run_launch *launch)
{
    struct mt_launch_window_state *s = conflicts_make(launch);
    return s ? mt_launch_window_next(&x->window, x, s) : -1;
}

int mt_conflicts_merge(struct mt_conflicts *into, struct mt_conflicts *from)
{
    if (from->count) {
        if (mt_grow(&into->list, &into->room, into->count + from->count, sizeof *into->list) != 0)
            return -1;
        memcpy(into->list + into->count, from->list, from->count * sizeof *into->list);
        into->count += from->count;
    }
    return mt_launch_window_merge(&into->window, into, &from->window);
}

int mt_conflicts_finish(struct mt_conflicts *x)
{
    return mt_launch_window_finish(&x->window, x);
}

void mt_conflicts_pack(struct mt_parcel *p, const struct mt_conflicts *x)
{
    mt_parcel_u64(p, x->count);
    mt_parcel_bytes(p, x->list, x->count * sizeof *x->list);
    mt_launch_window_pack(p, &x->window);
}

void mt_conflicts_unpack(struct mt_unpack *u, struct mt_conflicts *x)
{
    size_t n = mt_unpack_count(u, sizeof *x->list);
    x->list = mt_unpack_array(u, n, sizeof *x->list);
    x->count = x->list ? n : 0;
    x->room = x->count;
    for (size_t i = 0; i < x->count; i++)
        x->list[i].kernel = mt_unpack_kernel_of(u, x->list[i].superstep);
    mt_launch_window_unpack(u, &x->window);
}

void mt_conflicts_free(struct mt_conflicts *x)
{
    mt_launch_window_free(&x->window);
    free(x->list);
    memset(x, 0, sizeof *x);
}
