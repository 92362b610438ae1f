/* Launches of graphs on the CPU device: the graph's operations are queued in the stream, one after the other
 * in an order that its edges allow. Each kernel is a launch of its own there, in the trace too. */
#include "api/copy/copy.h"
#include "api/tables/error.h"
#include "api/launch/event.h"
#include "graph.h"
#include "api/launch/launch.h"
#include "api/launch/libcall.h"
#include <stdlib.h>

static void graph_launch_bind(struct mt_op *op, struct mt_stream *s)
{
    if (op->kind == MT_OP_KERNEL)
        mt_launch_bind(op, s);
    else if (op->kind == MT_OP_LIBRARY)
        mt_libcall_bind(op, s);
    else if (op->kind == MT_OP_COPY)
        mt_copy_bind(op, s);
    else if (op->kind == MT_OP_FILL)
        mt_fill_bind(op, s);
    else if (op->kind == MT_OP_RECORD || op->kind == MT_OP_WAIT)
        mt_event_bind(op, s);
}

void mt_graph_put(struct mt_op *op, struct mt_stream *s, struct mt_op **behind)
{
    if (!behind) {
        mt_op_enqueue(s, op);
        return;
    }
    mt_op_follow(*behind, op);
    *behind = op;
}

static cudaError_t run_node(const struct CUgraphNode_st *n, struct mt_stream *s, struct mt_op **behind)
{
    if (n->child)
        return mt_graph_run(n->child, s, behind);
    if (n->branch)
        return mt_branch_put(n->branch, s, behind);
    if (n->memory)
        mt_graph_memory_renew(n->memory);
    if (!n->op || n->disabled)
        return cudaSuccess;
    struct mt_op *op = mt_op_copy(n->op);
    cudaError_t e = !op ? cudaErrorMemoryAllocation : op->renew ? (cudaError_t)op->renew(op) : cudaSuccess;
    if (e) {
        mt_op_free(op);
        return mt_fail(e);
    }
    graph_launch_bind(op, s);
    mt_graph_put(op, s, behind);
    return cudaSuccess;
}

cudaError_t mt_graph_run(struct CUgraph_st *g, struct mt_stream *s, struct mt_op **behind)
{
    struct CUgraphNode_st **sorted = mt_graph_sorted(g);
    cudaError_t e = sorted ? mt_condition_begin(g, s, behind) : mt_fail(cudaErrorMemoryAllocation);
    for (size_t i = 0; i < g->n && !e; i++)
        e = run_node(sorted[i], s, behind);
    free(sorted);
    return e;
}
