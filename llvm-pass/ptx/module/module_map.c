/* A map from names to pointers. */
#include "memtrace/grow.h"
#include "module_parts.h"

/* Returns the name's entry, or NULL; *key is its place in the table. */
static struct mt_ptx_entry *map_entry(const struct mt_ptx_map *map, const char *name, uint64_t *key)
{
    uint64_t n;
    for (*key = mt_hash_text(name); (n = mt_hash_find(&map->places, *key)); ++*key)
        if (strcmp(map->entries[n - 1].name, name) == 0)
            return &map->entries[n - 1];
    return NULL;
}

void *mt_ptx_map_get(const struct mt_ptx_map *map, const char *name)
{
    uint64_t key;
    const struct mt_ptx_entry *e = map_entry(map, name, &key);
    return e ? e->value : NULL;
}

int mt_ptx_map_put(struct mt_ptx_map *map, const char *name, void *value)
{
    uint64_t key;
    struct mt_ptx_entry *e = map_entry(map, name, &key);
    if (!e) {
        size_t n = map->places.count;
        if (mt_grow(&map->entries, &map->room, n + 1, sizeof *e) || mt_hash_put(&map->places, key, n + 1))
            return -1;
        e = &map->entries[n];
    }
    *e = (struct mt_ptx_entry){name, value};
    return 0;
}

void mt_ptx_map_free(struct mt_ptx_map *map)
{
    mt_hash_free(&map->places);
    free(map->entries);
    *map = (struct mt_ptx_map){0};
}
