/* The driver API on the CPU device, against what CUDA's documentation says and plain loops. Kernels are those
 * of kernels.ptx. With an argument the program is the traced one of trace.py. */
#include "driver.h"

enum { N = 1000 };

CUcontext driver_context;
static CUmodule module;

static int driver_begin(void **state)
{
    CUdeviceptr p;
    CUdevice d;
    assert_int_equal(cuMemAlloc(&p, 4), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuInit(0));
    assert_int_equal(cuMemAlloc(&p, 4), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDeviceGet(&d, 0));
    OK(cuDevicePrimaryCtxRetain(&driver_context, d));
    OK(cuCtxSetCurrent(driver_context));
    OK(cuModuleLoad(&module, KERNELS));
    return 0;
}

CUdeviceptr driver_alloc(size_t bytes)
{
    CUdeviceptr p = 0;
    OK(cuMemAlloc(&p, bytes));
    return p;
}

static CUfunction driver_function(const char *name)
{
    CUfunction f = NULL;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

/* ---- devices and contexts ---- */

static void driver_devices(void **state)
{
    CUdevice d;
    int n = 0, threads = 0, major = 0, minor = 0;
    char name[8];
    size_t bytes = 0;
    CUuuid id;
    OK(cuDeviceGetCount(&n));
    assert_int_equal(n, 1);
    assert_int_equal(cuDeviceGet(&d, 1), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGet(&d, 0));
    OK(cuDeviceGetName(name, sizeof name, d));
    assert_string_equal(name, "memtrac"); /* cut to its room */
    OK(cuDeviceTotalMem(&bytes, d));
    assert_true(bytes > (64u << 20));
    OK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, d));
    assert_int_equal(threads, 1024);
    OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d));
    OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d));
    assert_int_equal(major * 10 + minor, 90);
    OK(cuDeviceGetUuid(&id, d));
    assert_int_equal(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7),
                     CUDA_ERROR_INVALID_DEVICE);
}

static void *driver_contextless(void *result)
{
    CUdeviceptr p;
    *(CUresult *)result = cuMemAlloc(&p, 4);
    return NULL;
}

static void driver_contexts(void **state)
{
    CUcontext mine, got;
    CUresult elsewhere = CUDA_SUCCESS;
    pthread_t t;
    OK(cuCtxCreate(&mine, NULL, CU_CTX_SCHED_YIELD, 0));
    OK(cuCtxGetCurrent(&got));
    assert_ptr_equal(got, mine);
    unsigned flags;
    OK(cuCtxGetFlags(&flags));
    assert_int_equal(flags, CU_CTX_SCHED_YIELD);
    OK(cuCtxPushCurrent(driver_context));
    OK(cuCtxPopCurrent(&got));
    assert_ptr_equal(got, driver_context);
    OK(cuCtxDestroy(mine));
    assert_int_equal(cuCtxPushCurrent(mine), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxDestroy(mine), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxGetCurrent(&got));
    assert_ptr_equal(got, driver_context);
    pthread_create(&t, NULL, driver_contextless, &elsewhere);
    pthread_join(t, NULL);
    assert_int_equal(elsewhere, CUDA_ERROR_INVALID_CONTEXT);
}

/* ---- launches ---- */

static void driver_sums(const float *c, float factor)
{
    for (int i = 0; i < N; i++)
        if (c[i] != (float)i + factor)
            fail_msg("c[%d] is %g", i, c[i]);
}

static void driver_launches(void **state)
{
    CUfunction f = driver_function("add"), none;
    CUdeviceptr a = driver_alloc(4 * N), b = driver_alloc(4 * N), c = driver_alloc(4 * N), scale;
    size_t bytes;
    int n = N;
    float host[N], factors[] = {0, 2};
    assert_int_equal(cuModuleGetFunction(&none, module, "nope"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetGlobal(&scale, &bytes, module, "scale"));
    assert_int_equal(bytes, 8);
    OK(cuMemcpyHtoD(scale, factors, sizeof factors));
    for (int i = 0; i < N; i++)
        host[i] = (float)i;
    OK(cuMemcpyHtoD(a, host, sizeof host));
    OK(cuMemsetD32(b, 0x3f800000, N));
    void *args[] = {&a, &b, &c, &n};
    OK(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH(host, c, sizeof host));
    driver_sums(host, 2);

    struct {
        CUdeviceptr a, b, c;
        int n;
    } packed = {a, b, c, n};
    size_t size = 28; /* without the padding behind n */
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    factors[1] = 3;
    OK(cuMemcpyHtoD(scale, factors, sizeof factors));
    OK(cuMemsetD8(c, 0, 4 * N));
    OK(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, extra));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(host, c, sizeof host));
    driver_sums(host, 3);
    size = 27;
    assert_int_equal(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, NULL, args, extra), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel(f, 8, 1, 1, 2048, 1, 1, 0, NULL, args, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuLaunchKernel((CUfunction)&n, 8, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cudaGetLastError(),
                     cudaSuccess); /* errors of the driver API are none of the runtime's */
    OK(cuMemFree(a));
    OK(cuMemFree(b));
    OK(cuMemFree(c));
    assert_int_equal(cuMemFree(c), CUDA_ERROR_INVALID_VALUE);
}

/* trace.py counts its loads. */
static void driver_seldom(void **state)
{
    CUdeviceptr p = driver_alloc(4);
    int n = 50, sum = 0;
    OK(cuLaunchKernel(driver_function("seldom"), 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p, &n}, NULL));
    OK(cuMemcpyDtoH(&sum, p, sizeof sum));
    assert_int_equal(sum, 3 * n + 7);
    OK(cuMemFree(p));
}

static void driver_attributes(void **state)
{
    CUfunction f = driver_function("iota");
    int threads = 0, blocks = 0, grid = 0;
    const char *name;
    size_t offset = 9, size = 9;
    unsigned n = 0;
    CUfunction all[4];
    OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    assert_int_equal(threads, 128);
    OK(cuFuncGetName(&name, f));
    assert_string_equal(name, "iota");
    OK(cuFuncGetParamInfo(f, 1, &offset, &size));
    assert_int_equal(offset, 8);
    assert_int_equal(size, 4);
    assert_int_equal(cuFuncGetParamInfo(f, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, 0));
    assert_int_equal(blocks, 16); /* 2,048 threads on an SM */
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &threads, f, NULL, 0, 0));
    assert_int_equal(threads, 128);
    OK(cuModuleGetFunctionCount(&n, module));
    assert_int_equal(n, 4);
    OK(cuModuleEnumerateFunctions(all, 4, module));
    assert_true(all[0] == f || all[1] == f || all[2] == f || all[3] == f);
}

/* ---- memory ---- */

static void driver_copies(void **state)
{
    enum { W = 7, H = 5, D = 3, PITCH = 16 };
    unsigned char from[D][H][W], to[D][H][W];
    CUdeviceptr p = driver_alloc(PITCH * (H + 1) * D);
    for (int i = 0; i < W * H * D; i++)
        ((unsigned char *)from)[i] = (unsigned char)(i * 7 + 1);
    CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = W,
                        .srcHeight = H,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = PITCH,
                        .dstHeight = H + 1,
                        .WidthInBytes = W,
                        .Height = H,
                        .Depth = D};
    OK(cuMemcpy3D(&in));
    unsigned char one;
    OK(cuMemcpyDtoH(&one, p + 2 * PITCH * (H + 1) + 3 * PITCH + 4, 1));
    assert_int_equal(one, from[2][3][4]);
    memset(to, 0, sizeof to);
    /* The inner part of plane 1, to the same place. */
    CUDA_MEMCPY2D out = {.srcXInBytes = 2,
                         .srcY = 1,
                         .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .srcDevice = p + PITCH * (H + 1),
                         .srcPitch = PITCH,
                         .dstXInBytes = 2,
                         .dstY = 1,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = to[1],
                         .dstPitch = W,
                         .WidthInBytes = 3,
                         .Height = 2};
    OK(cuMemcpy2D(&out));
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                assert_int_equal(to[z][y][x],
                                 z == 1 && y >= 1 && y < 3 && x >= 2 && x < 5 ? from[z][y][x] : 0);
    OK(cuMemsetD2D16(p, PITCH, 0xbeef, 3, 2));
    uint16_t rows[PITCH / 2 * 2];
    OK(cuMemcpyDtoH(rows, p, sizeof rows));
    assert_int_equal(rows[2], 0xbeef);
    assert_int_not_equal(rows[3], 0xbeef);
    assert_int_equal(rows[PITCH / 2 + 2], 0xbeef);
    assert_int_equal(cuMemsetD16(p + 1, 0, 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
}

static void driver_arrays(void **state)
{
    CUarray a;
    CUDA_ARRAY_DESCRIPTOR d = {.Width = 8, .Height = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2}, got;
    float from[4][16], to[2][6];
    for (int i = 0; i < 64; i++)
        ((float *)from)[i] = (float)i;
    OK(cuArrayCreate(&a, &d));
    OK(cuArrayGetDescriptor(&got, a));
    assert_memory_equal(&got, &d, sizeof d);
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = 64,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = a,
                        .WidthInBytes = 64,
                        .Height = 4};
    OK(cuMemcpy2D(&in));
    CUDA_MEMCPY2D out = {.srcXInBytes = 16,
                         .srcY = 1,
                         .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                         .srcArray = a,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = to,
                         .dstPitch = 24,
                         .WidthInBytes = 24,
                         .Height = 2};
    OK(cuMemcpy2D(&out));
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 6; x++)
            assert_true(to[y][x] == from[y + 1][x + 4]);
    out.srcXInBytes = 4; /* inside an element */
    assert_int_equal(cuMemcpy2D(&out), CUDA_ERROR_INVALID_VALUE);
    OK(cuArrayDestroy(a));
}

static void driver_addresses(void **state)
{
    CUdeviceptr p = driver_alloc(1000), base;
    size_t bytes;
    unsigned type = 0;
    int local, ordinal = 5;
    OK(cuMemGetAddressRange(&base, &bytes, p + 999));
    assert_int_equal(base, p);
    assert_int_equal(bytes, 1000);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 10));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&local),
        CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &ordinal};
    OK(cuPointerGetAttributes(2, names, values, (CUdeviceptr)(uintptr_t)&local));
    assert_int_equal(type, 0);
    assert_int_equal(ordinal, -2);
    OK(cuMemFree(p));
}

/* Copies and fills across the border of two pieces, and not across their end. */
static void driver_across(CUdeviceptr range, CUdeviceptr border, CUdeviceptr end)
{
    int value[4];
    OK(cuMemcpyDtoH(value, border - 8, 16));
    for (int i = 0; i < 4; i++)
        assert_int_equal(value[i], (int)(border - range) / 4 - 2 + i);
    OK(cuMemsetD32(border - 4, 77, 2));
    OK(cuMemcpyDtoD(range, border - 8, 16));
    OK(cuMemcpyDtoH(value, range, 16));
    assert_int_equal(value[0], (int)(border - range) / 4 - 2);
    assert_int_equal(value[1], 77);
    assert_int_equal(value[2], 77);
    assert_int_equal(value[3], (int)(border - range) / 4 + 1);
    assert_int_equal(cuMemcpyDtoH(value, end - 8, 16), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32(end - 4, 0, 2), CUDA_ERROR_INVALID_VALUE);
}

/* Two pieces of memory in one range of addresses; a kernel writes across the border. */
static void driver_mapped(void **state)
{
    enum { PIECE = 2 << 20, N_ACROSS = 2 * PIECE / 4 };
    CUdeviceptr range;
    CUmemGenericAllocationHandle h[2];
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t granularity;
    int n = N_ACROSS;
    OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    assert_int_equal(PIECE % granularity, 0);
    assert_int_equal(cuMemAddressReserve(&range, 100, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressReserve(&range, 2 * PIECE, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        OK(cuMemCreate(&h[i], PIECE, &prop, 0));
        OK(cuMemMap(range + (CUdeviceptr)i * PIECE, PIECE, 0, h[i], 0));
        OK(cuMemRelease(h[i])); /* the mapping keeps it */
    }
    assert_int_equal(cuMemMap(range, PIECE, 0, h[0], 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemSetAccess(range, 2 * PIECE, &access, 1));
    void *args[] = {&range, &n};
    OK(cuLaunchKernel(driver_function("iota"), N_ACROSS / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL));
    OK(cuCtxSynchronize());
    driver_across(range, range + PIECE, range + 2 * PIECE);
    assert_int_equal(cuMemAddressFree(range, 2 * PIECE), CUDA_ERROR_INVALID_VALUE); /* still mapped */
    OK(cuMemUnmap(range, 2 * PIECE));
    OK(cuMemAddressFree(range, 2 * PIECE));
}

/* ---- graphs, streams, names ---- */

static void driver_graphs(void **state)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode fill, kernel;
    CUstream stream;
    CUdeviceptr p = driver_alloc(400);
    int n = 50, value[100];
    void *args[] = {&p, &n};
    CUDA_MEMSET_NODE_PARAMS set = {.dst = p, .value = 9, .elementSize = 4, .width = 100, .height = 1};
    CUDA_KERNEL_NODE_PARAMS run = {.func = driver_function("iota"),
                                   .gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 64,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .kernelParams = args};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&fill, graph, NULL, 0, &set, driver_context));
    OK(cuGraphAddKernelNode(&kernel, graph, &fill, 1, &run));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(value, p, sizeof value));
    for (int i = 0; i < 100; i++)
        assert_int_equal(value[i], i < 50 ? i : 9);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(stream));
    OK(cuMemFree(p));
}

#if CUDA_VERSION >= 12090
static void driver_never(void *data, CUlogLevel level, char *message, size_t length)
{
}
static void driver_logs(void **state)
{
    CUlogsCallbackHandle first, second;
    assert_int_equal(cuLogsRegisterCallback(NULL, NULL, &first), CUDA_ERROR_INVALID_VALUE);
    OK(cuLogsRegisterCallback(driver_never, NULL, &first));
    OK(cuLogsRegisterCallback(driver_never, NULL, &second));
    OK(cuLogsUnregisterCallback(first));
    assert_int_equal(cuLogsUnregisterCallback(first), CUDA_ERROR_INVALID_VALUE);
    OK(cuLogsUnregisterCallback(second));
}
#else
static void driver_logs(void **state)
{
}
#endif

static void driver_names(void **state)
{
    void *f = NULL;
    const char *text;
    CUdriverProcAddressQueryResult found;
    OK(cuGetProcAddress("cuMemAlloc", &f, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    assert_ptr_equal(f, (void *)cuMemAlloc);
    OK(cuGetProcAddress("cuCtxCreate", &f, 11000, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    void *newer;
    OK(cuGetProcAddress("cuCtxCreate", &newer, 13000, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    assert_ptr_equal(newer, (void *)cuCtxCreate);
    assert_ptr_not_equal(newer, f);
    OK(cuGetProcAddress("cuMemcpyAsync", &f, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
    assert_ptr_not_equal(f, (void *)cuMemcpyAsync);
    OK(cuGetProcAddress("cuNothing", &f, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    assert_int_equal(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    OK(cuGetProcAddress("cuKernelGetName", &f, 11000, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    assert_int_equal(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(cuGetErrorName(CUDA_ERROR_INVALID_PTX, &text));
    assert_string_equal(text, "CUDA_ERROR_INVALID_PTX");
    assert_int_equal(cuGetErrorName((CUresult)123456, &text), CUDA_ERROR_INVALID_VALUE);
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    const void *table;
    assert_int_equal(cuGetExportTable(&table, &(CUuuid){{0}}), CUDA_ERROR_NOT_FOUND);
    enum cudaDriverEntryPointQueryResult status;
    assert_int_equal(cudaGetDriverEntryPointByVersion("cuMemAlloc", &f, 12000, cudaEnableDefault, &status),
                     cudaSuccess);
    assert_ptr_equal(f, (void *)cuMemAlloc);
}

/* What no CPU has: refused, and named once (trace.py). */
static void driver_missing(void **state)
{
    CUexternalMemory external;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuImportExternalMemory(&external, NULL), CUDA_ERROR_NOT_SUPPORTED);
        assert_int_equal(cuTexObjectGetResourceDesc(NULL, 0), CUDA_ERROR_NOT_SUPPORTED);
    }
}

/* Copies by maps are in tests/conformance/tensor.cu. */
static void driver_tensors(void **state)
{
#if CUDA_VERSION >= 12000
    static CUtensorMap map, other;
    cuuint64_t dim[2] = {64, 8}, stride[1] = {256};
    cuuint32_t box[2] = {32, 4}, step[2] = {1, 1};
    void *a = (void *)0x10000, *b = (void *)0x20000; /* nobody reads there */
    static const CUtensorMapFloatOOBfill none = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
#define ENCODE(map, type, address, interleave)                                                               \
    cuTensorMapEncodeTiled(map, type, 2, address, dim, stride, box, step, interleave,                        \
                           CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, none)
    OK(ENCODE(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, a, CU_TENSOR_MAP_INTERLEAVE_NONE));
    OK(ENCODE(&other, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, b, CU_TENSOR_MAP_INTERLEAVE_NONE));
    assert_memory_not_equal(&map, &other, sizeof map);
    OK(cuTensorMapReplaceAddress(&map, b));
    assert_memory_equal(&map, &other, sizeof map);
    assert_int_equal(cuTensorMapReplaceAddress(&map, (char *)b + 8), CUDA_ERROR_INVALID_VALUE);
    memset(&map, 0, sizeof map);
    assert_int_equal(cuTensorMapReplaceAddress(&map, b), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ENCODE(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, a, CU_TENSOR_MAP_INTERLEAVE_16B),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(ENCODE(&map, (CUtensorMapDataType)13, a, CU_TENSOR_MAP_INTERLEAVE_NONE),
                     CUDA_ERROR_NOT_SUPPORTED);
#endif
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(driver_devices),       cmocka_unit_test(driver_contexts),
        cmocka_unit_test(driver_launches),      cmocka_unit_test(driver_seldom),
        cmocka_unit_test(driver_attributes),    cmocka_unit_test(driver_bad_code),
        cmocka_unit_test(driver_bad_names),     cmocka_unit_test(driver_freed),
        cmocka_unit_test(driver_link),          cmocka_unit_test(driver_pairs),
        cmocka_unit_test(driver_newer),         cmocka_unit_test(driver_many_threads),
        cmocka_unit_test(driver_libraries),     cmocka_unit_test(driver_runtime_libraries),
        cmocka_unit_test(driver_copies),        cmocka_unit_test(driver_arrays),
        cmocka_unit_test(driver_addresses),     cmocka_unit_test(driver_mapped),
        cmocka_unit_test(driver_graphs),        cmocka_unit_test(driver_logs),
        cmocka_unit_test(driver_grid),          cmocka_unit_test(driver_names),
        cmocka_unit_test(driver_missing),       cmocka_unit_test(driver_tensors),
        cmocka_unit_test(driver_stream_memory), cmocka_unit_test(driver_conditional),
    };
    return cmocka_run_group_tests(tests, driver_begin, NULL);
}
