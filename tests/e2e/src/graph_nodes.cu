// Graphs whose nodes are made with cudaGraphAddNode, of all types, and what kernels decide in them. Checks
// results.
#include "../../../examples/common/example.h"
#include <string.h>

enum { N = 32 };

__global__ void add(int *p, int by)
{
    p[threadIdx.x] += by;
}

__global__ void decide(cudaGraphConditionalHandle handle, unsigned value)
{
    cudaGraphSetConditional(handle, value);
}

// Counts down to zero.
__global__ void down(int *p, cudaGraphConditionalHandle handle)
{
    cudaGraphSetConditional(handle, --*p);
}

static cudaGraphNode_t put(cudaGraph_t g, cudaGraphNode_t after, cudaGraphNodeParams *p)
{
    cudaGraphNode_t n;
    CHECK(cudaGraphAddNode(&n, g, &after, nullptr, after ? 1 : 0, p));
    return n;
}

static cudaGraphNodeParams kernel(const void *f, void **args, int threads)
{
    cudaGraphNodeParams p = {cudaGraphNodeTypeKernel};
    p.kernel.func = (void *)f;
    p.kernel.gridDim = {1, 1, 1};
    p.kernel.blockDim = {(unsigned)threads, 1, 1};
    p.kernel.kernelParams = args;
    return p;
}

static cudaGraphNode_t put_add(cudaGraph_t g, cudaGraphNode_t after, int *p, int by)
{
    void *args[] = {&p, &by};
    cudaGraphNodeParams k = kernel((const void *)add, args, N);
    return put(g, after, &k);
}

static cudaGraphNode_t put_decide(cudaGraph_t g, cudaGraphNode_t after, cudaGraphConditionalHandle h,
                                  unsigned v)
{
    void *args[] = {&h, &v};
    cudaGraphNodeParams k = kernel((const void *)decide, args, 1);
    return put(g, after, &k);
}

static cudaGraphNode_t put_down(cudaGraph_t g, cudaGraphNode_t after, int *p, cudaGraphConditionalHandle h)
{
    void *args[] = {&p, &h};
    cudaGraphNodeParams k = kernel((const void *)down, args, 1);
    return put(g, after, &k);
}

static cudaGraphNode_t put_branch(cudaGraph_t g, cudaGraphNode_t after, cudaGraphConditionalHandle h,
                                  cudaGraphConditionalNodeType type, unsigned size, cudaGraph_t *body)
{
    cudaGraphNodeParams p = {cudaGraphNodeTypeConditional};
    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = size;
    cudaGraphNode_t n = put(g, after, &p);
    memcpy(body, p.conditional.phGraph_out, size * sizeof *body);
    return n;
}

static cudaGraphConditionalHandle handle(cudaGraph_t g, unsigned first, unsigned flags)
{
    cudaGraphConditionalHandle h;
    CHECK(cudaGraphConditionalHandleCreate(&h, g, first, flags));
    return h;
}

static void launch(cudaGraphExec_t x, int times)
{
    static cudaStream_t s;
    if (!s)
        CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int i = 0; i < times; i++)
        CHECK(cudaGraphLaunch(x, s));
    CHECK(cudaStreamSynchronize(s));
}

static void is(const char *what, long got, long want)
{
    if (got != want)
        printf("%s: %ld, expected %ld\n", what, got, want);
}

static int first_of(const int *p)
{
    int v;
    CHECK(cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost));
    return v;
}

static void count_up(void *data)
{
    ++*(int *)data;
}

// One node of each type in a row: memory, 5, + 1, + 20 by a child, to the host.
static void all_types()
{
    int called = 0, other = 0, *host;
    cudaEvent_t e;
    cudaGraph_t g, child;
    cudaGraphExec_t x;
    CHECK(cudaMallocHost(&host, N * sizeof *host));
    CHECK(cudaEventCreate(&e));
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphCreate(&child, 0));
    cudaGraphNodeParams m = {cudaGraphNodeTypeMemAlloc}, f = {cudaGraphNodeTypeMemset},
                        c = {cudaGraphNodeTypeMemcpy}, h = {cudaGraphNodeTypeHost},
                        r = {cudaGraphNodeTypeEventRecord}, w = {cudaGraphNodeTypeWaitEvent},
                        b = {cudaGraphNodeTypeGraph}, o = {cudaGraphNodeTypeEmpty},
                        d = {cudaGraphNodeTypeMemFree}, s = {cudaGraphNodeTypeExtSemaphoreSignal},
                        bad = {(cudaGraphNodeType)99};
    m.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    m.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    m.alloc.bytesize = N * sizeof(int);
    cudaGraphNode_t memory = put(g, nullptr, &m), n;
    int *p = (int *)m.alloc.dptr;
    f.memset.dst = p;
    f.memset.value = 5;
    f.memset.elementSize = 4;
    f.memset.width = N;
    f.memset.height = 1;
    cudaGraphNode_t filled = put(g, memory, &f), added = put_add(g, filled, p, 1);
    put_add(child, nullptr, p, 20);
    b.graph.graph = child;
    n = put(g, added, &b);
    r.eventRecord.event = w.eventWait.event = e;
    n = put(g, put(g, n, &r), &w);
    c.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(p, N * 4, N * 4, 1);
    c.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(host, N * 4, N * 4, 1);
    c.memcpy.copyParams.extent = make_cudaExtent(N * 4, 1, 1);
    c.memcpy.copyParams.kind = cudaMemcpyDefault;
    h.host.fn = count_up;
    h.host.userData = &called;
    cudaGraphNode_t calls = put(g, put(g, n, &c), &h);
    d.free.dptr = p;
    put(g, put(g, calls, &o), &d);
    cudaGraphNode_t never;
    is("a semaphore", cudaGraphAddNode(&never, g, nullptr, nullptr, 0, &s), cudaErrorNotSupported);
    is("no type", cudaGraphAddNode(&never, g, nullptr, nullptr, 0, &bad), cudaErrorInvalidValue);
    is("memory as it is", cudaGraphNodeSetParams(memory, &m), cudaErrorNotSupported);
    is("another type", cudaGraphNodeSetParams(filled, &h), cudaErrorInvalidValue);
    CHECK(cudaGraphInstantiate(&x, g, 0));
    launch(x, 1);
    is("5 + 1 + 20", host[N - 1], 26);
    int by = 3;
    void *args[] = {&p, &by};
    cudaGraphNodeParams k = kernel((const void *)add, args, N);
    CHECK(cudaGraphExecNodeSetParams(x, added, &k));
    f.memset.value = 6;
    CHECK(cudaGraphExecNodeSetParams(x, filled, &f));
    h.host.userData = &other;
    CHECK(cudaGraphExecNodeSetParams(x, calls, &h));
    launch(x, 1);
    is("6 + 3 + 20", host[0], 29);
    is("host functions", 10 * called + other, 11);
    CHECK(cudaGraphExecDestroy(x));
    f.memset.value = 1; // the program's graph is as it was, but for this
    CHECK(cudaGraphNodeSetParams(filled, &f));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    launch(x, 1);
    is("1 + 1 + 20", host[5], 22);
}

// p: + 10 or + 100, as the kernel before says.
static void if_else(int *p)
{
    for (unsigned v = 0; v < 2; v++) {
        cudaGraph_t g, body[2];
        cudaGraphExec_t x;
        CHECK(cudaGraphCreate(&g, 0));
        cudaGraphConditionalHandle h = handle(g, 0, 0);
        put_branch(g, put_decide(g, nullptr, h, v), h, cudaGraphCondTypeIf, 2, body);
        put_add(body[0], nullptr, p, 10);
        put_add(body[1], nullptr, p, 100);
        cudaGraph_t clone;
        is("a clone", cudaGraphClone(&clone, g), cudaErrorNotSupported);
        CHECK(cudaMemset(p, 0, N * 4));
        CHECK(cudaGraphInstantiate(&x, g, 0));
        launch(x, 1);
        is("if", first_of(p), v ? 10 : 100);
        CHECK(cudaGraphExecDestroy(x));
        CHECK(cudaGraphDestroy(g));
    }
}

// Three times, launched twice: the handle begins with 1 each time. What follows comes after the last round.
static void loop(int *p)
{
    cudaGraph_t g, body;
    cudaGraphExec_t x;
    CHECK(cudaGraphCreate(&g, 0));
    cudaGraphConditionalHandle h = handle(g, 1, cudaGraphCondAssignDefault);
    cudaGraphNodeParams f = {cudaGraphNodeTypeMemset};
    f.memset.dst = p;
    f.memset.value = 3;
    f.memset.elementSize = 4;
    f.memset.width = 1;
    f.memset.height = 1;
    put_add(g, put_branch(g, put(g, nullptr, &f), h, cudaGraphCondTypeWhile, 1, &body), p, 7);
    put_add(body, put_down(body, nullptr, p, h), p + N, 1);
    CHECK(cudaMemset(p, 0, 2 * N * 4));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    launch(x, 2);
    is("rounds", first_of(p + N), 6);
    is("after them", first_of(p), 7);
    is("after them", first_of(p + 1), 14);
}

// The second of three; none of three. Inside, a condition of its own.
static void switches(int *p)
{
    cudaGraph_t g, body[3], inner;
    cudaGraphExec_t x;
    CHECK(cudaGraphCreate(&g, 0));
    cudaGraphConditionalHandle h = handle(g, 0, 0), none = handle(g, 9, cudaGraphCondAssignDefault), one;
    cudaGraphNode_t n = put_branch(g, put_decide(g, nullptr, h, 1), h, cudaGraphCondTypeSwitch, 3, body);
    for (int i = 0; i < 3; i++)
        n = put_add(body[i], nullptr, p, 1 << i);
    one = handle(body[1], 1, cudaGraphCondAssignDefault);
    size_t nodes = 1;
    CHECK(cudaGraphGetNodes(body[1], &n, &nodes));
    put_branch(body[1], n, one, cudaGraphCondTypeIf, 1, &inner);
    put_add(inner, nullptr, p, 50);
    put_branch(g, nullptr, none, cudaGraphCondTypeSwitch, 3, body);
    put_add(body[2], nullptr, p, 1000);
    CHECK(cudaMemset(p, 0, N * 4));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    launch(x, 1);
    is("switch", first_of(p), 52);
    // A host function has no place in a body.
    cudaGraphNodeParams host = {cudaGraphNodeTypeHost};
    int unused;
    host.host.fn = count_up;
    host.host.userData = &unused;
    put(body[0], nullptr, &host);
    is("a host function", cudaGraphInstantiate(&x, g, 0), cudaErrorNotSupported);
}

int main()
{
    int *p;
    CHECK(cudaMalloc(&p, 2 * N * 4));
    all_types();
    if_else(p);
    loop(p);
    switches(p);
    printf("graph_nodes: done\n");
    return 0;
}
