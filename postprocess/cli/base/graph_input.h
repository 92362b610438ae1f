/* What memory graphs are made of: raw traces (several, of one process), one container of host accesses or one
 * MAT text trace, fed into a struct mt_stride_graph. Shared by memtrace graph and memtrace compare. */
#ifndef MT_CLI_GRAPH_INPUT_H
#define MT_CLI_GRAPH_INPUT_H

#include "kind.h"
#include "cli.h"
#include "analysis/base/buffers.h"
#include "analysis/graph/graph.h"
#include "analysis/base/live_allocs.h"
#include "analysis/base/locations.h"
#include "reader/raw/mat_text.h"
#include "memtrace/host.h"

/* What comes through a pipe: looked at without taking it, so that its reader finds all of it. */

struct mt_stride_graph_input {
    /* the user's choice, set before mt_stride_graph_input_open */
    struct mt_inputs inputs; /* companions and flags; paths are set by open */
    struct mt_filter filter; /* of raw traces */
    int lanes;               /* of kernels: the graph of lanes */
    int pipes;               /* a host trace may come through a pipe, read as it is written */
    int all;                 /* host accesses outside all allocations count, as one buffer */
    /* what there is */
    enum mt_kind kind;
    int pipe;       /* open, if TRACE is a pipe; until its reader has it */
    char spool[32]; /* path of the container that came through it */
    struct mt_source *source;
    struct mt_host_reader *host;
    struct mt_mat *mat;
    struct mt_alloc_event *made; /* MAT: buffers as they appear */
    size_t nmade, made_room;
    struct mt_pairmap made_index; /* MAT: base -> index into made, + 1 */
    struct mt_pairmap mat_places; /* MAT: ip -> place + 1 */
    struct mt_buffers buffers;
    struct mt_live_allocs *live;
    struct mt_host_locations places;
    /* for the output */
    const struct mt_alloc_event *allocs; /* ascending id */
    size_t nallocs;
    const char **called; /* of host code, by allocation: the variable that first led to it, or NULL */
    int known;           /* buffers are known */
    uint64_t launches;   /* selected ones */
    uint64_t outside;    /* host accesses left out: in no allocation */
    uint64_t untouched;  /* host records left out: they touch no memory */
    char **notes;
    size_t nnotes, note_room;
    int complete;
};

/* 0, or an exit code after saying why. */
int mt_stride_graph_input_open(struct mt_stride_graph_input *in, const char *const *paths, size_t npaths);

/* Reads all into `g`, which was initialised with mt_stride_graph_input_buffers; says the notes. 0 or
 * MT_EXIT_INPUT (what was whole is in the graph); else nothing is worth writing. */
int mt_stride_graph_input_read(struct mt_stride_graph_input *in, struct mt_stride_graph *g);

/* The same of a graph of kernels. */
const char *mt_stride_graph_kernel_stride(const struct mt_stride_graph *g, int lanes);

/* For mt_stride_graph_init. */
struct mt_buffers *mt_stride_graph_input_buffers(struct mt_stride_graph_input *in);

/* A sentence on what a stride is here; after mt_stride_graph_input_read. */
const char *mt_stride_graph_input_stride(const struct mt_stride_graph_input *in,
                                         const struct mt_stride_graph *g);

void mt_stride_graph_input_close(struct mt_stride_graph_input *in);

#endif
