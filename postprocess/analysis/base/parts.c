/* Traced part of a run, from its companion files. */
#include "parts.h"
#include "launches.h"
#include <stdlib.h>
#include <string.h>

int mt_run_parts_gather(struct mt_run_parts *p, const struct mt_source *s, size_t ninputs)
{
    size_t n = 0;
    const struct mt_launch_event **all = mt_launches_by_kernel(s, ninputs, NULL, &n);
    p->n = 0;
    p->list = all ? calloc(n + 1, sizeof *p->list) : NULL;
    for (size_t i = 0; p->list && i < n; i++) {
        const struct mt_launch_event *l = all[i];
        uint64_t ctas = l->grid[0] * l->grid[1] * l->grid[2];
        if (p->n == 0 || strcmp(p->list[p->n - 1].kernel, l->kernel) != 0)
            p->list[p->n++].kernel = l->kernel;
        p->list[p->n - 1].ctas += ctas;
        p->list[p->n - 1].untraced += l->untraced;
        p->list[p->n - 1].traced += l->has_ctas ? l->traced_ctas : l->traced ? ctas : 0;
    }
    free(all);
    return p->list ? 0 : -1;
}

void mt_run_parts_free(struct mt_run_parts *p)
{
    free(p->list);
    memset(p, 0, sizeof *p);
}

void mt_untraced_add(struct mt_untraced *u, const struct mt_run_part *p)
{
    u->accesses += p->untraced;
    u->kernels += p->untraced != 0;
    if (p->untraced <= u->most)
        return;
    u->most = p->untraced;
    u->kernel = p->kernel;
}
