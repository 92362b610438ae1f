/* Spans of whole pages that were written at once, which a shadow stores instead of pages. Sorted and
 * disjoint, searched by bisection; memory depends on the number of writes, not on their sizes.
 * Zero-initialised is empty. Not thread-safe. */
#ifndef MT_ANALYSIS_SPANS_H
#define MT_ANALYSIS_SPANS_H
#include <stddef.h>
#include <stdint.h>

struct mt_page_span {
    uint64_t first, end; /* the pages [first, end) */
    uint32_t entry;      /* entry of the writer, as in shadow.h */
    uint64_t start;      /* address at which the access began; 0 without starts */
    uint64_t version;    /* serial number of the write, counted by the shadow */
};

struct mt_spans {
    struct mt_page_span *at;
    size_t n, room;
};

/* Sets pages [span->first, span->end) to this span, replacing others. Returns 0, or -1 without memory. */
int mt_spans_set(struct mt_spans *s, const struct mt_page_span *span);
/* Removes pages [first, end) from all spans. Returns 0, or -1 without memory. */
int mt_spans_clear(struct mt_spans *s, uint64_t first, uint64_t end);
/* Returns the index of the first span that ends after `page`, or s->n. */
size_t mt_spans_at(const struct mt_spans *s, uint64_t page);
/* Returns the span that contains this page, or NULL. */
const struct mt_page_span *mt_spans_find(const struct mt_spans *s, uint64_t page);
void mt_spans_free(struct mt_spans *s);
#endif
