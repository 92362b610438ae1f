/* What the analyses hold, in the order of the output (docs/comm.schema.json). */
#ifndef MT_OUTPUT_SORTED_H
#define MT_OUTPUT_SORTED_H
#include "names.h"
#include "analysis/base/order.h"
#include "analysis/base/sites.h"
#include "analysis/comm/shadow.h"

int mt_locality_compare_text(const char *a, const char *b);
/* The name of a line, variable or allocation; `out` has room for MT_ALLOC_LABEL. */
const char *mt_lines_place(char *out, const struct mt_locality *m, const struct mt_sites *sites,
                           enum mt_lines_by by, uint64_t place);

/* Results in the order of the output, to be freed; NULL without memory. */
struct mt_lines_cell *mt_lines_sorted(const struct mt_locality *m, const struct mt_sites *sites,
                                      enum mt_lines_by by);
size_t *mt_coalescing_order(const struct mt_coalescing *c, const struct mt_sites *sites); /* of cells */
size_t *mt_coalescing_sites_order(const struct mt_coalescing *c,
                                  const struct mt_sites *sites);                   /* of sites.cells */
struct mt_coalescing_stride *mt_coalescing_strides(const struct mt_coalescing *c); /* by cell */
/* The place of the first one of this cell. */
size_t mt_coalescing_first_stride(const struct mt_coalescing_stride *strides, size_t n, size_t cell);
/* Of the selected launches; how many: *n. */
const struct mt_reuse_launch **mt_reuse_sorted(const struct mt_reuse *r, size_t *n);
struct mt_conflict *mt_conflicts_sorted(const struct mt_conflicts *x);
/* Both; 0, or -1 without memory. `top` is by superstep. */
int mt_sharing_sorted(const struct mt_sharing *s, struct mt_sharing_cell **cells,
                      struct mt_sharing_line **top);
/* Indices of the transfers by reader (launch, CTA), then by writer; malloc'ed, NULL without memory. */
size_t *mt_transfers_sort(const struct mt_comm *c);
#endif
