/* Locations of host code: "file:line" for each site, equal locations once. */
#define _GNU_SOURCE
#include "locations.h"
#include "memtrace/grow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct mt_location_name {
    uint32_t number;
    UT_hash_handle hh;
};

static uint32_t locations_add(struct mt_host_locations *p, const char *name)
{
    if (mt_grow(&p->names, &p->room, p->count + 1, sizeof *p->names) != 0)
        return MT_LOCATION_FAILED;
    struct mt_location_name *n = p->count < UINT32_MAX - 1 ? malloc(sizeof *n) : NULL;
    char *copy = n ? strdup(name) : NULL;
    if (!copy) {
        free(n);
        return MT_LOCATION_FAILED;
    }
    n->number = (uint32_t)p->count;
    p->names[p->count++] = copy;
    HASH_ADD_KEYPTR(hh, p->by_name, copy, strlen(copy), n);
    return n->number;
}

int mt_host_locations_init(struct mt_host_locations *p)
{
    memset(p, 0, sizeof *p);
    return locations_add(p, "?") == 0 ? 0 : -1;
}

void mt_host_locations_free(struct mt_host_locations *p)
{
    struct mt_location_name *n, *next;
    HASH_ITER(hh, p->by_name, n, next)
    {
        HASH_DEL(p->by_name, n); // NOLINT(clang-analyzer-unix.Malloc): the macro reads no freed entry
        free(n);
    }
    for (size_t i = 0; i < p->count; i++)
        free(p->names[i]);
    free(p->names);
    mt_pairmap_free(&p->by_site);
    memset(p, 0, sizeof *p);
}

uint32_t mt_host_locations_named(struct mt_host_locations *p, const char *name)
{
    struct mt_location_name *n;
    HASH_FIND(hh, p->by_name, name, strlen(name), n);
    return n ? n->number : locations_add(p, name);
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
    uint32_t place = n < 0 ? MT_LOCATION_FAILED : mt_host_locations_named(p, name);
    if (n >= 0)
        free(name);
    if (place != MT_LOCATION_FAILED)
        *known = (uint64_t)place + 1;
    return place;
}
