/* Memory pools, advice on managed memory, batches of copies: what the header of CUDA says of each. */
#include "api.h"
#include "util.h"

static uint64_t pool_figure(cudaMemPool_t pool, enum cudaMemPoolAttr a)
{
    uint64_t v = 99;
    OK(cudaMemPoolGetAttribute(pool, a, &v));
    return v;
}

static const struct cudaMemPoolProps plain = {
    .allocType = cudaMemAllocationTypePinned,
    .location = {.type = cudaMemLocationTypeDevice, .id = 0},
};

static void pools_count(void **state)
{
    cudaMemPool_t pool, now;
    void *a, *b;
    uint64_t zero = 0, one = 1, keep = 1500;
    OK(cudaMemPoolCreate(&pool, &plain));
    assert_int_equal(pool_figure(pool, cudaMemPoolAttrUsedMemCurrent), 0);
    OK(cudaMallocFromPoolAsync(&a, 1000, pool, 0));
    OK(cudaMallocFromPoolAsync(&b, 2000, pool, 0));
    assert_true(pool_figure(pool, cudaMemPoolAttrUsedMemCurrent) >= 3000);
    assert_true(pool_figure(pool, cudaMemPoolAttrReservedMemCurrent) >= 3000);
    OK(cudaFreeAsync(b, 0));
    uint64_t used = pool_figure(pool, cudaMemPoolAttrUsedMemCurrent);
    assert_true(used >= 1000 && used < 3000);
    assert_true(pool_figure(pool, cudaMemPoolAttrUsedMemHigh) >= 3000);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
    assert_int_equal(pool_figure(pool, cudaMemPoolAttrUsedMemHigh), used);
    EXPECT(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &one));
    EXPECT(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &zero));
    /* what is reserved beyond the threshold (0) goes back when the program waits */
    OK(cudaDeviceSynchronize());
    assert_int_equal(pool_figure(pool, cudaMemPoolAttrReservedMemCurrent), used);
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaMallocFromPoolAsync(&b, 2000, pool, 0));
    OK(cudaFree(b)); /* cudaFree knows pools, too */
    OK(cudaDeviceSynchronize());
    assert_int_equal(pool_figure(pool, cudaMemPoolAttrReservedMemCurrent), 1500);
    OK(cudaMemPoolTrimTo(pool, 0));
    assert_int_equal(pool_figure(pool, cudaMemPoolAttrReservedMemCurrent), used);
    /* the current pool serves cudaMallocAsync */
    OK(cudaDeviceSetMemPool(0, pool));
    OK(cudaDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, pool);
    OK(cudaMallocAsync(&b, 500, 0));
    assert_int_equal(pool_figure(pool, cudaMemPoolAttrUsedMemCurrent), used + 500);
    OK(cudaFreeAsync(b, 0));
    OK(cudaMemPoolDestroy(pool));
    OK(cudaDeviceGetMemPool(&now, 0)); /* the default one again */
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    assert_ptr_equal(now, pool);
    OK(cudaMemset(a, 0, 1000)); /* what came from the pool is still there */
    OK(cudaFree(a));
}

static void pool_errors(void **state)
{
    struct cudaMemPoolProps p = plain;
    cudaMemPool_t pool;
    void *a;
    int on = 0, got = 7;
    enum cudaMemAccessFlags flags;
    struct cudaMemAccessDesc access = {.location = plain.location, .flags = cudaMemAccessFlagsProtReadWrite};
    struct cudaMemLocation here = plain.location;
    EXPECT(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, NULL));
    p.location.id = 1;
    EXPECT(cudaErrorInvalidDevice, cudaMemPoolCreate(&pool, &p));
    p = plain;
    p.allocType = cudaMemAllocationTypeInvalid;
    EXPECT(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &p));
    p = plain;
    p.handleTypes = cudaMemHandleTypePosixFileDescriptor; /* the device says that it has no handle types */
    EXPECT(cudaErrorNotSupported, cudaMemPoolCreate(&pool, &p));
    p = plain;
    p.maxSize = 4096;
    OK(cudaMemPoolCreate(&pool, &p));
    EXPECT(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&a, 5000, pool, 0));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &on));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &got));
    assert_int_equal(got, 0);
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &got));
    assert_int_equal(got, 1);
    OK(cudaMemPoolSetAccess(pool, &access, 1));
    access.location.id = 3;
    EXPECT(cudaErrorInvalidDevice, cudaMemPoolSetAccess(pool, &access, 1));
    OK(cudaMemPoolGetAccess(&flags, pool, &here));
    assert_int_equal(flags, cudaMemAccessFlagsProtReadWrite);
    OK(cudaMemPoolDestroy(pool));
    EXPECT(cudaErrorInvalidValue, cudaMemPoolDestroy(pool));
    EXPECT(cudaErrorInvalidValue, cudaMemPoolTrimTo(pool, 0));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    EXPECT(cudaErrorInvalidValue, cudaMemPoolDestroy(pool)); /* the default pool cannot go */
    EXPECT(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool(&pool, 1));
    EXPECT(cudaErrorInvalidValue, cudaFreeAsync((void *)&a, 0));
    OK(cudaMallocAsync(&a, 8, 0));
    OK(cudaFreeAsync(a, 0));
    EXPECT(cudaErrorInvalidValue, cudaFreeAsync(a, 0));
}

static int pool_ask(enum cudaMemRangeAttribute a, const void *p, size_t bytes)
{
    int v = 77;
    OK(cudaMemRangeGetAttribute(&v, sizeof v, a, p, bytes));
    return v;
}

static void pool_advice(void **state)
{
    char *m;
    void *d;
    int list[3], v, *answers[2] = {&v, list};
    size_t sizes[2] = {4, 4};
    enum cudaMemRangeAttribute both[2] = {cudaMemRangeAttributeReadMostly,
                                          cudaMemRangeAttributePreferredLocation};
    struct cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0},
                           none = {cudaMemLocationTypeDevice, 4};
    OK(cudaMallocManaged((void **)&m, 1 << 16, cudaMemAttachGlobal));
    assert_int_equal(pool_ask(cudaMemRangeAttributeReadMostly, m, 1 << 16), 0);
    assert_int_equal(pool_ask(cudaMemRangeAttributePreferredLocation, m, 1 << 16), cudaInvalidDeviceId);
    OK(cudaMemAdvise(m, 1 << 16, cudaMemAdviseSetReadMostly, device));
    assert_int_equal(pool_ask(cudaMemRangeAttributeReadMostly, m, 1 << 16), 1);
    OK(cudaMemAdvise(m + 8192, 1, cudaMemAdviseUnsetReadMostly, device)); /* a page of it */
    assert_int_equal(pool_ask(cudaMemRangeAttributeReadMostly, m, 1 << 16), 0);
    assert_int_equal(pool_ask(cudaMemRangeAttributeReadMostly, m, 8192), 1);
    assert_int_equal(pool_ask(cudaMemRangeAttributeReadMostly, m + 12288, 4096), 1);
    OK(cudaMemAdvise(m, 1 << 16, cudaMemAdviseSetPreferredLocation, host));
    assert_int_equal(pool_ask(cudaMemRangeAttributePreferredLocation, m + 5, 100), cudaCpuDeviceId);
    assert_int_equal(pool_ask(cudaMemRangeAttributePreferredLocationType, m, 100), cudaMemLocationTypeHost);
    OK(cudaMemAdvise(m, 1 << 16, cudaMemAdviseUnsetPreferredLocation, host));
    assert_int_equal(pool_ask(cudaMemRangeAttributePreferredLocation, m, 100), cudaInvalidDeviceId);
    OK(cudaMemAdvise(m, 1 << 16, cudaMemAdviseSetAccessedBy, device));
    OK(cudaMemRangeGetAttribute(list, sizeof list, cudaMemRangeAttributeAccessedBy, m, 1 << 16));
    assert_true(list[0] == 0 && list[1] == cudaInvalidDeviceId && list[2] == cudaInvalidDeviceId);
    assert_int_equal(pool_ask(cudaMemRangeAttributeLastPrefetchLocation, m, 1 << 16), cudaInvalidDeviceId);
    OK(cudaMemPrefetchAsync(m, 4096, device, 0, 0));
    assert_int_equal(pool_ask(cudaMemRangeAttributeLastPrefetchLocation, m, 4096), 0);
    assert_int_equal(pool_ask(cudaMemRangeAttributeLastPrefetchLocation, m, 1 << 16), cudaInvalidDeviceId);
    OK(cudaMemRangeGetAttributes((void **)answers, sizes, both, 2, m, 8192));
    assert_true(v == 1 && list[0] == cudaInvalidDeviceId);

    EXPECT(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&v, 3, cudaMemRangeAttributeReadMostly, m, 4));
    EXPECT(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&v, 8, cudaMemRangeAttributeReadMostly, m, 4));
    EXPECT(cudaErrorInvalidValue, cudaMemAdvise(m, 1 << 16, (enum cudaMemoryAdvise)9, device));
    EXPECT(cudaErrorInvalidValue, cudaMemAdvise(m, (1 << 16) + 1, cudaMemAdviseSetReadMostly, device));
    EXPECT(cudaErrorInvalidValue, cudaMemAdvise(m, 0, cudaMemAdviseSetReadMostly, device));
    EXPECT(cudaErrorInvalidDevice, cudaMemAdvise(m, 4, cudaMemAdviseSetPreferredLocation, none));
    EXPECT(cudaErrorInvalidDevice, cudaMemPrefetchAsync(m, 4, none, 0, 0));
    EXPECT(cudaErrorInvalidValue, cudaMemPrefetchAsync(m, 4, device, 1, 0));
    OK(cudaMalloc(&d, 4096)); /* not managed */
    EXPECT(cudaErrorInvalidValue, cudaMemPrefetchAsync(d, 4096, device, 0, 0));
    EXPECT(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&v, 4, cudaMemRangeAttributeReadMostly, d, 4));
    OK(cudaFree(d));
    OK(cudaFree(m));
    OK(cudaMallocManaged((void **)&m, 1 << 16,
                         cudaMemAttachGlobal)); /* new memory knows nothing of the old */
    assert_int_equal(pool_ask(cudaMemRangeAttributeReadMostly, m, 8192), 0);
    OK(cudaFree(m));
}

static void pool_batches(void **state)
{
    cudaStream_t s;
    int *d, *e, h[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
    struct cudaMemcpyAttributes now = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream}, bad = {0};
    size_t first = 0;
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc((void **)&d, sizeof h));
    OK(cudaMalloc((void **)&e, sizeof h));
    const void *src[] = {h, h + 4};
    void *dst[] = {d + 4, d};
    const size_t bytes[] = {16, 16};
    OK(cudaMemcpyBatchAsync(dst, src, bytes, 2, &now, &first, 1, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy(back, d, sizeof back, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        assert_int_equal(back[i], h[(i + 4) % 8]);
    EXPECT(cudaErrorInvalidValue, cudaMemcpyBatchAsync(dst, src, bytes, 2, &bad, &first, 1, s));
    EXPECT(cudaErrorInvalidValue, cudaMemcpyBatchAsync(dst, src, bytes, 2, &now, &first, 3, s));
    EXPECT(cudaErrorInvalidValue, cudaMemcpyBatchAsync(dst, src, bytes, 2, &now, &first, 1, NULL));
    EXPECT(cudaErrorInvalidValue, cudaMemcpyBatchAsync(dst, src, bytes, 0, &now, &first, 1, s));
    struct cudaMemcpy3DBatchOp op = {
        .src = {.type = cudaMemcpyOperandTypePointer,
                .op.ptr = {.ptr = d, .rowLength = 16, .layerHeight = 2}},
        .dst = {.type = cudaMemcpyOperandTypePointer,
                .op.ptr = {.ptr = e, .rowLength = 16, .layerHeight = 2}},
        .extent = {8, 2, 1},
        .srcAccessOrder = cudaMemcpySrcAccessOrderStream,
    };
    OK(cudaMemset(e, 0, sizeof h));
    OK(cudaMemcpy3DBatchAsync(1, &op, 0, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy(back, e, sizeof back, cudaMemcpyDeviceToHost));
    const int want[8] = {5, 6, 0, 0, 1, 2, 0, 0}; /* two rows of 8 bytes, 16 apart */
    assert_memory_equal(back, want, sizeof want);
    EXPECT(cudaErrorInvalidValue, cudaMemcpy3DBatchAsync(1, &op, 5, s));
    OK(cudaFree(d));
    OK(cudaFree(e));
    OK(cudaStreamDestroy(s));
}

static void pool_registration(void **state)
{
    char *p = malloc(1 << 16), *q;
    struct cudaPointerAttributes a;
    unsigned flags;
    OK(cudaHostRegister(p + 1, 1001, cudaHostRegisterMapped | cudaHostRegisterPortable)); /* not aligned */
    OK(cudaPointerGetAttributes(&a, p + 1001));
    assert_true(a.type == cudaMemoryTypeHost && a.devicePointer == p + 1001 && a.hostPointer == p + 1001);
    OK(cudaPointerGetAttributes(&a, p + 1002));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    OK(cudaHostGetFlags(&flags, p + 500));
    assert_true(flags & cudaHostRegisterPortable);
    EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(p, 2, 0));
    EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(p + 1001, 10, 0));
    OK(cudaHostRegister(p + 1002, 10, 0));
    EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(p + 2));
    OK(cudaHostUnregister(p + 1));
    OK(cudaHostUnregister(p + 1002));
    EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(p + 1));
    EXPECT(cudaErrorInvalidValue, cudaHostRegister(NULL, 10, 0));
    EXPECT(cudaErrorInvalidValue, cudaHostRegister(p, 0, 0));
    EXPECT(cudaErrorInvalidValue, cudaHostRegister(p, 10, 0x100));
    OK(cudaHostAlloc((void **)&q, 100, cudaHostAllocWriteCombined));
    EXPECT(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(q, 10, 0));
    EXPECT(cudaErrorInvalidValue, cudaHostGetFlags(&flags, p));
    EXPECT(cudaErrorInvalidValue, cudaHostGetFlags(NULL, q));
    OK(cudaFreeHost(q));
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_count),  cmocka_unit_test(pool_errors),       cmocka_unit_test(pool_advice),
        cmocka_unit_test(pool_batches), cmocka_unit_test(pool_registration),
    };
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
