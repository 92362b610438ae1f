/* The page of two runs side by side: memtrace report A -- B. */
#ifndef MT_PAGE_VERSUS_PAGE_H
#define MT_PAGE_VERSUS_PAGE_H
#include "output/versus/versus.h"

/* One HTML document that needs no script, no network and no other file; all of a trace's texts are escaped.
 * 0, or -1 without memory; errors of writing are the stream's. */
int mt_versus_page(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w);
#endif
