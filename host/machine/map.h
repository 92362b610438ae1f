/* A map from non-zero 64-bit numbers to numbers. It grows and never removes; all zero at first. One writer
 * at a time; readers need no lock: a table that became too small stays in place. */
#ifndef MT_HOST_MACHINE_MAP_H
#define MT_HOST_MACHINE_MAP_H
#include <stddef.h>
#include <stdint.h>

struct mt_guest_map_table;

struct mt_guest_map {
    struct mt_guest_map_table *table;
    size_t count;
};

/* Returns the value, or 0 if absent. */
uint64_t mt_guest_map_get(const struct mt_guest_map *m, uint64_t key);
/* Returns 0, or -1 without memory. */
int mt_guest_map_put(struct mt_guest_map *m, uint64_t key, uint64_t value);
#endif
