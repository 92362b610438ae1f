/* The whole run, and sums of what the communication analysis found: tables for SQL alone. */
#include "summary.h"
#include <stdlib.h>
#include <string.h>

static void run_whole(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const uint64_t host_end = c->options.host_end;
    (void)i;
    mt_tuples_numbers(w, MT_NUMBERS(c->options.threads != 0, (uint64_t)c->options.host,
                                    (uint64_t)c->options.local, (uint64_t)c->options.strict, c->partial != 0,
                                    x->which, c->nlaunches, c->records, c->host_accesses,
                                    x->r->onchip && x->r->onchip->nplaces, c->options.host_first,
                                    host_end < INT64_MAX ? host_end : INT64_MAX, c->options.threads > 1));
    const unsigned line = x->r->locality->options.analysis.line_bits;
    mt_tuples_maybe(w, line != 0, 1ull << line);
    mt_tuples_maybe(w, x->r->locality->misses.options.cache_bytes != 0,
                    x->r->locality->misses.options.cache_bytes);
}

int mt_rows_of_run(struct mt_rowset *x)
{
    x->row = run_whole;
    x->n = 1;
    x->which =
        (unsigned)mt_comm_reported_launches(x->r->comm); /* once: joins ask for the row again and again */
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

MT_ROWS(launch_volumes, run_launch_volume, x->r->comm->nlaunches)

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

/* CTAs and bytes of a sample, and what they stand for; without traced CTAs that is not known. */
static void run_both(struct mt_tuples *w, uint64_t ctas, uint64_t traced, const struct mt_volume *v,
                     int known)
{
    known &= traced != 0;
    mt_tuples_numbers(w, MT_NUMBERS(ctas, traced, v->load, v->store));
    mt_tuples_maybe(w, known, known ? mt_estimate(v->load, ctas, traced) : 0);
    mt_tuples_maybe(w, known, known ? mt_estimate(v->store, ctas, traced) : 0);
}

static void run_sample(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_comm *c = x->r->comm;
    const struct mt_estimate *e = &x->r->estimates->list[i];
    struct mt_volume sum = {0};
    uint64_t found = 0;
    for (size_t k = 0; k < c->nlaunches; k++)
        if (strcmp(c->launches[k].kernel, e->kernel) == 0) {
            const struct mt_volume v = mt_volume_of_launch(c, k);
            mt_volume_add(&sum, &v);
            found++;
        }
    mt_tuples_text(w, e->kernel);
    mt_tuples_numbers(w, MT_NUMBERS(e->launches, e->traced_launches));
    /* if others were found, the trace is not what its companion says */
    run_both(w, e->ctas, e->traced_ctas, &sum, found == e->traced_launches);
}

MT_ROWS(samples, run_sample, x->r->estimates->n)

static void run_sampled(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const size_t launch = ((const size_t *)x->data)[i];
    const struct mt_launch_event *e = x->r->events[launch];
    const char *kernel = x->r->comm->launches[launch].kernel;
    const struct mt_volume v = mt_volume_of_launch(x->r->comm, launch);
    if (!e || !e->has_ctas || !mt_estimates_find(x->r->estimates, kernel))
        return;
    mt_tuples_text(w, kernel);
    mt_tuples_number(w, launch);
    run_both(w, e->ctas, e->traced_ctas, &v, 1);
}

MT_ROWS_OF_LIST(sampled_launches, run_sampled, mt_launches_sorted(x->r->comm), x->r->comm->nlaunches)

int mt_estimates_write(struct mt_json *j, const struct mt_comm_result *r)
{
    return r->estimates->n ? mt_relation_json(j, r, MT_REL_samples, MT_REL_sampled_launches, 0) : 0;
}

static void run_apart(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    mt_tuples_text(w, ((const char *const *)x->data)[i]);
}

MT_ROWS_OF_LIST(apart, run_apart, mt_kernels_apart(x->r->comm, x->r->events, &x->n), x->n)

/* ---- sentences ---- */

const char mt_run_sentences[] =
    "WITH k AS (SELECT kernel, count(*) AS n, sum(ctas) AS ctas, sum(load) AS load, sum(store) AS store, "
    "min(launch) AS first FROM launch_volumes GROUP BY kernel), "
    "t AS (SELECT count(*) AS kernels, sum(n) AS runs, sum(load + store) AS moved FROM k) "
    "SELECT 'kernel', 'volumes', 30, 0, CASE WHEN kernels > 1 THEN printf('%s moves most: %s, %s of all "
    "bytes, in %s of %s.', mark(kernel(kernel), kernel), bytes(load + store), share(load + store, moved), "
    "grouped(n), many(runs, 'launch', 'launches')) "
    "WHEN threads THEN printf('The program, %s, loads %s and stores %s in %s.', mark(kernel(kernel), "
    "kernel), bytes(load), bytes(store), many(ctas, 'thread', 'threads')) "
    "ELSE printf('One kernel, %s, moves all bytes: %s loaded, %s stored in %s.', mark(kernel(kernel), "
    "kernel), bytes(load), bytes(store), many(n, 'launch', 'launches')) END "
    "FROM k, t, run WHERE moved > 0 ORDER BY load + store DESC, first LIMIT 1; "
    "WITH t AS (SELECT count(*) AS n, sum(load) AS load, sum(comm_load) AS comm, sum(from_same_launch) AS "
    "same, sum(from_earlier_launch) AS earlier, sum(from_same_cta) AS own FROM launch_volumes), "
    "senders AS (SELECT 0 AS kind, same AS sent FROM t, run WHERE NOT strict UNION ALL SELECT 1, earlier "
    "FROM t, run WHERE NOT threads OR all_launches > 1 UNION ALL SELECT 2, own FROM t, run WHERE NOT local "
    "AND (NOT threads OR all_launches > 1)), "
    "said AS (SELECT group_concat(bytes(sent) || coalesce(' (' || share(sent, load) || ')', '') || iif(nth = "
    "1, ' were last written', '') || ' by ' || sender(kind), ', ') AS words FROM (SELECT *, row_number() "
    "OVER (ORDER BY kind) AS nth FROM senders), t), "
    "pairs AS (SELECT *, count(*) OVER () AS n FROM sends WHERE source IS NOT NULL AND reader IS NOT NULL "
    "ORDER BY bytes DESC, launch, source LIMIT 1) "
    "SELECT 'comm', 'transfers', 40, 0, CASE WHEN comm = 0 THEN printf(either('No CTA loads what %s "
    "wrote%s', 'No thread loads what %s wrote%s'), "
    "CASE strict + 2 * local WHEN 0 THEN either('another CTA or an earlier launch', 'another thread') WHEN 1 "
    "THEN either('an earlier launch', 'an earlier run') WHEN 2 THEN either('another CTA', 'another thread') "
    "ELSE sender(1) END, "
    "iif(EXISTS (SELECT 1 FROM sends WHERE source IS NULL AND reader IS NOT NULL), ': all that has a writer "
    "came from the host.', '.')) "
    "ELSE printf(either('Of what CTAs load, %s%s.', 'Of what threads load, %s%s.'), iif(same IS NULL, "
    "bytes(comm) || coalesce(' (' || share(comm, load) || ')', '') || ' are communication', words), "
    "coalesce((SELECT printf('; %s %s to %s', iif(n > 1, 'most of it goes from', 'it goes from'), "
    "mark(kernel(source), source), mark(kernel(reader), reader)) || iif(n > 1, ': ' || bytes(bytes), '') "
    "FROM pairs), '')) END "
    "FROM t, said, run WHERE t.n AND comm IS NOT NULL AND records + host_accesses; "
    "WITH t AS (SELECT sum(iif(reader IS NULL, bytes, 0)) AS there, sum(iif(reader IS NULL, 0, bytes)) AS "
    "back FROM sends WHERE source IS NULL OR reader IS NULL) "
    "SELECT 'host', 'transfers', 40, 0, 'Host code loads ' || bytes(there) || either(' that CTAs wrote', ' "
    "that threads wrote') || iif(back, either('; CTAs load ', '; threads load ') || bytes(back) || ' that "
    "the host wrote.', '.') "
    "FROM t, run WHERE host AND there AND launches; "
    "WITH k AS (SELECT kernel, sum(load) AS load, sum(store) AS store FROM launch_volumes GROUP BY kernel) "
    "SELECT 'sample', '', 150, 1, printf('A sample: %s of %s CTAs of %s are traced; all of them would load "
    "about %s and store %s. No other figure is scaled, and what a CTA read of one that is not traced has an "
    "earlier sender, or none.', "
    "grouped(traced_ctas), grouped(ctas), mark(kernel(kernel), kernel), bytes(CAST(round(1.0 * load * ctas / "
    "traced_ctas) AS INTEGER)), bytes(CAST(round(1.0 * store * ctas / traced_ctas) AS INTEGER))) "
    "FROM (SELECT * FROM samples JOIN k USING (kernel) WHERE traced_ctas ORDER BY load + store DESC, kernel "
    "DESC LIMIT 1), run WHERE traced_ctas <> ctas AND records + host_accesses; "
    "SELECT 'nothing', 'timeline', 0, 0, CASE WHEN NOT launches THEN either('No launch is in this trace, or "
    "filters left none.', 'No run is in this trace, or filters left none.') "
    "ELSE printf(either('No access of the traced launches %swas recorded: their kernels touch no global "
    "memory, or filters left nothing.', 'No access of the traced runs %swas recorded: the program touches no "
    "memory, or filters left nothing.'), iif(onchip, 'to global memory ', '')) END "
    "FROM run WHERE NOT host_accesses AND (NOT launches OR NOT records);";
