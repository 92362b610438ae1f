/* Insn mode: executions in a global order. */
#include "state.h"

#define RESERVE 2u

int mt_insn_start(char *why, unsigned size)
{
    return 0;
}

void mt_insn_thread(struct mt_core_thread_state *t)
{
}

static void flush(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer, *other;
    if (!b->count)
        return;
    if ((other = mt_sink_buffer(MT_BUFFER_TIMED, t->number, mt_seq_now()))) {
        mt_sink_put(b);
        t->buffer = other;
    }
}

static void append(struct mt_core_thread_state *t, uint64_t address, uint32_t site, uint32_t size)
{
    struct mt_buffer *b = t->buffer;
    b->timed[b->count++] = (struct mt_host_timed_entry){address, t->order, site, size};
    if (b->count >= MT_BUFFER_TIMED_MAX - RESERVE)
        flush(t);
}

static int enter(struct mt_core_thread_state *t)
{
    if (!mt_on() || !t || t->busy || !t->live)
        return 0;
    t->busy = 1;
    mt_spin_lock(&t->lock);
    return 1;
}

static void leave(struct mt_core_thread_state *t)
{
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

void mt_core_insn(struct mt_core_thread *pub, uint32_t site)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!enter(t))
        return;
    t->order = __atomic_fetch_add(&mt_g.order, 1, __ATOMIC_RELAXED);
    append(t, 0, site, 0);
    leave(t);
}

void mt_core_insn_operand(struct mt_core_thread *pub, uint32_t site, uint64_t address, uint32_t size)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (!enter(t))
        return;
    append(t, address, site, size);
    leave(t);
}

void mt_insn_end(struct mt_core_thread_state *t)
{
    flush(t);
}

void mt_insn_stop(void)
{
}
