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
    void *freed;                     /* memory freed by a free node */
    const struct mt_host_site *site; /* of a free node */
    void **args;                     /* for queries of a kernel's parameters */
    int disabled, seen;              /* seen: used by walks */
    size_t index;                    /* index in its graph */
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
                             destroyed; protected by the lock of captures */
    struct mt_user_share *user;
    size_t nuser;
    struct mt_condition **condition; /* condition handles made for it */
    size_t nconditions, condition_room;
};

/* A conditional node; `type` is an enum cudaGraphConditionalNodeType. Its bodies are empty at first. */
struct mt_branch;

/* ---- Graphs with kernels traced by runtime/gpu ---- */

/* Returns 1 if the executable graph was prepared here. */
int mt_graph_gpu_knows(cudaGraphExec_t exec);
/* Launches the graph, prepared here or not. */
cudaError_t mt_graph_gpu_launch(cudaGraphExec_t exec, cudaStream_t stream);
/* Forgets all graphs of a device that is reset. */
void mt_graph_gpu_reset(void);
#endif
