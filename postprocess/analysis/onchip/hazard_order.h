/* Which accesses of a CTA's threads are ordered (hazards.h): vector clocks of threads. Lanes of a warp that
 * have been at the same barriers have one clock in common, so that there is mostly one for each warp.
 *
 * A thread's accesses have a time of its own, which goes on at each barrier. What comes before a barrier in a
 * thread that arrives there is ordered before what comes after it in a thread that waits there.
 *
 * An asynchronous copy is as a thread of its own that begins where the copy is issued (PTX ISA, "Asynchronous
 * operations" in the memory consistency model): ordered after what came before, and before nothing until it
 * is waited for. Copies that end one after the other have one time in common: a thread's groups of cp.async
 * ("cp.async.commit_group", "cp.async.wait_group"), its groups of bulk copies ("cp.async.bulk.wait_group"),
 * and those that end with a phase of one mbarrier ("complete_tx"). */
#ifndef MT_ANALYSIS_HAZARD_ORDER_H
#define MT_ANALYSIS_HAZARD_ORDER_H
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>
#include "memtrace/device.h"

enum {
    MT_HAZARD_LANES = 32,
    MT_HAZARD_WARPS = 32,
    MT_HAZARD_THREADS = MT_HAZARD_WARPS * MT_HAZARD_LANES,
    MT_HAZARD_MOST_BARRIERS = 1024, /* of a CTA; more are taken as one */
    MT_HAZARD_OBJECTS = 64,         /* of a CTA: mbarriers with which copies end */
    MT_HAZARD_WORDS = 512,          /* of a CTA, by which atomics order threads; more are taken as one */
    MT_HAZARD_GROUPS = 16,          /* closed ones of a thread that are told apart */
    /* Where in a clock the times are: of threads, of their groups, of mbarriers; */
    MT_HAZARD_BY_GROUP = MT_HAZARD_THREADS,
    MT_HAZARD_BY_BULK = 2 * MT_HAZARD_THREADS,
    MT_HAZARD_BY_OBJECT = 3 * MT_HAZARD_THREADS,
    MT_HAZARD_CLOCK = MT_HAZARD_BY_OBJECT + MT_HAZARD_OBJECTS,
    MT_HAZARD_BY_NOBODY = MT_HAZARD_CLOCK /* not known what ends the copy */
};

struct mt_hazard_barrier {
    uint64_t key;                       /* see hazard_sync.c */
    uint32_t waiting[MT_HAZARD_WARPS];  /* lanes that wait */
    uint32_t arrived;                   /* of one warp's: lanes */
    uint32_t phase;                     /* of the newest arrivals: 0, 1 */
    uint32_t phases;                    /* before that one */
    uint32_t by;                        /* where its copies' time is; 0: it has none */
    uint32_t clock[2][MT_HAZARD_CLOCK]; /* of those who arrived, by phase; others: the first one */
    UT_hash_handle hh;
};

/* What those who updated a word did before. */
struct mt_hazard_word {
    uint64_t key; /* address / 4 */
    uint32_t clock[MT_HAZARD_CLOCK];
    UT_hash_handle hh; /* in the order of their last use */
};

/* A lane's copies that end by groups. Those that begin now have the time `time` + 1. */
struct mt_hazard_copies {
    uint32_t time;
    uint32_t done;                   /* those up to this time have been waited for */
    uint32_t groups;                 /* that are closed */
    uint32_t last[MT_HAZARD_GROUPS]; /* of the newest of these, by number: its last copy's time */
};

/* Lanes of a warp that have one clock, and the same groups of copies. */
struct mt_hazard_group {
    uint32_t warp, lanes;
    uint32_t time;                     /* of their accesses now, 1 or more */
    uint32_t known[MT_HAZARD_CLOCK];   /* accesses up to this time are ordered before theirs */
    struct mt_hazard_copies copies[2]; /* cp.async, bulk copies */
    struct mt_hazard_barrier *at;      /* where they wait; or NULL */
    struct mt_hazard_group *next;      /* of this warp, or free */
};

/* What a lane's access at the next site is. */
struct mt_hazard_begun {
    uint32_t site; /* of the record that says so */
    uint32_t by;   /* MT_HAZARD_BY_…, of an mbarrier its own; 0: nothing */
    uint32_t time; /* of an mbarrier */
};

struct mt_hazard_order {
    struct mt_hazard_group *warp[MT_HAZARD_WARPS]; /* NULL: no lane of it has done anything */
    uint32_t threads;                              /* that may have: 32 for each warp up to the last one */
    uint32_t clusters[MT_HAZARD_WARPS];            /* lanes in an odd phase of the cluster's barrier */
    struct mt_hazard_barrier *barriers;
    struct mt_hazard_word *words, *others; /* others: all that had no room */
    struct mt_hazard_begun *begun;         /* by thread; NULL: no copy so far */
    uint32_t copies;                       /* there are some */
    uint32_t objects;                      /* mbarriers with copies */
    struct mt_hazard_group *spare;
    size_t bytes;   /* of memory */
    uint64_t loose; /* threads at barriers of which is not known which one it was, or whether they waited */
};

/* All threads are new. */
void mt_hazard_order_reset(struct mt_hazard_order *o);
void mt_hazard_order_free(struct mt_hazard_order *o);
/* The group of a lane; NULL: no memory. */
struct mt_hazard_group *mt_hazard_group_of(struct mt_hazard_order *o, uint32_t warp, uint32_t lane);
/* Sets to nothing what it may have. */
void mt_hazard_clear(const struct mt_hazard_order *o, uint32_t *clock);
/* No group of the warp has lanes both in `lanes` and not. 0 or -1. */
int mt_hazard_split(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes);
/* Groups within `lanes`, which know the same by now, become one, but for those with other groups of copies.
 */
void mt_hazard_merge(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes);
/* What is in `from` is in `into`, too. */
void mt_hazard_join(const struct mt_hazard_order *o, uint32_t *into, const uint32_t *from);
/* What the group did until now is in `clock`; what it does from now on is not. */
void mt_hazard_release(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t *clock);
/* What is in `clock` is before what the group does from now on. */
void mt_hazard_acquire(const struct mt_hazard_order *o, struct mt_hazard_group *g, const uint32_t *clock);

/* hazard_copy.c; `lanes` are of groups that have no others. */
/* What these lanes do at the site after this one is a copy. 0, or -1 without memory. */
int mt_hazard_copy_begin(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, struct mt_hazard_begun x);
/* What a lane of the group does at the site now: *by is where its time is, 0: it is the thread's own. There
 * are copies. */
uint32_t mt_hazard_copy_time(const struct mt_hazard_order *o, const struct mt_hazard_group *g, uint32_t lane,
                             uint32_t site, uint32_t *by);
/* They close or wait for groups, as size and address of their record say. */
void mt_hazard_copy_group(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, uint32_t size,
                          uint64_t what);
/* cp.async of the group's lanes until now is in `clock`. */
void mt_hazard_copy_release(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t *clock);

/* Does it know all of that already? */
int mt_hazard_knows(const struct mt_hazard_order *o, const struct mt_hazard_group *g, const uint32_t *clock);
/* As release, of these lanes of the group alone. */
void mt_hazard_release_lanes(const struct mt_hazard_order *o, struct mt_hazard_group *g, uint32_t lanes,
                             uint32_t *clock);

/* hazard_words.c: atomics and strong accesses of a word order threads: what was before an update is before
 * what comes after a later read or update of that word. Called before such an access, and after one that
 * updates; `r` is its run, reads: it reads. 0, or -1 without memory. */
int mt_hazard_words_before(struct mt_hazard_order *o, const struct mt_access_run *r, int reads);
int mt_hazard_words_after(struct mt_hazard_order *o, const struct mt_access_run *r, int reads);
void mt_hazard_words_reset(struct mt_hazard_order *o);

/* hazard_sync.c: lanes of a warp arrive at barriers, as a run of type MT_SYNC_… says. 0, or -1 without
 * memory. */
int mt_hazard_sync(struct mt_hazard_order *o, const struct mt_access_run *r);
/* They do something: those that waited have passed their barrier, and so have all who waited with them. */
void mt_hazard_go_on(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes);
#endif
