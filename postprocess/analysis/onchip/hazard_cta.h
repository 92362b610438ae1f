/* What is known of one CTA while its accesses to shared memory are looked at (hazards.h). */
#ifndef MT_ANALYSIS_HAZARD_CTA_H
#define MT_ANALYSIS_HAZARD_CTA_H
#include <stdint.h>
#include <uthash.h>
#include "hazard_order.h"
#include "hazards.h"
#include "memtrace/record.h"

enum {
    MT_HAZARD_MOST_SHARED = 1 << 20, /* bytes: more than any GPU has */
    MT_HAZARD_MOST_FAR = 1 << 20,    /* words of global memory that are looked at */
    MT_HAZARD_FAR = 64               /* … of a page */
};

/* How an access is done: as its type says, or as a strong one (PTX's memory model). Two that are strong make
 * no hazard; an update is a strong store or an atomic. */
enum {
    MT_HAZARD_LOAD = MT_LOAD,
    MT_HAZARD_STORE = MT_STORE,
    MT_HAZARD_UPDATE = MT_ATOMIC,
    MT_HAZARD_STRONG_LOAD,
    MT_HAZARD_WAYS
};

/* What these lanes of these warps did, or had copies do, to a word at their time `time` and one place, and
 * what comes next in its list. */
struct mt_hazard_past {
    uint32_t time, site, lanes, warps;
    uint32_t by;   /* where that time is: 0, MT_HAZARD_BY_…, or an mbarrier's */
    uint32_t next; /* its number; 0: none */
};
/* The accesses of a word, or of a byte, that may be unordered with one that is yet to come: those of each
 * way that no later one of this way is ordered after, since the last plain store. */
struct mt_hazard_cell {
    uint32_t past[MT_HAZARD_WAYS]; /* the newest one's number, or 0 */
    uint32_t run;                  /* the instruction of the stores */
    uint32_t bytes; /* of a word that smaller accesses share: where its 4 cells are; 0: it has none */
};

struct mt_hazard_cta {
    uint32_t number; /* of the launch's */
    uint64_t cta;
    struct mt_hazard_order order;
    uint32_t run;                               /* instructions so far */
    struct mt_hazard_cell *words, *bytes, *far; /* of shared memory, of parts of words, of global memory */
    size_t nwords, words_room, nbytes, bytes_room, nfar, far_room;
    struct mt_pairmap pages;     /* of global memory: address / (4 * MT_HAZARD_FAR) -> its first cell */
    struct mt_hazard_past *past; /* by number; numbers begin at 1 */
    size_t npast, past_room;
    uint32_t spare; /* numbers that are free, as a list */
    UT_hash_handle hh;
    struct mt_hazard_cta *newer, *older;
};

struct mt_hazard_access {
    uint64_t address;
    uint32_t warp, lane, size, way, site, space;
    uint32_t by, time;                   /* as above */
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
