/* Allocations by launch, and buffers that take turns: a kernel reads one and writes the other, and its next
 * launch does it the other way round. */
#include "summary.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static void traffic_row(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_traffic_grid *g = &x->r->locality->traffic.launches;
    const struct mt_traffic_cell *c = &g->cells[i];
    mt_tuples_buffer(w, x->r->locality, c->alloc);
    mt_tuples_numbers(
        w, MT_NUMBERS((uint64_t)c->superstep << g->step_bits, 1ull << g->step_bits, c->load, c->store));
    for (int type = MT_LOAD; type <= MT_UNKNOWN; type++)
        mt_tuples_number(w, c->accesses[type]);
}

MT_ROWS(traffic, traffic_row, x->r->locality->traffic.launches.count)

static void traffic_call(struct mt_tuples *w, const struct mt_rowset *x, size_t i)
{
    const struct mt_alloc_event *a = &x->r->locality->allocs[i];
    mt_tuples_number(w, a->id);
    mt_tuples_text(w, a->kind);
    mt_tuples_text(w, a->file);
    mt_tuples_numbers(w, MT_NUMBERS(a->line, a->like > 1 ? a->like : 1, mt_alloc_bytes(a)));
}

MT_ROWS(calls, traffic_call, x->r->locality->nallocs)

/* ---- JSON ---- */

/* The allocation of launches[*i]; moves *i and *k behind its cells. */
static void traffic_write_alloc(struct mt_json *j, const struct mt_locality *m, size_t *i, size_t *k)
{
    const struct mt_traffic *t = &m->traffic;
    const uint64_t alloc = t->launches.cells[*i].alloc;
    const struct mt_alloc_event *a = alloc < m->nallocs ? &m->allocs[alloc] : NULL;
    char label[MT_ALLOC_LABEL];
    mt_json_object(j, mt_alloc_label(label, m, alloc), 0);
    if (a) {
        mt_json_u64(j, "id", a->id);
        mt_json_u64(j, "bytes", a->bytes);
        mt_json_u64(j, "piece", 1ull << (mt_traffic_piece_bits(a->bytes) + t->heat.piece_bits));
    }
    mt_json_array(j, "launches", 0);
    for (; *i < t->launches.count && t->launches.cells[*i].alloc == alloc; ++*i) {
        const struct mt_traffic_cell *c = &t->launches.cells[*i];
        mt_json_numbers(j, NULL,
                        MT_NUMBERS((uint64_t)c->superstep << t->launches.step_bits, c->load, c->store,
                                   c->accesses[0], c->accesses[1], c->accesses[2], c->accesses[3]));
    }
    mt_json_end(j);
    mt_json_array(j, "heat", 0);
    for (; *k < t->heat.count && t->heat.cells[*k].alloc == alloc; ++*k) {
        const struct mt_traffic_cell *c = &t->heat.cells[*k];
        mt_json_numbers(j, NULL,
                        MT_NUMBERS((uint64_t)c->superstep << t->heat.step_bits, c->piece, c->load, c->store));
    }
    mt_json_end(j);
    mt_json_end(j);
}

int mt_traffic_json(struct mt_json *j, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    const struct mt_traffic *t = &m->traffic;
    if (!m->nallocs) {
        mt_json_text(j, mt_locality_names[MT_LOCALITY_TRAFFIC], NULL);
        return 0;
    }
    mt_json_object(j, mt_locality_names[MT_LOCALITY_TRAFFIC], 0);
    mt_json_u64(j, "launch_step", 1ull << t->launches.step_bits);
    mt_json_u64(j, "heat_step", 1ull << t->heat.step_bits);
    mt_json_object(j, "allocations", 0);
    for (size_t i = 0, k = 0; i < t->launches.count;)
        traffic_write_alloc(j, m, &i, &k);
    mt_json_end(j);
    mt_json_end(j);
    return 0;
}

/* ---- text ---- */

int mt_traffic_text(struct mt_text *t)
{
    return mt_text_table(
        t,
        MT_EITHER("Allocations and launches: in how many each was read and written",
                  "Allocations and runs: in how many each was read and written"),
        "SELECT label AS allocation, ifnull(bytes, '-') AS '>bytes', sum(load > 0) AS '>read in', sum(store "
        "> 0) "
        "AS '>written in', sum(load) AS '>bytes loaded', sum(store) AS '>bytes stored', min(launch) AS "
        "'>first', max(launch) AS '>last launch' FROM traffic t LEFT JOIN calls c ON c.allocation = "
        "t.allocation GROUP BY t.allocation ORDER BY sum(load) + sum(store) DESC, min(t.rowid)");
}

/* ---- sentences ---- */

const char mt_traffic_sentences[] =
    "WITH u AS MATERIALIZED (SELECT launch, allocation, load AND NOT store AS reads, store AND NOT load AS "
    "writes FROM traffic WHERE load + store AND allocation IS NOT NULL), "
    "l AS MATERIALIZED (SELECT launch, kernel, lag(launch) OVER (PARTITION BY kernel ORDER BY launch) AS "
    "before FROM (SELECT DISTINCT launch FROM u) CROSS JOIN launches ON id = launch), "
    "f AS (SELECT x.launch, x.allocation, x.writes, bytes FROM u x CROSS JOIN l ON l.launch = x.launch CROSS "
    "JOIN u y ON y.launch = before AND y.allocation = x.allocation CROSS JOIN allocations a ON a.id = "
    "x.allocation "
    "WHERE (x.writes AND y.reads) OR (x.reads AND y.writes)), "
    "flips AS (SELECT *, row_number() OVER (PARTITION BY launch, writes, bytes ORDER BY allocation) AS nth "
    "FROM f), "
    "swaps AS (SELECT launch, bytes, min(allocation) AS a, max(allocation) AS b FROM flips GROUP BY launch, "
    "bytes, nth HAVING count(*) = 2), "
    "pairs AS (SELECT kernel, bytes, a, b, count(*) AS times, row_number() OVER (PARTITION BY a, b) = 1 AS "
    "first FROM swaps CROSS JOIN l ON l.launch = swaps.launch GROUP BY kernel, a, b) "
    "SELECT 'turns', 'buffers', 110, 0, printf(either('%s and %s (%s each) take turns: %s reads one and "
    "writes the other, and its next launch the other way round, %s%s.', '%s and %s (%s each) take turns: %s "
    "reads one and writes the other, and its next run the other way round, %s%s.'), "
    "mark((SELECT label FROM traffic WHERE allocation = a), ''), mark((SELECT label FROM traffic WHERE "
    "allocation = b), ''), bytes(bytes), mark(kernel(kernel), kernel), many(times, 'time', 'times'), iif(n > "
    "1, '; so do others: ' || many(n - 1, 'pair', 'pairs'), '')) "
    "FROM pairs, (SELECT sum(first) AS n FROM pairs) WHERE NOT EXISTS (SELECT 1 FROM traffic WHERE launches "
    "> 1) ORDER BY times DESC, bytes DESC, a, b, kernel LIMIT 1; "
    "SELECT 'growing', 'buffers', 85, 0, printf('realloc at %s is called %s times, for %s in all: does it "
    "grow in small steps?', mark(place(file, line), file || ':' || line), grouped(times), bytes(bytes)) "
    "FROM calls, run WHERE kind = 'realloc' AND times >= 16 AND file IS NOT NULL AND records + host_accesses "
    "ORDER BY bytes DESC, calls.rowid LIMIT 1";
