/* Shared by locality_*.c, summary*.c and relations_locality.c. */
#ifndef MT_OUTPUT_LOCALITY_PARTS_H
#define MT_OUTPUT_LOCALITY_PARTS_H
#include "locality_json.h"

#define MT_ANALYSIS(NAME, name, cost, every)                                                                 \
    int mt_##name##_json(struct mt_json *j, const struct mt_locality *m, const struct mt_sites *sites);
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS

/* The member "sites" of coalescing (locality_places_json.c). 0, or -1 without memory. */
int mt_coalescing_sites_json(struct mt_json *j, const struct mt_coalescing *c, const struct mt_sites *sites);

int mt_locality_compare_text(const char *a, const char *b);

/* Results in the order of the output, to be freed; NULL without memory. */
struct mt_lines_cell *mt_lines_sorted(const struct mt_locality *m, const struct mt_sites *sites,
                                      enum mt_lines_by by);
size_t *mt_coalescing_order(const struct mt_coalescing *c, const struct mt_sites *sites); /* of cells */
struct mt_coalescing_stride *mt_coalescing_strides(const struct mt_coalescing *c);        /* by cell */
/* The place of the first one of this cell. */
size_t mt_coalescing_first_stride(const struct mt_coalescing_stride *strides, size_t n, size_t cell);
struct mt_conflict *mt_conflicts_sorted(const struct mt_conflicts *x);
/* Both; 0, or -1 without memory. `top` is by superstep. */
int mt_sharing_sorted(const struct mt_sharing *s, struct mt_sharing_cell **cells,
                      struct mt_sharing_line **top);

/* Objects { kernel: { superstep: … } } from launches in this order. */
struct mt_keys {
    const char *kernel; /* NULL: none is open */
    uint64_t superstep;
    int below; /* a superstep's value is open */
    char step[64];
};
/* 1 if this is another launch than before: the kernel's object is open then, and the caller opens the value
 * under the key k->step (`below`) or writes it whole. */
int mt_keys_launch(struct mt_json *j, struct mt_keys *k, const char *kernel, uint64_t superstep, int below);
void mt_keys_end(struct mt_json *j, struct mt_keys *k);
#endif
