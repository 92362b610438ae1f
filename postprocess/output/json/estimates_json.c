/* The member "estimates" of comm.json: data volumes as they would be if all CTAs were traced. */
#include "estimates_json.h"
#include "output/rows/sorted.h"
#include <stdlib.h>
#include <string.h>

/* What was counted, and what it stands for: null when nothing was traced, or the trace is not what its
 * companion says. */
static void write_both(struct mt_json *j, struct mt_volume v, uint64_t ctas, uint64_t traced)
{
    mt_json_u64(j, "ctas", ctas);
    mt_json_u64(j, "traced_ctas", traced);
    mt_json_object(j, "counted", 1);
    mt_json_u64(j, "Load", v.load);
    mt_json_u64(j, "Store", v.store);
    mt_json_end(j);
    if (!traced) {
        mt_json_text(j, "estimate", NULL);
        return;
    }
    mt_json_object(j, "estimate", 1);
    mt_json_u64(j, "Load", mt_estimate(v.load, ctas, traced));
    mt_json_u64(j, "Store", mt_estimate(v.store, ctas, traced));
    mt_json_end(j);
}

static void write_kernel(struct mt_json *j, const struct mt_estimate *k, const struct mt_comm *c,
                         const struct mt_volume *volumes, const struct mt_launch_event *const *events)
{
    struct mt_volume sum = {0};
    uint64_t found = 0;
    char key[64];
    for (size_t i = 0; i < c->nlaunches; i++)
        if (strcmp(c->launches[i].kernel, k->kernel) == 0) {
            mt_volume_add(&sum, &volumes[i]);
            found++;
        }
    mt_json_object(j, k->kernel, 0);
    mt_json_u64(j, "launches", k->launches);
    mt_json_u64(j, "traced_launches", k->traced_launches);
    write_both(j, sum, k->ctas, found == k->traced_launches ? k->traced_ctas : 0);
    mt_json_object(j, "supersteps", 0);
    for (size_t i = 0; i < c->nlaunches; i++) {
        const struct mt_launch_event *l = events[i];
        if (!l || !l->has_ctas || strcmp(c->launches[i].kernel, k->kernel) != 0)
            continue;
        mt_json_object(j, mt_key_u64(key, i), 1);
        write_both(j, volumes[i], l->ctas, l->traced_ctas);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
}

int mt_estimates_write(struct mt_json *j, const struct mt_estimates *e, const struct mt_comm *c,
                       const struct mt_launch_event *const *events)
{
    if (e->n == 0)
        return 0;
    struct mt_volume *volumes = malloc((c->nlaunches + 1) * sizeof *volumes);
    if (!volumes)
        return -1;
    for (size_t i = 0; i < c->nlaunches; i++)
        volumes[i] = mt_volume_of_launch(c, i);
    mt_json_object(j, "estimates", 0);
    for (size_t i = 0; i < e->n; i++)
        write_kernel(j, &e->list[i], c, volumes, events);
    mt_json_end(j);
    free(volumes);
    return 0;
}
