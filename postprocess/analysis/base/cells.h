/* A number for each byte of memory, initially 0, for use by an analysis. Pages are created at their first
 * access. A page that was accessed in whole words only has a cell for each word of four bytes; otherwise it
 * has a cell for each byte. Zero-initialised is empty. */
#ifndef MT_ANALYSIS_CELLS_H
#define MT_ANALYSIS_CELLS_H
#include "memtrace/hash.h"

enum { MT_CELLS_BITS = 12, MT_CELLS_PAGE = 1 << MT_CELLS_BITS, MT_CELLS_WORD = 2 };

struct mt_cells_page {
    uint64_t number;  /* number of the page: address >> MT_CELLS_BITS */
    unsigned shift;   /* log2 of the bytes of a cell: MT_CELLS_WORD, or 0 */
    uint64_t *cell;   /* array of MT_CELLS_PAGE >> shift cells */
    uint64_t *counts; /* array of `counts` numbers, initially 0, for the user of the set */
    struct mt_cells_page *next;
    uint64_t room[]; /* storage of the cells of words, and of the counts */
};

/* Free pages, for reuse by the next launch. */
struct mt_cells_pool {
    struct mt_cells_page *first;
};

struct mt_cells {
    size_t counts; /* numbers per page; set before the first page is created */
    struct mt_cells_page **pages;
    size_t count, room;
    struct mt_hash places;      /* map from page number to struct mt_cells_page */
    struct mt_cells_pool *pool; /* owned by the caller; NULL: none */
};

/* Returns the page, created if necessary; NULL without memory. */
struct mt_cells_page *mt_cells_page_slow(struct mt_cells *c, uint64_t number);
/* Returns the page, or NULL if it does not exist. */
static inline struct mt_cells_page *mt_cells_find(const struct mt_cells *c, uint64_t number)
{
    return (struct mt_cells_page *)mt_hash_find(&c->places, number);
}
static inline struct mt_cells_page *mt_cells_page(struct mt_cells *c, uint64_t number)
{
    struct mt_cells_page *p = mt_cells_find(c, number);
    return __builtin_expect(p != NULL, 1) ? p : mt_cells_page_slow(c, number);
}
/* Gives the page a cell for each byte. Returns 0, or -1 without memory. */
int mt_cells_refine(struct mt_cells_page *p);
/* Returns the page of `address`, ready for access; *n of the `bytes` bytes lie in it. NULL without memory. */
static inline struct mt_cells_page *mt_cells_at(struct mt_cells *c, uint64_t address, uint64_t bytes,
                                                uint64_t *n)
{
    const uint64_t left = MT_CELLS_PAGE - (address & (MT_CELLS_PAGE - 1));
    struct mt_cells_page *p = mt_cells_page(c, address >> MT_CELLS_BITS);
    *n = bytes < left ? bytes : left;
    if (p && p->shift && (address | *n) & ((1 << MT_CELLS_WORD) - 1) && mt_cells_refine(p) != 0)
        return NULL;
    return p;
}
/* Prefetches a cell that is needed soon. */
static inline void mt_cells_soon(const struct mt_cells *c, uint64_t address)
{
    const struct mt_cells_page *p = mt_cells_find(c, address >> MT_CELLS_BITS);
    if (p)
        __builtin_prefetch(&p->cell[(address & (MT_CELLS_PAGE - 1)) >> p->shift], 1);
}
/* Sorts pages[] by number. No page may be created afterwards. */
void mt_cells_sort(struct mt_cells *c);
/* Frees the cells; pages go to the pool, if there is one. */
void mt_cells_free(struct mt_cells *c);
void mt_cells_pool_free(struct mt_cells_pool *pool);
#endif
