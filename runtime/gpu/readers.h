/* Rings read by one thread or by several. Of several, each takes packets from rings of its own, puts them
 * together by launch, and hands on what belongs to launches that are open, which is where the work is
 * (compact traces encode it on the calling thread). Then the caller alone gives the launches what they have,
 * and those that open then get theirs. A CTA's packets are in one ring, which always the same thread reads,
 * so their order stays. */
#ifndef MT_GPU_READERS_H
#define MT_GPU_READERS_H
#include "flight.h"

struct mt_readers_ring {
    struct mt_ring *ring;
    struct mt_flight *_Atomic *flights; /* by context, `contexts` of them */
    uint32_t contexts;
    void *owner; /* the caller's */
};
struct mt_readers_ops {
    /* So many records came of a context; `known`: of a launch, which has them. On the caller's thread. */
    void (*came)(void *owner, uint32_t context, uint64_t records, int known);
    void (*damaged)(void *owner);
};
/* Takes up to `batch` packets from each ring; returns how many came. One caller at a time. There are as many
 * threads as MEMTRACE_GPU_READERS says, this one among them; 1 where traces are not compact. */
unsigned mt_readers_drain(const struct mt_readers_ring *rings, unsigned n, unsigned batch,
                          const struct mt_readers_ops *ops);
#endif
