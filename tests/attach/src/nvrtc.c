/* Compiles a kernel out of two texts that are in no file, for a real architecture, and launches its machine
 * code; "open": finds NVRTC by the path that follows. */
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const header = "__device__ int inc(const int *x)\n{\n    return *x + 1;\n}\n";
static const char *const header_name = "my/inc.h";
static const char *const text = "#include \"my/inc.h\"\nextern \"C\" __global__ void k(int *p)\n{\n    "
                                "p[threadIdx.x] = inc(p + threadIdx.x);\n}\n";

#ifdef OPENED
static void *library;
#define F(name) ((__typeof__(&name))dlsym(library, #name))
#else
#define F(name) name
#endif

int main(int argc, char **argv)
{
    nvrtcProgram p;
    size_t bytes = 0, text_bytes = 0;
    const char *options[] = {"-arch=sm_90"};
    CUcontext c;
    CUmodule m;
    CUfunction f;
    CUdeviceptr d;
    int r[64];
#ifdef OPENED
    if (!(library = dlopen(argv[1], RTLD_NOW)))
        return 9;
#endif
    if (F(nvrtcCreateProgram)(&p, text, NULL, 1, &header, &header_name) ||
        F(nvrtcCompileProgram)(p, 1, options) || F(nvrtcGetCUBINSize)(p, &bytes) ||
        F(nvrtcGetPTXSize)(p, &text_bytes))
        return 1;
    char *code = malloc(bytes), *ptx = malloc(text_bytes);
    if (F(nvrtcGetCUBIN)(p, code) || F(nvrtcGetPTX)(p, ptx) || strlen(ptx) + 1 != text_bytes ||
        F(nvrtcDestroyProgram)(&p) || p)
        return 2;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c) || cuModuleLoadData(&m, code))
        return 3;
    free(code);
    free(ptx);
    void *args[] = {&d};
    if (cuModuleGetFunction(&f, m, "k") || cuMemAlloc(&d, sizeof r) || cuMemsetD32(d, 5, 64) ||
        cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, 0, args, 0) || cuMemcpyDtoH(r, d, sizeof r))
        return 4;
    printf("%d %d %s\n", r[0], r[63], F(nvrtcGetErrorString)(NVRTC_ERROR_COMPILATION));
    return 0;
}
