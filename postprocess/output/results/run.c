/* The whole run, and sums of what the communication analysis found: tables for SQL alone. */
#include "results.h"
#include <stdlib.h>

static void run_whole(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    uint64_t selected = 0;
    (void)i;
    for (size_t k = 0; k < c->nlaunches; k++)
        selected += c->launches[k].selected != 0;
    mt_tuples_numbers(w, MT_NUMBERS((uint64_t)c->options.threads, (uint64_t)c->options.host,
                                    (uint64_t)c->options.local, (uint64_t)c->options.strict, c->partial != 0,
                                    selected, c->nlaunches, c->records, c->host_accesses));
    const unsigned line = x->r->locality->options.analysis.line_bits;
    mt_tuples_maybe(w, line != 0, 1ull << line);
    mt_tuples_maybe(w, x->r->locality->misses.options.cache_bytes != 0,
                    x->r->locality->misses.options.cache_bytes);
}

int mt_rows_of_run(struct mt_rowset *x)
{
    x->row = run_whole;
    x->n = 1;
    return 0;
}

static void run_launch_volume(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm_launch *l = &x->r->comm->launches[i];
    if (!l->selected)
        return;
    const struct mt_volume v = mt_volume_of_launch(x->r->comm, i);
    mt_tuples_number(w, i);
    mt_tuples_text(w, l->kernel);
    mt_tuples_numbers(w, MT_NUMBERS(l->end - l->first, v.load, v.store, v.comm_load, v.comm_store));
    mt_tuples_numbers(w, MT_SENDER_KINDS, v.from);
}

int mt_rows_of_launch_volumes(struct mt_rowset *x)
{
    x->row = run_launch_volume;
    x->n = x->r->comm->nlaunches;
    return 0;
}

struct sends {
    const char **kernels; /* by rank */
    struct mt_sent *list;
};

static void run_send(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct sends *s = x->data;
    const struct mt_sent *t = &s->list[i];
    mt_tuples_text(w, t->src == MT_SENT_HOST ? NULL : s->kernels[t->src]);
    mt_tuples_text(w, t->dst == MT_SENT_HOST ? NULL : s->kernels[t->dst]);
    mt_tuples_maybe(w, t->reader != UINT64_MAX, t->reader);
    mt_tuples_numbers(w, MT_NUMBERS(t->bytes, t->accesses, t->transfers));
}

static void run_sends_end(struct mt_rowset *x)
{
    struct sends *s = x->data;
    if (s) {
        free(s->kernels);
        free(s->list);
    }
    free(s);
}

int mt_rows_of_sends(struct mt_rowset *x)
{
    const struct mt_comm *c = x->r->comm;
    uint32_t *rank = mt_kernel_ranks(c);
    struct sends *s = x->data = calloc(1, sizeof *s);
    x->row = run_send;
    x->end = run_sends_end;
    if (rank && s && (s->kernels = malloc((c->nlaunches + 1) * sizeof *s->kernels)))
        s->list = mt_sent_of(c, rank, &x->n);
    for (size_t i = 0; s && s->list && i < c->nlaunches; i++)
        s->kernels[rank[i]] = c->launches[i].kernel;
    free(rank);
    return s && s->list ? 0 : -1;
}

static void run_sample(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_estimate *e = &x->r->estimates->list[i];
    mt_tuples_text(w, e->kernel);
    mt_tuples_numbers(w, MT_NUMBERS(e->ctas, e->traced_ctas, e->launches, e->traced_launches));
}

int mt_rows_of_samples(struct mt_rowset *x)
{
    x->row = run_sample;
    x->n = x->r->estimates->n;
    return 0;
}

static void run_apart(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    mt_tuples_text(w, ((const char *const *)x->data)[i]);
}

int mt_rows_of_apart(struct mt_rowset *x)
{
    x->row = run_apart;
    x->data = mt_kernels_apart(x->r->comm, x->r->events, &x->n);
    return x->data ? 0 : -1;
}
