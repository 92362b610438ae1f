/* One CTA in flight: starts its threads, switches between them, ends them. Threads start in order, each
 * only when no earlier one can run; a thread that ends leaves its stack to the next one. */
#define _GNU_SOURCE
#include "scheduler.h"
#include "check.h"
#include "matrix.h"
#include "memtrace/hash.h"
#include "local.h"
#include "memtrace/record.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

/* Fails the launch: a kernel compiled as a loop cannot wait. */
static _Noreturn void cta_cannot_wait(const char *what)
{
    mt_fault_fail(MT_ERR_LAUNCH, "%s in a kernel that was compiled as one without waits", what);
}

/* Returns the current CTA, for a wait. */
static inline struct mt_cta *cta_waiting(const char *what)
{
    struct mt_cta *cta = mt_cta_current();
    if (MT_UNLIKELY(cta->run->loop != NULL))
        cta_cannot_wait(what);
    return cta;
}

static inline void queue_append(struct mt_queue *q, struct mt_fiber *f)
{
    f->next = NULL;
    if (q->head)
        q->tail->next = f;
    else
        q->head = f;
    q->tail = f;
}

static void warp_parked_check(struct mt_cta *cta, struct mt_warp *w, uint32_t index);
/* Blocks the running fiber `self` (its state and queue are set) and continues in another one. Returns
 * self->result when it resumes. Must be called last, so that the stack of a waiting fiber has only its own
 * frames. */
static uint64_t cta_block(struct mt_cta *cta, struct mt_fiber *self);

/* The switch between device threads: callee-saved registers and the stack pointer, x86-64 System V. The SSE
 * and x87 control words are not saved: builtins that change the rounding mode
 * restore it before they return. */

__asm__(".text\n"
        ".p2align 4\n"
        ".globl mt_fiber_switch\n"
        ".hidden mt_fiber_switch\n"
        ".type mt_fiber_switch,@function\n"
        "mt_fiber_switch:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    .cfi_adjust_cfa_offset 48\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    movq %rdx, %rax\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    .cfi_adjust_cfa_offset -48\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size mt_fiber_switch, .-mt_fiber_switch\n"
        ".p2align 4\n"
        ".globl mt_fiber_call\n"
        ".hidden mt_fiber_call\n"
        ".type mt_fiber_call,@function\n"
        "mt_fiber_call:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    leaq -256(%rdi), %rsp\n"
        "    andq $-64, %rsp\n"
        "    movq %rdx, %rdi\n"
        "    movl %ecx, %eax\n"
        "    movq %rsi, %rdx\n"
        "    movl %eax, %esi\n"
        "    call *%rdx\n"
        "    leave\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size mt_fiber_call, .-mt_fiber_call\n"
        /* First code of a new fiber: a call with a clean frame, which never returns. */
        ".p2align 4\n"
        ".type mt_fiber_boot,@function\n"
        "mt_fiber_boot:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n"
        "    xorl %ebp, %ebp\n"
        "    andq $-16, %rsp\n"
        "    call mt_fiber_main\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size mt_fiber_boot, .-mt_fiber_boot\n");

extern const char mt_fiber_boot[] __attribute__((visibility("hidden")));

void *mt_fiber_prepare(struct mt_stack *stack)
{
    void **sp = (void **)stack;
    *--sp = NULL; /* end of the frame chain for unwinders */
    *--sp = (void *)(uintptr_t)mt_fiber_boot;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}

/* Warp collectives. A collective completes when every lane of its mask that has not exited has arrived at
 * the same operation with the same mask; the last one to arrive computes all results. activemask has no
 * mask: a lane parks until no lane of its warp can run; then all lanes parked at the same call site get
 * their result. */

enum op { OP_SYNC, OP_SHFL, OP_VOTE, OP_MATCH_ANY, OP_MATCH_ALL, OP_REDUX, OP_MATRIX };
#define KEY(op, mode) ((uint32_t)(op) << 8 | (mode))

static inline struct mt_fiber *lane_fiber(struct mt_cta *cta, uint32_t warp, uint32_t lane)
{
    return &cta->fiber[warp * MT_WARP + lane];
}

/* Makes lanes ready in lane order, behind all that can run. The warps of a CTA thus reach each collective
 * at about the same time, as on a GPU: a warp that ran ahead would overwrite shared memory that others are
 * still to read, in programs without a barrier there. */
static void make_ready(struct mt_cta *cta, uint32_t warp, uint32_t lanes)
{
    cta->warp[warp].blocked &= ~lanes;
    cta->nready += (uint32_t)__builtin_popcount(lanes);
    for (uint32_t m = lanes; m; m &= m - 1)
        queue_append(&cta->ready, lane_fiber(cta, warp, (uint32_t)__builtin_ctz(m)));
}

/* Makes all `count` threads of the queue ready, in order. */
static void warp_wake(struct mt_cta *cta, struct mt_queue *waiters, uint32_t count)
{
    int all = count == cta->alive;
    for (uint32_t i = 0; all && i < cta->nwarps; i++)
        cta->warp[i].blocked = 0;
    for (struct mt_fiber *f = cta->nwarps && !all ? waiters->head : NULL; f; f = f->next)
        cta->warp[f->warp].blocked &= ~(1u << f->lane);
    if (waiters->head) {
        if (cta->ready.head)
            cta->ready.tail->next = waiters->head;
        else
            cta->ready.head = waiters->head;
        cta->ready.tail = waiters->tail;
        cta->nready += count;
    }
    waiters->head = waiters->tail = NULL;
}

/* ---- results that CUDA leaves undefined
 * ---------------------------------------------------------------------------- */

/* Counts an undefined result and reports the first one. The lane still gets a value, on a GPU perhaps
 * another one. */
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
    struct mt_cta *cta = cta_waiting("a warp collective");
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
    }
    g->arrived |= bit;
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
            warp_parked_check(cta, w, self->warp);
    }
    return cta_block(cta, self);
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
    __asm__ volatile("" : : "r"(&call) : "memory"); /* read by others: it must outlive the wait */
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
    w->parked &= ~parked;
    cta->parked -= (uint32_t)__builtin_popcount(parked);
    make_ready(cta, warp, parked);
    return __builtin_popcount(parked);
}

static void warp_parked_check(struct mt_cta *cta, struct mt_warp *w, uint32_t index)
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

/* Identifies a call: by the return address and, if frame pointers are kept, those of all callers.
 * Functions that are not inlined (-O0) are called from several places, which must be kept apart. `frame`
 * is the caller's. */
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
    warp_parked_check(cta, w, self->warp);
    return (uint32_t)cta_block(cta, self);
}

__attribute__((noinline)) uint32_t mt_cpu_activemask(void)
{
    struct mt_cta *cta = cta_waiting("activemask");
    void **caller = *(void ***)__builtin_frame_address(0);
    return park_at(cta, call_site(cta, __builtin_return_address(0), caller));
}

/* ---- exits and deadlocks
 * ---------------------------------------------------------------------------------------- */

/* Handles an exit of a thread. */
static void warp_exited(struct mt_cta *cta, struct mt_fiber *f)
{
    struct mt_warp *w = &cta->warp[f->warp];
    w->exited |= 1u << f->lane;
    for (uint32_t i = 0; i < w->ngroups;) {
        if (is_complete(w, &w->group[i]))
            warp_complete(cta, f->warp, &w->group[i]);
        else
            i++;
    }
    if (MT_UNLIKELY(w->parked != 0))
        warp_parked_check(cta, w, f->warp);
}

static void warp_never(const struct mt_cta *cta, uint32_t warp, const struct mt_group *g)
{
    const struct mt_warp *w = &cta->warp[warp];
    mt_check_tell(cta, warp * MT_WARP + (uint32_t)__builtin_ctz(g->arrived), MT_FINDING_OF_MASK,
                  (const void *)g->site,
                  "lanes 0x%08x wait at a warp function with mask 0x%08x, and lanes 0x%08x of it never come",
                  g->arrived, g->mask, g->mask & w->lanes & ~w->exited & ~g->arrived);
}

static int warp_force_collective(struct mt_cta *cta)
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

/* CTA barriers: sixteen per CTA, by thread count, with reductions.
 * A thread that has exited counts as arrived. */

static void barrier_release(struct mt_cta *cta, uint32_t id)
{
    struct mt_barrier *b = &cta->barrier[id];
    struct mt_queue *w = &b->waiters;
    if (cta->run->ordered && !b->expected) /* all CTAs wait like this before they reach a grid barrier */
        mt_worker_hand_on(cta->worker);
    if (b->reduce)
        for (struct mt_fiber *f = w->head; f; f = f->next)
            f->result = b->acc;
    warp_wake(cta, w, b->nwaiters);
    b->nwaiters = b->arrived = b->reduce = 0;
    cta->active_barriers &= ~(1u << id);
}

static int barrier_complete(const struct mt_cta *cta, const struct mt_barrier *b)
{
    return b->arrived >= (b->expected && b->expected < cta->alive ? b->expected : cta->alive);
}

/* Arrives at a barrier. value: number of arrivals with a true value; for kind 2, whether all have one. */
static struct mt_barrier *barrier_arrive(struct mt_cta *cta, uint32_t kind, uint32_t id, uint32_t count,
                                         uint32_t value)
{
    struct mt_barrier *b = &cta->barrier[id];
    if (b->arrived++ == 0) {
        b->acc = kind == 2;
        cta->active_barriers |= 1u << id;
    }
    if (kind) {
        b->reduce = 1;
        b->acc = kind == 1 ? b->acc + value : kind == 2 ? b->acc & value : b->acc | value;
    }
    b->expected = count >= cta->nthreads ? 0 : count;
    return b;
}

static uint32_t barrier_wait(struct mt_cta *cta, uint32_t kind, uint32_t id, uint32_t count, uint32_t value)
{
    struct mt_fiber *self = cta->current;
    struct mt_warp *w = &cta->warp[self->warp];
    struct mt_barrier *b = barrier_arrive(cta, kind, id, count, value);
    w->blocked |= 1u << self->lane;
    queue_append(&b->waiters, self);
    b->nwaiters++;
    if (barrier_complete(cta, b))
        barrier_release(cta, id);
    else if (MT_UNLIKELY(w->parked != 0))
        warp_parked_check(cta, w, self->warp);
    return (uint32_t)cta_block(cta, self);
}

/* Checks that all threads that have not ended reach the same barrier in the code, told apart by `site`. */
__attribute__((noinline)) static void barrier_check_site(const struct mt_cta *cta, uint32_t id,
                                                         const void *site, const void *code)
{
    const struct mt_fiber *self = cta->current;
    struct mt_barrier *b = (struct mt_barrier *)&cta->barrier[id];
    if (!b->arrived)
        b->site = site;
    if (!b->site || b->site == site)
        return;
    b->site = NULL;
    mt_check_tell(cta, self->warp * MT_WARP + self->lane, MT_FINDING_OF_BARRIER, code,
                  "comes to barrier %u at another place of the code than %u other %s of its CTA", id,
                  b->arrived, cta->run->warps ? "warps" : "threads");
}

uint32_t mt_cpu_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t value)
{
    struct mt_cta *cta = cta_waiting("a barrier");
    if (MT_UNLIKELY(mt_check_all) && kind < MT_BARRIER_SOME && !count)
        barrier_check_site(cta, id % MT_BARRIERS, __builtin_return_address(0), __builtin_return_address(0));
    return barrier_wait(cta, kind % MT_BARRIER_SOME, id % MT_BARRIERS, count, value != 0);
}

void mt_cpu_warp_apart(uint32_t warp, uint32_t lanes, uint32_t others)
{
    mt_check_tell(mt_cta_current(), warp * MT_WARP + (uint32_t)__builtin_ctz(others), MT_FINDING_OF_BARRIER,
                  __builtin_return_address(0),
                  "is elsewhere, as are lanes 0x%08x, when lanes 0x%08x of warp %u come to a barrier", others,
                  lanes, warp);
}

uint32_t mt_cpu_warp_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t said)
{
    struct mt_cta *cta = cta_waiting("a barrier");
    struct mt_fiber *self = cta->current;
    const void *place = (const void *)(uintptr_t)(kind >> MT_BARRIER_PLACE);
    if (MT_UNLIKELY(mt_check_all) && !(kind & MT_BARRIER_SOME) && !count)
        barrier_check_site(cta, id % MT_BARRIERS, place, __builtin_return_address(0));
    kind %= MT_BARRIER_SOME;
    uint32_t value = kind == 1 ? said : kind == 2 ? said == 0 : said != 0;
    struct mt_barrier *b =
        barrier_arrive(cta, kind, id %= MT_BARRIERS, (count + MT_WARP - 1) / MT_WARP, value);
    queue_append(&b->waiters, self);
    b->nwaiters++;
    if (barrier_complete(cta, b))
        barrier_release(cta, id);
    return (uint32_t)cta_block(cta, self);
}

void mt_cpu_barrier_arrive(uint32_t id, uint32_t count, uint32_t aligned)
{
    struct mt_cta *cta = cta_waiting("a barrier");
    if (cta->run->warps)
        count = (count + MT_WARP - 1) / MT_WARP;
    struct mt_barrier *b = barrier_arrive(cta, 0, id % MT_BARRIERS, count, 0);
    if (barrier_complete(cta, b))
        barrier_release(cta, id % MT_BARRIERS);
}

static void barrier_exited(struct mt_cta *cta)
{
    for (uint32_t m = cta->active_barriers; m; m &= m - 1) {
        uint32_t id = (uint32_t)__builtin_ctz(m);
        if (barrier_complete(cta, &cta->barrier[id]) && cta->barrier[id].arrived)
            barrier_release(cta, id);
    }
}

/* Reports a barrier that too few threads reach. others: state of the missing ones. */
static void barrier_tell(const struct mt_cta *cta, uint32_t id, const char *others)
{
    const struct mt_barrier *b = &cta->barrier[id];
    uint32_t each = cta->run->warps ? MT_WARP : 1,
             wait = b->nwaiters ? (uint32_t)(b->waiters.head - cta->fiber) : 0;
    mt_check_tell(cta, wait * each, MT_FINDING_OF_BARRIER, NULL,
                  "%u of %u %s come to barrier %u, and others %s", b->arrived,
                  b->expected ? b->expected : cta->alive, each > 1 ? "warps" : "threads", id, others);
}

/* Releases a barrier of part of the CTA: it does not name its threads, so exited ones may be among them. */
static int barrier_force(struct mt_cta *cta)
{
    uint32_t exited = cta->nthreads - cta->alive, made = 0;
    for (uint32_t m = cta->active_barriers; m; m &= m - 1) {
        uint32_t id = (uint32_t)__builtin_ctz(m);
        struct mt_barrier *b = &cta->barrier[id];
        if (exited && b->expected && b->nwaiters && b->arrived + exited >= b->expected) {
            made += b->nwaiters;
            barrier_tell(cta, id, "that it waits for have ended");
            barrier_release(cta, id);
        }
    }
    return (int)made;
}

void mt_barrier_tell(struct mt_cta *cta)
{
    for (uint32_t m = cta->active_barriers; m; m &= m - 1)
        barrier_tell(cta, (uint32_t)__builtin_ctz(m), "never do");
    cta->run->told |= cta->active_barriers != 0;
}

static void barrier_describe(struct mt_cta *cta, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (uint32_t m = cta->active_barriers; m && n < size; m &= m - 1) {
        uint32_t id = (uint32_t)__builtin_ctz(m);
        const struct mt_barrier *b = &cta->barrier[id];
        n += (size_t)snprintf(text + n, size - n, "%s%u of %u threads at barrier %u", n ? ", " : "",
                              b->arrived, b->expected ? b->expected : cta->alive, id);
    }
}

/* Clusters: CTAs that run side by side on one worker, with shared memory that each can reach, and a common
 * barrier. Without clusters a CTA forms its own. */

#define MARGIN (16u << 20)

/* Allocates shared memory. Device code may keep the low half of a shared address, or an offset from the
 * start. Low halves of a cluster are less than 8 MiB apart, and offsets are below 1 MiB; the two differ if
 * no low half is near 0 or 2^32, so shared memory lies only there. Below it is a hole (MT_SHARED_HOLE). */
static char *cluster_memory(uint64_t bytes, uint32_t ctas, uint64_t *stride)
{
    size_t skip = MT_SHARED_HOLE;
    char *p;
    do {
        p = mt_local_skip(skip) ? NULL : mt_local_alloc(bytes, ctas, stride, NULL);
        skip = MARGIN;
    } while (p && (uint32_t)(uintptr_t)p + MARGIN < 2 * MARGIN);
    return p;
}

struct mt_cluster *mt_cluster_take(struct mt_worker *w, const struct mt_pool_launch *run)
{
    const uint32_t *dims = run->launch->cluster;
    struct mt_cluster **p = &w->free_clusters, *c;
    uint32_t ctas = dims[0] * dims[1] * dims[2];
    while (*p && ((*p)->room < ctas || (*p)->stride < run->shared_bytes))
        p = &(*p)->next;
    c = *p;
    if (c) {
        *p = c->next;
    } else {
        c = calloc(1, sizeof *c);
        uint64_t bytes = run->shared_bytes < 16384 ? 16384 : run->shared_bytes;
        if (c && !(c->shared = cluster_memory(bytes, ctas, &c->stride))) {
            free(c);
            c = NULL;
        }
        if (!c)
            return NULL;
        c->room = ctas;
    }
    c->ctas = c->left = ctas;
    c->alive = ctas * run->nthreads;
    c->arrived = c->phase = c->stalled = 0;
    memset(c->cta, 0, sizeof c->cta);
    return c;
}

int mt_cluster_left(struct mt_cta *cta)
{
    struct mt_cluster *c = cta->cluster;
    if (!c)
        return 1;
    cta->cluster = NULL;
    c->cta[cta->rank] = NULL;
    if (--c->left)
        return 0;
    c->next = cta->worker->free_clusters;
    cta->worker->free_clusters = c;
    return 1;
}

/* ---- the barrier ------------------------------------------------------------------------------------- */

/* Wakes the waiting threads of one CTA. */
static void cluster_wake(struct mt_cta *cta)
{
    uint32_t count = 0;
    cta->stalled = 0;
    for (const struct mt_fiber *f = cta->cluster_waiters.head; f; f = f->next)
        count++;
    warp_wake(cta, &cta->cluster_waiters, count);
}

static uint32_t *cluster_phase(struct mt_cta *cta)
{
    return cta->cluster ? &cta->cluster->phase : &cta->cluster_phase;
}

/* Starts the next phase if all threads that have not exited have arrived. */
static void cluster_check(struct mt_cta *cta)
{
    struct mt_cluster *c = cta->cluster;
    uint32_t *arrived = c ? &c->arrived : &cta->cluster_arrived;
    if (!*arrived || *arrived < (c ? c->alive : cta->alive))
        return;
    *arrived = 0;
    ++*cluster_phase(cta);
    if (!c) {
        cluster_wake(cta);
        return;
    }
    c->stalled = 0;
    for (uint32_t i = 0; i < c->ctas; i++)
        if (c->cta[i])
            cluster_wake(c->cta[i]);
}

void mt_cpu_cluster_arrive(void)
{
    struct mt_cta *cta = cta_waiting("a barrier of a cluster");
    cta->current->cluster_phase = *cluster_phase(cta);
    ++*(cta->cluster ? &cta->cluster->arrived : &cta->cluster_arrived);
    cluster_check(cta);
}

void mt_cpu_cluster_wait(void)
{
    struct mt_cta *cta = cta_waiting("a barrier of a cluster");
    struct mt_fiber *self = cta->current;
    struct mt_warp *w = &cta->warp[self->warp];
    if (self->cluster_phase != *cluster_phase(cta))
        return;
    queue_append(&cta->cluster_waiters, self);
    if (!cta->run->warps)
        w->blocked |= 1u << self->lane;
    if (MT_UNLIKELY(!cta->run->warps && w->parked != 0))
        warp_parked_check(cta, w, self->warp);
    cta_block(cta, self);
}

/* Takes the exiting thread out of its cluster. */
static void cluster_exited(struct mt_cta *cta)
{
    if (cta->cluster)
        cta->cluster->alive--;
    cluster_check(cta);
}

#define MT_DENORMALS_ARE_ZERO 0x8040u /* MXCSR bits for results and operands */
/* Lanes may yield on their way to a point where others of their warp wait. The waiting lanes go on without
 * them only after all that can run has yielded this many times in a row. */
#define ROUNDS_BEFORE_RELEASE 16

_Thread_local struct mt_cpu_tls mt_cpu_tls __attribute__((tls_model("initial-exec")));

/* Sets the origin of records. */
static void cta_place(const struct mt_cta *cta)
{
    mt_cpu_tls.smid = cta->smid;
    mt_cpu_tls.run_cta = mt_rec_cta(cta->ctaid[0], cta->ctaid[1], cta->ctaid[2]);
}

static void cta_bind(struct mt_cta *cta)
{
    const struct mt_pool_launch *run = cta->run;
    const struct mt_cpu_launch *launch = run->launch;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    mt_worker_quiet(cta->worker, cta->quiet);
    for (int i = 0; i < 3; i++) {
        t->ctaid[i] = cta->ctaid[i];
        t->ntid[i] = launch->block[i];
        t->nctaid[i] = launch->grid[i];
    }
    cta_place(cta);
    t->warp_first = 0;
    t->warp_end = (run->nthreads + MT_WARP - 1) / MT_WARP;
    t->shared = cta->shared;
    t->shared_bytes = run->shared_bytes;
    t->cluster_shared = cta->cluster ? cta->cluster->shared : cta->shared;
    t->cluster_stride = cta->cluster ? cta->cluster->stride : run->shared_bytes;
    for (int i = 0; i < 3; i++)
        t->cluster[i] = launch->cluster[i] ? launch->cluster[i] : 1;
    t->in_cluster = launch->cluster[0] != 0;
    t->grid_id = run->grid_id;
    t->dyn_shared = launch->dyn_shared;
    t->cooperative = run->cooperative;
    t->cta_state = cta;
    t->launch = (void *)run->launch;
    t->const_base = run->const_base;
    t->const_bytes = run->const_bytes;
    t->grid_workspace = run->cooperative ? run->workspace : NULL;
}

typedef uint64_t two_numbers __attribute__((aligned(4), may_alias));

static inline void cta_enter(struct mt_cta *cta, struct mt_fiber *f)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    cta->current = f;
    *(two_numbers *)t->tid = *(const two_numbers *)f->tid; /* a switch takes 10 ns: each store counts */
    t->tid[2] = f->tid[2];
    t->laneid = f->lane;
    t->warpid = f->warp;
    if (cta->run->warps) {
        t->warp_first = f->warp;
        t->warp_end = f->warp + 1u;
    }
}

static int more_shared(struct mt_cta *cta, uint64_t bytes)
{
    uint64_t stride;
    bytes = bytes < 16384 ? 16384 : bytes;
    char *p = cluster_memory(bytes, 1, &stride);
    if (!p)
        return -1;
    cta->own_shared = p;
    cta->shared_capacity = bytes;
    return 0;
}

int mt_cta_begin(struct mt_cta *cta, struct mt_worker *w, struct mt_pool_launch *run, uint64_t linear,
                 struct mt_cluster *cluster, uint32_t rank)
{
    const struct mt_cpu_launch *launch = run->launch;
    uint64_t gx = launch->grid[0], gy = launch->grid[1];
    cta->worker = w;
    cta->run = run;
    cta->ctaid[0] = (uint32_t)(linear % gx);
    cta->ctaid[1] = (uint32_t)(linear / gx % gy);
    cta->ctaid[2] = (uint32_t)(linear / gx / gy);
    cta->smid = (uint32_t)(linear % mt_cpu_tls.nsmid);
    cta->quiet = launch->ctas && !mt_cta_is_traced(launch->ctas, linear, cta->ctaid);
    cta->cluster = cluster;
    cta->rank = rank;
    if (cluster)
        cluster->cta[rank] = cta;
    else if (run->shared_bytes > cta->shared_capacity && more_shared(cta, run->shared_bytes))
        return MT_ERR_MEMORY;
    cta->shared = cluster ? cluster->shared + rank * cluster->stride : cta->own_shared;
    cta->spins = 0;
    if (run->loop)
        return 0;
    memset(cta->shared + run->shared_bytes - MT_SHARED_RESERVED, 0, MT_SHARED_RESERVED);
    cta->nthreads = cta->alive = run->nthreads;
    cta->nwarps = run->warps ? 0 : (run->nthreads + MT_WARP - 1) / MT_WARP;
    cta->unstarted = cta->nready = cta->yields = cta->parked = 0;
    cta->ready.head = cta->ready.tail = NULL;
    cta->cluster_waiters.head = cta->cluster_waiters.tail = NULL;
    cta->cluster_arrived = cta->cluster_phase = 0;
    cta->stalled = 0;
    memset(cta->next_tid, 0, sizeof cta->next_tid);
    for (uint32_t i = 0; i < cta->nwarps; i++) {
        struct mt_warp *warp = &cta->warp[i];
        uint32_t left = cta->nthreads - i * MT_WARP;
        warp->lanes = left >= MT_WARP ? ~0u : (1u << left) - 1;
        warp->exited = warp->blocked = warp->parked = warp->ngroups = 0;
    }
    for (uint32_t m = cta->active_barriers; m; m &= m - 1)
        memset(&cta->barrier[__builtin_ctz(m)], 0, sizeof cta->barrier[0]);
    cta->active_barriers = 0;
    return 0;
}

/* Starts the next thread, on `stack` or, if NULL, on a stack of its own. */
static struct mt_fiber *cta_start(struct mt_cta *cta, struct mt_stack *stack)
{
    uint32_t i = cta->unstarted, *tid = cta->next_tid;
    const uint32_t *block = cta->run->launch->block;
    struct mt_fiber *f = &cta->fiber[i];
    if (!stack) {
        stack = mt_stack_take(cta->worker, (int)cta->run->warps);
        if (!stack)
            mt_fault_fail(MT_ERR_MEMORY, "no memory for the stacks of the device threads");
        f->sp = mt_fiber_prepare(stack);
    }
    cta->unstarted = i + 1;
    f->stack = stack;
    /* In one store, as cta_enter may load them at once. */
    *(two_numbers *)f->tid = tid[0] | (uint64_t)tid[1] << 32;
    f->tid[2] = tid[2];
    if (cta->run->warps) { /* its first thread */
        for (tid[0] += MT_WARP; tid[0] >= block[0]; tid[0] -= block[0])
            if (++tid[1] == block[1]) {
                tid[1] = 0;
                tid[2]++;
            }
        f->lane = 0;
        f->warp = (uint16_t)i;
        return f;
    }
    if (++tid[0] == block[0]) {
        tid[0] = 0;
        if (++tid[1] == block[1]) {
            tid[1] = 0;
            tid[2]++;
        }
    }
    f->lane = i % MT_WARP;
    f->warp = (uint16_t)(i / MT_WARP);
    return f;
}

/* Returns the next fiber that can run, or NULL. */
static inline struct mt_fiber *cta_pick(struct mt_cta *cta)
{
    struct mt_fiber *f = cta->ready.head;
    if (MT_LIKELY(f != NULL)) {
        cta->ready.head = f->next;
        cta->nready--;
        return f;
    }
    return cta->unstarted < cta->nthreads ? cta_start(cta, NULL) : NULL;
}

/* Settles waits when nothing can run, the surest ones first. Returns NULL if other CTAs of the cluster
 * must do so. */
static __attribute__((noinline)) struct mt_fiber *cta_idle(struct mt_cta *cta)
{
    char text[256];
    struct mt_cluster *c = cta->cluster;
    if (mt_warp_release_parked(cta))
        return cta_pick(cta);
    if (c && cta->cluster_waiters.head && c->stalled + 1 < c->left) {
        c->stalled++;
        cta->stalled = 1;
        return NULL;
    }
    if (barrier_force(cta) || warp_force_collective(cta))
        return cta_pick(cta);
    barrier_describe(cta, text, sizeof text);
    if (mt_check_all)
        mt_barrier_tell(cta);
    mt_fault_fail(MT_ERR_TIMEOUT, "deadlock: %s", text);
}

static void to_worker(struct mt_cta *cta, void **save, enum mt_status status)
{
    cta->worker->status = status;
    mt_fiber_switch(save, cta->worker->sched_sp, 0);
}

static uint64_t cta_block(struct mt_cta *cta, struct mt_fiber *self)
{
    struct mt_fiber *f = cta_pick(cta);
    cta->yields = 0;
    if (MT_UNLIKELY(!f) && !(f = cta_idle(cta))) {
        to_worker(cta, &self->sp, MT_CTA_STALLED);
        return self->result;
    }
    if (f == self)
        return self->result;
    cta_enter(cta, f);
    if (cta->ready.head) /* the one after it: its stack is seldom in the nearest cache */
        __builtin_prefetch(cta->ready.head->sp);
    return mt_fiber_switch(&self->sp, f->sp, f->result);
}

/* Ends the running thread. Returns once its stack was passed to the next thread (only if `reuse`). */
static void thread_exit(struct mt_cta *cta, int reuse)
{
    struct mt_fiber *self = cta->current, *f;
    struct mt_stack *stack = self->stack;
    void *dead;
    if (MT_UNLIKELY(atomic_load_explicit(&mt_stack_unguarded, memory_order_relaxed)) && stack->canary &&
        *stack->canary != MT_CANARY) {
        *stack->canary = MT_CANARY;
        mt_check_stack(cta->run);
        mt_fault_fail(MT_ERR_LAUNCH,
                      "stack overflow of a device thread (%zu bytes; MEMTRACE_CPU_STACK sets more)",
                      mt_stack_bytes());
    }
    cta->yields = 0;
    cta->alive--;
    if (!cta->run->warps)
        warp_exited(cta, self);
    if (cta->active_barriers)
        barrier_exited(cta);
    cluster_exited(cta);
    f = NULL;
    if (!cta->ready.head && cta->unstarted < cta->nthreads && reuse) {
        self->stack = NULL;
        cta_enter(cta, cta_start(cta, stack));
        return;
    }
    if (cta->alive) { /* before the stack is passed on: f must not be prepared on it */
        f = cta_pick(cta);
        if (!f)
            f = cta_idle(cta);
        if (f)
            cta_enter(cta, f);
    }
    self->stack = NULL;
    mt_stack_give(cta->worker, stack);
    if (!f)
        to_worker(cta, &dead, cta->alive ? MT_CTA_STALLED : MT_CTA_DONE);
    mt_fiber_switch(&dead, f->sp, f->result);
    __builtin_unreachable();
}

/* Continues a kernel without waits with the next claimed CTA, without leaving device code. */
static int next_in_loop(struct mt_cta *cta)
{
    struct mt_pool_launch *run = cta->run;
    struct mt_claim *c = &cta->worker->claim;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    const struct mt_cta_rule *ctas = run->launch->ctas;
    const uint32_t *grid = run->launch->grid;
    uint32_t *at = cta->ctaid;
    if (c->next == c->end || c->run != run || atomic_load_explicit(&run->failed, memory_order_relaxed))
        return 0;
    uint64_t linear = c->next++;
    cta->worker->finished++; /* the previous CTA */
    /* Not read back after the stores: a load of two of them would wait until all earlier stores of the
     * kernel are in the cache. */
    uint32_t x = at[0] + 1, y = at[1], z = at[2];
    if (x == grid[0]) {
        x = 0;
        if (++y == grid[1]) {
            y = 0;
            z++;
        }
    }
    t->ctaid[0] = at[0] = x;
    t->ctaid[1] = at[1] = y;
    t->ctaid[2] = at[2] = z;
    if (++cta->smid == t->nsmid)
        cta->smid = 0;
    if (MT_UNLIKELY(ctas != NULL)) {
        cta->quiet = !mt_cta_is_traced(ctas, linear, at);
        mt_worker_quiet(cta->worker, cta->quiet);
    }
    cta_place(cta);
    return 1;
}

__attribute__((used)) _Noreturn void mt_fiber_main(void)
{
    for (;;) {
        struct mt_cta *cta = mt_cta_current();
        struct mt_pool_launch *run = cta->run;
        if (run->loop) {
            do
                (cta->quiet ? run->quiet_loop : run->loop)(run->args);
            while (next_in_loop(cta));
            to_worker(cta, &cta->worker->loop_fiber.sp, MT_CTA_DONE);
        } else {
            (cta->quiet ? run->quiet_entry : run->entry)(run->args);
            thread_exit(cta, 1);
        }
    }
}

void mt_cpu_exit_thread(void)
{
    thread_exit(cta_waiting("exit"), 0);
    __builtin_unreachable();
}

/* Switches to a device thread, and returns when the CTA has nothing to run. */
static void cta_run(struct mt_cta *cta, void *sp, uint64_t result)
{
    struct mt_worker *w = cta->worker;
    int flush = cta->run->launch->kernel->flags & MT_KERNEL_FLUSH;
    unsigned before = MT_UNLIKELY(flush) ? _mm_getcsr() : 0;
    if (MT_UNLIKELY(flush))
        _mm_setcsr(before | MT_DENORMALS_ARE_ZERO);
    w->in_device = 1;
    mt_fiber_switch(&w->sched_sp, sp, result);
    w->in_device = 0;
    if (MT_UNLIKELY(flush))
        _mm_setcsr(before);
}

enum mt_status mt_cta_resume(struct mt_cta *cta)
{
    struct mt_worker *w = cta->worker;
    cta_bind(cta);
    /* start() may report exhausted memory, and there is no fiber yet to leave. */
    int warps = (int)cta->run->warps;
    if (!cta->ready.head && !w->stacks[warps].nfree) {
        struct mt_stack *s = mt_stack_take(w, warps);
        if (!s) {
            mt_fault_record(cta->run, MT_ERR_MEMORY, "no memory for the stacks of the device threads");
            return MT_CTA_FAILED;
        }
        mt_stack_give(w, s);
    }
    struct mt_fiber *f = cta_pick(cta);
    cta_enter(cta, f);
    cta_run(cta, f->sp, f->result);
    mt_cpu_tls.cta_state = NULL;
    return w->status;
}

enum mt_status mt_cta_loop(struct mt_cta *cta)
{
    struct mt_worker *w = cta->worker;
    cta_bind(cta);
    cta_enter(cta, &w->loop_fiber);
    cta_run(cta, w->loop_fiber.sp, 0);
    mt_cpu_tls.cta_state = NULL;
    if (w->status == MT_CTA_FAILED)
        w->loop_fiber.sp = mt_fiber_prepare(w->loop_fiber.stack);
    return w->status;
}

void mt_cta_abandon(struct mt_cta *cta)
{
    if (cta->run->loop)
        return;
    for (uint32_t i = 0; i < cta->unstarted; i++)
        if (cta->fiber[i].stack)
            mt_stack_give(cta->worker, cta->fiber[i].stack);
    cta->active_barriers = (1u << MT_BARRIERS) - 1;
}

void mt_cpu_warp_turn(void)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_fiber *self = cta->current, *f;
    if (MT_UNLIKELY(cta->run->loop != NULL))
        return;
    if (cta->unstarted < cta->nthreads)
        f = cta_start(cta, NULL);
    else if (cta->ready.head)
        f = cta_pick(cta);
    else
        return;
    queue_append(&cta->ready, self);
    cta->nready++;
    cta_enter(cta, f);
    mt_fiber_switch(&self->sp, f->sp, f->result);
}

/* Yields in code that may run for long without waiting: other fibers of the CTA go on, then other CTAs. */
void mt_cpu_yield(void)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_fiber *self = cta->current, *f;
    if (MT_UNLIKELY(atomic_load_explicit(&cta->run->failed, memory_order_relaxed)))
        to_worker(cta, &self->sp, MT_CTA_FAILED);
    if (MT_UNLIKELY(atomic_load_explicit(&cta->run->bad, memory_order_relaxed)))
        mt_check_spins(cta->run);
    if (cta->run->loop) {
        sched_yield();
        return;
    }
    if (cta->unstarted < cta->nthreads) {
        f = cta_start(cta, NULL);
        cta->yields = 0;
    } else {
        if (++cta->yields % (cta->nready + 1) == 0) { /* all that can run has just yielded */
            int stuck = cta->parked && cta->yields > ROUNDS_BEFORE_RELEASE * (cta->nready + 1);
            if (stuck)
                cta->yields = 0;
            if (!stuck || !mt_warp_release_parked(cta)) {
                queue_append(&cta->ready, self);
                cta->nready++;
                to_worker(cta, &self->sp, MT_CTA_SPINS);
                return;
            }
        }
        f = cta_pick(cta);
        if (!f) /* impossible: the last one that can run yields to the worker above */
            return;
    }
    queue_append(&cta->ready, self);
    cta->nready++;
    cta_enter(cta, f);
    mt_fiber_switch(&self->sp, f->sp, f->result);
}

void mt_cpu_nanosleep(uint32_t ns)
{
    mt_cpu_yield();
}
