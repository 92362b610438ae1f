/* Launches in the companion files of a source. */
#ifndef MT_ANALYSIS_LAUNCHES_H
#define MT_ANALYSIS_LAUNCHES_H
#include "memtrace/trace.h"

/* Returns the launches in the companion files of `ninputs` inputs, each once (a stream without a trace may be
 * in several), by kernel name and then in their order. `keep`: filter, NULL: all. *n is their number; the
 * caller frees the list. NULL without memory. */
const struct mt_launch_event **mt_launches_by_kernel(const struct mt_source *s, size_t ninputs,
                                                     int (*keep)(const struct mt_launch_event *), size_t *n);
#endif
