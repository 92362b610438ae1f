/* Insn mode: executions in a global order. Text is grouped by instruction, so it can only be written at
 * the end; until then entries wait in a spool. */
#include "atomic.h"
#include "output.h"
#include "format/host_text.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESERVE 64u        /* entries for the operands of one execution, which stay in one buffer */
#define ROOM (4u * 65536u) /* a head line: three strings of the table */

static struct mt_spool spool = {.file = {.fd = -1}};
static struct mt_spin spool_lock;

int mt_insn_start(char *why, unsigned size)
{
    return mt_g.o->container ? 0 : mt_spool_open(&spool, why, size);
}

/* ---- recording ---- */

static void to_spool(struct mt_buffer *b)
{
    mt_spin_lock(&spool_lock);
    int rc = mt_spool_add(&spool, b->timed, b->count);
    mt_spin_unlock(&spool_lock);
    if (rc)
        mt_core_fail("the scratch file for instructions: %s; set TMPDIR to a larger disk, or use -o FILE.mtc",
                     strerror(rc));
    b->count = 0;
}

static void insn_flush(struct mt_core_thread_state *t)
{
    struct mt_buffer *b = t->buffer, *other;
    if (!b || !b->count)
        return;
    if (!mt_g.o->container) {
        to_spool(b);
    } else if ((other = mt_core_sink_buffer(MT_BUFFER_TIMED, t->number, mt_seq_now()))) {
        mt_core_sink_put(b);
        t->buffer = other;
    } else {
        mt_count(&t->lost, b->count);
        b->count = 0;
    }
}

static void insn_append(struct mt_core_thread_state *t, uint64_t address, uint32_t site, uint32_t size)
{
    struct mt_buffer *b = t->buffer;
    b->timed[b->count++] = (struct mt_host_timed_entry){address, t->order, site, size};
    if (b->count >= MT_BUFFER_TIMED_MAX - 2)
        insn_flush(t);
}

static int insn_enter(struct mt_core_thread_state *t)
{
    if (!mt_on() || !t || !t->live)
        return 0;
    if (t->busy) {
        mt_count(&t->lost, 1);
        return 0;
    }
    t->busy = 1;
    mt_spin_lock(&t->lock);
    if (mt_on() && t->buffer)
        return 1;
    mt_spin_unlock(&t->lock); /* stopped meanwhile */
    t->busy = 0;
    return 0;
}

static void insn_leave(struct mt_core_thread_state *t)
{
    mt_spin_unlock(&t->lock);
    t->busy = 0;
}

/* Records by turns, as in atomic mode: with the next time, or (`more`) the last one again. */
static void insn_turn(struct mt_core_thread_state *t, uint64_t address, uint32_t site, uint32_t size,
                      int more)
{
    if (!mt_on() || !t->live)
        return;
    if (t->busy) {
        mt_count(&t->lost, 1);
        return;
    }
    mt_turns_close(t);
    if (!more)
        t->time = mt_order_tick(t->time);
    mt_turns_append(t, address, t->time, site, size);
    if (mt_turns_full(t)) {
        t->busy = 1;
        mt_atomic_write(t, t->time);
        t->busy = 0;
    }
    mt_turns_open(t);
}

void mt_core_insn(struct mt_core_thread *pub, uint32_t site)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (t && mt_turns(t)) {
        insn_turn(t, 0, site, 0, 0);
        return;
    }
    if (!insn_enter(t))
        return;
    if (t->buffer->count >= MT_BUFFER_TIMED_MAX - RESERVE)
        insn_flush(t);
    t->order = __atomic_fetch_add(&mt_g.order, 1, __ATOMIC_RELAXED);
    insn_append(t, 0, site, 0);
    insn_leave(t);
}

void mt_core_insn_operand(struct mt_core_thread *pub, uint32_t site, uint64_t address, uint32_t size)
{
    struct mt_core_thread_state *t = pub ? pub->state : NULL;
    if (t && mt_turns(t)) {
        insn_turn(t, address, site, size, 1);
        return;
    }
    if (!insn_enter(t))
        return;
    insn_append(t, address, site, size);
    insn_leave(t);
}

/* Logs an event with a time of its own: start and end of a thread take a place in the order, so that they
 * keep it when all threads are sorted. */
static void insn_event(struct mt_core_thread_state *t, enum mt_host_event kind, uint64_t arg)
{
    struct mt_buffer *b = t->buffer;
    if (mt_turns(t)) {
        mt_turns_close(t);
        t->time = mt_order_alone > t->time ? mt_order_alone : t->time;
        mt_turns_append(t, arg, t->time + 1, 0, (uint32_t)kind);
        return;
    }
    t->order = __atomic_load_n(&mt_g.order, __ATOMIC_RELAXED);
    b->timed[b->count++] = (struct mt_host_timed_entry){arg, t->order, 0, (uint32_t)kind};
    if (b->count >= MT_BUFFER_TIMED_MAX - RESERVE)
        insn_flush(t);
}

void mt_insn_thread(struct mt_core_thread_state *t)
{
    mt_spin_lock(&t->lock);
    t->name = (int64_t)t->number;
    if (mt_g.o->container && t->buffer)
        insn_event(t, MT_HOST_EV_THREAD_START, t->number);
    mt_spin_unlock(&t->lock);
}

void mt_insn_end(struct mt_core_thread_state *t)
{
    mt_spin_lock(&t->lock);
    if (mt_g.o->container && t->buffer)
        insn_event(t, MT_HOST_EV_THREAD_END, 0);
    if (mt_turns(t))
        mt_atomic_flush(t);
    else
        insn_flush(t);
    mt_spin_unlock(&t->lock);
}

void mt_insn_flush(struct mt_core_thread_state *t)
{
    insn_flush(t);
}

/* ---- the text ---- */

static int by_address(const void *a, const void *b)
{
    const struct mt_core_kept_site *x = mt_site_of(*(const uint32_t *)a << 2),
                                   *y = mt_site_of(*(const uint32_t *)b << 2);
    if (x->ip != y->ip)
        return x->ip < y->ip ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* Ranks of instructions by ascending address; an instruction registered twice has one rank. */
struct ranks {
    uint32_t *by_rank, *rank; /* instruction of each rank, rank of each instruction */
    uint64_t bytes;
    uint32_t count;
};

static int insn_same(uint32_t a, uint32_t b)
{
    const struct mt_core_kept_site *x = mt_site_of(a << 2), *y = mt_site_of(b << 2);
    return x->ip == y->ip && x->text == y->text;
}

static int rank_all(struct ranks *r)
{
    uint32_t all = mt_site_instructions(), n = 0;
    r->bytes = all * sizeof *r->rank;
    r->by_rank = mt_plat_map(r->bytes);
    r->rank = mt_plat_map(r->bytes);
    if (!r->by_rank || !r->rank)
        return ENOMEM;
    for (uint32_t i = 1; i < all; i++)
        if (mt_site_of(i << 2))
            r->by_rank[n++] = i;
    qsort(r->by_rank, n, sizeof *r->by_rank, by_address);
    for (uint32_t i = 0; i < n; i++) {
        if (!r->count || !insn_same(r->by_rank[r->count - 1], r->by_rank[i]))
            r->by_rank[r->count++] = r->by_rank[i];
        r->rank[r->by_rank[i]] = r->count - 1;
    }
    return 0;
}

struct printer {
    const struct ranks *ranks;
    char *room;
    uint32_t rank;
    uint64_t order;
    int open; /* 1: an execution's line is open */
};

static void insn_put(struct printer *p, size_t n)
{
    mt_core_sink_text_locked(p->room, n);
}

static void close_line(struct printer *p)
{
    if (p->open)
        insn_put(p, mt_text_insn_end(p->room, ROOM));
    p->open = 0;
}

static void insn_head(struct printer *p, uint32_t rank)
{
    const struct mt_core_kept_site *s = mt_site_of(p->ranks->by_rank[rank] << 2);
    insn_put(p, mt_text_insn_head(p->room, ROOM, s->ip, s->text, s->reads, s->writes));
    p->rank = rank;
}

static void insn_print(void *arg, const struct mt_host_timed_entry *e, uint32_t rank)
{
    struct printer *p = arg;
    const struct mt_core_kept_site *s = mt_site_of(e->site);
    unsigned k = MT_HOST_OPERAND(e->site);
    if (p->open && (rank != p->rank || e->time != p->order))
        close_line(p);
    if (!s)
        return;
    if (rank != p->rank)
        insn_head(p, rank);
    if (!p->open) {
        insn_put(p, mt_text_insn_begin(p->room, ROOM, e->time));
        p->order = e->time;
        p->open = 1;
    }
    insn_put(p, mt_text_insn_operand(p->room, ROOM, (enum mt_host_op)s->op[k], e->address,
                                     e->size ? e->size : s->size[k]));
}

void mt_insn_stop(void)
{
    struct ranks ranks = {.count = 0};
    struct printer p = {.ranks = &ranks, .rank = UINT32_MAX};
    if (mt_g.o->container || spool.file.fd < 0)
        return;
    mt_spin_lock(&spool_lock);
    p.room = mt_plat_map(ROOM);
    int rc = p.room ? rank_all(&ranks) : ENOMEM;
    if (!rc) {
        struct mt_spool_reader r = {.rank = ranks.rank, .ranks = ranks.count, .entry = insn_print, .arg = &p};
        mt_core_sink_text_lock();
        rc = mt_spool_read(&spool, &r);
        close_line(&p);
        mt_core_sink_text_unlock();
    }
    if (rc)
        mt_core_fail(
            "the instructions cannot be put in order: %s; set TMPDIR to a larger disk, or use -o FILE.mtc",
            strerror(rc));
    mt_plat_unmap(p.room, ROOM);
    mt_plat_unmap(ranks.rank, ranks.bytes);
    mt_plat_unmap(ranks.by_rank, ranks.bytes);
    mt_spin_unlock(&spool_lock);
}
