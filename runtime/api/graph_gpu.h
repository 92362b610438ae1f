/* Graphs whose kernels are traced by runtime/gpu. */
#ifndef MT_API_GRAPH_GPU_H
#define MT_API_GRAPH_GPU_H
#include <cuda_runtime_api.h>

/* The launch context of a kernel node of a graph that is ready to be launched, which is to run this from now
 * on; NULL: it is not traced. *func is what runs: p->func, or the version without record calls if it can
 * never be traced. */
void *mt_graph_gpu_context(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *p,
                           const void **func);
/* This node runs another kernel, or the same in another way, from now on. */
void mt_graph_gpu_changed(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *p);
/* The nodes of a graph, each after those that it waits for. To be freed. */
cudaGraphNode_t *mt_graph_sorted_nodes(cudaGraph_t graph, size_t *n);
/* The device is reset: its graphs are gone. */
void mt_graph_gpu_reset(void);
#endif
