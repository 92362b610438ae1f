/* Under MEMTRACE_CHECK: which operations of streams are ordered, whatever the order in which they happen to
 * run: by their stream, the rules of the legacy default stream, events, and what the host waited for. A clock
 * has a count for each stream; all of the host's threads have one clock together, so that what only they
 * order counts as ordered. All with the queue's lock held. */
#ifndef MT_API_ORDER_H
#define MT_API_ORDER_H
#include <stdint.h>

struct mt_op;
struct mt_stream;
struct mt_mark;

enum { MT_ORDER_STREAMS = 64 }; /* of a process; when there are more, nothing is said any more */
struct mt_clock {
    uint32_t n[MT_ORDER_STREAMS]; /* so many operations of each stream come before */
};

/* `op`, which has a ticket, is put into the stream: what comes before it is written into companions. */
void mt_order_submit(struct mt_stream *s, const struct mt_op *op);
/* The host has waited for all that is in the stream, or in all of a device (-1: of all devices). */
void mt_order_waited(const struct mt_stream *s);
void mt_order_waited_all(int device);
void mt_order_waited_mark(const struct mt_mark *m);
#endif
