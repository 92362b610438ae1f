/* The page of how alike traces walk: mt-compare -f html. */
#ifndef MT_PAGE_WALKS_PAGE_H
#define MT_PAGE_WALKS_PAGE_H
#include "output/dot/compare_out.h"

enum { MT_WALKS_MOST = 100 }; /* traces on one page */

/* One HTML document that needs no script, no network and no other file; all of a trace's texts are escaped.
 * `v` says by which measure traces are put in order. 0, or -1 without memory; errors of writing are the
 * stream's. */
int mt_walks_page(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v);
#endif
