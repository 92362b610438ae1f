/* Traced part of a run, from its companion files. */
#include "parts.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include "analysis/base/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- Launches in the companion files of a source ---- */

MT_ORDER_POINTED(launches_order, struct mt_launch_event,
                 MT_ORDER_TEXT(x->kernel, y->kernel) MT_ORDER_DIFFER(x, y, seq))

/* Returns the launches in the companion files of `ninputs` inputs, each once (a stream without a trace may be
 * in several), by kernel name and then in their order. `keep`: filter, NULL: all. *n is their number; the
 * caller frees the list. NULL without memory. */
static const struct mt_launch_event **launches_by_kernel(const struct mt_source *s, size_t ninputs,
                                                         int (*keep)(const struct mt_launch_event *),
                                                         size_t *n)
{
    size_t room = 1, all = 0;
    for (size_t i = 0; i < ninputs; i++)
        room += mt_source_companion(s, i) ? mt_source_companion(s, i)->nlaunches : 0;
    const struct mt_launch_event **list = malloc(room * sizeof *list);
    for (size_t i = 0; list && i < ninputs; i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        for (size_t k = 0; c && k < c->nlaunches; k++)
            if (!keep || keep(&c->launches[k]))
                list[all++] = &c->launches[k];
    }
    *n = list ? mt_order_once(list, all, sizeof *list, launches_order) : 0;
    return list;
}

/* ---- Estimates for the whole run from a sampled trace ---- */

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
    const struct mt_launch_event **all = launches_by_kernel(s, ninputs, estimates_chosen, &n);
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
    const size_t at = MT_FIRST(i, e->n, strcmp(e->list[i].kernel, kernel) >= 0);
    return at < e->n && strcmp(e->list[at].kernel, kernel) == 0 ? &e->list[at] : NULL;
}

/* Returns the part of the kernel, the last one or a new one; NULL without memory. */
static struct mt_run_part *parts_kernel(struct mt_run_parts *p, const char *kernel)
{
    if (p->n && strcmp(p->list[p->n - 1].kernel, kernel) == 0)
        return &p->list[p->n - 1];
    char *name = strdup(kernel);
    if (!name || mt_grow(&p->list, &p->room, p->n + 1, sizeof *p->list) != 0) {
        free(name);
        return NULL;
    }
    p->list[p->n] = (struct mt_run_part){.kernel = name};
    return &p->list[p->n++];
}

int mt_run_parts_gather(struct mt_run_parts *p, const struct mt_source *s, size_t ninputs)
{
    size_t n = 0;
    const struct mt_launch_event **all = launches_by_kernel(s, ninputs, NULL, &n);
    int rc = all ? 0 : -1;
    *p = (struct mt_run_parts){0};
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct mt_launch_event *l = all[i];
        struct mt_run_part *part = parts_kernel(p, l->kernel);
        uint64_t ctas = l->grid[0] * l->grid[1] * l->grid[2];
        if (!part) {
            rc = -1;
            break;
        }
        part->ctas += ctas;
        part->untraced += l->untraced;
        part->unseen |= l->unseen && *l->unseen;
        part->traced += l->has_ctas ? l->traced_ctas : l->traced ? ctas : 0;
    }
    free(all);
    return rc;
}

void mt_run_parts_free(struct mt_run_parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->list[i].kernel);
    free(p->list);
    memset(p, 0, sizeof *p);
}

void mt_untraced_add(struct mt_untraced *u, const struct mt_run_part *p)
{
    u->accesses += p->untraced;
    u->kernels += p->untraced != 0;
    u->unseen |= p->unseen;
    if (p->untraced <= u->most)
        return;
    u->most = p->untraced;
    u->kernel = p->kernel;
}
