/* comm.json: the results of the communication analysis (docs/definitions.md, docs/man/memtrace-extract.md).
 */
#ifndef MT_OUTPUT_COMM_JSON_H
#define MT_OUTPUT_COMM_JSON_H
#include <signal.h>
#include "json.h"
#include "analysis/comm/addresses.h"
#include "output/rows/sorted.h"

/* The volume sections and transfers chosen in `sections` (a bit per mt_section), as members of the object
 * under way. 0, or -1 without memory. */
int mt_comm_write(struct mt_json *j, const struct mt_comm *c, unsigned sections);
/* All keys and their operations, as members of the object under way. 0; 1 when *stop became non-zero or
 * nothing can be written any more; -1 without memory or, with a->why, when the file of operations fails. */
int mt_addresses_write(struct mt_json *j, struct mt_addresses *a, const struct mt_comm *c,
                       const volatile sig_atomic_t *stop);
/* The section transfers; `order`: launches by kernel, then superstep. 0, or -1 without memory. */
int mt_transfers_write(struct mt_json *j, const struct mt_comm *c, const size_t *order);
#endif
