/* A number for each byte of memory, initially 0. */
#include "cells.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = MT_CELLS_PAGE >> MT_CELLS_WORD };

/* Returns an empty page, from the pool if possible: all pages of a pool have the same number of counts. */
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
    mt_hash_free(&c->places);
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
