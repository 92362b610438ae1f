/* Source places of device code. A site is one access instruction; several may be in one line. Lines
 * ("file:line") and variables have numbers of their own, one set for all inputs; 0 is what is not known. */
#ifndef MT_ANALYSIS_SITES_H
#define MT_ANALYSIS_SITES_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "memtrace/trace.h"

/* Of one input: line, variable and place of each site. */
struct mt_site_table {
    uint32_t *line, *var, *place; /* by site id; 0: not known */
    size_t count;
};

struct mt_site_names {
    char **names; /* by number; names[0] is "?" */
    uint64_t *hashes;
    size_t count, room;
    uint32_t *slot; /* number, 0 is free */
    unsigned bits;
};

/* Where in a line an access is: several are apart by column and variable. */
struct mt_site_place {
    uint32_t line, var;
    uint64_t column;
};

struct mt_sites {
    struct mt_site_names lines, vars, place_names; /* place_names: only for their numbers */
    struct mt_site_place *places;                  /* by number; [0] is not known */
    size_t places_room;
};

/* 0, or -1 without memory. */
int mt_sites_init(struct mt_sites *s);
void mt_sites_free(struct mt_sites *s);
/* Numbers the sites of one input. Sites without file have no line, those without variable none. 0 or -1. */
int mt_sites_table(struct mt_sites *s, struct mt_site_table *t, const struct mt_site_event *sites, size_t n);
void mt_site_table_free(struct mt_site_table *t);

/* "file:line" without folders: a table has little room. */
static inline const char *mt_place_short(const char *place)
{
    const char *slash = strrchr(place, '/');
    return slash && slash[1] ? slash + 1 : place;
}

static inline uint32_t mt_site_line(const struct mt_site_table *t, uint32_t site)
{
    return t && site && site < t->count ? t->line[site] : 0;
}
static inline uint32_t mt_site_place(const struct mt_site_table *t, uint32_t site)
{
    return t && site && site < t->count ? t->place[site] : 0;
}
static inline uint32_t mt_site_var(const struct mt_site_table *t, uint32_t site)
{
    return t && site && site < t->count ? t->var[site] : 0;
}
#endif
