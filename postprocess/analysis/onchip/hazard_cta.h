/* What is known of one CTA while its accesses to shared memory are looked at (hazards.h). */
#ifndef MT_ANALYSIS_HAZARD_CTA_H
#define MT_ANALYSIS_HAZARD_CTA_H
#include <stdint.h>
#include <uthash.h>
#include "hazards.h"

enum {
    MT_HAZARD_WARPS = 32,
    MT_HAZARD_BARRIERS = 18,        /* 16 numbered ones, the cluster's, those whose number is not known */
    MT_HAZARD_MOST_SHARED = 1 << 20 /* bytes: more than any GPU has */
};

#define MT_HAZARD_NOBODY 0xffffu

struct mt_hazard_write {
    uint32_t clock, site, run;
    uint16_t thread; /* warp * 32 + lane; or MT_HAZARD_NOBODY */
};
/* The newest loads of a warp, of one clock of it. */
struct mt_hazard_read {
    uint32_t clock, site, lanes; /* lanes: 0: nobody */
    uint32_t warp;
};
/* The last accesses of a word, or of a byte. */
struct mt_hazard_cell {
    struct mt_hazard_write store, atomic;
    struct mt_hazard_read
        read[2];    /* since the last store: of the warp that came last, and of the one before it */
    uint32_t bytes; /* of a word that smaller accesses share: where its 4 cells are; 0: it has none */
};

struct mt_hazard_barrier {
    uint32_t clock[MT_HAZARD_WARPS]; /* of those who arrived, joined */
    uint32_t waiting;                /* warps that wait */
};

struct mt_hazard_cta {
    uint64_t cta;
    uint32_t clock[MT_HAZARD_WARPS][MT_HAZARD_WARPS];
    int8_t at[MT_HAZARD_WARPS];      /* barrier at which the warp waits; -1: none */
    uint32_t lanes[MT_HAZARD_WARPS]; /* that have arrived there */
    struct mt_hazard_barrier barrier[MT_HAZARD_BARRIERS];
    uint32_t run; /* instructions so far */
    struct mt_hazard_cell *words, *bytes;
    size_t nwords, words_room, nbytes, bytes_room;
    UT_hash_handle hh;
    struct mt_hazard_cta *newer, *older;
};

struct mt_hazard_access {
    uint64_t address;
    uint32_t warp, lane, size, type, site;
    /* 0, or -1 without memory; the fields kernel, launch, input and cta are not set. */
    int (*found)(void *arg, const struct mt_hazard *h);
    void *arg;
};

void mt_hazard_cta_reset(struct mt_hazard_cta *c);
void mt_hazard_cta_free(struct mt_hazard_cta *c);
/* These lanes of the warp arrive at a barrier; kind: enum mt_access_sync. */
void mt_hazard_sync(struct mt_hazard_cta *c, uint32_t warp, uint32_t lanes, uint32_t kind, uint64_t number);
/* They do something: if one of them waited, the barrier is passed by all that had arrived. */
void mt_hazard_go_on(struct mt_hazard_cta *c, uint32_t warp, uint32_t lanes);
/* One thread's access. 0, or -1 without memory. */
int mt_hazard_touch(struct mt_hazard_cta *c, const struct mt_hazard_access *a);
/* Bytes that its cells take. */
size_t mt_hazard_cta_bytes(const struct mt_hazard_cta *c);
#endif
