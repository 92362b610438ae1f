/* A number for each byte of memory, initially 0. */
#include "cells.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = MT_CELLS_PIECE >> MT_CELLS_WORD, FEW = 1 }; /* FEW: pieces of a page with cells of their own */

/* Returns an empty page, from the pool if possible: all pages of a pool have the same number of counts. */
static struct mt_cells_page *cells_take(struct mt_cells *c)
{
    const size_t bytes = sizeof(struct mt_cells_page) + c->counts * sizeof(uint64_t);
    struct mt_cells_page *p = c->pool ? c->pool->first : NULL;
    if (p)
        c->pool->first = p->next;
    else
        p = malloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

struct mt_cells_page *mt_cells_page_slow(struct mt_cells *c, uint64_t number)
{
    uint64_t *place = mt_hash_at(&c->places, number);
    if (!place || mt_grow((void *)&c->pages, &c->room, c->count + 1, sizeof(struct mt_cells_page *)) != 0)
        return NULL;
    struct mt_cells_page *p = cells_take(c);
    if (!p)
        return NULL;
    p->number = number;
    *place = (uintptr_t)p;
    return c->pages[c->count++] = p;
}

static const size_t sizes[MT_CELLS_SIZES] = {WORDS, MT_CELLS_PIECE, WORDS *MT_CELLS_PIECES};

static uint64_t *cells_take_room(struct mt_cells *c, enum mt_cells_size size)
{
    if (c->pool && c->pool->cells[size].n)
        return c->pool->cells[size].at[--c->pool->cells[size].n];
    return aligned_alloc(64, sizes[size] * sizeof(uint64_t));
}

static void cells_give_room(struct mt_cells_pool *pool, uint64_t *cell, enum mt_cells_size size)
{
    if (cell && pool &&
        mt_grow((void *)&pool->cells[size].at, &pool->cells[size].room, pool->cells[size].n + 1,
                sizeof cell) == 0)
        pool->cells[size].at[pool->cells[size].n++] = cell;
    else
        free(cell);
}

/* Returns 1 if the cells of the piece's words are in the page's room. */
static int cells_is_inside(const struct mt_cells_page *p, unsigned piece)
{
    return p->room && p->cell[piece] == p->room + (size_t)piece * WORDS;
}

/* A page with many pieces gets room for all, side by side: that is quicker. */
static uint64_t *cells_new_words(struct mt_cells *c, struct mt_cells_page *p, unsigned piece)
{
    if (p->touched >= FEW && !p->room && (p->room = cells_take_room(c, MT_CELLS_OF_PAGE)))
        memset(p->room, 0, sizes[MT_CELLS_OF_PAGE] * sizeof *p->room);
    if (p->room)
        return p->room + (size_t)piece * WORDS;
    uint64_t *cell = cells_take_room(c, MT_CELLS_OF_WORDS);
    return cell ? memset(cell, 0, WORDS * sizeof *cell) : NULL;
}

static uint64_t *cells_new_bytes(struct mt_cells *c, const uint64_t *words)
{
    uint64_t *cell = cells_take_room(c, MT_CELLS_OF_BYTES);
    for (size_t i = 0; cell && i < MT_CELLS_PIECE; i++)
        cell[i] = words ? words[i >> MT_CELLS_WORD] : 0;
    return cell;
}

int mt_cells_piece_slow(struct mt_cells *c, struct mt_cells_page *p, unsigned piece, int fine)
{
    uint64_t *was = p->cell[piece], *cell = fine ? cells_new_bytes(c, was) : cells_new_words(c, p, piece);
    if (!cell)
        return -1;
    if (was && !cells_is_inside(p, piece))
        cells_give_room(c->pool, was, MT_CELLS_OF_WORDS);
    p->touched += !was;
    p->cell[piece] = cell;
    p->fine |= (uint32_t)fine << piece;
    return 0;
}

void mt_cells_bytes(const struct mt_cells_page *p, size_t in, size_t n, uint64_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned piece = (unsigned)((in + i) >> MT_CELLS_PIECE_BITS);
        const size_t at = (in + i) & (MT_CELLS_PIECE - 1);
        out[i] = p->cell[piece] ? p->cell[piece][at >> mt_cells_shift(p, piece)] : 0;
    }
}

MT_ORDER_POINTED_1(by_number, struct mt_cells_page, number)

void mt_cells_sort(struct mt_cells *c)
{
    if (c->count)
        qsort((void *)c->pages, c->count, sizeof(struct mt_cells_page *), by_number);
}

void mt_cells_free(struct mt_cells *c)
{
    for (size_t i = c->count; i--;) { /* in this order the next launch takes them from the first on */
        struct mt_cells_page *p = c->pages[i];
        for (unsigned k = MT_CELLS_PIECES; k--;)
            if (p->cell[k] && !cells_is_inside(p, k))
                cells_give_room(c->pool, p->cell[k],
                                p->fine >> k & 1 ? MT_CELLS_OF_BYTES : MT_CELLS_OF_WORDS);
        cells_give_room(c->pool, p->room, MT_CELLS_OF_PAGE);
        if (c->pool) {
            p->next = c->pool->first;
            c->pool->first = p;
        } else {
            free(p);
        }
    }
    free((void *)c->pages);
    mt_hash_free(&c->places);
    *c = (struct mt_cells){.counts = c->counts, .pool = c->pool};
}

void mt_cells_pool_free(struct mt_cells_pool *pool)
{
    for (struct mt_cells_page *p = pool->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    for (int size = 0; size < MT_CELLS_SIZES; size++) {
        while (pool->cells[size].n)
            free(pool->cells[size].at[--pool->cells[size].n]);
        free((void *)pool->cells[size].at);
    }
    *pool = (struct mt_cells_pool){0};
}
