/* Bank conflicts of shared memory, and volumes of shared and local memory, per launch and site. Fed with runs
 * of warps as a source with MT_SOURCE_SPACES hands them out; what is not of such memory is passed over.
 *
 * Shared memory has 32 banks of 4 bytes. A warp's access of up to 4 bytes a lane is served at once, of 8
 * bytes by half-warps, of 16 bytes by quarter-warps; each of these steps takes as many wavefronts as the
 * fullest bank has different words of 4 bytes in it. Lanes that load or store the same word share it; atomics
 * do not. Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later. */
#ifndef MT_ANALYSIS_BANKS_H
#define MT_ANALYSIS_BANKS_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/pairmap.h"
#include "memtrace/device.h"

enum { MT_BANKS = 32 };

struct mt_bank_cell {
    /* the key */
    uint32_t launch; /* as given to mt_banks_launch */
    uint32_t site;
    uint32_t type;  /* of record.h, with its space */
    uint32_t input; /* of the launch; no part of the key */
    /* sums */
    uint64_t requests;   /* accesses of a warp */
    uint64_t accesses;   /* of threads */
    uint64_t bytes;      /* of these */
    uint64_t wavefronts; /* shared memory: that they take, */
    uint64_t least;      /* and would take without conflicts */
    uint32_t worst;      /* ways of the worst step; 1: no conflict */
};

struct mt_banks {
    struct mt_bank_cell *cells; /* in order of appearance */
    size_t count;
    uint64_t blocks; /* copies of more than 32 bytes a lane, and accesses of no known lanes: not judged */
    /* state */
    size_t room, last;
    struct mt_pairmap places; /* launch and site, type -> cell */
    uint32_t launch, input;
    struct mt_bank_known *known;
};

/* 0, or -1 without memory; so the others. */
int mt_banks_init(struct mt_banks *b);
void mt_banks_launch(struct mt_banks *b, uint32_t launch, uint32_t input);
int mt_banks_runs(struct mt_banks *b, const struct mt_access_run *runs, size_t n);
void mt_banks_free(struct mt_banks *b);
#endif
