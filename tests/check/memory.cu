// What memory holds, and what is left of it (see faults.cu): the heap and the stack of kernels, misaligned
// and late accesses, copies of what nobody wrote.
#include "faults.h"
#include <cuda.h>

// ---- the heap of kernels ----

__global__ void huge(int *ok, size_t bytes)
{
    char *p = (char *)malloc(bytes); // !huge: heap
    *ok = p != nullptr;
    if (p)
        p[0] = 1;
    free(p);
}
__global__ void hoards(int *ok, int right)
{
    int got = 0;
    for (int i = 0; i < 64; i++) {
        int *p = (int *)malloc(65536); // !hoards: heap
        got += p != nullptr;
        if (p)
            *p = i;
        if (right)
            free(p);
    }
    *ok = got;
}
__global__ void each_new(int *ok, int ints)
{
    int *p = new int[ints]; // !each_new: heap
    p[ints - 1] = 1;        // !each_new: out-of-bounds
    ok[threadIdx.x] = 1;
    __syncthreads();
    delete[] p;
}

__global__ void tells(int *ok, int lines)
{
    for (int i = 0; i < lines; i++)
        printf("%d %f%s", i, 0.5 * i, ""); // !tells: heap; 8 for the format, 4 and 4 and 8 and 8
    *ok = 1;
}
__global__ void each_tells(int *ok, int some)
{
    if (threadIdx.x < some)
        printf("%%"); // !each_tells: heap
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *ok = 1;
}
__global__ void chatters(int *ok, int from)
{
    if (threadIdx.x >= from)
        printf("%s", ""); // !chatters: heap
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *ok = 1;
}

static void heap_of(size_t bytes)
{
    cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes);
}
static void huge(int right)
{
    Buffer<int> ok(1);
    heap_of(1 << 20);
    huge<<<1, 1>>>(ok, right ? 1000 : 16 << 20);
    get(ok, 4);
}
static void hoards(int right)
{
    Buffer<int> ok(1);
    heap_of(2 << 20);
    hoards<<<1, 1>>>(ok, right);
    get(ok, 4);
}
static void each_new(int right)
{
    Buffer<int> ok(64);
    heap_of(1 << 20);
    each_new<<<1, 64>>>(ok, right ? 100 : 8000);
    get(ok, 256);
}

static void printf_of(size_t bytes)
{
    cudaDeviceSetLimit(cudaLimitPrintfFifoSize, bytes);
}
static void tells(int right) // in a loop
{
    Buffer<int> ok(1);
    printf_of(32 * 1000);
    tells<<<1, 1>>>(ok, right ? 1000 : 1001);
    get(ok, 4);
}
static void each_tells(int right) // each thread once
{
    Buffer<int> ok(1);
    printf_of(8 * 4096);
    for (int i = 0; i < 2; i++) // each launch begins anew
        each_tells<<<32, 256>>>(ok, right ? 128 : 129);
    get(ok, 4);
}
static void chatters(int right) // the standard size
{
    Buffer<int> ok(1);
    chatters<<<257, 256>>>(ok, right); // 65,792 or 257 less, of 16 bytes
    get(ok, 4);
}

// ---- the stack of a thread ----

__device__ __noinline__ int sum_to(volatile int *a, int n)
{
    volatile int here[16] = {n}; // !deep: stack
    return n <= 0 ? a[0] : sum_to(a, n - 1) + here[n & 15];
}
__global__ void deep(int *a, int n)
{
    a[1] = sum_to(a, n);
}
template <int at> __device__ __noinline__ int turn(volatile int *a, int n)
{
    volatile int here[8] = {n}; // !by_turns: stack
    return n == 0 ? a[at] : turn<1 - at>(a, n - 1) + here[n & 7];
}
__global__ void by_turns(int *a, int n)
{
    a[2] = turn<0>(a, n);
}
__device__ __noinline__ int walk(volatile int *next, int at)
{
    volatile int here[32];
    return next[here[at & 31] = at] < 0 ? at : walk(next, next[at]) + here[at & 31] * 0; // !walked: stack
}
__global__ void walked(int *next, int *out)
{
    *out = walk(next, 0);
}

static void deep(int right)
{
    Buffer<int> a(2);
    deep<<<1, 1>>>(a, right ? 50 : 100 << 20);
    get(a, 8);
}
static void by_turns(int right)
{
    Buffer<int> a(3);
    by_turns<<<1, 32>>>(a, right ? 50 : 100 << 20);
    get(a, 12);
}
static void walked(int right) // a list that ends, or goes round
{
    Buffer<int> next(4, false), out(1);
    int h[4] = {1, 2, 3, right ? -1 : 0};
    cudaMemcpy(next, h, 16, cudaMemcpyHostToDevice);
    walked<<<1, 1>>>(next, out);
    get(out, 4);
}

// ---- misaligned ----

struct __attribute__((packed)) Packet {
    char kind;
    int length;
};
__global__ void lengths(const char *bytes, int *out, int step)
{
    out[threadIdx.x] = *(const int *)(bytes + step * threadIdx.x); // !lengths: misaligned
}
__global__ void rows_of_4(const float *a, float *out, int pitch)
{
    float4 v = *(const float4 *)(a + pitch * threadIdx.x); // !rows_of_4: misaligned
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
__global__ void doubles(char *p, int header)
{
    ((double *)(p + header))[threadIdx.x] = 1; // !doubles: misaligned
}
__global__ void counts(char *p, int at)
{
    atomicAdd((int *)(p + at), 1); // !counts: misaligned
}

static void lengths(int right)
{
    Buffer<char> bytes(8 * 32);
    Buffer<int> out(32);
    lengths<<<1, 32>>>(bytes, out, right ? 8 : (int)sizeof(Packet));
    get(out, 128);
}
static void rows_of_4(int right)
{
    Buffer<float> a(8 * 32), out(32);
    rows_of_4<<<1, 32>>>(a, out, right ? 8 : 5);
    get(out, 128);
}
static void doubles(int right)
{
    Buffer<char> p(8 * 33);
    doubles<<<1, 32>>>(p, right ? 8 : 4);
    get(p, 8 * 32);
}
static void counts(int right)
{
    Buffer<char> p(16);
    counts<<<1, 32>>>(p, right ? 8 : 6);
    get(p, 16);
}

// ---- after it was freed ----

__global__ void set(int *a)
{
    a[threadIdx.x] = threadIdx.x; // !async_freed: use-after-free !grown: use-after-free
}
struct Node {
    Node *next;
    int value;
};
__global__ void sum_list(const Node *n, int *out)
{
    int sum = 0;
    for (; n; sum += n->value, n = n->next) // !node_freed: use-after-free
        ;
    *out = sum;
}
__global__ void own_heap(int *out, int right)
{
    int *p = (int *)malloc(64);
    if (!p)
        return;
    p[3] = 5;
    if (!right)
        free(p);
    *out = p[3]; // !own_heap: use-after-free
    if (right)
        free(p);
}

static void async_freed(int right)
{
    int *a;
    cudaMallocAsync(&a, 256, 0);
    if (!right)
        cudaFreeAsync(a, 0);
    set<<<1, 64>>>(a);
    if (right)
        cudaFreeAsync(a, 0);
    cudaDeviceSynchronize();
}
static void grown(int right) // what a kernel was given before it grew
{
    int *a, *before;
    cudaMalloc(&a, 256);
    before = a;
    cudaFree(a);
    cudaMalloc(&a, 512);
    set<<<1, 64>>>(right ? a : before);
    cudaDeviceSynchronize();
    if (right)
        get(a, 256);
    cudaFree(a);
}
static void node_freed(int right)
{
    Node *n[2], h[2];
    Buffer<int> out(1);
    cudaMalloc(&n[0], sizeof(Node));
    cudaMalloc(&n[1], sizeof(Node));
    h[0] = {right ? nullptr : n[1], 1};
    h[1] = {nullptr, 2};
    for (int i = 0; i < 2; i++)
        cudaMemcpy(n[i], &h[i], sizeof(Node), cudaMemcpyHostToDevice);
    cudaFree(n[1]);
    sum_list<<<1, 1>>>(n[0], out);
    get(out, 4);
    cudaFree(n[0]);
}
static void own_heap(int right)
{
    Buffer<int> out(1);
    own_heap<<<1, 1>>>(out, right);
    get(out, 4);
}

// ---- copies of what nobody wrote ----

static void never(int right)
{
    Buffer<int> a(64, right);
    int h[64];
    cudaMemcpy(h, a, 256, cudaMemcpyDeviceToHost); // !never: uninitialised-copy
}
static void half_set(int right)
{
    Buffer<int> a(64, false);
    int h[64];
    cudaMemset(a, 0, right ? 256 : 64);            // 64 elements, or 64 bytes
    cudaMemcpy(h, a, 256, cudaMemcpyDeviceToHost); // !half_set: uninitialised-copy
}
static void padded(int right) // rows with what lies between them
{
    char *p, h[4 * 512];
    size_t pitch;
    cudaMallocPitch(&p, &pitch, 100, 4);
    cudaMemset2D(p, pitch, 0, 100, 4);
    if (right)
        cudaMemcpy2D(h, 100, p, pitch, 100, 4, cudaMemcpyDeviceToHost);
    else
        cudaMemcpy(h, p, pitch * 4, cudaMemcpyDeviceToHost); // !padded: uninitialised-copy
    cudaFree(p);
}
static void some_set(int right)
{
    Buffer<int> a(128, false);
    int h[128];
    set<<<1, 64>>>(a);
    cudaMemcpy(h, a, right ? 256 : 512, cudaMemcpyDeviceToHost); // !some_set: uninitialised-copy
}

// ---- bytes, and what lies between the members of structs ----

struct Gaps {
    double x;
    int n;
    char c; // 3 bytes behind it
};
__global__ void put_gaps(Gaps *a, int n) // as many as are told, of more
{
    int i = threadIdx.x;
    if (i < n) {
        a[i].x = i;
        a[i].n = i;
        a[i].c = 1;
    }
}
__global__ void take_gaps(const Gaps *a, Gaps *b)
{
    b[threadIdx.x] = a[threadIdx.x]; // !few_gaps: uninitialised
}
__global__ void put_bytes(char *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = i;
}
__global__ void words_of(const int *a, int *b)
{
    b[threadIdx.x] = a[threadIdx.x]; // !fill_in_word: uninitialised !fill_short: uninitialised
}
__global__ void words_apart(const int *a, int *b)
{
    b[threadIdx.x] = a[threadIdx.x]; // !fill_apart: uninitialised
}
__global__ void words_copied(const int *a, int *b)
{
    b[threadIdx.x] = a[threadIdx.x]; // !copied_over: uninitialised !copied_hole: uninitialised
}
__global__ void quads_of(const int4 *a, int4 *b)
{
    b[threadIdx.x] = a[threadIdx.x]; // !fill_in_quad: uninitialised
}

static void words_filled(int bytes) // 256 bytes are read
{
    Buffer<int> a(64, false), b(64);
    cudaMemset(a, 0, bytes);
    words_of<<<1, 64>>>(a, b);
    get(b, 256);
}
static void fill_in_word(int right)
{
    words_filled(right ? 256 : 97);
}
static void fill_short(int right)
{
    words_filled(right ? 256 : 251);
}
static void fill_in_quad(int right)
{
    Buffer<int> a(64, false), b(64);
    cudaMemset(a, 0, right ? 256 : 241);
    quads_of<<<1, 16>>>((const int4 *)a.p, (int4 *)b.p);
    get(b, 256);
}
static void fill_apart(int right)
{
    Buffer<int> a(64, false), b(64);
    cudaMemset(a, 0, 1);
    cudaMemset((char *)a.p + (right ? 1 : 4), 0, right ? 255 : 252);
    words_apart<<<1, 64>>>(a, b);
    get(b, 256);
}
static void copied(const void *from)
{
    Buffer<int> a(64), b(64);
    cudaMemcpy(a, from, 256, cudaMemcpyDeviceToDevice);
    words_copied<<<1, 64>>>(a, b);
    get(b, 256);
}
static void copied_over(int right)
{
    Buffer<int> from(64, right);
    copied(from.p);
}
static void copied_hole(int right)
{
    Buffer<int> from(64, false);
    cudaMemset(from, 0, 1);
    cudaMemset((char *)from.p + (right ? 1 : 4), 0, right ? 255 : 252);
    copied(from.p);
}

struct Small {
    short s;
    char c; // a byte behind it
};
struct Late {
    char c; // a byte behind it
    short s;
};
template <typename T> __global__ void put_small(T *a, int n)
{
    if (threadIdx.x < n) {
        a[threadIdx.x].s = 1;
        a[threadIdx.x].c = 2;
    }
}
template <typename T> __global__ void take_small(const T *a, T *b)
{
    b[threadIdx.x] = a[threadIdx.x]; // !few_small: uninitialised !few_late: uninitialised
}
template <typename T> static void few_of(int n)
{
    Buffer<T> a(32, false), b(32);
    put_small<<<1, 32>>>(a.p, n);
    take_small<<<1, 32>>>(a.p, b.p);
    get(b, 32 * sizeof(T));
}
static void few_small(int right)
{
    few_of<Small>(right ? 32 : 31);
}
static void few_late(int right)
{
    few_of<Late>(right ? 32 : 31);
}
static void few_gaps(int right)
{
    Buffer<Gaps> a(32, false), b(32);
    put_gaps<<<1, 32>>>(a, right ? 32 : 31);
    take_gaps<<<1, 32>>>(a, b);
    get(b, 32 * sizeof(Gaps));
}
static void bytes_set(int bytes) // 1000 are taken
{
    Buffer<char> p(N, false);
    put_bytes<<<1, 32>>>(p, bytes);
    char h[N];
    cudaMemcpy(h, p, N, cudaMemcpyDeviceToHost); // !third_set: uninitialised-copy
}
static void third_set(int right)
{
    bytes_set(right ? N : 333);
}
static void most_set(int right)
{
    bytes_set(right ? N : 995);
}
static void gaps_taken(int right)
{
    Buffer<Gaps> a(32, false);
    Gaps h[32];
    put_gaps<<<1, 32>>>(a, 20);
    size_t bytes = (right ? 20 : 32) * sizeof(Gaps);
    cudaMemcpy(h, a, bytes, cudaMemcpyDeviceToHost); // !gaps_taken: uninitialised-copy
}
static void gaps_filled(int right) // by the host, to whom they are no gaps, then by a kernel
{
    Buffer<Gaps> a(32, false);
    Gaps h[32];
    cudaMemset2D(a, sizeof(Gaps), 0, 13, 32);
    put_gaps<<<1, 32>>>(a, right ? 32 : 20);
    cudaMemcpy(h, a, sizeof h, cudaMemcpyDeviceToHost); // !gaps_filled: uninitialised-copy
}

// ---- memory that is mapped side by side ----

__global__ void across(char *to, int n) // n bytes at once, where there are such copies
{
    alignas(128) __shared__ char s[256];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        s[i] = i;
    __syncthreads();
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
        unsigned from = (unsigned)__cvta_generic_to_shared(s);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
                     "r"(n));
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
#else
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        to[i] = s[i];
#endif
}
__global__ void one_more(char *to, int n)
{
    to[n - 1] = 1; // !mapped: out-of-bounds
}

static void mapped(int right)
{
    const size_t piece = 2 << 20;
    CUmemAllocationProp prop = {};
    CUmemAccessDesc access = {};
    CUmemGenericAllocationHandle h[2];
    CUdeviceptr base;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    cudaFree(0);
    cuMemAddressReserve(&base, 4 * piece, 0, 0, 0);
    for (int i = 0; i < 2; i++) {
        cuMemCreate(&h[i], piece, &prop, 0);
        cuMemMap(base + i * piece, piece, 0, h[i], 0);
    }
    cuMemSetAccess(base, 2 * piece, &access, 1);
    across<<<1, 32>>>((char *)base + piece - 128, 256);
    across<<<1, 32>>>((char *)base + piece - 256, 256);
    one_more<<<1, 1>>>((char *)base, right ? 2 * piece : 2 * piece + 1);
    char out[256];
    cudaMemcpy(out, (char *)base + piece - 128, 256, cudaMemcpyDeviceToHost);
    if (cudaDeviceSynchronize() != cudaSuccess || out[127] != (char)255 || out[129] != (char)129)
        abort();
    for (int i = 0; i < 2; i++) {
        cuMemUnmap(base + i * piece, piece);
        cuMemRelease(h[i]);
    }
    cuMemAddressFree(base, 4 * piece);
}

static const Fault faults[] = {
    {"huge", huge},
    {"hoards", hoards},
    {"each_new", each_new},
    {"tells", tells},
    {"each_tells", each_tells},
    {"chatters", chatters},
    {"deep", deep},
    {"by_turns", by_turns},
    {"walked", walked},
    {"lengths", lengths},
    {"rows_of_4", rows_of_4},
    {"doubles", doubles},
    {"counts", counts},
    {"async_freed", async_freed},
    {"grown", grown},
    {"node_freed", node_freed},
    {"own_heap", own_heap},
    {"never", never},
    {"half_set", half_set},
    {"padded", padded},
    {"some_set", some_set},
    {"fill_in_word", fill_in_word},
    {"fill_short", fill_short},
    {"fill_in_quad", fill_in_quad},
    {"fill_apart", fill_apart},
    {"copied_over", copied_over},
    {"copied_hole", copied_hole},
    {"few_small", few_small},
    {"few_late", few_late},
    {"few_gaps", few_gaps},
    {"third_set", third_set},
    {"most_set", most_set},
    {"gaps_taken", gaps_taken},
    {"gaps_filled", gaps_filled},
    {"mapped", mapped},
};

int main(int argc, char **argv)
{
    return run_fault(faults, argc, argv);
}
