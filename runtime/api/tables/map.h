/* A map from pointers to pointers. Thread-safe; values are not owned. */
#ifndef MT_API_MAP_H
#define MT_API_MAP_H
#include <pthread.h>
#include <stddef.h>

struct mt_map_node;
struct mt_map {
    pthread_rwlock_t lock;
    struct mt_map_node *nodes;
};
#define MT_MAP_INIT {PTHREAD_RWLOCK_INITIALIZER, NULL}

/* Sets or replaces an entry. Returns 0 or ENOMEM. */
int mt_map_set(struct mt_map *m, const void *key, void *value);
void *mt_map_get(struct mt_map *m, const void *key); /* returns NULL if absent */
void *mt_map_take(struct mt_map *m, const void *key);
/* Removes the entry if its value is `value`. */
void mt_map_drop(struct mt_map *m, const void *key, const void *value);
/* Returns any value for which is(value, device), or NULL. */
void *mt_map_any(struct mt_map *m, int (*is)(const void *value, int device), int device);
/* Calls f for each value while the map is locked for reading. */
void mt_map_each(struct mt_map *m, void (*f)(void *value, void *ctx), void *ctx);
#endif
