/* Places of host code: "file:line" for each site, equal places once. */
#ifndef MT_ANALYSIS_PLACES_H
#define MT_ANALYSIS_PLACES_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/host.h"
#include "pairmap.h"

struct mt_host_places {
    char **names; /* by number; of number 0, which stands for all that is not known, "?" */
    size_t count, room;
    /* state */
    struct mt_place_name *by_name;
    struct mt_pairmap by_site;
};

#define MT_PLACE_FAILED UINT32_MAX

/* 0, or -1 without memory. */
int mt_host_places_init(struct mt_host_places *p);
void mt_host_places_free(struct mt_host_places *p);
/* The number of a place, MT_PLACE_FAILED without memory. Names stay where they are. */
uint32_t mt_host_places_named(struct mt_host_places *p, const char *name);
/* Of a site: file and line, else module and function. Its address is what it is known by. */
uint32_t mt_host_places_of(struct mt_host_places *p, const struct mt_host_site_info *site);
#endif
