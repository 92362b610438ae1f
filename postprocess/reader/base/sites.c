/* The sites of a companion, by number. */
#include "internal.h"
#include <stdlib.h>

static int sites_compare(const void *a, const void *b)
{
    const struct mt_site_event *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

void mt_companion_order_sites(struct mt_companion *c)
{
    size_t i = 1;
    while (i < c->nsites && c->sites[i - 1].id <= c->sites[i].id)
        i++;
    if (i < c->nsites)
        qsort(c->sites, c->nsites, sizeof *c->sites, sites_compare);
}

const struct mt_site_event *mt_companion_site(const struct mt_companion *c, uint64_t id)
{
    struct mt_site_event key = {.id = id};
    return c && c->nsites ? bsearch(&key, c->sites, c->nsites, sizeof key, sites_compare) : NULL;
}
