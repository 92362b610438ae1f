/* The memory (stride) graph of accesses. A node is a kind of access: (buffer, stride, type), or the fields in
 * `key`. stride = this address - the previous address of the same actor in the same buffer, so the first
 * access there forms no node. An actor executes sequentially: a CTA instance, or a host thread. An edge a ->
 * b counts how often b was an actor's next node after a. Definitions: docs/man/memtrace-graph.md. Functions
 * return 0, or -1 without memory. */
#ifndef MT_ANALYSIS_GRAPH_H
#define MT_ANALYSIS_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include "analysis/base/buffers.h"
#include "memtrace/hash.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

enum mt_node_field {
    MT_NODE_BUFFER = 1, /* the key includes the allocation */
    MT_NODE_STRIDE = 2,
    MT_NODE_TYPE = 4,
    MT_NODE_SIZE = 8, /* the key includes the allocation's size in bytes */
    MT_NODE_SITE = 16 /* the key includes the kernel, or "file:line" of host code */
};

#define MT_BUFFER_NONE UINT64_MAX /* buffer of accesses outside all known allocations */

struct mt_node {
    /* key; fields not in it are 0 or NULL */
    uint64_t buffer; /* allocation id, or MT_BUFFER_NONE; always 0 without allocations */
    int64_t stride;
    uint32_t type; /* enum mt_access_type */
    uint64_t size;
    const char *site;
    /* statistics */
    uint64_t count;
    uint64_t bytes;     /* size of the buffer, from the first access */
    const char *kernel; /* kernel, or other site, of the first access */
    const char *last;   /* kernel or site of the latest access */
    uint32_t kernels;   /* number of different kernels or sites */
    uint32_t rank;      /* number before mt_stride_graph_finish sorted the nodes */
};

struct mt_stride_graph_access {
    uint64_t actor, buffer, bytes /* size of the buffer */, address;
    uint32_t type;    /* enum mt_access_type */
    const char *site; /* equal sites have equal pointers, valid as long as the graph */
};

struct mt_edge {
    uint32_t from, to; /* indices of nodes */
    uint64_t count;
};

/* State of a warp. Runs are processed a warp at a time: while all lanes do the same, one step covers them.
 * Lanes that diverge have an entry each, in a block of 32. */
struct mt_graph_warp {
    uint32_t lanes;  /* mask of the lanes that have a node */
    uint32_t node;   /* node + 1 of all lanes, unless `parted` */
    uint32_t block;  /* block of `lane_nodes` + 1; 0: none yet */
    uint32_t parted; /* 1: the lanes differ, and the block applies */
    uint32_t track;  /* first track + 1; 0: none yet */
};

struct mt_graph_track { /* last addresses of a warp in a buffer */
    uint32_t lanes;     /* lanes that have an address here; the others have not accessed the buffer yet */
    uint32_t block;     /* block of `lane_places` + 1; 0: none yet */
    uint32_t parted;    /* 1: the block applies; else lane k of `lanes` was at base + k * stride */
    uint32_t next;      /* the warp's next track + 1; 0: end of the list */
    uint64_t base;
    int64_t stride;
    uint64_t buffer;
};

enum { MT_GRAPH_LANES = 32, MT_GRAPH_MEMOS = 64 };

struct mt_stride_graph {
    unsigned key; /* fields of the key, as mt_node_field bits */
    struct mt_node *nodes;
    size_t nnodes, node_room;
    size_t dropped;        /* number of nodes dropped by mt_stride_graph_finish */
    struct mt_edge *edges; /* set by mt_stride_graph_finish */
    size_t nedges;
    uint64_t records, launches;
    size_t most_nodes,
        most_warps;    /* limits, set after mt_stride_graph_init; accesses beyond are left out; 0: no limit */
    int ungrouped;     /* graph by lane: 1 if the launch's accesses are not grouped into requests */
    uint64_t left_out; /* accesses of nodes beyond most_nodes, and of warps (or CTAs without warps) beyond
                        * most_warps in a launch */
    uint64_t threads;  /* number of records whose thread is known */
    /* Called for each node as it occurs; may be NULL. Returns 0, or -1 without memory. */
    int (*watch)(void *arg, const struct mt_stride_graph_access *access, int64_t stride, size_t node);
    void *watch_arg;
    /* state */
    struct mt_buffers *buffers; /* owned by the caller; NULL: everything is buffer 0 */
    const char *kernel;
    struct mt_pairmap previous; /* (actor, buffer) to address, in the current launch */
    struct mt_pairmap current;  /* map from actor to node + 1, in the current launch */
    struct mt_hash links;       /* map from edge (from << 32 | to) to its count */
    struct mt_pairmap seen;     /* set of (node, kernel) pairs that occurred */
    struct mt_hash index;       /* map from hash of the key to node + 1 */
    /* state of runs in the current launch */
    struct mt_pairmap actors;    /* map from (CTA, warp) to number */
    struct mt_pairmap tracks_of; /* (number, buffer) to index into tracks, for warps with many tracks */
    struct mt_graph_warp *warps; /* by number */
    struct mt_graph_track *tracks;
    uint64_t (*lane_places)[MT_GRAPH_LANES];
    uint32_t (*lane_nodes)[MT_GRAPH_LANES]; /* node + 1 of each lane; 0: none */
    size_t nwarps, warp_room, ntracks, track_room, nplaces, place_room, nlane_nodes, lane_node_room;
    struct {
        uint64_t cta, warp, number; /* number of the warp + 1; 0: unused */
    } met[MT_GRAPH_MEMOS];          /* cache of `actors`, by warp number in the CTA */
    struct {
        uint64_t buffer;
        int64_t stride;
        uint32_t type, node; /* node + 1; 0: unused */
    } memo[MT_GRAPH_MEMOS];  /* cache of nodes, by a hash */
};

void mt_stride_graph_init(struct mt_stride_graph *g, unsigned key, struct mt_buffers *buffers);

/* Begins a launch; equal kernels have equal pointers. */
void mt_stride_graph_launch(struct mt_stride_graph *g, const char *kernel, uint64_t seq);

/* Adds an access; accesses of one actor must be in order. */
int mt_stride_graph_access(struct mt_stride_graph *g, const struct mt_stride_graph_access *a);

/* Drops nodes and edges with counts below min_count and sorts the others: nodes by buffer, stride, type,
 * size, site; edges by nodes. */
int mt_stride_graph_finish(struct mt_stride_graph *g, uint64_t min_count);

/* Reduces a finished graph to the `most` nodes with the highest counts (earlier ones first on ties) and the
 * edges between them. Returns 0, or -1 without memory. */
int mt_stride_graph_top(struct mt_stride_graph *g, size_t most);

void mt_stride_graph_free(struct mt_stride_graph *g);

/* Analyses that feed runs: graph by thread or CTA, graph between the lanes of a warp. */
extern const struct mt_analysis mt_stride_graph_analysis, mt_stride_lanes_analysis;

/* ---- internal ---- */
enum { MT_GRAPH_NO_NODE = -2 }; /* index for nodes beyond the limit, as a size_t */

#endif
