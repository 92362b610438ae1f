/* Traced part of a run: the number of traced CTAs of each kernel, over all launches (MEMTRACE_SAMPLE,
 * MEMTRACE_CTAS, MEMTRACE_KERNELS and so on leave some out). From the companion files. */
#ifndef MT_ANALYSIS_PARTS_H
#define MT_ANALYSIS_PARTS_H
#include <stddef.h>
#include <stdint.h>
#include "memtrace/trace.h"

struct mt_run_part {
    const char *kernel; /* name owned by the companion */
    uint64_t traced, ctas;
    uint64_t untraced; /* number of accesses without a record */
};
/* Zero-initialised is empty. */
struct mt_run_parts {
    struct mt_run_part *list; /* by name */
    size_t n;
};

/* Computes the parts after the source's last item. Returns 0, or -1 without memory. */
int mt_run_parts_gather(struct mt_run_parts *p, const struct mt_source *s, size_t ninputs);
void mt_run_parts_free(struct mt_run_parts *p);

/* Accesses without a record. Zero-initialised is none. */
struct mt_untraced {
    uint64_t accesses, most;
    const char *kernel; /* kernel with the most accesses without a record */
    size_t kernels;     /* number of kernels with accesses without a record */
};
void mt_untraced_add(struct mt_untraced *u, const struct mt_run_part *p);
#endif
