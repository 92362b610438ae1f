/* What a thread knows of the CTAs of a launch: for each CTA, up to which times the accesses of its threads
 * are ordered before the thread's. Views are never changed, only made from others, and share what they have
 * in common; all of them live until mt_views_clear, or until those still in use are moved. NULL is a view of
 * nothing. */
#ifndef MT_ANALYSIS_VIEWS_H
#define MT_ANALYSIS_VIEWS_H

#include <stddef.h>
#include <stdint.h>

struct mt_view;

/* Zero-initialised is empty. */
struct mt_views {
    struct mt_views_block *blocks;
    size_t left;                /* bytes left in the first block */
    size_t bytes;               /* bytes of all blocks */
    unsigned levels;            /* levels of each view, set by mt_views_clear */
    struct mt_views_block *old; /* blocks whose views are being moved */
    int failed;                 /* 1: there was no memory for a view, which has less than it should */
};

/* Frees all views; the next ones are of CTAs with numbers below `ctas`. */
void mt_views_clear(struct mt_views *v, uint64_t ctas);
/* Returns what is known from `a` and `b` together. */
const struct mt_view *mt_view_join(struct mt_views *v, const struct mt_view *a, const struct mt_view *b);
/* Returns the view with the times of a CTA's threads 0 .. n - 1 as well. */
const struct mt_view *mt_view_add(struct mt_views *v, const struct mt_view *a, uint32_t cta,
                                  const uint32_t *times, uint32_t n);
/* Moves the views in use: begin, one call for each place that has one, end; all others are
 * freed. Without memory `failed` is set, and they know less. */
void mt_views_move_begin(struct mt_views *v);
void mt_views_move(struct mt_views *v, const struct mt_view **at);
void mt_views_move_end(struct mt_views *v);
/* Returns the known time of a thread of that CTA; 0: nothing is known. */
uint32_t mt_view_time(const struct mt_views *v, const struct mt_view *a, uint32_t cta, uint32_t thread);

#endif
