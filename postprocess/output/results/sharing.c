/* Cache lines that CTAs share, by launch and allocation. */
#include "summary.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

static int sharing_by_alloc(const void *a, const void *b, void *arg)
{
    (void)arg;
    const struct mt_sharing_cell *x = a, *y = b;
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    if (d || x->superstep != y->superstep)
        return d ? d : x->superstep < y->superstep ? -1 : 1;
    return x->alloc + 1 < y->alloc + 1 ? -1 : x->alloc + 1 > y->alloc + 1; /* none is UINT64_MAX */
}

static int sharing_by_accesses(const void *a, const void *b, void *arg)
{
    (void)arg;
    const struct mt_sharing_line *x = a, *y = b;
    if (x->superstep != y->superstep)
        return x->superstep < y->superstep ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind > y->kind ? -1 : 1; /* false sharing first: it can be avoided */
    if (x->accesses != y->accesses)
        return x->accesses > y->accesses ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* ---- rows ---- */

static struct mt_sharing_cell *sharing_cells(const struct mt_sharing *s)
{
    return mt_sorted_copy(s->cells, s->count, sizeof *s->cells, sharing_by_alloc, NULL);
}

/* By superstep. */
static struct mt_sharing_line *sharing_top(const struct mt_sharing *s)
{
    return mt_sorted_copy(s->top, s->ntop, sizeof *s->top, sharing_by_accesses, NULL);
}

static void sharing_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_sharing_cell *c = &((const struct mt_sharing_cell *)x->data)[i / MT_SHARING_KINDS];
    const int kind = i % MT_SHARING_KINDS;
    mt_tuples_number(w, c->superstep);
    mt_tuples_text(w, c->kernel);
    mt_tuples_buffer(w, x->r->locality, c->alloc);
    mt_tuples_text(w, mt_sharing_kinds[kind]);
    mt_tuples_number(w, c->lines[kind]);
    mt_tuples_number(w, c->accesses[kind]);
}

int mt_rows_of_sharing(struct mt_rowset *x)
{
    x->row = sharing_row;
    x->n = x->r->locality->sharing.count * MT_SHARING_KINDS;
    x->data = sharing_cells(&x->r->locality->sharing);
    return x->data ? 0 : -1;
}

static void sharing_line(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_sharing_line *top = &((const struct mt_sharing_line *)x->data)[i];
    mt_tuples_number(w, top->superstep);
    mt_tuples_text(w, x->r->comm->launches[top->superstep].kernel);
    mt_tuples_number(w, top->address);
    mt_tuples_buffer(w, x->r->locality, top->alloc);
    mt_tuples_text(w, mt_sharing_kinds[top->kind]);
    mt_tuples_number(w, top->accesses);
    mt_tuples_maybe(w, top->kind == MT_SHARED_FALSE, top->writers);
}

int mt_rows_of_shared_lines(struct mt_rowset *x)
{
    x->row = sharing_line;
    x->n = x->r->locality->sharing.ntop;
    x->data = sharing_top(&x->r->locality->sharing);
    return x->data ? 0 : -1;
}

/* ---- JSON ---- */

static void sharing_write_top(struct mt_json *j, const struct mt_locality *m,
                              const struct mt_sharing_line *top, size_t n, uint64_t superstep)
{
    char label[MT_ALLOC_LABEL];
    mt_json_array(j, "top", 0);
    for (size_t at = MT_FIRST(i, n, top[i].superstep >= superstep); at < n && top[at].superstep == superstep;
         at++) {
        mt_json_object(j, NULL, 1);
        mt_json_hex(j, "address", top[at].address);
        mt_json_text(j, "allocation",
                     top[at].alloc < m->nallocs ? mt_alloc_label(label, m, top[at].alloc) : NULL);
        mt_json_text(j, "sharing", mt_sharing_kinds[top[at].kind]);
        mt_json_u64(j, "accesses", top[at].accesses);
        if (top[at].kind == MT_SHARED_FALSE)
            mt_json_u64(j, "writers", top[at].writers);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void sharing_write_cell(struct mt_json *j, const struct mt_locality *m,
                               const struct mt_sharing_cell *c)
{
    char label[MT_ALLOC_LABEL];
    mt_json_object(j, mt_alloc_label(label, m, c->alloc), 1);
    for (int kind = 0; kind < MT_SHARING_KINDS; kind++) {
        mt_json_object(j, mt_sharing_kinds[kind], 1);
        mt_json_u64(j, "lines", c->lines[kind]);
        mt_json_u64(j, "accesses", c->accesses[kind]);
        mt_json_end(j);
    }
    mt_json_end(j);
}

int mt_sharing_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    const struct mt_sharing *s = &m->sharing;
    struct mt_sharing_cell *cells = sharing_cells(s);
    struct mt_sharing_line *top = sharing_top(s);
    if (!cells || !top) {
        free(cells);
        free(top);
        return -1;
    }
    mt_json_object(j, mt_locality_names[MT_LOCALITY_SHARING], 0);
    mt_json_u64(j, "line_size", 1ull << s->options.line_bits);
    mt_json_object(j, "kernels", 0);
    struct mt_keys keys = {0};
    for (size_t i = 0; i < s->count;) {
        uint64_t superstep = cells[i].superstep;
        mt_keys_launch(j, &keys, cells[i].kernel, superstep, 1);
        mt_json_object(j, keys.step, 0);
        mt_json_object(j, "allocations", 0);
        for (; i < s->count && cells[i].superstep == superstep; i++)
            sharing_write_cell(j, m, &cells[i]);
        mt_json_end(j);
        sharing_write_top(j, m, top, s->ntop, superstep);
    }
    mt_keys_end(j, &keys);
    mt_json_end(j);
    mt_json_end(j);
    free(cells);
    free(top);
    return 0;
}

/* ---- text ---- */

int mt_sharing_text(struct mt_text *t)
{
    char title[200];
    snprintf(title, sizeof title,
             MT_EITHER("Sharing of lines of %llu bytes between CTAs of a launch, summed over launches",
                       "Sharing of lines of %llu bytes between threads"),
             1ull << t->r->locality->sharing.options.line_bits);
    return mt_text_table(t, title,
                         "SELECT kernel(kernel) AS kernel, label AS allocation, "
                         "sum(iif(sharing = 'private', lines, 0)) AS '>private', "
                         "sum(iif(sharing = 'read', lines, 0)) AS '>read', "
                         "sum(iif(sharing = 'true', lines, 0)) AS '>true', "
                         "sum(iif(sharing = 'false', lines, 0)) AS '>false', "
                         "sum(iif(sharing = 'false', accesses, 0)) AS '>accesses to false', "
                         "sum(accesses) AS '>to all' FROM sharing s GROUP BY s.kernel, s.allocation, s.label "
                         "ORDER BY 7 DESC, s.kernel, s.allocation");
}

/* ---- sentence ---- */

/* False sharing of one kernel (rank) in a buffer (index; those of no allocation last): accesses to such
 * lines, and all. */
struct falsely {
    uint64_t kernel, buffer, bad, all, most; /* most: of one buffer */
};

MT_ORDER_2(falsely_order, struct falsely, kernel, buffer)

static double falsely_share(const struct falsely *x)
{
    return x->all ? (double)x->bad / (double)x->all : 0;
}

/* Where it is most of a kernel's accesses first: in a long run the worst kernel may be a small one. */
static int falsely_by_share(const void *a, const void *b)
{
    const struct falsely *x = a, *y = b;
    if (falsely_share(x) != falsely_share(y))
        return falsely_share(x) > falsely_share(y) ? -1 : 1;
    if (x->bad != y->bad)
        return x->bad > y->bad ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

static void falsely_add(struct falsely *to, const struct falsely *x)
{
    to->bad += x->bad;
    to->all += x->all;
    if (x->bad > to->most) {
        to->most = x->bad;
        to->buffer = x->buffer;
    }
}

/* One for each kernel, its buffer that with most, in list[], which has room for one per cell; how many. */
static size_t falsely_gather(const struct mt_comm_result *r, const uint32_t *rank, struct falsely *list)
{
    const struct mt_sharing *x = &r->locality->sharing;
    const size_t nowhere = r->locality->nallocs;
    size_t out = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct mt_sharing_cell *c = &x->cells[i];
        list[i] = (struct falsely){.kernel = rank[c->superstep],
                                   .buffer = c->alloc < nowhere ? c->alloc : nowhere,
                                   .bad = c->accesses[MT_SHARED_FALSE]};
        for (int kind = 0; kind < MT_SHARING_KINDS; kind++)
            list[i].all += c->accesses[kind];
    }
    qsort(list, x->count, sizeof *list, falsely_order);
    for (size_t i = 0; i < x->count;) {
        struct falsely one = list[i];
        for (i++; i < x->count && falsely_order(&list[i], &one) == 0; i++) {
            one.bad += list[i].bad;
            one.all += list[i].all;
        }
        one.most = one.bad;
        if (out && list[out - 1].kernel == one.kernel)
            falsely_add(&list[out - 1], &one);
        else
            list[out++] = one;
    }
    return out;
}

enum { NAMED = 3 };

/* "50.0 % of the accesses of fill, most of them in #2 out; …" */
static void falsely_words(const struct mt_comm_result *r, const char *const *kernels,
                          const struct falsely *list, size_t n, char *out, size_t room)
{
    char label[MT_ALLOC_LABEL];
    size_t at = 0;
    for (size_t i = 0; i < n && i < NAMED && at < room; i++) {
        char *name = mt_kernel_short(kernels[list[i].kernel]);
        at += (size_t)snprintf(
            out + at, room - at, "%s%s of %s of %s, most of them in %s", i ? "; " : "",
            mt_number_percent(list[i].bad, list[i].all).text, i ? "those" : "the accesses", name ? name : "?",
            mt_alloc_label(label, r->locality,
                           list[i].buffer < r->locality->nallocs ? list[i].buffer : UINT64_MAX));
        free(name);
    }
    if (n > NAMED && at < room)
        snprintf(out + at, room - at, "; and some of %s",
                 mt_number_many(n - NAMED, "other kernel", "other kernels").text);
}

void mt_sharing_sentence(struct mt_summary *s)
{
    const struct mt_sharing *x = &s->r->locality->sharing;
    struct falsely *list = calloc(x->count + 1, sizeof *list);
    size_t n = list ? falsely_gather(s->r, s->rank, list) : 0, named = 0;
    char words[NAMED * (MT_ALLOC_LABEL + 200)];
    s->failed |= !list;
    if (n)
        qsort(list, n, sizeof *list, falsely_by_share);
    while (named < n && list[named].bad && falsely_share(&list[named]) >= 0.01)
        named++;
    if (named) {
        falsely_words(s->r, s->kernels, list, named, words, sizeof words);
        mt_summary_say(s, 70, falsely_share(list) > 0.1,
                       MT_EITHER("CTAs share cache lines of %s bytes falsely: %s.",
                                 "Threads share cache lines of %s bytes falsely: %s."),
                       mt_number_count(1ull << x->options.line_bits).text, words);
    }
    free(list);
}
