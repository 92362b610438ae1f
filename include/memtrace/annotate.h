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
 *
 * And while it runs, in host code:
 *
 *     MEMTRACE_START; … MEMTRACE_STOP;   // launches between a stop and the next start are not traced
 *
 * With MEMTRACE_FROM_START=0 in the environment nothing is traced before the first start.
 *
 *     MEMTRACE_NAME(p, "weights");       // the allocation that p points into is called so in all results
 */
#ifndef MEMTRACE_ANNOTATE_H
#define MEMTRACE_ANNOTATE_H

#ifdef __has_attribute
#if __has_attribute(memtrace_skip)
#define MEMTRACE_PLUGIN 1
#endif

/* The runtime's functions; weak, so that programs link without it, too. For the whole process; they do not
 * nest. Launches that are left out show as such in the companion. */
#ifdef __cplusplus
extern "C" {
#endif
void memtrace_start(void) __attribute__((weak));
void memtrace_stop(void) __attribute__((weak));
/* Names the allocation that `p` points into; `name` is copied. What is at p is not looked at. */
void memtrace_name(const void *p, const char *name) __attribute__((weak));
#ifdef __cplusplus
}
#endif
#define MEMTRACE_START ((void)(memtrace_start ? memtrace_start() : (void)0))
#define MEMTRACE_STOP ((void)(memtrace_stop ? memtrace_stop() : (void)0))
#define MEMTRACE_NAME(p, name) ((void)(memtrace_name ? memtrace_name((p), (name)) : (void)0))
#endif

#ifdef MEMTRACE_PLUGIN

/* On a function, in front of its declaration: the accesses that are in its own code are not recorded,
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
