/* Warp collectives. A collective completes when every lane of its mask that has not exited has arrived at the
 * same operation with the same mask; the last one to arrive computes the results of all. activemask has no
 * mask: a lane parks until no lane of its warp can run. Then all lanes parked at the same call site are
 * answered. */
#include <stdio.h>
#include <string.h>
#include "check.h"
#include "matrix.h"
#include "scheduler.h"
#include "warps.h"
#include "memtrace/hash.h"

enum op { OP_SYNC, OP_SHFL, OP_VOTE, OP_MATCH_ANY, OP_MATCH_ALL, OP_REDUX, OP_MATRIX };
#define KEY(op, mode) ((uint32_t)(op) << 8 | (mode))

static inline struct mt_fiber *lane_fiber(struct mt_cta *cta, uint32_t warp, uint32_t lane)
{
    return &cta->fiber[warp * MT_WARP + lane];
}

/* Makes lanes ready, in lane order, after all that can run. So the warps of a CTA come to each collective
 * about alike, as on a GPU: a warp that went on alone would overwrite shared memory that others are still to
 * read, in programs that have no barrier there. */
static void make_ready(struct mt_cta *cta, uint32_t warp, uint32_t lanes)
{
    cta->warp[warp].blocked &= ~lanes;
    cta->nready += (uint32_t)__builtin_popcount(lanes);
    for (uint32_t m = lanes; m; m &= m - 1)
        mt_queue_append(&cta->ready, lane_fiber(cta, warp, (uint32_t)__builtin_ctz(m)));
}

/* ---- which lanes are in step: warps.c puts accesses together
 * ---------------------------------------------------------------------------------------------------- */

/* The lanes of which more is to come before all meet, for an entry of warps.h. */
static uint64_t warp_coming(const struct mt_cta *cta, uint32_t warp)
{
    const struct mt_warp *w = &cta->warp[warp];
    uint32_t lanes = w->lanes & ~w->exited & ~w->settled;
    return lanes | (cta->polls ? MT_ENTRY_POLLS : 0);
}

/* These lanes have met and go on together, one after the other. cut: whatever the code, what was before comes
 * before what is later. */
static void warp_met(struct mt_cta *cta, uint32_t warp, uint32_t lanes, int cut)
{
    const struct mt_warp *w = &cta->warp[warp];
    uint32_t alive = w->lanes & ~w->exited, bit = 1u << warp, was = cta->uneven;
    if (lanes == alive && (cut || !(cta->stays_uneven & bit))) {
        cta->uneven &= ~bit;
        cta->stays_uneven &= ~bit;
        alive = 0;
    } else {
        cta->uneven |= bit;
    }
    /* Of another CTA of the cluster the entries ended when this one's began. */
    if ((cut || was != cta->uneven) && cta == mt_cta_current())
        mt_worker_lanes(cta->worker, (alive ? warp_coming(cta, warp) : 0) | (cut ? MT_ENTRY_CUT : 0), warp);
}

void mt_warp_gives_way(struct mt_cta *cta)
{
    uint32_t even = ~cta->uneven & (uint32_t)((1ull << cta->nwarps) - 1);
    if (MT_UNLIKELY(!cta->polls)) { /* what others do from here on may be what it waits for */
        cta->polls = 1;
        if (cta->uneven)
            mt_worker_lanes(cta->worker, 0, MT_ENTRY_ALL);
        mt_warp_say_uneven(cta, 1);
    }
    for (; even; even &= even - 1) { /* any thread may be the next one */
        uint32_t i = (uint32_t)__builtin_ctz(even);
        uint64_t coming = warp_coming(cta, i);
        if (!(uint32_t)coming)
            continue;
        cta->uneven |= 1u << i;
        mt_worker_lanes(cta->worker, coming, i);
    }
}

void mt_warp_settles(struct mt_cta *cta, const struct mt_fiber *f)
{
    cta->warp[f->warp].settled |= 1u << f->lane;
    if (cta->polls && cta->uneven >> f->warp & 1)
        mt_worker_lanes(cta->worker, warp_coming(cta, f->warp), f->warp);
}

void mt_warp_wake(struct mt_cta *cta, struct mt_queue *waiters, int all)
{
    uint32_t lanes[MT_WARPS_MAX] = {0};
    for (struct mt_fiber *f = waiters->head; f; f = f->next)
        lanes[f->warp] |= 1u << f->lane;
    waiters->head = waiters->tail = NULL;
    for (uint32_t i = 0; i < cta->nwarps; i++)
        if (lanes[i]) {
            if (all && cta == mt_cta_current())
                mt_worker_lanes(cta->worker, 0, i);
            make_ready(cta, i, lanes[i]);
            cta->warp[i].settled &= ~lanes[i];
            warp_met(cta, i, lanes[i], 1);
        }
}

void mt_warp_say_uneven(struct mt_cta *cta, int on)
{
    for (uint32_t m = cta->uneven; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        mt_worker_lanes(cta->worker, on ? warp_coming(cta, i) : 0, i);
    }
}

/* A lane that has exited is not at what the others come to together later, but may have been at what some of
 * them are still to come to. */
static void warp_left(struct mt_cta *cta, const struct mt_fiber *f)
{
    const struct mt_warp *w = &cta->warp[f->warp];
    uint32_t alive = w->lanes & ~w->exited, bit = 1u << f->warp;
    if (cta->uneven & bit || mt_worker_recorded(cta->worker, f->warp * MT_WARP + f->lane))
        cta->stays_uneven |= bit;
    if (cta->uneven & bit)
        mt_worker_lanes(cta->worker, warp_coming(cta, f->warp), f->warp);
    if (!alive)
        cta->uneven &= ~bit;
}

/* ---- what CUDA leaves undefined
 * ---------------------------------------------------------------------------------------------------- */

/* The lane gets a value all the same, on a GPU perhaps another one. All are counted,
 * the first one is reported. */
__attribute__((noinline)) static void warp_undefined(struct mt_cta *cta, uint32_t warp, uint32_t lane,
                                                     const char *what, const void *site)
{
    static _Atomic int said;
    atomic_fetch_add_explicit(&cta->run->undefined, 1, memory_order_relaxed);
    mt_check_tell(cta, warp * MT_WARP + lane, MT_FINDING_OF_MASK, site, "lane %u %s", lane, what);
    if (mt_check_all)
        return;
    if (!atomic_exchange(&said, 1))
        fprintf(stderr,
                "memtrace: kernel %s: lane %u of warp %u of CTA (%u,%u,%u) %s: CUDA leaves the result "
                "undefined, and a GPU may give another (said once; `undefined` in the companion counts)\n",
                (const char *)cta->run->launch->kernel->pretty, lane, warp, cta->ctaid[0], cta->ctaid[1],
                cta->ctaid[2], what);
}

static void warp_absent(struct mt_cta *cta, uint32_t warp, uint32_t lane, uint32_t from, const void *site)
{
    const struct mt_warp *w = &cta->warp[warp];
    char what[96];
    snprintf(what, sizeof what, "shuffles from lane %u, which %s", from,
             !(w->lanes >> from & 1) ? "the CTA does not have"
             : w->exited >> from & 1 ? "has exited"
                                     : "does not take part");
    warp_undefined(cta, warp, lane, what, site);
}

void mt_cpu_warp_undefined(uint32_t warp, uint32_t lanes, const uint32_t *from)
{
    char what[96] = "is not in the mask of its warp function";
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (from)
            snprintf(what, sizeof what, "shuffles from lane %u, which has exited or does not take part",
                     from[lane]);
        warp_undefined(mt_cta_current(), warp, lane, what, __builtin_return_address(0));
    }
}

/* ---- results
 * ---------------------------------------------------------------------------------------------------- */

static uint64_t shfl_lane(struct mt_cta *cta, uint32_t warp, uint32_t i, const struct mt_group *g)
{
    const struct mt_warp *w = &cta->warp[warp];
    uint32_t mode = g->key & 255, lanes = g->arrived;
    uint32_t b = w->a[i] & 31, clamp = w->b[i] & 31, seg = w->b[i] >> 8 & 31;
    int max = (int)((i & seg) | (clamp & ~seg)), min = (int)(i & seg), j, in;
    switch (mode) {
    case MT_SHFL_UP:
        j = (int)i - (int)b;
        in = j >= max;
        break;
    case MT_SHFL_DOWN:
        j = (int)(i + b);
        in = j <= max;
        break;
    case MT_SHFL_BFLY:
        j = (int)(i ^ b);
        in = j <= max;
        break;
    default:
        j = min | (int)(b & ~seg);
        in = j <= max;
    }
    if (in && !(lanes >> j & 1)) {
        warp_absent(cta, warp, i, (uint32_t)j, (const void *)g->site);
        j = (int)i;
    } else if (!in)
        j = (int)i;
    return (uint32_t)w->value[j] | (uint64_t)in << 32;
}

static uint32_t warp_vote(const struct mt_warp *w, uint32_t mode, uint32_t lanes)
{
    uint32_t ballot = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        ballot |= (uint32_t)(w->value[i] != 0) << i;
    }
    switch (mode) {
    case MT_VOTE_ALL:
        return ballot == lanes;
    case MT_VOTE_ANY:
        return ballot != 0;
    case MT_VOTE_UNI:
        return ballot == lanes || ballot == 0;
    default:
        return ballot;
    }
}

static uint32_t warp_redux(const struct mt_warp *w, uint32_t op, uint32_t lanes)
{
    uint32_t acc = (uint32_t)w->value[__builtin_ctz(lanes)];
    for (uint32_t m = lanes & (lanes - 1); m; m &= m - 1) {
        uint32_t v = (uint32_t)w->value[__builtin_ctz(m)];
        switch (op) {
        case MT_REDUX_ADD:
            acc += v;
            break;
        case MT_REDUX_UMIN:
            acc = v < acc ? v : acc;
            break;
        case MT_REDUX_UMAX:
            acc = v > acc ? v : acc;
            break;
        case MT_REDUX_MIN:
            acc = (int32_t)v < (int32_t)acc ? v : acc;
            break;
        case MT_REDUX_MAX:
            acc = (int32_t)v > (int32_t)acc ? v : acc;
            break;
        case MT_REDUX_AND:
            acc &= v;
            break;
        case MT_REDUX_OR:
            acc |= v;
            break;
        default:
            acc ^= v;
        }
    }
    return acc;
}

static uint32_t warp_match(const struct mt_warp *w, uint64_t value, uint32_t lanes)
{
    uint32_t same = 0;
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        same |= (uint32_t)(w->value[i] == value) << i;
    }
    return same;
}

__attribute__((noinline)) static void warp_matrix(const struct mt_warp *w, uint32_t lanes)
{
    struct mt_matrix_call *call[MT_WARP] = {NULL};
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        call[i] = (struct mt_matrix_call *)(uintptr_t)w->value[i];
    }
    mt_matrix_meet(call);
}

static void warp_compute(struct mt_cta *cta, uint32_t warp, const struct mt_group *g)
{
    const struct mt_warp *w = &cta->warp[warp];
    uint32_t op = g->key >> 8, mode = g->key & 255, lanes = g->arrived;
    uint64_t all = 0;
    switch (op) {
    case OP_SYNC:
        return;
    case OP_MATRIX:
        warp_matrix(w, lanes);
        return;
    case OP_VOTE:
        all = warp_vote(w, mode, lanes);
        break;
    case OP_REDUX:
        all = warp_redux(w, mode, lanes);
        break;
    case OP_MATCH_ALL:
        all = warp_match(w, w->value[__builtin_ctz(lanes)], lanes) == lanes ? lanes : 0;
        break;
    }
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(m);
        uint64_t r = op == OP_SHFL        ? shfl_lane(cta, warp, i, g)
                     : op == OP_MATCH_ANY ? warp_match(w, w->value[i], lanes)
                                          : all;
        lane_fiber(cta, warp, i)->result = r;
    }
}

/* ---- waiting
 * ---------------------------------------------------------------------------------------------------- */

static void warp_complete(struct mt_cta *cta, uint32_t warp, struct mt_group *g)
{
    struct mt_warp *w = &cta->warp[warp];
    uint32_t lanes = g->arrived;
    warp_compute(cta, warp, g);
    warp_met(cta, warp, lanes, g->apart);
    *g = w->group[--w->ngroups];
    make_ready(cta, warp, lanes);
}

static int is_complete(const struct mt_warp *w, const struct mt_group *g)
{
    return (g->mask & w->lanes & ~w->exited & ~g->arrived) == 0;
}

static inline uint64_t warp_collective(uint32_t key, uint32_t mask, uint64_t value, uint32_t a, uint32_t b,
                                       const void *site)
{
    struct mt_cta *cta = mt_cta_waiting("a warp collective");
    struct mt_fiber *self = cta->current;
    struct mt_warp *w = &cta->warp[self->warp];
    uint32_t bit = 1u << self->lane, i;
    struct mt_group *g;
    if (MT_UNLIKELY(!(mask & bit)))
        warp_undefined(cta, self->warp, self->lane, "is not in the mask of its warp function", site);
    mask |= bit;
    w->value[self->lane] = value;
    w->a[self->lane] = a;
    w->b[self->lane] = b;
    for (i = 0; i < w->ngroups; i++)
        if (w->group[i].key == key && w->group[i].mask == mask)
            break;
    g = &w->group[i];
    if (i == w->ngroups) {
        w->ngroups++;
        g->key = key;
        g->mask = mask;
        g->arrived = 0;
        g->site = (uintptr_t)site;
        g->apart = 0;
    }
    g->arrived |= bit;
    g->apart |= g->site != (uintptr_t)site;
    if (is_complete(w, g)) {
        if (g->arrived == bit) { /* alone: no need to wait */
            warp_compute(cta, self->warp, g);
            *g = w->group[--w->ngroups];
            return self->result;
        }
        warp_complete(cta, self->warp, g);
    } else {
        w->blocked |= bit;
        if (MT_UNLIKELY(w->parked != 0))
            mt_warp_parked_check(cta, w, self->warp);
    }
    return mt_cta_block(cta, self);
}

void mt_cpu_syncwarp(uint32_t mask)
{
    warp_collective(KEY(OP_SYNC, 0), mask, 0, 0, 0, __builtin_return_address(0));
}

uint64_t mt_cpu_shfl(uint32_t mask, uint32_t value, uint32_t lane, uint32_t c, uint32_t mode)
{
    return warp_collective(KEY(OP_SHFL, mode), mask, value, lane, c, __builtin_return_address(0));
}

uint32_t mt_cpu_vote(uint32_t mask, uint32_t pred, uint32_t mode)
{
    return (uint32_t)warp_collective(KEY(OP_VOTE, mode), mask, pred, 0, 0, __builtin_return_address(0));
}

uint32_t mt_cpu_match_any(uint32_t mask, uint64_t value)
{
    return (uint32_t)warp_collective(KEY(OP_MATCH_ANY, 0), mask, value, 0, 0, __builtin_return_address(0));
}

uint32_t mt_cpu_match_all(uint32_t mask, uint64_t value)
{
    return (uint32_t)warp_collective(KEY(OP_MATCH_ALL, 0), mask, value, 0, 0, __builtin_return_address(0));
}

uint32_t mt_cpu_redux(uint32_t mask, uint32_t value, uint32_t op)
{
    return (uint32_t)warp_collective(KEY(OP_REDUX, op), mask, value, 0, 0, __builtin_return_address(0));
}

void mt_cpu_matrix(const struct mt_matrix_op *op, void *p, uint64_t stride, const uint64_t *in, uint64_t *out)
{
    struct mt_matrix_call call = {op, p, stride, in, out};
    warp_collective(KEY(OP_MATRIX, 0), UINT32_MAX, (uint64_t)(uintptr_t)&call, 0, 0,
                    __builtin_return_address(0));
    __asm__ volatile("" : : "r"(&call) : "memory"); /* others read it: it must outlive the wait */
}

/* ---- parked lanes
 * ----------------------------------------------------------------------------------------------- */

static int release_warp(struct mt_cta *cta, struct mt_warp *w, uint32_t warp)
{
    uint32_t parked = w->parked;
    for (uint32_t left = parked; left;) {
        uint64_t site = w->site[__builtin_ctz(left)];
        uint32_t same = 0;
        for (uint32_t m = left; m; m &= m - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(m);
            same |= (uint32_t)(w->site[i] == site) << i;
        }
        for (uint32_t m = same; m; m &= m - 1)
            lane_fiber(cta, warp, (uint32_t)__builtin_ctz(m))->result = same;
        left &= ~same;
    }
    cta->stays_uneven |=
        1u << warp; /* they are at one place of the code, maybe in different rounds of a loop */
    warp_met(cta, warp, parked, 0);
    w->parked &= ~parked;
    cta->parked -= (uint32_t)__builtin_popcount(parked);
    make_ready(cta, warp, parked);
    return __builtin_popcount(parked);
}

void mt_warp_parked_check(struct mt_cta *cta, struct mt_warp *w, uint32_t index)
{
    if (w->parked && (w->blocked | w->exited) == w->lanes)
        release_warp(cta, w, index);
}

int mt_warp_release_parked(struct mt_cta *cta)
{
    int made = 0;
    for (uint32_t i = 0; cta->parked && i < cta->nwarps; i++)
        if (cta->warp[i].parked)
            made += release_warp(cta, &cta->warp[i], i);
    return made;
}

/* Where a call comes from: the return address and, if frame pointers are kept, those of all callers.
 * Functions that are not inlined (-O0) are called from several places, which must not be taken for one.
 * `frame` is the caller's. */
static uint64_t call_site(const struct mt_cta *cta, const void *address, void **frame)
{
    uint64_t site = (uint64_t)(uintptr_t)address;
    if (!(cta->run->launch->kernel->flags & MT_KERNEL_FRAMES))
        return site;
    char *low = __builtin_frame_address(0), *top = (char *)cta->current->stack;
    while ((char *)frame > low && (char *)frame < top) {
        site = mt_hash_number(site) + (uint64_t)(uintptr_t)frame[1];
        low = (char *)frame;
        frame = *frame;
    }
    return site;
}

static uint32_t park_at(struct mt_cta *cta, uint64_t site)
{
    struct mt_fiber *self = cta->current;
    struct mt_warp *w = &cta->warp[self->warp];
    uint32_t bit = 1u << self->lane;
    w->site[self->lane] = site;
    w->parked |= bit;
    w->blocked |= bit;
    cta->parked++;
    mt_warp_parked_check(cta, w, self->warp);
    return (uint32_t)mt_cta_block(cta, self);
}

__attribute__((noinline)) uint32_t mt_cpu_activemask(void)
{
    struct mt_cta *cta = mt_cta_waiting("activemask");
    void **caller = *(void ***)__builtin_frame_address(0);
    return park_at(cta, call_site(cta, __builtin_return_address(0), caller));
}

/* ---- exits and deadlocks
 * ---------------------------------------------------------------------------------------- */

void mt_warp_exited(struct mt_cta *cta, struct mt_fiber *f)
{
    struct mt_warp *w = &cta->warp[f->warp];
    w->exited |= 1u << f->lane;
    warp_left(cta, f);
    for (uint32_t i = 0; i < w->ngroups;) {
        if (is_complete(w, &w->group[i]))
            warp_complete(cta, f->warp, &w->group[i]);
        else
            i++;
    }
    if (MT_UNLIKELY(w->parked != 0))
        mt_warp_parked_check(cta, w, f->warp);
}

static void warp_never(const struct mt_cta *cta, uint32_t warp, const struct mt_group *g)
{
    const struct mt_warp *w = &cta->warp[warp];
    mt_check_tell(cta, warp * MT_WARP + (uint32_t)__builtin_ctz(g->arrived), MT_FINDING_OF_MASK,
                  (const void *)g->site,
                  "lanes 0x%08x wait at a warp function with mask 0x%08x, and lanes 0x%08x of it never come",
                  g->arrived, g->mask, g->mask & w->lanes & ~w->exited & ~g->arrived);
}

int mt_warp_force_collective(struct mt_cta *cta)
{
    for (uint32_t i = 0; i < cta->nwarps; i++) {
        struct mt_warp *w = &cta->warp[i];
        if (!w->ngroups)
            continue;
        int made = 0;
        warp_never(cta, i, &w->group[0]);
        if (!mt_check_all && !atomic_exchange(&cta->run->warned, 1)) {
            const struct mt_group *g = &w->group[0];
            fprintf(stderr,
                    "memtrace: kernel %s: a warp collective never completes: mask 0x%08x, but only lanes "
                    "0x%08x of "
                    "warp %u of CTA (%u,%u,%u) arrive; going on with these (said once per launch)\n",
                    (const char *)cta->run->launch->kernel->pretty, g->mask, g->arrived, i, cta->ctaid[0],
                    cta->ctaid[1], cta->ctaid[2]);
        }
        while (w->ngroups) {
            made += __builtin_popcount(w->group[0].arrived);
            warp_complete(cta, i, &w->group[0]);
        }
        return made;
    }
    return 0;
}
