/* Of which run a trace is: which traces belong together, and which of two runs is the newer one. */
#ifndef MT_READER_RUN_H
#define MT_READER_RUN_H
#include "memtrace/hash.h"

struct mt_run_id {
    uint64_t pid, start_ns;
    uint64_t wall_ms; /* 0: not known; start_ns begins anew with the machine */
    uint64_t job;     /* a hash of its name; 0: alone. Its processes are one run */
    int host;         /* of host accesses: begins when its engine does, not when the CUDA runtime does */
};

static inline uint64_t mt_run_job(const char *name, size_t length)
{
    return length ? mt_hash_bytes(MT_HASH_BEGIN, name, length) | 1 : 0;
}

static inline int mt_run_same(const struct mt_run_id *a, const struct mt_run_id *b)
{
    if (a->job || b->job)
        return a->job == b->job;
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
