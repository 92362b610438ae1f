/* A map from non-zero 64-bit numbers to numbers. It grows and never removes. */
#include "map.h"
#include "memtrace/hash.h"
#include <stdlib.h>

struct mt_guest_map_table {
    struct mt_guest_map_table *smaller; /* kept for readers still in it */
    size_t room;
    uint64_t cell[][2];
};

static size_t map_place(const struct mt_guest_map_table *t, uint64_t key)
{
    size_t i = (size_t)(mt_hash_number(key) >> 20) & (t->room - 1);
    for (uint64_t k; (k = __atomic_load_n(&t->cell[i][0], __ATOMIC_ACQUIRE)) != 0 && k != key;)
        i = (i + 1) & (t->room - 1);
    return i;
}

uint64_t mt_guest_map_get(const struct mt_guest_map *m, uint64_t key)
{
    const struct mt_guest_map_table *t = __atomic_load_n(&m->table, __ATOMIC_ACQUIRE);
    if (!t)
        return 0;
    size_t i = map_place(t, key);
    if (__atomic_load_n(&t->cell[i][0], __ATOMIC_ACQUIRE) == 0)
        return 0;
    return __atomic_load_n(&t->cell[i][1], __ATOMIC_RELAXED);
}

static void map_set(struct mt_guest_map_table *t, size_t i, uint64_t key, uint64_t value)
{
    __atomic_store_n(&t->cell[i][1], value, __ATOMIC_RELAXED);
    __atomic_store_n(&t->cell[i][0], key, __ATOMIC_RELEASE);
}

static struct mt_guest_map_table *map_grown(struct mt_guest_map_table *old)
{
    size_t room = old ? old->room * 2 : 1024;
    struct mt_guest_map_table *t = calloc(1, sizeof *t + room * sizeof t->cell[0]);
    if (!t)
        return NULL;
    t->smaller = old;
    t->room = room;
    for (size_t i = 0; old && i < old->room; i++)
        if (old->cell[i][0])
            map_set(t, map_place(t, old->cell[i][0]), old->cell[i][0], old->cell[i][1]);
    return t;
}

int mt_guest_map_put(struct mt_guest_map *m, uint64_t key, uint64_t value)
{
    if (!m->table || m->count * 2 >= m->table->room) {
        struct mt_guest_map_table *t = map_grown(m->table);
        if (!t)
            return -1;
        __atomic_store_n(&m->table, t, __ATOMIC_RELEASE);
    }
    size_t i = map_place(m->table, key);
    m->count += m->table->cell[i][0] == 0;
    map_set(m->table, i, key, value);
    return 0;
}
