/* Shared by locality_json.c, locality_launches_json.c and locality_places_json.c. */
#ifndef MT_OUTPUT_LOCALITY_PARTS_H
#define MT_OUTPUT_LOCALITY_PARTS_H
#include "locality_json.h"
#include "rows_json.h"

#define MT_ANALYSIS(NAME, name, cost, every)                                                                 \
    int mt_##name##_json(struct mt_json *j, const struct mt_comm_result *r);
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS

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
