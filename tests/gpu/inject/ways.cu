// Ways to memory and to other threads that are hard to trace. ../cases_inject.py has the counts, by hand.
// ways WHAT: one of them, or "needs SM" for a GPU that is too old.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            printf("%s: %s\n", #call, cudaGetErrorName(e_));                                                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#if __CUDA_ARCH__ >= 900
#define HAS_90
#endif

__device__ unsigned in_shared(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// ---- tensor copies ----

// One lane copies a box of 16 by 8 ints of `from`, at column 4 of row 2, to column 0 of row 0 of `to`.
__global__ void tensor(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to)
{
#ifdef HAS_90
    __shared__ __align__(128) char s[512];
    __shared__ __align__(8) unsigned long long barrier;
    if (threadIdx.x)
        return;
    unsigned at = in_shared(&barrier), done = 0;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at));
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], 512; }" ::"r"(at));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
        "{%3, %4}], [%2];" ::"r"(in_shared(s)),
        "l"(&from), "r"(at), "r"(4), "r"(2)
        : "memory");
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(at)
                     : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %2}], [%1];" ::"l"(&to),
        "r"(in_shared(s)), "r"(0)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

enum { COLUMNS = 32, ROWS = 16 };
typedef CUresult encode(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                        const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                        CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static CUtensorMap map_of(int *memory)
{
    CUtensorMap m;
    void *f = NULL;
    cudaDriverEntryPointQueryResult found;
    const cuuint64_t size[] = {COLUMNS, ROWS}, stride[] = {COLUMNS * 4};
    const cuuint32_t box[] = {16, 8}, step[] = {1, 1};
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found));
    if (!f || ((encode *)f)(&m, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, memory, size, stride, box, step,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) {
        printf("cuTensorMapEncodeTiled failed\n");
        exit(1);
    }
    return m;
}

static int *numbers(int n)
{
    int *d, *host = (int *)malloc(n * sizeof *host);
    for (int i = 0; i < n; i++)
        host[i] = i;
    CHECK(cudaMalloc(&d, n * sizeof *d));
    CHECK(cudaMemcpy(d, host, n * sizeof *d, cudaMemcpyHostToDevice));
    free(host);
    return d;
}

static int word(const int *d, int i)
{
    int v;
    CHECK(cudaMemcpy(&v, d + i, sizeof v, cudaMemcpyDeviceToHost));
    return v;
}

static int run_tensor()
{
    int *from = numbers(COLUMNS * ROWS), *to = numbers(COLUMNS * ROWS);
    tensor<<<1, 32>>>(map_of(from), map_of(to));
    CHECK(cudaDeviceSynchronize());
    return word(to, 0) == 2 * COLUMNS + 4 && word(to, 7 * COLUMNS + 15) == 9 * COLUMNS + 19 &&
           word(to, 16) == 16;
}

// ---- generic pointers ----

// Odd lanes store to shared memory, even ones to global memory, by the same instruction; all store a sum.
__global__ void generic(int *a)
{
    __shared__ int s[32];
    int *to = threadIdx.x % 2 ? s : a;
    asm volatile("st.u32 [%0], %1;" ::"l"(to + threadIdx.x), "r"(threadIdx.x) : "memory");
    __syncthreads();
    asm volatile("st.global.u32 [%0+128], %1;" ::"l"(a + threadIdx.x),
                 "r"(threadIdx.x % 2 ? s[threadIdx.x] : 0)
                 : "memory");
}

static int run_generic()
{
    int *a = numbers(64);
    generic<<<1, 32>>>(a);
    CHECK(cudaDeviceSynchronize());
    return word(a, 30) == 30 && word(a, 32 + 31) == 31;
}

// ---- textures, surfaces, multimem ----

__global__ void texture(cudaTextureObject_t t, int *out)
{
    out[threadIdx.x] = tex1Dfetch<int>(t, threadIdx.x);
}

__global__ void surface(cudaSurfaceObject_t s, int *out)
{
    surf1Dwrite((int)threadIdx.x, s, 4 * threadIdx.x);
    out[threadIdx.x] = threadIdx.x;
}

// The branch is not taken: few machines have multicast memory.
__global__ void multicast(int *out, int n)
{
#ifdef HAS_90
    if (n)
        asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(out), "r"(n) : "memory");
    out[threadIdx.x] = threadIdx.x;
#endif
}

static int run_texture()
{
    int *from = numbers(32), *to = numbers(64);
    cudaResourceDesc of = {};
    cudaTextureDesc how = {};
    cudaTextureObject_t t;
    of.resType = cudaResourceTypeLinear;
    of.res.linear.devPtr = from, of.res.linear.desc = cudaCreateChannelDesc<int>(),
    of.res.linear.sizeInBytes = 128;
    CHECK(cudaCreateTextureObject(&t, &of, &how, NULL));
    texture<<<1, 32>>>(t, to + 32);
    CHECK(cudaDeviceSynchronize());
    return word(to, 32 + 31) == 31;
}

static int run_surface()
{
    int *to = numbers(64);
    const cudaChannelFormatDesc ints = cudaCreateChannelDesc<int>();
    cudaResourceDesc of = {};
    cudaSurfaceObject_t s;
    of.resType = cudaResourceTypeArray;
    CHECK(cudaMallocArray(&of.res.array.array, &ints, 32, 0, cudaArraySurfaceLoadStore));
    CHECK(cudaCreateSurfaceObject(&s, &of));
    surface<<<1, 32>>>(s, to + 32);
    CHECK(cudaDeviceSynchronize());
    return word(to, 32 + 31) == 31;
}

static int run_multicast()
{
    int *to = numbers(32);
    multicast<<<1, 32>>>(to, 0);
    CHECK(cudaDeviceSynchronize());
    return word(to, 31) == 31;
}

// ---- threads that wait for each other ----

enum { CTAS = 4, THREADS = 64, TURNS = 10 };

// Each thread stores before each of ten barriers of the grid.
__global__ void turns(int *a)
{
    auto grid = cooperative_groups::this_grid();
    for (int i = 0; i < TURNS; i++) {
        a[blockIdx.x * THREADS + threadIdx.x] = i;
        grid.sync();
    }
}

// CTA 0 stores 32 words, and then says so; CTA 1 spins until it has, and stores what it has loaded.
__global__ void flags(volatile int *flag, volatile int *from, int *to)
{
    if (blockIdx.x == 0) {
        from[threadIdx.x] = threadIdx.x;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            *flag = 1;
    } else {
        while (!*flag)
            ;
        __threadfence();
        to[threadIdx.x] = from[threadIdx.x];
    }
}

static int run_turns()
{
    int *a = numbers(CTAS * THREADS);
    void *arguments[] = {&a};
    CHECK(cudaLaunchCooperativeKernel((const void *)turns, CTAS, THREADS, arguments, 0, 0));
    CHECK(cudaDeviceSynchronize());
    return word(a, CTAS * THREADS - 1) == TURNS - 1;
}

static int run_flags()
{
    int *flag = numbers(1), *from = numbers(32), *to = numbers(32);
    CHECK(cudaMemset(flag, 0, 4));
    flags<<<2, 32>>>(flag, from, to);
    CHECK(cudaDeviceSynchronize());
    return word(to, 31) == 31;
}

// ---- graphs ----

__global__ void next(int *a)
{
    a[threadIdx.x] = a[threadIdx.x] + 1;
}

// `nodes` nodes one after the other, launched `times` times without a wait between them.
static int run_graph(int nodes, int times)
{
    int *a = numbers(32);
    cudaStream_t s, t;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamCreate(&t));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < nodes; i++)
        next<<<1, 32, 0, s>>>(a);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < times; i++)
        CHECK(cudaGraphLaunch(exec, i % 2 ? t : s));
    CHECK(cudaDeviceSynchronize());
    return word(a, 1) == 1 + nodes * times;
}

// ---- a kernel that stays ----

enum { ITEMS = 16 };

// Stores 32 words for each item that the host gives it; ends after the last one, or after ten seconds.
__global__ void persistent(volatile int *given, volatile int *done, int *a)
{
    for (int item = 0; item < ITEMS; item++) {
        for (int i = 0; i < 10000000 / 32 && *given <= item; i++)
            __nanosleep(1000);
        a[32 * item + threadIdx.x] = item;
        __threadfence_system();
        __syncthreads();
        if (threadIdx.x == 0)
            *done = item + 1;
    }
}

// Gives an item when the one before it is done, and launches in another stream meanwhile.
static int run_persistent()
{
    int *a = numbers(32 * ITEMS), *b = numbers(32), *words;
    cudaStream_t s[2];
    for (int i = 0; i < 2; i++)
        CHECK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
    CHECK(cudaHostAlloc((void **)&words, 256, cudaHostAllocMapped));
    volatile int *given = words, *done = words + 32;
    *given = *done = 0;
    persistent<<<1, 32, 0, s[0]>>>(given, done, a);
    for (int item = 0; item < ITEMS; item++) {
        next<<<1, 32, 0, s[1]>>>(b);
        CHECK(cudaStreamSynchronize(s[1]));
        *given = item + 1;
        while (*done <= item)
            if (cudaStreamQuery(s[0]) != cudaErrorNotReady)
                break;
    }
    CHECK(cudaDeviceSynchronize());
    return *done == ITEMS && word(a, 32 * ITEMS - 1) == ITEMS - 1 && word(b, 0) == ITEMS;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int needs, (*run)(void);
    } all[] = {{"tensor", 90, run_tensor},  {"generic", 0, run_generic},      {"texture", 0, run_texture},
               {"surface", 0, run_surface}, {"multicast", 90, run_multicast}, {"turns", 0, run_turns},
               {"flags", 0, run_flags},     {"persistent", 0, run_persistent}};
    const char *what = argc > 1 ? argv[1] : "";
    int major, minor;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    int right = !strcmp(what, "graph") && argc == 4 ? run_graph(atoi(argv[2]), atoi(argv[3])) : 0;
    for (const auto &one : all)
        if (!strcmp(what, one.name)) {
            if (10 * major + minor < one.needs) {
                printf("needs sm_%d\n", one.needs);
                return 0;
            }
            right = one.run();
        }
    puts(right ? "passed" : "failed");
    return !right;
}
