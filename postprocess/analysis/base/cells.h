/* A number for each byte of memory, 0 at first: what an analysis knows of it. Pages come with their first
 * touch. Zero-initialised is empty. */
#ifndef MT_ANALYSIS_CELLS_H
#define MT_ANALYSIS_CELLS_H
#include <stddef.h>
#include <stdint.h>
#include "pairmap.h"

enum { MT_CELLS_BITS = 12, MT_CELLS_PAGE = 1 << MT_CELLS_BITS, MT_CELLS_RECENT = 512 };

struct mt_cells_page {
    uint64_t number; /* address >> MT_CELLS_BITS */
    uint32_t cell[MT_CELLS_PAGE];
};

struct mt_cells {
    struct mt_pairmap index; /* (number, 0) -> page */
    struct mt_cells_page **pages;
    size_t count, room;
    struct mt_cells_page *recent[MT_CELLS_RECENT]; /* by number */
};

/* The page, made if need be; NULL without memory. */
struct mt_cells_page *mt_cells_page(struct mt_cells *c, uint64_t number);
/* The cells from `address` on that lie together: *n of them, at most `bytes`. NULL without memory. */
static inline uint32_t *mt_cells_at(struct mt_cells *c, uint64_t address, uint64_t bytes, uint64_t *n)
{
    uint64_t in = address & (MT_CELLS_PAGE - 1), number = address >> MT_CELLS_BITS;
    struct mt_cells_page *p = c->recent[number % MT_CELLS_RECENT];
    if (__builtin_expect(!p || p->number != number, 0))
        p = mt_cells_page(c, number);
    *n = bytes < MT_CELLS_PAGE - in ? bytes : MT_CELLS_PAGE - in;
    return p ? &p->cell[in] : NULL;
}
/* The cell will be asked for soon: it is brought near, if its page is known. */
static inline void mt_cells_soon(const struct mt_cells *c, uint64_t address)
{
    const struct mt_cells_page *p = c->recent[(address >> MT_CELLS_BITS) % MT_CELLS_RECENT];
    if (p && p->number == address >> MT_CELLS_BITS)
        __builtin_prefetch(&p->cell[address & (MT_CELLS_PAGE - 1)], 1);
}
/* Orders pages[] by number. The index is of no use afterwards. */
void mt_cells_sort(struct mt_cells *c);
void mt_cells_free(struct mt_cells *c);
#endif
