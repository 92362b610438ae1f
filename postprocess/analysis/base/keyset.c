/* Pages of a set of addresses, allocated in blocks and freed together. */
#include "keyset.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK_PAGES = 128 };

struct block {
    struct block *next;
    struct mt_keypage page[BLOCK_PAGES];
};

struct mt_keypage *mt_keyset_find_slow(struct mt_keyset *s, uint64_t number)
{
    struct mt_keypage *p = (struct mt_keypage *)mt_hash_find(&s->pages, number);
    s->recent[number % MT_KEY_RECENT].number = number + 1;
    s->recent[number % MT_KEY_RECENT].page = p;
    return p;
}

struct mt_keypage *mt_keyset_make(struct mt_keyset *s, uint64_t number)
{
    struct mt_keypage *p = mt_keyset_find(s, number);
    if (p)
        return p;
    if (!s->block || s->in_block == BLOCK_PAGES) {
        struct block *b = calloc(1, sizeof *b);
        if (!b)
            return NULL;
        b->next = s->blocks;
        s->blocks = b;
        s->block = b->page;
        s->in_block = 0;
    }
    p = &s->block[s->in_block];
    if (mt_hash_put(&s->pages, number, (uintptr_t)p) != 0)
        return NULL;
    s->in_block++;
    p->number = number;
    s->recent[number % MT_KEY_RECENT].number = number + 1;
    s->recent[number % MT_KEY_RECENT].page = p;
    return p;
}

int mt_keyset_merge(struct mt_keyset *s, const struct mt_keyset *other)
{
    const struct mt_hash_slot *page;
    for (size_t i = 0; (page = mt_hash_next(&other->pages, &i));) {
        struct mt_keypage *p = mt_keyset_make(s, page->key);
        if (!p)
            return -1;
        for (size_t w = 0; w < MT_KEY_WORDS; w++)
            p->bits[w] |= ((const struct mt_keypage *)page->value)->bits[w];
    }
    return 0;
}

MT_ORDER_POINTED_1(keyset_ascending, struct mt_keypage, number)

int mt_keyset_index(struct mt_keyset *s)
{
    free((void *)s->page);
    s->page = malloc((s->pages.count + 1) * sizeof(struct mt_keypage *));
    if (!s->page)
        return -1;
    const struct mt_hash_slot *page;
    size_t n = 0;
    for (size_t i = 0; (page = mt_hash_next(&s->pages, &i));)
        s->page[n++] = (struct mt_keypage *)page->value;
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
    mt_hash_free(&s->pages);
    free((void *)s->page);
    memset(s, 0, sizeof *s);
}
