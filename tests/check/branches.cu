// Bodies of conditional nodes whose nodes no edge orders, and their right twins. A body is ordered inside by
// its edges, comes after what its node comes after, and ends before what comes after its node.
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
__global__ void decide(cudaGraphConditionalHandle handle, unsigned value)
{
    cudaGraphSetConditional(handle, value);
}
__global__ void count_down(int *left, cudaGraphConditionalHandle handle)
{
    cudaGraphSetConditional(handle, --*left > 0);
}
// One half in even rounds, the other in odd ones; `other`: the other way round.
__global__ void half(int *a, const int *left, int other)
{
    a[(*left + other) % 2 * 64 + threadIdx.x]++;
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
    cudaGraphConditionalHandle handle(unsigned first) const
    {
        cudaGraphConditionalHandle h;
        cudaGraphConditionalHandleCreate(&h, g, first, cudaGraphCondAssignDefault);
        return h;
    }
    void run(int launches = 1) const
    {
        cudaGraphExec_t x;
        cudaGraphInstantiate(&x, g, 0);
        for (int i = 0; i < launches; i++)
            cudaGraphLaunch(x, nullptr);
        cudaDeviceSynchronize();
        cudaGraphExecDestroy(x);
    }
};

template <typename A, typename B, typename... C>
static cudaGraphNodeParams kernel(void (*f)(A, B, C...), int threads, void **args)
{
    cudaGraphNodeParams p = {cudaGraphNodeTypeKernel};
    p.kernel.func = (void *)f;
    p.kernel.gridDim = {1, 1, 1};
    p.kernel.blockDim = {(unsigned)threads, 1, 1};
    p.kernel.kernelParams = args;
    return p;
}
// Macros, so that each call has the line of its use.
#if CUDART_VERSION >= 13000
#define ADD(out, graph, after, n, p) cudaGraphAddNode(out, graph, after, nullptr, n, p)
#else
#define ADD(out, graph, after, n, p) cudaGraphAddNode(out, graph, after, n, p)
#endif
#define KERNEL(out, graph, after, n, f, threads, ...)                                                        \
    do {                                                                                                     \
        void *args_[] = {__VA_ARGS__};                                                                       \
        auto k_ = kernel(f, threads, args_);                                                                 \
        ADD(out, graph, after, n, &k_);                                                                      \
    } while (0)

static cudaGraphNode_t branch(cudaGraph_t g, const cudaGraphNode_t *after, cudaGraphConditionalHandle h,
                              cudaGraphConditionalNodeType type, unsigned size, cudaGraph_t *body)
{
    cudaGraphNodeParams p = {cudaGraphNodeTypeConditional};
    cudaGraphNode_t n = nullptr;
    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = size;
    ADD(&n, g, after, after ? 1 : 0, &p);
    memcpy(body, p.conditional.phGraph_out, size * sizeof *body);
    return n;
}

static void taken(int right) // of an IF node, decided by a kernel
{
    Buffer<int> a(64), b(64);
    Graph g;
    cudaGraph_t body;
    cudaGraphNode_t first, in[2];
    int *pa = a, *pb = b, value = 1;
    unsigned on = 1;
    auto h = g.handle(0);
    KERNEL(&first, g.g, nullptr, 0, decide, 1, &h, &on);
    branch(g.g, &first, h, cudaGraphCondTypeIf, 1, &body);
    KERNEL(&in[0], body, nullptr, 0, write_all, 64, &pa, &value);
    KERNEL(&in[1], body, in, right, read_all, 64, &pa, &pb); // !taken: unordered
    g.run();
    get(b, 256);
}
static void not_taken(int right) // the second body, in which a fill is beside a copy; three launches
{
    Buffer<int> a(64), b(64);
    Graph g;
    cudaGraph_t body[2];
    cudaGraphNode_t in[2];
    branch(g.g, nullptr, g.handle(0), cudaGraphCondTypeIf, 2, body);
    cudaMemsetParams fill = {};
    fill.dst = a, fill.elementSize = 4, fill.width = 64, fill.height = 1, fill.value = 5;
    cudaGraphAddMemsetNode(&in[0], body[1], nullptr, 0, &fill);
    const auto way = cudaMemcpyDeviceToDevice;
    cudaGraphAddMemcpyNode1D(&in[1], body[1], in, right, b, a, 256, way); // !not_taken: unordered
    g.run(3);
    get(b, 256);
}
static void chosen(int right) // the third body of a SWITCH node; the others are not run
{
    Buffer<int> a(64), b(64);
    Graph g;
    cudaGraph_t body[4];
    cudaGraphNode_t in[2];
    int *pa = a, *pb = b, value = 1;
    branch(g.g, nullptr, g.handle(2), cudaGraphCondTypeSwitch, 4, body);
    for (int i = 0; i < 4; i++) {
        KERNEL(&in[0], body[i], nullptr, 0, write_all, 64, &pa, &value);
        KERNEL(&in[1], body[i], in, right || i != 2, read_all, 64, &pa, &pb); // !chosen: unordered
    }
    g.run();
    get(b, 256);
}
static void rounds(int right) // of a WHILE node, which follow each other; of one round only halves are apart
{
    Buffer<int> a(128), left(1);
    Graph g;
    cudaGraph_t body;
    cudaGraphNode_t in[3];
    int *pa = a, *pl = left, many = 300, zero = 0, other = right;
    cudaMemcpy(left, &many, 4, cudaMemcpyHostToDevice);
    auto h = g.handle(1);
    branch(g.g, nullptr, h, cudaGraphCondTypeWhile, 1, &body);
    KERNEL(&in[0], body, nullptr, 0, half, 64, &pa, &pl, &zero);
    KERNEL(&in[1], body, nullptr, 0, half, 64, &pa, &pl, &other); // !rounds: unordered
    KERNEL(&in[2], body, in, 2, count_down, 1, &pl, &h);
    g.run();
    get(a, 512);
}
static void in_between(int right) // nodes before, beside and after the node; its body reads and writes
{
    Buffer<int> a(64), b(64), c(64);
    Graph g;
    cudaGraph_t body;
    cudaGraphNode_t before, node, in[2], beside, after;
    int *pa = a, *pb = b, *pc = c, value = 1;
    KERNEL(&before, g.g, nullptr, 0, write_all, 64, &pa, &value);
    node = branch(g.g, &before, g.handle(1), cudaGraphCondTypeIf, 1, &body);
    KERNEL(&in[0], body, nullptr, 0, read_all, 64, &pa, &pb);
    KERNEL(&in[1], body, nullptr, 0, read_all, 64, &pa, &pc);
    KERNEL(&beside, g.g, nullptr, 0, write_all, 64, &pc, &value); // !in_between: unordered
    if (right)
        cudaGraphDestroyNode(beside);
    KERNEL(&after, g.g, &node, 1, read_all, 64, &pb, &pa);
    g.run(2);
    get(a, 256), get(c, 256);
}
static void within(int right) // an IF node in the body of a WHILE node, beside a child graph
{
    Buffer<int> a(64), b(64), left(1);
    Graph g, child;
    cudaGraph_t body, inner;
    cudaGraphNode_t in[3], node, part;
    int *pa = a, *pb = b, *pl = left, many = 3, value = 1;
    cudaMemcpy(left, &many, 4, cudaMemcpyHostToDevice);
    auto h = g.handle(1);
    branch(g.g, nullptr, h, cudaGraphCondTypeWhile, 1, &body);
    cudaGraphConditionalHandle always;
    cudaGraphConditionalHandleCreate(&always, body, 1, cudaGraphCondAssignDefault);
    node = branch(body, nullptr, always, cudaGraphCondTypeIf, 1, &inner);
    KERNEL(&part, inner, nullptr, 0, write_all, 64, &pa, &value);
    KERNEL(&part, child.g, nullptr, 0, read_all, 64, &pa, &pb); // !within: unordered
    cudaGraphAddChildGraphNode(&in[1], body, &node, right, child.g);
    in[0] = node;
    KERNEL(&in[2], body, in, 2, count_down, 1, &pl, &h);
    g.run();
    get(b, 256);
}
static void anew(int right) // a graph for each of 40 launches: numbers of bodies are used again
{
    Buffer<int> a(64), b(64);
    for (int i = 0; i < 40; i++) {
        Graph g;
        cudaGraph_t body;
        cudaGraphNode_t in[2];
        int *pa = a, *pb = b;
        branch(g.g, nullptr, g.handle(1), cudaGraphCondTypeIf, 1, &body);
        KERNEL(&in[0], body, nullptr, 0, write_all, 64, &pa, &i);
        KERNEL(&in[1], body, in, right || i < 39, read_all, 64, &pa, &pb); // !anew: unordered
        g.run();
    }
    get(b, 256);
}

static const Fault faults[] = {
    {"taken", taken},   {"not_taken", not_taken},   {"chosen", chosen}, {"rounds", rounds},
    {"within", within}, {"in_between", in_between}, {"anew", anew},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
