/* A table from a number and an access's meta to an id: open addressing; entries stay where they are until the
 * table grows, and then the old one stays for those who still look into it, all old ones together being
 * smaller than the new. */
#include "known.h"
#include "memtrace/hash.h"
#include <stdatomic.h>
#include <stdlib.h>

#define GONE UINT32_MAX /* as id */
enum { LEAST = 1024 };

struct entry {
    _Atomic uint64_t key;   /* 0: empty. Written after: */
    _Atomic uint64_t value; /* meta << 32 | id */
};

struct mt_known_table {
    struct mt_known_table *before;
    uint64_t mask, used;
    struct entry at[];
};

static uint64_t known_hash(uint64_t key, uint32_t meta)
{
    uint64_t h = mt_hash_number(key ^ (uint64_t)meta << 20);
    return h ^ h >> 32;
}

/* The entry, or the empty one where it would be. */
static struct entry *known_find(struct mt_known_table *t, uint64_t key, uint32_t meta)
{
    for (uint64_t i = known_hash(key, meta);; i++) {
        struct entry *e = &t->at[i & t->mask];
        uint64_t there = atomic_load_explicit(&e->key, memory_order_acquire);
        if (!there || (there == key && atomic_load_explicit(&e->value, memory_order_relaxed) >> 32 == meta))
            return e;
    }
}

int mt_known_get(const struct mt_known *k, uint64_t key, uint32_t meta, uint32_t *id)
{
    struct mt_known_table *t = atomic_load_explicit(&k->now, memory_order_acquire);
    struct entry *e = t && key ? known_find(t, key, meta) : NULL;
    if (!e || atomic_load_explicit(&e->key, memory_order_acquire) !=
                  key) /* it was empty, and may be another's now */
        return 0;
    uint64_t value = atomic_load_explicit(&e->value, memory_order_relaxed);
    *id = (uint32_t)value;
    return value >> 32 == meta && *id != GONE;
}

static void known_put(struct mt_known_table *t, uint64_t key, uint32_t meta, uint32_t id)
{
    struct entry *e = known_find(t, key, meta);
    t->used += !atomic_load_explicit(&e->key, memory_order_relaxed);
    atomic_store_explicit(&e->value, (uint64_t)meta << 32 | id, memory_order_relaxed);
    atomic_store_explicit(&e->key, key, memory_order_release);
}

/* The next table, without what is gone. NULL: no memory. */
static struct mt_known_table *known_grow(struct mt_known_table *old)
{
    uint64_t n = old ? 2 * (old->mask + 1) : LEAST;
    struct mt_known_table *t = calloc(1, sizeof *t + n * sizeof *t->at);
    if (!t)
        return NULL;
    t->before = old;
    t->mask = n - 1;
    for (uint64_t i = 0; old && i <= old->mask; i++) {
        uint64_t key = atomic_load_explicit(&old->at[i].key, memory_order_relaxed);
        uint64_t value = atomic_load_explicit(&old->at[i].value, memory_order_relaxed);
        if (key && (uint32_t)value != GONE)
            known_put(t, key, (uint32_t)(value >> 32), (uint32_t)value);
    }
    return t;
}

int mt_known_set(struct mt_known *k, uint64_t key, uint32_t meta, uint32_t id)
{
    struct mt_known_table *t = atomic_load_explicit(&k->now, memory_order_relaxed);
    if (!t || 2 * (t->used + 1) > t->mask) {
        t = known_grow(t);
        if (!t)
            return -1;
        atomic_store_explicit(&k->now, t, memory_order_release);
    }
    if (key)
        known_put(t, key, meta, id);
    return 0;
}

void mt_known_forget(struct mt_known *k, uint64_t from, uint64_t count)
{
    struct mt_known_table *t = atomic_load_explicit(&k->now, memory_order_relaxed);
    for (uint64_t i = 0; t && i <= t->mask; i++) {
        uint64_t key = atomic_load_explicit(&t->at[i].key, memory_order_relaxed);
        uint64_t value = atomic_load_explicit(&t->at[i].value, memory_order_relaxed);
        if (key && key - from < count)
            atomic_store_explicit(&t->at[i].value, value | GONE, memory_order_relaxed);
    }
}

/* For tests: nobody may ask any more. */
__attribute__((unused)) static void known_free(struct mt_known *k)
{
    for (struct mt_known_table *t = k->now, *before; t; t = before) {
        before = t->before;
        free(t);
    }
    k->now = NULL;
}
