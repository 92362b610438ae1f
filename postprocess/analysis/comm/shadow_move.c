/* Copies in the shadow: what exists is taken page by page, what lies between in stretches of any length. */
#include "shadow.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_PAGES = 1 << 18 }; /* that copies may make of rows */

struct move {
    const struct mt_shadow_parts *p;
    uint32_t nobody;
    uint64_t *pages; /* of the source, that exist */
    size_t n;
    struct mt_stretch *room; /* of a page */
};

static unsigned move_owner(const struct mt_shadow_parts *p, uint64_t address)
{
    return p->n > 1 ? p->owner(address, p->n) : 0;
}

static int move_failed(const struct mt_shadow_parts *p)
{
    int failed = 0;
    for (unsigned i = 0; i < p->n; i++)
        failed |= p->part[i]->failed;
    return failed ? -1 : 0;
}

/* What is far goes to all, as other writes do; the rest to its owners. */
static void move_put(const struct mt_shadow_parts *p, uint64_t to, uint64_t length, uint32_t entry,
                     uint64_t start)
{
    if (p->n == 1 || length >= MT_SHADOW_FAR) {
        for (unsigned i = 0; i < p->n; i++)
            mt_shadow_fill(p->part[i], to, length, entry, start);
        return;
    }
    for (uint64_t n; length > 0; to += n, length -= n) {
        n = p->region - (to & (p->region - 1));
        n = n < length ? n : length;
        mt_shadow_fill(p->part[move_owner(p, to)], to, n, entry, start);
    }
}

/* ---- what is there ---- */

/* Rows of the comb inside [src, last] become pages. 0, -1, or -2: too many. */
static int move_unfold(const struct mt_shadow_parts *p, const struct mt_comb *c, uint64_t src, uint64_t last,
                       uint64_t *made)
{
    uint64_t end = c->dst + (c->height - 1) * c->pitch + (c->width - 1);
    if (src > end || last < c->dst)
        return 0;
    uint64_t row = src < c->dst + c->width ? 0 : (src - c->dst - c->width) / c->pitch + 1;
    uint64_t before = UINT64_MAX;
    for (; row < c->height && c->dst + row * c->pitch <= last; row++) {
        uint64_t at = c->dst + row * c->pitch, page = at >> MT_PAGE_BITS;
        for (; page <= (at + c->width - 1) >> MT_PAGE_BITS; page++) {
            if (page == before || page < src >> MT_PAGE_BITS || page > last >> MT_PAGE_BITS)
                continue;
            before = page;
            mt_shadow_find(p->part[move_owner(p, page << MT_PAGE_BITS)], page);
            if (++*made > MOST_PAGES)
                return -2;
        }
        if (move_failed(p) != 0)
            return -1;
    }
    return 0;
}

/* Fills in m->pages: those of [src, last] that exist with their owners. 0, -1 or -2. */
static int move_list(struct move *m, uint64_t src, uint64_t last)
{
    uint64_t made = 0;
    int rc = 0;
    for (unsigned i = 0; i < m->p->n && rc == 0; i++)
        for (size_t k = 0; k < m->p->part[i]->ncombs && rc == 0; k++)
            rc = move_unfold(m->p, &m->p->part[i]->combs[k], src, last, &made);
    free(m->pages);
    m->pages = NULL;
    m->n = 0;
    size_t room = 0;
    for (unsigned i = 0; i < m->p->n && rc == 0; i++) {
        size_t n;
        uint64_t *pages =
            mt_shadow_existing(m->p->part[i], src >> MT_PAGE_BITS, (last >> MT_PAGE_BITS) + 1, &n);
        rc = pages ? mt_grow(&m->pages, &room, m->n + n, sizeof *m->pages) : -1;
        for (size_t k = 0; rc == 0 && k < n; k++)
            if (move_owner(m->p, pages[k] << MT_PAGE_BITS) == i)
                m->pages[m->n++] = pages[k];
        free(pages);
    }
    if (m->p->n > 1 && m->n)
        qsort(m->pages, m->n, sizeof *m->pages, mt_order_u64);
    if (rc == -1)
        m->p->part[0]->failed = 1;
    return rc;
}

/* ---- one row ---- */

static void move_page(struct move *m, uint64_t to, uint64_t from, unsigned bytes)
{
    struct mt_shadow *s = m->p->part[move_owner(m->p, from)];
    size_t count = mt_shadow_stretches(s, from, bytes, m->room);
    for (size_t i = 0; i < count; to += m->room[i++].length)
        move_put(m->p, to, m->room[i].length, m->room[i].entry ? m->room[i].entry : m->nobody,
                 m->room[i].start);
}

/* Pages of the source that do not exist, from `at` on, at most `most` bytes: how many have one writer. */
static uint64_t gap_forward(const struct move *m, uint64_t at, uint64_t most,
                            const struct mt_page_span **span)
{
    const struct mt_spans *s = &m->p->part[0]->spans;
    uint64_t page = at >> MT_PAGE_BITS;
    size_t i = mt_spans_at(s, page);
    *span = i < s->n && s->at[i].first <= page ? &s->at[i] : NULL;
    uint64_t n = *span      ? ((*span)->end << MT_PAGE_BITS) - at
                 : i < s->n ? (s->at[i].first << MT_PAGE_BITS) - at
                            : most;
    return n < most ? n : most;
}

/* The same backwards, from the byte `at` on. */
static uint64_t gap_backward(const struct move *m, uint64_t at, uint64_t most,
                             const struct mt_page_span **span)
{
    const struct mt_spans *s = &m->p->part[0]->spans;
    uint64_t page = at >> MT_PAGE_BITS;
    size_t i = mt_spans_at(s, page);
    *span = i < s->n && s->at[i].first <= page ? &s->at[i] : NULL;
    uint64_t low = *span ? (*span)->first : i > 0 ? s->at[i - 1].end : 0, n = at - (low << MT_PAGE_BITS) + 1;
    return n && n < most ? n : most;
}

static void move_gap(struct move *m, uint64_t to, uint64_t bytes, const struct mt_page_span *span)
{
    uint32_t entry = span ? span->entry & ~MT_ENTRY_READ : 0;
    uint64_t start = entry ? span->start : 0;
    move_put(m->p, to, bytes, entry ? entry : m->nobody, start);
}

/* From the end when the copy would overwrite what it has still to read. */
static int move_row(struct move *m, uint64_t dst, uint64_t src, uint64_t length)
{
    if (dst == src && m->nobody == 0)
        return 0;
    int backward = dst - src < length, rc = move_list(m, src, src + length - 1);
    size_t k = backward ? m->n : 0;
    for (uint64_t done = 0, n; rc == 0 && done < length; done += n) {
        const struct mt_page_span *span;
        uint64_t left = length - done, at = backward ? src + left - 1 : src + done, page = at >> MT_PAGE_BITS;
        uint64_t in = at & (MT_PAGE_BYTES - 1);
        while (backward ? k > 0 && m->pages[k - 1] > page : k < m->n && m->pages[k] < page)
            k += backward ? (size_t)-1 : 1;
        int exists = backward ? k > 0 && m->pages[k - 1] == page : k < m->n && m->pages[k] == page;
        if (exists) {
            n = backward ? in + 1 : MT_PAGE_BYTES - in;
            n = n < left ? n : left;
        } else if (backward) {
            uint64_t most = k > 0 ? at - ((m->pages[k - 1] + 1) << MT_PAGE_BITS) + 1 : left;
            n = gap_backward(m, at, most < left ? most : left, &span);
        } else {
            uint64_t most = k < m->n ? (m->pages[k] << MT_PAGE_BITS) - at : left;
            n = gap_forward(m, at, most < left ? most : left, &span);
        }
        uint64_t offset = backward ? left - n : done;
        if (exists)
            move_page(m, dst + offset, src + offset, (unsigned)n);
        else
            move_gap(m, dst + offset, n, span);
        rc = move_failed(m->p);
    }
    return rc;
}

/* ---- many rows ---- */

/* Rows [first, end) become `entry`'s. */
static void rows_put(struct move *m, const struct mt_rows *r, uint64_t first, uint64_t end, uint32_t entry,
                     uint64_t start)
{
    struct mt_comb c = {r->dst + first * r->dpitch, r->width, end - first, r->dpitch, entry, start, 0};
    if (end - first > MT_SHADOW_TALL)
        for (unsigned i = 0; i < m->p->n; i++)
            mt_shadow_fill_rows(m->p->part[i], &c);
    else
        for (uint64_t row = first; row < end; row++)
            move_put(m->p, r->dst + row * r->dpitch, r->width, entry, start);
}

/* Bytes [low, high] of the source, as far as they are of rows. */
static void rows_clip(struct move *m, const struct mt_rows *r, uint64_t row, uint64_t low, uint64_t high,
                      uint32_t entry, uint64_t start)
{
    uint64_t at = r->src + row * r->spitch, last = at + (r->width - 1);
    if (row >= r->height || last < low || at > high)
        return;
    uint64_t from = at > low ? at : low, to = last < high ? last : high;
    move_put(m->p, r->dst + row * r->dpitch + (from - at), to - from + 1, entry, start);
}

/* All rows inside the span at once, those at its ends by themselves. */
static void rows_of_span(struct move *m, const struct mt_rows *r, const struct mt_page_span *span)
{
    uint64_t low = span->first << MT_PAGE_BITS, high = (span->end << MT_PAGE_BITS) - 1;
    uint32_t entry = span->entry & ~MT_ENTRY_READ;
    if (!entry || high < r->src)
        return;
    uint64_t first = low <= r->src ? 0 : (low - r->src + r->spitch - 1) / r->spitch;
    uint64_t end = high - r->src < r->width - 1 ? 0 : (high - r->src - (r->width - 1)) / r->spitch + 1;
    end = end < r->height ? end : r->height;
    first = first < r->height ? first : r->height;
    if (first > 0)
        rows_clip(m, r, first - 1, low, high, entry, span->start);
    if (first < end)
        rows_put(m, r, first, end, entry, span->start);
    if (end >= first)
        rows_clip(m, r, end, low, high, entry, span->start);
}

/* A stretch of the source that exists, and where it goes. */
struct rows_piece {
    uint64_t to, length, start;
    uint32_t entry;
};
struct rows_pieces {
    struct rows_piece *at;
    size_t n, room;
};

static int rows_piece(struct rows_pieces *x, const struct rows_piece *piece)
{
    if (mt_grow(&x->at, &x->room, x->n + 1, sizeof *x->at) != 0)
        return -1;
    x->at[x->n++] = *piece;
    return 0;
}

static int rows_of_page(struct move *m, const struct mt_rows *r, uint64_t page, struct rows_pieces *x)
{
    uint64_t low = page << MT_PAGE_BITS, high = low + (MT_PAGE_BYTES - 1);
    uint64_t row = low < r->src + r->width ? 0 : (low - r->src - r->width) / r->spitch + 1;
    for (; row < r->height && r->src + row * r->spitch <= high; row++) {
        uint64_t at = r->src + row * r->spitch, last = at + (r->width - 1);
        uint64_t from = at > low ? at : low, end = last < high ? last : high;
        size_t count = mt_shadow_stretches(m->p->part[move_owner(m->p, from)], from,
                                           (unsigned)(end - from) + 1, m->room);
        struct rows_piece piece = {.to = r->dst + row * r->dpitch + (from - at)};
        for (size_t i = 0; i < count; i++) {
            piece.length = m->room[i].length;
            piece.entry = m->room[i].entry ? m->room[i].entry : m->nobody;
            piece.start = m->room[i].start;
            if (rows_piece(x, &piece) != 0)
                return -1;
            piece.to += piece.length;
        }
    }
    return 0;
}

/* What is there is noted before anything is written. */
static int move_rows(struct move *m, const struct mt_rows *r)
{
    struct rows_pieces x = {0};
    uint64_t last = r->src + (r->height - 1) * r->spitch + (r->width - 1);
    int rc = move_list(m, r->src, last);
    const struct mt_spans *spans = &m->p->part[0]->spans;
    size_t first = mt_spans_at(spans, r->src >> MT_PAGE_BITS), n = 0;
    while (first + n < spans->n && spans->at[first + n].first <= last >> MT_PAGE_BITS)
        n++;
    struct mt_page_span *copy = malloc((n + 1) * sizeof *copy);
    for (size_t i = 0; rc == 0 && i < m->n; i++)
        rc = rows_of_page(m, r, m->pages[i], &x);
    if (rc == 0 && !copy)
        rc = -1;
    if (rc == -1)
        m->p->part[0]->failed = 1;
    if (rc == 0) {
        if (n)
            memcpy(copy, spans->at + first, n * sizeof *copy);
        rows_put(m, r, 0, r->height, m->nobody, 0);
        for (size_t i = 0; i < n; i++)
            rows_of_span(m, r, &copy[i]);
        for (size_t i = 0; i < x.n; i++)
            move_put(m->p, x.at[i].to, x.at[i].length, x.at[i].entry, x.at[i].start);
        rc = move_failed(m->p);
    }
    free(copy);
    free(x.at);
    return rc;
}

/* Do all rows lie below the end of the address space, none over another? */
static int rows_fit(uint64_t base, uint64_t pitch, const struct mt_rows *r)
{
    uint64_t length;
    return pitch >= r->width && !__builtin_mul_overflow(r->height - 1, pitch, &length) &&
           !__builtin_add_overflow(length, r->width - 1, &length) && base + length >= base;
}

int mt_shadow_move(const struct mt_shadow_parts *p, const struct mt_rows *rows, uint32_t nobody)
{
    struct move m = {.p = p, .nobody = nobody, .room = malloc(MT_PAGE_BYTES * sizeof *m.room)};
    struct mt_rows r = *rows;
    int rc = m.room ? 0 : -1;
    if (!m.room)
        p->part[0]->failed = 1;
    uint64_t all, apart = r.dst - r.src < r.src - r.dst ? r.dst - r.src : r.src - r.dst;
    if (r.height > 1 && r.dpitch == r.width && r.spitch == r.width &&
        !__builtin_mul_overflow(r.width, r.height, &all) &&
        apart >= all) { /* else the order of rows matters */
        r.width = all;
        r.height = 1;
    }
    if (rc == 0 && r.height > MT_SHADOW_TALL)
        rc = rows_fit(r.dst, r.dpitch, &r) && rows_fit(r.src, r.spitch, &r) ? move_rows(&m, &r) : -2;
    else
        for (uint64_t row = 0; row < r.height && rc == 0; row++)
            rc = move_row(&m, r.dst + row * r.dpitch, r.src + row * r.spitch, r.width);
    free(m.pages);
    free(m.room);
    return rc;
}
