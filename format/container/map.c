/* Open addressing, linear probing: site numbers come in runs and are spread by a multiplication. */
#include "map.h"
#include <stdlib.h>
#include <string.h>

static uint32_t map_place(const struct mt_map32 *m, uint32_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & m->mask;
}

uint32_t *mt_map32_find(const struct mt_map32 *m, uint32_t key)
{
    if (!m->keys)
        return NULL;
    for (uint32_t i = map_place(m, key); m->keys[i]; i = (i + 1) & m->mask)
        if (m->keys[i] == key)
            return &m->values[i];
    return NULL;
}

static void map_insert(struct mt_map32 *m, uint32_t key, uint32_t value)
{
    uint32_t i = map_place(m, key);
    while (m->keys[i])
        i = (i + 1) & m->mask;
    m->keys[i] = key;
    m->values[i] = value;
}

static int map_grow(struct mt_map32 *m)
{
    struct mt_map32 more = {.mask = m->keys ? m->mask * 2 + 1 : 63, .count = m->count};
    more.keys = calloc((size_t)more.mask + 1, sizeof *more.keys);
    more.values = malloc(((size_t)more.mask + 1) * sizeof *more.values);
    if (!more.keys || !more.values || more.mask > UINT32_MAX / 2) {
        mt_map32_free(&more);
        return -1;
    }
    for (uint32_t i = 0; m->keys && i <= m->mask; i++)
        if (m->keys[i])
            map_insert(&more, m->keys[i], m->values[i]);
    mt_map32_free(m);
    *m = more;
    return 0;
}

int mt_map32_add(struct mt_map32 *m, uint32_t key, uint32_t value)
{
    if ((!m->keys || m->count > m->mask / 2) && map_grow(m) != 0)
        return -1;
    map_insert(m, key, value);
    m->count++;
    return 0;
}

void mt_map32_clear(struct mt_map32 *m)
{
    if (m->keys && m->count)
        memset(m->keys, 0, ((size_t)m->mask + 1) * sizeof *m->keys);
    m->count = 0;
}

void mt_map32_free(struct mt_map32 *m)
{
    free(m->keys);
    free(m->values);
    memset(m, 0, sizeof *m);
}
