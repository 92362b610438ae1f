// Host functions of streams and graphs that touch what a launch or copy uses, without an order between the
// two, and their right twins.
#include <cuda_runtime.h>
#include "faults.h"

__global__ void write_all(int *a)
{
    a[threadIdx.x] = threadIdx.x;
}
__global__ void read_all(const int *a, int *to)
{
    to[threadIdx.x] = a[threadIdx.x];
}

// The flag says that the rest is written.
__global__ void read_flagged(const int *a, int *to, const volatile int *flag)
{
    while (!*flag)
        ;
    to[threadIdx.x] = a[threadIdx.x];
}

struct Shared { // memory of host and device; pinned or managed
    int *p;
    bool pinned;
    explicit Shared(bool pinned = false) : pinned(pinned)
    {
        if (pinned)
            cudaMallocHost((void **)&p, 256);
        else
            cudaMallocManaged((void **)&p, 256);
        memset(p, 0, 256);
    }
    ~Shared()
    {
        pinned ? cudaFreeHost(p) : cudaFree(p);
    }
};
static int sum;
static void nothing(void *)
{
}
static void reads(void *p)
{
    for (int i = 0; i < 64; i++)
        sum += ((int *)p)[i]; // !node_reads: host-race !beside_copy: host-race !captured: host-race
}
static void reads_too(void *p)
{
    sum += ((int *)p)[63]; // !other_stream: host-race !told: host-race
}
static void writes(void *p)
{
    ((int *)p)[5] = 5; // !node_writes: host-race
}
struct Flagged {
    int *data;
    volatile int *flag;
};
static void writes_flagged(void *p)
{
    ((Flagged *)p)->data[5] = 5; // !flagged: host-race
    *((Flagged *)p)->flag = 1;
}
static void CUDART_CB called(cudaStream_t, cudaError_t, void *p)
{
    ((int *)p)[7] = 7; // !called_back: host-race
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
    cudaGraphNode_t kernel(const void *f, void **arguments, const cudaGraphNode_t *after, int n) const
    {
        cudaGraphNode_t node;
        cudaKernelNodeParams p = {};
        p.func = (void *)f;
        p.gridDim = dim3(1);
        p.blockDim = dim3(64);
        p.kernelParams = arguments;
        cudaGraphAddKernelNode(&node, g, after, n, &p);
        return node;
    }
    cudaGraphNode_t host(cudaHostFn_t f, void *data, const cudaGraphNode_t *after, int n) const
    {
        cudaGraphNode_t node;
        cudaHostNodeParams p = {f, data};
        cudaGraphAddHostNode(&node, g, after, n, &p);
        return node;
    }
    void run(int times = 1) const
    {
        cudaGraphExec_t x;
        cudaGraphInstantiate(&x, g, 0);
        for (int i = 0; i < times; i++)
            cudaGraphLaunch(x, nullptr);
        cudaDeviceSynchronize();
        cudaGraphExecDestroy(x);
    }
};
struct Two { // streams that nothing orders, and an event
    cudaStream_t a, b;
    cudaEvent_t e;
    Two()
    {
        cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
        cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    }
    ~Two()
    {
        cudaDeviceSynchronize();
        cudaStreamDestroy(a), cudaStreamDestroy(b), cudaEventDestroy(e);
    }
    void order(cudaStream_t first, cudaStream_t then) const
    {
        cudaEventRecord(e, first), cudaStreamWaitEvent(then, e, 0);
    }
};

static void node_reads(int right) // what a kernel node writes
{
    Shared a;
    Graph g;
    void *one[] = {&a.p};
    auto first = g.kernel((void *)write_all, one, nullptr, 0);
    g.host(reads, a.p, &first, right);
    g.run(2);
}
static void node_writes(int right) // what a later kernel node reads
{
    Shared a(true), b;
    Graph g;
    void *two[] = {&a.p, &b.p};
    auto first = g.host(writes, a.p, nullptr, 0);
    g.kernel((void *)read_all, two, &first, right);
    g.run();
}
static void flagged(int right) // which waits for a flag, or does not look at it
{
    Shared a, b, flag;
    Graph g;
    Flagged data = {a.p, flag.p};
    void *three[] = {&a.p, &b.p, &flag.p};
    g.host(writes_flagged, &data, nullptr, 0);
    g.kernel(right ? (void *)read_flagged : (void *)read_all, three, nullptr, 0);
    g.run();
}
static void beside_copy(int right) // the destination of a copy
{
    Shared a(true);
    Buffer<int> from(64);
    Graph g;
    cudaGraphNode_t copy;
    cudaGraphAddMemcpyNode1D(&copy, g.g, nullptr, 0, a.p, from, 256, cudaMemcpyDeviceToHost);
    g.host(reads, a.p, &copy, right);
    g.run();
}
static void captured(int right)
{
    Two s;
    Shared a;
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaStreamBeginCapture(s.a, cudaStreamCaptureModeGlobal);
    s.order(s.a, s.b);
    write_all<<<1, 64, 0, s.a>>>(a.p);
    if (right)
        s.order(s.a, s.b);
    cudaLaunchHostFunc(s.b, reads, a.p);
    s.order(s.b, s.a);
    cudaStreamEndCapture(s.a, &g);
    cudaGraphInstantiate(&x, g, 0);
    cudaGraphLaunch(x, s.a);
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(x);
    cudaGraphDestroy(g);
}
static void other_stream(int right) // without a graph
{
    Two s;
    Shared a;
    cudaDeviceSynchronize();
    write_all<<<1, 64, 0, s.a>>>(a.p);
    if (right)
        s.order(s.a, s.b);
    cudaLaunchHostFunc(s.b, reads_too, a.p);
}
static void called_back(int right) // a callback, and a launch that is queued after it has run
{
    Two s;
    Shared a, b;
    cudaDeviceSynchronize();
    cudaStreamAddCallback(s.a, called, a.p, 0);
    if (right)
        s.order(s.a, s.b);
    read_all<<<1, 64, 0, s.b>>>(a.p, b.p);
}
static void told(int right) // a host function after the kernel may have told this one that it is done
{
    Two s;
    Shared a;
    cudaDeviceSynchronize();
    write_all<<<1, 64, 0, s.a>>>(a.p);
    if (right)
        cudaLaunchHostFunc(s.a, nothing, nullptr);
    cudaLaunchHostFunc(s.b, reads_too, a.p);
}
static void not_waited(int right) // the host itself, after the launch of a graph with a function
{
    Shared a;
    Graph g;
    cudaGraphExec_t x;
    void *one[] = {&a.p};
    g.kernel((void *)write_all, one, nullptr, 0);
    g.host(nothing, nullptr, nullptr, 0);
    cudaGraphInstantiate(&x, g.g, 0);
    cudaGraphLaunch(x, nullptr);
    if (right)
        cudaDeviceSynchronize();
    sum += a.p[1]; // !not_waited: host-race
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(x);
}

static void destroyed(int right) // which is no wait
{
    Shared a;
    Graph g;
    cudaGraphExec_t x;
    void *one[] = {&a.p};
    g.kernel((void *)write_all, one, nullptr, 0);
    cudaGraphInstantiate(&x, g.g, 0);
    cudaGraphLaunch(x, nullptr);
    if (right)
        cudaStreamSynchronize(nullptr);
    cudaGraphExecDestroy(x);
    sum += a.p[1]; // !destroyed: host-race
    cudaDeviceSynchronize();
}

static const Fault faults[] = {{"node_reads", node_reads},
                               {"node_writes", node_writes},
                               {"beside_copy", beside_copy},
                               {"captured", captured},
                               {"other_stream", other_stream},
                               {"called_back", called_back},
                               {"told", told},
                               {"not_waited", not_waited},
                               {"flagged", flagged},
                               {"destroyed", destroyed}};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
