/* The analyses of runs together: those that were chosen, fed and merged as runs.h says. */
#ifndef MT_ANALYSIS_LOCALITY_H
#define MT_ANALYSIS_LOCALITY_H

#include "locality.def"

enum mt_locality_section {
#define MT_ANALYSIS(NAME, name, ...) MT_LOCALITY_##NAME,
#include "locality.def"
#undef MT_ANALYSIS
    MT_LOCALITY_OF_RUNS,
    MT_LOCALITY_PLACEMENT = MT_LOCALITY_OF_RUNS, /* not of runs: works on the transfers (placement.h) */
    MT_LOCALITY_SECTIONS
};

extern const char *const mt_locality_names[MT_LOCALITY_SECTIONS]; /* in the order of the output */

/* No instruction moves more at once: longer accesses are block copies by one thread. The analyses that know
 * each byte or line leave them out and count them, or one record of 2^28 - 1 bytes would cost what a whole
 * trace does. */
enum { MT_LOCALITY_LONGEST = 1 << 18 };

struct mt_locality_options {
    unsigned chosen;                /* a bit per section */
    struct mt_run_options analysis; /* `allocs` are left to mt_locality_init */
};

struct mt_locality {
    struct mt_locality_options options;
    const struct mt_alloc_event *allocs; /* the caller's */
    size_t nallocs;
#define MT_ANALYSIS(NAME, name, ...) struct mt_##name name;
#include "locality.def"
#undef MT_ANALYSIS
    uint64_t longer[MT_LOCALITY_OF_RUNS]; /* accesses that the section left out */
};

static inline int mt_locality_has(const struct mt_locality *m, enum mt_locality_section s)
{
    return m->options.chosen >> s & 1;
}

/* `allocs`: the caller's, kept. 0, or -1 without memory; so the others. */
int mt_locality_init(struct mt_locality *m, const struct mt_locality_options *options,
                     const struct mt_alloc_event *allocs, size_t n);

/* Feeds the sections in `sections` (a bit each) a launch (or NULL) and then runs of it: disjoint
 * sections may be fed on different threads. */
int mt_locality_feed(struct mt_locality *m, unsigned sections, const struct mt_run_launch *launch,
                     const struct mt_access_run *runs, size_t n);

int mt_locality_merge(struct mt_locality *into, struct mt_locality *from);

/* Accesses that were too long for some sections. */
uint64_t mt_locality_longer(const struct mt_locality *m);

/* As bytes, and back into one that was made with the same options and is empty (parcel.h). */
void mt_locality_pack(struct mt_parcel *p, const struct mt_locality *m);

void mt_locality_unpack(struct mt_unpack *u, struct mt_locality *m);
int mt_locality_finish(struct mt_locality *m);
void mt_locality_free(struct mt_locality *m);

#endif
