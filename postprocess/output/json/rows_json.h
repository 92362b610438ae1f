/* Rows of a table in comm.json, as the `json` of its columns says (rows/relations.def): nested objects by the
 * columns that are keys, in the innermost one a member for each of the others; without keys a list of
 * objects. */
#ifndef MT_OUTPUT_ROWS_JSON_H
#define MT_OUTPUT_ROWS_JSON_H
#include "json.h"
#include "output/rows/comm_formats.h"

/* Into the object, or array, under way. `more`, which may be NULL, writes further members of a row's object;
 * it gets `arg`. 0, or -1 without memory. */
int mt_relation_json(struct mt_json *j, enum mt_relation_number number, mt_rows_of *of,
                     const struct mt_comm_result *r,
                     void (*more)(struct mt_json *j, void *arg, const struct mt_rowset *x, size_t i),
                     void *arg);

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
