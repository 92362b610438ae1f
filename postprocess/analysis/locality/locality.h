/* The chosen analyses of runs together, fed and merged as runs.h describes. */
#ifndef MT_ANALYSIS_LOCALITY_H
#define MT_ANALYSIS_LOCALITY_H

#include "locality.def"

enum mt_locality_section {
#define MT_ANALYSIS(NAME, name, ...) MT_LOCALITY_##NAME,
#include "locality.def"
#undef MT_ANALYSIS
    MT_LOCALITY_OF_RUNS,
    MT_LOCALITY_PLACEMENT = MT_LOCALITY_OF_RUNS, /* not fed with runs: it uses the transfers (placement.h) */
    MT_LOCALITY_SECTIONS
};

extern const char *const mt_locality_names[MT_LOCALITY_SECTIONS]; /* in the order of the output */

/* Maximum size of an access in bytes. No instruction moves more at once: longer accesses are block copies by
 * one thread. Analyses that process each byte or line leave them out and count them; otherwise a record of
 * 2^28 - 1 bytes would cost as much as a whole trace. */
enum { MT_LOCALITY_LONGEST = 1 << 18 };

struct mt_locality_options {
    unsigned chosen;                /* chosen sections, a bit each */
    struct mt_run_options analysis; /* mt_locality_init sets `allocs` */
};

struct mt_locality {
    struct mt_locality_options options;
    const struct mt_alloc_event *allocs; /* allocations, owned by the caller */
    size_t nallocs;
#define MT_ANALYSIS(NAME, name, ...) struct mt_##name name;
#include "locality.def"
#undef MT_ANALYSIS
    uint64_t longer[MT_LOCALITY_OF_RUNS]; /* by section: number of accesses left out */
};

static inline int mt_locality_has(const struct mt_locality *m, enum mt_locality_section s)
{
    return m->options.chosen >> s & 1;
}

/* `allocs`: owned by the caller, kept. All functions return 0, or -1 without memory. */
int mt_locality_init(struct mt_locality *m, const struct mt_locality_options *options,
                     const struct mt_alloc_event *allocs, size_t n);

/* Feeds the sections in `sections` (a bit each) with a launch (or NULL) and its runs. Disjoint sets of
 * sections may be fed on different threads. */
int mt_locality_feed(struct mt_locality *m, unsigned sections, const struct mt_run_launch *launch,
                     const struct mt_access_run *runs, size_t n);

int mt_locality_merge(struct mt_locality *into, struct mt_locality *from);

/* Returns the number of accesses that were too long for some sections. */
uint64_t mt_locality_longer(const struct mt_locality *m);

/* Convert the state to bytes, and back into an empty struct with the same options (parcel.h). */
void mt_locality_pack(struct mt_parcel *p, const struct mt_locality *m);

void mt_locality_unpack(struct mt_unpack *u, struct mt_locality *m);
int mt_locality_finish(struct mt_locality *m);
void mt_locality_free(struct mt_locality *m);

/* Concurrent feeding of the analyses of runs: an idle thread of the pool takes one, with all runs. */

struct mt_crew;

/* Returns NULL without memory. */
struct mt_pool;
struct mt_crew *mt_crew_new(struct mt_locality *m, struct mt_pool *pool);
/* Starts to feed a launch (or NULL) and runs, which must stay valid until mt_crew_wait. Call mt_crew_wait
 * before the next one. */
void mt_crew_begin(struct mt_crew *c, const struct mt_run_launch *launch, const struct mt_access_run *runs,
                   size_t n);
/* Helps with the work and waits for its end; allowed without work in progress. Returns 0, or -1 without
 * memory (now or before). */
int mt_crew_wait(struct mt_crew *c);
void mt_crew_free(struct mt_crew *c); /* NULL is allowed */

#endif
