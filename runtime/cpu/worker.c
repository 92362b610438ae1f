/* The scheduler: memory of device threads, CTAs with their threads and waits, and the workers, which claim
 * CTAs, run them and hand on their records. A worker keeps several CTAs in flight only if those it has just
 * spin: they may wait for a CTA that has not begun. */
#define _GNU_SOURCE

#include "scheduler.h"
#include "check.h"
#include "matrix.h"
#include "memtrace/hash.h"
#include "memtrace/record.h"
#include "trace/last.h"
#include "image.h"
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xmmintrin.h>

/* The local range: one reserved stretch of address space for everything that device code can address
 * outside of global memory: stacks of device threads, shared memory, kernel arguments. The test "is this
 * pointer global?" is thus one comparison. Memory is committed at the first touch, and kept for reuse by
 * its owner for the life of the process. */

#define LOCAL_MAX ((size_t)1 << 38) /* 256 GiB of address space; halved until the kernel grants it */
#define LOCAL_MIN ((size_t)1 << 28)
/* Reserved at both ends and unused: device memory may lie next to the range, and an access just outside of
 * it must not pass for one to a stack. */
#define LOCAL_EDGE ((size_t)1 << 20)
#define GUARD_MAX 12288 /* each guard page costs two of the process's 65,530 mappings */

static pthread_mutex_t local_lock = PTHREAD_MUTEX_INITIALIZER;
static char *local_start;
static size_t local_reserved, local_used, local_page;
static unsigned local_guards;

/* Reserves the range once. Returns 0 or an errno value. */
static int local_init(void)
{
    pthread_mutex_lock(&local_lock);
    int rc = local_start ? 0 : ENOMEM;
    local_page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t want = LOCAL_MAX; !local_start && want >= LOCAL_MIN; want /= 2) {
        void *p = mmap(NULL, want, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) {
            madvise(p, want, MADV_DONTDUMP);
            local_start = (char *)p + LOCAL_EDGE;
            local_reserved = want - 2 * LOCAL_EDGE;
            rc = 0;
        }
    }
    pthread_mutex_unlock(&local_lock);
    return rc;
}

/* Allocates `count` blocks of `bytes` each (rounded up to pages), readable and writable, each with an
 * unmapped guard page below it as long as the process can afford the mappings (*guarded tells). *stride is
 * set to the distance between blocks. Returns NULL if the range or memory is exhausted. The last two may
 * be NULL. */
static void *local_alloc(size_t bytes, unsigned count, size_t *stride, int *guarded)
{
    char *first = NULL;
    size_t step;
    int whole = 0;
    if (!local_start || bytes == 0 || bytes > local_reserved || count == 0)
        return NULL;
    bytes = (bytes + local_page - 1) & ~(local_page - 1);
    step = bytes + local_page;
    pthread_mutex_lock(&local_lock);
    if (step > (local_reserved - local_used) / count)
        goto out;
    char *p = local_start + local_used;
    whole = local_guards + count > GUARD_MAX; /* too many mappings: no guards in between */
    if (whole) {
        if (mprotect(p + local_page, count * step - local_page, PROT_READ | PROT_WRITE))
            goto out;
    } else {
        for (unsigned i = 0; i < count; i++)
            if (mprotect(p + i * step + local_page, bytes, PROT_READ | PROT_WRITE))
                goto out;
        local_guards += count;
    }
    local_used += count * step;
    first = p + local_page;
out:
    pthread_mutex_unlock(&local_lock);
    if (stride)
        *stride = step;
    if (guarded)
        *guarded = !whole;
    return first;
}

/* Leaves the next `bytes` bytes without blocks, so that an access there faults. Returns 0, or -1 if the
 * range is exhausted. */
static int local_skip(size_t bytes)
{
    pthread_mutex_lock(&local_lock);
    int fits = local_start && bytes <= local_reserved - local_used;
    local_used += fits ? bytes : 0;
    pthread_mutex_unlock(&local_lock);
    return fits ? 0 : -1;
}

/* Frees all blocks in a forked child, where no owner is left. */
static void local_reset(void)
{
    pthread_mutex_init(&local_lock, NULL);
    if (local_start)
        mprotect(local_start, local_used, PROT_NONE);
    local_used = 0;
    local_guards = 0;
}

/* Blocks for arguments in the local range, reused; the first word of a free block points to the next one. */

#define ARGS_BLOCK 131072 /* arguments have at most 32,764 bytes; plus a pointer each */

static pthread_mutex_t args_lock = PTHREAD_MUTEX_INITIALIZER;
static void **free_args;

/* Copies a launch's arguments into the local range: nparams + 1 pointers and the values they point to (the
 * last one, to the hidden context, is kept). *workspace gets MT_WORKSPACE zero bytes. Returns NULL without
 * memory. */
static void **args_copy(const struct mt_cpu_launch *launch, void **workspace)
{
    const struct mt_image_param *param = launch->kernel->params;
    uint32_t n = launch->kernel->nparams;
    uint64_t need = (n + 1) * sizeof(void *), at = need;
    void **block;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t align = param[i].align ? param[i].align : 1;
        need = (need + align - 1) / align * align + param[i].size;
    }
    if (need > ARGS_BLOCK - MT_WORKSPACE)
        return NULL;
    pthread_mutex_lock(&args_lock);
    block = free_args;
    if (block)
        free_args = *block;
    pthread_mutex_unlock(&args_lock);
    if (!block)
        block = local_alloc(ARGS_BLOCK, 1, NULL, NULL);
    if (!block)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t align = param[i].align ? param[i].align : 1;
        at = (at + align - 1) / align * align;
        block[i] = (char *)block + at;
        memcpy(block[i], launch->args[i], param[i].size);
        at += param[i].size;
    }
    block[n] = launch->args[n];
    *workspace = (char *)block + ARGS_BLOCK - MT_WORKSPACE;
    memset(*workspace, 0, MT_WORKSPACE);
    return block;
}

static void args_free(void **args)
{
    pthread_mutex_lock(&args_lock);
    *args = free_args;
    free_args = args;
    pthread_mutex_unlock(&args_lock);
}

/* Stacks of device threads, in the local range. A worker takes them in slabs and keeps them. A stack
 * without a guard page has a word at its low end that shows an overflow when the thread ends. */

#define SLAB 32

/* Returns the stack size of a warp that runs as vectors, with its lanes' variables in one frame. Untouched
 * address space takes no memory. */
static size_t stack_of_warp(void)
{
    return mt_cpu_settings.stack * MT_WARP;
}

_Atomic int mt_stack_unguarded;

static struct mt_stack *stack_make(char *low, size_t bytes, unsigned colour, int guarded)
{
    /* Stacks are a multiple of the page size apart; without an offset their tops would share a few cache
     * sets. */
    struct mt_stack *s = (struct mt_stack *)(low + bytes - 64 - colour % 61 * 64);
    s->low = low;
    s->canary = NULL;
    s->warp = 0;
    if (!guarded) {
        s->canary = (uint64_t *)low;
        *s->canary = MT_CANARY;
        atomic_store_explicit(&mt_stack_unguarded, 1, memory_order_relaxed);
    }
    return s;
}

static int stack_add_slab(struct mt_worker *w, int warp)
{
    size_t stride, bytes = warp ? stack_of_warp() : mt_cpu_settings.stack;
    int guarded;
    struct mt_stacks *of = &w->stacks[warp];
    struct mt_stack **list = realloc(of->free, (of->made + SLAB) * sizeof *list);
    if (!list)
        return -1;
    of->free = list; /* room for all */
    char *p = local_alloc(bytes, SLAB, &stride, &guarded);
    if (!p)
        return -1;
    for (unsigned i = SLAB; i-- > 0;) {
        struct mt_stack *s = stack_make(p + i * stride, bytes, of->made++ * 7, guarded);
        s->warp = warp;
        mt_stack_give(w, s);
    }
    return 0;
}

/* Returns a device stack; the worker keeps its free ones. NULL without memory. */
static struct mt_stack *stack_take(struct mt_worker *w, int warp)
{
    struct mt_stacks *of = &w->stacks[warp];
    if (MT_UNLIKELY(!of->nfree) && stack_add_slab(w, warp))
        return NULL;
    return of->free[--of->nfree];
}

static struct mt_stack *stack_for_loops(void)
{
    size_t bytes = stack_of_warp();
    int guarded;
    char *p = local_alloc(bytes, 1, NULL, &guarded);
    return p ? stack_make(p, bytes, 0, guarded) : NULL;
}

/* One CTA in flight: starts its threads, switches between them, ends them. Threads start in order, each
 * only when no earlier one can run; a thread that ends leaves its stack to the next one. */

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

static inline void worker_queue_append(struct mt_queue *q, struct mt_fiber *f)
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

/* Prepares `stack` to start in mt_fiber_main at the first switch to it. */
static void *fiber_prepare(struct mt_stack *stack)
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
        worker_queue_append(&cta->ready, lane_fiber(cta, warp, (uint32_t)__builtin_ctz(m)));
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
                                                     const char *what, struct mt_check_place place)
{
    static _Atomic int said;
    atomic_fetch_add_explicit(&cta->run->undefined, 1, memory_order_relaxed);
    mt_check_tell(cta, warp * MT_WARP + lane, MT_FINDING_OF_MASK, place, "lane %u %s", lane, what);
    if (mt_check_all)
        return;
    if (!atomic_exchange(&said, 1))
        fprintf(stderr,
                "memtrace: kernel %s: lane %u of warp %u of CTA (%u,%u,%u) %s: CUDA leaves the result "
                "undefined, and a GPU may give another (said once; `undefined` in the companion counts)\n",
                (const char *)cta->run->launch->kernel->pretty, lane, warp, cta->ctaid[0], cta->ctaid[1],
                cta->ctaid[2], what);
}

static void warp_absent(struct mt_cta *cta, uint32_t warp, uint32_t lane, uint32_t from,
                        struct mt_check_place place)
{
    const struct mt_warp *w = &cta->warp[warp];
    char what[96];
    snprintf(what, sizeof what, "shuffles from lane %u, which %s", from,
             !(w->lanes >> from & 1) ? "the CTA does not have"
             : w->exited >> from & 1 ? "has exited"
                                     : "does not take part");
    warp_undefined(cta, warp, lane, what, place);
}

void mt_cpu_warp_undefined(uint32_t warp, uint32_t lanes, const uint32_t *from)
{
    char what[96] = "is not in the mask of its warp function";
    for (uint32_t m = lanes; m; m &= m - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(m);
        if (from)
            snprintf(what, sizeof what, "shuffles from lane %u, which has exited or does not take part",
                     from[lane]);
        warp_undefined(mt_cta_current(), warp, lane, what,
                       (struct mt_check_place){__builtin_return_address(0), mt_cpu_tls.place});
    }
}

static struct mt_check_place group_place(const struct mt_group *g)
{
    return (struct mt_check_place){(const void *)(uintptr_t)g->site, g->place};
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
        warp_absent(cta, warp, i, (uint32_t)j, group_place(g));
        j = (int)i;
    } else if (!in)
        j = (int)i;
    return (uint32_t)w->value[j] | (uint64_t)in << 32;
}

static uint32_t collective_vote(const struct mt_warp *w, uint32_t mode, uint32_t lanes)
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

static uint32_t collective_redux(const struct mt_warp *w, uint32_t op, uint32_t lanes)
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
        all = collective_vote(w, mode, lanes);
        break;
    case OP_REDUX:
        all = collective_redux(w, mode, lanes);
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

static int collective_is_complete(const struct mt_warp *w, const struct mt_group *g)
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
        warp_undefined(cta, self->warp, self->lane, "is not in the mask of its warp function",
                       (struct mt_check_place){site, mt_cpu_tls.place});
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
        g->place = mt_cpu_tls.place;
    }
    g->arrived |= bit;
    if (collective_is_complete(w, g)) {
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

/* Makes parked lanes ready. Returns their number. */
static int warp_release_parked(struct mt_cta *cta)
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
        if (collective_is_complete(w, &w->group[i]))
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
                  group_place(g),
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

static void worker_hand_on(struct mt_worker *w);

/* Returns the place of the last barrier that the fiber came to. */
static struct mt_check_place barrier_place(const struct mt_fiber *f)
{
    return (struct mt_check_place){f->code, f->place};
}

/* Reports a barrier of the whole CTA of which some threads have ended. */
static void barrier_left(const struct mt_cta *cta, uint32_t id)
{
    const struct mt_fiber *first = cta->barrier[id].waiters.head;
    uint32_t each = cta->run->warps ? MT_WARP : 1;
    mt_check_tell(cta, (uint32_t)(first - cta->fiber) * each, MT_FINDING_OF_LEFT, barrier_place(first),
                  "comes to barrier %u, and %u %s of its CTA have ended without it", id,
                  cta->nthreads - cta->alive, each > 1 ? "warps" : "threads");
}

static void barrier_release(struct mt_cta *cta, uint32_t id)
{
    struct mt_barrier *b = &cta->barrier[id];
    struct mt_queue *w = &b->waiters;
    if (cta->run->ordered && !b->expected) /* all CTAs wait like this before they reach a grid barrier */
        worker_hand_on(cta->worker);
    if (MT_UNLIKELY(mt_cpu_settings.check.strict) && !b->expected && cta->alive < cta->nthreads && w->head)
        barrier_left(cta, id);
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
    worker_queue_append(&b->waiters, self);
    b->nwaiters++;
    if (barrier_complete(cta, b))
        barrier_release(cta, id);
    else if (MT_UNLIKELY(w->parked != 0))
        warp_parked_check(cta, w, self->warp);
    return (uint32_t)cta_block(cta, self);
}

/* Checks that all threads that have not ended reach the same barrier in the code, told apart by `site`. */
__attribute__((noinline)) static void barrier_check_site(const struct mt_cta *cta, uint32_t id,
                                                         const void *site)
{
    const struct mt_fiber *self = cta->current;
    struct mt_barrier *b = (struct mt_barrier *)&cta->barrier[id];
    if (!b->arrived)
        b->site = site;
    if (!b->site || b->site == site)
        return;
    b->site = NULL;
    mt_check_tell(cta, self->warp * MT_WARP + self->lane, MT_FINDING_OF_BARRIER, barrier_place(self),
                  "comes to barrier %u at another place of the code than %u other %s of its CTA", id,
                  b->arrived, cta->run->warps ? "warps" : "threads");
}

uint32_t mt_cpu_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t value)
{
    struct mt_cta *cta = cta_waiting("a barrier");
    cta->current->place = mt_cpu_tls.place;
    cta->current->code = __builtin_return_address(0);
    if (MT_UNLIKELY(mt_check_all) && kind < MT_BARRIER_SOME && !count)
        barrier_check_site(cta, id % MT_BARRIERS, __builtin_return_address(0));
    return barrier_wait(cta, kind % MT_BARRIER_SOME, id % MT_BARRIERS, count, value != 0);
}

uint32_t mt_cpu_warp_barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t said)
{
    struct mt_cta *cta = cta_waiting("a barrier");
    struct mt_fiber *self = cta->current;
    const void *place = (const void *)(uintptr_t)(kind >> MT_BARRIER_PLACE);
    self->place = mt_cpu_tls.place;
    self->code = __builtin_return_address(0);
    if (MT_UNLIKELY(mt_check_all) && !(kind & MT_BARRIER_SOME) && !count)
        barrier_check_site(cta, id % MT_BARRIERS, place);
    kind %= MT_BARRIER_SOME;
    uint32_t value = kind == 1 ? said : kind == 2 ? said == 0 : said != 0;
    struct mt_barrier *b =
        barrier_arrive(cta, kind, id %= MT_BARRIERS, (count + MT_WARP - 1) / MT_WARP, value);
    worker_queue_append(&b->waiters, self);
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
    mt_check_tell(cta, wait * each, MT_FINDING_OF_BARRIER, barrier_place(&cta->fiber[wait]),
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

/* Reports each barrier at which threads wait when nothing can run any more (MEMTRACE_CHECK). */
static void barrier_tell_all(struct mt_cta *cta)
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
        p = local_skip(skip) ? NULL : local_alloc(bytes, ctas, stride, NULL);
        skip = MARGIN;
    } while (p && (uint32_t)(uintptr_t)p + MARGIN < 2 * MARGIN);
    return p;
}

/* Returns a cluster for the next CTAs of a run; NULL without memory. */
static struct mt_cluster *cluster_take(struct mt_worker *w, const struct mt_pool_launch *run)
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

/* Takes an ended CTA out of its cluster. Returns 1 if it was the last one, or has no cluster. */
static int cluster_left(struct mt_cta *cta)
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
    worker_queue_append(&cta->cluster_waiters, self);
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

static void worker_quiet(struct mt_worker *w, int quiet);

static void cta_bind(struct mt_cta *cta)
{
    const struct mt_pool_launch *run = cta->run;
    const struct mt_cpu_launch *launch = run->launch;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    worker_quiet(cta->worker, cta->quiet);
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
    t->site_base = run->launch->image->head->site_base ? 0 : run->launch->image->site_base;
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

/* Sets up `cta` as CTA `linear` of a run, with shared memory, as the given rank of `cluster` (NULL: none).
 * Returns 0 or MT_ERR_MEMORY. */
static int cta_begin(struct mt_cta *cta, struct mt_worker *w, struct mt_pool_launch *run, uint64_t linear,
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
        stack = stack_take(cta->worker, (int)cta->run->warps);
        if (!stack)
            mt_fault_fail(MT_ERR_MEMORY, "no memory for the stacks of the device threads");
        f->sp = fiber_prepare(stack);
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
    if (warp_release_parked(cta))
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
        barrier_tell_all(cta);
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
                      mt_cpu_settings.stack);
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
        worker_quiet(cta->worker, cta->quiet);
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

/* Runs a CTA as fibers until it is done, fails, or only spins. */
static enum mt_status cta_resume(struct mt_cta *cta)
{
    struct mt_worker *w = cta->worker;
    cta_bind(cta);
    /* start() may report exhausted memory, and there is no fiber yet to leave. */
    int warps = (int)cta->run->warps;
    if (!cta->ready.head && !w->stacks[warps].nfree) {
        struct mt_stack *s = stack_take(w, warps);
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

/* Runs a CTA as one call of run->loop. */
static enum mt_status cta_loop(struct mt_cta *cta)
{
    struct mt_worker *w = cta->worker;
    cta_bind(cta);
    cta_enter(cta, &w->loop_fiber);
    cta_run(cta, w->loop_fiber.sp, 0);
    mt_cpu_tls.cta_state = NULL;
    if (w->status == MT_CTA_FAILED)
        w->loop_fiber.sp = fiber_prepare(w->loop_fiber.stack);
    return w->status;
}

/* Drops the fibers of a CTA that will not resume. */
static void cta_abandon(struct mt_cta *cta)
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
    const uint32_t place = mt_cpu_tls.place; /* of the warp function, which follows */
    worker_queue_append(&cta->ready, self);
    cta->nready++;
    cta_enter(cta, f);
    mt_fiber_switch(&self->sp, f->sp, f->result);
    mt_cpu_tls.place = place;
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
            if (!stuck || !warp_release_parked(cta)) {
                worker_queue_append(&cta->ready, self);
                cta->nready++;
                to_worker(cta, &self->sp, MT_CTA_SPINS);
                return;
            }
        }
        f = cta_pick(cta);
        if (!f) /* impossible: the last one that can run yields to the worker above */
            return;
    }
    worker_queue_append(&cta->ready, self);
    cta->nready++;
    cta_enter(cta, f);
    mt_fiber_switch(&self->sp, f->sp, f->result);
}

void mt_cpu_nanosleep(uint32_t ns)
{
    mt_cpu_yield();
}

static int pool_claim_other(const struct mt_pool_launch *not_this, struct mt_claim *claim);

/* Reports that `finished` CTAs of a run have ended with their records flushed; the run may be freed
 * afterwards. */
static void pool_report(struct mt_pool_launch *run, uint64_t finished);
/* Claims the next CTAs of a launch other than `run`. */
static int pool_claim_other(const struct mt_pool_launch *run, struct mt_claim *claim);
/* Claims the next CTAs, from `preferred` if it has any. Returns 0 if there are none. */
static int pool_claim(struct mt_pool_launch *preferred, struct mt_claim *claim);
/* Waits until there is something to claim. Returns the number of SMs. */
static unsigned pool_wait(const struct mt_worker *w);

#define RESIDENT_THREADS_MAX 65536 /* device threads in flight on one worker, unless cooperative */
#define OTHERS_THREADS_MAX (2 * RESIDENT_THREADS_MAX) /* the same with CTAs of other launches */
#define SPINS_BEFORE_STUCK 1024                       /* spins of a CTA before its wait is examined */
#define SPINS_BEFORE_MORE 32 /* spins of a plain launch's CTA before the next CTA begins */

_Thread_local struct mt_worker *mt_worker_self __attribute__((tls_model("initial-exec")));

struct mt_cpu_settings mt_cpu_settings = {.buffer = (size_t)1 << 20, .stack = (size_t)64 << 10};

/* ---- records ---- */

/* Calls f on the worker's own stack: a device thread may have used up nearly all of its own, and an
 * overflow under locks of the trace could not become a failed launch. */
static void worker_call(struct mt_worker *w, void (*f)(void *worker, int last), int last)
{
    int in_device = w->in_device;
    w->in_device = 0; /* a fault inside is not the kernel's */
    if (in_device)
        mt_fiber_call(w->sched_sp, f, w, last);
    else
        f(w, last);
    w->in_device = in_device;
}

static void worker_hand_on_all(void *worker, int last)
{
    const struct mt_cpu_launch *l = ((struct mt_worker *)worker)->run->launch;
    mt_runs_flush(worker, last);
    l->fence(l->flush_ctx);
}

/* Orders all records so far before anything that any worker hands on later. */
static void worker_hand_on(struct mt_worker *w)
{
    if (w->run->launch->fence && !w->quiet) /* quiet: all records that are kept have been handed on */
        worker_call(w, worker_hand_on_all, 1);
}

struct mt_run_room mt_cpu_run_room(uint64_t base, int64_t stride, const uint64_t *lane, uint32_t mask,
                                   uint32_t meta, uint32_t site)
{
    uint32_t bad = 0;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    const struct mt_access_runs *runs = mt_worker_self->runs;
    if (MT_UNLIKELY(mt_check_on) && mt_rec_space(meta >> 28) <= MT_IN_LOCAL) /* not a barrier */
        bad = lane ? mt_check_warp(lane, mask, meta, site, __builtin_return_address(0))
                   : mt_check_row(base, stride, mask, meta, site, __builtin_return_address(0));
    if (t->run == runs->run + MT_RUNS)
        worker_call(mt_worker_self, mt_runs_flush, 0);
    if (mt_check_on)
        t->run_end = t->run + 1; /* room for this access */
    return (struct mt_run_room){t->run, bad};
}

struct mt_access_run *mt_cpu_region_room(uint32_t units)
{
    worker_call(mt_worker_self, mt_runs_flush, 0);
    return mt_cpu_tls.run;
}

void mt_cpu_run_bad(void)
{
    mt_check_end();
}

uint64_t mt_cpu_run_nowhere(uint32_t meta)
{
    struct mt_worker *w = mt_worker_self;
    if ((meta & MT_RAW_MAX_SIZE) > sizeof w->nowhere)
        mt_check_end();
    memset(w->nowhere, 0, sizeof w->nowhere);
    return (uint64_t)(uintptr_t)w->nowhere;
}

/* Collects the program's counts since the worker joined this run. */
static void worker_take_counts(struct mt_pool_launch *run)
{
    uint64_t *counts = mt_cpu_tls.counts;
    for (unsigned i = 0; i < MT_COUNTS; i++)
        if (counts[i])
            atomic_fetch_add_explicit(&run->counts[i], counts[i], memory_order_relaxed);
    memset(counts, 0, MT_COUNTS * sizeof *counts);
}

/* Starts (quiet 1) or ends (0) the dropping of records and counts of device code. */
static void worker_quiet(struct mt_worker *w, int quiet)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    if (MT_LIKELY(w->quiet == quiet))
        return;
    worker_call(w, mt_runs_flush, 0);
    w->quiet = quiet;
    if (quiet) {
        w->kept.untraced = t->untraced;
        memcpy(w->kept.counts, t->counts, sizeof t->counts);
    } else {
        t->untraced = w->kept.untraced;
        memcpy(t->counts, w->kept.counts, sizeof t->counts);
    }
}

/* ---- claiming and reporting ---- */

/* Flushes, and reports the finished CTAs of the worker's run. */
static void worker_report(struct mt_worker *w)
{
    struct mt_pool_launch *run = w->run;
    uint64_t finished = w->finished;
    worker_quiet(w, 0);
    if (!run)
        return;
    worker_call(w, mt_runs_flush, 1);
    if (mt_cpu_tls.untraced)
        atomic_fetch_add_explicit(&run->untraced, mt_cpu_tls.untraced, memory_order_relaxed);
    mt_cpu_tls.untraced = 0;
    if (MT_UNLIKELY(run->launch->kernel->flags & MT_KERNEL_COUNTED))
        worker_take_counts(run);
    w->run = NULL;
    w->finished = 0;
    pool_report(run, finished);
}

static void worker_attach(struct mt_worker *w, struct mt_pool_launch *run)
{
    if (w->run != run) {
        worker_report(w);
        w->run = run;
    }
}

static int has_failed(struct mt_pool_launch *run)
{
    return atomic_load_explicit(&run->failed, memory_order_relaxed) != 0;
}

/* Returns 1 if CTAs are claimed but not begun; those of a failed run never begin. */
static int has_claim(struct mt_worker *w)
{
    struct mt_claim *c = &w->claim;
    if (c->next < c->end && has_failed(c->run)) {
        worker_attach(w, c->run);
        w->finished += c->end - c->next;
        c->next = c->end;
    }
    return c->next < c->end;
}

/* Takes the next claimed CTA and attaches the worker to its run. */
static void take_claim(struct mt_worker *w, struct mt_pool_launch **run, uint64_t *linear)
{
    *run = w->claim.run;
    *linear = w->claim.next++;
    worker_attach(w, *run);
}

/* Takes the next CTA. Returns 0 if there is none. */
static int worker_claim(struct mt_worker *w, struct mt_pool_launch **run, uint64_t *linear)
{
    if (!has_claim(w) && !pool_claim(w->run, &w->claim))
        return 0;
    take_claim(w, run, linear);
    return 1;
}

/* Takes another CTA while one of `spins` only spins: its wait may be for another launch, or for its own. A
 * launch whose CTAs all spin must not keep the others out. */
static int claim_beside(struct mt_worker *w, const struct mt_cta *spins, struct mt_pool_launch **run,
                        uint64_t *linear)
{
    const struct mt_pool_launch *own = spins->run;
    int room = own->cooperative || w->resident_threads + MT_CTA_MAX <= RESIDENT_THREADS_MAX;
    int others = w->resident_threads + MT_CTA_MAX <= OTHERS_THREADS_MAX || own->cooperative;
    if (!has_claim(w) && !(others && pool_claim_other(own, &w->claim)) &&
        !(room && pool_claim(w->run, &w->claim)))
        return 0;
    take_claim(w, run, linear);
    return 1;
}

/* ---- running CTAs ---- */

static struct mt_cta *take_cta(struct mt_worker *w)
{
    struct mt_cta *cta = w->free_ctas;
    if (cta)
        w->free_ctas = cta->next;
    else
        cta = calloc(1, sizeof *cta);
    return cta;
}

static void give_cta(struct mt_worker *w, struct mt_cta *cta)
{
    cta->next = w->free_ctas;
    w->free_ctas = cta;
}

static void add_resident(struct mt_worker *w, struct mt_cta *cta)
{
    if (w->resident) {
        cta->next = w->resident->next;
        w->resident->next = cta;
    } else {
        cta->next = cta;
    }
    w->resident = cta; /* it runs next */
    w->nresident++;
    w->resident_threads += cta->run->nthreads;
}

static void remove_resident(struct mt_worker *w, struct mt_cta *cta)
{
    struct mt_cta *p = cta;
    while (p->next != cta)
        p = p->next;
    p->next = cta->next;
    w->resident = p == cta ? NULL : p->next;
    w->nresident--;
    w->resident_threads -= cta->run->nthreads;
    give_cta(w, cta);
}

static void worker_no_memory(struct mt_pool_launch *run)
{
    mt_fault_record(run, MT_ERR_MEMORY, "no memory for a CTA and its shared memory");
}

/* Begins a CTA: kernels without waits run to the end here, others become resident. */
static void begin_cta(struct mt_worker *w, struct mt_pool_launch *run, uint64_t linear)
{
    struct mt_cta *cta = run->loop ? w->loop_cta : take_cta(w);
    int rc = cta ? cta_begin(cta, w, run, linear, NULL, 0) : MT_ERR_MEMORY;
    if (rc)
        worker_no_memory(run);
    else if (run->loop)
        cta_loop(cta);
    else
        add_resident(w, cta);
    if (rc || run->loop)
        w->finished++;
    if (rc && cta && !run->loop)
        give_cta(w, cta);
}

/* Begins all CTAs of a cluster, which may wait for one another. */
static void begin_cluster(struct mt_worker *w, struct mt_pool_launch *run, uint64_t number)
{
    const uint32_t *size = run->launch->cluster, *grid = run->launch->grid;
    uint64_t across = grid[0] / size[0], up = grid[1] / size[1];
    uint64_t x = number % across * size[0], y = number / across % up * size[1],
             z = number / across / up * size[2];
    struct mt_cta *cta[MT_CLUSTER_MAX];
    uint32_t n = size[0] * size[1] * size[2], made = 0;
    while (made < n && (cta[made] = take_cta(w)))
        made++;
    struct mt_cluster *cluster = made == n ? cluster_take(w, run) : NULL;
    for (uint32_t r = 0; r < made; r++) {
        if (!cluster) {
            give_cta(w, cta[r]);
            continue;
        }
        uint64_t linear =
            x + r % size[0] + grid[0] * (y + r / size[0] % size[1] + grid[1] * (z + r / size[0] / size[1]));
        cta_begin(cta[r], w, run, linear, cluster, r);
        add_resident(w, cta[r]);
    }
    if (!cluster) {
        worker_no_memory(run);
        w->finished++;
    }
}

static void worker_begin(struct mt_worker *w, struct mt_pool_launch *run, uint64_t number)
{
    if (run->launch->cluster[0])
        begin_cluster(w, run, number);
    else
        begin_cta(w, run, number);
}

static void worker_deadlock(struct mt_cta *cta)
{
    const struct mt_fiber *first = cta->cluster_waiters.head;
    uint32_t number = first ? (uint32_t)(first - cta->fiber) * (cta->run->warps ? MT_WARP : 1) : 0;
    mt_check_tell(cta, number, MT_FINDING_OF_BARRIER, (struct mt_check_place){NULL, 0},
                  "waits at its cluster's barrier, to which others never come");
    cta->run->told |= mt_check_all;
    mt_fault_record(cta->run, MT_ERR_TIMEOUT,
                    "deadlock: threads wait at a cluster's barrier, others never come");
}

/* Returns 1 if all CTAs that have not ended are at the grid's barrier, which the others can never reach.
 * Its word counts arrivals, the first CTA as half of its range less the others. */
static int worker_grid_is_stuck(const struct mt_cta *cta)
{
    struct mt_pool_launch *run = cta->run;
    const uint32_t *grid = run->launch->grid;
    uint32_t ctas = grid[0] * grid[1] * grid[2], gone = run->gone;
    if (!gone || cta->spins % SPINS_BEFORE_STUCK)
        return 0;
    uint32_t came = __atomic_load_n((uint32_t *)run->workspace + MT_GRID_BARRIER, __ATOMIC_ACQUIRE) << 1 >> 1;
    came = came < 1u << 30 ? came : came - (1u << 31) + ctas;
    return came && came == ctas - gone;
}

static void worker_grid_deadlock(const struct mt_cta *cta)
{
    struct mt_pool_launch *run = cta->run;
    mt_check_tell(cta, 0, MT_FINDING_OF_BARRIER, barrier_place(&cta->fiber[0]),
                  "waits at its grid's barrier, and %u CTAs have ended without it", run->gone);
    run->told |= mt_check_all;
    mt_fault_record(run, MT_ERR_TIMEOUT,
                    "deadlock: CTAs wait at the grid's barrier, others have ended without it");
}

/* Runs the next resident CTA until it ends or spins. */
static void worker_step(struct mt_worker *w)
{
    struct mt_cta *cta = w->resident;
    struct mt_pool_launch *run = cta->run, *next;
    enum mt_status status;
    uint64_t linear;
    worker_attach(w, run);
    status = has_failed(run) ? MT_CTA_FAILED : cta->stalled ? MT_CTA_STALLED : cta_resume(cta);
    if (status == MT_CTA_FAILED)
        cta_abandon(cta);
    if (status == MT_CTA_FAILED || status == MT_CTA_DONE) {
        int last = cluster_left(cta);
        run->gone++;
        remove_resident(w, cta);
        w->finished += (uint64_t)last;
        return;
    }
    if (status == MT_CTA_STALLED) {
        if (cta->cluster->stalled == cta->cluster->left)
            worker_deadlock(cta);
        w->resident = cta->next;
        return;
    }
    cta->spins++;
    if ((run->cooperative || cta->spins > SPINS_BEFORE_MORE) && claim_beside(w, cta, &next, &linear)) {
        worker_begin(w, next, linear);
        return;
    }
    if (run->cooperative && worker_grid_is_stuck(cta))
        worker_grid_deadlock(cta);
    w->resident = cta->next;
    if (w->nresident == 1 || cta->spins % 64 == 0)
        sched_yield();
}

static void worker_drain(struct mt_worker *w)
{
    struct mt_pool_launch *run;
    uint64_t linear;
    for (;;) {
        if (w->resident)
            worker_step(w);
        else if (worker_claim(w, &run, &linear))
            worker_begin(w, run, linear);
        else
            break;
    }
    worker_report(w);
}

/* ---- the thread ---- */

static struct mt_worker *worker_new(void)
{
    struct mt_worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->raw_room = mt_cpu_settings.buffer / 24;
    w->buffer = mt_cpu_settings.compact ? NULL : malloc(w->raw_room * 24);
    w->loop_cta = calloc(1, sizeof *w->loop_cta);
    w->fault_stack = malloc(4 * MT_FAULT_STACK);
    w->runs = aligned_alloc(_Alignof(struct mt_access_runs), sizeof *w->runs); /* mostly never touched */
    int all = (w->buffer || mt_cpu_settings.compact) && w->loop_cta && w->fault_stack && w->runs;
    w->loop_fiber.stack = all ? stack_for_loops() : NULL; /* last: it cannot be freed */
    if (w->loop_fiber.stack) {
        w->loop_fiber.sp = fiber_prepare(w->loop_fiber.stack);
        return w;
    }
    free(w->runs);
    free(w->fault_stack);
    free(w->loop_cta);
    free(w->buffer);
    free(w);
    return NULL;
}

/* signal stacks of this worker: w->fault_stack has 4 * MT_FAULT_STACK bytes */
static void fault_thread(struct mt_worker *w)
{
    /* A faulting fiber ends on the upper quarter; the handler uses the rest. */
    stack_t ss = {.ss_sp = w->fault_stack, .ss_size = 3 * MT_FAULT_STACK};
    sigaltstack(&ss, NULL);
}

static void *worker_main(void *worker)
{
    struct mt_worker *w = worker;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    mt_worker_self = w;
    mt_last_ours();
    t->local_base = (uint64_t)(uintptr_t)local_start;
    t->local_bytes = local_reserved;
    mt_runs_open(w);
    t->compact = (uint32_t)mt_cpu_settings.compact;
    t->checked = mt_check_on != 0;
    fault_thread(w);
    for (;;) {
        t->nsmid = pool_wait(w);
        worker_drain(w);
    }
    return NULL;
}

/* The pool of workers and their launches. mt_cpu_start queues a launch; workers claim CTAs in ascending
 * order, in chunks for kernels without waits; the worker that reports the last CTA ends the launch. */

#define CHUNK_MAX 64
#define LOOKS 32 /* looks for work, of less than a microsecond each */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct mt_pool_launch *first; /* launches with CTAs to claim, by priority, then by age */
    _Atomic int queued;           /* 1: `first` is set, for tests without the lock */
    unsigned nworkers, sms, idle;
    uint64_t grids, progress;
    struct mt_worker *spare; /* a worker for which there was no thread */
    int ready, installed;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

/* ---- for workers ---- */

static int pool_claimable(const struct mt_pool_launch *run)
{
    return run->next < run->total && !atomic_load_explicit(&run->failed, memory_order_relaxed);
}

static struct mt_pool_launch *first_claimable(void)
{
    struct mt_pool_launch *run = pool.first;
    while (run && !pool_claimable(run))
        run = run->link;
    return run;
}

static void unlink_run(struct mt_pool_launch *run)
{
    for (struct mt_pool_launch **p = &pool.first; *p; p = &(*p)->link)
        if (*p == run) {
            *p = run->link;
            break;
        }
    pool.queued = pool.first != NULL;
}

static int is_done(const struct mt_pool_launch *run)
{
    return run->finished == run->claimed && !pool_claimable(run);
}

/* Waits a moment for the next launch and lets other threads run: waking a thread takes longer than most
 * small launches. */
static void look_out(void)
{
    for (int i = 0; i < LOOKS && !atomic_load_explicit(&pool.queued, memory_order_relaxed); i++) {
        for (int k = 0; k < 32; k++)
            __builtin_ia32_pause();
        sched_yield();
    }
}

static unsigned pool_wait(const struct mt_worker *w)
{
    unsigned sms;
    if (w->id < mt_cpu_settings.workers)
        look_out();
    pthread_mutex_lock(&pool.lock);
    while (w->id >= mt_cpu_settings.workers || !first_claimable()) {
        pool.idle++;
        pthread_cond_wait(&pool.work, &pool.lock);
        pool.idle--;
    }
    sms = pool.sms;
    pthread_mutex_unlock(&pool.lock);
    return sms;
}

/* Called with the lock. */
static void claim_of(struct mt_pool_launch *run, struct mt_claim *claim)
{
    uint64_t n = (run->total - run->next) / (4 * mt_cpu_settings.workers);
    if (!run->loop || n < 1)
        n = 1;
    if (n > CHUNK_MAX)
        n = CHUNK_MAX;
    claim->run = run;
    claim->next = run->next;
    claim->end = run->next += n;
    run->claimed += n;
    if (run->next == run->total)
        unlink_run(run);
}

static int pool_claim(struct mt_pool_launch *preferred, struct mt_claim *claim)
{
    struct mt_pool_launch *run;
    pthread_mutex_lock(&pool.lock);
    run = first_claimable();
    if (preferred && run && preferred->launch->priority <= run->launch->priority && pool_claimable(preferred))
        run = preferred;
    if (run)
        claim_of(run, claim);
    pthread_mutex_unlock(&pool.lock);
    return run != NULL;
}

static int pool_claim_other(const struct mt_pool_launch *not_this, struct mt_claim *claim)
{
    struct mt_pool_launch *run;
    pthread_mutex_lock(&pool.lock);
    for (run = pool.first; run && (run == not_this || !pool_claimable(run));)
        run = run->link;
    if (run)
        claim_of(run, claim);
    pthread_mutex_unlock(&pool.lock);
    return run != NULL;
}

/* Tells the API layer at the end of a launch about its bad accesses. Returns the launch's status. */
static int check_result(struct mt_pool_launch *run)
{
    struct mt_cpu_launch *l = run->launch;
    if (MT_LIKELY(!run->found))
        return run->failed;
    uint64_t n = mt_cpu_settings.check.end(l);
    l->told = run->ended || run->told;
    if (!run->ended)
        return run->failed;
    snprintf(l->message, sizeof l->message, "%llu bad access%s (`check` lines of its trace)",
             (unsigned long long)n, n == 1 ? "" : "es");
    return run->bad;
}

/* Calls `done` after the last CTA: only the caller knows the run by now. */
static void say_done(struct mt_pool_launch *run)
{
    struct mt_cpu_launch *l = run->launch;
    int status = check_result(run);
    args_free(run->args);
    l->records = run->records;
    l->untraced = run->untraced;
    l->undefined = run->undefined;
    l->ungrouped = l->records && l->flush_runs && run->fibers;
    l->parted = !l->ungrouped && l->records && l->flush_runs && l->kernel->flags & MT_KERNEL_PARTED;
    for (unsigned i = 0; i < MT_COUNTS; i++) {
        l->counts[i] = run->counts[i];
        l->recorded[i] = run->recorded[i];
    }
    free(run);
    l->done(l->done_ctx, status);
}

static void pool_report(struct mt_pool_launch *run, uint64_t finished)
{
    pthread_mutex_lock(&pool.lock);
    pool.progress += finished;
    run->finished += finished;
    int over = !run->over && is_done(run);
    if (over) {
        run->over = 1;
        unlink_run(run);
    }
    pthread_mutex_unlock(&pool.lock);
    if (over)
        say_done(run);
}

uint64_t mt_cpu_progress(void)
{
    pthread_mutex_lock(&pool.lock);
    uint64_t n = pool.progress;
    pthread_mutex_unlock(&pool.lock);
    return n;
}

/* ---- workers ---- */

static void pool_forked(void)
{
    /* The workers do not exist here, nor do threads that wait for them; their memory may be reused. */
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pool.first = NULL;
    pool.queued = 0;
    pool.nworkers = pool.idle = 0;
    pool.spare = NULL; /* its stack is in memory that is reused */
    mt_image_forked();
    pthread_mutex_init(&args_lock, NULL);
    free_args = NULL;
    local_reset();
}

static unsigned online_cpus(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return n > 0 ? (unsigned)n : 1;
}

int mt_cpu_init(unsigned threads, unsigned sms)
{
    int rc = local_init();
    if (rc)
        return rc;
    pthread_mutex_lock(&pool.lock);
    if (!pool.installed) {
        pool.installed = 1;
        pthread_atfork(NULL, NULL, pool_forked);
        mt_fault_install();
    }
    mt_check_on = mt_cpu_settings.check.find != NULL;
    mt_check_all = mt_check_on && !mt_cpu_settings.check.accesses_only;
    mt_cpu_settings.workers = threads ? threads : online_cpus();
    pool.sms = sms ? sms : 1;
    pool.ready = 1;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    return 0;
}

static int start_worker(void)
{
    struct mt_worker *w = pool.spare ? pool.spare : worker_new();
    if (!w)
        return ENOMEM;
    pool.spare = w; /* kept until there is a thread for it: the next launch tries again */
    w->id = pool.nworkers;
    int rc = mt_base_thread_start(NULL, 1, worker_main, w);
    if (rc)
        return rc;
    pool.nworkers++;
    pool.spare = NULL;
    return 0;
}

/* Starts worker threads up to mt_cpu_settings.workers, with the lock held. Returns 0, or an errno value if
 * there is none at all. */
static int start_workers(void)
{
    int rc = 0;
    if (pool.nworkers >= mt_cpu_settings.workers)
        return 0;
    while (pool.nworkers < mt_cpu_settings.workers && !rc)
        rc = start_worker();
    return pool.nworkers ? 0 : rc;
}

/* ---- launches ---- */

static int pool_reject(struct mt_cpu_launch *l, int code, const char *why)
{
    snprintf(l->message, sizeof l->message, "%s", why);
    return code;
}

static int pool_check(struct mt_cpu_launch *l)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (!pool.ready)
        return pool_reject(l, MT_ERR_LAUNCH, "the CPU device is not initialised");
    if (mt_worker_self && mt_worker_self->in_device)
        return pool_reject(l, MT_ERR_LAUNCH, "launched from device code");
    for (int i = 0; i < 3; i++)
        if (!l->grid[i] || !l->block[i] || l->block[i] > MT_CTA_MAX)
            return pool_reject(l, MT_ERR_CONFIGURATION, "a dimension of the grid or block is 0 or too large");
    if (threads > MT_CTA_MAX)
        return pool_reject(l, MT_ERR_CONFIGURATION, "more than 1024 threads in a block");
    uint64_t ctas = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
    if (l->cluster[0] && (!ctas || ctas > MT_CLUSTER_MAX || l->grid[0] % l->cluster[0] ||
                          l->grid[1] % l->cluster[1] || l->grid[2] % l->cluster[2]))
        return pool_reject(l, MT_ERR_CONFIGURATION, "the grid cannot be divided into such clusters");
    return 0;
}

/* Called with the lock. */
static void pool_queue(struct mt_pool_launch *run)
{
    struct mt_pool_launch **tail = &pool.first;
    run->grid_id = ++pool.grids;
    while (*tail && (*tail)->launch->priority <= run->launch->priority)
        tail = &(*tail)->link;
    run->link = *tail;
    *tail = run;
    pool.queued = 1;
    if (pool.nworkers > mt_cpu_settings.workers) /* a sleeper that may not work must not consume the signal */
        pthread_cond_broadcast(&pool.work);
    else
        for (uint64_t i = 0; i < run->total && i < pool.idle; i++)
            pthread_cond_signal(&pool.work);
}

/* Returns the whole-warp version that fits the CTA's shape, or NULL. */
static void (*pool_vector(const uint32_t *block, const void *rows, const void *tiles,
                          const void *any))(void **)
{
    const void *code = NULL;
    if (block[0] % MT_WARP == 0)
        code = rows;
    else if (block[0] % (MT_WARP / 2) == 0 && (uint64_t)block[0] * block[1] * block[2] % MT_WARP == 0)
        code = tiles;
    return (void (*)(void **))(uintptr_t)(code ? code : any);
}

static int pool_is_traced(const struct mt_cpu_launch *l)
{
    return l->flush || l->flush_runs;
}

/* Chooses warps as vectors. Returns 0 if the launch does not allow it. */
static int pool_choose_vector(struct mt_pool_launch *run)
{
    const struct mt_cpu_launch *l = run->launch;
    const struct mt_image_kernel *k = l->kernel;
    void (*record)(void **) = pool_vector(l->block, k->record_rows, k->record_tiles, k->record_any);
    void (*plain)(void **) = pool_vector(l->block, k->vector_rows, k->vector_tiles, k->record_any);
    void (*quiet)(void **) = mt_check_on ? record : plain,
                       (*code)(void **) = pool_is_traced(l) ? record : quiet;
    int waits = (k->flags & MT_KERNEL_WARPS) != 0;
    if (!code || !quiet)
        return 0;
    /* CTAs of a cluster begin together; a bad access ends a warp. */
    run->warps = waits || l->cluster[0] || mt_check_on;
    run->loop = run->warps ? NULL : code;
    run->quiet_loop = run->warps ? NULL : quiet;
    run->entry = code;
    run->quiet_entry = quiet;
    run->nthreads = run->warps ? (run->nthreads + MT_WARP - 1) / MT_WARP : run->nthreads;
    return 1;
}

/* Chooses the code: for whole warps if there is a version for the CTA's shape, else a fiber per thread;
 * without record calls if they are not needed. */
static void choose_code(struct mt_pool_launch *run)
{
    const struct mt_image_kernel *k = run->launch->kernel;
    if (pool_choose_vector(run))
        return;
    run->fibers = run->nthreads > 1; /* a single thread is its own warp */
    int plain = k->plain_entry && !mt_check_on;
    run->entry = plain && !pool_is_traced(run->launch) ? k->plain_entry : k->entry;
    run->quiet_entry = plain ? k->plain_entry : run->entry;
}

/* Fills the run of a launch. Returns 0, or a reason why it cannot run. */
static int pool_prepare(struct mt_pool_launch *run, struct mt_cpu_launch *l)
{
    run->launch = l;
    run->cooperative = l->cooperative;
    run->ordered = l->cooperative && mt_cpu_settings.workers > 1;
    run->nthreads = l->block[0] * l->block[1] * l->block[2];
    run->total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    if (l->cluster[0])
        run->total /= (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
    run->shared_bytes = ((l->image->shared_size + l->dyn_shared + 15) & ~15ull) + MT_SHARED_RESERVED;
    mt_image_constant_hull(&run->const_base, &run->const_bytes);
    choose_code(run); /* after nthreads is set */
    if (!run->loop && !run->entry)
        return pool_reject(l, MT_ERR_UNSUPPORTED, "the CPU image has no code for it");
    run->args = args_copy(l, &run->workspace);
    return run->args ? 0 : pool_reject(l, MT_ERR_MEMORY, "no memory for its arguments");
}

int mt_cpu_start(struct mt_cpu_launch *l)
{
    int rc = pool_check(l);
    l->records = l->untraced = l->undefined = l->parted = 0;
    l->ungrouped = 0;
    memset(l->counts, 0, sizeof l->counts);
    memset(l->recorded, 0, sizeof l->recorded);
    if (rc)
        return rc;
    l->message[0] = 0;
    mt_fault_take_back();
    struct mt_pool_launch *run = calloc(1, sizeof *run);
    if (!run)
        return pool_reject(l, MT_ERR_MEMORY, "no memory for a launch");
    rc = pool_prepare(run, l);
    if (rc)
        goto fail;
    pthread_mutex_lock(&pool.lock);
    rc = start_workers();
    if (!rc)
        pool_queue(run);
    pthread_mutex_unlock(&pool.lock);
    if (!rc)
        return 0;
    args_free(run->args);
    rc = pool_reject(l, MT_ERR_MEMORY, "no worker thread could be started");
fail:
    free(run);
    return rc;
}
