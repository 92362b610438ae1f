/* CTA barriers: sixteen per CTA, by thread count, with reductions.
 * A thread that has exited counts as arrived. */
#include <stdio.h>
#include "check.h"
#include "scheduler.h"

static void barrier_release(struct mt_cta *cta, uint32_t id)
{
    struct mt_barrier *b = &cta->barrier[id];
    struct mt_queue *w = &b->waiters;
    if (cta->run->ordered && !b->expected) /* all CTAs wait so before they come to a grid's barrier */
        mt_worker_hand_on(cta->worker);
    if (b->reduce)
        for (struct mt_fiber *f = w->head; f; f = f->next)
            f->result = b->acc;
    for (uint32_t i = 0; b->nwaiters == cta->alive && i < cta->nwarps; i++)
        cta->warp[i].blocked = cta->warp[i].settled = 0;
    if (cta->nwarps && (cta->uneven || b->nwaiters != cta->alive)) {
        mt_warp_wake(cta, w, !b->expected);
    } else if (w->head) {
        if (cta->ready.head)
            cta->ready.tail->next = w->head;
        else
            cta->ready.head = w->head;
        cta->ready.tail = w->tail;
        cta->nready += b->nwaiters;
    }
    w->head = w->tail = NULL;
    b->nwaiters = b->arrived = b->reduce = 0;
    cta->active_barriers &= ~(1u << id);
}

static int barrier_complete(const struct mt_cta *cta, const struct mt_barrier *b)
{
    return b->arrived >= (b->expected && b->expected < cta->alive ? b->expected : cta->alive);
}

/* value: how many of those that arrive say yes; for kind 2, whether all do. */
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
    mt_queue_append(&b->waiters, self);
    b->nwaiters++;
    if (!b->expected && cta->nwarps)
        mt_warp_settles(cta, self);
    if (barrier_complete(cta, b))
        barrier_release(cta, id);
    else if (MT_UNLIKELY(w->parked != 0))
        mt_warp_parked_check(cta, w, self->warp);
    return (uint32_t)mt_cta_block(cta, self);
}

/* All threads that have not ended are to come to the same barrier of the code, which `site` tells from
 * others.
 */
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
    struct mt_cta *cta = mt_cta_waiting("a barrier");
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
    struct mt_cta *cta = mt_cta_waiting("a barrier");
    struct mt_fiber *self = cta->current;
    const void *place = (const void *)(uintptr_t)(kind >> MT_BARRIER_PLACE);
    if (MT_UNLIKELY(mt_check_all) && !(kind & MT_BARRIER_SOME) && !count)
        barrier_check_site(cta, id % MT_BARRIERS, place, __builtin_return_address(0));
    kind %= MT_BARRIER_SOME;
    uint32_t value = kind == 1 ? said : kind == 2 ? said == 0 : said != 0;
    struct mt_barrier *b =
        barrier_arrive(cta, kind, id %= MT_BARRIERS, (count + MT_WARP - 1) / MT_WARP, value);
    mt_queue_append(&b->waiters, self);
    b->nwaiters++;
    if (barrier_complete(cta, b))
        barrier_release(cta, id);
    return (uint32_t)mt_cta_block(cta, self);
}

void mt_cpu_barrier_arrive(uint32_t id, uint32_t count, uint32_t aligned)
{
    struct mt_cta *cta = mt_cta_waiting("a barrier");
    if (cta->run->warps)
        count = (count + MT_WARP - 1) / MT_WARP;
    struct mt_barrier *b = barrier_arrive(cta, 0, id % MT_BARRIERS, count, 0);
    if (barrier_complete(cta, b))
        barrier_release(cta, id % MT_BARRIERS);
}

void mt_barrier_exited(struct mt_cta *cta)
{
    for (uint32_t m = cta->active_barriers; m; m &= m - 1) {
        uint32_t id = (uint32_t)__builtin_ctz(m);
        if (barrier_complete(cta, &cta->barrier[id]) && cta->barrier[id].arrived)
            barrier_release(cta, id);
    }
}

/* Says of a barrier that not enough threads come to. others: what is with those. */
static void barrier_tell(const struct mt_cta *cta, uint32_t id, const char *others)
{
    const struct mt_barrier *b = &cta->barrier[id];
    uint32_t each = cta->run->warps ? MT_WARP : 1,
             wait = b->nwaiters ? (uint32_t)(b->waiters.head - cta->fiber) : 0;
    mt_check_tell(cta, wait * each, MT_FINDING_OF_BARRIER, NULL,
                  "%u of %u %s come to barrier %u, and others %s", b->arrived,
                  b->expected ? b->expected : cta->alive, each > 1 ? "warps" : "threads", id, others);
}

/* A barrier for part of the CTA does not say which threads: those that exited may be among them. */
int mt_barrier_force(struct mt_cta *cta)
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

void mt_barrier_describe(struct mt_cta *cta, char *text, size_t size)
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
