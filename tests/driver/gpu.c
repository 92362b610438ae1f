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
    DO(cuModuleUnload(module));
    printf("%d %d %g %g\n", numbers[1], numbers[N - 1], sums[0], sums[N - 1]);
    return 0;
}
