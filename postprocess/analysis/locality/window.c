/* Launches whose analysis cannot be closed yet: a part keeps the state of its last launch, which may go on
 * in the next part, and of its first one if that began in an earlier part. */
#include "window.h"
#include <stdlib.h>

static int close_state(struct mt_launch_window *w, void *x, struct mt_launch_window_state **state)
{
    int rc = *state ? w->ops->close(x, *state) : 0;
    if (*state)
        w->ops->drop(*state);
    *state = NULL;
    return rc;
}

/* No more comes for the last launch. */
static int window_retire(struct mt_launch_window *w, void *x)
{
    if (w->tail && !w->tail->launch.begins && !w->head) {
        w->head = w->tail;
        w->tail = NULL;
        return 0;
    }
    return close_state(w, x, &w->tail);
}

struct mt_launch_window_state *mt_launch_window_new(size_t bytes, const struct mt_run_launch *launch)
{
    struct mt_launch_window_state *s = calloc(1, bytes);
    if (s)
        s->launch = *launch;
    return s;
}

int mt_launch_window_next(struct mt_launch_window *w, void *x, struct mt_launch_window_state *state)
{
    int rc = window_retire(w, x);
    w->tail = state;
    return rc;
}

int mt_launch_window_merge(struct mt_launch_window *into, void *x, struct mt_launch_window *from)
{
    struct mt_launch_window_state *first = from->head ? from->head : from->tail;
    int rc = 0;
    if (!first)
        return 0;
    int goes_on =
        !first->launch.begins && into->tail && into->tail->launch.superstep == first->launch.superstep;
    if (goes_on) {
        rc = into->ops->merge(x, into->tail, first);
        into->ops->drop(first);
        if (first == from->head) {
            rc = window_retire(into, x) != 0 ? -1 : rc;
            into->tail = from->tail;
        }
    } else {
        rc = window_retire(into, x);
        if (!into->head)
            into->head = from->head;
        else
            rc = close_state(into, x, &from->head) != 0 ? -1 : rc;
        into->tail = from->tail;
    }
    from->head = from->tail = NULL;
    return rc;
}

static void pack_state(struct mt_parcel *p, const struct mt_launch_window *w,
                       const struct mt_launch_window_state *state)
{
    mt_parcel_u64(p, state != NULL);
    if (!state)
        return;
    mt_parcel_launch(p, &state->launch);
    w->ops->pack(p, state);
}

static struct mt_launch_window_state *unpack_state(struct mt_unpack *u, const struct mt_launch_window *w)
{
    if (!mt_unpack_u64(u))
        return NULL;
    const struct mt_run_launch launch = mt_unpack_launch(u);
    struct mt_launch_window_state *state = w->ops->make(&launch);
    if (state)
        w->ops->unpack(u, state);
    u->failed |= !state;
    return state;
}

void mt_launch_window_pack(struct mt_parcel *p, const struct mt_launch_window *w)
{
    pack_state(p, w, w->head);
    pack_state(p, w, w->tail);
}

void mt_launch_window_unpack(struct mt_unpack *u, struct mt_launch_window *w)
{
    w->head = unpack_state(u, w);
    w->tail = unpack_state(u, w);
}

int mt_launch_window_finish(struct mt_launch_window *w, void *x)
{
    int a = close_state(w, x, &w->head), b = close_state(w, x, &w->tail);
    return a ? a : b;
}

void mt_launch_window_free(struct mt_launch_window *w)
{
    if (w->head)
        w->ops->drop(w->head);
    if (w->tail)
        w->ops->drop(w->tail);
    w->head = w->tail = NULL;
}
