/* Traced part of a run: the number of traced CTAs of each kernel, over all launches (MEMTRACE_SAMPLE,
 * MEMTRACE_CTAS, MEMTRACE_KERNELS and so on leave some out). From the companion files. */
#ifndef MT_ANALYSIS_PARTS_H
#define MT_ANALYSIS_PARTS_H

#include "memtrace/trace.h"
#include <stddef.h>
#include <stdint.h>

/* Estimates for the whole run from a sampled trace: MEMTRACE_SAMPLE traces every n-th CTA or launch, and the
 * companion files have the total numbers. Definitions: docs/definitions.md. */

/* Counts of a kernel: the launches from which MEMTRACE_SAMPLE chose (others that were left out do not count),
 * all CTAs of these, and the traced ones. */
struct mt_estimate {
    const char *kernel; /* name owned by the companion */
    uint64_t launches, traced_launches, ctas, traced_ctas;
};

/* Zero-initialised is empty. */
struct mt_estimates {
    struct mt_estimate *list; /* by name */
    size_t n;
};

/* Computes the counts from the companion files of a source's `ninputs` inputs, after its last item. Empty if
 * every launch is traced with all CTAs that were requested. Returns 0, or -1 without memory. */
int mt_estimates_gather(struct mt_estimates *e, const struct mt_source *s, size_t ninputs);

void mt_estimates_free(struct mt_estimates *e);

/* Returns NULL if there is none. */
const struct mt_estimate *mt_estimates_find(const struct mt_estimates *e, const char *kernel);

/* Returns counted * ctas / traced, rounded to the nearest integer, halves up; UINT64_MAX if it does not fit.
 * traced must not be 0. */
uint64_t mt_estimate(uint64_t counted, uint64_t ctas, uint64_t traced);

struct mt_run_part {
    char *kernel;
    uint64_t traced, ctas;
    uint64_t untraced; /* number of accesses without a record */
    int unseen;        /* of which there may be more (`unseen` of launch lines) */
};

/* Zero-initialised is empty. */
struct mt_run_parts {
    struct mt_run_part *list; /* by name */
    size_t n, room;
};

/* Computes the parts after the source's last item. Returns 0, or -1 without memory. */
int mt_run_parts_gather(struct mt_run_parts *p, const struct mt_source *s, size_t ninputs);

void mt_run_parts_free(struct mt_run_parts *p);

/* Accesses without a record. Zero-initialised is none. */
struct mt_untraced {
    uint64_t accesses, most;
    const char *kernel; /* kernel with the most accesses without a record */
    size_t kernels;     /* number of kernels with accesses without a record */
    int unseen;         /* there may be more */
};

void mt_untraced_add(struct mt_untraced *u, const struct mt_run_part *p);

#endif
