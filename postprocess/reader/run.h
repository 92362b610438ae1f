/* Identity of a run: which traces belong together, and which of two runs is newer. */
#ifndef MT_READER_RUN_H
#define MT_READER_RUN_H
#include "memtrace/hash.h"

struct mt_run_id {
    uint64_t pid, start_ns;
    uint64_t wall_ms; /* start time; 0: not known; start_ns restarts when the machine does */
    uint64_t job;     /* hash of the job's name; 0: no job. All processes of a job are one run */
    int host;         /* 1: trace of host accesses; it starts with its engine, not with the CUDA runtime */
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

/* Returns 1 if `a` is newer. Traces of kernels come before traces of host accesses; otherwise the later start
 * decides. Times of files are not used: a copy of an old trace has a new one. */
static inline int mt_run_newer(const struct mt_run_id *a, const struct mt_run_id *b)
{
    if (a->host != b->host)
        return b->host;
    if (a->wall_ms && b->wall_ms && a->wall_ms != b->wall_ms)
        return a->wall_ms > b->wall_ms;
    return a->start_ns != b->start_ns ? a->start_ns > b->start_ns : a->pid > b->pid;
}
#endif
