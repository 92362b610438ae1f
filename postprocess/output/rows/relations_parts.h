/* Who makes the rows of each table (relations.def): relations_comm.c, relations_locality.c. */
#ifndef MT_OUTPUT_RELATIONS_PARTS_H
#define MT_OUTPUT_RELATIONS_PARTS_H
#include "comm_formats.h"

#define MT_RELATION(name, of, what)                                                                          \
    int mt_tuples_of_##name(struct mt_tuples *w, const struct mt_comm_result *r);
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "relations.def"
#endif
