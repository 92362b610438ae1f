/* Inputs of memory graphs, for memtrace graph and memtrace compare: raw traces (several, of one process), one
 * compact trace of host accesses, or one MAT text trace, read into a struct mt_stride_graph. */
#ifndef MT_CLI_GRAPH_INPUT_H
#define MT_CLI_GRAPH_INPUT_H

#include "kind.h"
#include "cli.h"
#include "analysis/base/buffers.h"
#include "analysis/graph/graph.h"
#include "analysis/base/live_allocs.h"
#include "analysis/base/locations.h"
#include "memtrace/host.h"

/* An input of a memory graph. Pipes are inspected without consuming bytes, so that the reader finds all. */

struct mt_stride_graph_input {
    /* Options, set before mt_stride_graph_input_open: */
    struct mt_inputs inputs; /* companions and flags; open sets the paths */
    struct mt_filter filter; /* filter for traces of kernels */
    int lanes;               /* 1: graph of lanes, for kernels */
    int pipes;               /* 1: a host trace may be a pipe, read while it is written */
    int all;                 /* 1: host accesses outside all allocations count as one buffer */
    /* Result of open: */
    enum mt_kind kind;
    int pipe;       /* open pipe, until its reader has it; else -1 */
    char spool[32]; /* path of the compact trace copied from the pipe */
    struct mt_source *source;
    struct mt_host_reader *host;
    struct mt_mat *mat;
    struct mt_alloc_event *made; /* MAT: buffers in order of appearance */
    size_t nmade, made_room;
    struct mt_pairmap made_index; /* MAT: base -> index into made, + 1 */
    struct mt_pairmap mat_places; /* MAT: ip -> place, + 1 */
    struct mt_buffers buffers;
    struct mt_live_allocs *live;
    struct mt_host_locations places;
    /* For the output: */
    const struct mt_alloc_event *allocs; /* sorted by ascending id */
    size_t nallocs;
    const char *
        *called; /* host code, by allocation: the first variable through which it was accessed, or NULL */
    int known;   /* 1: the trace has allocations */
    uint64_t launches; /* number of selected launches */
    uint64_t outside;  /* host accesses excluded because they are outside of all allocations */
    char **notes;
    size_t nnotes, note_room;
    int complete;
};

/* Returns 0, or an exit code after a message. */
int mt_stride_graph_input_open(struct mt_stride_graph_input *in, const char *const *paths, size_t npaths);

/* Reads all inputs into `g`, which was initialised with mt_stride_graph_input_buffers, and prints the notes.
 * Returns 0, MT_EXIT_INPUT (the graph has the intact part), or another exit code, after which the graph is
 * useless. */
int mt_stride_graph_input_read(struct mt_stride_graph_input *in, struct mt_stride_graph *g);

/* Returns a sentence that defines strides in a graph of kernels. */
const char *mt_stride_graph_kernel_stride(const struct mt_stride_graph *g, int lanes);

/* Returns the buffers for mt_stride_graph_init. */
struct mt_buffers *mt_stride_graph_input_buffers(struct mt_stride_graph_input *in);

/* Returns a sentence that defines strides in this graph; after mt_stride_graph_input_read. */
const char *mt_stride_graph_input_stride(const struct mt_stride_graph_input *in,
                                         const struct mt_stride_graph *g);

void mt_stride_graph_input_close(struct mt_stride_graph_input *in);

#endif
