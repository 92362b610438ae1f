/* Stretches of whole pages that were written at once: what a shadow knows of pages that it has not made.
 * Sorted and disjoint, found by bisection; memory is sized by what was written, not by how long it is.
 * Zero-initialised is empty. Not thread-safe. */
#ifndef MT_ANALYSIS_SPANS_H
#define MT_ANALYSIS_SPANS_H
#include <stddef.h>
#include <stdint.h>

struct mt_page_span {
    uint64_t first, end; /* pages [first, end) */
    uint32_t entry;      /* as in shadow.h */
    uint64_t start;      /* at which the access began; 0 without starts */
    uint64_t version;    /* when it was written: a running number of the shadow's */
};

struct mt_spans {
    struct mt_page_span *at;
    size_t n, room;
};

/* Pages [span->first, span->end) become this one, whatever was there. 0, or -1 without memory. */
int mt_spans_set(struct mt_spans *s, const struct mt_page_span *span);
/* Pages [first, end) are in none any more. 0, or -1 without memory. */
int mt_spans_clear(struct mt_spans *s, uint64_t first, uint64_t end);
/* The index of the first one that ends after `page`; s->n if there is none. */
size_t mt_spans_at(const struct mt_spans *s, uint64_t page);
/* The one with this page; NULL: none. */
const struct mt_page_span *mt_spans_find(const struct mt_spans *s, uint64_t page);
void mt_spans_free(struct mt_spans *s);
#endif
