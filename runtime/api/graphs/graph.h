/* Graphs on the CPU device. A node with work has an operation (streams/stream.h) as its template: each launch
 * of the graph queues a copy of it. As in CUDA, one graph may not be used by several threads at once; the
 * table of graphs may. */
#ifndef MT_API_GRAPH_H
#define MT_API_GRAPH_H
#include "api/memory/memory.h"
#include "api/streams/stream.h"
#include <cuda_runtime_api.h>

struct CUgraphNode_st {
    struct CUgraph_st *graph;
    enum cudaGraphNodeType type;
    struct mt_op *op;         /* NULL: nothing to do */
    struct CUgraph_st *child; /* graph of a child graph node, or NULL */
    struct mt_branch *branch; /* branch of a conditional node, or NULL */
    struct CUgraphNode_st **after;
    size_t nafter;
    struct CUgraphNode_st *from; /* node that it was cloned from; only for comparisons */
    struct mt_graph_memory *memory;
    void *freed;        /* memory freed by a free node */
    void **args;        /* for queries of a kernel's parameters */
    int disabled, seen; /* seen: used by walks */
    size_t index;       /* index in its graph */
};

struct mt_user_share {
    struct CUuserObject_st *object;
    unsigned count;
};

struct CUgraph_st {
    struct CUgraphNode_st **node; /* in the order of creation */
    size_t n, capacity;
    int owned;            /* by a node or an executable graph: the program cannot destroy it */
    _Atomic int captures; /* number of captures into it: while not 0, neither it nor its nodes can be
                             destroyed; protected by capture.c's lock */
    struct mt_user_share *user;
    size_t nuser;
    struct mt_condition **condition; /* condition handles made for it */
    size_t nconditions, condition_room;
};

struct CUgraph_st *mt_graph_new(void); /* returns NULL if out of memory */
/* Return NULL if the program's handle is invalid. */
struct CUgraph_st *mt_graph_get(cudaGraph_t g);
struct CUgraphNode_st *mt_graph_node(cudaGraphNode_t n);
void mt_graph_free(struct CUgraph_st *g);
struct CUgraph_st *mt_graph_clone(const struct CUgraph_st *g);
/* Adds a node after `after`, and takes the operation even on failure. Returns NULL if out of memory. */
struct CUgraphNode_st *mt_graph_add(struct CUgraph_st *g, enum cudaGraphNodeType type, struct mt_op *op,
                                    struct CUgraphNode_st *const *after, size_t n);
/* Returns 1 if `n` is `of` or comes before it. */
int mt_graph_precedes(const struct CUgraphNode_st *n, struct CUgraphNode_st *of);
/* Returns the nodes in topological order, freed by the caller, or NULL if there is a cycle or no memory. */
struct CUgraphNode_st **mt_graph_sorted(struct CUgraph_st *g);
/* Returns the allocation node of this graph whose memory begins at `p`, or NULL. */
struct CUgraphNode_st *mt_graph_allocated(struct CUgraph_st *g, const void *p);

/* Replaces a node's template by one of the same type; takes the operation even on failure. */
cudaError_t mt_graph_replace(struct CUgraphNode_st *n, enum cudaGraphNodeType type, struct mt_op *op);

/* Queues the graph's operations in `s`; or behind the running operation *behind, which is then set to the
 * last one of them. */
cudaError_t mt_graph_run(struct CUgraph_st *g, struct mt_stream *s, struct mt_op **behind);

/* A conditional node; `type` is an enum cudaGraphConditionalNodeType. Its bodies are empty at first. */
struct mt_branch;
unsigned mt_branch_bodies(const struct mt_branch *b, struct CUgraph_st *const **body);
/* Returns 1 if both have the same handle, type and number of bodies. */
int mt_branch_like(const struct mt_branch *a, const struct mt_branch *b);
/* Returns 1 if the graph has conditional nodes, or -1 if one of their bodies holds nodes that CUDA does not
 * allow there. */
int mt_graph_conditions(const struct CUgraph_st *g);

/* ---- Graphs with kernels traced by runtime/gpu ---- */

/* Returns 1 if the executable graph was prepared here. */
int mt_graph_gpu_knows(cudaGraphExec_t exec);
/* Launches the graph, prepared here or not. */
cudaError_t mt_graph_gpu_launch(cudaGraphExec_t exec, cudaStream_t stream);
/* Forgets all graphs of a device that is reset. */
void mt_graph_gpu_reset(void);
#endif
