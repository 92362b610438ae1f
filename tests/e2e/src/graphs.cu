// Graphs that are launched, changed and launched again; every kernel stores into words
// of its own launch's number.
#include "../../../examples/common/example.h"
#include <cstring>

__global__ void fill(int *p, int value)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

__global__ void add(int *to, const int *from, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] += from[i];
}

static const int N = 96;
static int *a, *b, *c;

static cudaGraphNode_t kernel(cudaGraph_t g, std::initializer_list<cudaGraphNode_t> after,
                              void (*f)(int *, int), int *p, int value)
{
    cudaGraphNode_t node;
    void *args[] = {&p, &value};
    cudaKernelNodeParams k = {};
    k.func = (void *)f;
    k.gridDim = dim3(3);
    k.blockDim = dim3(32);
    k.kernelParams = args;
    CHECK(cudaGraphAddKernelNode(&node, g, after.begin(), after.size(), &k));
    return node;
}

static cudaGraphNode_t sum(cudaGraph_t g, std::initializer_list<cudaGraphNode_t> after, int n)
{
    cudaGraphNode_t node;
    void *args[] = {&c, &a, &n};
    cudaKernelNodeParams k = {};
    k.func = (void *)add;
    k.gridDim = dim3(3);
    k.blockDim = dim3(32);
    k.kernelParams = args;
    CHECK(cudaGraphAddKernelNode(&node, g, after.begin(), after.size(), &k));
    return node;
}

// fill a, then a child graph that fills b, then add; `fewer` is what changes.
static cudaGraph_t make(int n, cudaGraphNode_t *first, cudaGraphNode_t *last)
{
    cudaGraph_t g, child;
    cudaGraphNode_t inner;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphCreate(&child, 0));
    kernel(child, {}, fill, b, 7);
    *first = kernel(g, {}, fill, a, 5);
    CHECK(cudaGraphAddChildGraphNode(&inner, g, first, 1, child));
    *last = sum(g, {inner}, n);
    CHECK(cudaGraphDestroy(child));
    return g;
}

int main()
{
    cudaStream_t s[2];
    cudaGraphExec_t exec;
    cudaGraphNode_t first, last, f2, l2;
    int got[N];
    for (auto &x : s)
        CHECK(cudaStreamCreate(&x));
    for (int **p : {&a, &b, &c})
        CHECK(cudaMalloc(p, N * sizeof(int)));
    CHECK(cudaMemset(c, 0, N * sizeof(int)));
    cudaGraph_t g = make(N, &first, &last), g2 = make(40, &f2, &l2);
    CHECK(cudaGraphInstantiate(&exec, g, 0));
    for (int i = 0; i < 6; i++) // 6 launches of 3 kernels, in two streams by turns
        CHECK(cudaGraphLaunch(exec, s[i % 2]));
    CHECK(cudaDeviceSynchronize());
    cudaKernelNodeParams k;
    CHECK(cudaGraphKernelNodeGetParams(last, &k));
    int n = 64;
    void *args[] = {&c, &a, &n};
    k.kernelParams = args;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, last, &k));
    CHECK(cudaGraphLaunch(exec, s[0]));
    CHECK(cudaGraphNodeSetEnabled(exec, first, 0));
    CHECK(cudaGraphLaunch(exec, s[0]));
    CHECK(cudaGraphNodeSetEnabled(exec, first, 1));
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(exec, g2, &info));
    CHECK(cudaGraphLaunch(exec, s[0]));
    // CUDA captures no launch of a graph: it is refused, and what was captured before it is worth nothing
    cudaGraph_t outer;
    cudaGraphExec_t both;
    CHECK(cudaStreamBeginCapture(s[1], cudaStreamCaptureModeGlobal));
    fill<<<1, 32, 0, s[1]>>>(b, 8);
    printf("%s\n", cudaGetErrorName(cudaGraphLaunch(exec, s[1])));
    cudaStreamEndCapture(s[1], &outer);
    cudaGetLastError();
    // what was captured and another graph, one after the other
    cudaGraphNode_t before, behind;
    size_t one = 1;
    CHECK(cudaStreamBeginCapture(s[1], cudaStreamCaptureModeGlobal));
    fill<<<1, 32, 0, s[1]>>>(b, 9);
    CHECK(cudaStreamEndCapture(s[1], &outer));
    CHECK(cudaGraphGetNodes(outer, &before, &one));
    CHECK(cudaGraphAddChildGraphNode(&behind, outer, &before, 1, g2));
    CHECK(cudaGraphInstantiate(&both, outer, 0));
    CHECK(cudaGraphLaunch(both, s[1]));
    CHECK(cudaGraphLaunch(both, s[1]));
    CHECK(cudaGraphExecDestroy(both)); // while it runs
    CHECK(cudaGraphLaunch(exec, s[1]));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got, c, sizeof got, cudaMemcpyDeviceToHost));
    printf("%d %d %d\n", got[0], got[50], got[90]);
    return 0;
}
