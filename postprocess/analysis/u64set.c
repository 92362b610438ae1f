/* Open addressing, linear probing, at most half full. */
#include "u64set.h"
#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct mt_u64set *s, uint64_t n)
{
    size_t mask = ((size_t)1 << s->bits) - 1;
    size_t i = (n * 0x9e3779b97f4a7c15ull) >> (64 - s->bits);
    while (s->slot[i] && s->slot[i] != n)
        i = (i + 1) & mask;
    return i;
}

static int grow(struct mt_u64set *s)
{
    struct mt_u64set old = *s;
    s->bits = old.slot ? old.bits + 1 : 8;
    s->slot = calloc((size_t)1 << s->bits, sizeof *s->slot);
    if (!s->slot) {
        *s = old;
        return -1;
    }
    for (size_t i = 0; old.slot && i < (size_t)1 << old.bits; i++)
        if (old.slot[i])
            s->slot[slot_of(s, old.slot[i])] = old.slot[i];
    free(old.slot);
    return 0;
}

int mt_u64set_add(struct mt_u64set *s, uint64_t n)
{
    if (n == 0) {
        s->count += !s->has_zero;
        s->has_zero = 1;
        return 0;
    }
    if ((!s->slot || (s->count + 1) * 2 > (size_t)1 << s->bits) && grow(s) != 0)
        return -1;
    size_t i = slot_of(s, n);
    if (!s->slot[i]) {
        s->slot[i] = n;
        s->count++;
    }
    return 0;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

uint64_t *mt_u64set_sorted(const struct mt_u64set *s)
{
    uint64_t *out = malloc((s->count + 1) * sizeof *out);
    if (!out)
        return NULL;
    size_t n = 0;
    if (s->has_zero)
        out[n++] = 0;
    for (size_t i = 0; s->slot && i < (size_t)1 << s->bits; i++)
        if (s->slot[i])
            out[n++] = s->slot[i];
    qsort(out, n, sizeof *out, ascending);
    return out;
}

void mt_u64set_free(struct mt_u64set *s)
{
    free(s->slot);
    memset(s, 0, sizeof *s);
}
