/* Allocation, frees, pointers, pools. */
#include "api.h"
#include "util.h"

static void malloc_free(void **state)
{
    char *p[100];
    size_t before, after, total;
    OK(cudaMemGetInfo(&before, &total));
    assert_true(before > 0 && before <= total);
    for (size_t i = 0; i < 100; i++) {
        OK(cudaMalloc((void **)&p[i], 1 + i * i * 1000));
        assert_int_equal((uintptr_t)p[i] % 256, 0);
        for (size_t j = 0; j < i; j++) /* disjoint */
            assert_true(p[i] + 1 + i * i * 1000 <= p[j] || p[j] + 1 + j * j * 1000 <= p[i]);
        memset(p[i], 1, 1 + i * i * 1000);
    }
    OK(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 100 + 1000 * (99 * 100 * 199 / 6));
    for (size_t i = 0; i < 100; i++)
        OK(cudaFree(p[(i * 37) % 100]));
    OK(cudaMemGetInfo(&after, &total));
    assert_int_equal(before, after);
}

/* A program that writes past its device memory hits device memory, not what malloc keeps: it goes on,
 * as on a GPU. */
static void memory_overflow(void **state)
{
    char *p, *q, *host[50];
    OK(cudaMalloc((void **)&p, 3072));
    for (int i = 0; i < 50; i++)
        assert_non_null(host[i] = malloc(100 + (size_t)i * 50));
    memset(p, 0xff, 3072 + 24000);
    for (int i = 0; i < 50; i++)
        free(host[i]);
    assert_non_null(host[0] = malloc(20000));
    OK(cudaMalloc((void **)&q, 5000));
    OK(cudaFree(q));
    OK(cudaFree(p));
    free(host[0]);
}

static void malloc_errors(void **state)
{
    void *p = &p;
    size_t total, left;
    OK(cudaMalloc(&p, 0));
    assert_null(p);
    OK(cudaFree(NULL));
    EXPECT(cudaErrorInvalidValue, cudaMalloc(NULL, 4));
    OK(cudaMemGetInfo(&left, &total));
    EXPECT(cudaErrorMemoryAllocation, cudaMalloc(&p, total + 1));
    EXPECT(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)1 << 62));
    OK(cudaMalloc(&p, 64));
    EXPECT(cudaErrorInvalidValue, cudaFree((char *)p + 16)); /* inside */
    EXPECT(cudaErrorInvalidValue, cudaFreeHost(p));          /* other kind */
    OK(cudaFree(p));
    EXPECT(cudaErrorInvalidValue, cudaFree(p)); /* twice */
    EXPECT(cudaErrorInvalidValue, cudaFree(&total));
}

static void host_memory(void **state)
{
    void *p, *q;
    unsigned flags;
    OK(cudaMallocHost(&p, 1000));
    OK(cudaHostGetDevicePointer(&q, p, 0));
    assert_ptr_equal(p, q);
    OK(cudaFreeHost(p));
    EXPECT(cudaErrorInvalidValue, cudaFreeHost(p));
    OK(cudaHostAlloc(&p, 1000, cudaHostAllocMapped | cudaHostAllocPortable));
    OK(cudaHostGetFlags(&flags, p));
    assert_int_equal(flags & cudaHostAllocPortable, cudaHostAllocPortable);
    EXPECT(cudaErrorInvalidValue, cudaFree(p));
    OK(cudaFreeHost(p));
    EXPECT(cudaErrorInvalidValue, cudaHostAlloc(&p, 8, 0x1000));
}

static void memory_registered(void **state)
{
    char *p = malloc(8192);
    void *q;
    OK(cudaHostRegister(p, 4096, cudaHostRegisterDefault));
    EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(p + 100, 10, 0));
    EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(p, 4096, 0));
    OK(cudaHostGetDevicePointer(&q, p + 10, 0));
    assert_ptr_equal(q, p + 10);
    OK(cudaHostUnregister(p));
    EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(p));
    EXPECT(cudaErrorInvalidValue, cudaHostGetDevicePointer(&q, p, 0));
    free(p);
}

static void memory_pitched(void **state)
{
    void *p;
    size_t pitch;
    struct cudaPitchedPtr pp;
    OK(cudaMallocPitch(&p, &pitch, 1000, 33));
    assert_true(pitch >= 1000 && pitch % 512 == 0);
    memset(p, 1, pitch * 33);
    OK(cudaFree(p));
    OK(cudaMalloc3D(&pp, (struct cudaExtent){100, 7, 5}));
    assert_true(pp.pitch >= 100 && pp.xsize == 100 && pp.ysize == 7);
    memset(pp.ptr, 1, pp.pitch * 7 * 5);
    OK(cudaFree(pp.ptr));
    EXPECT(cudaErrorInvalidValue, cudaMallocPitch(&p, &pitch, SIZE_MAX, 2));
    EXPECT(cudaErrorInvalidValue, cudaMallocPitch(&p, NULL, 4, 2));
}

static void managed_and_attributes(void **state)
{
    struct cudaPointerAttributes a;
    void *p;
    int local;
    OK(cudaMallocManaged(&p, 100, cudaMemAttachGlobal));
    OK(cudaPointerGetAttributes(&a, (char *)p + 50));
    assert_int_equal(a.type, cudaMemoryTypeManaged);
    assert_ptr_equal(a.hostPointer, (char *)p + 50);
    OK(cudaFree(p));
    EXPECT(cudaErrorInvalidValue, cudaMallocManaged(&p, 0, cudaMemAttachGlobal));
    EXPECT(cudaErrorInvalidValue, cudaMallocManaged(&p, 8, 77));
    OK(cudaMalloc(&p, 100));
    OK(cudaPointerGetAttributes(&a, p));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    assert_int_equal(a.device, 0);
    assert_ptr_equal(a.devicePointer, p);
    assert_null(a.hostPointer);
    OK(cudaPointerGetAttributes(&a, (char *)p + 99));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    OK(cudaFree(p));
    OK(cudaPointerGetAttributes(&a, &local));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    OK(cudaMallocHost(&p, 8));
    OK(cudaPointerGetAttributes(&a, p));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    OK(cudaFreeHost(p));
}

static void stream_ordered(void **state)
{
    void *p;
    cudaStream_t s;
    cudaMemPool_t pool, standard;
    uint64_t threshold = UINT64_MAX, got = 0;
    OK(cudaStreamCreate(&s));
    OK(cudaMallocAsync(&p, 4096, s));
    OK(cudaMemsetAsync(p, 1, 4096, s));
    OK(cudaFreeAsync(p, s));
    EXPECT(cudaErrorInvalidValue, cudaFreeAsync(p, s));
    OK(cudaDeviceGetDefaultMemPool(&standard, 0));
    OK(cudaMemPoolSetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &got));
    assert_true(got == threshold);
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMallocFromPoolAsync(&p, 100, pool, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaMemPoolDestroy(pool));
    EXPECT(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&p, 100, pool, s));
    OK(cudaStreamDestroy(s));
    EXPECT(cudaErrorInvalidResourceHandle, cudaMallocAsync(&p, 8, s));
}

static void reset_frees(void **state)
{
    void *p;
    size_t a, b, total;
    OK(cudaMemGetInfo(&a, &total));
    OK(cudaMalloc(&p, 1 << 22));
    OK(cudaDeviceReset());
    OK(cudaMemGetInfo(&b, &total));
    assert_int_equal(a, b);
    EXPECT(cudaErrorInvalidValue, cudaFree(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malloc_free),
        cmocka_unit_test(memory_overflow),
        cmocka_unit_test(malloc_errors),
        cmocka_unit_test(host_memory),
        cmocka_unit_test(memory_registered),
        cmocka_unit_test(memory_pitched),
        cmocka_unit_test(managed_and_attributes),
        cmocka_unit_test(stream_ordered),
        cmocka_unit_test(reset_frees),
    };
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
