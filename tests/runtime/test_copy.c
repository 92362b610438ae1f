/* Copies and fills of all shapes, against loops over bytes. */
#include "api.h"
#include "util.h"

static unsigned char *host_bytes(size_t n, unsigned seed)
{
    unsigned char *p = malloc(n);
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)((seed = seed * 1103515245u + 12345) >> 16);
    return p;
}

static void copy_linear(void **state)
{
    enum { N = 70000 };
    unsigned char *a = host_bytes(N, 1), *b = host_bytes(N, 2);
    char *d, *e;
    OK(cudaMalloc((void **)&d, N));
    OK(cudaMalloc((void **)&e, N));
    OK(cudaMemcpy(d, a, N, cudaMemcpyHostToDevice));
    OK(cudaMemcpyAsync(e, d, N, cudaMemcpyDeviceToDevice, 0));
    OK(cudaMemcpy(b, e, N, cudaMemcpyDeviceToHost));
    assert_memory_equal(a, b, N);
    OK(cudaMemcpy(b, e + 3, 10, cudaMemcpyDefault));
    assert_memory_equal(a + 3, b, 10);
    OK(cudaMemcpy(b, a, N, cudaMemcpyHostToHost));
    OK(cudaMemcpyPeer(d, 0, e, 0, N));
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d, a, N + 1, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d + N - 4, a, 5, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(a, b, N, cudaMemcpyHostToDevice)); /* no device memory */
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d, e, N, cudaMemcpyDeviceToHost));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d, NULL, 4, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpy(d, a, 4, (enum cudaMemcpyKind)17));
    EXPECT(cudaErrorInvalidDevice, cudaMemcpyPeer(d, 1, e, 0, N));
    EXPECT(cudaErrorInvalidResourceHandle, cudaMemcpyAsync(d, a, 4, cudaMemcpyHostToDevice, (cudaStream_t)a));
    OK(cudaFree(d));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(d, a, 4, cudaMemcpyHostToDevice));
    OK(cudaFree(e));
    free(a);
    free(b);
}

static void two_d(void **state)
{
    enum { W = 37, H = 11, HP = 50 };
    unsigned char *a = host_bytes(HP * H, 1), *b = host_bytes(HP * H, 2), *old = host_bytes(HP * H, 2);
    char *d;
    size_t pitch;
    OK(cudaMallocPitch((void **)&d, &pitch, W, H));
    OK(cudaMemcpy2D(d, pitch, a, HP, W, H, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DAsync(b, HP, d, pitch, W, H, cudaMemcpyDeviceToHost, cudaStreamPerThread));
    for (int i = 0; i < HP * H; i++)
        assert_int_equal(b[i], i % HP < W ? a[i] : old[i]);
    EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(d, W - 1, a, HP, W, H, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(d, pitch, a, W - 1, W, H, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy2D(d, pitch, a, HP, W, H + 1, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(d, pitch, a, HP, W, 0, cudaMemcpyHostToDevice));
    OK(cudaMemset2D(d, pitch, 0xab, W - 1, H));
    OK(cudaMemcpy2D(b, HP, d, pitch, W, H, cudaMemcpyDeviceToHost));
    for (int i = 0; i < HP * H; i++)
        assert_int_equal(b[i], i % HP < W - 1 ? 0xab : i % HP < W ? a[i] : old[i]);
    EXPECT(cudaErrorInvalidValue, cudaMemset2D(d, pitch, 0, W, H + 1));
    OK(cudaFree(d));
    free(a);
    free(b);
    free(old);
}

static void three_d(void **state)
{
    enum { X = 13, Y = 5, Z = 4 };
    struct cudaExtent extent = {X, Y, Z};
    unsigned char *a = host_bytes(X * Y * Z, 1), b[X * Y * Z];
    struct cudaPitchedPtr d;
    OK(cudaMalloc3D(&d, extent));
    OK(cudaMemset3D(d, 7, extent));
    struct cudaMemcpy3DParms p = {
        .srcPtr = {a, X, X, Y}, .dstPtr = d, .extent = extent, .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&p));
    struct cudaMemcpy3DParms q = {.srcPtr = d,
                                  .srcPos = {2, 1, 1},
                                  .dstPtr = {b, X, X, Y},
                                  .dstPos = {1, 0, 2},
                                  .extent = {5, 3, 2},
                                  .kind = cudaMemcpyDeviceToHost};
    memset(b, 99, sizeof b);
    OK(cudaMemcpy3DAsync(&q, 0));
    for (int z = 0; z < Z; z++)
        for (int y = 0; y < Y; y++)
            for (int x = 0; x < X; x++) {
                int in = x >= 1 && x < 6 && y < 3 && z >= 2;
                int expect = in ? a[x + 1 + X * (y + 1 + Y * (z - 1))] : 99;
                assert_int_equal(b[x + X * (y + Y * z)], expect);
            }
    p.extent.depth = Z + 1;
    EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(&p));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(NULL));
    OK(cudaFree(d.ptr));
    free(a);
}

static void copy_arrays(void **state)
{
    enum { W = 9, H = 6 };
    float in[W * H], out[W * H] = {0};
    struct cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat), got;
    struct cudaExtent extent;
    unsigned flags;
    cudaArray_t a, b;
    for (int i = 0; i < W * H; i++)
        in[i] = (float)i;
    assert_int_equal(desc.x, 32);
    assert_int_equal(desc.f, cudaChannelFormatKindFloat);
    OK(cudaMallocArray(&a, &desc, W, H, 0));
    OK(cudaMallocArray(&b, &desc, W, H, 0));
    OK(cudaArrayGetInfo(&got, &extent, &flags, a));
    assert_int_equal(extent.width, W);
    assert_int_equal(extent.height, H);
    OK(cudaMemcpy2DToArray(a, 0, 0, in, W * 4, W * 4, H, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DArrayToArray(b, 0, 0, a, 0, 0, W * 4, H, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy2DFromArray(out, W * 4, b, 8, 1, (W - 2) * 4, H - 1, cudaMemcpyDeviceToHost));
    for (int y = 0; y < H - 1; y++)
        for (int x = 0; x < W - 2; x++)
            assert_true(out[y * W + x] == in[(y + 1) * W + x + 2]);
    struct cudaMemcpy3DParms p = {.srcArray = a,
                                  .srcPos = {1, 2, 0},
                                  .dstPtr = {out, W * 4, W, H},
                                  .extent = {3, 2, 1},
                                  .kind = cudaMemcpyDeviceToHost};
    OK(cudaMemcpy3D(&p));
    assert_true(out[0] == in[2 * W + 1] && out[W + 2] == in[3 * W + 3]);
    EXPECT(cudaErrorInvalidValue, cudaMemcpy2DToArray(a, 0, 1, in, W * 4, W * 4, H, cudaMemcpyHostToDevice));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy2DToArray(a, 4, 0, in, W * 4, W * 4, H, cudaMemcpyHostToDevice));
    OK(cudaFreeArray(a));
    EXPECT(cudaErrorInvalidValue, cudaFreeArray(a));
    OK(cudaFreeArray(b));
}

static void copy_fills(void **state)
{
    unsigned char b[1000];
    char *d;
    OK(cudaMalloc((void **)&d, 1000));
    OK(cudaMemset(d, 1, 1000));
    OK(cudaMemsetAsync(d + 10, 0x1ff, 20, 0));
    OK(cudaMemcpy(b, d, 1000, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(b[i], i >= 10 && i < 30 ? 255 : 1);
    EXPECT(cudaErrorInvalidValue, cudaMemset(d, 0, 1001));
    EXPECT(cudaErrorInvalidValue, cudaMemset(b, 0, 10));
    OK(cudaMemset(NULL, 0, 0));
    OK(cudaFree(d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_linear), cmocka_unit_test(two_d),      cmocka_unit_test(three_d),
        cmocka_unit_test(copy_arrays), cmocka_unit_test(copy_fills),
    };
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
