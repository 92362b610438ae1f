// Memory that is allocated or freed in the order of one stream and used in another, and right twins.
#include <cuda_runtime.h>
#include "faults.h"

__global__ void write_all(int *a, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a[i] = i;
}
__global__ void add_all(const int *a, int *to, int n)
{
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sum += a[i]; // !half_late: uninitialised !freed_before: use-after-free
    atomicAdd(to, sum);
}

// The host sees it without a call that would order anything.
__global__ void tell(volatile int *flag)
{
    *flag = 1;
}
__global__ void stay(const volatile int *flag)
{
    while (!*flag)
        ;
}
struct Flag {
    int *p;
    Flag()
    {
        cudaMallocHost((void **)&p, sizeof *p);
        *p = 0;
    }
    ~Flag()
    {
        cudaFreeHost(p);
    }
    void wait(cudaStream_t s) const
    {
        tell<<<1, 1, 0, s>>>(p);
        while (!*(volatile int *)p)
            ;
    }
};

struct Two { // streams that nothing orders, and an event
    cudaStream_t a, b;
    cudaEvent_t e;
    Two()
    {
        cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking),
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

static int *memory(cudaStream_t s)
{
    int *p = nullptr;
    cudaMallocAsync((void **)&p, N * sizeof(int), s);
    return p;
}
static void result(Buffer<int> &sum)
{
    cudaDeviceSynchronize();
    get(sum, 4);
}

static void freed_beside(int right) // the free follows an event; or it only comes late
{
    Two s;
    Flag late;
    Buffer<int> sum(1);
    cudaDeviceSynchronize();
    int *p = memory(s.a);
    write_all<<<1, 128, 0, s.a>>>(p, N);    // !freed_beside: unordered
    add_all<<<1, 128, 0, s.a>>>(p, sum, N); // !freed_beside: unordered
    if (right)
        s.order(s.a, s.b);
    late.wait(s.a);
    cudaFreeAsync(p, s.b);
    result(sum);
}
static void used_before(int right) // the other stream does not wait until it is there
{
    Two s;
    Buffer<int> sum(1);
    cudaDeviceSynchronize();
    int *p = memory(s.a);
    if (right)
        s.order(s.a, s.b);
    write_all<<<1, 128, 0, s.b>>>(p, N);    // !used_before: unordered
    add_all<<<1, 128, 0, s.b>>>(p, sum, N); // !used_before: unordered
    s.order(s.b, s.a);
    cudaFreeAsync(p, s.a);
    result(sum);
}
static void filled_before(int right) // a fill
{
    Two s;
    Buffer<int> sum(1);
    cudaDeviceSynchronize();
    int *p = memory(s.a);
    if (right)
        cudaStreamSynchronize(s.a);
    cudaMemsetAsync(p, 1, N * sizeof(int), s.b); // !filled_before: unordered
    s.order(s.b, s.a);
    add_all<<<1, 128, 0, s.a>>>(p, sum, N);
    cudaFreeAsync(p, s.a);
    result(sum);
}
static void
again(int right) // memory goes from user to user in one stream; the second user's copy in another one
{
    Two s;
    Flag late;
    Buffer<int> sum(1), copy;
    cudaDeviceSynchronize();
    int *p = memory(s.a);
    write_all<<<1, 128, 0, s.a>>>(p, N);
    add_all<<<1, 128, 0, s.a>>>(p, sum, N);
    cudaFreeAsync(p, s.a);
    int *q = memory(s.a);
    write_all<<<1, 128, 0, s.a>>>(q, N);
    add_all<<<1, 128, 0, s.a>>>(q, sum, N);
    s.order(s.a, s.b);
    cudaMemcpyAsync(copy, q, N * sizeof(int), cudaMemcpyDeviceToDevice, s.b); // !again: unordered
    if (right)
        s.order(s.b, s.a);
    late.wait(s.b);
    cudaFreeAsync(q, s.a);
    result(sum);
    get(copy, N * sizeof(int));
}

static void freed_first(int right) // the free has been reached before the use is even queued
{
    Two s;
    Flag late;
    Buffer<int> sum(1);
    cudaDeviceSynchronize();
    int *p = memory(s.a);
    s.order(s.a, s.b);
    if (!right)
        cudaFreeAsync(p, s.b);
    late.wait(s.b);
    write_all<<<1, 128, 0, s.a>>>(p, N);    // !freed_first: unordered
    add_all<<<1, 128, 0, s.a>>>(p, sum, N); // !freed_first: unordered
    s.order(s.a, s.b);
    if (right)
        cudaFreeAsync(p, s.b);
    result(sum);
}
static void
half_late(int right) // one use comes before the free, one after it; that one reads what nothing wrote
{
    Two s;
    Flag late;
    Buffer<int> sum(1);
    cudaDeviceSynchronize();
    int *p = memory(s.a), *q = memory(s.a);
    s.order(s.a, s.b);
    write_all<<<1, 128, 0, s.a>>>(p, N / 2);
    s.order(s.a, s.b);
    if (!right)
        cudaFreeAsync(p, s.b);
    late.wait(s.b);
    if (right)
        write_all<<<1, 128, 0, s.a>>>(p, N);
    write_all<<<1, 128, 0, s.a>>>(q, N);
    add_all<<<1, 128, 0, s.a>>>(p, sum, N); // !half_late: unordered
    add_all<<<1, 128, 0, s.a>>>(q, sum, N);
    if (right)
        cudaFreeAsync(p, s.a);
    cudaFreeAsync(q, s.a);
    result(sum);
}
static void copied_late(int right) // a fill and a copy, called before the free and run after it
{
    Two s;
    Flag late, go;
    Buffer<int> copy;
    cudaDeviceSynchronize();
    int *p = memory(s.a);
    s.order(s.a, s.b);
    stay<<<1, 1, 0, s.a>>>(go.p);
    cudaMemsetAsync(p, 1, N * sizeof(int), s.a);                              // !copied_late: unordered
    cudaMemcpyAsync(copy, p, N * sizeof(int), cudaMemcpyDeviceToDevice, s.a); // !copied_late: unordered
    if (!right)
        cudaFreeAsync(p, s.b);
    late.wait(s.b);
    *(volatile int *)go.p = 1;
    if (right)
        s.order(s.a, s.b), cudaFreeAsync(p, s.b);
    cudaDeviceSynchronize();
    get(copy, N * sizeof(int));
}
static void from_pool(int right) // of a pool of the program
{
    Two s;
    Flag late;
    Buffer<int> sum(1);
    cudaMemPool_t pool;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    cudaMemPoolCreate(&pool, &props);
    cudaDeviceSynchronize();
    int *p = nullptr;
    cudaMallocFromPoolAsync((void **)&p, N * sizeof(int), pool, s.a);
    s.order(s.a, s.b);
    if (!right)
        cudaFreeAsync(p, s.b);
    late.wait(s.b);
    write_all<<<1, 128, 0, s.a>>>(p, N);    // !from_pool: unordered
    add_all<<<1, 128, 0, s.a>>>(p, sum, N); // !from_pool: unordered
    if (right) {
        s.order(s.a, s.b);
        cudaFreeAsync(p, s.b);
    }
    result(sum);
    cudaMemPoolDestroy(pool);
}
static void freed_before(int right) // in the same stream, or the host has waited: that is no chance
{
    Two s;
    Buffer<int> sum(1);
    int *p = memory(s.a), *q = memory(s.b);
    cudaDeviceSynchronize();
    write_all<<<1, 128, 0, s.a>>>(p, N);
    write_all<<<1, 128, 0, s.b>>>(q, N);
    add_all<<<1, 128, 0, s.b>>>(q, sum, N);
    cudaStreamSynchronize(s.b);
    if (!right)
        cudaFreeAsync(p, s.a), cudaFreeAsync(q, s.b);
    cudaStreamSynchronize(s.b);
    add_all<<<1, 128, 0, s.a>>>(p, sum, N);
    add_all<<<1, 128, 0, s.a>>>(q, sum, N);
    if (right)
        cudaFreeAsync(p, s.a), cudaFreeAsync(q, s.a);
    result(sum);
}

static const Fault faults[] = {
    {"freed_beside", freed_beside}, {"freed_first", freed_first},     {"half_late", half_late},
    {"copied_late", copied_late},   {"from_pool", from_pool},         {"freed_before", freed_before},
    {"used_before", used_before},   {"filled_before", filled_before}, {"again", again}};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
