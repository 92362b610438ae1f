/* Estimates for the whole run from a sampled trace. */
#include "estimates.h"
#include "analysis/base/launches.h"
#include <stdlib.h>
#include <string.h>

/* An odd divisor has no exact half, so rounding its half down does not matter. */
uint64_t mt_estimate(uint64_t counted, uint64_t ctas, uint64_t traced)
{
    unsigned __int128 n = ((unsigned __int128)counted * ctas + traced / 2) / traced;
    return n > UINT64_MAX ? UINT64_MAX : (uint64_t)n;
}

/* Returns 1 if MEMTRACE_SAMPLE chose among the launch's CTAs. */
static int estimates_chosen(const struct mt_launch_event *l)
{
    return l->has_ctas && (l->traced || strcmp(l->left_out, "MEMTRACE_SAMPLE") == 0);
}

int mt_estimates_gather(struct mt_estimates *e, const struct mt_source *s, size_t ninputs)
{
    size_t n;
    int parts = 0;
    const struct mt_launch_event **all = mt_launches_by_kernel(s, ninputs, estimates_chosen, &n);
    for (size_t i = 0; i < n; i++)
        parts |= all[i]->traced_ctas < all[i]->ctas;
    e->n = 0;
    e->list = parts ? calloc(n, sizeof *e->list) : NULL;
    if (!parts || !e->list) {
        free(all);
        return all && !parts ? 0 : -1;
    }
    for (size_t i = 0; i < n; i++) {
        const struct mt_launch_event *l = all[i];
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
