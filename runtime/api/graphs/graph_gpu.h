/* Graphs whose kernels are traced by runtime/gpu. */
#ifndef MT_API_GRAPH_GPU_H
#define MT_API_GRAPH_GPU_H
#include <cuda_runtime_api.h>

/* Before a graph is made ready to be launched, and after it, with its result `e`, which is given back. */
struct mt_graph_exec;
struct mt_graph_exec *mt_graph_gpu_begin(cudaGraph_t graph);
cudaError_t mt_graph_gpu_end(struct mt_graph_exec *x, const cudaGraphExec_t *out, cudaError_t e);
/* The same when it is updated. */
struct mt_graph_exec *mt_graph_gpu_update(cudaGraphExec_t exec, cudaGraph_t graph);
cudaError_t mt_graph_gpu_updated(cudaGraphExec_t exec, struct mt_graph_exec *now, cudaError_t e);
/* After a node was switched on or off, a child graph replaced, or all of it destroyed, if `e` says that it
 * was done. */
cudaError_t mt_graph_gpu_enabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled, cudaError_t e);
cudaError_t mt_graph_gpu_child(cudaGraphExec_t exec, cudaError_t e);
cudaError_t mt_graph_gpu_destroyed(cudaGraphExec_t exec, cudaError_t e);
/* Was it made ready here? */
int mt_graph_gpu_knows(cudaGraphExec_t exec);
/* Launches it, whether it is known or not. */
cudaError_t mt_graph_gpu_launch(cudaGraphExec_t exec, cudaStream_t stream);
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
