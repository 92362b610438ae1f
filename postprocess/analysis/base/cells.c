/* A number for each byte of memory, 0 at first: what an analysis knows of it. */
#include "cells.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = MT_CELLS_PAGE >> MT_CELLS_WORD };

static size_t cells_find(const struct mt_cells *c, uint64_t number)
{
    size_t mask = ((size_t)1 << c->bits) - 1, i = mt_cells_place(c, number);
    while (c->slot[i] && c->slot[i]->number != number)
        i = (i + 1) & mask;
    return i;
}

static int cells_grow(struct mt_cells *c)
{
    unsigned bits = c->slot ? c->bits + 1 : 6;
    struct mt_cells_page **slot = calloc((size_t)1 << bits, sizeof(struct mt_cells_page *));
    if (!slot)
        return -1;
    free((void *)c->slot);
    c->slot = slot;
    c->bits = bits;
    for (size_t i = 0; i < c->count; i++)
        c->slot[cells_find(c, c->pages[i]->number)] = c->pages[i];
    return 0;
}

/* An empty one, of the pool if it has one: all pages of a pool have as many counts. */
static struct mt_cells_page *cells_take(struct mt_cells *c)
{
    const size_t bytes = (WORDS + c->counts) * sizeof(uint64_t);
    struct mt_cells_page *p = c->pool ? c->pool->first : NULL;
    if (p)
        c->pool->first = p->next;
    else
        p = malloc(sizeof *p + bytes);
    if (!p)
        return NULL;
    memset(p->room, 0, bytes);
    p->shift = MT_CELLS_WORD;
    p->cell = p->room;
    p->counts = p->room + WORDS;
    return p;
}

struct mt_cells_page *mt_cells_page_slow(struct mt_cells *c, uint64_t number)
{
    if ((!c->slot || (c->count + 1) * 4 > (size_t)1 << c->bits) && cells_grow(c) != 0)
        return NULL;
    const size_t i = cells_find(c, number);
    if (c->slot[i])
        return c->slot[i];
    if (mt_grow((void *)&c->pages, &c->room, c->count + 1, sizeof(struct mt_cells_page *)) != 0)
        return NULL;
    struct mt_cells_page *p = cells_take(c);
    if (!p)
        return NULL;
    p->number = number;
    c->pages[c->count++] = p;
    return c->slot[i] = p;
}

int mt_cells_refine(struct mt_cells_page *p)
{
    uint64_t *cell = p->shift ? malloc(MT_CELLS_PAGE * sizeof *cell) : p->cell;
    if (!cell)
        return -1;
    for (size_t i = 0; p->shift && i < MT_CELLS_PAGE; i++)
        cell[i] = p->room[i >> MT_CELLS_WORD];
    p->cell = cell;
    p->shift = 0;
    return 0;
}

MT_ORDER_POINTED_1(by_number, struct mt_cells_page, number)

void mt_cells_sort(struct mt_cells *c)
{
    if (c->count)
        qsort((void *)c->pages, c->count, sizeof(struct mt_cells_page *), by_number);
}

void mt_cells_free(struct mt_cells *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct mt_cells_page *p = c->pages[i];
        if (p->cell != p->room)
            free(p->cell);
        if (c->pool) {
            p->next = c->pool->first;
            c->pool->first = p;
        } else {
            free(p);
        }
    }
    free((void *)c->pages);
    free((void *)c->slot);
    *c = (struct mt_cells){.counts = c->counts, .pool = c->pool};
}

void mt_cells_pool_free(struct mt_cells_pool *pool)
{
    for (struct mt_cells_page *p = pool->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    pool->first = NULL;
}
