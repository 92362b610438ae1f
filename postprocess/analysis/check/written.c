/* See written.h. */
#include "written.h"
#include <stdlib.h>
#include <string.h>

enum { PAGE_BITS = 12, PAGE = 1 << PAGE_BITS, WORDS = PAGE / 64 };
static uint64_t full[1]; /* stands for a page of which all is written */

static uint64_t written_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int mt_written_init(struct mt_written *w, uint64_t bytes)
{
    w->bytes = bytes;
    w->page = calloc((bytes >> PAGE_BITS) + 1, sizeof(uint64_t *));
    return w->page ? 0 : -1;
}

static void written_drop(struct mt_written *w)
{
    for (uint64_t i = 0; w->page && i <= w->bytes >> PAGE_BITS; i++)
        if (w->page[i] != full)
            free(w->page[i]);
    free((void *)w->page);
    w->page = NULL;
}

void mt_written_free(struct mt_written *w)
{
    written_drop(w);
    *w = (struct mt_written){0};
}

void mt_written_all(struct mt_written *w)
{
    written_drop(w);
    w->all = 1;
}

uint64_t mt_written_room(uint64_t bytes)
{
    return ((bytes >> PAGE_BITS) + 1) * sizeof(uint64_t *);
}

/* Bits from `bit` on of a word: `n` of them, at most up to its end. */
static uint64_t written_mask(unsigned bit, uint64_t n)
{
    return (n >= 64 - bit ? UINT64_MAX : (1ull << (bit + n)) - 1) & (UINT64_MAX << bit);
}

/* A page all of whose words are set needs no words. */
static void written_close(uint64_t **page)
{
    for (int i = 0; i < WORDS; i++)
        if ((*page)[i] != UINT64_MAX)
            return;
    free(*page);
    *page = full;
}

/* A page without words gets some. */
static int written_open(uint64_t **page)
{
    int set = *page == full;
    if (*page && !set)
        return 0;
    if (!(*page = malloc(WORDS * sizeof(uint64_t))))
        return -1;
    memset(*page, set ? 0xff : 0, WORDS * sizeof(uint64_t));
    return 0;
}

static int written_page(uint64_t **page, unsigned from, uint64_t n)
{
    if (*page == full)
        return 0;
    if (n == PAGE) {
        free(*page);
        *page = full;
        return 0;
    }
    if (written_open(page) != 0)
        return -1;
    int whole = 0;
    for (unsigned at = from, end = from + (unsigned)n; at < end; at = (at | 63) + 1) {
        (*page)[at / 64] |= written_mask(at % 64, end - at);
        whole |= (*page)[at / 64] == UINT64_MAX;
    }
    if (whole && from + n == PAGE) /* mostly written upwards: looked at once */
        written_close(page);
    return 0;
}

int mt_written_set(struct mt_written *w, uint64_t from, uint64_t n)
{
    uint64_t end = from >= w->bytes || w->all ? from : from + written_least(n, w->bytes - from);
    while (from < end) {
        uint64_t here = written_least(end - from, PAGE - from % PAGE);
        if (written_page(&w->page[from >> PAGE_BITS], from % PAGE, here) != 0)
            return -1;
        from += here;
    }
    return 0;
}

int mt_written_clear(struct mt_written *w, uint64_t from, uint64_t n)
{
    uint64_t end = from >= w->bytes || w->all || !w->page ? from : from + written_least(n, w->bytes - from);
    while (from < end) {
        uint64_t **page = &w->page[from >> PAGE_BITS];
        uint64_t here = written_least(end - from, PAGE - from % PAGE);
        if (*page && written_open(page) != 0)
            return -1;
        for (uint64_t at = from, to = from + here; *page && at < to; at = (at | 63) + 1)
            (*page)[at % PAGE / 64] &= ~written_mask(at % 64, to - at);
        from += here;
    }
    return 0;
}

/* Within a page. */
static uint64_t written_same(const uint64_t *page, unsigned from, uint64_t n, int *set)
{
    if (!page || page == full) {
        *set = page == full;
        return n;
    }
    *set = page[from / 64] >> from % 64 & 1;
    unsigned at = from, end = from + (unsigned)n;
    while (at < end) {
        uint64_t other = (*set ? ~page[at / 64] : page[at / 64]) & (UINT64_MAX << at % 64);
        if (other)
            return written_least((at & ~63u) + (unsigned)__builtin_ctzll(other), end) - from;
        at = (at | 63) + 1;
    }
    return n;
}

uint64_t mt_written_run(const struct mt_written *w, uint64_t from, uint64_t n, int *set)
{
    uint64_t end = from >= w->bytes ? from : from + written_least(n, w->bytes - from), at = from;
    int same = 1;
    *set = 1;
    if (from >= w->bytes || w->all)
        return n;
    while (at < end) {
        int here;
        uint64_t part = written_least(end - at, PAGE - at % PAGE),
                 run = written_same(w->page[at >> PAGE_BITS], at % PAGE, part, &here);
        *set = at == from ? here : *set;
        same = here == *set;
        if (!same)
            break;
        at += run;
        if (run < part)
            break;
    }
    return at - from;
}
