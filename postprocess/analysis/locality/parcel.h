/* The state of an analysis of runs as bytes, on their way from one process to another one of the same program
 * on the same inputs: no version, no order of bytes. Launches and kernels travel as supersteps, which both
 * sides know (mt_run_launch by superstep). Errors are kept and asked for at the end. */
#ifndef MT_ANALYSIS_PARCEL_H
#define MT_ANALYSIS_PARCEL_H
#include "analysis/base/cells.h"
#include "memtrace/hash.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"
#include "analysis/base/stack.h"

struct mt_parcel {
    char *data;
    size_t used, room;
    int failed; /* no memory */
    const struct mt_run_launch *launches;
    struct mt_pairmap kernels; /* name -> superstep of a launch of it */
};

/* `launches`: by superstep, the caller's, kept. */
void mt_parcel_init(struct mt_parcel *p, const struct mt_run_launch *launches, size_t n);
void mt_parcel_free(struct mt_parcel *p);
void mt_parcel_bytes(struct mt_parcel *p, const void *data, size_t n);
void mt_parcel_u64(struct mt_parcel *p, uint64_t v);
void mt_parcel_launch(struct mt_parcel *p, const struct mt_run_launch *l);
void mt_parcel_kernel(struct mt_parcel *p, const char *kernel);
void mt_parcel_map(struct mt_parcel *p, const struct mt_pairmap *m);
void mt_parcel_counts(struct mt_parcel *p, const struct mt_hash *m);
void mt_parcel_cells(struct mt_parcel *p, const struct mt_cells *c);
void mt_parcel_stack(struct mt_parcel *p, const struct mt_use_stack *s);

struct mt_unpack {
    const char *at, *end;
    int failed; /* no memory, or bytes that nobody packed */
    const struct mt_run_launch *launches;
    size_t nlaunches;
};

/* Values that cannot be are zero, and u->failed is set. */
void mt_unpack_bytes(struct mt_unpack *u, void *data, size_t n);
uint64_t mt_unpack_u64(struct mt_unpack *u);
/* A number of things of which each takes `size` bytes at least. */
size_t mt_unpack_count(struct mt_unpack *u, size_t size);
/* n things of `size` bytes in memory of their own, with room for one more; NULL on failure. */
void *mt_unpack_array(struct mt_unpack *u, size_t n, size_t size);
struct mt_run_launch mt_unpack_launch(struct mt_unpack *u);
const char *mt_unpack_kernel(struct mt_unpack *u);
/* Name of the kernel of this launch. */
const char *mt_unpack_kernel_of(struct mt_unpack *u, uint64_t superstep);
/* Into empty ones. */
void mt_unpack_map(struct mt_unpack *u, struct mt_pairmap *m);
void mt_unpack_counts(struct mt_unpack *u, struct mt_hash *m);
void mt_unpack_cells(struct mt_unpack *u, struct mt_cells *c);
void mt_unpack_stack(struct mt_unpack *u, struct mt_use_stack *s);
#endif
