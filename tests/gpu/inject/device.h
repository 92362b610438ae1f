/* A GPU for the tests of runtime/gpu/inject: its memory is host memory, and tests write packets into the
 * rings by hand, as packet.h says they lie. Has the functions of the API that rings and waits need. */
#ifndef MT_TEST_INJECT_DEVICE_H
#define MT_TEST_INJECT_DEVICE_H
#include "gpu/inject/inject.h"
#include "fake_cuda.h"

/* What the next calls of the API's copy to the host answer. */
extern SanitizerResult device_copy_result;
/* What each new array of contexts begins with. */
extern struct mt_inject_call device_call;

/* `lanes` threads store 4 bytes each, from `address` on; CTA 0 to 31 has the ring of that number. */
void device_store(const void *data, uint32_t cta, uint32_t lanes, uint64_t address, uint32_t site);
/* A warp of CTA `from` stores 128 bytes, and sets a flag for CTA `to`, which loads them. The words of the
 * store reach the ring after those of the load. */
void device_pass(const void *data, uint32_t from, uint32_t to, uint64_t address, uint32_t site);
/* Whether the launch makes totals in place of records; a store of whole lines, so counted. */
int device_totals(const void *data);
void device_count(const void *data, uint32_t lanes, uint64_t pc);
/* A store in two parts: the counter alone (the packet is lost, or on its way), and the packet alone. */
void device_lose(const void *data, uint32_t lanes);
void device_bring(const void *data, uint32_t cta, uint32_t lanes, uint64_t address, uint32_t site);
/* Threads end; with the last of all `all` threads the launch ends. */
void device_exit(const void *data, uint32_t cta, uint32_t lanes, uint64_t all);
/* The pc from which the launch's sites count. */
uint64_t device_code(const void *data);
/* Accesses without a record; and such that were only counted, as they repeat others. */
void device_note(const void *data, uint64_t accesses, uint64_t repeats);
#endif
