/* Entry layer. Every cuda* function declared in CUDA's header is an exported jump through a slot. The first
 * call sets the slot to the first of these that exists:
 *
 *   rec_<name>   recorder: records the call in the trace and calls MT_NEXT(name); the same on both devices
 *   impl_<name>  function of the CPU device; on a GPU the real CUDA runtime's, with unchanged arguments
 *
 * A function with neither returns cudaErrorNotSupported and prints its name once. Under MEMTRACE_CHECK slots
 * stay unset, and watch.S checks the result of each call. gen_entries.py makes table and jumps from the
 * header; a file of these folders adds a function by defining impl_<name> or rec_<name> with the header's own
 * signature. README.md lists the folders and their permitted calls. */
#ifndef MT_API_ENTRY_H
#define MT_API_ENTRY_H
#include <stdint.h>
#include <cuda_runtime_api.h>
#include <cuda_profiler_api.h>
#include "crt.h"
#include "entries.h"

struct mt_entry {
    const char *name,
        *per_thread; /* per_thread: name of the variant for per-thread default streams, or NULL */
    void (*impl)(void), (*rec)(void);
    void *real, *real_per_thread; /* functions of the real runtime, once looked up */
    int said;
    int alone; /* impl works without any device: error names and the like */
};
extern struct mt_entry mt_entries[MT_ENTRIES];
extern void *mt_entry_slots[MT_ENTRIES];
/* Set once the program has called a runtime function that makes the primary context current. */
extern int mt_entry_called;

/* Two steps, to follow names that the header renames (cudaX -> cudaX_v2); entries.h does the same for impl_
 * and rec_. */
#define MT_PASTE_(a, b) a##b
#define MT_PASTE(a, b) MT_PASTE_(a, b)
#define MT_NEXT(name) ((__typeof__(&name))mt_entry_next(MT_PASTE(MT_I_, name)))

/* watch.S: calls the function that this thread has resolved last. */
void mt_entry_watch(void);

/* Returns the function after the recorder of entry `index`. Never NULL. */
void *mt_entry_next(enum mt_entry_index index);
/* Returns the slot's target; called at a jump's first use (first.S). */
void *mt_entry_resolve(uint32_t index);
/* Called by watch.S before the call, whose function it returns, and after it. */
void *mt_entry_begin(const void *caller);
void mt_entry_end(int code);

/* Returns 1 within a *_ptds or *_ptsz call of this thread, where stream 0 is the thread's own default stream.
 */
int mt_per_thread(void);
/* Returns the default stream that NULL stands for now, and other streams unchanged. */
static inline cudaStream_t mt_stream_named(cudaStream_t s)
{
    return s ? s : mt_per_thread() ? cudaStreamPerThread : cudaStreamLegacy;
}
/* caller: caller of the variant. */
int mt_per_thread_enter(const void *caller);
void mt_per_thread_leave(int outer);
#endif
