/* Streams, events, host functions, device questions, errors. */
#include "api.h"
#include "util.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void stream_streams(void **state)
{
    cudaStream_t s, t;
    unsigned flags;
    int priority, least, greatest;
    OK(cudaStreamCreate(&s));
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least);
    OK(cudaStreamCreateWithPriority(&t, cudaStreamNonBlocking, greatest));
    assert_ptr_not_equal(s, t);
    OK(cudaStreamGetFlags(t, &flags));
    assert_int_equal(flags, cudaStreamNonBlocking);
    OK(cudaStreamGetPriority(t, &priority));
    assert_int_equal(priority, greatest);
    OK(cudaStreamGetFlags(s, &flags));
    assert_int_equal(flags, cudaStreamDefault);
    OK(cudaStreamSynchronize(s));
    OK(cudaStreamQuery(t));
    OK(cudaStreamQuery(0));
    OK(cudaStreamSynchronize(cudaStreamLegacy));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaStreamDestroy(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamLegacy));
    EXPECT(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&s, 0x77));
    EXPECT(cudaErrorInvalidValue, cudaStreamCreate(NULL));
    OK(cudaStreamDestroy(t));
}

static void stream_events(void **state)
{
    cudaEvent_t a, b, c;
    float ms = -1;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    OK(cudaEventCreateWithFlags(&c, cudaEventDisableTiming));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, b)); /* not recorded */
    OK(cudaEventQuery(a));
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    OK(cudaEventRecord(a, 0));
    usleep(20000);
    OK(cudaEventRecord(b, 0));
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&ms, a, b));
    clock_gettime(CLOCK_MONOTONIC, &after);
    double most =
        1e3 * (double)(after.tv_sec - before.tv_sec) + 1e-6 * (double)(after.tv_nsec - before.tv_nsec);
    assert_true(ms >= 20 && ms <= most + 0.01);
    OK(cudaEventElapsedTime(&ms, b, a));
    assert_true(ms <= -20);
    OK(cudaEventRecord(c, 0));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, a, c));
    OK(cudaStreamWaitEvent(cudaStreamPerThread, a, 0));
    EXPECT(cudaErrorInvalidValue, cudaEventCreateWithFlags(&c, 0x40));
    EXPECT(cudaErrorInvalidValue, cudaEventCreateWithFlags(&c, cudaEventInterprocess));
    OK(cudaEventDestroy(a));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventDestroy(a));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventRecord(a, 0));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(0, a, 0));
    OK(cudaEventDestroy(b));
}

/* ---- host functions ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int order[64], norder;

static void stream_append(void *data)
{
    pthread_mutex_lock(&gate);
    order[norder++] = (int)(intptr_t)data;
    pthread_mutex_unlock(&gate);
}

static void stream_callback(cudaStream_t s, cudaError_t e, void *data)
{
    stream_append(e ? (void *)-1 : data);
}

/* They run without the caller and in order; everything after them in the stream waits. */
static void host_functions(void **state)
{
    cudaStream_t s;
    char *d, h = 5;
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc((void **)&d, 1));
    pthread_mutex_lock(&gate); /* the caller holds what the function needs: no deadlock */
    for (intptr_t i = 0; i < 20; i++)
        if (i % 2)
            OK(cudaLaunchHostFunc(s, stream_append, (void *)i));
        else
            OK(cudaStreamAddCallback(s, stream_callback, (void *)i, 0));
    EXPECT(cudaErrorNotReady, cudaStreamQuery(s));
    assert_int_equal(norder, 0);
    pthread_mutex_unlock(&gate);
    OK(cudaMemcpyAsync(d, &h, 1, cudaMemcpyHostToDevice, s)); /* need not wait: the source is read now */
    h = 6;
    OK(cudaMemcpyAsync(&h, d, 1, cudaMemcpyDeviceToHost, s)); /* waits: the memory is the program's own */
    assert_int_equal(h, 5);
    assert_int_equal(norder, 20);
    for (int i = 0; i < 20; i++)
        assert_int_equal(order[i], i);
    OK(cudaStreamQuery(s));
    OK(cudaLaunchHostFunc(s, stream_append, (void *)100));
    OK(cudaDeviceSynchronize());
    assert_int_equal(order[20], 100);
    OK(cudaLaunchHostFunc(s, stream_append, (void *)101));
    OK(cudaStreamDestroy(s)); /* what is in it is done all the same */
    OK(cudaDeviceSynchronize());
    assert_int_equal(order[21], 101);
    EXPECT(cudaErrorInvalidValue, cudaLaunchHostFunc(0, NULL, NULL));
    OK(cudaFree(d));
}

/* ---- the device ---- */

static void stream_device(void **state)
{
    struct cudaDeviceProp p;
    int n, v, w;
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 1);
    OK(cudaSetDevice(0));
    OK(cudaGetDevice(&n));
    assert_int_equal(n, 0);
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(1));
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(-1));
    OK(cudaGetDeviceProperties(&p, 0));
    EXPECT(cudaErrorInvalidDevice, cudaGetDeviceProperties(&p, 1));
    assert_string_equal(p.name, "memtrace CPU device");
    assert_int_equal(p.major * 10 + p.minor, 90);
    assert_int_equal(p.warpSize, 32);
    const struct {
        enum cudaDeviceAttr a;
        size_t v;
    } same[] = {
        {cudaDevAttrMaxThreadsPerBlock, (size_t)p.maxThreadsPerBlock},
        {cudaDevAttrMaxBlockDimZ, (size_t)p.maxThreadsDim[2]},
        {cudaDevAttrMaxGridDimX, (size_t)p.maxGridSize[0]},
        {cudaDevAttrMaxGridDimY, (size_t)p.maxGridSize[1]},
        {cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor},
        {cudaDevAttrTotalConstantMemory, p.totalConstMem},
        {cudaDevAttrWarpSize, (size_t)p.warpSize},
        {cudaDevAttrMaxPitch, p.memPitch},
        {cudaDevAttrMultiProcessorCount, (size_t)p.multiProcessorCount},
        {cudaDevAttrMaxThreadsPerMultiProcessor, (size_t)p.maxThreadsPerMultiProcessor},
        {cudaDevAttrMaxBlocksPerMultiprocessor, (size_t)p.maxBlocksPerMultiProcessor},
        {cudaDevAttrComputeCapabilityMajor, (size_t)p.major},
        {cudaDevAttrComputeCapabilityMinor, (size_t)p.minor},
        {cudaDevAttrMaxRegistersPerBlock, (size_t)p.regsPerBlock},
        {cudaDevAttrL2CacheSize, (size_t)p.l2CacheSize},
        {cudaDevAttrCooperativeLaunch, (size_t)p.cooperativeLaunch},
        {cudaDevAttrManagedMemory, (size_t)p.managedMemory},
        {cudaDevAttrConcurrentManagedAccess, (size_t)p.concurrentManagedAccess},
        {cudaDevAttrUnifiedAddressing, (size_t)p.unifiedAddressing},
        {cudaDevAttrIntegrated, (size_t)p.integrated},
        {cudaDevAttrTextureAlignment, p.textureAlignment},
        {cudaDevAttrReservedSharedMemoryPerBlock, p.reservedSharedMemPerBlock},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        OK(cudaDeviceGetAttribute(&v, same[i].a, 0));
        if ((size_t)v != same[i].v)
            fail_msg("attribute %d: %d, but the property is %zu", same[i].a, v, same[i].v);
    }
    EXPECT(cudaErrorInvalidValue, cudaDeviceGetAttribute(&v, (enum cudaDeviceAttr)0, 0));
    EXPECT(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, 3));
    OK(cudaRuntimeGetVersion(&v));
    OK(cudaDriverGetVersion(&w));
    assert_int_equal(v, CUDART_VERSION);
    assert_true(w >= v);
    size_t limit;
    OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 26));
    OK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
    assert_int_equal(limit, 1 << 26);
    EXPECT(cudaErrorUnsupportedLimit, cudaDeviceGetLimit(&limit, (enum cudaLimit)99));
    OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    char id[32];
    OK(cudaDeviceGetPCIBusId(id, sizeof id, 0));
    OK(cudaDeviceGetByPCIBusId(&v, id));
    assert_int_equal(v, 0);
    OK(cudaDeviceCanAccessPeer(&v, 0, 0));
    assert_int_equal(v, 0);
    EXPECT(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(1, 0));
}

/* ---- errors ---- */

static void *other_thread(void *arg)
{
    return (void *)(intptr_t)cudaPeekAtLastError();
}

static void last_error(void **state)
{
    void *p;
    pthread_t t;
    assert_int_equal(cudaFree(&p), cudaErrorInvalidValue);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidValue);
    OK(cudaMalloc(&p, 4)); /* success does not clear it */
    pthread_create(&t, NULL, other_thread, NULL);
    pthread_join(t, &p);
    assert_null(p); /* each thread has its own */
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void stream_unsupported(void *arg)
{
    for (int i = 0; i < 3; i++)
        EXPECT(cudaErrorNotSupported, cudaImportExternalMemory(NULL, NULL));
}

static void unsupported_is_said_once(void **state)
{
    char *text = said(stream_unsupported, NULL);
    assert_int_equal(count_lines(text, NULL), 1);
    assert_int_equal(
        count_lines(text, "memtrace: ", "cudaImportExternalMemory", "cudaErrorNotSupported", NULL), 1);
    free(text);
}

static void stream_texts(void **state)
{
    assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
    assert_string_equal(cudaGetErrorName(cudaErrorMpsMaxClientsReached), "cudaErrorMpsMaxClientsReached");
    assert_string_equal(cudaGetErrorString((cudaError_t)123456), "unrecognized error code");
    assert_string_equal(cudaGetErrorString(cudaErrorMpsMaxClientsReached), "mps max clients reached");
}

/* What the program made of streams and events is gone after cudaDeviceReset; the default streams are not. */
static void stream_reset(void **state)
{
    cudaStream_t s, t;
    cudaEvent_t e;
    cudaGraph_t g;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaEventCreate(&e));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(cudaStreamPerThread, e, 0));
    OK(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
    OK(cudaDeviceReset());
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaStreamEndCapture(t, &g));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventQuery(e));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventRecord(e, 0));
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventDestroy(e));
    OK(cudaStreamSynchronize(0));
    OK(cudaStreamSynchronize(cudaStreamLegacy));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaStreamCreate(&s));
    OK(cudaEventCreate(&e));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(cudaStreamPerThread, e, 0));
    OK(cudaDeviceSynchronize());
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_streams), cmocka_unit_test(stream_events),
        cmocka_unit_test(host_functions), cmocka_unit_test(stream_device),
        cmocka_unit_test(last_error),     cmocka_unit_test(unsupported_is_said_once),
        cmocka_unit_test(stream_texts),   cmocka_unit_test(stream_reset),
    };
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
