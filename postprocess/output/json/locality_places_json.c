/* The parts of the further analyses that say where: accesses of a line by column and variable, allocations by
 * launch and by piece. */
#define _GNU_SOURCE
#include "locality_parts.h"
#include <stdlib.h>
#include <string.h>

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
        write_traffic_alloc(j, m, &i, &k);
    mt_json_end(j);
    mt_json_end(j);
    return 0;
}
