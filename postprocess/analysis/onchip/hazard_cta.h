/* What is known of one CTA while its accesses to shared memory are looked at (hazards.h). */
#ifndef MT_ANALYSIS_HAZARD_CTA_H
#define MT_ANALYSIS_HAZARD_CTA_H
#include <stdint.h>
#include <uthash.h>
#include "hazard_order.h"
#include "hazards.h"

enum { MT_HAZARD_MOST_SHARED = 1 << 20 }; /* bytes: more than any GPU has */

#define MT_HAZARD_NOBODY 0xffffu

struct mt_hazard_write {
    uint32_t time, site, run;
    uint16_t thread; /* warp * 32 + lane; or MT_HAZARD_NOBODY */
};
/* The newest loads of a warp, all at one time. */
struct mt_hazard_read {
    uint32_t time, site, lanes; /* lanes: 0: nobody */
    uint32_t warp;
};
/* The last accesses of a word, or of a byte. */
struct mt_hazard_cell {
    struct mt_hazard_write store, atomic;
    struct mt_hazard_read
        read[2]; /* since the last store: those that came last, and those before them without order between */
    uint32_t bytes; /* of a word that smaller accesses share: where its 4 cells are; 0: it has none */
};

struct mt_hazard_cta {
    uint64_t cta;
    struct mt_hazard_order order;
    uint32_t run; /* instructions so far */
    struct mt_hazard_cell *words, *bytes;
    size_t nwords, words_room, nbytes, bytes_room;
    UT_hash_handle hh;
    struct mt_hazard_cta *newer, *older;
};

struct mt_hazard_access {
    uint64_t address;
    uint32_t warp, lane, size, type, site;
    const struct mt_hazard_group *group; /* of the lane */
    /* 0, or -1 without memory; the fields kernel, launch, input and cta are not set. */
    int (*found)(void *arg, const struct mt_hazard *h);
    void *arg;
};

void mt_hazard_cta_reset(struct mt_hazard_cta *c);
void mt_hazard_cta_free(struct mt_hazard_cta *c);
/* One thread's access. 0, or -1 without memory. */
int mt_hazard_touch(struct mt_hazard_cta *c, const struct mt_hazard_access *a);
/* Bytes that its cells take. */
size_t mt_hazard_cta_bytes(const struct mt_hazard_cta *c);
#endif
