/* NVTX ranges: libmemtrace.so is the tool that the program's NVTX loads (InitializeInjectionNvtx2). Ranges go
 * into the log as `range` lines when they end, and MEMTRACE_NVTX traces only launches inside of some. */
#ifndef MT_COMMON_NVTX_H
#define MT_COMMON_NVTX_H

/* Is a launch that this thread makes now inside a range whose name MEMTRACE_NVTX matches: one that this
 * thread pushed, or one that any thread started? With `!` in front of the expression: is it inside none?
 * Without the setting 1. */
int mt_nvtx_takes(void);
/* The process ends: ranges that are still open are logged. */
void mt_nvtx_finish(void);
/* Kernels have been registered: this process is one that was made to be traced. */
extern _Atomic int mt_registered;
#endif
