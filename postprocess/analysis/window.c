#include "window.h"

static int close_state(struct mt_window *w, void *x, struct mt_window_state **state)
{
    int rc = *state ? w->ops->close(x, *state) : 0;
    if (*state)
        w->ops->drop(*state);
    *state = NULL;
    return rc;
}

/* No more comes for the last launch. */
static int retire(struct mt_window *w, void *x)
{
    if (w->tail && !w->tail->launch.begins && !w->head) {
        w->head = w->tail;
        w->tail = NULL;
        return 0;
    }
    return close_state(w, x, &w->tail);
}

int mt_window_next(struct mt_window *w, void *x, struct mt_window_state *state)
{
    int rc = retire(w, x);
    w->tail = state;
    return rc;
}

int mt_window_merge(struct mt_window *into, void *x, struct mt_window *from)
{
    struct mt_window_state *first = from->head ? from->head : from->tail;
    int rc = 0;
    if (!first)
        return 0;
    int goes_on =
        !first->launch.begins && into->tail && into->tail->launch.superstep == first->launch.superstep;
    if (goes_on) {
        rc = into->ops->merge(x, into->tail, first);
        into->ops->drop(first);
        if (first == from->head) {
            rc = retire(into, x) != 0 ? -1 : rc;
            into->tail = from->tail;
        }
    } else {
        rc = retire(into, x);
        if (!into->head)
            into->head = from->head;
        else
            rc = close_state(into, x, &from->head) != 0 ? -1 : rc;
        into->tail = from->tail;
    }
    from->head = from->tail = NULL;
    return rc;
}

int mt_window_finish(struct mt_window *w, void *x)
{
    int a = close_state(w, x, &w->head), b = close_state(w, x, &w->tail);
    return a ? a : b;
}

void mt_window_free(struct mt_window *w)
{
    if (w->head)
        w->ops->drop(w->head);
    if (w->tail)
        w->ops->drop(w->tail);
    w->head = w->tail = NULL;
}
