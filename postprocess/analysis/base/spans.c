/* Spans of whole pages that were written at once, which a shadow stores instead of pages. */
#include "spans.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

size_t mt_spans_at(const struct mt_spans *s, uint64_t page)
{
    return MT_FIRST(i, s->n, s->at[i].end > page);
}

const struct mt_page_span *mt_spans_find(const struct mt_spans *s, uint64_t page)
{
    size_t i = mt_spans_at(s, page);
    return i < s->n && s->at[i].first <= page ? &s->at[i] : NULL;
}

/* Replaces elements [i, k) by `with` (or nothing). There is room. */
static void spans_replace(struct mt_spans *s, size_t i, size_t k, const struct mt_page_span *with)
{
    size_t new = with ? 1 : 0;
    memmove(s->at + i + new, s->at + k, (s->n - k) * sizeof *s->at);
    if (with)
        s->at[i] = *with;
    s->n += new;
    s->n -= k - i;
}

/* Splits the span that crosses `page`. There is room. */
static void spans_cut(struct mt_spans *s, uint64_t page)
{
    size_t i = mt_spans_at(s, page);
    if (i == s->n || s->at[i].first >= page)
        return;
    struct mt_page_span left = s->at[i];
    left.end = page;
    s->at[i].first = page;
    spans_replace(s, i, i, &left);
}

/* Removes pages [first, end) from all spans; *i: index at which they would be inserted. */
static int spans_open(struct mt_spans *s, uint64_t first, uint64_t end, size_t *i)
{
    if (mt_grow(&s->at, &s->room, s->n + 3, sizeof *s->at) != 0)
        return -1;
    spans_cut(s, first);
    spans_cut(s, end);
    *i = mt_spans_at(s, first);
    size_t k = *i;
    while (k < s->n && s->at[k].first < end)
        k++;
    spans_replace(s, *i, k, NULL);
    return 0;
}

int mt_spans_clear(struct mt_spans *s, uint64_t first, uint64_t end)
{
    size_t i;
    return s->n && first < end ? spans_open(s, first, end, &i) : 0;
}

int mt_spans_set(struct mt_spans *s, const struct mt_page_span *span)
{
    size_t i;
    if (span->first >= span->end)
        return 0;
    if (spans_open(s, span->first, span->end, &i) != 0)
        return -1;
    spans_replace(s, i, i, span);
    return 0;
}

void mt_spans_free(struct mt_spans *s)
{
    free(s->at);
    memset(s, 0, sizeof *s);
}
