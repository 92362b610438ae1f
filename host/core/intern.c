/* Interned strings, which live as long as the trace. */
#define _GNU_SOURCE
#include "intern.h"
#include "platform.h"
#include "memtrace/hash.h"
#include <string.h>

#define SLAB (1u << 20)
#define LONGEST 65535u

static char *slab;
static size_t left;
static const char **table;
static uint64_t room, count;

static uint64_t intern_hash(const char *s, size_t n)
{
    uint64_t h = mt_hash_bytes(MT_HASH_BEGIN, s, n);
    return h ^ h >> 32;
}

static const char **intern_find(const char **t, uint64_t size, const char *s, size_t n)
{
    for (uint64_t i = intern_hash(s, n);; i++) {
        const char **p = &t[i & (size - 1)];
        if (!*p || (!strncmp(*p, s, n) && !(*p)[n]))
            return p;
    }
}

static int intern_grow(void)
{
    uint64_t size = room ? 2 * room : 8192;
    const char **t = mt_plat_map(size * sizeof *t);
    if (!t)
        return -1;
    for (uint64_t i = 0; i < room; i++)
        if (table[i])
            *intern_find(t, size, table[i], strlen(table[i])) = table[i];
    mt_plat_unmap(table, room * sizeof *table);
    table = t;
    room = size;
    return 0;
}

const char *mt_intern(const char *s)
{
    if (!s || !*s)
        return "";
    size_t n = strnlen(s, LONGEST);
    if (4 * count >= 3 * room && intern_grow())
        return "";
    const char **p = intern_find(table, room, s, n);
    if (*p)
        return *p;
    if (n + 1 > left) {
        char *new = mt_plat_map(SLAB);
        if (!new)
            return "";
        slab = new;
        left = SLAB;
    }
    memcpy(slab, s, n); /* pages are zeroed */
    *p = slab;
    slab += n + 1;
    left -= n + 1;
    count++;
    return *p;
}
