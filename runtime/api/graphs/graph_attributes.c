/* Attributes of kernel nodes of graphs: those of launches that the CPU device knows. */
#include "api/entry.h"
#include "api/tables/error.h"
#include "graph.h"
#include "api/launch/launch.h"
#include <stdlib.h>
#include <string.h>

/* A kernel node taken apart. */
struct parts {
    struct CUgraphNode_st *node;
    const struct mt_function *f;
    struct mt_launch_config c;
    void **args; /* they point into the node's operation */
};

static cudaError_t graph_attributes_open(struct parts *p, cudaGraphNode_t node)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || n->type != cudaGraphNodeTypeKernel)
        return mt_fail(cudaErrorInvalidValue);
    p->node = n;
    p->args = malloc((mt_launch_nparams(n->op) + 1) * sizeof *p->args);
    if (!p->args)
        return mt_fail(cudaErrorMemoryAllocation);
    p->f = mt_launch_parts(n->op, &p->c, p->args);
    return cudaSuccess;
}

/* The node gets the configuration as it is now. */
static cudaError_t graph_attributes_change(struct parts *p)
{
    struct mt_op *op;
    cudaError_t e = mt_launch_op(&op, p->f->host, &p->c, p->args, p->node->op->site);
    return e ? e : mt_graph_replace(p->node, cudaGraphNodeTypeKernel, op);
}

cudaError_t impl_cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID which,
                                                 cudaLaunchAttributeValue *out)
{
    struct parts p;
    cudaError_t e = out ? graph_attributes_open(&p, node) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    free(p.args);
    memset(out, 0, sizeof *out);
    if (which == cudaLaunchAttributeCooperative)
        out->cooperative = p.c.cooperative;
    else if (which == cudaLaunchAttributeClusterDimension) {
        out->clusterDim.x = p.c.cluster.x;
        out->clusterDim.y = p.c.cluster.y;
        out->clusterDim.z = p.c.cluster.z;
    } else
        return mt_fail(cudaErrorNotSupported);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID which,
                                                 const cudaLaunchAttributeValue *value)
{
    struct parts p;
    cudaError_t e = value ? graph_attributes_open(&p, node) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    e = mt_fail(mt_launch_attributes(&p.c, &(cudaLaunchAttribute){.id = which, .val = *value}, 1));
    if (!e)
        e = graph_attributes_change(&p);
    free(p.args);
    return e;
}

cudaError_t impl_cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from)
{
    struct parts a, b;
    cudaError_t e = graph_attributes_open(&a, from);
    if (e)
        return e;
    free(a.args);
    e = graph_attributes_open(&b, to);
    if (e)
        return e;
    b.c.cooperative = a.c.cooperative;
    b.c.cluster = a.c.cluster;
    e = graph_attributes_change(&b);
    free(b.args);
    return e;
}
