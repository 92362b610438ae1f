/* Annotations by which a program controls its own tracing. Plain C and C++, host and device code; no other
 * header of memtrace is needed. Without the plugin (nvcc, gcc, plain clang) the annotations expand to
 * nothing, so annotated programs build everywhere.
 *
 *   #include <memtrace/annotate.h>
 *
 *   MEMTRACE_SKIP __global__ void initialise(float *p);          // its launches are not traced
 *   MEMTRACE_SKIP __device__ float table(const float *t, int i); // its own accesses are not traced
 *
 *   MEMTRACE_OFF
 *   __global__ void many() { … }                       // no access written here is traced
 *   MEMTRACE_TRACE __global__ void except_this() { … } // but accesses written here are
 *   MEMTRACE_ON
 *
 * In host code, at run time:
 *
 *   MEMTRACE_START; … MEMTRACE_STOP; // launches between a stop and the next start are not traced
 *
 * With MEMTRACE_FROM_START=0 in the environment nothing is traced before the first start.
 *
 *   MEMTRACE_NAME(p, "weights"); // results call the allocation that p points into by this name */
#ifndef MEMTRACE_ANNOTATE_H
#define MEMTRACE_ANNOTATE_H

#ifdef __has_attribute
#if __has_attribute(memtrace_skip)
#define MEMTRACE_PLUGIN 1
#endif

/* Functions of the runtime; weak, so that programs also link without it. They act on the whole process and do
 * not nest. Launches that are left out are marked as such in the companion file. */
#ifdef __cplusplus
extern "C" {
#endif
void memtrace_start(void) __attribute__((weak));
void memtrace_stop(void) __attribute__((weak));
/* Names the allocation that `p` points into; `name` is copied. The memory at p is not read. */
void memtrace_name(const void *p, const char *name) __attribute__((weak));
#ifdef __cplusplus
}
#endif
#define MEMTRACE_START ((void)(memtrace_start ? memtrace_start() : (void)0))
#define MEMTRACE_STOP ((void)(memtrace_stop ? memtrace_stop() : (void)0))
#define MEMTRACE_NAME(p, name) ((void)(memtrace_name ? memtrace_name((p), (name)) : (void)0))
#endif

#ifdef MEMTRACE_PLUGIN

/* On a function, in front of its declaration: accesses in its own code are not recorded, even where it is
 * inlined; accesses in functions that it calls are recorded. On a kernel: its launches leave no trace.
 * Equivalent to [[memtrace::skip]]. */
#define MEMTRACE_SKIP __attribute__((memtrace_skip))

/* On a function: its accesses are recorded in spite of MEMTRACE_OFF and of the plugin's kernels= and
 * exclude=. Equivalent to [[memtrace::trace]]; cannot be combined with MEMTRACE_SKIP. */
#define MEMTRACE_TRACE __attribute__((memtrace_trace))

/* On lines of their own: accesses written between the two, in this file, are not recorded. Without
 * MEMTRACE_ON the range extends to the end of the file. Ranges do not nest and do not reach into included
 * files. Equivalent to #pragma memtrace off|on. */
#define MEMTRACE_OFF _Pragma("memtrace off")
#define MEMTRACE_ON _Pragma("memtrace on")

#else
#define MEMTRACE_SKIP
#define MEMTRACE_TRACE
#define MEMTRACE_OFF
#define MEMTRACE_ON
#endif
#endif
