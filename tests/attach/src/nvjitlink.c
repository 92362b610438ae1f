/* Links a kernel and a function that it calls, of two texts, with nvJitLink, and launches it: "ptx" or "lto"
 * (code for link-time optimisation). */
#include <cuda.h>
#include <nvJitLink.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const texts[] = {
    "extern __device__ int inc(int x);\nextern \"C\" __global__ void k(int *p)\n{\n    p[threadIdx.x] = "
    "inc(p[threadIdx.x]);\n}\n",
    "__device__ int inc(int x)\n{\n    return x + 1;\n}\n",
};

static int nvjitlink_add(nvJitLinkHandle link, const char *text, int lto)
{
    nvrtcProgram p;
    size_t bytes;
    const char *options[] = {lto ? "-arch=compute_90" : "-arch=sm_90", "-rdc=true", "-dlto"};
    if (nvrtcCreateProgram(&p, text, NULL, 0, NULL, NULL) || nvrtcCompileProgram(p, lto ? 3 : 2, options) ||
        (lto ? nvrtcGetLTOIRSize(p, &bytes) : nvrtcGetPTXSize(p, &bytes)))
        return 1;
    char *code = malloc(bytes);
    int bad = (lto ? nvrtcGetLTOIR(p, code) : nvrtcGetPTX(p, code)) ||
              nvJitLinkAddData(link, lto ? NVJITLINK_INPUT_LTOIR : NVJITLINK_INPUT_PTX, code, bytes, "part");
    free(code);
    nvrtcDestroyProgram(&p);
    return bad;
}

int main(int argc, char **argv)
{
    int lto = !strcmp(argv[1], "lto");
    const char *options[] = {"-arch=sm_90", "-lto"};
    nvJitLinkHandle link;
    size_t bytes = 0;
    CUcontext c;
    CUmodule m;
    CUfunction f;
    CUdeviceptr d;
    int r[64];
    if (nvJitLinkCreate(&link, lto ? 2 : 1, options) || nvjitlink_add(link, texts[0], lto) ||
        nvjitlink_add(link, texts[1], lto) || nvJitLinkComplete(link) ||
        nvJitLinkGetLinkedCubinSize(link, &bytes))
        return 1;
    char *code = malloc(bytes);
    if (nvJitLinkGetLinkedCubin(link, code) || nvJitLinkDestroy(&link))
        return 2;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c) || cuModuleLoadData(&m, code))
        return 3;
    free(code);
    void *args[] = {&d};
    if (cuModuleGetFunction(&f, m, "k") || cuMemAlloc(&d, sizeof r) || cuMemsetD32(d, 5, 64) ||
        cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, 0, args, 0) || cuMemcpyDtoH(r, d, sizeof r))
        return 4;
    printf("%d %d\n", r[0], r[63]);
    return 0;
}
