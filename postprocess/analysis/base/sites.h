/* Source locations of device code. A site is one access instruction; a line may have several. Lines
 * ("file:line") and variables are numbered over all inputs; 0 is unknown. */
#ifndef MT_ANALYSIS_SITES_H
#define MT_ANALYSIS_SITES_H
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "memtrace/hash.h"
#include "memtrace/trace.h"

/* Line, variable and place of each site of one input. */
struct mt_site_table {
    uint32_t *line, *var, *place; /* by site id; 0: not known */
    uint8_t *strong; /* by site id; bit 0: may synchronise threads, bit 1: code of the C library, from bit 2
                      * enum mt_scope, from bit 5 enum mt_order_kind */
    size_t count;
};

/* Names with numbers, equal names once. Zero-initialised is empty; names do not move. */
struct mt_names {
    char **names; /* by number */
    size_t count, room;
    struct mt_hash numbers; /* hashes of names to their numbers, + 1 */
};

/* Returns the number of a name, or -1 without memory. */
int64_t mt_names_number(struct mt_names *n, const char *name);
void mt_names_free(struct mt_names *n);

/* Position of an access in its line; accesses are distinguished by column and variable. */
struct mt_site_location {
    uint32_t line, var;
    uint64_t column;
};

struct mt_sites {
    struct mt_names lines, vars, place_names; /* [0] is "?"; place_names: used only for numbering */
    struct mt_site_location *places;          /* by number; [0] is unknown */
    size_t places_room;
};

/* Returns 0, or -1 without memory. */
int mt_sites_init(struct mt_sites *s);
void mt_sites_free(struct mt_sites *s);
/* Numbers the sites of one input. Sites without file have no line (except machine code: mt_site_words), sites
 * without variable no variable. Returns 0, or -1 without memory. */
int mt_sites_table(struct mt_sites *s, struct mt_site_table *t, const struct mt_site_event *sites, size_t n);
void mt_site_table_free(struct mt_site_table *t);

/* Writes the name of a site: "file:line", or in machine code without lines "kernel+0x120", or in host
 * programs "libz.so.1:deflate" or only "libz.so.1". It is cut at `size` bytes. Returns `room`, or NULL if
 * nothing is known. */
static inline const char *mt_site_words(const struct mt_site_event *s, char *room, size_t size)
{
    if (s && *s->file)
        snprintf(room, size, "%s:%" PRIu64, s->file, s->line);
    else if (s && s->at && *s->at)
        snprintf(room, size, "%s", s->at);
    else if (s && s->module && (*s->module || *s->function))
        snprintf(room, size, "%s%s%s", s->module, *s->module && *s->function ? ":" : "", s->function);
    else
        return NULL;
    return room;
}

/* Returns the last colon of "file:line", or NULL for other texts ("ns::kernel+0x120"). */
static inline const char *mt_location_colon(const char *place)
{
    const char *colon = strrchr(place, ':');
    return colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")] ? colon : NULL;
}

/* Returns "file:line" without folders, for narrow tables. */
static inline const char *mt_location_short(const char *place)
{
    const char *slash = strrchr(place, '/');
    return slash && slash[1] ? slash + 1 : place;
}

static inline uint32_t mt_site_line(const struct mt_site_table *t, uint32_t site)
{
    return t && site && site < t->count ? t->line[site] : 0;
}
static inline uint32_t mt_site_location_of(const struct mt_site_table *t, uint32_t site)
{
    return t && site && site < t->count ? t->place[site] : 0;
}
static inline int mt_site_strong(const struct mt_site_table *t, uint32_t site)
{
    return t && site < t->count && t->strong[site] & 1;
}
static inline int mt_site_runtime(const struct mt_site_table *t, uint32_t site)
{
    return t && site < t->count && t->strong[site] >> 1 & 1;
}
static inline enum mt_scope mt_site_scope(const struct mt_site_table *t, uint32_t site)
{
    return t && site < t->count ? (enum mt_scope)(t->strong[site] >> 2 & 7) : MT_SCOPE_NONE;
}
static inline enum mt_order_kind mt_site_order(const struct mt_site_table *t, uint32_t site)
{
    return t && site < t->count ? (enum mt_order_kind)(t->strong[site] >> 5) : MT_ORDER_WEAK;
}
static inline uint32_t mt_site_var(const struct mt_site_table *t, uint32_t site)
{
    return t && site && site < t->count ? t->var[site] : 0;
}
#endif
