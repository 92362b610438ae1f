/* Accesses of the host to memory that it shares with kernels, under MEMTRACE_CHECK on the CPU device:
 * managed, pinned and registered memory. A program may touch what its launches and copies use only after it
 * has waited for them. Here, a call that leaves such work behind first lets it end, if it can, and then
 * closes the pages of shared memory until the next call: an access is then a fault, which is noted (`touch`
 * lines of companion files), and the page is opened. docs/design/host-race.md has the reasons. */
#ifndef MT_API_GUARD_H
#define MT_API_GUARD_H
#include <stdint.h>

/* Watches from the next call on, if calls are watched. Call once, before the first operation. */
void mt_guard_start(void);
/* Stops watching and writes what is noted, at process exit, and how often the host was not watched. */
void mt_guard_finish(void);
/* Watches the host function that the calling thread is about to run, with nothing else under way. Returns 1,
 * or 0 if that is not possible. */
int mt_guard_function(void);
/* Ends that; op: number of the function. */
void mt_guard_function_end(uint64_t op);
/* Resets the state in a forked child. */
void mt_guard_forked(void);

#endif
