/* Graphs whose kernels are traced by runtime/gpu. */
#ifndef MT_API_GRAPH_GPU_H
#define MT_API_GRAPH_GPU_H
#include <cuda_runtime_api.h>

/* Before a graph is made ready to be launched, and after it, with its result `e`, which is given back. */
struct mt_graph_exec;
/* Was it made ready here? */
int mt_graph_gpu_knows(cudaGraphExec_t exec);
/* Launches it, whether it is known or not. */
cudaError_t mt_graph_gpu_launch(cudaGraphExec_t exec, cudaStream_t stream);
/* The nodes of a graph, each after those that it waits for. To be freed. */
cudaGraphNode_t *mt_graph_sorted_nodes(cudaGraph_t graph, size_t *n);
/* The device is reset: its graphs are gone. */
void mt_graph_gpu_reset(void);
#endif
