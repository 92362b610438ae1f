/* Several devices (MEMTRACE_CPU_DEVICES=3) by the driver API, with kernels of kernels.ptx (the argument).
 * Prints what is not as CUDA's documentation says, and how many. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

enum { DEVICES = 3, N = 1000, BYTES = 4 * N };
static int wrong;

static void same(int line, long got, long want)
{
    if (got != want) {
        printf("line %d: %ld, expected %ld\n", line, got, want);
        wrong++;
    }
}
#define SAME(got, want) same(__LINE__, (long)(got), (long)(want))
#define OK(call) SAME(call, CUDA_SUCCESS)

static CUcontext made[DEVICES];
static CUdeviceptr memory[DEVICES];
static CUstream streams[DEVICES];
static CUfunction iota[DEVICES], add[DEVICES];

static void devices_there(void)
{
    int n = 0;
    CUdevice d = -1;
    CUuuid id[DEVICES];
    OK(cuDeviceGetCount(&n));
    SAME(n, DEVICES);
    SAME(cuDeviceGet(&d, DEVICES), CUDA_ERROR_INVALID_DEVICE);
    for (int i = 0; i < DEVICES; i++) {
        OK(cuDeviceGet(&d, i));
        SAME(d, i);
        OK(cuDeviceGetUuid(&id[i], d));
    }
    SAME(memcmp(&id[0], &id[1], sizeof id[0]) && memcmp(&id[1], &id[2], sizeof id[0]), 1);
}

/* Device 0 by its primary context, the others by one that the program makes. */
static void devices_contexts(const char *kernels)
{
    CUdevice d;
    CUcontext got;
    CUmodule m;
    OK(cuDevicePrimaryCtxRetain(&made[0], 0));
    for (int i = 0; i < DEVICES; i++) {
        OK(i ? cuCtxCreate(&made[i], NULL, 0, i) : cuCtxSetCurrent(made[0]));
        OK(cuCtxGetDevice(&d));
        SAME(d, i);
        OK(cuMemAlloc(&memory[i], BYTES));
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        OK(cuModuleLoad(&m, kernels));
        OK(cuModuleGetFunction(&iota[i], m, "iota"));
        OK(cuModuleGetFunction(&add[i], m, "add"));
    }
    for (int i = DEVICES - 1; i > 0; i--) {
        OK(cuCtxPopCurrent(&got));
        SAME(got == made[i], 1);
        OK(cuCtxGetDevice(&d));
        SAME(d, i - 1);
    }
}

/* What belongs to which. */
static void devices_owners(void)
{
    CUcontext got;
    int d = -1;
    for (int i = 0; i < DEVICES; i++) {
        OK(cuPointerGetAttribute(&d, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory[i]));
        SAME(d, i);
        OK(cuStreamGetCtx(streams[i], &got));
        SAME(got == made[i], 1);
        OK(cuCtxSetCurrent(made[i]));
        OK(cuStreamGetCtx(NULL, &got));
        SAME(got == made[i], 1);
    }
}

static CUresult devices_launch(CUfunction f, void **args, CUstream s)
{
    return cuLaunchKernel(f, (N + 127) / 128, 1, 1, 128, 1, 1, 0, s, args, NULL);
}

static void devices_run(void)
{
    int n = N;
    void *args[] = {NULL, &n};
    for (int i = 0; i < DEVICES; i++) {
        args[0] = &memory[i];
        OK(cuCtxSetCurrent(made[i]));
        OK(devices_launch(iota[i], args, streams[i]));
        SAME(devices_launch(iota[i], args, streams[(i + 1) % DEVICES]), CUDA_ERROR_INVALID_HANDLE);
        OK(cuCtxSynchronize());
    }
}

static void devices_peers(void)
{
    static unsigned v[N];
    OK(cuCtxSetCurrent(made[0]));
    SAME(cuCtxDisablePeerAccess(made[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuCtxEnablePeerAccess(made[1], 0));
    SAME(cuCtxEnablePeerAccess(made[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    SAME(cuCtxEnablePeerAccess(made[1], 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD32(memory[2], 7, N));
    OK(cuMemcpyPeer(memory[1], made[1], memory[2], made[2], BYTES));
    OK(cuMemcpyDtoH(v, memory[1], BYTES));
    SAME(v[N - 1], 7);
    int n = N;
    void *one[] = {&memory[1], &n}, *two[] = {&memory[2], &n};
    OK(devices_launch(iota[0], one, NULL)); /* into a peer's memory */
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(v, memory[1], BYTES));
    SAME(v[N - 1], N - 1);
    OK(devices_launch(iota[0], two, NULL)); /* and of one that is none */
    SAME(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxSetCurrent(made[2]));
    OK(cuMemcpyDtoH(v, memory[2], BYTES)); /* the others go on */
    SAME(v[N - 1], 7);
    OK(cuCtxDestroy(made[2]));
    SAME(cuCtxSetCurrent(made[2]), CUDA_ERROR_INVALID_CONTEXT);
}

/* Memory that is mapped by hand: who may touch it is said for each device. */
static void devices_mapped(void)
{
    CUmemGenericAllocationHandle h;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUmemAccessDesc who[2] = {{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUdeviceptr p;
    unsigned long long flags = 9;
    size_t bytes = 2 << 20;
    int d = -1, n = N;
    OK(cuCtxSetCurrent(made[1]));
    OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    OK(cuMemCreate(&h, bytes, &prop, 0));
    OK(cuMemMap(p, bytes, 0, h, 0));
    OK(cuMemSetAccess(p, bytes, who, 1));
    OK(cuPointerGetAttribute(&d, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    SAME(d, 1);
    prop.location.id = 2;
    OK(cuMemGetAccess(&flags, &prop.location, p));
    SAME(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    who[0].location.id = 2;
    OK(cuMemSetAccess(p, bytes, who, 1));
    OK(cuMemGetAccess(&flags, &prop.location, p));
    SAME(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    prop.location.id = DEVICES;
    SAME(cuMemCreate(&h, bytes, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    void *args[] = {&p, &n};
    for (int i = 1; i < DEVICES; i++) {
        OK(cuCtxSetCurrent(made[i]));
        OK(devices_launch(iota[i], args, NULL));
        OK(cuCtxSynchronize());
    }
    OK(cuMemUnmap(p, bytes));
    OK(cuMemRelease(h));
    OK(cuMemAddressFree(p, bytes));
}

int main(int argc, char **argv)
{
    OK(cuInit(0));
    devices_there();
    devices_contexts(argc > 1 ? argv[1] : "kernels.ptx");
    devices_owners();
    devices_run();
    devices_mapped();
    devices_peers();
    printf("%d wrong\n", wrong);
    return 0;
}
