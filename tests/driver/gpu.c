/* Kernels of kernels.ptx (the argument) by the driver API: loaded as a module and as a library, launched with
 * pointers and with a buffer of arguments. Prints what they have computed. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define N 1000
#define DO(call)                                                                                             \
    do {                                                                                                     \
        int code = (int)(call);                                                                              \
        if (code) {                                                                                          \
            fprintf(stderr, "%s: %d\n", #call, code);                                                        \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static char text[100000];

/* Fills of all widths, and copies through an array: each leaves a line, which gpu.py knows. */
static int gpu_fills(CUdeviceptr p, CUcontext context)
{
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR d = {
        .Width = 8, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    unsigned found[32] = {0}, sum = 0;
    DO(cuMemsetD8(p, 1, 100));
    DO(cuMemsetD16(p, 0x0202, 100));
    DO(cuMemsetD32(p, 3, 32));
    DO(cuMemsetD2D8(p + 4, 32, 0, 4, 2));
    DO(cuMemsetD2D32(p, 64, 7, 2, 2));
    DO(cuMemsetD32Async(p, 9, 1, NULL));
    DO(cuMemsetD2D16Async(p + 8, 32, 0, 2, 3, NULL));
    DO(cuStreamWriteValue32(NULL, p + 124, 5, 0));
    DO(cuMemcpyPeer(p + 64, context, p, context, 16));
    DO(cuArrayCreate(&array, &d));
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p,
                       .srcPitch = 32,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = array,
                       .WidthInBytes = 32,
                       .Height = 4};
    DO(cuMemcpy2D(&c));
    CUDA_MEMCPY3D b = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                       .srcArray = array,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = found,
                       .dstPitch = 32,
                       .dstHeight = 4,
                       .WidthInBytes = 32,
                       .Height = 4,
                       .Depth = 1};
    DO(cuMemcpy3D(&b));
    DO(cuArrayDestroy(array));
    for (int i = 0; i < 32; i++)
        sum = sum * 3 + found[i];
    printf("%u\n", sum);
    return 0;
}

/* iota and then add as a graph: launched twice, then over half of the numbers, then without iota; and what a
 * stream captured of iota. */
static int gpu_graphs(CUfunction iota, CUfunction add, CUdeviceptr p, CUdeviceptr a)
{
    CUgraph graph, captured;
    CUgraphNode first, second;
    CUgraphExec exec, again;
    CUstream stream;
    int n = N, half = N / 2;
    void *numbers[] = {&p, &n}, *sums[] = {&a, &p, &a, &n};
    CUDA_KERNEL_NODE_PARAMS k = {.func = iota,
                                 .gridDimX = (N + 127) / 128,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 128,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = numbers};
    CUDA_KERNEL_NODE_PARAMS l = k;
    l.func = add;
    l.kernelParams = sums;
    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DO(cuGraphCreate(&graph, 0));
    DO(cuGraphAddKernelNode(&first, graph, NULL, 0, &k));
    DO(cuGraphAddKernelNode(&second, graph, &first, 1, &l));
    DO(cuGraphInstantiate(&exec, graph, 0));
    DO(cuGraphLaunch(exec, stream));
    DO(cuGraphLaunch(exec, stream));
    numbers[1] = &half;
    DO(cuGraphExecKernelNodeSetParams(exec, first, &k));
    DO(cuGraphLaunch(exec, stream));
    DO(cuGraphNodeSetEnabled(exec, first, 0));
    DO(cuGraphLaunch(exec, stream));
    DO(cuGraphExecUpdate(exec, graph, &(CUgraphExecUpdateResultInfo){0}));
    DO(cuStreamSynchronize(stream));
    DO(cuGraphExecDestroy(exec));
    DO(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    DO(cuLaunchKernel(iota, (N + 127) / 128, 1, 1, 128, 1, 1, 0, stream, numbers, NULL));
    DO(cuStreamEndCapture(stream, &captured));
    DO(cuGraphInstantiate(&again, captured, 0));
    DO(cuGraphLaunch(again, stream));
    DO(cuStreamSynchronize(stream));
    DO(cuGraphExecDestroy(again));
    DO(cuGraphDestroy(graph));
    return 0;
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUlibrary library;
    CUfunction iota, add;
    CUkernel kernel;
    CUdeviceptr p, a;
    static int numbers[N];
    static float sums[N];
    FILE *f = fopen(argv[1], "r");
    if (!f || !fread(text, 1, sizeof text - 1, f))
        return 2;
    DO(cuInit(0));
    DO(cuDeviceGet(&device, 0));
    DO(cuDevicePrimaryCtxRetain(&context, device));
    DO(cuCtxSetCurrent(context));
    DO(cuMemAlloc(&p, sizeof numbers));
    DO(cuMemAlloc(&a, sizeof sums));

    DO(cuModuleLoadData(&module, text));
    DO(cuModuleGetFunction(&iota, module, "iota"));
    DO(cuFuncSetAttribute(iota, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
    int n = N;
    void *args[] = {&p, &n};
    for (int i = 0; i < 3; i++)
        DO(cuLaunchKernel(iota, (N + 127) / 128, 1, 1, 128, 1, 1, 1024, NULL, args, NULL));
    DO(cuCtxSynchronize());
    DO(cuMemcpyDtoH(numbers, p, sizeof numbers));

    DO(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    DO(cuLibraryGetKernel(&kernel, library, "add"));
    DO(cuKernelGetFunction(&add, kernel));
    for (int i = 0; i < N; i++)
        sums[i] = 0.5f;
    DO(cuMemcpyHtoD(a, sums, sizeof sums));
    struct {
        CUdeviceptr a, b, c;
        int n;
    } all = {a, p, a, N};
    size_t bytes = sizeof all;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &all, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    DO(cuLaunchKernel(add, (N + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    DO(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    DO(cuCtxSynchronize());
    DO(cuMemcpyDtoH(sums, a, sizeof sums));
    DO(gpu_graphs(iota, add, p, a));
    DO(gpu_fills(p, context));
    DO(cuModuleUnload(module));
    printf("%d %d %g %g\n", numbers[1], numbers[N - 1], sums[0], sums[N - 1]);
    return 0;
}
