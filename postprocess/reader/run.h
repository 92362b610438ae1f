/* Of which run a trace is: which traces belong together, and which of two runs is the newer one. */
#ifndef MT_READER_RUN_H
#define MT_READER_RUN_H
#include <stdint.h>

struct mt_run_id {
    uint64_t pid, start_ns;
    uint64_t wall_ms; /* 0: not known; start_ns begins anew with the machine */
    int host;         /* of host accesses: begins when its engine does, not when the CUDA runtime does */
};

static inline int mt_run_same(const struct mt_run_id *a, const struct mt_run_id *b)
{
    return a->pid == b->pid && (a->host || b->host || a->start_ns == b->start_ns);
}

/* Traces of kernels go before those of host accesses; else the one that began later is newer. When files were
 * written says nothing: copies are younger. */
static inline int mt_run_newer(const struct mt_run_id *a, const struct mt_run_id *b)
{
    if (a->host != b->host)
        return b->host;
    if (a->wall_ms && b->wall_ms && a->wall_ms != b->wall_ms)
        return a->wall_ms > b->wall_ms;
    return a->start_ns != b->start_ns ? a->start_ns > b->start_ns : a->pid > b->pid;
}
#endif
