/* Locations of host code: "file:line" for each site, equal locations once. */
#ifndef MT_ANALYSIS_LOCATIONS_H
#define MT_ANALYSIS_LOCATIONS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/host.h"
#include "pairmap.h"
#include "sites.h"

struct mt_host_locations {
    struct mt_names all; /* number 0, for unknown locations, is "?" */
    struct mt_pairmap by_site;
};

#define MT_LOCATION_FAILED UINT32_MAX

/* Returns 0, or -1 without memory. */
int mt_host_locations_init(struct mt_host_locations *p);
void mt_host_locations_free(struct mt_host_locations *p);
/* Returns the location of a site: file and line, else module and function; MT_LOCATION_FAILED without memory.
 * Sites are known by pointer. */
uint32_t mt_host_locations_of(struct mt_host_locations *p, const struct mt_host_site_info *site);
#endif
