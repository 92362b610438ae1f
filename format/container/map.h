/* A set of numbers, for readers of containers. */
#ifndef MT_CONTAINER_MAP_H
#define MT_CONTAINER_MAP_H
#include <stdint.h>

/* A set of 32-bit keys with 32-bit values; zero-initialised is empty. Key 0 is not one. */
struct mt_map32 {
    uint32_t *keys, *values;
    uint32_t count, mask;
};
/* The value of `key`, or NULL: not there. */
uint32_t *mt_map32_find(const struct mt_map32 *m, uint32_t key);
/* 0, or -1 without memory. The key must not be there yet. */
int mt_map32_add(struct mt_map32 *m, uint32_t key, uint32_t value);
void mt_map32_clear(struct mt_map32 *m);
void mt_map32_free(struct mt_map32 *m);
#endif
