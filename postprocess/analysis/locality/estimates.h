/* What a sampled trace says of the whole: MEMTRACE_SAMPLE traces every n-th CTA or launch, and the companions
 * say how many there were. Definitions: docs/definitions.md. */
#ifndef MT_ANALYSIS_ESTIMATES_H
#define MT_ANALYSIS_ESTIMATES_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/trace.h"

/* Of a kernel: its launches that MEMTRACE_SAMPLE chose from (others that were left out do not count), the
 * CTAs of all of them, and how many of these are traced. */
struct mt_estimate {
    const char *kernel; /* the companion's */
    uint64_t launches, traced_launches, ctas, traced_ctas;
};

/* Zero-initialised is empty. */
struct mt_estimates {
    struct mt_estimate *list; /* by name */
    size_t n;
};

/* Gathers from the companions of a source's `ninputs` inputs; after its last item. Empty when every launch is
 * traced with all the CTAs that it was to be traced with. 0, or -1 without memory. */
int mt_estimates_gather(struct mt_estimates *e, const struct mt_source *s, size_t ninputs);
void mt_estimates_free(struct mt_estimates *e);
/* NULL: none. */
const struct mt_estimate *mt_estimates_find(const struct mt_estimates *e, const char *kernel);

/* counted * ctas / traced, rounded to the nearest integer, halves up; UINT64_MAX if it does not fit. traced
 * is not 0. */
uint64_t mt_estimate(uint64_t counted, uint64_t ctas, uint64_t traced);
#endif
