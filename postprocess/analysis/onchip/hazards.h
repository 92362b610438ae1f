/* Hazards of shared memory, and of global memory where it is asked for: accesses of two threads of a CTA to
 * the same bytes, at least one of them a write (in global memory a plain one), not both atomics, that no
 * barrier orders. Fed with runs in the order of the trace, barriers among them, as a source with
 * MT_SOURCE_SPACES hands them out.
 *
 * Order is what barriers make (vector clocks of threads, hazards.c). A thread that goes on after a
 * barrier is ordered after all that had arrived there by then; of an mbarrier, in the phase that is over.
 * Lanes of one warp are ordered by barriers, too, by __syncwarp, and within an instruction; by nothing else.
 * An asynchronous copy is ordered after what its thread knows of when it is issued, and before nothing, its
 * own thread included, until it is waited for. Two atomics make no hazard.
 *
 * With `words` what a thread does before it updates a word (an atomic, a strong store) is ordered before what
 * comes after an atomic or a strong load of the same word in the thread that does it later; that the program
 * has a fence there is taken for granted. Two strong accesses make no hazard. Of more than MT_HAZARD_WORDS
 * words the oldest ones count as one. A word's accesses are remembered
 * until a later one of their type, or a plain store, is ordered after them, so that a word at which two
 * threads race has a hazard. Not judged, and counted: copies of which is not known what ends them, other
 * CTAs' memory (clusters), warps that are not known, global memory of which a CTA touches too much. */
#ifndef MT_ANALYSIS_HAZARDS_H
#define MT_ANALYSIS_HAZARDS_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/pairmap.h"
#include "memtrace/device.h"

enum mt_hazard_kind { MT_HAZARD_RAW, MT_HAZARD_WAR, MT_HAZARD_WAW }; /* of the second access */
extern const char *const mt_hazard_words[];                          /* "RAW" … */

/* Two warps; two lanes of a warp; one thread and its own copy. */
enum mt_hazard_between { MT_HAZARD_IN_CTA, MT_HAZARD_IN_WARP, MT_HAZARD_THREAD };
extern const char *const mt_hazard_between_words[]; /* "warps" … */

struct mt_hazard {
    /* the key */
    const char *kernel; /* the caller's, kept */
    uint32_t site[2];
    uint32_t type[2]; /* load, store, atomic; in the order of the trace */
    uint8_t kind;     /* enum mt_hazard_kind */
    uint8_t between;  /* enum mt_hazard_between */
    uint8_t space;    /* enum mt_access_space */
    /* sums, and the first one */
    uint32_t input;
    uint64_t count; /* words of 4 bytes, or bytes where a word is shared by smaller accesses */
    uint64_t words; /* words of a launch and CTA that no hazard before had at these two lines, in any order */
    uint64_t launches;  /* launches with it */
    uint32_t launch;    /* the first one's */
    uint64_t cta;       /* as word 2 of a raw record */
    uint32_t thread[2]; /* numbers in the CTA */
    uint64_t address;   /* in that memory */
    size_t cell;        /* the newest of its cells */
};

/* What of a hazard is of one launch. */
struct mt_hazard_share {
    uint64_t count;
    uint32_t hazard, launch; /* the first: in the list */
};

/* Zero-initialised is empty. */
struct mt_hazards {
    struct mt_hazard *list;        /* in order of appearance */
    struct mt_hazard_share *cells; /* in the order of launches */
    size_t count, ncells;
    uint64_t unjudged; /* accesses */
    uint64_t loose;    /* threads at barriers that order more than they should: which one is not known */
    uint64_t parted;   /* CTAs that were forgotten for want of room before their launch ended */
    /* state */
    int single; /* of the launch that has begun: it is `ungrouped`, and stores of one site by lanes of a warp
                   are not judged */
    int words;  /* set before the first launch: threads are ordered by atomics and strong accesses, too */
    int global; /* of the launch that is next to begin: global memory is looked at, too */
    const uint8_t *strong; /* and of it: which sites are strong, by id */
    size_t nstrong;
    const struct mt_pairmap
        *lines; /* and this: (site, input) -> the first site at that line; NULL: no words */
    size_t room, cell_room, bytes;
    struct mt_pairmap places;      /* of the list: by sites; by kernel and the rest */
    struct mt_pairmap pairs, seen; /* of lines, by number; of the launch: words, by pair and CTA */
    uint64_t npairs, nseen;
    uint32_t opened; /* CTAs of the launch */
    const char *kernel;
    uint32_t launch, input;
    struct mt_hazard_cta *newest, *oldest, *idle, *table; /* open CTAs, by last use; free ones; by number */
    struct mt_hazard_cta *current;
};

/* A launch begins: the CTAs of the one before have ended. */
void mt_hazards_launch(struct mt_hazards *h, uint32_t launch, uint32_t input, const char *kernel);
/* 0, or -1 without memory. */
int mt_hazards_runs(struct mt_hazards *h, const struct mt_access_run *runs, size_t n);
void mt_hazards_free(struct mt_hazards *h);
#endif
