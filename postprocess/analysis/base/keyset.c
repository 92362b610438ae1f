/* Pages of the set: open addressing, at most half full; they come from blocks and are freed as a whole. */
#include "keyset.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK_PAGES = 128 };

struct block {
    struct block *next;
    struct mt_keypage page[BLOCK_PAGES];
};

static size_t slot_of(const struct mt_keyset *s, uint64_t number)
{
    size_t mask = ((size_t)1 << s->bits) - 1;
    size_t i = (number * 0x9e3779b97f4a7c15ull) >> (64 - s->bits);
    while (s->slot[i] && s->slot[i]->number != number)
        i = (i + 1) & mask;
    return i;
}

static int keyset_grow(struct mt_keyset *s)
{
    struct mt_keyset old = *s;
    s->bits = old.slot ? old.bits + 1 : 8;
    s->slot = calloc((size_t)1 << s->bits, sizeof(struct mt_keypage *));
    if (!s->slot) {
        s->slot = old.slot;
        s->bits = old.bits;
        return -1;
    }
    for (size_t i = 0; old.slot && i < (size_t)1 << old.bits; i++)
        if (old.slot[i])
            s->slot[slot_of(s, old.slot[i]->number)] = old.slot[i];
    free((void *)old.slot);
    return 0;
}

struct mt_keypage *mt_keyset_find_slow(struct mt_keyset *s, uint64_t number)
{
    struct mt_keypage *p = s->slot ? s->slot[slot_of(s, number)] : NULL;
    s->recent[number % MT_KEY_RECENT].number = number + 1;
    s->recent[number % MT_KEY_RECENT].page = p;
    return p;
}

struct mt_keypage *mt_keyset_make(struct mt_keyset *s, uint64_t number)
{
    struct mt_keypage *p = mt_keyset_find(s, number);
    if (p)
        return p;
    if ((!s->slot || (s->pages + 1) * 2 > (size_t)1 << s->bits) && keyset_grow(s) != 0)
        return NULL;
    if (!s->block || s->in_block == BLOCK_PAGES) {
        struct block *b = calloc(1, sizeof *b);
        if (!b)
            return NULL;
        b->next = s->blocks;
        s->blocks = b;
        s->block = b->page;
        s->in_block = 0;
    }
    p = &s->block[s->in_block++];
    p->number = number;
    s->slot[slot_of(s, number)] = p;
    s->pages++;
    s->recent[number % MT_KEY_RECENT].number = number + 1;
    s->recent[number % MT_KEY_RECENT].page = p;
    return p;
}

int mt_keyset_merge(struct mt_keyset *s, const struct mt_keyset *other)
{
    for (size_t i = 0; other->slot && i < (size_t)1 << other->bits; i++) {
        if (!other->slot[i])
            continue;
        struct mt_keypage *p = mt_keyset_make(s, other->slot[i]->number);
        if (!p)
            return -1;
        for (size_t w = 0; w < MT_KEY_WORDS; w++)
            p->bits[w] |= other->slot[i]->bits[w];
    }
    return 0;
}

MT_ORDER_POINTED_1(keyset_ascending, struct mt_keypage, number)

int mt_keyset_index(struct mt_keyset *s)
{
    free((void *)s->page);
    s->page = malloc((s->pages + 1) * sizeof(struct mt_keypage *));
    if (!s->page)
        return -1;
    size_t n = 0;
    for (size_t i = 0; s->slot && i < (size_t)1 << s->bits; i++)
        if (s->slot[i])
            s->page[n++] = s->slot[i];
    qsort((void *)s->page, n, sizeof(struct mt_keypage *), keyset_ascending);
    s->count = 0;
    for (size_t i = 0; i < n; i++) {
        struct mt_keypage *p = s->page[i];
        uint16_t in_page = 0;
        p->first = s->count;
        for (size_t w = 0; w < MT_KEY_WORDS; w++) {
            p->rank[w] = in_page;
            in_page = (uint16_t)(in_page + __builtin_popcountll(p->bits[w]));
        }
        s->count += in_page;
    }
    return 0;
}

void mt_keyset_free(struct mt_keyset *s)
{
    for (struct block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free((void *)s->slot);
    free((void *)s->page);
    memset(s, 0, sizeof *s);
}
