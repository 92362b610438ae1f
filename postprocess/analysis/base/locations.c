/* Locations of host code: "file:line" for each site, equal locations once. */
#define _GNU_SOURCE
#include "locations.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mt_host_locations_init(struct mt_host_locations *p)
{
    memset(p, 0, sizeof *p);
    return mt_names_number(&p->all, "?") == 0 ? 0 : -1;
}

void mt_host_locations_free(struct mt_host_locations *p)
{
    mt_names_free(&p->all);
    mt_pairmap_free(&p->by_site);
}

uint32_t mt_host_locations_of(struct mt_host_locations *p, const struct mt_host_site_info *s)
{
    uint64_t *known = mt_pairmap_get(&p->by_site, (uint64_t)(uintptr_t)s, 0, 0);
    if (!known)
        return MT_LOCATION_FAILED;
    if (*known)
        return (uint32_t)(*known - 1);
    char *name = NULL;
    int n = *s->file       ? asprintf(&name, "%s:%u", s->file, s->line)
            : *s->function ? asprintf(&name, "%s%s%s", s->module, *s->module ? ":" : "", s->function)
                           : asprintf(&name, "%s", *s->module ? s->module : "?");
    uint32_t place = n < 0 ? MT_LOCATION_FAILED : (uint32_t)mt_names_number(&p->all, name);
    if (n >= 0)
        free(name);
    if (place != MT_LOCATION_FAILED)
        *known = (uint64_t)place + 1;
    return place;
}
