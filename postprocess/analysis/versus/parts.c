/* See parts.h. */
#include "parts.h"
#include <stdlib.h>
#include <string.h>

static int by_kernel(const void *a, const void *b)
{
    const struct mt_launch_event *x = *(const struct mt_launch_event *const *)a,
                                 *y = *(const struct mt_launch_event *const *)b;
    int d = strcmp(x->kernel, y->kernel);
    return d ? d : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Launches of all companions, those of streams without a trace several times; *n of them. NULL: no memory. */
static const struct mt_launch_event **parts_launches(const struct mt_source *s, size_t ninputs, size_t *n)
{
    size_t room = 1;
    for (size_t i = 0; i < ninputs; i++)
        room += mt_source_companion(s, i) ? mt_source_companion(s, i)->nlaunches : 0;
    const struct mt_launch_event **all = malloc(room * sizeof *all);
    *n = 0;
    for (size_t i = 0; all && i < ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        for (size_t k = 0; c && k < c->nlaunches; k++)
            all[(*n)++] = &c->launches[k];
    }
    return all;
}

int mt_run_parts_gather(struct mt_run_parts *p, const struct mt_source *s, size_t ninputs)
{
    size_t n = 0;
    const struct mt_launch_event **all = parts_launches(s, ninputs, &n);
    p->n = 0;
    p->list = all ? calloc(n + 1, sizeof *p->list) : NULL;
    if (p->list && n)
        qsort(all, n, sizeof *all, by_kernel);
    for (size_t i = 0; p->list && i < n; i++) {
        const struct mt_launch_event *l = all[i];
        uint64_t ctas = l->grid[0] * l->grid[1] * l->grid[2];
        if (i > 0 && by_kernel(&all[i - 1], &all[i]) == 0)
            continue;
        if (p->n == 0 || strcmp(p->list[p->n - 1].kernel, l->kernel) != 0)
            p->list[p->n++].kernel = l->kernel;
        p->list[p->n - 1].ctas += ctas;
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

const struct mt_run_part *mt_run_parts_find(const struct mt_run_parts *p, const char *kernel)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->list[i].kernel, kernel) == 0)
            return &p->list[i];
    return NULL;
}
