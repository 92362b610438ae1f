/* A map from pointers to pointers. */
#include "map.h"
#include <errno.h>
#include <stdlib.h>
#define uthash_fatal(msg) (oom = 1)
#define HASH_NONFATAL_OOM 1
#undef uthash_nonfatal_oom
#define uthash_nonfatal_oom(e) (oom = 1)
#include <uthash.h>

struct mt_map_node {
    const void *key;
    void *value;
    UT_hash_handle hh;
};

int mt_map_set(struct mt_map *m, const void *key, void *value)
{
    struct mt_map_node *n;
    int oom = 0;
    pthread_rwlock_wrlock(&m->lock);
    HASH_FIND_PTR(m->nodes, &key, n);
    if (!n) {
        n = malloc(sizeof *n);
        if (n) {
            n->key = key;
            HASH_ADD_PTR(m->nodes, key, n);
        }
        if (oom) {
            free(n);
            n = NULL;
        }
    }
    if (n)
        n->value = value;
    pthread_rwlock_unlock(&m->lock);
    return n ? 0 : ENOMEM;
}

void *mt_map_get(struct mt_map *m, const void *key)
{
    struct mt_map_node *n;
    pthread_rwlock_rdlock(&m->lock);
    HASH_FIND_PTR(m->nodes, &key, n);
    void *value = n ? n->value : NULL;
    pthread_rwlock_unlock(&m->lock);
    return value;
}

void *mt_map_take(struct mt_map *m, const void *key)
{
    struct mt_map_node *n;
    void *value = NULL;
    pthread_rwlock_wrlock(&m->lock);
    HASH_FIND_PTR(m->nodes, &key, n);
    if (n) {
        value = n->value;
        HASH_DEL(m->nodes, n);
        free(n);
    }
    pthread_rwlock_unlock(&m->lock);
    return value;
}

void mt_map_drop(struct mt_map *m, const void *key, const void *value)
{
    struct mt_map_node *n;
    pthread_rwlock_wrlock(&m->lock);
    HASH_FIND_PTR(m->nodes, &key, n);
    if (n && n->value == value) {
        HASH_DEL(m->nodes, n);
        free(n);
    }
    pthread_rwlock_unlock(&m->lock);
}

void *mt_map_any(struct mt_map *m, int (*is)(const void *value, int device), int device)
{
    pthread_rwlock_rdlock(&m->lock);
    struct mt_map_node *n = m->nodes;
    while (n && !is(n->value, device))
        n = n->hh.next;
    void *value = n ? n->value : NULL;
    pthread_rwlock_unlock(&m->lock);
    return value;
}

void mt_map_each(struct mt_map *m, void (*f)(void *, void *), void *ctx)
{
    pthread_rwlock_rdlock(&m->lock);
    for (struct mt_map_node *n = m->nodes; n; n = n->hh.next)
        f(n->value, ctx);
    pthread_rwlock_unlock(&m->lock);
}
