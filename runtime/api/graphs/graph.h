/* Graphs on the CPU device. A node that does something has an operation (streams/stream.h) as its template:
 * each launch of the graph queues a copy of it. Like CUDA's, graphs are not for several threads at once; what
 * is known of them is. */
#ifndef MT_API_GRAPH_H
#define MT_API_GRAPH_H
#include "api/memory/memory.h"
#include "api/streams/stream.h"
#include <cuda_runtime_api.h>

struct CUgraphNode_st {
    struct CUgraph_st *graph;
    enum cudaGraphNodeType type;
    struct mt_op *op;         /* NULL: nothing to do */
    struct CUgraph_st *child; /* of its own, or NULL */
    struct mt_branch *branch; /* of a conditional node, or NULL */
    struct CUgraphNode_st **after;
    size_t nafter;
    struct CUgraphNode_st *from; /* the node that it is a clone of; only to compare with */
    struct mt_graph_memory *memory;
    void *freed;        /* what a free node frees */
    void **args;        /* for who asks for a kernel's parameters */
    int disabled, seen; /* seen: for walks */
    size_t index;       /* in its graph */
};

struct mt_user_share {
    struct CUuserObject_st *object;
    unsigned count;
};

struct CUgraph_st {
    struct CUgraphNode_st **node; /* in the order in which they were made */
    size_t n, capacity;
    int owned; /* by a node or an executable graph: the program cannot destroy it */
    _Atomic int
        captures; /* under way into it: neither it nor a node of it can be destroyed; of capture.c's lock */
    struct mt_user_share *user;
    size_t nuser;
    struct mt_condition **condition; /* handles that were made for it */
    size_t nconditions, condition_room;
};

struct CUgraph_st *mt_graph_new(void); /* NULL: out of memory */
/* NULL if the program's handle is not one. */
struct CUgraph_st *mt_graph_get(cudaGraph_t g);
struct CUgraphNode_st *mt_graph_node(cudaGraphNode_t n);
void mt_graph_free(struct CUgraph_st *g);
struct CUgraph_st *mt_graph_clone(const struct CUgraph_st *g);
/* A new node after `after`. The operation becomes the node's in any case. NULL: out of memory. */
struct CUgraphNode_st *mt_graph_add(struct CUgraph_st *g, enum cudaGraphNodeType type, struct mt_op *op,
                                    struct CUgraphNode_st *const *after, size_t n);
/* 1 if `n` is `of` or comes before it. */
int mt_graph_precedes(const struct CUgraphNode_st *n, struct CUgraphNode_st *of);
/* The nodes so that each comes after those it follows; the caller frees it. NULL: a cycle, or no memory. */
struct CUgraphNode_st **mt_graph_sorted(struct CUgraph_st *g);
/* The allocation node of this graph whose memory begins at `p`, or NULL. */
struct CUgraphNode_st *mt_graph_allocated(struct CUgraph_st *g, const void *p);

/* Gives a node a new template when it has one of this type; the operation is taken in any case. */
cudaError_t mt_graph_replace(struct CUgraphNode_st *n, enum cudaGraphNodeType type, struct mt_op *op);

/* Queues the graph's operations in `s`; or, behind the operation of `s` that runs now, which
 * *behind is at first, and the last one of them then. */
cudaError_t mt_graph_run(struct CUgraph_st *g, struct mt_stream *s, struct mt_op **behind);

/* What a conditional node does: `type` is an enum cudaGraphConditionalNodeType. Its bodies
 * are empty at first. */
struct mt_branch;
unsigned mt_branch_bodies(const struct mt_branch *b, struct CUgraph_st *const **body);
/* 1: of the same handle, type and number of bodies. */
int mt_branch_like(const struct mt_branch *a, const struct mt_branch *b);
/* 1 when there are conditional nodes; -1: of which a body has what CUDA does not let into one. */
int mt_graph_conditions(const struct CUgraph_st *g);

/* ---- Graphs whose kernels are traced by runtime/gpu ---- */

/* Was it made ready here? */
int mt_graph_gpu_knows(cudaGraphExec_t exec);
/* Launches it, whether it is known or not. */
cudaError_t mt_graph_gpu_launch(cudaGraphExec_t exec, cudaStream_t stream);
/* The device is reset: its graphs are gone. */
void mt_graph_gpu_reset(void);
#endif
