/* Names to pointers. */
#include "module_parts.h"
#include <stdlib.h>
#include <string.h>

static uint64_t map_hash(const char *key)
{
    uint64_t h = 1469598103934665603u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211u;
    return h ^ h >> 32;
}

/* Where the key is, or would be. */
static unsigned map_slot(const struct mt_ptx_map *map, const char *key)
{
    unsigned i = (unsigned)map_hash(key) & (map->cap - 1);
    while (map->keys[i] && strcmp(map->keys[i], key) != 0)
        i = (i + 1) & (map->cap - 1);
    return i;
}

void *mt_ptx_map_get(const struct mt_ptx_map *map, const char *key)
{
    unsigned i = map->cap ? map_slot(map, key) : 0;
    return map->cap && map->keys[i] ? map->values[i] : NULL;
}

static int map_grow(struct mt_ptx_map *map)
{
    struct mt_ptx_map more = {.n = map->n, .cap = map->cap ? 2 * map->cap : 64};
    more.keys = calloc(more.cap, sizeof *more.keys);
    more.values = calloc(more.cap, sizeof *more.values);
    if (!more.keys || !more.values) {
        mt_ptx_map_free(&more);
        return -1;
    }
    for (unsigned i = 0; i < map->cap; i++)
        if (map->keys[i]) {
            unsigned at = map_slot(&more, map->keys[i]);
            more.keys[at] = map->keys[i];
            more.values[at] = map->values[i];
        }
    mt_ptx_map_free(map);
    *map = more;
    return 0;
}

int mt_ptx_map_put(struct mt_ptx_map *map, const char *key, void *value)
{
    if (2 * (map->n + 1) > map->cap && map_grow(map))
        return -1;
    unsigned i = map_slot(map, key);
    map->n += !map->keys[i];
    map->keys[i] = key;
    map->values[i] = value;
    return 0;
}

void mt_ptx_map_free(struct mt_ptx_map *map)
{
    free(map->keys);
    free(map->values);
    *map = (struct mt_ptx_map){0};
}
