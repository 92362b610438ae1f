/* Shared and local memory of the launches of a source that has MT_SOURCE_SPACES: bank conflicts and hazards,
 * and from them the rows that people read. Functions that return int: 0, or -1 without memory. */
#ifndef MT_ANALYSIS_ONCHIP_H
#define MT_ANALYSIS_ONCHIP_H

#include "analysis/base/pairmap.h"
#include "memtrace/device.h"
#include "hazards.h"
#include "analysis/base/runs.h"
#include <stddef.h>
#include <stdint.h>

/* Bank conflicts of shared memory, and volumes of shared and local memory, per launch and site. Fed with runs
 * of warps as a source with MT_SOURCE_SPACES hands them out; what is not of such memory is passed over.
 *
 * Shared memory has 32 banks of 4 bytes. A warp's access of up to 4 bytes a lane is served at once, of 8
 * bytes by half-warps, of 16 bytes by quarter-warps; each of these steps takes as many wavefronts as the
 * fullest bank has different words of 4 bytes in it. Lanes that load or store the same word share it; atomics
 * do not. Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later. */

enum { MT_BANKS = 32 };

struct mt_bank_cell {
    /* the key */
    uint32_t launch; /* as given to mt_banks_launch */
    uint32_t site;
    uint32_t type;  /* of record.h, with its space */
    uint32_t input; /* of the launch; no part of the key */
    /* sums */
    uint64_t requests;   /* accesses of a warp; 0: not grouped */
    uint64_t accesses;   /* of threads */
    uint64_t bytes;      /* of these */
    uint64_t wavefronts; /* shared memory: that they take, */
    uint64_t least;      /* and would take without conflicts */
    uint32_t worst;      /* ways of the worst step; 1: no conflict */
};

struct mt_banks {
    struct mt_bank_cell *cells; /* in order of appearance */
    size_t count;
    uint64_t ungrouped; /* accesses to shared memory of launches that ran a thread at a time: no requests */
    uint64_t blocks;    /* copies of more than 32 bytes a lane, and accesses of no known lanes: not judged */
    /* state */
    size_t room, last;
    struct mt_pairmap places; /* launch and site, type -> cell */
    uint32_t launch, input;
    int single; /* the launch is `ungrouped` */
    struct mt_bank_known *known;
};

/* A launch that was looked at. */
struct mt_onchip_launch {
    uint64_t superstep;
    const char *kernel;                  /* the source's */
    const struct mt_launch_event *event; /* NULL: no companion has it */
};

/* What is at a line with one column and variable, in one kernel, of one type: of all launches. */
struct mt_onchip_place {
    struct mt_bank_cell sum; /* launch, site and input: of the first one */
    const char *kernel;
    const struct mt_site_event *site; /* NULL: not known */
    uint64_t launches;
    size_t first, end; /* its cells, in the order of launches */
};

/* Hazards of copies of the same code (unrolled loops), as one. */
struct mt_onchip_hazard {
    struct mt_hazard h; /* sums; the rest: of one of them */
    const struct mt_site_event *side[2];
    size_t first, end; /* its cells, in the order of launches */
};

struct mt_onchip_rows {
    struct mt_onchip_place *places; /* by kernel, place, type */
    size_t nplaces;
    struct mt_bank_cell *cells; /* of the places */
    struct mt_onchip_hazard *hazards;
    size_t nhazards;
    struct mt_hazard_share *hazard_cells; /* their `hazard` is one of these rows */
};

struct mt_onchip {
    struct mt_banks banks;
    struct mt_hazards hazards;
    struct mt_onchip_launch *launches; /* by number in cells and hazards */
    size_t nlaunches, launch_room;
    uint64_t untraced; /* accesses of these launches without a record, of any memory */
    const struct mt_source *source;
    struct mt_onchip_rows rows; /* when it is finished; strings and sites are the source's */
};

extern const struct mt_analysis mt_onchip_analysis;

/* Adds the figures of a cell; not its key. */
void mt_onchip_add(struct mt_bank_cell *sum, const struct mt_bank_cell *c);

/* The site's line in the companion of that input; NULL: not known. */
const struct mt_site_event *mt_onchip_site(const struct mt_source *s, uint32_t input, uint32_t site);

/* Its variable in short ("transpose(float*, int)::tile" is "tile": the kernel stands beside it), or "". */
const char *mt_onchip_variable(const struct mt_site_event *site);

#endif
