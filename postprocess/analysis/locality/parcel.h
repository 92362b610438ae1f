/* State of an analysis of runs as bytes, sent between processes of the same program with the same inputs, so
 * it needs no version and no defined byte order. Launches and kernels are sent as supersteps, known to both
 * sides (struct mt_run_launch by superstep). Errors are stored and checked at the end. */
#ifndef MT_ANALYSIS_PARCEL_H
#define MT_ANALYSIS_PARCEL_H

#include "analysis/base/runs.h"
#include "analysis/base/cells.h"
#include "memtrace/hash.h"
#include "analysis/base/pairmap.h"

struct mt_parcel {
    char *data;
    size_t used, room;
    int failed; /* 1: there was no memory */
    const struct mt_run_launch *launches;
    struct mt_pairmap kernels; /* name to superstep of one of its launches */
};

/* `launches`: by superstep; owned by the caller, kept. */
void mt_parcel_init(struct mt_parcel *p, const struct mt_run_launch *launches, size_t n);

void mt_parcel_free(struct mt_parcel *p);
void mt_parcel_bytes(struct mt_parcel *p, const void *data, size_t n);
void mt_parcel_u64(struct mt_parcel *p, uint64_t v);
void mt_parcel_kernel(struct mt_parcel *p, const char *kernel);
void mt_parcel_cells(struct mt_parcel *p, const struct mt_cells *c);

struct mt_unpack {
    const char *at, *end;
    int failed; /* 1: no memory, or invalid bytes */
    const struct mt_run_launch *launches;
    size_t nlaunches;
};

/* Invalid values are returned as zero, and u->failed is set. */
void mt_unpack_bytes(struct mt_unpack *u, void *data, size_t n);

uint64_t mt_unpack_u64(struct mt_unpack *u);

/* Returns a number of elements, each of which takes at least `size` bytes. */
size_t mt_unpack_count(struct mt_unpack *u, size_t size);

/* Returns n elements of `size` bytes in new memory, with room for one more; NULL on failure. */
void *mt_unpack_array(struct mt_unpack *u, size_t n, size_t size);

const char *mt_unpack_kernel(struct mt_unpack *u);

/* Returns the name of the kernel of this launch. */
const char *mt_unpack_kernel_of(struct mt_unpack *u, uint64_t superstep);

void mt_unpack_cells(struct mt_unpack *u, struct mt_cells *c);

/* Launches that cannot be closed yet. A part keeps the state of its last launch, which may continue in the
 * next part, and of its first one if that began in an earlier part. All others are closed when the next
 * launch begins. For analyses with a state per launch (runs.h). */

/* First member of an analysis's own state. */
struct mt_launch_window_state {
    struct mt_run_launch launch;
};

/* Operations; `x` is the analysis. Functions that return int return 0, or -1 without memory. */
struct mt_launch_window_ops {
    int (*merge)(void *x, struct mt_launch_window_state *into, struct mt_launch_window_state *from);
    int (*close)(void *x, struct mt_launch_window_state *state); /* takes the results of a whole launch */
    void (*drop)(struct mt_launch_window_state *state);          /* frees the state */
    /* pack writes a state without its launch; unpack fills a state that is empty except for its launch. */
    void (*pack)(struct mt_parcel *p, const struct mt_launch_window_state *state);
    struct mt_launch_window_state *(*make)(
        const struct mt_run_launch *launch); /* returns NULL without memory */
    void (*unpack)(struct mt_unpack *u, struct mt_launch_window_state *state);
};

struct mt_launch_window {
    const struct mt_launch_window_ops *ops;
    struct mt_launch_window_state *head, *tail; /* head: only if tail is of another launch */
};

/* Returns an empty state of `bytes` bytes, or NULL without memory. */
struct mt_launch_window_state *mt_launch_window_new(size_t bytes, const struct mt_run_launch *launch);

/* Begins the next launch with this state, which the window then owns. */
int mt_launch_window_next(struct mt_launch_window *w, void *x, struct mt_launch_window_state *state);

int mt_launch_window_merge(struct mt_launch_window *into, void *x, struct mt_launch_window *from);

/* Fill an empty window that has its ops. */
void mt_launch_window_pack(struct mt_parcel *p, const struct mt_launch_window *w);

void mt_launch_window_unpack(struct mt_unpack *u, struct mt_launch_window *w);
int mt_launch_window_finish(struct mt_launch_window *w, void *x);
void mt_launch_window_free(struct mt_launch_window *w);

#endif
