/* Cache lines that CTAs share. A byte's cell is (0: nobody, 1 + number of the CTA, or MANY) << 1 | stored.
 * The counts of a page are the accesses of its lines. */
#include "sharing.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

#define MANY 0x7fffffffull /* all bits set: OR with any other number leaves it unchanged */

struct state {
    struct mt_launch_window_state w;
    struct mt_pairmap numbers; /* map from CTA to its number in this launch */
    struct mt_cells cells;
    uint64_t last_cta;
    uint32_t last_number; /* number of last_cta, + 1; 0: none */
};

static void sharing_drop(struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    s->cells.pool = NULL; /* the pool may belong to a part that no longer exists */
    mt_pairmap_free(&s->numbers);
    mt_cells_free(&s->cells);
    free(s);
}

/* Prepares a state, which may come from another part, before a page is created. */
static void sharing_prepare(struct mt_sharing *x, struct state *s)
{
    s->cells.counts = MT_CELLS_PAGE >> x->options.line_bits;
    s->cells.pool = &x->pool;
}

/* Returns 1 + the CTA's number; 0 without memory, or with too many CTAs. */
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

static uint64_t sharing_joined(uint64_t a, uint64_t b)
{
    uint64_t x = a >> 1, y = b >> 1;
    return (x == y || !y ? x : !x ? y : MANY) << 1 | ((a | b) & 1);
}

/* Marks bytes accessed by one CTA. */
static void sharing_touch(const struct mt_cells_span *to, uint64_t cell)
{
    uint64_t *c = to->cell;
    for (uint64_t i = 0; i < to->n >> to->shift; i++) { /* no branches: previous owners are unpredictable */
        const uint64_t touched = 0 - (uint64_t)(c[i] != 0), other = 0 - (uint64_t)((c[i] ^ cell) >> 1 != 0);
        c[i] |= (cell & (~touched | 1)) | (MANY << 1 & touched & other);
    }
}

/* Adds a piece of a run: `accesses` adjacent accesses of `size` bytes. Each counts at each of its lines. */
static int sharing_piece(struct state *s, const struct mt_piece *piece, uint32_t size, uint64_t times,
                         unsigned bits, uint64_t cell)
{
    for (uint64_t at = 0, line, end; at < piece->bytes; at = end) { /* line by line */
        const uint64_t address = piece->address + at;
        struct mt_cells_page *page = NULL;
        line = (1ull << bits) - (address & ((1ull << bits) - 1));
        end = line < piece->bytes - at ? at + line : piece->bytes;
        for (uint64_t in = at; in < end;) {
            const struct mt_cells_span c = mt_cells_at(&s->cells, piece->address + in, end - in);
            if (!(page = c.page))
                return -1;
            sharing_touch(&c, cell);
            in += c.n;
        }
        page->counts[(address & (MT_CELLS_PAGE - 1)) >> bits] +=
            piece->accesses == 1 ? times : (end - 1) / size - at / size + 1;
    }
    return 0;
}

/* Prefetches a cell and its line's count. */
static void sharing_soon(const struct state *s, uint64_t address, unsigned bits)
{
    const struct mt_cells_page *p = mt_cells_find(&s->cells, address >> MT_CELLS_BITS);
    const uint64_t in = address & (MT_CELLS_PAGE - 1);
    const unsigned piece = (unsigned)(in >> MT_CELLS_PIECE_BITS);
    if (!p)
        return;
    if (p->cell[piece])
        __builtin_prefetch(&p->cell[piece][(in & (MT_CELLS_PIECE - 1)) >> mt_cells_shift(p, piece)], 1);
    __builtin_prefetch(&p->counts[in >> bits], 1);
}

static int sharing_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_sharing *x = self;
    struct state *s = (struct state *)x->window.tail;
    if (!s->w.launch.selected)
        return 0;
    sharing_prepare(x, s);
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        if (i + MT_RUNS_AHEAD < n)
            mt_cells_soon(&s->cells, runs[i + MT_RUNS_AHEAD].base);
        if (mt_run_type(r) > MT_ATOMIC)
            continue;
        uint64_t cell = number_of(s, r->cta);
        uint32_t at = 0;
        struct mt_piece piece;
        for (uint32_t k = 0; r->addresses && k < r->count; k++)
            sharing_soon(s, r->addresses[k], x->options.line_bits);
        if (!cell)
            return -1;
        cell = cell << 1 | (mt_run_type(r) != MT_LOAD);
        while (mt_run_piece(r, &at, &piece)) {
            uint64_t times = 1;
            if (!r->addresses && r->stride == 0) { /* all accesses touch the same bytes */
                times = r->count;
                at = r->count;
            }
            if (sharing_piece(s, &piece, mt_run_size(r), times, x->options.line_bits, cell) != 0)
                return -1;
        }
    }
    return 0;
}

/* ---- end of a launch ---- */

static struct mt_sharing_cell *sharing_cell_of(struct mt_sharing *x, size_t first,
                                               const struct mt_run_launch *l, uint64_t alloc)
{
    uint64_t none = 0, *known = &none;
    if (x->options.by_kernel && !(known = mt_pairmap_get(&x->kernels, (uintptr_t)l->kernel, alloc, 0)))
        return NULL;
    if (*known)
        return &x->cells[*known - 1];
    for (size_t i = x->count; i > first; i--) /* few allocations; neighbours usually have the same */
        if (x->cells[i - 1].alloc == alloc)
            return &x->cells[i - 1];
    if (mt_grow(&x->cells, &x->room, x->count + 1, sizeof *x->cells) != 0)
        return NULL;
    x->cells[x->count] =
        (struct mt_sharing_cell){.superstep = l->superstep, .kernel = l->kernel, .alloc = alloc};
    *known = x->count + 1;
    return &x->cells[x->count++];
}

/* Lines of one kind in one launch to list: the first ones in order, and further candidates. */
struct top {
    struct mt_sharing_line *line;
    size_t count;
};

MT_ORDER_FUNCTION(sharing_rank, struct mt_sharing_line,
                  MT_ORDER_DIFFER(y, x, accesses) MT_ORDER_DIFFER(x, y, address))

/* Keeps the first `most` lines. */
static void sharing_cut(struct top *t, size_t most)
{
    if (t->count <= most)
        return;
    qsort(t->line, t->count, sizeof *t->line, sharing_rank);
    t->count = most;
}

/* There is room for 2 * most + 1 lines. */
static void sharing_offer(struct top *t, size_t most, const struct mt_sharing_line *l)
{
    t->line[t->count++] = *l;
    if (t->count > 2 * most)
        sharing_cut(t, most);
}

/* Returns the number of CTAs that store to a line, each of whose stored bytes has one CTA. */
static uint64_t sharing_writers(const uint64_t *c, size_t n)
{
    uint64_t stored[1 << MT_CELLS_BITS];
    size_t found = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i] & 1 && (found == 0 || stored[found - 1] != c[i]))
            stored[found++] = c[i];
    qsort(stored, found, sizeof *stored, mt_order_u64);
    for (size_t i = 0; i < found; i++)
        count += i == 0 || stored[i] != stored[i - 1];
    return count;
}

/* Classifies a line of n cells at `address`, which has had `accesses`. */
static int count_kind(struct mt_sharing *x, struct state *s, size_t first,
                      const struct mt_cells_span *line_cells, uint64_t address, uint64_t accesses,
                      struct top *top)
{
    const uint64_t *c = line_cells->cell;
    const unsigned shift = line_cells->shift;
    size_t n = line_cells->n >> shift, touched = n;
    uint64_t all = 0, differ = 0;
    int conflict = 0;
    for (size_t i = 0; i < n; i++)
        differ |= c[i] ^ c[0];
    if (!differ && !c[0])
        return 0;
    for (size_t i = 0; i < (differ ? n : 1); i++) { /* usually all are equal */
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
    const struct mt_alloc_event *a = mt_buffers_find(&x->buffers, address + (touched << shift));
    struct mt_sharing_line line = {.superstep = s->w.launch.superstep,
                                   .address = address,
                                   .alloc = a ? mt_buffers_place(&x->buffers, a) : MT_SHARING_NO_ALLOC,
                                   .kind = kind};
    struct mt_sharing_cell *cell = sharing_cell_of(x, first, &s->w.launch, line.alloc);
    if (!cell)
        return -1;
    line.accesses = accesses;
    cell->lines[kind]++;
    cell->accesses[kind] += line.accesses;
    if (kind < MT_SHARED_TRUE)
        return 0;
    if (kind == MT_SHARED_FALSE)
        line.writers = sharing_writers(c, n);
    sharing_offer(&top[kind - MT_SHARED_TRUE], x->options.top, &line);
    return 0;
}

/* Classifies the line at byte `in` of its page. */
static int count_line(struct mt_sharing *x, struct state *s, size_t first, struct mt_cells_page *page,
                      size_t in, struct top *top)
{
    const unsigned bits = x->options.line_bits, piece = (unsigned)(in >> MT_CELLS_PIECE_BITS);
    struct mt_cells_span c = {page, page->cell[piece], 1ull << bits, mt_cells_shift(page, piece)};
    if (!c.cell)
        return 0;
    c.cell += (in & (MT_CELLS_PIECE - 1)) >> c.shift;
    return count_kind(x, s, first, &c, (page->number << MT_CELLS_BITS) + in, page->counts[in >> bits], top);
}

/* The same of a line of several pieces. */
static int count_pieces(struct mt_sharing *x, struct state *s, size_t first, struct mt_cells_page *page,
                        size_t in, struct top *top)
{
    uint64_t cell[MT_CELLS_PAGE];
    const struct mt_cells_span c = {page, cell, 1ull << x->options.line_bits, 0};
    mt_cells_bytes(page, in, c.n, cell);
    return count_kind(x, s, first, &c, (page->number << MT_CELLS_BITS) + in,
                      page->counts[in >> x->options.line_bits], top);
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

static int sharing_close_launch(void *arg, struct mt_launch_window_state *w)
{
    struct mt_sharing *x = arg;
    struct state *s = (struct state *)w;
    size_t first = x->count, line = (size_t)1 << x->options.line_bits;
    int rc = 0;
    struct top top[2] = {{calloc(2 * x->options.top + 1, sizeof *top->line), 0},
                         {calloc(2 * x->options.top + 1, sizeof *top->line), 0}};
    if (!top[0].line || !top[1].line)
        rc = -1;
    mt_buffers_launch(&x->buffers, w->launch.seq);
    mt_cells_sort(&s->cells);
    for (size_t p = 0; rc == 0 && p < s->cells.count; p++) {
        struct mt_cells_page *page = s->cells.pages[p];
        for (size_t i = 0; rc == 0 && i < MT_CELLS_PAGE; i += line)
            rc = (line > MT_CELLS_PIECE ? count_pieces : count_line)(x, s, first, page, i, top);
    }
    for (int k = 0; k < 2 && rc == 0; k++) {
        sharing_cut(&top[k], x->options.top);
        rc = sharing_keep(x, &top[k]);
    }
    free(top[0].line);
    free(top[1].line);
    s->cells.pool = &x->pool;
    mt_cells_free(&s->cells);
    return rc;
}

/* ---- merging ---- */

struct merging {
    struct state *into;
    uint64_t *number; /* number in `into`, by number in `from` */
    int failed;
};

static void sharing_renumber(void *arg, uint64_t cta, uint64_t zero, uint64_t number)
{
    struct merging *m = arg;
    if (!(m->number[number] = number_of(m->into, cta)))
        m->failed = 1;
}

static int sharing_merge_piece(struct mt_cells *into, struct mt_cells_page *p,
                               const struct mt_cells_page *page, unsigned k, const uint64_t *number)
{
    if (mt_cells_piece(into, p, k, page->fine >> k & 1) != 0)
        return -1;
    const unsigned shift = mt_cells_shift(p, k), from = mt_cells_shift(page, k);
    for (size_t i = 0; i < (size_t)MT_CELLS_PIECE >> shift; i++) {
        uint64_t cell = page->cell[k][i << shift >> from], who = cell >> 1, *to = &p->cell[k][i];
        *to = sharing_joined(*to, (who == MANY ? MANY : number[who]) << 1 | (cell & 1));
    }
    return 0;
}

static int sharing_merge_page(struct mt_cells *into, const struct mt_cells_page *page, const uint64_t *number)
{
    struct mt_cells_page *p = mt_cells_page(into, page->number);
    if (!p)
        return -1;
    for (unsigned k = 0; k < MT_CELLS_PIECES; k++)
        if (page->cell[k] && sharing_merge_piece(into, p, page, k, number) != 0)
            return -1;
    for (size_t i = 0; i < into->counts; i++)
        p->counts[i] += page->counts[i];
    return 0;
}

static int sharing_merge_launch(void *x, struct mt_launch_window_state *into,
                                struct mt_launch_window_state *from)
{
    struct state *a = (struct state *)into, *b = (struct state *)from;
    struct merging m = {a, calloc(b->numbers.count + 1, sizeof *m.number), 0};
    if (!m.number)
        return -1;
    sharing_prepare(x, a);
    mt_pairmap_each(&b->numbers, sharing_renumber, &m);
    for (size_t p = 0; p < b->cells.count && !m.failed; p++)
        m.failed = sharing_merge_page(&a->cells, b->cells.pages[p], m.number) != 0;
    free(m.number);
    return m.failed ? -1 : 0;
}

static void sharing_pack_pair(void *arg, uint64_t a, uint64_t b, uint64_t value)
{
    const uint64_t pair[3] = {a, b, value};
    mt_parcel_bytes(arg, pair, sizeof pair);
}

static void sharing_pack_map(struct mt_parcel *p, const struct mt_pairmap *m)
{
    mt_parcel_u64(p, m->count);
    mt_pairmap_each(m, sharing_pack_pair, p);
}

static void sharing_pack_state(struct mt_parcel *p, const struct mt_launch_window_state *w)
{
    const struct state *s = (const struct state *)w;
    sharing_pack_map(p, &s->numbers);
    mt_parcel_u64(p, s->cells.counts);
    mt_parcel_cells(p, &s->cells);
}

/* Fill empty objects. */
static void sharing_unpack_map(struct mt_unpack *u, struct mt_pairmap *m)
{
    for (size_t n = mt_unpack_count(u, 3 * sizeof(uint64_t)); n > 0 && !u->failed; n--) {
        uint64_t pair[3];
        mt_unpack_bytes(u, pair, sizeof pair);
        u->failed |= !mt_pairmap_get(m, pair[0], pair[1], pair[2]);
    }
}

static void sharing_unpack_state(struct mt_unpack *u, struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    sharing_unpack_map(u, &s->numbers);
    s->cells.counts = mt_unpack_u64(u);
    if ((u->failed |= s->cells.counts > MT_CELLS_PAGE) == 0)
        mt_unpack_cells(u, &s->cells);
}

static struct mt_launch_window_state *sharing_make(const struct mt_run_launch *launch)
{
    return mt_launch_window_new(sizeof(struct state), launch);
}

static const struct mt_launch_window_ops ops = {sharing_merge_launch, sharing_close_launch,
                                                sharing_drop,         sharing_pack_state,
                                                sharing_make,         sharing_unpack_state};

static int sharing_init(void *self, const struct mt_run_options *o)
{
    struct mt_sharing *x = self;
    memset(x, 0, sizeof *x);
    x->options = *o;
    x->window.ops = &ops;
    return mt_buffers_init(&x->buffers, o->allocs, o->nallocs);
}

static int sharing_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_sharing *x = self;
    struct mt_launch_window_state *s = sharing_make(launch);
    return s ? mt_launch_window_next(&x->window, x, s) : -1;
}

static int sharing_merge(void *self, void *other)
{
    struct mt_sharing *into = self, *from = other;
    for (size_t i = 0; i < from->count; i++) {
        const struct mt_sharing_cell *f = &from->cells[i];
        struct mt_run_launch l = {.superstep = f->superstep, .kernel = f->kernel};
        struct mt_sharing_cell *c = sharing_cell_of(into, into->count, &l, f->alloc);
        if (!c)
            return -1;
        *c = *f;
    }
    struct top t = {from->top, from->ntop};
    if (from->ntop && sharing_keep(into, &t) != 0)
        return -1;
    return mt_launch_window_merge(&into->window, into, &from->window);
}

static int sharing_finish(void *self)
{
    struct mt_sharing *x = self;
    return mt_launch_window_finish(&x->window, x);
}

static void sharing_pack(struct mt_parcel *p, const void *self)
{
    const struct mt_sharing *x = self;
    mt_parcel_u64(p, x->count);
    mt_parcel_bytes(p, x->cells, x->count * sizeof *x->cells);
    mt_parcel_u64(p, x->ntop);
    mt_parcel_bytes(p, x->top, x->ntop * sizeof *x->top);
    mt_launch_window_pack(p, &x->window);
}

static void sharing_unpack(struct mt_unpack *u, void *self)
{
    struct mt_sharing *x = self;
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

static void sharing_free(void *self)
{
    struct mt_sharing *x = self;
    mt_launch_window_free(&x->window);
    mt_cells_pool_free(&x->pool);
    mt_pairmap_free(&x->kernels);
    mt_buffers_free(&x->buffers);
    free(x->cells);
    free(x->top);
    memset(x, 0, sizeof *x);
}

const struct mt_analysis mt_sharing_analysis = {
    .init = sharing_init,
    .launch = sharing_launch,
    .runs = sharing_runs,
    .merge = sharing_merge,
    .finish = sharing_finish,
    .pack = sharing_pack,
    .unpack = sharing_unpack,
    .free = sharing_free,
};
