// What the probe looks at: program WHAT [LIBRARY]. libprobe.so says what is seen of it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e_ = (call);                                                                             \
        if (e_ != cudaSuccess) {                                                                             \
            printf("%s: %s\n", #call, cudaGetErrorName(e_));                                                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

__global__ void store(int *a)
{
    a[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

// 33 threads, three ends.
__global__ void early(int *a)
{
    if (threadIdx.x % 3 == 0)
        return;
    asm volatile("st.global.u32 [%0], %1;" ::"l"(a + threadIdx.x), "r"(1));
    if (threadIdx.x % 3 == 1)
        return;
    asm volatile("st.global.u32 [%0+1024], %1;" ::"l"(a + threadIdx.x), "r"(2));
}

__global__ void in_cluster(int *a)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    a[blockIdx.x * blockDim.x + threadIdx.x] = 1;
#endif
}

// Until the host says so, or for three seconds.
__global__ void spin(volatile int *flag, int *done)
{
    for (int i = 0; i < 3000 && !*flag; i++)
        __nanosleep(1000000);
    *done = *flag;
}

__global__ void needs_shared(int *a)
{
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    a[threadIdx.x] = s[threadIdx.x];
}

__global__ void fault(int *a)
{
    a[threadIdx.x] = 1;
    __trap();
}

// Each CTA takes the place of others that have not begun: cluster launch control.
__global__ void takes_over(int *a)
{
#if __CUDA_ARCH__ >= 1000
    __shared__ alignas(16) unsigned answer[4];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned to = (unsigned)__cvta_generic_to_shared(answer),
             at = (unsigned)__cvta_generic_to_shared(&barrier);
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.proxy.async;" ::"r"(at) : "memory");
    for (unsigned phase = 0, taken = 1; taken; phase ^= 1) {
        asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], 16; }" ::"r"(at)
                     : "memory");
        asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
                     "[%0], [%1];" ::"r"(to),
                     "r"(at)
                     : "memory");
        for (unsigned done = 0; !done;)
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(done)
                : "r"(at), "r"(phase)
                : "memory");
        asm volatile("{ .reg .pred p; .reg .b128 h; ld.shared.b128 h, [%1];"
                     "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, h; selp.u32 %0, 1, 0, p; }"
                     : "=r"(taken)
                     : "r"(to)
                     : "memory");
        a[0] = 1;
    }
#endif
}

static int *a, version;

static int run_plain()
{
    cudaStream_t s;
    cudaEvent_t e;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaEventCreate(&e));
    store<<<2, 32>>>(a);
    CHECK(cudaEventRecord(e));
    store<<<2, 32, 0, s>>>(a);
    CHECK(cudaMemset2D(a, 4096, 0, 256, 4));
    CHECK(cudaMemcpy(a + 4096, a, 4096, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpyPeer(a + 4096, 0, a, 0, 4096));
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static int run_ends()
{
    early<<<2, 33>>>(a);
    early<<<dim3(3, 2, 2), dim3(11, 3)>>>(a);
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static int run_clusters()
{
    cudaLaunchAttribute of = {};
    cudaLaunchConfig_t config = {};
    if (version < 90)
        return 0;
    of.id = cudaLaunchAttributeClusterDimension;
    of.val.clusterDim.x = 2, of.val.clusterDim.y = of.val.clusterDim.z = 1;
    config.gridDim = 4, config.blockDim = 33, config.attrs = &of, config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, in_cluster, a));
    if (version >= 100)
        takes_over<<<10000, 1>>>(a);
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static int run_graph()
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    store<<<1, 64, 0, s>>>(a);
    early<<<1, 33, 0, s>>>(a);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cudaGraphLaunch(exec, s));
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static int run_refused()
{
    needs_shared<<<1, 32, 1 << 30>>>(a);
    cudaGetLastError();
    needs_shared<<<1, 32, 2000>>>(a);
    CHECK(cudaDeviceSynchronize());
    return 0;
}

static int run_fault()
{
    fault<<<1, 32>>>(a);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}

// A kernel that runs until a library's module has been loaded.
static int run_beside(const char *library)
{
    cudaStream_t s[2];
    int *flag, *done;
    for (int i = 0; i < 2; i++)
        CHECK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
    CHECK(cudaHostAlloc((void **)&flag, 4, cudaHostAllocMapped));
    CHECK(cudaHostAlloc((void **)&done, 4, cudaHostAllocMapped));
    *flag = *done = 0;
    spin<<<1, 1, 0, s[0]>>>(flag, done);
    void *module = library ? dlopen(library, RTLD_NOW) : NULL;
    int (*go)(void *) = module ? (int (*)(void *))dlsym(module, "module_go") : NULL;
    int status = go ? go(s[1]) : 0;
    *(volatile int *)flag = 1;
    CHECK(cudaDeviceSynchronize());
    printf("%s\n", *done ? "the kernel ran until the host said so" : "the kernel's three seconds were over");
    return status;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "plain";
    int major, minor;
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
    version = 10 * major + minor;
    CHECK(cudaMalloc(&a, 1 << 20));
    return !strcmp(what, "plain")      ? run_plain()
           : !strcmp(what, "ends")     ? run_ends()
           : !strcmp(what, "clusters") ? run_clusters()
           : !strcmp(what, "graph")    ? run_graph()
           : !strcmp(what, "refused")  ? run_refused()
           : !strcmp(what, "fault")    ? run_fault()
           : !strcmp(what, "beside")   ? run_beside(argc > 2 ? argv[2] : NULL)
                                       : 2;
}
