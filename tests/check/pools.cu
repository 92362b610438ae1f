// A program's own pool, which it announces by NVTX, and what goes wrong with its pieces; right twins.
#include <nvtx3/nvToolsExtMem.h>
#include "faults.h"

class Pool
{ // pieces begin at multiples of 64; nothing is kept in the memory itself
    char *base;
    size_t bytes, used = 0;
    nvtxDomainHandle_t domain;
    nvtxMemHeapHandle_t heap;

    template <typename T> T form(T batch = {}) const
    {
        batch.extCompatID = NVTX_EXT_COMPATID_MEM;
        batch.structSize = sizeof batch;
        return batch;
    }

  public:
    Pool(void *at, size_t size) : base((char *)at), bytes(size), domain(nvtxDomainCreateA("pool"))
    {
        nvtxMemVirtualRangeDesc_t range = {bytes, base};
        auto d = form<nvtxMemHeapDesc_t>();
        d.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
        d.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
        d.typeSpecificDescSize = sizeof range;
        d.typeSpecificDesc = &range;
        heap = nvtxMemHeapRegister(domain, &d);
    }
    ~Pool()
    {
        nvtxMemHeapUnregister(domain, heap);
    }
    int *take(size_t n, const char *name = nullptr)
    {
        nvtxMemVirtualRangeDesc_t range = {n, base + used};
        used += (n + 63) / 64 * 64;
        auto d = form<nvtxMemRegionsRegisterBatch_t>();
        d.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
        d.heap = heap;
        d.regionCount = 1;
        d.regionDescElementSize = sizeof range;
        d.regionDescElements = &range;
        nvtxMemRegionsRegister(domain, &d); // a leak of `lost`
        if (name)
            call(range.ptr, name);
        return (int *)range.ptr;
    }
    void skip(size_t n)
    {
        used += n;
    }
    void call(const void *p, const char *name) const
    {
        nvtxMemRegionNameDesc_t one = {};
        one.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
        one.nameType = NVTX_MESSAGE_TYPE_ASCII;
        one.region.pointer = p;
        one.name.ascii = name;
        auto d = form<nvtxMemRegionsNameBatch_t>();
        d.regionCount = 1;
        d.regionElementSize = sizeof one;
        d.regionElements = &one;
        nvtxMemRegionsName(domain, &d);
    }
    void resize(const void *p, size_t n) const
    {
        nvtxMemVirtualRangeDesc_t range = {n, p};
        auto d = form<nvtxMemRegionsResizeBatch_t>();
        d.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
        d.regionDescCount = 1;
        d.regionDescElementSize = sizeof range;
        d.regionDescElements = &range;
        nvtxMemRegionsResize(domain, &d);
    }
    void give(const void *p)
    {
        nvtxMemRegionRef_t one;
        one.pointer = p;
        auto d = form<nvtxMemRegionsUnregisterBatch_t>();
        d.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
        d.refCount = 1;
        d.refElementSize = sizeof one;
        d.refElements = &one;
        nvtxMemRegionsUnregister(domain, &d);
        used = (char *)p - base; // the last one, in these programs
    }
    void reset()
    {
        nvtxMemHeapReset(domain, heap);
        used = 0;
    }
};

constexpr size_t SIZE = 4096;
struct Memory { // a block, and whether it is clear
    char *p;
    explicit Memory(bool clear = false, size_t bytes = SIZE)
    {
        cudaMalloc((void **)&p, bytes); // another one
        if (clear)
            cudaMemset(p, 0, bytes);
    }
    ~Memory()
    {
        cudaFree(p);
    }
};

__global__ void fill(int *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = i; // !past: out-of-bounds !not_grown: out-of-bounds !shrunk: out-of-bounds
}
__global__ void fill_from(int *p, int from, int n)
{
    for (int i = from + threadIdx.x; i < n; i += blockDim.x)
        p[i] = i; // !in_front: out-of-bounds !aside: out-of-bounds
}
__global__ void fill_whole(int *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = i; // !nowhere: out-of-bounds !over: out-of-bounds
}
__global__ void fill_slowly(int *p, int n)
{
    volatile int turns = 0;
    while (turns < 1 << 20)
        turns = turns + 1;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = i;
}
__global__ void fill_late(int *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = i; // !late: use-after-free !after_reset: use-after-free
}
__global__ void fill_one(int *p)
{
    *p = 1; // !block_gone: use-after-free !of_another: use-after-free
}
__global__ void add_up(const int *p, int n, int *sum)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        atomicAdd(sum, p[i]); // !stale: uninitialised !grown_part: uninitialised
}
static void sum(const int *p, int n)
{
    Buffer<int> total(1);
    add_up<<<1, 32>>>(p, n, total);
    get(total, sizeof(int));
}

static void past(int right) // 60 bytes are no 16 words
{
    Memory m;
    Pool pool(m.p, SIZE);
    pool.skip(64);
    int *p = pool.take(right ? 64 : 60, "piece"), *q = pool.take(64);
    fill<<<1, 16>>>(p, 16);
    fill<<<1, 16>>>(q, 16);
    sum(p, 15), sum(q, 16);
    pool.reset();
}
static void in_front(int right)
{
    Memory m;
    Pool pool(m.p, SIZE);
    pool.skip(64);
    int *p = pool.take(64);
    fill_from<<<1, 1>>>(p, right ? 0 : -1, 16);
    sum(p, 16);
    pool.give(p);
}
static void aside(int right) // what is in the block, and not in the pool, is the program's
{
    Memory m;
    Pool pool(m.p + 2048, 1024);
    fill<<<1, 32>>>((int *)m.p, 512), fill<<<1, 32>>>((int *)(m.p + 3072), 256);
    fill_from<<<1, 1>>>((int *)m.p, 512, right ? 512 : 513);
    sum((int *)m.p, 512), sum((int *)(m.p + 3072), 256);
}
static void nowhere(int right)
{
    Memory m;
    Pool pool(m.p, SIZE);
    int *p = right ? pool.take(64) : (int *)m.p;
    fill_whole<<<1, 1>>>(p, 1);
    if (right)
        sum(p, 1), pool.give(p);
}
static void late(int right)
{
    Memory m;
    Pool pool(m.p, SIZE);
    int *p = pool.take(64);
    fill_slowly<<<1, 1>>>(p, 16); // it is queued before the piece is given back
    if (!right)
        pool.give(p);
    fill_late<<<1, 16>>>(p, 1);
    if (right)
        sum(p, 16), pool.give(p);
}
static void after_reset(int right)
{
    Memory m;
    Pool pool(m.p, SIZE);
    int *p = pool.take(64);
    fill<<<1, 16>>>(p, 16);
    sum(p, 16);
    pool.reset();
    if (right)
        pool.take(64);
    fill_late<<<1, 16>>>(p, 16);
    if (right)
        sum(p, 16), pool.reset();
}
static void of_another(int right) // a piece that is as large as the one before, and elsewhere
{
    Memory m;
    Pool pool(m.p, SIZE);
    int *p = pool.take(256);
    fill<<<1, 32>>>(p, 64);
    sum(p, 64);
    pool.give(p);
    int *q = pool.take(64);
    fill<<<1, 16>>>(q, 16);
    sum(q, 16);
    fill_one<<<1, 1>>>(right ? q : q + 40);
    sum(q, 16);
    pool.give(q);
}
static void block_gone(int right)
{
    auto *m = new Memory;
    auto *pool = new Pool(m->p, SIZE);
    int *p = pool->take(64);
    fill<<<1, 16>>>(p, 16);
    sum(p, 16);
    if (!right)
        delete m;
    fill_one<<<1, 1>>>(p);
    if (right)
        sum(p, 16), delete m;
    delete pool;
}
static void not_grown(int right)
{
    Memory m;
    Pool pool(m.p, SIZE);
    int *p = pool.take(64);
    fill<<<1, 16>>>(p, 16);
    if (right)
        pool.resize(p, 128);
    fill<<<1, 32>>>(p, 32);
    sum(p, 16);
    pool.reset();
}
static void shrunk(int right)
{
    Memory m;
    Pool pool(m.p, SIZE);
    int *p = pool.take(128);
    fill<<<1, 32>>>(p, 32);
    sum(p, 32);
    pool.resize(p, right ? 100 : 64);
    sum(p, 16); // what it held it still holds
    fill<<<1, 32>>>(p, 25);
    sum(p, 16);
    pool.reset();
}
static void stale(int right) // what is left there is another piece's
{
    Memory m;
    Pool pool(m.p, SIZE);
    int *p = pool.take(64);
    fill<<<1, 16>>>(p, 16);
    sum(p, 16);
    pool.give(p);
    p = pool.take(64);
    if (right)
        fill<<<1, 16>>>(p, 16);
    sum(p, 16);
    pool.give(p);
}
static void grown_part(int right)
{
    Memory m(right); // once cleared, its pieces are
    Pool pool(m.p, SIZE);
    int *p = pool.take(64);
    fill<<<1, 16>>>(p, 16);
    pool.resize(p, 128);
    sum(p, 32);
    pool.reset();
}
static void lost(int right) // a piece; and a pool without one
{
    auto *m = new Memory, *n = new Memory;
    auto *pool = new Pool(m->p, SIZE), *empty = new Pool(n->p, SIZE);
    int *p = pool->take(64), *q = pool->take(64);
    fill<<<1, 16>>>(p, 16), fill<<<1, 16>>>(q, 16);
    sum(p, 16), sum(q, 16);
    pool->give(q);
    if (right)
        pool->give(p), delete pool, delete m, delete empty, delete n;
}
static void handed_over(int right) // a piece goes to another stream; an event is enough
{
    Memory m;
    Pool pool(m.p, SIZE);
    cudaStream_t a, b;
    cudaEvent_t e;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking),
        cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    Buffer<int> total(1);
    cudaDeviceSynchronize();
    int *p = pool.take(64);
    fill<<<1, 16, 0, a>>>(p, 16);
    add_up<<<1, 16, 0, a>>>(p, 16, total);
    cudaEventRecord(e, a);
    pool.give(p);
    p = pool.take(64);
    if (right)
        cudaStreamWaitEvent(b, e, 0);
    fill<<<1, 16, 0, b>>>(p, 16); // !handed_over: unordered
    cudaDeviceSynchronize();
    get(total, 4);
    sum(p, 16);
    pool.give(p);
    cudaStreamDestroy(a), cudaStreamDestroy(b), cudaEventDestroy(e);
}
static void over(int right) // after the pool the block is whole again, and no longer than that
{
    Memory m;
    {
        Pool pool(m.p, SIZE);
        int *p = pool.take(64);
        fill<<<1, 16>>>(p, 16);
        sum(p, 16);
    }
    fill_whole<<<1, 32>>>((int *)m.p, SIZE / 4 + !right);
    sum((int *)m.p, SIZE / 4);
}

static const Fault faults[] = {
#define FAULT(name) {#name, name}
    FAULT(past),        FAULT(in_front),   FAULT(aside),      FAULT(nowhere),    FAULT(late),
    FAULT(after_reset), FAULT(of_another), FAULT(block_gone), FAULT(over),       FAULT(not_grown),
    FAULT(shrunk),      FAULT(stale),      FAULT(grown_part), FAULT(handed_over)};

int main(int argc, char **argv)
{
    const Fault hints[] = {FAULT(lost)};
    int code = run_fault(faults, argc, argv);
    return code == 3 ? run_fault(hints, argc, argv) : code;
}
