/* A byte's cell: who touched it (0 nobody, 1 + number of the CTA, MANY) << 1 | it was stored into. */
#include "sharing.h"
#include "memtrace/grow.h"
#include "analysis/base/cells.h"
#include <stdlib.h>
#include <string.h>

#define MANY 0x7fffffffu

struct state {
    struct mt_launch_window_state w;
    struct mt_pairmap numbers; /* CTA -> its number in this launch */
    struct mt_cells cells;
    struct mt_pairmap accesses; /* line -> accesses */
    uint64_t last_cta;
    uint32_t last_number; /* of last_cta, + 1; 0: none */
};

static void sharing_drop(struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    mt_pairmap_free(&s->numbers);
    mt_pairmap_free(&s->accesses);
    mt_cells_free(&s->cells);
    free(s);
}

/* 1 + the CTA's number; 0 without memory, or with too many CTAs. */
static uint32_t number_of(struct state *s, uint64_t cta)
{
    if (s->last_number && s->last_cta == cta)
        return s->last_number;
    uint64_t *n = mt_pairmap_get(&s->numbers, cta, 0, s->numbers.count + 1);
    if (!n || *n >= MANY)
        return 0;
    s->last_cta = cta;
    return s->last_number = (uint32_t)*n;
}

static uint32_t sharing_joined(uint32_t a, uint32_t b)
{
    uint32_t x = a >> 1, y = b >> 1;
    return (x == y || !y ? x : !x ? y : MANY) << 1 | ((a | b) & 1);
}

static int sharing_touch(struct state *s, uint64_t address, uint64_t bytes, uint32_t cell)
{
    while (bytes) {
        uint64_t n;
        uint32_t *c = mt_cells_at(&s->cells, address, bytes, &n);
        if (!c)
            return -1;
        for (uint64_t i = 0; i < n; i++)
            c[i] = sharing_joined(c[i], cell);
        address += n;
        bytes -= n;
    }
    return 0;
}

static int count_line(struct state *s, uint64_t line, uint64_t accesses)
{
    uint64_t *n = mt_pairmap_get(&s->accesses, line, 0, 0);
    if (!n)
        return -1;
    *n += accesses;
    return 0;
}

static int count_lines(struct state *s, const struct mt_access_run *r, unsigned bits)
{
    uint64_t pending = 0, accesses = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t first, lines = mt_lines_of(mt_run_address(r, i), mt_run_size(r), bits, &first);
        for (uint64_t k = 0; k < lines; k++) {
            uint64_t line = mt_line_after(first, k, bits);
            if (accesses && line != pending) {
                if (count_line(s, pending, accesses) != 0)
                    return -1;
                accesses = 0;
            }
            pending = line;
            accesses++;
        }
    }
    return accesses ? count_line(s, pending, accesses) : 0;
}

int mt_sharing_runs(struct mt_sharing *x, const struct mt_access_run *runs, size_t n)
{
    struct state *s = (struct state *)x->window.tail;
    if (!s->w.launch.selected)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        if (mt_run_type(r) > MT_ATOMIC)
            continue;
        uint32_t number = number_of(s, r->cta), at = 0;
        struct mt_piece piece;
        for (uint32_t k = 0; r->addresses && k < r->count; k++) {
            mt_cells_soon(&s->cells, r->addresses[k]);
            mt_pairmap_soon(&s->accesses, r->addresses[k] >> x->options.line_bits, 0);
        }
        if (!number || count_lines(s, r, x->options.line_bits) != 0)
            return -1;
        while (mt_run_piece(r, &at, &piece))
            if (sharing_touch(s, piece.address, piece.bytes, number << 1 | (mt_run_type(r) != MT_LOAD)) != 0)
                return -1;
    }
    return 0;
}

/* ---- a launch is whole ---- */

static struct mt_sharing_cell *cell_of(struct mt_sharing *x, size_t first, const struct mt_run_launch *l,
                                       uint64_t alloc)
{
    for (size_t i = x->count; i > first; i--) /* few allocations; neighbours are of one */
        if (x->cells[i - 1].alloc == alloc)
            return &x->cells[i - 1];
    if (mt_grow(&x->cells, &x->room, x->count + 1, sizeof *x->cells) != 0)
        return NULL;
    x->cells[x->count] =
        (struct mt_sharing_cell){.superstep = l->superstep, .kernel = l->kernel, .alloc = alloc};
    return &x->cells[x->count++];
}

/* Is a before b among the lines to name? */
static int sharing_before(const struct mt_sharing_line *a, const struct mt_sharing_line *b)
{
    return a->accesses != b->accesses ? a->accesses > b->accesses : a->address < b->address;
}

/* Lines to name of one kind in one launch: a heap with the last one at its top. */
struct top {
    struct mt_sharing_line *line;
    size_t count;
};

static void sharing_sink(struct top *t, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= t->count)
            return;
        if (child + 1 < t->count && sharing_before(&t->line[child], &t->line[child + 1]))
            child++;
        if (!sharing_before(&t->line[i], &t->line[child]))
            return;
        struct mt_sharing_line swap = t->line[i];
        t->line[i] = t->line[child];
        t->line[child] = swap;
        i = child;
    }
}

static void sharing_offer(struct top *t, size_t most, const struct mt_sharing_line *l)
{
    if (t->count < most) {
        size_t i = t->count++;
        for (; i && sharing_before(&t->line[(i - 1) / 2], l); i = (i - 1) / 2)
            t->line[i] = t->line[(i - 1) / 2];
        t->line[i] = *l;
    } else if (most && sharing_before(l, &t->line[0])) {
        t->line[0] = *l;
        sharing_sink(t, 0);
    }
}

static int sharing_ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* CTAs that store into a line whose stored bytes have one CTA each. */
static uint64_t sharing_writers(const uint32_t *c, size_t n)
{
    uint32_t stored[1 << MT_CELLS_BITS];
    size_t found = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i] & 1 && (found == 0 || stored[found - 1] != c[i]))
            stored[found++] = c[i];
    qsort(stored, found, sizeof *stored, sharing_ascending);
    for (size_t i = 0; i < found; i++)
        count += i == 0 || stored[i] != stored[i - 1];
    return count;
}

/* One line: its n cells. */
static int count_kind(struct mt_sharing *x, struct state *s, size_t first, const uint32_t *c,
                      uint64_t address, struct top *top)
{
    size_t n = (size_t)1 << x->options.line_bits, touched = n;
    uint32_t all = 0;
    int conflict = 0;
    for (size_t i = 0; i < n; i++) {
        if (c[i] && touched == n)
            touched = i;
        all = sharing_joined(all, c[i]);
        conflict |= c[i] == (MANY << 1 | 1);
    }
    if (!all)
        return 0;
    enum mt_sharing_kind kind = all >> 1 != MANY ? MT_SHARED_PRIVATE
                                : !(all & 1)     ? MT_SHARED_READ
                                : conflict       ? MT_SHARED_TRUE
                                                 : MT_SHARED_FALSE;
    const struct mt_alloc_event *a = mt_buffers_find(&x->buffers, address + touched);
    struct mt_sharing_line line = {.superstep = s->w.launch.superstep,
                                   .address = address,
                                   .alloc = a ? (uint64_t)(a - x->buffers.allocs) : MT_SHARING_NO_ALLOC,
                                   .kind = kind};
    uint64_t *accesses = mt_pairmap_get(&s->accesses, address >> x->options.line_bits, 0, 0);
    struct mt_sharing_cell *cell = cell_of(x, first, &s->w.launch, line.alloc);
    if (!accesses || !cell)
        return -1;
    line.accesses = *accesses;
    cell->lines[kind]++;
    cell->accesses[kind] += line.accesses;
    if (kind < MT_SHARED_TRUE)
        return 0;
    if (kind == MT_SHARED_FALSE)
        line.writers = sharing_writers(c, n);
    sharing_offer(&top[kind - MT_SHARED_TRUE], x->options.top, &line);
    return 0;
}

static int sharing_keep(struct mt_sharing *x, struct top *t)
{
    if (!t->count)
        return 0;
    if (mt_grow(&x->top, &x->top_room, x->ntop + t->count, sizeof *x->top) != 0)
        return -1;
    memcpy(x->top + x->ntop, t->line, t->count * sizeof *t->line);
    x->ntop += t->count;
    return 0;
}

static int close_launch(void *arg, struct mt_launch_window_state *w)
{
    struct mt_sharing *x = arg;
    struct state *s = (struct state *)w;
    size_t first = x->count, line = (size_t)1 << x->options.line_bits;
    int rc = 0;
    struct top top[2] = {{calloc(x->options.top + 1, sizeof *top->line), 0},
                         {calloc(x->options.top + 1, sizeof *top->line), 0}};
    if (!top[0].line || !top[1].line)
        rc = -1;
    mt_buffers_launch(&x->buffers, w->launch.seq);
    mt_cells_sort(&s->cells);
    for (size_t p = 0; rc == 0 && p < s->cells.count; p++) {
        const struct mt_cells_page *page = s->cells.pages[p];
        for (size_t i = 0; rc == 0 && i < MT_CELLS_PAGE; i += line)
            rc = count_kind(x, s, first, &page->cell[i], (page->number << MT_CELLS_BITS) + i, top);
    }
    if (rc == 0)
        rc = sharing_keep(x, &top[0]) != 0 || sharing_keep(x, &top[1]) != 0 ? -1 : 0;
    free(top[0].line);
    free(top[1].line);
    return rc;
}

/* ---- parts ---- */

struct merging {
    struct state *into;
    uint32_t *number; /* of `into`, by that of `from` */
    int failed;
};

static void sharing_renumber(void *arg, uint64_t cta, uint64_t zero, uint64_t number)
{
    struct merging *m = arg;
    (void)zero;
    if (!(m->number[number] = number_of(m->into, cta)))
        m->failed = 1;
}

static void add_accesses(void *arg, uint64_t line, uint64_t zero, uint64_t accesses)
{
    struct merging *m = arg;
    (void)zero;
    if (count_line(m->into, line, accesses) != 0)
        m->failed = 1;
}

static int merge_launch(void *x, struct mt_launch_window_state *into, struct mt_launch_window_state *from)
{
    struct state *a = (struct state *)into, *b = (struct state *)from;
    struct merging m = {a, calloc(b->numbers.count + 1, sizeof *m.number), 0};
    (void)x;
    if (!m.number)
        return -1;
    mt_pairmap_each(&b->numbers, sharing_renumber, &m);
    mt_pairmap_each(&b->accesses, add_accesses, &m);
    for (size_t p = 0; p < b->cells.count && !m.failed; p++) {
        const struct mt_cells_page *page = b->cells.pages[p];
        uint64_t n;
        uint32_t *c = mt_cells_at(&a->cells, page->number << MT_CELLS_BITS, MT_CELLS_PAGE, &n);
        for (size_t i = 0; c && i < MT_CELLS_PAGE; i++) {
            uint32_t cell = page->cell[i], who = cell >> 1;
            c[i] = sharing_joined(c[i], (who == MANY ? MANY : m.number[who]) << 1 | (cell & 1));
        }
        m.failed |= !c;
    }
    free(m.number);
    return m.failed ? -1 : 0;
}

static void pack_state(struct mt_parcel *p, const struct mt_launch_window_state *w)
{
    const struct state *s = (const struct state *)w;
    mt_parcel_map(p, &s->numbers);
    mt_parcel_map(p, &s->accesses);
    mt_parcel_cells(p, &s->cells);
}

static void unpack_state(struct mt_unpack *u, struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    mt_unpack_map(u, &s->numbers);
    mt_unpack_map(u, &s->accesses);
    mt_unpack_cells(u, &s->cells);
}

static struct mt_launch_window_state *sharing_make(const struct mt_run_launch *launch)
{
    return mt_launch_window_new(sizeof(struct state), launch);
}

static const struct mt_launch_window_ops ops = {merge_launch, close_launch, sharing_drop,
                                                pack_state,   sharing_make, unpack_state};

int mt_sharing_init(struct mt_sharing *x, const struct mt_run_options *o)
{
    memset(x, 0, sizeof *x);
    x->options = *o;
    x->window.ops = &ops;
    return mt_buffers_init(&x->buffers, o->allocs, o->nallocs);
}

int mt_sharing_launch(struct mt_sharing *x, const struct mt_run_launch *launch)
{
    struct mt_launch_window_state *s = sharing_make(launch);
    return s ? mt_launch_window_next(&x->window, x, s) : -1;
}

int mt_sharing_merge(struct mt_sharing *into, struct mt_sharing *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct mt_sharing_cell *f = &from->cells[i];
        struct mt_run_launch l = {.superstep = f->superstep, .kernel = f->kernel};
        struct mt_sharing_cell *c = cell_of(into, into->count, &l, f->alloc);
        if (!c)
            return -1;
        *c = *f;
    }
    struct top t = {from->top, from->ntop};
    if (from->ntop && sharing_keep(into, &t) != 0)
        return -1;
    return mt_launch_window_merge(&into->window, into, &from->window);
}

int mt_sharing_finish(struct mt_sharing *x)
{
    return mt_launch_window_finish(&x->window, x);
}

void mt_sharing_pack(struct mt_parcel *p, const struct mt_sharing *x)
{
    mt_parcel_u64(p, x->count);
    mt_parcel_bytes(p, x->cells, x->count * sizeof *x->cells);
    mt_parcel_u64(p, x->ntop);
    mt_parcel_bytes(p, x->top, x->ntop * sizeof *x->top);
    mt_launch_window_pack(p, &x->window);
}

void mt_sharing_unpack(struct mt_unpack *u, struct mt_sharing *x)
{
    size_t n = mt_unpack_count(u, sizeof *x->cells);
    x->cells = mt_unpack_array(u, n, sizeof *x->cells);
    x->count = x->room = x->cells ? n : 0;
    for (size_t i = 0; i < x->count; i++)
        x->cells[i].kernel = mt_unpack_kernel_of(u, x->cells[i].superstep);
    n = mt_unpack_count(u, sizeof *x->top);
    x->top = mt_unpack_array(u, n, sizeof *x->top);
    x->ntop = x->top_room = x->top ? n : 0;
    mt_launch_window_unpack(u, &x->window);
}

void mt_sharing_free(struct mt_sharing *x)
{
    mt_launch_window_free(&x->window);
    mt_buffers_free(&x->buffers);
    free(x->cells);
    free(x->top);
    memset(x, 0, sizeof *x);
}
