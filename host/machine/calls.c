/* Functions of interest that a guest thread has entered and not left: allocators, traced functions,
 * routines. */
#include "calls.h"
#include "guest.h"
#include "memtrace/grow.h"
#include <stdlib.h>

enum { PAGE = 4096, DEEPEST = 1 << 20 };
/* Maximum distance of the stack pointer above a frame that shows that the frame is gone; farther away it
 * is on another stack (signal handlers, coroutines). */
#define SAME_STACK (8ull << 20)

static int is_allocator(const struct mt_call_frame *f)
{
    return f->watch->alloc != MT_FN_NONE && f->watch->alloc != MT_FN_MAP && f->watch->alloc != MT_FN_RUNTIME;
}

static int is_annotation(const struct mt_watch *w)
{
    return w->function >= MT_CORE_FN_REGISTER && w->function <= MT_CORE_FN_END_ROI;
}

static int traces_calls(void)
{
    return mt_core_options()->mode == MT_CORE_ATOMIC;
}

static void calls_pop(struct mt_calls *c, struct mt_core_thread *t)
{
    struct mt_call_frame *f = &c->frames[--c->count];
    if (is_allocator(f)) {
        c->allocators--;
        mt_core_allocator(t, -1);
    }
    c->silent -= f->silent;
    if (f->watch->routine)
        mt_core_routine_leave(t);
}

/* Drops frames below the stack pointer, left by longjmp or exceptions. */
static void pop_dead(struct mt_calls *c, struct mt_core_thread *t, uint64_t sp)
{
    while (c->count && c->frames[c->count - 1].sp < sp && sp - c->frames[c->count - 1].sp < SAME_STACK)
        calls_pop(c, t);
}

static struct mt_call_frame *calls_push(struct mt_calls *c)
{
    if (c->count == DEEPEST || mt_grow(&c->frames, &c->room, c->count + 1, sizeof *c->frames))
        return NULL;
    return &c->frames[c->count++];
}

static void calls_before(struct mt_core_thread *t, const struct mt_call_frame *f)
{
    switch (f->watch->alloc) {
    case MT_FN_FREE:
    case MT_FN_DELETE:
        if (f->args[0])
            mt_core_free(t, f->args[0]);
        break;
    case MT_FN_REALLOC:
    case MT_FN_REALLOCARRAY:
        if (f->args[0])
            mt_core_realloc_begin(t, f->args[0]);
        break;
    default:
        break;
    }
}

void mt_calls_enter(struct mt_calls *c, struct mt_core_thread *t, const struct mt_watch *w, uint64_t sp,
                    uint64_t bp, uint64_t ip, const uint64_t args[3])
{
    pop_dead(c, t, sp);
    if (c->silent && w->alloc == MT_FN_RUNTIME)
        return; /* the one called from outside counts */
    /* The same function at the same stack address: the previous call did not return. (A different function
     * is a tail call: both return together.) */
    if (c->count && c->frames[c->count - 1].sp == sp && c->frames[c->count - 1].watch == w)
        calls_pop(c, t);
    struct mt_call_frame *f = calls_push(c);
    if (!f)
        return;
    *f = (struct mt_call_frame){w, sp, mt_guest_u64(sp), ip, bp, {args[0], args[1], args[2]}, 0, 0};
    if (!f->ip)
        f->ip = f->ret - 1; /* inside the call instruction: good enough for a line */
    f->silent = w->alloc == MT_FN_RUNTIME;
    c->silent += f->silent;
    if (is_allocator(f)) {
        f->counted = c->allocators++ == 0 && !c->silent;
        mt_core_allocator(t, 1);
        if (f->counted)
            calls_before(t, f);
    }
    if (w->routine)
        mt_core_routine_enter(t);
    if (is_annotation(w) || (w->function && traces_calls()))
        mt_core_call(t, w->function, sp, args);
}

static void calls_reallocated(struct mt_core_thread *t, const struct mt_call_frame *f, uint64_t value,
                              uint64_t bytes)
{
    if (!value && bytes)
        return; /* failed: the old block stays */
    if (!f->args[0])
        mt_core_alloc(t, MT_CORE_REALLOC, value, bytes, f->ip);
    else if (value)
        mt_core_realloc(t, f->args[0], value, bytes, f->ip);
    else
        mt_core_free(t, f->args[0]);
}

/* Takes note of blocks that the C runtime allocates for itself, which are no data of the program. */
static void calls_keep(const struct mt_call_frame *f, uint64_t value)
{
    if (mt_core_options()->others != MT_CODE_DATA || !mt_modules_keeps(f->ret - 1))
        return;
    mt_core_alloc_keep(f->watch->alloc == MT_FN_POSIX_MEMALIGN ? mt_guest_u64(f->args[0]) : value);
}

/* Says who made the call, before its allocation is reported. */
static void calls_callers(struct mt_calls *c, struct mt_core_thread *t, const struct mt_call_frame *f)
{
    uint64_t ip[MT_CORE_CALLERS];
    if (f->watch->alloc == MT_FN_FREE || f->watch->alloc == MT_FN_DELETE || !mt_core_wants_callers())
        return;
    mt_core_callers(
        t, ip,
        mt_modules_callers(f->ret - 1, f->sp + 8, f->bp, ip, MT_CORE_CALLERS, &c->stack_end, &c->stacks));
}

static void calls_after(struct mt_core_thread *t, const struct mt_call_frame *f, uint64_t value)
{
    const uint64_t *a = f->args;
    switch (f->watch->alloc) {
    case MT_FN_MALLOC:
        mt_core_alloc(t, MT_CORE_MALLOC, value, a[0], f->ip);
        break;
    case MT_FN_CALLOC:
        mt_core_alloc(t, MT_CORE_CALLOC, value, a[0] * a[1], f->ip);
        break;
    case MT_FN_REALLOC:
        calls_reallocated(t, f, value, a[1]);
        break;
    case MT_FN_REALLOCARRAY:
        calls_reallocated(t, f, value, a[1] * a[2]);
        break;
    case MT_FN_MEMALIGN:
        mt_core_alloc(t, MT_CORE_MEMALIGN, value, a[1], f->ip);
        break;
    case MT_FN_POSIX_MEMALIGN:
        if ((uint32_t)value == 0)
            mt_core_alloc(t, MT_CORE_MEMALIGN, mt_guest_u64(a[0]), a[2], f->ip);
        break;
    case MT_FN_VALLOC:
        mt_core_alloc(t, MT_CORE_MEMALIGN, value, a[0], f->ip);
        break;
    case MT_FN_PVALLOC:
        mt_core_alloc(t, MT_CORE_MEMALIGN, value, (a[0] + PAGE - 1) / PAGE * PAGE, f->ip);
        break;
    case MT_FN_NEW:
        mt_core_alloc(t, MT_CORE_NEW, value, a[0], f->ip);
        break;
    default:
        break;
    }
}

void mt_calls_return(struct mt_calls *c, struct mt_core_thread *t, uint64_t ip, uint64_t sp, uint64_t value)
{
    pop_dead(c, t, sp - 8);
    while (c->count && c->frames[c->count - 1].sp == sp - 8) {
        const struct mt_call_frame *f = &c->frames[c->count - 1];
        if (f->ret == ip) {
            if (f->counted) {
                calls_callers(c, t, f);
                calls_after(t, f, value);
                calls_keep(f, value);
            }
            if (f->watch->function && !is_annotation(f->watch) && traces_calls())
                mt_core_return(t, f->watch->function, f->sp, value);
        }
        calls_pop(c, t);
    }
}

uint64_t mt_calls_site(const struct mt_calls *c)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->frames[i].watch->alloc != MT_FN_NONE)
            return c->frames[i].ip;
    return 0;
}

void mt_calls_free(struct mt_calls *c)
{
    free(c->frames);
    *c = (struct mt_calls){0};
}
