/* The parts of the further analyses that say where: accesses of a line by column and variable, allocations by
 * launch and by piece. */
#define _GNU_SOURCE
#include "locality_parts.h"
#include "locality_text.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>

static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

/* ---- coalescing by site ---- */

struct sites_order {
    const struct mt_coalescing_cell *cells;
    const struct mt_sites *sites;
};

static int by_site(const void *a, const void *b, void *arg)
{
    const struct sites_order *o = arg;
    const struct mt_coalescing_cell *x = &o->cells[*(const size_t *)a], *y = &o->cells[*(const size_t *)b];
    const struct mt_site_location *p = &o->sites->places[x->place], *q = &o->sites->places[y->place];
    int d = strcmp(o->sites->lines.names[x->line], o->sites->lines.names[y->line]);
    if (!d && p->column != q->column)
        d = p->column < q->column ? -1 : 1;
    if (!d)
        d = strcmp(o->sites->vars.names[p->var], o->sites->vars.names[q->var]);
    if (!d)
        d = mt_locality_compare_text(x->kernel, y->kernel);
    return d ? d : (int)x->type - (int)y->type;
}

static void write_site(struct mt_json *j, const struct mt_coalescing_cell *c, const struct mt_sites *sites)
{
    const struct mt_site_location *p = &sites->places[c->place];
    mt_json_object(j, NULL, 1);
    mt_json_text(j, "line", c->line ? sites->lines.names[c->line] : NULL);
    mt_json_u64(j, "column", p->column);
    mt_json_text(j, "variable", p->var ? sites->vars.names[p->var] : NULL);
    mt_json_text(j, "kernel", c->kernel);
    mt_json_text(j, "type", types[c->type]);
    mt_json_u64(j, "requests", c->requests);
    mt_json_u64(j, "accesses", c->accesses);
    mt_json_u64(j, "bytes", c->bytes);
    mt_json_u64(j, "distinct", c->distinct);
    mt_json_u64(j, "sectors", c->sectors);
    mt_json_u64(j, "lines", c->lines);
    mt_json_end(j);
}

int mt_coalescing_sites_json(struct mt_json *j, const struct mt_coalescing *c, const struct mt_sites *sites)
{
    struct sites_order o = {c->sites.cells, sites};
    size_t *order = malloc((c->sites.count + 1) * sizeof *order);
    if (!order)
        return -1;
    for (size_t i = 0; i < c->sites.count; i++)
        order[i] = i;
    qsort_r(order, c->sites.count, sizeof *order, by_site, &o);
    mt_json_array(j, "sites", 0);
    for (size_t i = 0; i < c->sites.count; i++)
        write_site(j, &c->sites.cells[order[i]], sites);
    mt_json_end(j);
    free(order);
    return 0;
}

/* ---- traffic ---- */

/* superstep, bytes loaded and stored, accesses by type */
static void write_traffic_launch(struct mt_json *j, const struct mt_traffic_cell *c, unsigned step_bits)
{
    mt_json_array(j, NULL, 1);
    mt_json_u64(j, NULL, (uint64_t)c->superstep << step_bits);
    mt_json_u64(j, NULL, c->load);
    mt_json_u64(j, NULL, c->store);
    for (int type = 0; type < 4; type++)
        mt_json_u64(j, NULL, c->accesses[type]);
    mt_json_end(j);
}

/* superstep, piece, bytes loaded and stored */
static void write_traffic_piece(struct mt_json *j, const struct mt_traffic_cell *c, unsigned step_bits)
{
    mt_json_array(j, NULL, 1);
    mt_json_u64(j, NULL, (uint64_t)c->superstep << step_bits);
    mt_json_u64(j, NULL, c->piece);
    mt_json_u64(j, NULL, c->load);
    mt_json_u64(j, NULL, c->store);
    mt_json_end(j);
}

/* The allocation of launches[*i]; moves *i and *k behind its cells. */
static void write_traffic_alloc(struct mt_json *j, const struct mt_locality *m, size_t *i, size_t *k)
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
    for (; *i < t->launches.count && t->launches.cells[*i].alloc == alloc; ++*i)
        write_traffic_launch(j, &t->launches.cells[*i], t->launches.step_bits);
    mt_json_end(j);
    mt_json_array(j, "heat", 0);
    for (; *k < t->heat.count && t->heat.cells[*k].alloc == alloc; ++*k)
        write_traffic_piece(j, &t->heat.cells[*k], t->heat.step_bits);
    mt_json_end(j);
    mt_json_end(j);
}

int mt_traffic_json(struct mt_json *j, const struct mt_locality *m, const struct mt_sites *sites)
{
    (void)sites;
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
        write_traffic_alloc(j, m, &i, &k);
    mt_json_end(j);
    mt_json_end(j);
    return 0;
}

int mt_traffic_text(FILE *f, const struct mt_locality *m, const struct mt_sites *sites, size_t rows)
{
    (void)sites;
    const struct mt_traffic_grid *g = &m->traffic.launches;
    char label[MT_ALLOC_LABEL];
    struct mt_table t;
    mt_table_init(&t, "Allocations and launches: in how many each was read and written",
                  "allocation|>bytes|>read in|>written in|>bytes loaded|>bytes stored|>first|>last launch");
    for (size_t i = 0; i < g->count;) {
        const size_t first = i;
        uint64_t sum[4] = {0};
        for (; i < g->count && g->cells[i].alloc == g->cells[first].alloc; i++) {
            sum[0] += g->cells[i].load != 0;
            sum[1] += g->cells[i].store != 0;
            sum[2] += g->cells[i].load;
            sum[3] += g->cells[i].store;
        }
        mt_table_row(&t, sum[2] + sum[3]);
        mt_table_text(&t, mt_alloc_label(label, m, g->cells[first].alloc));
        if (g->cells[first].alloc < m->nallocs)
            mt_table_u64(&t, m->allocs[g->cells[first].alloc].bytes);
        else
            mt_table_text(&t, "-");
        for (int k = 0; k < 4; k++)
            mt_table_u64(&t, sum[k]);
        mt_table_u64(&t, (uint64_t)g->cells[first].superstep << g->step_bits);
        mt_table_u64(&t, (uint64_t)g->cells[i - 1].superstep << g->step_bits);
    }
    return mt_table_print(&t, f, rows);
}
