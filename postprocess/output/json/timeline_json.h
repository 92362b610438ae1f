/* The run's timeline in Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing open. */
#ifndef MT_OUTPUT_TIMELINE_JSON_H
#define MT_OUTPUT_TIMELINE_JSON_H
#include "output/rows/comm_formats.h"
#include "json.h"

/* One whole document: launches, also those without trace, copies, NVTX ranges, and flows from a launch to
 * those that load what it wrote. `r` has its transfers. 0, or -1 without memory. */
int mt_timeline_write(struct mt_json *j, const struct mt_comm_result *r);
#endif
