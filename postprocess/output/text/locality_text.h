/* mt-extract --format text: a table for each part of the results, for people. */
#ifndef MT_OUTPUT_LOCALITY_TEXT_H
#define MT_OUTPUT_LOCALITY_TEXT_H
#include <stdio.h>
#include "analysis/locality/estimates.h"
#include "output/rows/comm_formats.h"

/* Volumes by kernel, over all its selected launches, at most `rows` of the table. 0, or -1 without memory; so
 * the others. */
int mt_comm_text(FILE *f, const struct mt_comm *c, size_t rows);
/* Who sent how much to whom: by kernel, and the largest of CTAs (comm_text.c). */
int mt_transfers_text(FILE *f, const struct mt_comm *c, const struct mt_estimates *e, size_t rows);
/* Of a sampled trace; nothing where there are none. */
int mt_estimates_text(FILE *f, const struct mt_estimates *e, const struct mt_comm *c, size_t rows);
/* A table for each analysis of runs. */
#define MT_ANALYSIS(NAME, name, cost, every)                                                                 \
    int mt_##name##_text(FILE *f, const struct mt_comm_result *result, size_t rows);
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
/* Do lanes of a cell (SIZE_MAX: of any) access less than the 16 bytes that they are apart, as in halves of a
 * float4? */
int mt_coalescing_halves(const struct mt_coalescing *c, size_t cell);
/* Behind a sentence on such a cell; the page has the same (web/glance.js). */
#define MT_HALVES_WORDS                                                                                      \
    " (clang may access values of 16 bytes, float4 or __int128, in two halves; nvcc does not)"
/* What was chosen of them. */
int mt_locality_text(FILE *f, const struct mt_comm_result *result, size_t rows);
/* What people read for the policies: "blocks of CTAs" …; the page has the same (web/plots.js). */
extern const char *const mt_placement_words[MT_PLACE_POLICIES];
int mt_placement_text(FILE *f, const struct mt_placement *p);
#endif
