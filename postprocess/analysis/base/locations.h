/* Places of host code: "file:line" for each site, equal places once. */
#ifndef MT_ANALYSIS_LOCATIONS_H
#define MT_ANALYSIS_LOCATIONS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/host.h"
#include "pairmap.h"

struct mt_host_locations {
    char **names; /* by number; of number 0, which stands for all that is not known, "?" */
    size_t count, room;
    /* state */
    struct mt_location_name *by_name;
    struct mt_pairmap by_site;
};

#define MT_LOCATION_FAILED UINT32_MAX

/* 0, or -1 without memory. */
int mt_host_locations_init(struct mt_host_locations *p);
void mt_host_locations_free(struct mt_host_locations *p);
/* The number of a place, MT_LOCATION_FAILED without memory. Names stay where they are. */
uint32_t mt_host_locations_named(struct mt_host_locations *p, const char *name);
/* Of a site: file and line, else module and function. Its address is what it is known by. */
uint32_t mt_host_locations_of(struct mt_host_locations *p, const struct mt_host_site_info *site);
#endif
