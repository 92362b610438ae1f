/* Shared by rounds.c, which says what comes when, and route.c, which sends.
 *
 * All that is sent is a row of units, each as long as a record
 * and with a kind in the two highest bits of its type:
 *   ONE      a record
 *   SEVERAL  a record that goes to several ranks; its number is in the unit after it
 *   RUN      base, CTA, SM and meta word as in a record; then {stride, count, number of addresses}; then the
 *            addresses, if it has any. Rows that take turns (turns.h): as many RUNs, one after another; the
 * first one has their number and a turn's accesses in the upper half of its count (mt_unit_turns) MARK what
 * follows is of launch w[1], counted in this round from 1; 0: one that began in an earlier one */
#ifndef MT_MPI_ROUNDS_H
#define MT_MPI_ROUNDS_H
#include "parts.h"
#include "ranks.h"
#include "turns.h"

enum {
    MT_ROUND_COST = 1 << 17, /* for a rank, in records */
    MT_ROUND_MOST = 1 << 21, /* the same while they make little to send: each round waits for all */
    MT_ROUND_SHORT = 4,      /* accesses of a run that is not worth one */
    MT_ROUND_PIECE = 1 << 13 /* records read at a time: they stay in the processor's cache */
};
#define MT_UNIT_KIND (12u << 28)
#define MT_UNIT_SEVERAL (4u << 28)
#define MT_UNIT_RUN (8u << 28)
#define MT_UNIT_MARK (12u << 28)

struct mt_round_event {
    enum { MT_ROUND_LAUNCH, MT_ROUND_COPY, MT_ROUND_SPAN } kind;
    union {
        struct {
            const char *kernel;
            int selected;
        } launch;
        struct mt_copy_event copy;
        struct mt_span span;
    } u;
};

struct mt_announced {
    uint64_t launch, cta, smid;
};

struct mt_rounds {
    struct mt_parts parts;
    struct mt_round_event *events; /* of the round to come */
    size_t nevents;
    uint64_t cost, accesses;     /* of its spans */
    uint32_t most;               /* what that may cost a rank; the same everywhere */
    struct mt_raw_record *slice; /* [MT_ROUND_PIECE] */
    size_t held;                 /* of short runs, as records in the slice, */
    uint64_t held_number;        /* and the number of the first */
    struct mt_turns_hint turns;
    uint64_t *sent;          /* by rank: number of the last record that went there and to others */
    uint64_t *marked;        /* by rank: launch of what was sent last, + 1; 0: nothing yet */
    struct mt_pairmap known; /* actors that this rank announced in the launch */
    struct mt_announced *mine, *all;
    size_t nmine, mine_room, nall, all_room;
    int *counts, *places;
    struct mt_access_run *runs; /* received, to be handed on together */
    size_t nruns, taken;        /* taken: plain accesses handed on in this round */
    /* where this rank is in the round */
    uint64_t launch; /* in this round, from 1 */
    uint64_t number; /* of accesses, so far */
    const struct mt_round_event *at;
    size_t met; /* of all */
};

/* Sends the accesses of this rank's part to their owners and fills `mine`. 0; 1: the part is damaged;
 * -1: no memory. */
int mt_rounds_route(struct mt_ranks *t);
#endif
