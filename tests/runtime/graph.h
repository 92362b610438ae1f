/* What the tests of graphs and of stream capture share. Include it last. */
#ifndef TEST_RUNTIME_GRAPH_H
#define TEST_RUNTIME_GRAPH_H
#include "child.h"

static const dim3 one = {1, 1, 1};

static inline unsigned *words(unsigned n)
{
    void *p;
    OK(cudaMallocHost(&p, n * sizeof(unsigned)));
    memset(p, 0, n * sizeof(unsigned));
    return p;
}

static inline cudaStream_t stream(void)
{
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static inline cudaEvent_t event(void)
{
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    return e;
}

static inline cudaError_t step(unsigned *p, unsigned expected, cudaStream_t s)
{
    void *args[] = {&p, &expected};
    return cudaLaunchKernel(stub_step, one, one, args, 0, s);
}

static inline cudaGraphNode_t add_step(cudaGraph_t g, cudaGraphNode_t after, unsigned *p, unsigned expected)
{
    void *args[] = {&p, &expected};
    struct cudaKernelNodeParams k = {stub_step, one, one, 0, args, NULL};
    cudaGraphNode_t n;
    OK(cudaGraphAddKernelNode(&n, g, &after, after ? 1 : 0, &k));
    p = NULL; /* the values were taken */
    expected = 77;
    return n;
}

static inline cudaGraphNode_t add_zero(cudaGraph_t g, cudaGraphNode_t after, unsigned *p)
{
    struct cudaMemsetParams m = {p, 0, 0, 4, 1, 1};
    cudaGraphNode_t n;
    OK(cudaGraphAddMemsetNode(&n, g, &after, after ? 1 : 0, &m));
    return n;
}

static inline cudaGraphExec_t ready(cudaGraph_t g)
{
    cudaGraphExec_t x;
    OK(cudaGraphInstantiate(&x, g, 0));
    return x;
}

static inline size_t count_nodes(cudaGraph_t g)
{
    size_t n;
    OK(cudaGraphGetNodes(g, NULL, &n));
    return n;
}

static inline void count_up(void *data)
{
    ++*(unsigned *)data;
}
#endif
