/* Scheme of an older tracer, used as a baseline: 24 bytes per thread, written to mapped host memory; 8 slots,
 * chosen by SM id; one atomic to reserve and one to commit each access of a warp. The host empties a full
 * slot, while its warps wait. Fields of a slot that device and host share: */
#ifndef MT_BENCH_ANCESTOR_H
#define MT_BENCH_ANCESTOR_H
#include <stdint.h>

#define ANCESTOR_SLOTS 8u
struct ancestor_slot {
    uint64_t alloc;  /* device memory: records reserved since the slot was emptied; those beyond `size` do not
                        count */
    uint64_t epoch;  /* device memory: how often the slot was emptied */
    uint64_t commit; /* address of a word of host memory: number of records written */
    uint64_t full;   /* address of a word of host memory: number of records in a full slot, for whose commits
                        the host waits */
    uint64_t emptied; /* address of a word of host memory, in which the host counts how often it has emptied
                         the slot */
    uint64_t records; /* address in host memory; 24 bytes per record */
    uint64_t size;
    uint64_t pad;
};
#endif
