/* The sections of the further analyses in comm.json (docs/man/memtrace-extract.md). */
#ifndef MT_OUTPUT_LOCALITY_JSON_H
#define MT_OUTPUT_LOCALITY_JSON_H
#include "json.h"
#include "output/rows/comm_formats.h"

/* The sections that were chosen, as members of the object under way; they are finished. 0,
 * or -1 without memory. */
int mt_locality_write(struct mt_json *j, const struct mt_comm_result *r);
/* The section placement, with the device of each CTA if `assignment`;
 * c's launches have the nodes p->launches. */
int mt_placement_write(struct mt_json *j, const struct mt_placement *p, const struct mt_comm *c,
                       int assignment);

#endif
