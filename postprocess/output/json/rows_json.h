/* Rows of a table in comm.json, as the `json` of its columns says (rows/relations.def): nested objects by the
 * columns that are keys, in the innermost one a member for each of the others; without keys a list of
 * objects. */
#ifndef MT_OUTPUT_ROWS_JSON_H
#define MT_OUTPUT_ROWS_JSON_H
#include "json.h"
#include "output/rows/comm_formats.h"

/* Into the object, or array, under way. `more`, which may be NULL, writes further members of a row's object;
 * it gets `arg`. 0, or -1 without memory. */
int mt_relation_json(struct mt_json *j, enum mt_relation_number number, const struct mt_comm_result *r,
                     void (*more)(struct mt_json *j, const void *arg, const struct mt_comm_result *r,
                                  size_t row),
                     const void *arg);
#endif
