/* Places of host code: "file:line" for each site, equal places once. */
#define _GNU_SOURCE
#include "places.h"
#include "memtrace/grow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct mt_place_name {
    uint32_t number;
    UT_hash_handle hh;
};

static uint32_t places_add(struct mt_host_places *p, const char *name)
{
    if (mt_grow(&p->names, &p->room, p->count + 1, sizeof *p->names) != 0)
        return MT_PLACE_FAILED;
    struct mt_place_name *n = p->count < UINT32_MAX - 1 ? malloc(sizeof *n) : NULL;
    char *copy = n ? strdup(name) : NULL;
    if (!copy) {
        free(n);
        return MT_PLACE_FAILED;
    }
    n->number = (uint32_t)p->count;
    p->names[p->count++] = copy;
    HASH_ADD_KEYPTR(hh, p->by_name, copy, strlen(copy), n);
    return n->number;
}

int mt_host_places_init(struct mt_host_places *p)
{
    memset(p, 0, sizeof *p);
    return places_add(p, "?") == 0 ? 0 : -1;
}

void mt_host_places_free(struct mt_host_places *p)
{
    struct mt_place_name *n, *next;
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

uint32_t mt_host_places_named(struct mt_host_places *p, const char *name)
{
    struct mt_place_name *n;
    HASH_FIND(hh, p->by_name, name, strlen(name), n);
    return n ? n->number : places_add(p, name);
}

uint32_t mt_host_places_of(struct mt_host_places *p, const struct mt_host_site_info *s)
{
    uint64_t *known = mt_pairmap_get(&p->by_site, (uint64_t)(uintptr_t)s, 0, 0);
    if (!known)
        return MT_PLACE_FAILED;
    if (*known)
        return (uint32_t)(*known - 1);
    char *name = NULL;
    int n = *s->file       ? asprintf(&name, "%s:%u", s->file, s->line)
            : *s->function ? asprintf(&name, "%s%s%s", s->module, *s->module ? ":" : "", s->function)
                           : asprintf(&name, "%s", *s->module ? s->module : "?");
    uint32_t place = n < 0 ? MT_PLACE_FAILED : mt_host_places_named(p, name);
    if (n >= 0)
        free(name);
    if (place != MT_PLACE_FAILED)
        *known = (uint64_t)place + 1;
    return place;
}
