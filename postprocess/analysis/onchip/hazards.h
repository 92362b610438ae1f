/* Hazards: two accesses of a launch to the same bytes, at least one a write, not both strong, that nothing
 * orders (clocks.h). Of threads of a CTA in shared memory, ordered by barriers; on request (`words`) also in
 * global memory, of any threads of the launch, and ordered by atomics and strong accesses as well. Fed with
 * runs in the order of the trace, including barriers, from a source with MT_SOURCE_SPACES.
 *
 * Strong accesses are no hazard if the scope of each includes the other. Only with `strict` a plain load and
 * an atomic of global memory are a hazard, and fences are required as PTX does (clocks.h). Accesses of a word
 * are kept until a later one of their type, or a plain store, is ordered after them, so every racing word has
 * a hazard; of accesses of CTAs that nothing orders the first and the last MT_HAZARD_KEPT are kept. Not
 * checked, but counted: copies with unknown completion, memory of other CTAs (clusters), unknown warps, CTAs
 * whose clocks were dropped for lack of room. */
#ifndef MT_ANALYSIS_HAZARDS_H
#define MT_ANALYSIS_HAZARDS_H

#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "clocks.h"
#include "suspects.h"

#include <stddef.h>
#include <stdint.h>

enum mt_hazard_kind { MT_HAZARD_RAW, MT_HAZARD_WAR, MT_HAZARD_WAW }; /* named by the second access */
extern const char *const mt_hazard_words[];                          /* "RAW" … */

/* two warps; two lanes of a warp; a thread and its own copy; two CTAs */
enum mt_hazard_between { MT_HAZARD_IN_CTA, MT_HAZARD_IN_WARP, MT_HAZARD_THREAD, MT_HAZARD_CTAS };

extern const char *const mt_hazard_between_words[]; /* "warps" … */

struct mt_hazard {
    /* key */
    const char *kernel; /* name owned by the caller, kept */
    uint32_t site[2];
    uint32_t type[2]; /* load, store, atomic; in trace order */
    uint8_t kind;     /* enum mt_hazard_kind */
    uint8_t between;  /* enum mt_hazard_between */
    uint8_t space;    /* enum mt_access_space */
    uint8_t known;    /* 1: the threads are known */
    uint8_t narrow;   /* 1: both are strong, and one has a scope without the other */
    /* sums, and the first occurrence */
    uint32_t input;
    uint64_t count; /* words of 4 bytes, or bytes if smaller accesses share a word */
    uint64_t words; /* words per launch and CTA that had no earlier hazard at these two lines, in any order */
    uint64_t launches;                   /* number of launches with the hazard */
    uint32_t launch;                     /* number of the first launch */
    const struct mt_launch_event *event; /* its line, or NULL */
    uint64_t cta[2];                     /* CTAs, as in word 2 of a raw record; the same for threads of one */
    uint32_t thread[2];                  /* thread numbers in the CTA */
    uint64_t address;                    /* address in its space */
    size_t cell;                         /* newest of its cells */
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
    uint64_t parted;   /* number of CTAs dropped for lack of room before their launch ended */
    int words;         /* 1: as above; set before the first launch, as are the next three */
    int strict;        /* 1: as above */
    int fenced;        /* 1: a fence is assumed before each release; also set before */
    size_t most_views; /* bytes of views after which those in use are moved together; 0: 256 MiB */
    const struct mt_suspects *suspects; /* the only words to check; NULL: all */
    /* state */
    int single; /* 1: the current launch is `ungrouped`; stores within a warp at one site are unchecked */
    int alone;  /* 1: there are no barriers in the launch's records: a CTA counts as one thread */
    const struct mt_site_table *sites; /* of the launch, for lines and strong accesses; NULL: none */
    const struct mt_launch_event *event;
    struct mt_hazard_cells *global;
    struct mt_views views;
    size_t next_views; /* bytes of views at which they are moved next */
    struct mt_clock_far far;
    struct mt_clock_cluster *clusters;
    uint64_t *ctas; /* by number */
    size_t ctas_room;
    struct mt_pairmap numbers; /* numbers of CTAs, by CTA */
    uint64_t now;              /* number of runs of the launch so far */
    struct mt_suspects_launch suspected;
    uint32_t launches; /* of the row: number of launches so far */
    int skips;         /* of the row: 1: nothing in the launch is suspected */
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

enum { MT_HAZARD_KEPT = 32 };

void mt_hazards_launch(struct mt_hazards *h, uint32_t number, const struct mt_run_launch *l);
/* Returns 0, or -1 without memory. */
int mt_hazards_runs(struct mt_hazards *h, const struct mt_access_run *runs, size_t n);
void mt_hazards_free(struct mt_hazards *h);

/* Returns 1 if the list has this pair of sides, between the same. */
int mt_hazards_has(const struct mt_hazards *h, const struct mt_hazard *x);

/* The same as a row, of the launches that suspects.h has found. */
extern const struct mt_analysis mt_hazards_analysis;

#endif
