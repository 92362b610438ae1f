/* comm.json: the results of the communication analysis (docs/definitions.md, docs/man/memtrace-extract.md).
 */
#ifndef MT_OUTPUT_COMM_JSON_H
#define MT_OUTPUT_COMM_JSON_H

#include "output/rows/comm_formats.h"
#include "json.h"
#include "analysis/comm/addresses.h"
#include "output/rows/sorted.h"
#include <signal.h>

/* The run's timeline in Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing open. */

/* One whole document: launches, also those without trace, copies, NVTX ranges, and flows from a launch to
 * those that load what it wrote. `r` has its transfers. 0, or -1 without memory. */
int mt_timeline_write(struct mt_json *j, const struct mt_comm_result *r);

/* The volume sections and transfers chosen in `sections` (a bit per mt_section), as members of the object
 * under way. 0, or -1 without memory. */
int mt_comm_write(struct mt_json *j, const struct mt_comm *c, unsigned sections);

/* All keys and their operations, as members of the object under way. 0; 1 when *stop became non-zero or
 * nothing can be written any more; -1 without memory or, with a->why, when the file of operations fails. */
int mt_addresses_write(struct mt_json *j, struct mt_addresses *a, const struct mt_comm *c,
                       const volatile sig_atomic_t *stop);

#endif
