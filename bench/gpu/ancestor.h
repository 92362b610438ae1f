/* The scheme of an older tracer, as a baseline: 24 bytes per thread through mapped host memory; 8 slots,
 * chosen by SM id; per warp access one atomic that allocates and one that commits; a slot that is full is
 * emptied by the host, and until then its warps wait. What is shared of a slot by device and host: */
#ifndef MT_BENCH_ANCESTOR_H
#define MT_BENCH_ANCESTOR_H
#include <stdint.h>

#define ANCESTOR_SLOTS 8u
struct ancestor_slot {
    uint64_t alloc;   /* device memory: records asked for since the slot was emptied; those beyond `size` are
                         not there */
    uint64_t epoch;   /* device memory: how often it was emptied */
    uint64_t commit;  /* address of a word of host memory: records written */
    uint64_t full;    /* … : when the slot is full, its records; the host waits for as many commits, … */
    uint64_t emptied; /* … and counts here how often it has emptied the slot */
    uint64_t records; /* address in host memory, 24 bytes each */
    uint64_t size;
    uint64_t pad;
};
#endif
