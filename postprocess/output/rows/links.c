/* What goes over the links of a topology: each flow goes over all links of its way. */
#include "links.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static int links_compare(const void *a, const void *b)
{
    const struct mt_link_load *x = a, *y = b;
    int name = strcmp(x->link.name, y->link.name);
    if (name || x->superstep != y->superstep)
        return name ? name : x->superstep < y->superstep ? -1 : 1;
    return (int)x->how - (int)y->how;
}

/* Those that are alike become one. */
static size_t links_join(struct mt_link_load *list, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(list, n, sizeof *list, links_compare);
    for (size_t i = 0; i < n; i++)
        if (kept && links_compare(&list[kept - 1], &list[i]) == 0)
            list[kept - 1].bytes += list[i].bytes;
        else
            list[kept++] = list[i];
    return kept;
}

struct mt_link_load *mt_link_loads(const struct mt_comm_result *r, size_t *n, uint64_t *outside)
{
    size_t nflows = 0, room = 0;
    struct mt_topology_link way[MT_TOPOLOGY_ROUTE];
    struct mt_link_load *list = NULL;
    struct mt_device_flow *flows = mt_device_flows(r, 0, &nflows);
    int failed = !flows || mt_grow(&list, &room, 1, sizeof *list) != 0;
    *n = *outside = 0;
    for (size_t i = 0; r->topology && !failed && i < nflows; i++) {
        const struct mt_device_flow *f = &flows[i];
        unsigned links = mt_topology_route(r->topology, f->from, f->to, way);
        *outside += !links && f->from != f->to ? f->bytes : 0;
        failed = mt_grow(&list, &room, *n + links + 1, sizeof *list) != 0;
        for (unsigned k = 0; !failed && k < links; k++)
            list[(*n)++] = (struct mt_link_load){way[k], f->superstep, f->kernel, f->how, f->bytes};
    }
    free(flows);
    if (failed) {
        free(list);
        return NULL;
    }
    *n = links_join(list, *n);
    return list;
}
