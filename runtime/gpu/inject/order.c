/* Events: numbered as they are made, and lines for what records them and waits for them. */
#include "base/fork.h"
#include "inject.h"
#include "memory.h"
#include "trace/events.h"
#include "trace/ranges.h"
#include <stdatomic.h>

/* By the event's handle; data: its number and 1. */
static struct mt_ranges order_events = MT_RANGES_INIT;
MT_FORK_TABLE(order_events);
static atomic_uint_least64_t order_count;

static uint64_t order_key(CUevent e)
{
    return (uint64_t)(uintptr_t)e;
}

static void order_add(CUevent e)
{
    struct mt_range old;
    uint64_t number = atomic_fetch_add(&order_count, 1);
    mt_ranges_take(&order_events, order_key(e), &old); /* destroyed without a word, and made anew */
    mt_ranges_add(&order_events, order_key(e), 1, (void *)(uintptr_t)(number + 1));
}

/* Its number; -1: it was made before we came. */
static int64_t order_number(CUevent e)
{
    struct mt_range r;
    return mt_ranges_find(&order_events, order_key(e), &r) ? (int64_t)(uintptr_t)r.data - 1 : -1;
}

/* The data's layout from version 13.1 of the API on. */
struct order_green {
    CUevent event;
    CUcontext context;
    void *green;
    CUstream stream;
    Sanitizer_StreamHandle handle;
};

static void order_note(const char *op, const Sanitizer_EventData *e)
{
    const struct order_green *newer = (const void *)e;
    int64_t number = order_number(e->event);
    if (number >= 0)
        mt_event_event(
            op, (uint64_t)number,
            mt_inject_stream_number(e->context, mt_inject_green() > 0 ? newer->handle : e->hStream));
}

void mt_inject_event(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_EventData *e = data;
    struct mt_range gone;
    switch (cbid) {
    case SANITIZER_CBID_EVENTS_CREATED:
        order_add(e->event);
        break;
    case SANITIZER_CBID_EVENTS_DESTROYED:
        mt_ranges_take(&order_events, order_key(e->event), &gone);
        break;
    case SANITIZER_CBID_EVENTS_RECORD:
        order_note("record", e);
        break;
    case SANITIZER_CBID_EVENTS_STREAM_WAIT:
        order_note("wait", e);
        break;
    case SANITIZER_CBID_EVENTS_SYNCHRONIZE:
        mt_event_sync("event", order_number(e->event));
        break;
    default:
        break;
    }
}
