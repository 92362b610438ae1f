/* comm.json: the results of the communication analysis (docs/definitions.md, docs/man/memtrace-extract.md).
 */
#ifndef MT_OUTPUT_COMM_JSON_H
#define MT_OUTPUT_COMM_JSON_H

#include "output/rows/comm_formats.h"
#include "json.h"
#include "analysis/comm/addresses.h"
#include "output/rows/sorted.h"
#include <signal.h>

/* ---- The run's timeline in Chrome's Trace Event Format, for ui.perfetto.dev and chrome://tracing ---- */

/* Writes one whole document: launches (including untraced ones), copies, NVTX ranges, and flows from a launch
 * to launches that load what it wrote. `r` contains its transfers. Returns 0, or -1 without memory. */
int mt_timeline_write(struct mt_json *j, const struct mt_comm_result *r);

/* Writes the sections chosen by `sections` (a bit per mt_section), volumes and transfers, as members of the
 * open object. Returns 0, or -1 without memory. */
int mt_comm_write(struct mt_json *j, const struct mt_comm *c, unsigned sections);

/* Writes all keys and their operations as members of the open object. Returns 0; 1 if *stop became non-zero
 * or the output failed; -1 without memory, or with a->why if reading the file of operations failed. */
int mt_addresses_write(struct mt_json *j, struct mt_addresses *a, const struct mt_comm *c,
                       const volatile sig_atomic_t *stop);

#endif
