/* Kernels of kernels.ptx (the argument) that the driver API launches, by each way to get at the function that
 * does: called by its name, asked of the driver, asked of the runtime, and as a graph. Prints what they have
 * computed. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 1000
#define DO(call)                                                                                             \
    do {                                                                                                     \
        int code = (int)(call);                                                                              \
        if (code) {                                                                                          \
            fprintf(stderr, "%s: %d\n", #call, code);                                                        \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

typedef CUresult launch_function(CUfunction f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, CUstream, void **, void **);

static char text[100000];

static int unknown_graph(CUfunction f, void **args)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUstream stream;
    CUDA_KERNEL_NODE_PARAMS k = {.func = f,
                                 .gridDimX = (N + 127) / 128,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 128,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = args};
    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DO(cuGraphCreate(&graph, 0));
    DO(cuGraphAddKernelNode(&node, graph, NULL, 0, &k));
    DO(cuGraphInstantiate(&exec, graph, 0));
    DO(cuGraphLaunch(exec, stream));
    DO(cuStreamSynchronize(stream));
    DO(cuGraphExecDestroy(exec));
    DO(cuGraphDestroy(graph));
    return 0;
}

/* The stack of threads: the program sees what it asked for, the GPU has more of it for record calls. */
static int unknown_stack(void)
{
    size_t mine, first, real;
    DO(cudaDeviceGetLimit(&first, cudaLimitStackSize));
    cudaError_t (*theirs)(size_t *, enum cudaLimit) = (cudaError_t(*)(size_t *, enum cudaLimit))dlsym(
        dlopen(getenv("MEMTRACE_CUDART"), RTLD_NOW | RTLD_NOLOAD), "cudaDeviceGetLimit");
    DO(cudaDeviceSetLimit(cudaLimitStackSize, 2000));
    DO(cudaDeviceGetLimit(&mine, cudaLimitStackSize));
    DO(theirs(&real, cudaLimitStackSize));
    DO(cudaDeviceReset());
    printf("%zu %zu %zu", first, mine, real);
    DO(cudaDeviceGetLimit(&mine, cudaLimitStackSize));
    printf(" %zu\n", mine);
    return 0;
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction iota;
    CUdeviceptr p;
    void *launch[3] = {(void *)cuLaunchKernel};
    static int numbers[N];
    CUdriverProcAddressQueryResult found;
    enum cudaDriverEntryPointQueryResult entry;
    if (argc > 2 && !strcmp(argv[2], "stack"))
        return unknown_stack();
    FILE *f = fopen(argv[1], "r");
    if (!f || !fread(text, 1, sizeof text - 1, f))
        return 2;
    DO(cuInit(0));
    DO(cuDeviceGet(&device, 0));
    DO(cuDevicePrimaryCtxRetain(&context, device));
    DO(cuCtxSetCurrent(context));
    DO(cuMemAlloc(&p, sizeof numbers));
    DO(cuModuleLoadData(&module, text));
    DO(cuModuleGetFunction(&iota, module, "iota"));
    DO(cuGetProcAddress("cuLaunchKernel", &launch[1], 12000, 0, &found));
    DO(cudaGetDriverEntryPoint("cuLaunchKernel", &launch[2], 0, &entry));
    int n = N;
    void *args[] = {&p, &n};
    for (int i = 0; i < 3; i++)
        DO(((launch_function *)launch[i])(iota, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    DO(cuCtxSynchronize());
    if (argc > 2)
        DO(unknown_graph(iota, args));
    DO(cuMemcpyDtoH(numbers, p, sizeof numbers));
    DO(cuModuleUnload(module));
    printf("%d %d\n", numbers[1], numbers[N - 1]);
    return 0;
}
