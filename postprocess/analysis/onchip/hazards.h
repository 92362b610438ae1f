/* Hazards of shared memory and, on request, of global memory: accesses by two threads of a CTA to the same
 * bytes, at least one a write (in global memory a plain one), not both atomics, that no barrier orders. Fed
 * with runs in the order of the trace, including barriers, from a source with MT_SOURCE_SPACES.
 *
 * Barriers create order (vector clocks of threads, hazards.c). A thread that continues after a barrier is
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
#ifndef MT_ANALYSIS_HAZARDS_H
#define MT_ANALYSIS_HAZARDS_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/pairmap.h"
#include "memtrace/device.h"

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
    const uint8_t *strong; /* flags of strong sites of the next launch, by site id */
    size_t nstrong;
    const struct mt_pairmap *lines; /* (site, input) to the first site at its line, for the next launch; NULL:
                                     * words are not counted */
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

/* Begins a launch: the CTAs of the previous one have ended. */
void mt_hazards_launch(struct mt_hazards *h, uint32_t launch, uint32_t input, const char *kernel);
/* Returns 0, or -1 without memory. */
int mt_hazards_runs(struct mt_hazards *h, const struct mt_access_run *runs, size_t n);
void mt_hazards_free(struct mt_hazards *h);
#endif
