// Graphs whose nodes no edge orders, and their right twins: nodes are ordered by edges alone, whatever stream
// runs them.
#include <cuda_runtime.h>
#include "faults.h"

__global__ void write_all(int *a, int value)
{
    a[threadIdx.x] = value + threadIdx.x;
}
__global__ void read_all(const int *a, int *to)
{
    to[threadIdx.x] = a[threadIdx.x];
}

struct Graph {
    cudaGraph_t g = nullptr;
    Graph()
    {
        cudaGraphCreate(&g, 0);
    }
    ~Graph()
    {
        cudaGraphDestroy(g);
    }
};
struct Ready {
    cudaGraphExec_t x = nullptr;
    explicit Ready(cudaGraph_t g)
    {
        cudaGraphInstantiate(&x, g, 0);
    }
    ~Ready()
    {
        cudaGraphExecDestroy(x);
    }
    void run(cudaStream_t s = nullptr, bool wait = true) const
    {
        cudaGraphLaunch(x, s);
        if (wait)
            cudaDeviceSynchronize();
    }
};

static cudaKernelNodeParams kernel(const void *f, void **arguments)
{
    cudaKernelNodeParams p = {};
    p.func = (void *)f;
    p.gridDim = dim3(1);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    return p;
}

static void by_hand(int right)
{
    Buffer<int> a(64), b(64);
    Graph g;
    cudaGraphNode_t first, second;
    int *pa = a, *pb = b, value = 1;
    void *one[] = {&pa, &value}, *two[] = {&pa, &pb};
    auto w = kernel((void *)write_all, one), r = kernel((void *)read_all, two);
    cudaGraphAddKernelNode(&first, g.g, nullptr, 0, &w);
    cudaGraphAddKernelNode(&second, g.g, &first, right, &r); // !by_hand: unordered
    Ready(g.g).run();
    get(b, 256);
}
static void captured(int right)
{
    Buffer<int> a(64), b(64);
    cudaStream_t s, t;
    cudaEvent_t fork, mid, join;
    cudaGraph_t g;
    cudaStreamCreate(&s), cudaStreamCreate(&t);
    cudaEventCreate(&fork), cudaEventCreate(&mid), cudaEventCreate(&join);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaEventRecord(fork, s), cudaStreamWaitEvent(t, fork, 0);
    write_all<<<1, 64, 0, s>>>(a, 1);
    if (right)
        cudaEventRecord(mid, s), cudaStreamWaitEvent(t, mid, 0);
    read_all<<<1, 64, 0, t>>>(a, b); // !captured: unordered
    cudaEventRecord(join, t), cudaStreamWaitEvent(s, join, 0);
    cudaStreamEndCapture(s, &g);
    Ready(g).run(s);
    get(b, 256);
    cudaGraphDestroy(g);
    cudaStreamDestroy(s), cudaStreamDestroy(t);
    cudaEventDestroy(fork), cudaEventDestroy(mid), cudaEventDestroy(join);
}
static void filled(int right) // a fill beside a kernel
{
    Buffer<int> a(64), b(64);
    Graph g;
    cudaGraphNode_t first, second;
    int *pa = a, *pb = b;
    void *two[] = {&pa, &pb};
    auto r = kernel((void *)read_all, two);
    cudaMemsetParams fill = {};
    fill.dst = pa, fill.elementSize = 4, fill.width = 64, fill.height = 1, fill.value = 5;
    cudaGraphAddMemsetNode(&first, g.g, nullptr, 0, &fill);
    cudaGraphAddKernelNode(&second, g.g, &first, right, &r); // !filled: unordered
    Ready(g.g).run();
    get(b, 256);
}
static void copied_out(int right) // a copy beside a kernel
{
    Buffer<int> a(64), b(64);
    Graph g;
    cudaGraphNode_t first, second;
    int *pa = a, value = 3;
    void *one[] = {&pa, &value};
    auto w = kernel((void *)write_all, one);
    cudaGraphAddKernelNode(&first, g.g, nullptr, 0, &w);
    const auto way = cudaMemcpyDeviceToDevice;
    cudaGraphAddMemcpyNode1D(&second, g.g, &first, right, b, a, 256, way); // !copied_out: unordered
    Ready(g.g).run();
    get(b, 256);
}
static void in_a_child(int right) // the child graph's node, and one beside the child
{
    Buffer<int> a(64), b(64);
    Graph g, inner;
    cudaGraphNode_t in, child, beside;
    int *pa = a, *pb = b, value = 1;
    void *one[] = {&pa, &value}, *two[] = {&pa, &pb};
    auto w = kernel((void *)write_all, one), r = kernel((void *)read_all, two);
    cudaGraphAddKernelNode(&in, inner.g, nullptr, 0, &w);
    cudaGraphAddChildGraphNode(&child, g.g, nullptr, 0, inner.g);
    cudaGraphAddKernelNode(&beside, g.g, &child, right, &r); // !in_a_child: unordered
    Ready(g.g).run();
    get(b, 256);
}
static void
way_round(int right) // ordered over three nodes without work; or the last edge of the way is missing
{
    Buffer<int> a(64), b(64);
    Graph g;
    cudaGraphNode_t first, empty[3], second;
    int *pa = a, *pb = b, value = 1;
    void *one[] = {&pa, &value}, *two[] = {&pa, &pb};
    auto w = kernel((void *)write_all, one), r = kernel((void *)read_all, two);
    cudaGraphAddKernelNode(&first, g.g, nullptr, 0, &w);
    cudaGraphAddEmptyNode(&empty[0], g.g, &first, 1);
    cudaGraphAddEmptyNode(&empty[1], g.g, &empty[0], 1);
    cudaGraphAddEmptyNode(&empty[2], g.g, &empty[1], right);
    cudaGraphAddKernelNode(&second, g.g, &empty[2], 1, &r); // !way_round: unordered
    Ready(g.g).run();
    get(b, 256);
}
static void wide(int right) // 60 nodes beside each other, more than there are numbers for, and one that reads
                            // what all have written
{
    Buffer<int> a(64 * 60), b(64);
    Graph g;
    cudaGraphNode_t each[60], last;
    int *pa[60], *pb = b, value = 1;
    for (int i = 0; i < 60; i++) {
        pa[i] = a + 64 * i;
        void *one[] = {&pa[i], &value};
        auto w = kernel((void *)write_all, one);
        cudaGraphAddKernelNode(&each[i], g.g, nullptr, 0, &w);
    }
    void *two[] = {&pa[2], &pb};
    auto r = kernel((void *)read_all, two);
    cudaGraphAddKernelNode(&last, g.g, each, right ? 60 : 2, &r); // !wide: unordered
    for (int i = 0; i < 3; i++)
        Ready(g.g).run();
    get(b, 256);
}
static void again_and_again(int right) // made anew for each of 50 launches
{
    Buffer<int> a(64), b(64);
    for (int i = 0; i < 50; i++) {
        Graph g;
        cudaGraphNode_t first, second;
        int *pa = a, *pb = b, value = i;
        void *one[] = {&pa, &value}, *two[] = {&pa, &pb};
        auto w = kernel((void *)write_all, one), r = kernel((void *)read_all, two);
        cudaGraphAddKernelNode(&first, g.g, nullptr, 0, &w);
        cudaGraphAddKernelNode(&second, g.g, &first, right || i < 49, &r); // !again_and_again: unordered
        Ready(g.g).run();
    }
    get(b, 256);
}
static void two_graphs(int right) // of two ready graphs in two streams; launches of one follow each other
{
    Buffer<int> a(64);
    cudaStream_t s, t;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking),
        cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    Graph g;
    cudaGraphNode_t node;
    int *pa = a, value = 1;
    void *one[] = {&pa, &value};
    auto w = kernel((void *)write_all, one);
    cudaGraphAddKernelNode(&node, g.g, nullptr, 0, &w); // !two_graphs: unordered
    Ready x(g.g), y(g.g);
    x.run(s, false);
    (right ? x : y).run(t, false);
    cudaDeviceSynchronize();
    get(a, 256);
    cudaStreamDestroy(s), cudaStreamDestroy(t);
}
static void after_the_graph(int right) // what its stream, or another one, does behind it
{
    Buffer<int> a(64), b(64);
    cudaStream_t s, t;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking),
        cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    Graph g;
    cudaGraphNode_t node[2];
    int *pa = a, *pb = b, value = 1;
    void *one[] = {&pa, &value}, *other[] = {&pb, &value};
    auto w = kernel((void *)write_all, one), v = kernel((void *)write_all, other);
    cudaGraphAddKernelNode(&node[0], g.g, nullptr, 0, &w);
    cudaGraphAddKernelNode(&node[1], g.g, nullptr, 0, &v);
    Ready x(g.g);
    x.run(s, false);
    read_all<<<1, 64, 0, right ? s : t>>>(a, a + 0); // !after_the_graph: unordered
    cudaDeviceSynchronize();
    get(a, 256), get(b, 256);
    cudaStreamDestroy(s), cudaStreamDestroy(t);
}

// ---- memory of alloc nodes, from there to the free node ----

static cudaMemAllocNodeParams some()
{
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = 256;
    return p;
}
static void before_alloc(int right) // a use that does not follow the alloc node
{
    Graph g;
    cudaGraphNode_t alloc, use, free;
    auto m = some();
    cudaGraphAddMemAllocNode(&alloc, g.g, nullptr, 0, &m);
    int value = 1;
    void *one[] = {&m.dptr, &value};
    auto w = kernel((void *)write_all, one);
    cudaGraphAddKernelNode(&use, g.g, &alloc, right, &w); // !before_alloc: unordered
    cudaGraphNode_t both[] = {alloc, use};
    cudaGraphAddMemFreeNode(&free, g.g, both, 2, m.dptr);
    Ready(g.g).run();
}
static void after_free(int right) // a use that the free node does not follow
{
    Graph g;
    cudaGraphNode_t alloc, use, free;
    auto m = some();
    cudaGraphAddMemAllocNode(&alloc, g.g, nullptr, 0, &m);
    int value = 1;
    void *one[] = {&m.dptr, &value};
    auto w = kernel((void *)write_all, one);
    cudaGraphAddKernelNode(&use, g.g, &alloc, 1, &w); // !after_free: unordered
    cudaGraphAddMemFreeNode(&free, g.g, right ? &use : &alloc, 1, m.dptr);
    Ready x(g.g);
    for (int i = 0; i < 3; i++) // of one after the other
        x.run(nullptr, false);
    cudaDeviceSynchronize();
}
static void captured_free(int right) // in a stream that does not wait for the use
{
    cudaStream_t s, t;
    cudaEvent_t fork, used, join;
    cudaGraph_t g;
    int *p;
    cudaStreamCreate(&s), cudaStreamCreate(&t);
    cudaEventCreate(&fork), cudaEventCreate(&used), cudaEventCreate(&join);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMallocAsync((void **)&p, 256, s);
    cudaEventRecord(fork, s), cudaStreamWaitEvent(t, fork, 0);
    write_all<<<1, 64, 0, s>>>(p, 1); // !captured_free: unordered
    cudaEventRecord(used, s);
    if (right)
        cudaStreamWaitEvent(t, used, 0);
    cudaFreeAsync(p, t);
    cudaEventRecord(join, t), cudaStreamWaitEvent(s, join, 0);
    cudaStreamEndCapture(s, &g);
    Ready(g).run(s);
    cudaGraphDestroy(g);
    cudaStreamDestroy(s), cudaStreamDestroy(t);
    cudaEventDestroy(fork), cudaEventDestroy(used), cudaEventDestroy(join);
}

static const Fault faults[] = {
    {"before_alloc", before_alloc},
    {"after_free", after_free},
    {"captured_free", captured_free},
    {"by_hand", by_hand},
    {"captured", captured},
    {"filled", filled},
    {"copied_out", copied_out},
    {"in_a_child", in_a_child},
    {"way_round", way_round},
    {"wide", wide},
    {"two_graphs", two_graphs},
    {"after_the_graph", after_the_graph},
    {"again_and_again", again_and_again},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
