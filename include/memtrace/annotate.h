/* What programs may say to memtrace in their own source. Plain C and C++, host and device; needs nothing else
 * of memtrace, and without the plugin (nvcc, gcc, clang alone) all of it vanishes, so that annotated programs
 * build everywhere.
 *
 *     #include <memtrace/annotate.h>
 *
 *     MEMTRACE_SKIP __global__ void initialise(float *p);          // launches of it are not traced
 *     MEMTRACE_SKIP __device__ float table(const float *t, int i); // its own accesses are not traced
 *
 *     MEMTRACE_OFF
 *     __global__ void many() { … }                                  // no access written here is traced
 *     MEMTRACE_TRACE __global__ void except_this() { … }            // but here they are
 *     MEMTRACE_ON
 */
#ifndef MEMTRACE_ANNOTATE_H
#define MEMTRACE_ANNOTATE_H

#ifdef __has_attribute
#if __has_attribute(memtrace_skip)
#define MEMTRACE_PLUGIN 1
#endif
#endif

#ifdef MEMTRACE_PLUGIN

/* On a function, in front of its declaration: the accesses that stand in its own code are not recorded,
 * wherever it is inlined; those of functions that it calls are. On a kernel: its launches leave no trace. The
 * same as [[memtrace::skip]]. */
#define MEMTRACE_SKIP __attribute__((memtrace_skip))

/* On a function: its accesses are recorded in spite of MEMTRACE_OFF and of the plugin's kernels= and
 * exclude=. The same as [[memtrace::trace]]; not together with MEMTRACE_SKIP. */
#define MEMTRACE_TRACE __attribute__((memtrace_trace))

/* On lines of their own: accesses written between the two, in this file, are not recorded. Without
 * MEMTRACE_ON up to the end of the file. They do not nest and do not reach into included files. The same as
 * #pragma memtrace off|on. */
#define MEMTRACE_OFF _Pragma("memtrace off")
#define MEMTRACE_ON _Pragma("memtrace on")

#else
#define MEMTRACE_SKIP
#define MEMTRACE_TRACE
#define MEMTRACE_OFF
#define MEMTRACE_ON
#endif
#endif
