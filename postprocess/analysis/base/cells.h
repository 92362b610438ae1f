/* A number for each byte of memory, initially 0, for use by an analysis. Pages, and pieces of 128 bytes in
 * them, are created at their first access, so memory follows what is touched. A piece that was accessed in
 * whole words only has a cell for each word of four bytes; otherwise it has a cell for each byte.
 * Zero-initialised is empty. */
#ifndef MT_ANALYSIS_CELLS_H
#define MT_ANALYSIS_CELLS_H
#include "memtrace/hash.h"

enum {
    MT_CELLS_BITS = 12,
    MT_CELLS_PAGE = 1 << MT_CELLS_BITS,
    MT_CELLS_PIECE_BITS = 7,
    MT_CELLS_PIECE = 1 << MT_CELLS_PIECE_BITS,
    MT_CELLS_PIECES = MT_CELLS_PAGE / MT_CELLS_PIECE,
    MT_CELLS_WORD = 2 /* log2 of the bytes of a word */
};

struct mt_cells_page {
    uint64_t number;                 /* number of the page: address >> MT_CELLS_BITS */
    uint64_t *cell[MT_CELLS_PIECES]; /* cells of each piece; NULL: all are 0 */
    uint32_t fine;                   /* one bit per piece: 1: a cell for each byte */
    uint32_t touched;                /* number of pieces */
    uint64_t *room; /* of a page with several pieces: cells for the words of all; NULL: none yet */
    struct mt_cells_page *next;
    uint64_t counts[]; /* `counts` numbers, initially 0, for the user of the set */
};

enum mt_cells_size { MT_CELLS_OF_WORDS, MT_CELLS_OF_BYTES, MT_CELLS_OF_PAGE, MT_CELLS_SIZES };

/* Free pages and cells, for reuse by the next launch. */
struct mt_cells_pool {
    struct mt_cells_page *first;
    struct {
        uint64_t **at;
        size_t n, room;
    } cells[MT_CELLS_SIZES];
};

struct mt_cells {
    size_t counts; /* numbers per page; set before the first page is created */
    struct mt_cells_page **pages;
    size_t count, room;
    struct mt_hash places;      /* map from page number to struct mt_cells_page */
    struct mt_cells_pool *pool; /* owned by the caller; NULL: none */
};

/* Cells of bytes that lie in one piece. */
struct mt_cells_span {
    struct mt_cells_page *page; /* NULL: no memory */
    uint64_t *cell;             /* that of the first byte, or word */
    uint64_t n;                 /* number of bytes */
    unsigned shift;             /* log2 of the bytes of a cell: MT_CELLS_WORD, or 0 */
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
/* Returns log2 of the bytes of a cell of the piece. */
static inline unsigned mt_cells_shift(const struct mt_cells_page *p, unsigned piece)
{
    return p->fine >> piece & 1 ? 0 : MT_CELLS_WORD;
}
/* Creates the piece, and if `fine` gives it a cell for each byte. Returns 0, or -1 without memory. */
int mt_cells_piece_slow(struct mt_cells *c, struct mt_cells_page *p, unsigned piece, int fine);
static inline int mt_cells_piece(struct mt_cells *c, struct mt_cells_page *p, unsigned piece, int fine)
{
    return __builtin_expect(p->cell[piece] && (!fine || p->fine >> piece & 1), 1)
               ? 0
               : mt_cells_piece_slow(c, p, piece, fine);
}
/* Returns the cells, ready for access, of as many of the `bytes` bytes at `address` as lie in one piece. */
static inline struct mt_cells_span mt_cells_at(struct mt_cells *c, uint64_t address, uint64_t bytes)
{
    const uint64_t in = address & (MT_CELLS_PIECE - 1), left = MT_CELLS_PIECE - in,
                   n = bytes < left ? bytes : left;
    const unsigned piece = address >> MT_CELLS_PIECE_BITS & (MT_CELLS_PIECES - 1);
    struct mt_cells_page *p = mt_cells_page(c, address >> MT_CELLS_BITS);
    if (!p || mt_cells_piece(c, p, piece, ((address | n) & ((1 << MT_CELLS_WORD) - 1)) != 0) != 0)
        return (struct mt_cells_span){0};
    const unsigned shift = mt_cells_shift(p, piece);
    return (struct mt_cells_span){p, p->cell[piece] + (in >> shift), n, shift};
}
/* Prefetches a cell that is needed soon. */
static inline void mt_cells_soon(const struct mt_cells *c, uint64_t address)
{
    const struct mt_cells_page *p = mt_cells_find(c, address >> MT_CELLS_BITS);
    const unsigned piece = address >> MT_CELLS_PIECE_BITS & (MT_CELLS_PIECES - 1);
    if (p && p->cell[piece])
        __builtin_prefetch(&p->cell[piece][(address & (MT_CELLS_PIECE - 1)) >> mt_cells_shift(p, piece)], 1);
}
/* Writes the cells of n bytes of a page, from byte `in` on, one for each byte. */
void mt_cells_bytes(const struct mt_cells_page *p, size_t in, size_t n, uint64_t *out);
/* Sorts pages[] by number. No page may be created afterwards. */
void mt_cells_sort(struct mt_cells *c);
/* Frees the cells; pages go to the pool, if there is one. */
void mt_cells_free(struct mt_cells *c);
void mt_cells_pool_free(struct mt_cells_pool *pool);
#endif
