/* Shared and local memory of launches, from a source with MT_SOURCE_SPACES: bank conflicts and hazards, and
 * the result rows made from them. Functions that return int return 0, or -1 without memory. */
#ifndef MT_ANALYSIS_ONCHIP_H
#define MT_ANALYSIS_ONCHIP_H

#include "analysis/base/pairmap.h"
#include "memtrace/device.h"
#include "analysis/base/runs.h"
#include "hazards.h"
#include <stddef.h>
#include <stdint.h>

/* Bank conflicts of shared memory, and volumes of shared and local memory, per launch and site. Fed with runs
 * of warps from a source with MT_SOURCE_SPACES; runs of other memory are skipped.
 *
 * Shared memory has 32 banks of 4 bytes. An access of up to 4 bytes per lane is served for the whole warp at
 * once, of 8 bytes by half-warps, of 16 bytes by quarter-warps. The number of wavefronts of each of these
 * steps is the maximum, over all banks, of the number of different 4-byte words in it. Lanes that load or
 * store the same word share it; atomics do not. Source: CUDA C++ Programming Guide, "Shared Memory" of
 * compute capability 5.x and later. */

enum { MT_BANKS = 32 };

struct mt_bank_cell {
    /* key */
    uint32_t launch; /* number of the launch */
    uint32_t site;
    uint32_t type;  /* type of record.h, with its space */
    uint32_t input; /* input of the launch; not part of the key */
    /* sums */
    uint64_t requests;   /* accesses of warps; 0: not grouped */
    uint64_t accesses;   /* accesses of threads */
    uint64_t bytes;      /* bytes of the accesses of threads */
    uint64_t wavefronts; /* shared memory: wavefronts taken */
    uint64_t least;      /* wavefronts without bank conflicts */
    uint32_t worst;      /* maximum number of ways in a step; 1: no bank conflict */
};

struct mt_banks {
    struct mt_bank_cell *cells; /* cells in order of appearance */
    size_t count;
    uint64_t ungrouped; /* accesses to shared memory of launches that ran a thread at a time */
    uint64_t blocks;    /* accesses not analysed: more than 32 bytes per lane, or unknown lanes */
    /* state */
    size_t room, last;
    struct mt_pairmap places; /* map from (launch and site, type) to cell */
    uint32_t launch, input;
    int single; /* 1: the launch is `ungrouped` */
    struct mt_bank_known *known;
};

/* Launch that was analysed. */
struct mt_onchip_launch {
    uint64_t superstep;
    const char *kernel;                  /* name owned by the source */
    const struct mt_launch_event *event; /* the launch's line; NULL: no companion file has it */
};

/* Sum over all launches for one line, column, variable, kernel and type. */
struct mt_onchip_place {
    struct mt_bank_cell sum; /* launch, site and input: of the first launch */
    const char *kernel;
    const struct mt_site_event *site; /* site of the place; NULL: not known */
    uint64_t launches;
    size_t first, end; /* its cells, in order of launches */
};

/* Hazards of copies of the same code (unrolled loops), merged. */
struct mt_onchip_hazard {
    struct mt_hazard h; /* sums; the other fields are from one of the merged hazards */
    const struct mt_site_event *side[2];
    size_t first, end; /* its cells, in order of launches */
};

struct mt_onchip_rows {
    struct mt_onchip_place *places; /* by kernel, place, type */
    size_t nplaces;
    struct mt_bank_cell *cells; /* cells of the places */
    struct mt_onchip_hazard *hazards;
    size_t nhazards;
    struct mt_hazard_share *hazard_cells; /* shares of the rows; `hazard` is an index of `hazards` */
};

struct mt_onchip {
    struct mt_banks banks;
    struct mt_hazards hazards;
    struct mt_onchip_launch *launches; /* by number in cells and hazards */
    size_t nlaunches, launch_room;
    uint64_t untraced; /* accesses of these launches without a record, in any space */
    const struct mt_source *source;
    struct mt_onchip_rows rows; /* set when finished; strings and sites are owned by the source */
};

extern const struct mt_analysis mt_onchip_analysis;

/* Adds the sums of a cell, not its key. */
void mt_onchip_add(struct mt_bank_cell *sum, const struct mt_bank_cell *c);

/* Returns the site's line in the companion of that input, or NULL if unknown. */
const struct mt_site_event *mt_onchip_site(const struct mt_source *s, uint32_t input, uint32_t site);

/* Returns the short name of its variable ("tile" for "transpose(float*, int)::tile", as the kernel is shown
 * beside it), or "". */
const char *mt_onchip_variable(const struct mt_site_event *site);

#endif
