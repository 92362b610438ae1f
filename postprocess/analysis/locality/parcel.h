/* The state of an analysis of runs as bytes, on their way from one process to another one of the same program
 * on the same inputs: no version, no order of bytes. Launches and kernels travel as supersteps, which both
 * sides know (mt_run_launch by superstep). Errors are kept and asked for at the end. */
#ifndef MT_ANALYSIS_PARCEL_H
#define MT_ANALYSIS_PARCEL_H

#include "analysis/base/runs.h"
#include "analysis/base/cells.h"
#include "memtrace/hash.h"
#include "analysis/base/pairmap.h"
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

const char *mt_unpack_kernel(struct mt_unpack *u);

/* Name of the kernel of this launch. */
const char *mt_unpack_kernel_of(struct mt_unpack *u, uint64_t superstep);

/* Into empty ones. */
void mt_unpack_map(struct mt_unpack *u, struct mt_pairmap *m);

void mt_unpack_counts(struct mt_unpack *u, struct mt_hash *m);
void mt_unpack_cells(struct mt_unpack *u, struct mt_cells *c);
void mt_unpack_stack(struct mt_unpack *u, struct mt_use_stack *s);

/* Launches whose analysis cannot be closed yet: a part keeps the state of its last launch, which may go on in
 * the next part, and of its first one if that began in an earlier part. All others are closed as soon as the
 * next launch begins. For analyses with a state per launch (runs.h). */

/* The first member of an analysis's own state. */
struct mt_launch_window_state {
    struct mt_run_launch launch;
};

/* `x` is the analysis. Functions that return int: 0, or -1 without memory. */
struct mt_launch_window_ops {
    int (*merge)(void *x, struct mt_launch_window_state *into, struct mt_launch_window_state *from);
    int (*close)(void *x, struct mt_launch_window_state *state); /* the launch is whole: take the results */
    void (*drop)(struct mt_launch_window_state *state);          /* frees it */
    /* Without its launch; a state that is empty but for its launch is filled. */
    void (*pack)(struct mt_parcel *p, const struct mt_launch_window_state *state);
    struct mt_launch_window_state *(*make)(const struct mt_run_launch *launch); /* NULL without memory */
    void (*unpack)(struct mt_unpack *u, struct mt_launch_window_state *state);
};

struct mt_launch_window {
    const struct mt_launch_window_ops *ops;
    struct mt_launch_window_state *head, *tail; /* head: only beside a tail of another launch */
};

/* An empty state of so many bytes; NULL without memory. */
struct mt_launch_window_state *mt_launch_window_new(size_t bytes, const struct mt_run_launch *launch);

/* The next launch begins with this state, which becomes the window's. */
int mt_launch_window_next(struct mt_launch_window *w, void *x, struct mt_launch_window_state *state);

int mt_launch_window_merge(struct mt_launch_window *into, void *x, struct mt_launch_window *from);

/* Into an empty one that has its ops. */
void mt_launch_window_pack(struct mt_parcel *p, const struct mt_launch_window *w);

void mt_launch_window_unpack(struct mt_unpack *u, struct mt_launch_window *w);
int mt_launch_window_finish(struct mt_launch_window *w, void *x);
void mt_launch_window_free(struct mt_launch_window *w);

#endif
