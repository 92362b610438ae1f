/* Which launches are traced: MEMTRACE_KERNELS, MEMTRACE_LAUNCHES, MEMTRACE_SAMPLE, MEMTRACE_LIMIT,
 * MEMTRACE_FROM_START, MEMTRACE_NVTX and the program's memtrace_start and memtrace_stop; and which of their
 * CTAs: MEMTRACE_CTAS, MEMTRACE_SAMPLE. Launches left out run all the same, have a launch line that says why,
 * and count as untraced launches. Thread-safe. */
#ifndef MT_COMMON_SELECTION_H
#define MT_COMMON_SELECTION_H
#include "trace.h"

/* 1: the launch is to be traced; 0: l->left_out is the setting that leaves it out, by its name. Needs kernel
 * (demangled, without parameters) and grid of *l and fills left_out and the counts of CTAs. Counts the
 * launch, so it is to be asked once for each. */
int mt_selection_takes(struct mt_launch_line *l);
/* 1: no launch of this kernel will be traced any more, whatever the program does. */
int mt_selection_never(const char *kernel);
struct mt_cta_rule;
/* NULL: launches are traced whole. Lasts. */
const struct mt_cta_rule *mt_selection_ctas(void);
/* How many launches were left out so far. */
uint64_t mt_selection_left_out(void);
/* So many bytes went into a trace. */
void mt_selection_wrote(uint64_t bytes);
/* cudaProfilerStart and cudaProfilerStop: the same, if MEMTRACE_FROM_START is 0. */
void mt_selection_profiler(int on);

/* ---- NVTX ranges: libmemtrace.so is the tool that the program's NVTX loads (InitializeInjectionNvtx2).
 * Ranges go into the log as `range` lines when they end, and MEMTRACE_NVTX traces only launches inside of
 * some ---- */

/* The process ends: ranges that are still open are logged. */
void mt_nvtx_finish(void);
/* Kernels have been registered: this process is one that was made to be traced. */
extern _Atomic int mt_registered;
#endif
