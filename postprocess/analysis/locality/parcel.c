/* State of an analysis of runs as bytes, and launches that cannot be closed yet. */
#include "parcel.h"
#include "memtrace/grow.h"

#include <stdlib.h>
#include <string.h>

void mt_parcel_init(struct mt_parcel *p, const struct mt_run_launch *launches, size_t n)
{
    memset(p, 0, sizeof *p);
    p->launches = launches;
    for (size_t i = 0; i < n; i++)
        if (!mt_pairmap_get(&p->kernels, (uint64_t)(uintptr_t)launches[i].kernel, 0, i))
            p->failed = 1;
}

void mt_parcel_free(struct mt_parcel *p)
{
    free(p->data);
    mt_pairmap_free(&p->kernels);
    memset(p, 0, sizeof *p);
}

/* ---- packing ---- */

void mt_parcel_bytes(struct mt_parcel *p, const void *data, size_t n)
{
    if (p->failed || n > SIZE_MAX - p->used || mt_grow(&p->data, &p->room, p->used + n, 1) != 0) {
        p->failed = 1;
        return;
    }
    if (n)
        memcpy(p->data + p->used, data, n);
    p->used += n;
}

void mt_parcel_u64(struct mt_parcel *p, uint64_t v)
{
    mt_parcel_bytes(p, &v, sizeof v);
}

static void parcel_launch(struct mt_parcel *p, const struct mt_run_launch *l)
{
    mt_parcel_u64(p, l->superstep);
    mt_parcel_u64(p, l->begins != 0);
}

void mt_parcel_kernel(struct mt_parcel *p, const char *kernel)
{
    const uint64_t *superstep = mt_pairmap_get(&p->kernels, (uint64_t)(uintptr_t)kernel, 0, UINT64_MAX);
    if (!superstep || *superstep == UINT64_MAX)
        p->failed = 1;
    else
        mt_parcel_u64(p, *superstep);
}

static void parcel_piece(struct mt_parcel *p, const uint64_t *cell, uint32_t cells)
{
    for (uint32_t k = 0, n; k < cells; k += n) {
        for (n = 1; k + n < cells && cell[k + n] == cell[k]; n++)
            ;
        mt_parcel_u64(p, n);
        mt_parcel_u64(p, cell[k]);
    }
}

/* Packs cells, equal neighbours as one. */
void mt_parcel_cells(struct mt_parcel *p, const struct mt_cells *c)
{
    mt_parcel_u64(p, c->count);
    for (size_t i = 0; i < c->count; i++) {
        const struct mt_cells_page *page = c->pages[i];
        uint64_t there = 0;
        for (unsigned k = 0; k < MT_CELLS_PIECES; k++)
            there |= (uint64_t)(page->cell[k] != NULL) << k;
        mt_parcel_u64(p, page->number);
        mt_parcel_u64(p, there << 32 | page->fine);
        mt_parcel_bytes(p, page->counts, c->counts * sizeof *page->counts);
        for (unsigned k = 0; k < MT_CELLS_PIECES; k++)
            if (page->cell[k])
                parcel_piece(p, page->cell[k], MT_CELLS_PIECE >> mt_cells_shift(page, k));
    }
}

/* ---- unpacking ---- */

void mt_unpack_bytes(struct mt_unpack *u, void *data, size_t n)
{
    if (u->failed || n > (size_t)(u->end - u->at)) {
        u->failed = 1;
        memset(data, 0, n);
        return;
    }
    memcpy(data, u->at, n);
    u->at += n;
}

uint64_t mt_unpack_u64(struct mt_unpack *u)
{
    uint64_t v;
    mt_unpack_bytes(u, &v, sizeof v);
    return v;
}

size_t mt_unpack_count(struct mt_unpack *u, size_t size)
{
    uint64_t n = mt_unpack_u64(u);
    if (n <= (size_t)(u->end - u->at) / size)
        return n;
    u->failed = 1;
    return 0;
}

void *mt_unpack_array(struct mt_unpack *u, size_t n, size_t size)
{
    void *array = malloc((n + 1) * size);
    if (array)
        mt_unpack_bytes(u, array, n * size);
    u->failed |= !array;
    return array;
}

const char *mt_unpack_kernel_of(struct mt_unpack *u, uint64_t superstep)
{
    if (superstep < u->nlaunches)
        return u->launches[superstep].kernel;
    u->failed = 1;
    return "";
}

const char *mt_unpack_kernel(struct mt_unpack *u)
{
    return mt_unpack_kernel_of(u, mt_unpack_u64(u));
}

static struct mt_run_launch unpack_launch(struct mt_unpack *u)
{
    uint64_t superstep = mt_unpack_u64(u), begins = mt_unpack_u64(u);
    struct mt_run_launch l = {.kernel = mt_unpack_kernel_of(u, superstep)};
    if (!u->failed)
        l = u->launches[superstep];
    l.begins = begins != 0;
    return l;
}

static void unpack_piece(struct mt_unpack *u, uint64_t *cell, uint64_t cells)
{
    for (uint64_t k = 0; k < cells && !u->failed;) {
        uint64_t length = mt_unpack_u64(u), v = mt_unpack_u64(u);
        u->failed |= length == 0 || length > cells - k;
        for (; length && !u->failed; length--)
            cell[k++] = v;
    }
}

void mt_unpack_cells(struct mt_unpack *u, struct mt_cells *c)
{
    for (size_t n = mt_unpack_count(u, 2 * sizeof(uint64_t)); n > 0 && !u->failed; n--) {
        struct mt_cells_page *page = mt_cells_page(c, mt_unpack_u64(u));
        const uint64_t pieces = mt_unpack_u64(u);
        if ((u->failed |= !page))
            return;
        mt_unpack_bytes(u, page->counts, c->counts * sizeof *page->counts);
        for (unsigned k = 0; k < MT_CELLS_PIECES && !u->failed; k++) {
            if (!(pieces >> 32 >> k & 1))
                continue;
            u->failed |= mt_cells_piece(c, page, k, pieces >> k & 1) != 0;
            if (!u->failed)
                unpack_piece(u, page->cell[k], MT_CELLS_PIECE >> mt_cells_shift(page, k));
        }
    }
}

/* ---- launch window ---- */

static int close_state(struct mt_launch_window *w, void *x, struct mt_launch_window_state **state)
{
    int rc = *state ? w->ops->close(x, *state) : 0;
    if (*state)
        w->ops->drop(*state);
    *state = NULL;
    return rc;
}

/* Closes the last launch. */
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

static void parcel_pack_state(struct mt_parcel *p, const struct mt_launch_window *w,
                              const struct mt_launch_window_state *state)
{
    mt_parcel_u64(p, state != NULL);
    if (!state)
        return;
    parcel_launch(p, &state->launch);
    w->ops->pack(p, state);
}

static struct mt_launch_window_state *parcel_unpack_state(struct mt_unpack *u,
                                                          const struct mt_launch_window *w)
{
    if (!mt_unpack_u64(u))
        return NULL;
    const struct mt_run_launch launch = unpack_launch(u);
    struct mt_launch_window_state *state = w->ops->make(&launch);
    if (state)
        w->ops->unpack(u, state);
    u->failed |= !state;
    return state;
}

void mt_launch_window_pack(struct mt_parcel *p, const struct mt_launch_window *w)
{
    parcel_pack_state(p, w, w->head);
    parcel_pack_state(p, w, w->tail);
}

void mt_launch_window_unpack(struct mt_unpack *u, struct mt_launch_window *w)
{
    w->head = parcel_unpack_state(u, w);
    w->tail = parcel_unpack_state(u, w);
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
