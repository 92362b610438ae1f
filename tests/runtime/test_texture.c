/* Arrays, mipmapped arrays, texture and surface objects: what may be made, what CUDA says of the rest, and
 * copies with offsets. The rules are those of CUDA's documentation of each call. */
#include "api.h"
#include "util.h"

static struct cudaChannelFormatDesc texture_floats(void)
{
    return cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
}

static void texture_shapes(void **state)
{
    static const struct {
        struct cudaExtent extent;
        unsigned flags;
        cudaError_t expect;
    } cases[] = {
        {{8, 0, 0}, 0, cudaSuccess},
        {{8, 4, 0}, cudaArraySurfaceLoadStore, cudaSuccess},
        {{8, 4, 3}, 0, cudaSuccess},
        {{8, 0, 3}, cudaArrayLayered, cudaSuccess},
        {{8, 4, 3}, cudaArrayLayered, cudaSuccess},
        {{8, 8, 6}, cudaArrayCubemap, cudaSuccess},
        {{8, 8, 12}, cudaArrayCubemap | cudaArrayLayered, cudaSuccess},
        {{8, 4, 0}, cudaArrayTextureGather, cudaSuccess},
        {{131072, 65536, 0}, 0x10000, cudaErrorInvalidValue}, /* no such flag */
        {{0, 4, 0}, 0, cudaErrorInvalidValue},
        {{8, 0, 3}, 0, cudaErrorInvalidValue},
        {{8, 4, 0}, cudaArrayLayered, cudaErrorInvalidValue},
        {{8, 4, 6}, cudaArrayCubemap, cudaErrorInvalidValue},
        {{8, 8, 5}, cudaArrayCubemap, cudaErrorInvalidValue},
        {{8, 8, 8}, cudaArrayCubemap | cudaArrayLayered, cudaErrorInvalidValue},
        {{8, 4, 3}, cudaArrayTextureGather, cudaErrorInvalidValue},
        {{8, 0, 0}, cudaArrayTextureGather, cudaErrorInvalidValue},
        {{131073, 0, 0}, 0, cudaErrorInvalidValue},
        {{8, 65537, 0}, 0, cudaErrorInvalidValue},
        {{8, 4, 16385}, 0, cudaErrorInvalidValue},
        {{8, 4, 2049}, cudaArrayLayered, cudaErrorInvalidValue},
    };
    struct cudaChannelFormatDesc desc = texture_floats(), got;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        cudaArray_t a = NULL;
        struct cudaExtent e;
        unsigned flags;
        EXPECT(cases[i].expect, cudaMalloc3DArray(&a, &desc, cases[i].extent, cases[i].flags));
        if (!a)
            continue;
        OK(cudaArrayGetInfo(&got, &e, &flags, a));
        assert_memory_equal(&e, &cases[i].extent, sizeof e);
        assert_memory_equal(&got, &desc, sizeof got);
        assert_int_equal(flags, cases[i].flags);
        OK(cudaFreeArray(a));
        EXPECT(cudaErrorInvalidValue, cudaFreeArray(a));
        EXPECT(cudaErrorInvalidResourceHandle, cudaArrayGetInfo(&got, &e, &flags, a));
    }
}

static void texture_channels(void **state)
{
    static const struct {
        int x, y, z, w;
        enum cudaChannelFormatKind f;
        cudaError_t expect;
    } cases[] = {
        {8, 0, 0, 0, cudaChannelFormatKindUnsigned, cudaSuccess},
        {16, 16, 0, 0, cudaChannelFormatKindFloat, cudaSuccess},
        {32, 32, 32, 32, cudaChannelFormatKindSigned, cudaSuccess},
        {8, 8, 8, 0, cudaChannelFormatKindUnsigned, cudaErrorInvalidChannelDescriptor},
        {8, 16, 0, 0, cudaChannelFormatKindUnsigned, cudaErrorInvalidChannelDescriptor},
        {8, 0, 0, 0, cudaChannelFormatKindFloat, cudaErrorInvalidChannelDescriptor},
        {64, 0, 0, 0, cudaChannelFormatKindFloat, cudaErrorInvalidChannelDescriptor},
        {0, 0, 0, 0, cudaChannelFormatKindUnsigned, cudaErrorInvalidChannelDescriptor},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        cudaArray_t a = NULL;
        struct cudaChannelFormatDesc d =
            cudaCreateChannelDesc(cases[i].x, cases[i].y, cases[i].z, cases[i].w, cases[i].f);
        EXPECT(cases[i].expect, cudaMallocArray(&a, &d, 4, 4, 0));
        OK(cudaFreeArray(a));
    }
    struct cudaChannelFormatDesc d = texture_floats();
    EXPECT(cudaErrorInvalidValue, cudaMallocArray(NULL, &d, 4, 4, 0));
    EXPECT(cudaErrorInvalidValue, cudaMallocArray((cudaArray_t *)&d, NULL, 4, 4, 0));
}

/* Extents count elements when an array takes part, and positions in it do. */
static void texture_copies(void **state)
{
    enum { W = 7, H = 5, D = 3 };
    struct cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindSigned);
    struct cudaExtent extent = {W, H, D};
    long long in[D][H][W], out[D][H][W];
    cudaArray_t a, b, narrow;
    for (int i = 0; i < W * H * D; i++)
        (&in[0][0][0])[i] = i * 1000003ll;
    OK(cudaMalloc3DArray(&a, &desc, extent, 0));
    OK(cudaMalloc3DArray(&b, &desc, extent, cudaArrayLayered));
    struct cudaMemcpy3DParms p = {
        .srcPtr = {in, W * 8, W, H}, .dstArray = a, .extent = extent, .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&p));
    struct cudaMemcpy3DParms q = {.srcArray = a,
                                  .dstArray = b,
                                  .srcPos = {2, 1, 1},
                                  .dstPos = {0, 2, 0},
                                  .extent = {4, 3, 2},
                                  .kind = cudaMemcpyDeviceToDevice};
    OK(cudaMemcpy3D(&q));
    memset(out, 0xff, sizeof out);
    struct cudaMemcpy3DParms r = {.srcArray = b,
                                  .dstPtr = {out, W * 8, W, H},
                                  .srcPos = {0, 2, 0},
                                  .dstPos = {8, 1, 1}, /* bytes: one element */
                                  .extent = {4, 3, 2},
                                  .kind = cudaMemcpyDeviceToHost};
    OK(cudaMemcpy3D(&r));
    for (int z = 0; z < D; z++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                int there = z >= 1 && y >= 1 && y < 4 && x >= 1 && x < 5;
                assert_true(out[z][y][x] == (there ? in[z][y][x + 1] : -1));
            }
    q.srcPos.x = 4; /* 4 elements from there on are not in it */
    EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(&q));
    q.srcPos.x = 2;
    q.dstPos.z = 2;
    EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(&q));
    p.extent.height = H + 1;
    EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(&p));
    struct cudaChannelFormatDesc f = texture_floats();
    OK(cudaMalloc3DArray(&narrow, &f, extent, 0));
    q.dstPos.z = 0;
    q.dstArray = narrow;
    EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(&q));
    OK(cudaFreeArray(a));
    OK(cudaFreeArray(b));
    OK(cudaFreeArray(narrow));
    q.srcArray = a;
    EXPECT(cudaErrorInvalidResourceHandle, cudaMemcpy3D(&q));
}

static void texture_mipmaps(void **state)
{
    static const struct cudaExtent expect[] = {{20, 6, 0}, {10, 3, 0}, {5, 1, 0}, {2, 1, 0}, {1, 1, 0}};
    struct cudaChannelFormatDesc desc = texture_floats();
    struct cudaExtent got;
    cudaMipmappedArray_t m;
    cudaArray_t level, last;
    float in[60], out[60];
    OK(cudaMallocMipmappedArray(&m, &desc, (struct cudaExtent){20, 6, 0}, 100, 0)); /* as many as there are */
    for (unsigned i = 0; i < 5; i++) {
        OK(cudaGetMipmappedArrayLevel(&level, m, i));
        OK(cudaArrayGetInfo(NULL, &got, NULL, level));
        assert_memory_equal(&got, &expect[i], sizeof got);
        for (int j = 0; j < 60; j++)
            in[j] = (float)(100 * i) + (float)j;
        size_t width = expect[i].width * 4, height = expect[i].height < 3 ? expect[i].height : 3;
        OK(cudaMemcpy2DToArray(level, 0, 0, in, width, width, height, cudaMemcpyHostToDevice));
    }
    OK(cudaGetMipmappedArrayLevel(&level, m, 1)); /* neighbours did not write over it */
    OK(cudaMemcpy2DFromArray(out, 40, level, 0, 0, 40, 3, cudaMemcpyDeviceToHost));
    for (int j = 0; j < 30; j++)
        assert_true(out[j] == 100 + (float)j);
    EXPECT(cudaErrorInvalidValue, cudaGetMipmappedArrayLevel(&last, m, 5));
    EXPECT(cudaErrorInvalidValue, cudaFreeArray(level));
    OK(cudaFreeMipmappedArray(m));
    EXPECT(cudaErrorInvalidValue, cudaFreeMipmappedArray(m));
    EXPECT(cudaErrorInvalidResourceHandle, cudaGetMipmappedArrayLevel(&level, m, 0));
    OK(cudaMallocMipmappedArray(&m, &desc, (struct cudaExtent){8, 8, 6}, 0, cudaArrayCubemap));
    EXPECT(cudaErrorInvalidValue, cudaGetMipmappedArrayLevel(&level, m, 1));
    OK(cudaFreeMipmappedArray(m));
}

static void texture_textures(void **state)
{
    struct cudaChannelFormatDesc desc = texture_floats(),
                                 ints = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindSigned);
    cudaArray_t a, b;
    cudaTextureObject_t t = 0, u = 0;
    OK(cudaMallocArray(&a, &desc, 8, 4, 0));
    OK(cudaMallocArray(&b, &ints, 8, 4, 0));
    struct cudaResourceDesc r = {.resType = cudaResourceTypeArray, .res.array.array = a}, got_r;
    struct cudaTextureDesc d = {.filterMode = cudaFilterModeLinear, .normalizedCoords = 1}, got_d;
    struct cudaResourceViewDesc v = {.format = cudaResViewFormatSignedInt1, .width = 8, .height = 4}, got_v;
    OK(cudaCreateTextureObject(&t, &r, &d, NULL));
    OK(cudaGetTextureObjectResourceDesc(&got_r, t));
    OK(cudaGetTextureObjectTextureDesc(&got_d, t));
    assert_memory_equal(&got_r, &r, sizeof r);
    assert_memory_equal(&got_d, &d, sizeof d);
    EXPECT(cudaErrorInvalidValue, cudaGetTextureObjectResourceViewDesc(&got_v, t));
    EXPECT(cudaErrorInvalidFilterSetting,
           cudaCreateTextureObject(&u, &r, &d, &v)); /* integers are not filtered */
    d.filterMode = cudaFilterModePoint;
    OK(cudaCreateTextureObject(&u, &r, &d, &v));
    assert_true(t && u && t != u);
    OK(cudaGetTextureObjectResourceViewDesc(&got_v, u));
    assert_memory_equal(&got_v, &v, sizeof v);
    OK(cudaDestroyTextureObject(u));
    EXPECT(cudaErrorInvalidValue, cudaDestroyTextureObject(u));
    EXPECT(cudaErrorInvalidValue, cudaGetTextureObjectTextureDesc(&got_d, u));
    v.format = cudaResViewFormatFloat2; /* another size */
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&u, &r, &d, &v));
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(NULL, &r, &d, NULL));
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&u, NULL, &d, NULL));
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&u, &r, NULL, NULL));
    d.addressMode[1] = (enum cudaTextureAddressMode)7;
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&u, &r, &d, NULL));
    d.addressMode[1] = cudaAddressModeWrap;
    d.filterMode = cudaFilterModeLinear;
    r.res.array.array = b;
    EXPECT(cudaErrorInvalidFilterSetting, cudaCreateTextureObject(&u, &r, &d, NULL));
    d.readMode = cudaReadModeNormalizedFloat;
    OK(cudaCreateTextureObject(&u, &r, &d, NULL));
    OK(cudaDestroyTextureObject(u));
    OK(cudaDestroyTextureObject(t));
    OK(cudaFreeArray(b));
    EXPECT(cudaErrorInvalidResourceHandle, cudaCreateTextureObject(&u, &r, &d, NULL));
    OK(cudaFreeArray(a));
}

static void texture_memory(void **state)
{
    float *p;
    char stack[64];
    cudaTextureObject_t t;
    OK(cudaMalloc((void **)&p, 4096));
    assert_int_equal((uintptr_t)p % 512, 0);
    struct cudaTextureDesc d = {.filterMode = cudaFilterModePoint};
    struct cudaResourceDesc r = {.resType = cudaResourceTypeLinear,
                                 .res.linear = {.devPtr = p, .desc = texture_floats(), .sizeInBytes = 4096}};
    OK(cudaCreateTextureObject(&t, &r, &d, NULL));
    OK(cudaDestroyTextureObject(t));
    r.res.linear.devPtr = p + 1; /* not aligned */
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&t, &r, &d, NULL));
    r.res.linear.devPtr = stack; /* not the device's */
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&t, &r, &d, NULL));
    r.res.linear.devPtr = p;
    r.res.linear.sizeInBytes = 4100;
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&t, &r, &d, NULL));
    r = (struct cudaResourceDesc){
        .resType = cudaResourceTypePitch2D,
        .res.pitch2D = {
            .devPtr = p, .desc = texture_floats(), .width = 10, .height = 8, .pitchInBytes = 512}};
    OK(cudaCreateTextureObject(&t, &r, &d, NULL));
    OK(cudaDestroyTextureObject(t));
    r.res.pitch2D.pitchInBytes = 500;
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&t, &r, &d, NULL));
    r.res.pitch2D.pitchInBytes = 32;
    EXPECT(cudaErrorInvalidValue, cudaCreateTextureObject(&t, &r, &d, NULL));
    OK(cudaFree(p));
}

static void texture_surfaces(void **state)
{
    struct cudaChannelFormatDesc desc = texture_floats();
    cudaArray_t plain, a;
    cudaSurfaceObject_t s;
    cudaTextureObject_t t;
    struct cudaTextureDesc d = {.filterMode = cudaFilterModePoint};
    OK(cudaMallocArray(&plain, &desc, 8, 4, 0));
    OK(cudaMallocArray(&a, &desc, 8, 4, cudaArraySurfaceLoadStore));
    struct cudaResourceDesc r = {.resType = cudaResourceTypeArray, .res.array.array = a}, got;
    OK(cudaCreateSurfaceObject(&s, &r));
    OK(cudaCreateTextureObject(&t, &r, &d, NULL)); /* of the same array */
    OK(cudaGetSurfaceObjectResourceDesc(&got, s));
    assert_memory_equal(&got, &r, sizeof r);
    EXPECT(cudaErrorInvalidValue, cudaDestroyTextureObject(s));
    EXPECT(cudaErrorInvalidValue, cudaDestroySurfaceObject(t));
    OK(cudaDestroySurfaceObject(s));
    EXPECT(cudaErrorInvalidValue, cudaDestroySurfaceObject(s));
    r.res.array.array = plain;
    EXPECT(cudaErrorInvalidValue, cudaCreateSurfaceObject(&s, &r));
    r.resType = cudaResourceTypeLinear;
    EXPECT(cudaErrorInvalidValue, cudaCreateSurfaceObject(&s, &r));
    OK(cudaDeviceReset()); /* takes all of it along */
    EXPECT(cudaErrorInvalidValue, cudaDestroyTextureObject(t));
    EXPECT(cudaErrorInvalidValue, cudaFreeArray(a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texture_shapes),   cmocka_unit_test(texture_channels),
        cmocka_unit_test(texture_copies),   cmocka_unit_test(texture_mipmaps),
        cmocka_unit_test(texture_textures), cmocka_unit_test(texture_memory),
        cmocka_unit_test(texture_surfaces),
    };
    fresh_dir();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
