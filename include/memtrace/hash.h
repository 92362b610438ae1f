/* Hash functions and the hash table of the whole tree. Not installed. */
#ifndef MT_HASH_H
#define MT_HASH_H
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MT_HASH_BEGIN 14695981039346656037u /* start value of FNV-1a */

/* Spreads a number; the upper bits of the result are well mixed. */
static inline uint64_t mt_hash_number(uint64_t n)
{
    return n * 0x9e3779b97f4a7c15u;
}

/* Hashes `n` bytes. `h` is MT_HASH_BEGIN, or the hash of the preceding bytes. */
static inline uint64_t mt_hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static inline uint64_t mt_hash_text(const char *text)
{
    return mt_hash_bytes(MT_HASH_BEGIN, text, strlen(text));
}

/* Hash table from numbers to numbers: open addressing, linear probing, at most half full. Zero-initialised is
 * empty. Keys are never removed.
 *
 * A table with other keys (texts, structs) uses their hashes as keys and indices of entries as values; if
 * another entry has the hash already, the next number is tried (mt_hash_at). */
struct mt_hash_slot {
    uint64_t key, value; /* value 0: the slot is free */
};

struct mt_hash {
    struct mt_hash_slot *slot;
    unsigned bits;
    size_t count; /* number of keys */
};

static inline struct mt_hash_slot *mt_hash_slot(const struct mt_hash *t, uint64_t key)
{
    const size_t mask = ((size_t)1 << t->bits) - 1;
    size_t i = mt_hash_number(key) >> (64 - t->bits);
    while (t->slot[i].key != key && t->slot[i].value)
        i = (i + 1) & mask;
    return &t->slot[i];
}

static __attribute__((noinline, unused)) int mt_hash_grow(struct mt_hash *t)
{
    struct mt_hash more = {NULL, t->slot ? t->bits + 1 : 6, t->count};
    more.slot = (struct mt_hash_slot *)calloc((size_t)1 << more.bits, sizeof *more.slot);
    if (!more.slot)
        return -1;
    for (size_t i = 0; t->slot && i < (size_t)1 << t->bits; i++)
        if (t->slot[i].value)
            *mt_hash_slot(&more, t->slot[i].key) = t->slot[i];
    free(t->slot);
    *t = more;
    return 0;
}

/* Returns the value of the key, or 0 if the key is absent. */
static inline uint64_t mt_hash_find(const struct mt_hash *t, uint64_t key)
{
    return t->slot ? mt_hash_slot(t, key)->value : 0;
}

/* Returns the value of the key for writing; it is 0 if the key is new, and the caller must then set it. Valid
 * until the next call; NULL without memory. Use with texts: uint64_t key = mt_hash_text(text), *n; while ((n
 * = mt_hash_at(t, key)) && *n && strcmp(texts[*n], text) != 0) key++; */
static inline uint64_t *mt_hash_at(struct mt_hash *t, uint64_t key)
{
    if ((!t->slot || (t->count + 1) * 2 > (size_t)1 << t->bits) && mt_hash_grow(t) != 0)
        return NULL;
    struct mt_hash_slot *s = mt_hash_slot(t, key);
    t->count += s->value == 0;
    s->key = key;
    return &s->value;
}

/* Sets the value of a key; the value must not be 0. Returns 0, or -1 without memory. */
static inline int mt_hash_put(struct mt_hash *t, uint64_t key, uint64_t value)
{
    uint64_t *at = mt_hash_at(t, key);
    if (at)
        *at = value;
    return at ? 0 : -1;
}

static inline int mt_hash_add(struct mt_hash *t, uint64_t key, uint64_t n)
{
    uint64_t *at = mt_hash_at(t, key);
    if (at)
        *at += n;
    return at ? 0 : -1;
}

/* Prefetches the slot of a key that is looked up soon. Returns the slot at which the search begins, usually
 * the key's own, or NULL. */
static inline const struct mt_hash_slot *mt_hash_soon(const struct mt_hash *t, uint64_t key)
{
    const struct mt_hash_slot *s = t->slot ? &t->slot[mt_hash_number(key) >> (64 - t->bits)] : NULL;
    __builtin_prefetch(s, 1);
    return s;
}

/* Returns the next used slot, in no particular order, or NULL at the end. *at starts at 0. */
static inline const struct mt_hash_slot *mt_hash_next(const struct mt_hash *t, size_t *at)
{
    while (t->slot && *at < (size_t)1 << t->bits)
        if (t->slot[(*at)++].value)
            return &t->slot[*at - 1];
    return NULL;
}

static inline void mt_hash_clear(struct mt_hash *t)
{
    if (t->count)
        memset(t->slot, 0, ((size_t)1 << t->bits) * sizeof *t->slot);
    t->count = 0;
}

static inline void mt_hash_free(struct mt_hash *t)
{
    free(t->slot);
    memset(t, 0, sizeof *t);
}
#endif
