/* Two runs side by side: as tables and as JSON (docs/man/memtrace-compare.md). */
#ifndef MT_OUTPUT_VERSUS_OUT_H
#define MT_OUTPUT_VERSUS_OUT_H
#include <stdio.h>
#include "output/json/json.h"
#include "analysis/versus/versus.h"

struct mt_versus_words {
    const char *const *paths[2]; /* of a and b */
    size_t npaths[2];
    int complete[2]; /* below 0: not known */
};
/* `page` in what follows: numbers as pages have them, "8,192 → 2,048 (−75.0 %)". */
/* The verdict as a sentence: the caller frees it; NULL without memory. */
char *mt_versus_sentence(const struct mt_versus *p, int page);
/* A figure of both runs: "8192 -> 2048 (-75.0 %)", "12" where they are equal, "-" where it is not known.
 * Returns out. */
enum { MT_VERSUS_CELL = 96 };
const char *mt_versus_cell(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, enum mt_figure f,
                           int page);
/* The same of the efficiency, in percent and points. */
const char *mt_versus_efficiency(char out[MT_VERSUS_CELL], const struct mt_versus_row *r, int page);
/* Less is better, and it got 1: better, -1: worse; 0: neither, or not known. */
int mt_versus_turn(const struct mt_versus_row *r, enum mt_figure f);
/* Of `n` figures those of which a run has any in these rows, in `out`; MT_FIGURES, the efficiency, is where
 * sectors are. How many. */
size_t mt_versus_shown(const struct mt_versus_row *rows, size_t nrows, const enum mt_figure *figures,
                       size_t n, enum mt_figure *out);
/* Why there are no source lines; NULL: there are. */
const char *mt_versus_no_lines(const struct mt_versus *p);
/* Everything as tables. 0, or -1 without memory. */
int mt_versus_text(FILE *f, const struct mt_versus *p, const struct mt_versus_words *w);
/* One whole document. 0, or -1 without memory. */
int mt_versus_json(struct mt_json *j, const struct mt_versus *p, const struct mt_versus_words *w);
#endif
