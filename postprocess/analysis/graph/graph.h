/* The memory (stride) graph of accesses. A node is a kind of access: (buffer, stride, type), or what `key`
 * says; stride = this address - the previous address of the same actor in the same buffer, so that the first
 * access there makes no node. An actor is who runs one after the other: a CTA instance, a host thread. An
 * edge a -> b counts how often b was the next node of an actor after a. Definitions:
 * docs/man/memtrace-graph.md. Functions return 0, or -1 without memory. */
#ifndef MT_ANALYSIS_GRAPH_H
#define MT_ANALYSIS_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include "analysis/base/buffers.h"
#include "memtrace/hash.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

enum mt_node_field {
    MT_NODE_BUFFER = 1, /* which allocation */
    MT_NODE_STRIDE = 2,
    MT_NODE_TYPE = 4,
    MT_NODE_SIZE = 8, /* bytes of the allocation */
    MT_NODE_SITE = 16 /* the kernel: a raw trace has no finer one; "file:line" of host code */
};

#define MT_BUFFER_NONE UINT64_MAX /* in no known allocation */

struct mt_node {
    /* the key; fields that are not in it are 0 or NULL */
    uint64_t buffer; /* allocation id, or MT_BUFFER_NONE; 0 for all without allocations */
    int64_t stride;
    uint32_t type; /* enum mt_access_type */
    uint64_t size;
    const char *site;
    /* what was seen */
    uint64_t count;
    uint64_t bytes;     /* of the buffer, of the first access */
    const char *kernel; /* or other site, of the first access */
    const char *last;   /* seen last */
    uint32_t kernels;   /* how many different ones */
    uint32_t rank;      /* number before mt_stride_graph_finish put them in order */
};

struct mt_stride_graph_access {
    uint64_t actor, buffer, bytes /* of the buffer */, address;
    uint32_t type;    /* enum mt_access_type */
    const char *site; /* equal sites have equal pointers, which live as long as the graph */
};

struct mt_edge {
    uint32_t from, to; /* nodes */
    uint64_t count;
};

/* Runs are looked at a warp at a time: as long as its lanes do alike, one step is for all of them. Lanes that
 * part have an entry each, in a block of 32. */
struct mt_graph_warp {
    uint32_t lanes;  /* that are at a node */
    uint32_t node;   /* + 1, of all of them, unless `parted` */
    uint32_t block;  /* of `lane_nodes` + 1; 0: none yet */
    uint32_t parted; /* its block counts */
    uint32_t track;  /* + 1: its first one; 0: none yet */
};

struct mt_graph_track { /* where a warp was last in a buffer */
    uint32_t lanes;     /* that were there; the others' first access is still to come */
    uint32_t block;     /* of `lane_places` + 1; 0: none yet */
    uint32_t parted;    /* its block counts; else lane k of `lanes` was at base + k * stride */
    uint32_t next;      /* + 1: the warp's next one; 0: the last of those in a list */
    uint64_t base;
    int64_t stride;
    uint64_t buffer;
};

enum { MT_GRAPH_LANES = 32, MT_GRAPH_MEMOS = 64 };

struct mt_stride_graph {
    unsigned key; /* mt_node_field bits */
    struct mt_node *nodes;
    size_t nnodes, node_room;
    size_t dropped;        /* by mt_stride_graph_finish */
    struct mt_edge *edges; /* after mt_stride_graph_finish */
    size_t nedges;
    uint64_t records, launches;
    size_t most_nodes,
        most_warps;    /* set after mt_stride_graph_init: what is beyond is left out; 0: no limit */
    int ungrouped;     /* by lane: the launch's accesses are not grouped into requests */
    uint64_t left_out; /* accesses of nodes beyond most_nodes, and of warps (or CTAs without) of a launch
                          beyond most_warps */
    uint64_t threads;  /* of the records, those of which the thread is known */
    /* Called for each node as it comes; may be NULL. 0, or -1 without memory. */
    int (*watch)(void *arg, const struct mt_stride_graph_access *access, int64_t stride, size_t node);
    void *watch_arg;
    /* state */
    struct mt_buffers *buffers; /* the caller's; NULL: all is buffer 0 */
    const char *kernel;
    struct mt_pairmap previous; /* (actor, buffer) -> address, of the launch under way */
    struct mt_pairmap current;  /* actor -> node + 1, of the launch under way */
    struct mt_hash links;       /* from << 32 | to -> count */
    struct mt_pairmap seen;     /* (node, kernel) */
    struct mt_hash index;       /* by hash of the key: node + 1 */
    /* of runs in the launch under way */
    struct mt_pairmap actors;    /* (CTA, warp) -> number */
    struct mt_pairmap tracks_of; /* (number, buffer) -> index into tracks, of warps with many */
    struct mt_graph_warp *warps; /* by number */
    struct mt_graph_track *tracks;
    uint64_t (*lane_places)[MT_GRAPH_LANES];
    uint32_t (*lane_nodes)[MT_GRAPH_LANES]; /* + 1; 0: none */
    size_t nwarps, warp_room, ntracks, track_room, nplaces, place_room, nlane_nodes, lane_node_room;
    struct {
        uint64_t cta, warp, number; /* + 1; 0: none */
    } met[MT_GRAPH_MEMOS];          /* warps, by number in their CTA: what `actors` said last */
    struct {
        uint64_t buffer;
        int64_t stride;
        uint32_t type, node; /* + 1; 0: none */
    } memo[MT_GRAPH_MEMOS];  /* nodes that were met, by a hash */
};

void mt_stride_graph_init(struct mt_stride_graph *g, unsigned key, struct mt_buffers *buffers);

/* A launch begins; equal kernels have equal pointers. */
void mt_stride_graph_launch(struct mt_stride_graph *g, const char *kernel, uint64_t seq);

/* Any accesses; those of one actor in their order. */
int mt_stride_graph_access(struct mt_stride_graph *g, const struct mt_stride_graph_access *a);

/* Drops nodes and edges counted less than min_count times and puts the rest in order: nodes by buffer,
 * stride, type, size, site; edges by nodes. */
int mt_stride_graph_finish(struct mt_stride_graph *g, uint64_t min_count);

/* Of a finished graph: keeps the `most` nodes that are counted most (of equal ones those that come first) and
 * the edges between them. 0, or -1 without memory. */
int mt_stride_graph_top(struct mt_stride_graph *g, size_t most);

void mt_stride_graph_free(struct mt_stride_graph *g);

/* Fed with runs, the one and the other. */
extern const struct mt_analysis mt_stride_graph_analysis, mt_stride_lanes_analysis;

/* ---- for graph.c ---- */
enum { MT_GRAPH_NO_NODE = -2 }; /* as a size_t: there are enough already */

#endif
