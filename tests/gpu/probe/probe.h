/* What the probe's patches write, and its library reads. */
#ifndef MT_TEST_PROBE_H
#define MT_TEST_PROBE_H
#include <stdint.h>

/* Of a launch, in memory of the host: seen while the kernel runs. */
struct probe_seen {
    uint32_t began, ended; /* an access was made; the last number of threads that ended */
};

/* Of a launch, in memory of the GPU. */
struct probe_counts {
    uint32_t exits, accesses; /* calls of the patches, one for each thread */
    uint64_t exit_pc, access_pc;
    uint64_t seen;      /* address of its probe_seen */
    uint64_t unused[3]; /* 64 bytes */
};
#endif
