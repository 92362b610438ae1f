/* See order.h. */
#include "order.h"
#include "queue.h"
#include "base/options.h"
#include "trace/events.h"
#include <stdlib.h>
#include <string.h>

static struct mt_clock host;
/* By device; blocking: of all streams that the legacy one follows. */
static struct mt_clock blocking[MT_DEVICES_MAX], all[MT_DEVICES_MAX];
static int streams; /* that have a number */

static void order_join(struct mt_clock *to, const struct mt_clock *from)
{
    for (int i = 0; i < streams; i++)
        to->n[i] = from->n[i] > to->n[i] ? from->n[i] : to->n[i];
}

/* Is there something to say? */
static int order_is_on(void)
{
    return mt_options()->check && streams <= MT_ORDER_STREAMS;
}

static void order_mark(struct mt_mark *m, const struct mt_clock *now)
{
    if (!m->clock)
        m->clock = malloc(sizeof *m->clock);
    if (m->clock)
        *m->clock = *now;
}

static void order_join_all(struct mt_clock *to, int device)
{
    for (int i = 0; i < mt_devices(); i++)
        if (device < 0 || device == i)
            order_join(to, &all[i]);
}

static void order_join_mark(struct mt_clock *to, const struct mt_mark *m)
{
    if (m->clock)
        order_join(to, m->clock);
    else /* recorded by nobody that is known: then after all */
        order_join_all(to, -1);
}

/* What comes before the next operation of the stream. */
static void order_before(struct mt_clock *c, const struct mt_stream *s, const struct mt_op *op)
{
    const struct mt_stream *legacy = mt_stream_legacy(s->device);
    order_join(c, &host);
    if (s->legacy)
        order_join(c, &blocking[s->device]);
    else if (legacy && !(s->flags & cudaStreamNonBlocking))
        order_join(c, &legacy->clock);
    if (op->after)
        order_join_mark(c, op->after);
}

static void order_write(const struct mt_op *op, const struct mt_stream *s)
{
    uint64_t pairs[2 * MT_ORDER_STREAMS];
    size_t n = 0;
    for (int i = 0; i < streams; i++)
        if (s->clock.n[i] && i != s->order - 1) {
            pairs[n++] = (uint64_t)i;
            pairs[n++] = s->clock.n[i];
        }
    mt_event_order(op->ticket, (uint64_t)s->order - 1, s->clock.n[s->order - 1], pairs, n);
}

void mt_order_submit(struct mt_stream *s, const struct mt_op *op)
{
    if (!order_is_on())
        return;
    if (!s->order && (s->order = ++streams) > MT_ORDER_STREAMS)
        return;
    order_before(&s->clock, s, op);
    s->clock.n[s->order - 1]++;
    if (!(s->flags & cudaStreamNonBlocking))
        order_join(&blocking[s->device], &s->clock);
    order_join(&all[s->device], &s->clock);
    if (op->reaches)
        order_mark(op->reaches, &s->clock);
    if (op->kind != MT_OP_RECORD && op->kind != MT_OP_WAIT && op->kind != MT_OP_HOST)
        order_write(op, s);
}

void mt_order_waited(const struct mt_stream *s)
{
    if (order_is_on())
        order_join(&host, s->legacy ? &blocking[s->device] : &s->clock);
}

void mt_order_waited_all(int device)
{
    if (order_is_on())
        order_join_all(&host, device);
}

void mt_order_waited_mark(const struct mt_mark *m)
{
    if (order_is_on())
        order_join_mark(&host, m);
}
