/* Selection of the launches to trace: MEMTRACE_KERNELS, MEMTRACE_LAUNCHES, MEMTRACE_SAMPLE, MEMTRACE_LIMIT,
 * MEMTRACE_FROM_START, MEMTRACE_NVTX and the program's memtrace_start and memtrace_stop; and of their CTAs:
 * MEMTRACE_CTAS, MEMTRACE_SAMPLE. Launches left out still run, have a launch line with the reason, and count
 * as untraced launches. Thread-safe. */
#ifndef MT_COMMON_SELECTION_H
#define MT_COMMON_SELECTION_H

#include "format/cta_rule.h"
#include "trace.h"

#include <stddef.h>

/* ---- MEMTRACE_CTAS and MEMTRACE_SAMPLE, without state ---- */

/* Parses SPEC of MEMTRACE_CTAS: terms joined by `+`; a term is a range of linear numbers, or two or three
 * ranges for x, y and z joined by `,` (no z: any); a range is `A`, `A:B`, `A:`, `:B` or `*`. Returns 0 with
 * terms and term of the rule set, or -1 with *why set to the error and its place, and the rule unchanged. */
int mt_ctas_parse(struct mt_cta_rule *rule, const char *text, char *why, size_t size);
/* Parses MEMTRACE_SAMPLE: `N`, `cta:N`, `launch:N`, or the last two joined by `,`. Missing ones are 1. */
int mt_sample_parse(uint32_t *ctas, uint32_t *launches, const char *text, char *why, size_t size);
/* Returns the number of CTAs of a grid that the rule's terms select and whose linear number is a multiple of
 * `every`. */
uint64_t mt_ctas_count(const struct mt_cta_rule *rule, uint32_t every, const uint32_t grid[3]);

/* ---- launches ---- */

/* Decides about a launch, and counts it: call it once per launch. Returns 1 to trace it, or 0 with
 * l->left_out set to the name of the setting that excludes it. Reads kernel (demangled, without parameters)
 * and grid of *l; fills left_out and the counts of CTAs. */
int mt_selection_takes(struct mt_launch_line *l);
/* Leaves out the kernels of NCCL, which mostly wait for each other, unless MEMTRACE_KERNELS is set. For
 * machine code on a GPU; to be called first. */
void mt_selection_without_nccl(void);
/* Returns the number of launches that were left out because of it. */
uint64_t mt_selection_nccl(void);
/* Returns 1 if no launch of this kernel will be traced any more, whatever the program does. */
int mt_selection_never(const char *kernel);
/* Returns the rule for CTAs, which is constant, or NULL if launches are traced whole. */
const struct mt_cta_rule *mt_selection_ctas(void);
extern _Atomic uint64_t mt_selection_left_out; /* number of launches left out so far */
/* Adds bytes written to a trace. */
void mt_selection_wrote(uint64_t bytes);
/* cudaProfilerStart and cudaProfilerStop: same as memtrace_start and memtrace_stop if MEMTRACE_FROM_START is
 * 0. */
void mt_selection_profiler(int on);

/* ---- NVTX ranges: libmemtrace.so is the tool loaded by the program's NVTX (InitializeInjectionNvtx2).
 * Ranges are logged as `range` lines when they end, and MEMTRACE_NVTX traces only launches within some of
 * them ---- */

/* Copies the text of an NVTX message (its type and value) in UTF-8, cut to MT_NVTX_TEXT bytes with the 0.
 * Returns its length, 0 without a text. */
#define MT_NVTX_TEXT 1000
size_t mt_nvtx_text(char *out, int32_t type, const void *message);
/* Logs the ranges still open at process exit. */
void mt_nvtx_finish(void);
/* Set when kernels are registered: this process was built for tracing. */
extern _Atomic int mt_registered;
#endif
