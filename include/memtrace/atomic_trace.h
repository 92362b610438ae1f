/* Annotations for host tracing, in C and C++: how a program tells a tracer about threads and regions. Link
 * with -lmemtrace-annotation (static or shared). The functions do nothing by themselves; the engines of
 * memtrace host notice the calls. Safe from any thread and from signal handlers, except special_malloc and
 * special_free.
 *
 * Names in namespace atomic_trace are source-compatible with atomic-memory-trace's annotation.h. */
#ifndef MEMTRACE_ATOMIC_TRACE_H
#define MEMTRACE_ATOMIC_TRACE_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Gives this thread the number `number` in the trace from here on. With -r 1 (memtrace host atomic) only
 * threads that have called this function are traced. */
void mt_register_thread(unsigned long number);
/* Begin and end the region of interest, for all threads; with -i 1 accesses outside are not traced. */
void mt_start_roi(void);
void mt_end_roi(void);

#ifdef __cplusplus
}
namespace atomic_trace
{
void register_thread(int64_t thread_num);
void start_roi();
void end_roi();
/* malloc and free under names that -f can trace, to mark one allocation and its lifetime. */
__attribute__((nothrow)) void *special_malloc(size_t size);
__attribute__((nothrow)) void special_free(void *addr);
} // namespace atomic_trace
#endif
#endif
