/* Repeating runs: what is common to all of them is done once. */
#include <string.h>
#include "device_halves.h"

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

MT_WIDE size_t mt_device_laps(struct mt_device_work *w, struct mt_table_slot *s, uint32_t c,
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

/* Adds the lap of a new warp to the columns and tables. */
static inline void device_laps_add(struct mt_device_work *w, const struct lap *l,
                                   const struct mt_access_run *r, uint32_t beside)
{
    struct mt_mtc_device_encoder *e = w->e;
    uint32_t c = e->ncontexts++;
    struct mt_visit *v = e->visits + e->nvisits;
    unsigned char *tokens = w->tokens;
    *w->contexts++ = (unsigned char)beside;
    e->contexts[c - 1].successor = c;
    e->contexts[c] = (struct mt_context){.cta = r->cta,
                                         .warp = r->warp,
                                         .smid = r->smid,
                                         .successor = MT_NONE,
                                         .slot = l->number[l->n - 1],
                                         .address = r[l->n - 1].base};
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
        uint64_t cta = r->cta - r[-1].cta;
        uint32_t warp = r->warp - r[-1].warp;
        if (r[-1].warp == MT_RUN_NO_WARP ||
            (cta ? cta != UINT64_C(1) << 32 || r->warp || !(r->cta >> 32) : warp != 1))
            break;
        mt_half_run odd = {0}, rest = {0};
        const mt_half_run of[2] = {{0, 0, 0, cta}, {(uint64_t)warp << 32}};
        for (uint32_t i = 0; i < l->n; i++, now += 2, was += 2) {
            odd |= (now[0] - was[0]) ^ (by[i] | of[0]);
            rest |= (now[1] - was[1]) ^ of[1];
        }
        if (!mt_half_is_zero(odd | (rest & mt_half_real)))
            break;
        device_laps_add(w, l, r, cta != 0);
    }
    return warps;
}

MT_WIDE size_t mt_device_warps(struct mt_device_work *w, uint32_t n, uint32_t c,
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
