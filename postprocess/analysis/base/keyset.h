/* Set of addresses, as a bitmap for each page of 4096 bytes; efficient if addresses lie close together.
 * Zero-initialised is empty. After indexing, each address has a rank. Not thread-safe while addresses are
 * added. */
#ifndef MT_ANALYSIS_KEYSET_H
#define MT_ANALYSIS_KEYSET_H
#include "memtrace/hash.h"

enum { MT_KEY_BITS = 12, MT_KEY_WORDS = 64, MT_KEY_RECENT = 256 };

struct mt_keypage {
    uint64_t number; /* number of the page: address >> 12 */
    uint64_t bits[MT_KEY_WORDS];
    uint64_t first;              /* indexed: rank of the page's first address */
    uint16_t rank[MT_KEY_WORDS]; /* indexed: number of addresses in the words before */
};

struct mt_keyset {
    struct mt_hash pages;     /* map from page number to struct mt_keypage */
    struct mt_keypage **page; /* after indexing: pages in ascending order */
    struct mt_keypage *block; /* current block of pages; blocks are linked */
    void *blocks;
    size_t in_block;
    uint64_t count; /* after indexing: number of addresses */
    struct {
        uint64_t number; /* page number + 1; 0: unused */
        struct mt_keypage *page;
    } recent[MT_KEY_RECENT];
};

/* Returns the page, or NULL if it does not exist. */
struct mt_keypage *mt_keyset_find_slow(struct mt_keyset *s, uint64_t number);
static inline struct mt_keypage *mt_keyset_find(struct mt_keyset *s, uint64_t number)
{
    unsigned i = number % MT_KEY_RECENT;
    return s->recent[i].number == number + 1 ? s->recent[i].page : mt_keyset_find_slow(s, number);
}

/* Returns the page, created if necessary; NULL without memory. */
struct mt_keypage *mt_keyset_make(struct mt_keyset *s, uint64_t number);

/* Adds an address. Returns 0, or -1 without memory. */
static inline int mt_keyset_add(struct mt_keyset *s, uint64_t address)
{
    struct mt_keypage *p = mt_keyset_find(s, address >> MT_KEY_BITS);
    if (__builtin_expect(!p, 0) && !(p = mt_keyset_make(s, address >> MT_KEY_BITS)))
        return -1;
    p->bits[address >> 6 & (MT_KEY_WORDS - 1)] |= 1ull << (address & 63);
    return 0;
}

/* Adds all addresses of `other`. Returns 0, or -1 without memory. */
int mt_keyset_merge(struct mt_keyset *s, const struct mt_keyset *other);
/* Sorts the pages and counts the addresses; none may be added afterwards. Returns 0, or -1 without memory. */
int mt_keyset_index(struct mt_keyset *s);
/* Returns the rank of an address in the set. */
static inline __attribute__((always_inline)) uint64_t mt_keyset_rank(const struct mt_keypage *p,
                                                                     unsigned in_page)
{
    unsigned w = in_page >> 6;
    return p->first + p->rank[w] +
           (unsigned)__builtin_popcountll(p->bits[w] & ((1ull << (in_page & 63)) - 1));
}
void mt_keyset_free(struct mt_keyset *s);
#endif
