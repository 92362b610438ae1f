/* Accesses as simulators take them: docs/simulators.md has the mappings and their sources. */
#ifndef MT_CONVERT_FORMATS_H
#define MT_CONVERT_FORMATS_H

#include "convert.h"
#include "analysis/base/pairmap.h"

enum mt_sim { MT_SIM_DRMEMTRACE, MT_SIM_CHAMPSIM, MT_SIM_RAMULATOR, MT_SIM_GEM5, MT_SIMS };

/* An access on its way to a simulator. */
struct mt_sim_access {
    uint64_t thread, ip, address, time;
    uint64_t instruction; /* equal for the operands of one instruction; its site tells them apart */
    uint32_t site, size;
    int reads, writes;
};

struct mt_sim_writer;

/* What a format does with them; each returns 0, or -1 without memory. Write errors are the stream's. */
struct mt_sim_format {
    int (*begin)(struct mt_sim_writer *w);
    int (*access)(struct mt_sim_writer *w, const struct mt_sim_access *a);
    int (*end)(struct mt_sim_writer *w);
};

enum { MT_SIM_BLOCK = 64, MT_SIM_LONGEST = 1 << 18 }; /* a line of a cache; longer accesses are left out */

struct mt_sim_writer {
    FILE *f;
    const struct mt_companion *companion; /* of a host trace; NULL: kernels */
    uint64_t count;                       /* accesses written */
    uint64_t thread;                      /* of the last one */
    struct mt_pairmap met;                /* threads, with their place in the list, + 1 */
    uint64_t *threads;                    /* that list, as the format calls them */
    size_t nthreads, thread_room;
    struct mt_sim_access last; /* champsim: the instruction under way has these operands */
    uint64_t load[4], store[2];
    uint32_t sites[6];
    unsigned nload, nstore, under_way;
};

/* Accesses of several threads, of which ChampSim takes one: 0, or an exit code after saying so. */
int mt_convert_sim_one_thread(const struct mt_host_reader *r);

/* A host trace. `thread`: this one alone, or UINT64_MAX. 0, or an exit code after saying why. */
int mt_convert_sim_host(struct mt_host_reader *r, FILE *f, enum mt_sim to, uint64_t thread);

/* Launches of kernels, raw or in containers. */
int mt_convert_sim_kernels(struct mt_inputs *in, const struct mt_convert_choice *want, FILE *f,
                           enum mt_sim to);

#endif
