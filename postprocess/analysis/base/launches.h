/* The launches that the companions of a source know. */
#ifndef MT_ANALYSIS_LAUNCHES_H
#define MT_ANALYSIS_LAUNCHES_H
#include "memtrace/trace.h"

/* Of `ninputs` inputs' companions, each launch once (streams without a trace are in several), by the kernel's
 * name and then in their order; `keep`: only those, NULL: all. *n of them, by free(). NULL: no memory. */
const struct mt_launch_event **mt_launches_by_kernel(const struct mt_source *s, size_t ninputs,
                                                     int (*keep)(const struct mt_launch_event *), size_t *n);
#endif
