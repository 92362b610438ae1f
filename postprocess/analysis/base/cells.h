/* A number for each byte of memory, 0 at first: what an analysis knows of it. Pages come with their first
 * touch. As long as a page was touched in whole words only, it has a cell for each word of four bytes; else
 * it is fine and has one for each byte. Zero-initialised is empty. */
#ifndef MT_ANALYSIS_CELLS_H
#define MT_ANALYSIS_CELLS_H
#include "memtrace/hash.h"

enum { MT_CELLS_BITS = 12, MT_CELLS_PAGE = 1 << MT_CELLS_BITS, MT_CELLS_WORD = 2 };

struct mt_cells_page {
    uint64_t number;  /* address >> MT_CELLS_BITS */
    unsigned shift;   /* a cell is of 1 << shift bytes: MT_CELLS_WORD, or 0 */
    uint64_t *cell;   /* MT_CELLS_PAGE >> shift of them */
    uint64_t *counts; /* `counts` of its set, for its user, 0 at first */
    struct mt_cells_page *next;
    uint64_t room[]; /* cells of words, and counts */
};

/* Pages that nobody has: the next launch needs as many. */
struct mt_cells_pool {
    struct mt_cells_page *first;
};

struct mt_cells {
    size_t counts; /* that a page has; set before the first page is made */
    struct mt_cells_page **pages;
    size_t count, room;
    struct mt_hash places;      /* struct mt_cells_page by number */
    struct mt_cells_pool *pool; /* the caller's; NULL: none */
};

/* The page, made if need be; NULL without memory. */
struct mt_cells_page *mt_cells_page_slow(struct mt_cells *c, uint64_t number);
/* NULL: there is none yet. */
static inline struct mt_cells_page *mt_cells_find(const struct mt_cells *c, uint64_t number)
{
    return (struct mt_cells_page *)mt_hash_find(&c->places, number);
}
static inline struct mt_cells_page *mt_cells_page(struct mt_cells *c, uint64_t number)
{
    struct mt_cells_page *p = mt_cells_find(c, number);
    return __builtin_expect(p != NULL, 1) ? p : mt_cells_page_slow(c, number);
}
/* Gives the page a cell for each byte. 0, or -1 without memory. */
int mt_cells_refine(struct mt_cells_page *p);
/* The page of `address`, ready to be touched from there on: *n of `bytes` bytes lie in it. NULL without
 * memory. */
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
/* The cell will be asked for soon: it is brought near. */
static inline void mt_cells_soon(const struct mt_cells *c, uint64_t address)
{
    const struct mt_cells_page *p = mt_cells_find(c, address >> MT_CELLS_BITS);
    if (p)
        __builtin_prefetch(&p->cell[(address & (MT_CELLS_PAGE - 1)) >> p->shift], 1);
}
/* Orders pages[] by number. No page may be made afterwards. */
void mt_cells_sort(struct mt_cells *c);
/* Pages go to the pool, if there is one. */
void mt_cells_free(struct mt_cells *c);
void mt_cells_pool_free(struct mt_cells_pool *pool);
#endif
