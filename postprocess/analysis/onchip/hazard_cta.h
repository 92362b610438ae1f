/* What is known of one CTA while its accesses to shared memory are looked at (hazards.h). */
#ifndef MT_ANALYSIS_HAZARD_CTA_H
#define MT_ANALYSIS_HAZARD_CTA_H
#include <stdint.h>
#include <uthash.h>
#include "hazard_order.h"
#include "hazards.h"

enum { MT_HAZARD_MOST_SHARED = 1 << 20 }; /* bytes: more than any GPU has */

/* What these lanes of these warps did, or had copies do, to a word at their time `time` and one place, and
 * what comes next in its list. */
struct mt_hazard_past {
    uint32_t time, site, lanes, warps;
    uint32_t by;   /* where that time is: 0, MT_HAZARD_BY_…, or an mbarrier's */
    uint32_t next; /* its number; 0: none */
};
/* The accesses of a word, or of a byte, that may be unordered with one that is yet to come: those of each
 * type that no later one of this type is ordered after, since the last plain store. */
struct mt_hazard_cell {
    uint32_t past[3]; /* MT_LOAD, MT_STORE, MT_ATOMIC: the newest one's number, or 0 */
    uint32_t run;     /* the instruction of the stores */
    uint32_t bytes;   /* of a word that smaller accesses share: where its 4 cells are; 0: it has none */
};

struct mt_hazard_cta {
    uint64_t cta;
    struct mt_hazard_order order;
    uint32_t run; /* instructions so far */
    struct mt_hazard_cell *words, *bytes;
    size_t nwords, words_room, nbytes, bytes_room;
    struct mt_hazard_past *past; /* by number; numbers begin at 1 */
    size_t npast, past_room;
    uint32_t spare; /* numbers that are free, as a list */
    UT_hash_handle hh;
    struct mt_hazard_cta *newer, *older;
};

struct mt_hazard_access {
    uint64_t address;
    uint32_t warp, lane, size, type, site;
    uint32_t by, time;                   /* as above */
    int fresh;                           /* reads of what nobody wrote are told, too */
    const struct mt_hazard_group *group; /* of the lane */
    /* 0, or -1 without memory; the fields kernel, launch, input and cta are not set. */
    int (*found)(void *arg, const struct mt_hazard *h);
    void *arg;
};

void mt_hazard_cta_reset(struct mt_hazard_cta *c);
void mt_hazard_cta_free(struct mt_hazard_cta *c);
/* Which: is one thread's access unordered with one before; keep it for those to come. Of lanes that store to
 * the same bytes in one instruction all are compared before the first is kept: they make no hazard among
 * themselves. */
enum { MT_HAZARD_COMPARE = 1, MT_HAZARD_KEEP = 2 };
/* 0, or -1 without memory. */
int mt_hazard_touch(struct mt_hazard_cta *c, const struct mt_hazard_access *a, int which);
/* Bytes that its cells take. */
size_t mt_hazard_cta_bytes(const struct mt_hazard_cta *c);
#endif
