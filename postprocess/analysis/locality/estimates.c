/* What a sampled trace says of the whole: MEMTRACE_SAMPLE traces every n-th CTA or launch, and the
 * companions say how many there were. */
#include "estimates.h"
#include <stdlib.h>
#include <string.h>

/* With an odd divisor there are no halves, so rounding its half down does no harm. */
uint64_t mt_estimate(uint64_t counted, uint64_t ctas, uint64_t traced)
{
    unsigned __int128 n = ((unsigned __int128)counted * ctas + traced / 2) / traced;
    return n > UINT64_MAX ? UINT64_MAX : (uint64_t)n;
}

static int by_kernel(const void *a, const void *b)
{
    const struct mt_launch_event *x = *(const struct mt_launch_event *const *)a,
                                 *y = *(const struct mt_launch_event *const *)b;
    int d = strcmp(x->kernel, y->kernel);
    return d ? d : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Launches whose CTAs were chosen from, each as often as it is in a companion; *n of them. */
static const struct mt_launch_event **launches_of(const struct mt_source *s, size_t ninputs, size_t *n,
                                                  int *parts)
{
    size_t room = 1;
    *n = 0;
    *parts = 0;
    for (size_t i = 0; i < ninputs; i++)
        room += mt_source_companion(s, i) ? mt_source_companion(s, i)->nlaunches : 0;
    const struct mt_launch_event **all = malloc(room * sizeof *all);
    for (size_t i = 0; all && i < ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        for (size_t k = 0; c && k < c->nlaunches; k++) {
            const struct mt_launch_event *l = &c->launches[k];
            if (!l->has_ctas || (!l->traced && strcmp(l->left_out, "MEMTRACE_SAMPLE") != 0))
                continue;
            *parts |= l->traced_ctas < l->ctas;
            all[(*n)++] = l;
        }
    }
    return all;
}

int mt_estimates_gather(struct mt_estimates *e, const struct mt_source *s, size_t ninputs)
{
    size_t n;
    int parts;
    const struct mt_launch_event **all = launches_of(s, ninputs, &n, &parts);
    e->n = 0;
    e->list = all && parts ? calloc(n, sizeof *e->list) : NULL;
    if (!all || !parts || !e->list) {
        free(all);
        return all && !parts ? 0 : -1;
    }
    qsort(all, n, sizeof *all, by_kernel);
    for (size_t i = 0; i < n; i++) {
        const struct mt_launch_event *l = all[i];
        if (i > 0 && by_kernel(&all[i - 1], &all[i]) == 0)
            continue; /* it is in several companions */
        if (e->n == 0 || strcmp(e->list[e->n - 1].kernel, l->kernel) != 0)
            e->list[e->n++].kernel = l->kernel;
        struct mt_estimate *k = &e->list[e->n - 1];
        k->launches++;
        k->traced_launches += l->traced != 0;
        k->ctas += l->ctas;
        k->traced_ctas += l->traced_ctas;
    }
    free(all);
    return 0;
}

void mt_estimates_free(struct mt_estimates *e)
{
    free(e->list);
    memset(e, 0, sizeof *e);
}

const struct mt_estimate *mt_estimates_find(const struct mt_estimates *e, const char *kernel)
{
    for (size_t i = 0; i < e->n; i++)
        if (strcmp(e->list[i].kernel, kernel) == 0)
            return &e->list[i];
    return NULL;
}
