/* Which launches are traced: MEMTRACE_KERNELS, MEMTRACE_LAUNCHES, MEMTRACE_LIMIT, MEMTRACE_FROM_START and the
 * program's memtrace_start and memtrace_stop. Those left out run all the same, have a launch line that says
 * why, and count as untraced launches. Thread-safe. */
#ifndef MT_COMMON_SELECTION_H
#define MT_COMMON_SELECTION_H
#include <stdint.h>

/* NULL: a launch of `kernel` (demangled, without parameters) that comes now is to be traced. Else the setting
 * that leaves it out, by its name. Counts the launch, so it is to be asked once for each. */
const char *mt_selection_leaves_out(const char *kernel);
/* How many launches were left out so far. */
uint64_t mt_selection_left_out(void);
/* So many bytes went into a trace. */
void mt_selection_wrote(uint64_t bytes);
/* on 1, 0: the program asked for the launches from here on, or for none. */
void mt_selection_switch(int on);
/* cudaProfilerStart and cudaProfilerStop: the same, if MEMTRACE_FROM_START is 0. */
void mt_selection_profiler(int on);
#endif
