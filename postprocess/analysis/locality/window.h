/* Launches whose analysis cannot be closed yet: a part keeps the state of its last launch, which may go on in
 * the next part, and of its first one if that began in an earlier part. All others are closed as soon as the
 * next launch begins. For analyses with a state per launch (runs.h). */
#ifndef MT_ANALYSIS_WINDOW_H
#define MT_ANALYSIS_WINDOW_H
#include "parcel.h"
#include "analysis/base/runs.h"

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
