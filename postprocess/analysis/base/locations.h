/* Locations of host code: "file:line" for each site, equal locations once. */
#ifndef MT_ANALYSIS_LOCATIONS_H
#define MT_ANALYSIS_LOCATIONS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/host.h"
#include "pairmap.h"

struct mt_host_locations {
    char **names; /* by number; number 0, for unknown locations, is "?" */
    size_t count, room;
    /* state */
    struct mt_location_name *by_name;
    struct mt_pairmap by_site;
};

#define MT_LOCATION_FAILED UINT32_MAX

/* Returns 0, or -1 without memory. */
int mt_host_locations_init(struct mt_host_locations *p);
void mt_host_locations_free(struct mt_host_locations *p);
/* Returns the number of a location, or MT_LOCATION_FAILED without memory. Names do not move. */
uint32_t mt_host_locations_named(struct mt_host_locations *p, const char *name);
/* Returns the location of a site: file and line, else module and function. Sites are known by pointer. */
uint32_t mt_host_locations_of(struct mt_host_locations *p, const struct mt_host_site_info *site);
#endif
