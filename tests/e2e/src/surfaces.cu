// Surface reads and writes of every geometry, element size and boundary mode, and levels of detail of
// mipmapped arrays. What is expected is computed on the host from plain arrays.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "../../../examples/common/example.h"

static long wrong, checked, accesses;
static void expect(const char *what, bool holds)
{
    checked++;
    if (!holds && wrong++ < 10)
        printf("wrong: %s\n", what);
}

// One thread per element: reads from `in`, writes to `out` in another layer and shifted,
// and keeps what it read.
enum Geometry { S1D, S2D, S3D, S1DLayered, S2DLayered, SCube, SCubeLayered };
template <class T>
__global__ void copy(cudaSurfaceObject_t in, cudaSurfaceObject_t out, Geometry g, T *kept, int shift)
{
    int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
    int bytes = (int)sizeof(T), to = (x + shift) * bytes;
    T v;
    const cudaSurfaceBoundaryMode zero = cudaBoundaryModeZero;
    switch (g) {
    case S1D:
        v = surf1Dread<T>(in, x * bytes);
        surf1Dwrite(v, out, to, zero);
        break;
    case S2D:
        surf2Dread(&v, in, x * bytes, y);
        surf2Dwrite(v, out, to, y, zero);
        break;
    case S3D:
        v = surf3Dread<T>(in, x * bytes, y, z, cudaBoundaryModeClamp);
        surf3Dwrite(v, out, to, y, z, zero);
        break;
    case S1DLayered:
        v = surf1DLayeredread<T>(in, x * bytes, z);
        surf1DLayeredwrite(v, out, to, z, zero);
        break;
    case S2DLayered:
        v = surf2DLayeredread<T>(in, x * bytes, y, z);
        surf2DLayeredwrite(v, out, to, y, z, zero);
        break;
    case SCube:
        v = surfCubemapread<T>(in, x * bytes, y, z);
        surfCubemapwrite(v, out, to, y, z, zero);
        break;
    case SCubeLayered:
        v = surfCubemapLayeredread<T>(in, x * bytes, y, z);
        surfCubemapLayeredwrite(v, out, to, y, z, zero);
        break;
    }
    kept[(z * blockDim.y + y) * blockDim.x + x] = v;
}

// A plain array's copy beside each array.
struct Array {
    cudaArray_t array;
    cudaSurfaceObject_t surface;
    int w, h, d;
    size_t element;

    Array(cudaChannelFormatDesc desc, int w_, int h_, int d_, unsigned flags)
        : w(w_), h(h_ ? h_ : 1), d(d_ ? d_ : 1), element((size_t)(desc.x + desc.y + desc.z + desc.w) / 8)
    {
        CHECK(
            cudaMalloc3DArray(&array, &desc, make_cudaExtent(w_, h_, d_), flags | cudaArraySurfaceLoadStore));
        cudaResourceDesc r = {};
        r.resType = cudaResourceTypeArray;
        r.res.array.array = array;
        CHECK(cudaCreateSurfaceObject(&surface, &r));
    }
    ~Array()
    {
        CHECK(cudaDestroySurfaceObject(surface));
        CHECK(cudaFreeArray(array));
    }
    size_t bytes() const
    {
        return element * w * h * d;
    }
    void move(void *host, bool to)
    {
        cudaMemcpy3DParms p = {};
        cudaPitchedPtr ptr = make_cudaPitchedPtr(host, w * element, w, h);
        (to ? p.dstArray : p.srcArray) = array;
        (to ? p.srcPtr : p.dstPtr) = ptr;
        p.extent = make_cudaExtent(w, h, d);
        p.kind = to ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
        CHECK(cudaMemcpy3D(&p));
    }
};

template <class T> static void one(Geometry g, int w, int h, int d, unsigned flags, const char *name)
{
    Array in(cudaCreateChannelDesc<T>(), w, h, d, flags), out(cudaCreateChannelDesc<T>(), w, h, d, flags);
    std::vector<unsigned char> a(in.bytes()), b(in.bytes(), 0xee), kept(in.bytes()), want;
    for (size_t i = 0; i < a.size(); i++)
        a[i] = (unsigned char)(rand() >> 7);
    in.move(a.data(), true);
    out.move(b.data(), true);
    T *k;
    CHECK(cudaMalloc(&k, a.size()));
    const int shift = 2; // the last two of each row fall off, and the first two stay as they are
    copy<T><<<1, dim3(in.w, in.h, in.d)>>>(in.surface, out.surface, g, k, shift);
    accesses += 2l * in.w * in.h * in.d;
    want = b;
    out.move(b.data(), false);
    CHECK(cudaMemcpy(kept.data(), k, a.size(), cudaMemcpyDeviceToHost));
    expect(name, kept == a);
    for (int row = 0; row < in.h * in.d; row++)
        memcpy(&want[(row * in.w + shift) * sizeof(T)], &a[row * in.w * sizeof(T)],
               (in.w - shift) * sizeof(T));
    expect(name, b == want);
    CHECK(cudaFree(k));
}

template <class T> static void geometries(const char *name)
{
    one<T>(S1D, 11, 0, 0, 0, name);
    one<T>(S2D, 9, 5, 0, 0, name);
    one<T>(S3D, 5, 4, 3, 0, name);
    one<T>(S1DLayered, 7, 0, 3, cudaArrayLayered, name);
    one<T>(S2DLayered, 6, 3, 4, cudaArrayLayered, name);
    one<T>(SCube, 4, 4, 6, cudaArrayCubemap, name);
    one<T>(SCubeLayered, 3, 3, 12, cudaArrayCubemap | cudaArrayLayered, name);
}

// Places inside and outside of a 4 x 3 surface under a mode that does not trap.
__global__ void outside(cudaSurfaceObject_t s, int2 *out, bool clamp)
{
    int x = (int)threadIdx.x - 2, y = (int)threadIdx.y - 2;
    int2 v = clamp ? surf2Dread<int2>(s, x * 8, y, cudaBoundaryModeClamp)
                   : surf2Dread<int2>(s, x * 8, y, cudaBoundaryModeZero);
    out[threadIdx.y * blockDim.x + threadIdx.x] = v;
}

static void boundaries()
{
    const int w = 4, h = 3, W = 8, H = 7;
    Array s(cudaCreateChannelDesc<int2>(), w, h, 0, 0);
    int2 host[h][w], got[H][W], *out;
    for (int i = 0; i < w * h; i++)
        host[i / w][i % w] = make_int2(i + 1, -i - 1);
    s.move(host, true);
    CHECK(cudaMalloc(&out, sizeof got));
    for (int clamp = 0; clamp < 2; clamp++) {
        outside<<<1, dim3(W, H)>>>(s.surface, out, clamp);
        accesses += W * H;
        CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
        for (int j = 0; j < H; j++)
            for (int i = 0; i < W; i++) {
                int x = i - 2, y = j - 2, cx = x < 0 ? 0 : x > 3 ? 3 : x, cy = y < 0 ? 0 : y > 2 ? 2 : y;
                int2 want = cx == x && cy == y || clamp ? host[cy][cx] : make_int2(0, 0);
                expect("boundary", got[j][i].x == want.x && got[j][i].y == want.y);
            }
    }
    CHECK(cudaFree(out));
}

// A texture of the array that a surface wrote to; levels of a mipmapped array, each of one value.
__global__ void fill(cudaSurfaceObject_t s, float v)
{
    surf2Dwrite(v, s, (int)threadIdx.x * 4, (int)threadIdx.y);
}
__global__ void levels(cudaTextureObject_t t, float *out, int n)
{
    float lod = (float)threadIdx.x / 8;
    out[threadIdx.x] = tex2DLod<float>(t, 0.5f, 0.5f, lod);
    float2 dx = make_float2(exp2f(lod) / 16, 0), dy = make_float2(0, 1.0f / 32);
    out[n + threadIdx.x] = tex2DGrad<float>(t, 0.5f, 0.5f, dx, dy);
    out[2 * n + threadIdx.x] = tex2D<float>(t, 0.5f, 0.5f);
}

static void mipmaps()
{
    const int n = 48;
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t m;
    CHECK(cudaMallocMipmappedArray(&m, &desc, make_cudaExtent(16, 16, 0), 5, cudaArraySurfaceLoadStore));
    for (unsigned i = 0; i < 5; i++) {
        cudaResourceDesc r = {};
        cudaSurfaceObject_t s;
        r.resType = cudaResourceTypeArray;
        CHECK(cudaGetMipmappedArrayLevel(&r.res.array.array, m, i));
        CHECK(cudaCreateSurfaceObject(&s, &r));
        fill<<<1, dim3(16 >> i, 16 >> i)>>>(s, (float)(10 * i));
        accesses += (16 >> i) * (16 >> i);
        CHECK(cudaDestroySurfaceObject(s));
    }
    float *out, got[3 * n];
    CHECK(cudaMalloc(&out, sizeof got));
    for (int linear = 0; linear < 2; linear++)
        for (int first = 0; first < 2; first++) {
            cudaResourceDesc r = {};
            cudaTextureDesc d = {};
            cudaResourceViewDesc v = {};
            cudaTextureObject_t t;
            r.resType = cudaResourceTypeMipmappedArray;
            r.res.mipmap.mipmap = m;
            d.normalizedCoords = 1;
            d.filterMode = cudaFilterModeLinear;
            d.mipmapFilterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
            d.minMipmapLevelClamp = 0.5f;
            d.maxMipmapLevelClamp = 3;
            d.mipmapLevelBias = first ? 0 : 0.25f;
            v.width = v.height = (size_t)(16 >> first);
            v.firstMipmapLevel = (unsigned)first;
            v.lastMipmapLevel = 4;
            CHECK(cudaCreateTextureObject(&t, &r, &d, first ? &v : NULL));
            levels<<<1, n>>>(t, out, n);
            accesses += 3 * n;
            CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
            for (int i = 0; i < 3 * n; i++) {
                // A gradient of 2^lod / 16 in normalised coordinates is 2^lod texels of 16, half of that
                // of 8.
                double lod = i < 2 * n ? i % n / 8.0 - (i >= n ? first : 0) : 0;
                lod = std::fmin(std::fmax(lod + d.mipmapLevelBias, 0.5), 3);
                double level = linear ? lod : std::floor(lod + 0.5), want = 10 * (level + first);
                // Linear: weights of 8 bits.
                expect("level of detail", std::fabs(got[i] - want) <= (linear ? 10.0 / 256 : 0) + 1e-5);
            }
            CHECK(cudaDestroyTextureObject(t));
        }
    CHECK(cudaFreeMipmappedArray(m));
    CHECK(cudaFree(out));
}

__global__ void traps(cudaSurfaceObject_t s)
{
    surf1Dwrite(1, s, 16);
}
__global__ void foreign(cudaTextureObject_t t, float *out)
{
    *out = tex1D<float>(t, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "trap")) {
        Array *a =
            new Array(cudaCreateChannelDesc<int>(), 4, 0, 0, 0); // kept: after the failure nothing is freed
        traps<<<1, 1>>>(a->surface);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    if (argc > 1) {
        float *out;
        CHECK(cudaMalloc(&out, 4));
        foreign<<<1, 1>>>(4711, out);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    geometries<char>("char");
    geometries<uchar2>("uchar2");
    geometries<unsigned short>("ushort");
    geometries<short4>("short4");
    geometries<float>("float");
    geometries<int2>("int2");
    geometries<float4>("float4");
    boundaries();
    mipmaps();
    printf("%ld accesses, %ld checks, %ld wrong\n", accesses, checked, wrong);
    return wrong != 0;
}
