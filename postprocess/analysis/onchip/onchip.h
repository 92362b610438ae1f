/* Shared and local memory of launches, from a source with MT_SOURCE_SPACES: bank conflicts and hazards, and
 * the result rows made from them. Functions that return int return 0, or -1 without memory. */
#ifndef MT_ANALYSIS_ONCHIP_H
#define MT_ANALYSIS_ONCHIP_H

#include "analysis/base/pairmap.h"
#include "memtrace/device.h"
#include "analysis/base/runs.h"
#include <stddef.h>
#include <stdint.h>

/* Hazards of shared memory and, on request, of global memory: accesses by two threads of a CTA to the same
 * bytes, at least one a write (in global memory a plain one), not both atomics, that no barrier orders. Fed
 * with runs in the order of the trace, including barriers, from a source with MT_SOURCE_SPACES.
 *
 * Barriers create order (vector clocks of threads). A thread that continues after a barrier is
 * ordered after all threads that had arrived by then; at an mbarrier, those of the completed phase. Lanes of
 * one warp are ordered by barriers, by __syncwarp, and within an instruction; by nothing else. An
 * asynchronous copy is ordered after everything that its thread knows when it issues the copy, and before
 * nothing, not even its own thread, until it is waited for.
 *
 * With `words` atomics and strong accesses create order as well: everything a thread does before it updates a
 * word (atomic, strong store) precedes everything another thread does after a later atomic or strong load of
 * that word; the necessary fence is assumed. Two strong accesses make no hazard. Beyond MT_HAZARD_WORDS words
 * the oldest ones share one clock. Accesses of a word are kept until a later one of their type, or a plain
 * store, is ordered after them, so every racing word has a hazard. Not checked, but counted: copies with
 * unknown completion, memory of other CTAs (clusters), unknown warps, global memory of a CTA that accesses
 * too much. */

enum mt_hazard_kind { MT_HAZARD_RAW, MT_HAZARD_WAR, MT_HAZARD_WAW }; /* named by the second access */
extern const char *const mt_hazard_words[];                          /* "RAW" … */

/* two warps; two lanes of a warp; a thread and its own copy */
enum mt_hazard_between { MT_HAZARD_IN_CTA, MT_HAZARD_IN_WARP, MT_HAZARD_THREAD };

extern const char *const mt_hazard_between_words[]; /* "warps" … */

struct mt_hazard {
    /* key */
    const char *kernel; /* name owned by the caller, kept */
    uint32_t site[2];
    uint32_t type[2]; /* load, store, atomic; in trace order */
    uint8_t kind;     /* enum mt_hazard_kind */
    uint8_t between;  /* enum mt_hazard_between */
    uint8_t space;    /* enum mt_access_space */
    /* sums, and the first occurrence */
    uint32_t input;
    uint64_t count; /* words of 4 bytes, or bytes if smaller accesses share a word */
    uint64_t words; /* words per launch and CTA that had no earlier hazard at these two lines, in any order */
    uint64_t launches;  /* number of launches with the hazard */
    uint32_t launch;    /* number of the first launch */
    uint64_t cta;       /* CTA, as in word 2 of a raw record */
    uint32_t thread[2]; /* thread numbers in the CTA */
    uint64_t address;   /* address in its space */
    size_t cell;        /* newest of its cells */
};

/* Part of a hazard that belongs to one launch. */
struct mt_hazard_share {
    uint64_t count;
    uint32_t hazard, launch; /* hazard: index of the hazard in the list */
};

/* Zero-initialised is empty. */
struct mt_hazards {
    struct mt_hazard *list;        /* hazards in order of appearance */
    struct mt_hazard_share *cells; /* shares in order of launches */
    size_t count, ncells;
    uint64_t unjudged; /* number of accesses that were not checked */
    uint64_t loose; /* number of threads at unknown barriers, which are assumed to order more than they may */
    uint64_t parted; /* number of CTAs dropped for lack of room before their launch ended */
    /* state */
    int single; /* 1: the current launch is `ungrouped`; stores within a warp at one site are unchecked */
    int words;  /* 1: atomics and strong accesses order threads as well; set before the first launch */
    int global; /* 1: the next launch is checked in global memory as well */
    const struct mt_site_table
        *sites; /* sites of the next launch, for lines and strong accesses; NULL: none */
    size_t room, cell_room, bytes;
    struct mt_pairmap places;      /* indices of the list: by sites; by kernel and the rest of the key */
    struct mt_pairmap pairs, seen; /* numbers of pairs of lines; words of the launch, by pair and CTA */
    uint64_t npairs, nseen;
    uint32_t opened; /* number of CTAs of the launch */
    const char *kernel;
    uint32_t launch, input;
    struct mt_hazard_cta *newest, *oldest, *idle, *table; /* open CTAs by last use; free ones; by number */
    struct mt_hazard_cta *current;
};

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
