/* A number for each byte of memory, 0 at first: what an analysis knows of it. */
#include "cells.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

struct mt_cells_page *mt_cells_page(struct mt_cells *c, uint64_t number)
{
    uint64_t *i = mt_pairmap_get(&c->index, number, 0, UINT64_MAX);
    if (!i)
        return NULL;
    if (*i == UINT64_MAX) {
        if (mt_grow(&c->pages, &c->room, c->count + 1, sizeof *c->pages) != 0)
            return NULL;
        struct mt_cells_page *p = calloc(1, sizeof *p);
        if (!p)
            return NULL;
        p->number = number;
        *i = c->count;
        c->pages[c->count++] = p;
    }
    return c->recent[number % MT_CELLS_RECENT] = c->pages[*i];
}

MT_ORDER_POINTED_1(by_number, struct mt_cells_page, number)

void mt_cells_sort(struct mt_cells *c)
{
    if (c->count)
        qsort(c->pages, c->count, sizeof *c->pages, by_number);
}

void mt_cells_free(struct mt_cells *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->pages[i]);
    free(c->pages);
    mt_pairmap_free(&c->index);
    memset(c, 0, sizeof *c);
}
