/* The device as programs ask for it: properties against attributes, limits, flags, peers, errors. Expected
 * codes are those that CUDA's own header documents for each call. */
#include "api.h"
#include "util.h"

static int device_attribute(enum cudaDeviceAttr a)
{
    int v = -12345;
    OK(cudaDeviceGetAttribute(&v, a, 0));
    return v;
}

static void attributes_are_the_properties(void **state)
{
    struct cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
#define SAME(name, value) assert_int_equal(device_attribute(cudaDevAttr##name), (int)(value))
    SAME(MaxThreadsPerBlock, p.maxThreadsPerBlock);
    SAME(MaxBlockDimX, p.maxThreadsDim[0]);
    SAME(MaxBlockDimZ, p.maxThreadsDim[2]);
    SAME(MaxGridDimX, p.maxGridSize[0]);
    SAME(MaxGridDimZ, p.maxGridSize[2]);
    SAME(MaxSharedMemoryPerBlock, p.sharedMemPerBlock);
    SAME(MaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin);
    SAME(MaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor);
    SAME(ReservedSharedMemoryPerBlock, p.reservedSharedMemPerBlock);
    SAME(TotalConstantMemory, p.totalConstMem);
    SAME(WarpSize, 32);
    SAME(MaxRegistersPerBlock, p.regsPerBlock);
    SAME(MultiProcessorCount, p.multiProcessorCount);
    SAME(MaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor);
    SAME(MaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor);
    SAME(ComputeCapabilityMajor, p.major);
    SAME(ComputeCapabilityMinor, p.minor);
    SAME(L2CacheSize, p.l2CacheSize);
    SAME(MaxTexture1DWidth, p.maxTexture1D);
    SAME(MaxTexture2DHeight, p.maxTexture2D[1]);
    SAME(MaxTexture3DDepth, p.maxTexture3D[2]);
    SAME(MaxTexture2DLinearPitch, p.maxTexture2DLinear[2]);
    SAME(MaxTextureCubemapLayeredLayers, p.maxTextureCubemapLayered[1]);
    SAME(MaxSurface2DLayeredLayers, p.maxSurface2DLayered[2]);
    SAME(TextureAlignment, p.textureAlignment);
    SAME(ConcurrentKernels, p.concurrentKernels);
    SAME(AsyncEngineCount, p.asyncEngineCount);
    SAME(UnifiedAddressing, p.unifiedAddressing);
    SAME(ManagedMemory, p.managedMemory);
    SAME(ConcurrentManagedAccess, p.concurrentManagedAccess);
    SAME(PageableMemoryAccess, p.pageableMemoryAccess);
    SAME(CooperativeLaunch, p.cooperativeLaunch);
    SAME(ComputePreemptionSupported, p.computePreemptionSupported);
    SAME(StreamPrioritiesSupported, p.streamPrioritiesSupported);
    SAME(MemoryPoolsSupported, p.memoryPoolsSupported);
    SAME(ClusterLaunch, p.clusterLaunch);
    SAME(ComputeMode, cudaComputeModeDefault);
    SAME(PciBusId, p.pciBusID);
    SAME(IpcEventSupport, p.ipcEventSupported);
    assert_true(p.totalGlobalMem > 0 && p.name[0] && p.maxThreadsPerBlock == 1024);
    /* Each number that the header names can be asked for. */
    for (int a = 1; a <= cudaDevAttrMax; a++)
        device_attribute((enum cudaDeviceAttr)a);
}

static void attribute_errors(void **state)
{
    int v;
    struct cudaDeviceProp p;
    EXPECT(cudaErrorInvalidValue, cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0));
    EXPECT(cudaErrorInvalidValue, cudaDeviceGetAttribute(&v, (enum cudaDeviceAttr)0, 0));
    EXPECT(cudaErrorInvalidValue, cudaDeviceGetAttribute(&v, (enum cudaDeviceAttr)100000, 0));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 1));
    EXPECT(cudaErrorInvalidDevice, cudaGetDeviceProperties(&p, -1));
    EXPECT(cudaErrorInvalidValue, cudaGetDeviceProperties(NULL, 0));
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(1));
    OK(cudaSetDevice(0));
    OK(cudaGetDevice(&v));
    assert_int_equal(v, 0);
    OK(cudaGetDeviceCount(&v));
    assert_int_equal(v, 1);
    OK(cudaInitDevice(0, 0, 0));
    EXPECT(cudaErrorInvalidDevice, cudaInitDevice(3, 0, 0));
    OK(cudaChooseDevice(&v, &p));
}

static void limits_and_flags(void **state)
{
    size_t v;
    unsigned flags;
    enum cudaFuncCache cache;
    OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20));
    OK(cudaDeviceGetLimit(&v, cudaLimitMallocHeapSize));
    assert_int_equal(v, 64 << 20);
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    OK(cudaDeviceGetLimit(&v, cudaLimitStackSize));
    assert_int_equal(v, 4096);
    OK(cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 1 << 20)); /* at most 128, says the header */
    OK(cudaDeviceGetLimit(&v, cudaLimitMaxL2FetchGranularity));
    assert_true(v <= 128);
    EXPECT(cudaErrorUnsupportedLimit, cudaDeviceSetLimit((enum cudaLimit)77, 1));
    EXPECT(cudaErrorUnsupportedLimit, cudaDeviceGetLimit(&v, (enum cudaLimit)77));
    EXPECT(cudaErrorUnsupportedLimit, cudaDeviceGetLimit(&v, cudaLimitDevRuntimeSyncDepth)); /* sm_90 */
    EXPECT(cudaErrorInvalidValue, cudaDeviceGetLimit(NULL, cudaLimitStackSize));
    OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceLmemResizeToMax));
    OK(cudaGetDeviceFlags(&flags));
    assert_int_equal(flags & cudaDeviceScheduleMask, cudaDeviceScheduleBlockingSync);
    EXPECT(cudaErrorInvalidValue, cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceScheduleYield));
    EXPECT(cudaErrorInvalidValue, cudaSetDeviceFlags(0x10000));
    OK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    OK(cudaDeviceGetCacheConfig(&cache));
    assert_int_equal(cache, cudaFuncCachePreferL1);
    EXPECT(cudaErrorInvalidValue, cudaDeviceSetCacheConfig((enum cudaFuncCache)9));
}

static void bus_id(void **state)
{
    char id[64], other[13];
    int device = 7;
    struct cudaDeviceProp p;
    unsigned domain, bus, slot, function;
    OK(cudaDeviceGetPCIBusId(id, sizeof id, 0));
    OK(cudaGetDeviceProperties(&p, 0));
    assert_int_equal(sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function), 4);
    assert_true((int)domain == p.pciDomainID && (int)bus == p.pciBusID && (int)slot == p.pciDeviceID);
    OK(cudaDeviceGetByPCIBusId(&device, id));
    assert_int_equal(device, 0);
    OK(cudaDeviceGetPCIBusId(other, sizeof other, 0)); /* 13 characters are enough, the header says */
    assert_string_equal(other, id);
    EXPECT(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(other, 12, 0));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceGetPCIBusId(id, sizeof id, 2));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceGetByPCIBusId(&device, "0000:77:00.0"));
    EXPECT(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(&device, NULL));
}

static void device_peers(void **state)
{
    int can = 9;
    void *a, *b;
    OK(cudaDeviceCanAccessPeer(&can, 0, 0)); /* a device is not a peer of its own */
    assert_int_equal(can, 0);
    EXPECT(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(1, 0));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
    EXPECT(cudaErrorInvalidValue, cudaDeviceEnablePeerAccess(0, 1));
    EXPECT(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceDisablePeerAccess(1));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrAccessSupported, 0, 0));
    OK(cudaMalloc(&a, 64));
    OK(cudaMalloc(&b, 64));
    OK(cudaMemset(a, 7, 64));
    OK(cudaMemcpyPeer(b, 0, a, 0, 64)); /* to itself it may copy */
    unsigned char h[64];
    OK(cudaMemcpy(h, b, 64, cudaMemcpyDeviceToHost));
    assert_int_equal(h[63], 7);
    EXPECT(cudaErrorInvalidDevice, cudaMemcpyPeer(b, 1, a, 0, 64));
    EXPECT(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(b, 0, a, 1, 64, 0));
    OK(cudaFree(a));
    OK(cudaFree(b));
}

static void last_error(void **state)
{
    void *p;
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaFree((void *)16), cudaErrorInvalidValue);
    assert_int_equal(cudaMalloc(&p, 4), cudaSuccess); /* a good call does not clear it */
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidValue); /* nor does looking */
    assert_int_equal(cudaSetDevice(5), cudaErrorInvalidDevice);     /* the latest one counts */
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    OK(cudaFree(p));
}

static void every_error_has_name_and_text(void **state)
{
    int n = 0;
    for (int code = 0; code < 1000; code++) {
        const char *name = cudaGetErrorName((cudaError_t)code), *text = cudaGetErrorString((cudaError_t)code);
        int known = strcmp(name, "unrecognized error code") != 0;
        n += known;
        assert_true(*text);
        if (!known)
            assert_string_equal(text, "unrecognized error code");
        else
            assert_true(code == 0 || !strncmp(name, "cudaError", 9));
    }
    assert_true(n > 120);
    assert_string_equal(cudaGetErrorName(cudaErrorAssert), "cudaErrorAssert");
    assert_string_equal(cudaGetErrorString(cudaErrorIllegalAddress),
                        "an illegal memory access was encountered");
    assert_string_equal(cudaGetErrorName(cudaErrorUnknown), "cudaErrorUnknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_the_properties),
        cmocka_unit_test(attribute_errors),
        cmocka_unit_test(limits_and_flags),
        cmocka_unit_test(bus_id),
        cmocka_unit_test(device_peers),
        cmocka_unit_test(last_error),
        cmocka_unit_test(every_error_has_name_and_text),
    };
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
