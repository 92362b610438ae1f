/* Packets as runs, for compact traces: a packet is what a warp did already. */
#ifndef MT_GPU_GATHER_H
#define MT_GPU_GATHER_H
#include "memtrace/device.h"
#include "ring.h"

#define MT_GATHER_RUNS 4096u
#define MT_GATHER_ADDRESSES (8u * MT_GATHER_RUNS)

struct mt_gather {
    size_t runs, addresses;
    uint64_t accesses; /* of threads, in the runs */
    struct mt_gather *next;
    struct mt_access_run run[MT_GATHER_RUNS];
    uint64_t address[MT_GATHER_ADDRESSES];
};

/* Puts the packet's records from number `from` on after those that are there, as far as there is room, and
 * returns how many. `site`: the number that readers know, 0: none. */
uint64_t mt_gather_put(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site);
void mt_gather_clear(struct mt_gather *g);
#endif
