/* Pages of very many launches: neighbouring launches of a kernel form one row, with their sums, under the
 * first one's superstep. */
#ifndef MT_PAGE_FOLD_H
#define MT_PAGE_FOLD_H

#include "report.h"

struct mt_reuse;
struct mt_sharing;

enum { MT_FOLD_FROM = 50000, MT_FOLD_MOST = 1 << 15 }; /* launches that are folded, and rows of the result */

/* Folds the launches of a report, if there are more than MT_FOLD_FROM. Returns 0, or -1 without memory. */
int mt_fold_launches(struct mt_report *r);
/* Fold the results by launch alike. Returns 0, or -1 without memory. */
int mt_fold_reuse(const struct mt_report *r, struct mt_reuse *x);
void mt_fold_sharing(const struct mt_report *r, struct mt_sharing *x);

#endif
