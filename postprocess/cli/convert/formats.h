/* Accesses in the formats of simulators. docs/simulators.md has the mappings and their sources. */
#ifndef MT_CONVERT_FORMATS_H
#define MT_CONVERT_FORMATS_H

#include "convert.h"
#include "analysis/base/pairmap.h"

enum mt_sim { MT_SIM_DRMEMTRACE, MT_SIM_CHAMPSIM, MT_SIM_RAMULATOR, MT_SIM_GEM5, MT_SIMS };

/* An access to write. */
struct mt_sim_access {
    uint64_t thread, ip, address, time;
    uint64_t instruction; /* number shared by the operands of one instruction; the site distinguishes them */
    uint32_t site, size;
    int reads, writes;
};

struct mt_sim_writer;

/* Functions of a format. Each returns 0, or -1 without memory. Write errors show in the stream. */
struct mt_sim_format {
    int (*begin)(struct mt_sim_writer *w);
    int (*access)(struct mt_sim_writer *w, const struct mt_sim_access *a);
    int (*end)(struct mt_sim_writer *w);
};

enum {
    MT_SIM_BLOCK = 64,
    MT_SIM_LONGEST = 1 << 18
}; /* size of a cache line; longest access that is not omitted */

struct mt_sim_writer {
    FILE *f;
    const struct mt_companion *companion; /* companion of a host trace; NULL for kernels */
    uint64_t count;                       /* number of accesses written */
    uint64_t thread;                      /* thread of the last access */
    struct mt_pairmap met;                /* threads -> index in `threads`, + 1 */
    uint64_t *threads;                    /* numbers of the threads in the format */
    size_t nthreads, thread_room;
    struct mt_sim_access last; /* champsim: latest operand of the current instruction */
    uint64_t load[4], store[2];
    uint32_t sites[6];
    unsigned nload, nstore, under_way;
};

/* Checks that only one thread has accesses, since ChampSim accepts one. Returns 0, or an exit code after a
 * message. */
int mt_convert_sim_one_thread(const struct mt_host_reader *r);

/* Writes a host trace. `thread`: writes only this one; UINT64_MAX: all. Returns 0, or an exit code after a
 * message. */
int mt_convert_sim_host(struct mt_host_reader *r, FILE *f, enum mt_sim to, uint64_t thread);

/* Writes launches of kernels, from raw or compact traces. */
int mt_convert_sim_kernels(struct mt_inputs *in, const struct mt_convert_choice *want, FILE *f,
                           enum mt_sim to);

#endif
