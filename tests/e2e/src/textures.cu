// Texture fetches of every geometry, element type, filter and address mode against a sampler on the host that
// is written from the formulas of the CUDA programming guide, in double. Each kernel fetches `n` times.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_fp16.h>
#include <vector>
#include "../../../examples/common/example.h"

enum Geometry { G1D, G2D, G3D, G1DLayered, G2DLayered, GCube, GCubeLayered, GFetch, GGather };
struct Place {
    float x, y, z;
    int layer;
};

template <class T> __global__ void fetch(cudaTextureObject_t t, Geometry g, const Place *at, T *out)
{
    Place p = at[threadIdx.x];
    T v = T();
    switch (g) {
    case G1D:
        v = tex1D<T>(t, p.x);
        break;
    case G2D:
        v = tex2D<T>(t, p.x, p.y);
        break;
    case G3D:
        v = tex3D<T>(t, p.x, p.y, p.z);
        break;
    case G1DLayered:
        v = tex1DLayered<T>(t, p.x, p.layer);
        break;
    case G2DLayered:
        v = tex2DLayered<T>(t, p.x, p.y, p.layer);
        break;
    case GCube:
        v = texCubemap<T>(t, p.x, p.y, p.z);
        break;
    case GCubeLayered:
        v = texCubemapLayered<T>(t, p.x, p.y, p.z, p.layer);
        break;
    case GFetch:
        v = tex1Dfetch<T>(t, (int)p.x);
        break;
    default:
        break;
    }
    out[threadIdx.x] = v;
}

template <class T> __global__ void gather(cudaTextureObject_t t, int channel, const Place *at, T *out)
{
    Place p = at[threadIdx.x];
    out[threadIdx.x] = channel == 0   ? tex2Dgather<T>(t, p.x, p.y, 0)
                       : channel == 1 ? tex2Dgather<T>(t, p.x, p.y, 1)
                       : channel == 2 ? tex2Dgather<T>(t, p.x, p.y, 2)
                                      : tex2Dgather<T>(t, p.x, p.y, 3);
}

// ---- the reference ----

struct Image {
    int w, h, d, channels; // d: depth, layers or faces
    std::vector<double> v;
    double at(int x, int y, int z, int c) const
    {
        return v[((size_t)(z * h + y) * w + x) * channels + c];
    }
};

// Index of a texel under an address mode, -1: border.
static int texel(int i, int n, cudaTextureAddressMode mode)
{
    if (mode == cudaAddressModeWrap)
        return ((i % n) + n) % n;
    if (mode == cudaAddressModeMirror) {
        while (i < 0 || i >= n)
            i = i < 0 ? -1 - i : 2 * n - 1 - i;
        return i;
    }
    if (mode == cudaAddressModeClamp)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    return i < 0 || i >= n ? -1 : i;
}

struct Sampler {
    const Image *image;
    cudaTextureDesc desc;
    int dims;

    double coordinate(double x, int n) const
    {
        return desc.normalizedCoords ? x * n : x;
    }
    cudaTextureAddressMode mode(int d) const
    {
        cudaTextureAddressMode m = desc.addressMode[d];
        bool needs = m == cudaAddressModeWrap || m == cudaAddressModeMirror;
        return needs && !desc.normalizedCoords ? cudaAddressModeClamp : m;
    }
    double one(const int i[3], int layer, int c) const
    {
        const int n[3] = {image->w, image->h, image->d};
        int a[3] = {0, 0, layer};
        for (int d = 0; d < dims; d++)
            if ((a[d] = texel(i[d], n[d], mode(d))) < 0)
                return desc.borderColor[c];
        return image->at(a[0], a[1], a[2], c);
    }
    // Recursion over dimensions: (1 - weight) * left + weight * right, weight rounded to 8 bits.
    double linear(const double x[3], int i[3], int d, int layer, int c) const
    {
        if (d == dims)
            return one(i, layer, c);
        double b = x[d] - 0.5, low = std::floor(b), weight = std::round((b - low) * 256) / 256;
        i[d] = (int)low;
        double left = linear(x, i, d + 1, layer, c);
        i[d] = (int)low + 1;
        double right = linear(x, i, d + 1, layer, c);
        return (1 - weight) * left + weight * right;
    }
    double sample(const double p[3], int layer, int c) const
    {
        const int n[3] = {image->w, image->h, image->d};
        double x[3];
        int i[3] = {0, 0, 0};
        for (int d = 0; d < dims; d++) {
            x[d] = coordinate(p[d], n[d]);
            i[d] = (int)std::floor(x[d]);
        }
        return desc.filterMode == cudaFilterModePoint ? one(i, layer, c) : linear(x, i, 0, layer, c);
    }
};

// Table of the programming guide, cubemap textures: face, m, s, t.
static int face(const Place &p, double &s, double &t)
{
    double x = p.x, y = p.y, z = p.z, m;
    int f;
    if (std::fabs(x) > std::fabs(y) && std::fabs(x) > std::fabs(z))
        f = x >= 0 ? (m = x, s = -z, t = -y, 0) : (m = -x, s = z, t = -y, 1);
    else if (std::fabs(y) > std::fabs(z))
        f = y >= 0 ? (m = y, s = x, t = z, 2) : (m = -y, s = x, t = -z, 3);
    else
        f = z >= 0 ? (m = z, s = x, t = -y, 4) : (m = -z, s = -x, t = -y, 5);
    s = (s / m + 1) / 2;
    t = (t / m + 1) / 2;
    return f;
}

// ---- elements ----

template <class T> struct Element;
#define ELEMENT(T, B, n, top)                                                                                \
    template <> struct Element<T> {                                                                          \
        typedef B base;                                                                                      \
        static constexpr int channels = n;                                                                   \
        static constexpr double scale = top;                                                                 \
    };
ELEMENT(char, signed char, 1, 127)
ELEMENT(uchar1, unsigned char, 1, 255)
ELEMENT(uchar4, unsigned char, 4, 255)
ELEMENT(char2, signed char, 2, 127)
ELEMENT(short, short, 1, 32767)
ELEMENT(short4, short, 4, 32767)
ELEMENT(ushort2, unsigned short, 2, 65535)
ELEMENT(int2, int, 2, 0)
ELEMENT(uint4, unsigned, 4, 0)
ELEMENT(unsigned, unsigned, 1, 0)
ELEMENT(float, float, 1, 0)
ELEMENT(float2, float, 2, 0)
ELEMENT(float4, float, 4, 0)

static unsigned next_random()
{
    static unsigned long long state = 12345;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33);
}
template <class B> static B some()
{
    return (B)next_random();
}
template <> float some<float>()
{
    return (float)(int)(next_random() % 2000001) / 1000 - 1000;
}

static long wrong, checked, launches;

static void compare(const char *what, double got, double want, double tolerance)
{
    checked++;
    if (!(std::fabs(got - want) <= tolerance) && wrong++ < 10)
        printf("%s: got %.9g, expected %.9g\n", what, got, want);
}

struct Shape {
    Geometry g;
    int w, h, d;
    unsigned flags;
    int dims; // that are filtered
};
static const Shape shapes[] = {
    {G1D, 13, 0, 0, 0, 1},
    {G2D, 8, 5, 0, 0, 2},
    {G3D, 6, 5, 4, 0, 3},
    {G1DLayered, 9, 0, 3, cudaArrayLayered, 1},
    {G2DLayered, 7, 4, 3, cudaArrayLayered, 2},
    {GCube, 8, 8, 6, cudaArrayCubemap, 2},
    {GCubeLayered, 4, 4, 12, cudaArrayCubemap | cudaArrayLayered, 2},
};

// Coordinates inside and outside, a thousandth of a texel away from where rounding could go both ways.
static std::vector<Place> places(const Shape &s, bool normalized, int n)
{
    const int size[3] = {s.w, s.h ? s.h : 1, s.d ? s.d : 1};
    std::vector<Place> list(n);
    for (Place &p : list) {
        float *x[3] = {&p.x, &p.y, &p.z};
        for (int d = 0; d < 3; d++) {
            double v = (int)(next_random() % (4u * size[d] * 256)) / 256.0 - 1.5 * size[d] + 0.0009765625;
            *x[d] = (float)(normalized ? v / size[d] : v);
        }
        if (s.g == GCube || s.g == GCubeLayered)
            for (int d = 0; d < 3; d++)
                *x[d] = (float)((int)(next_random() % 2001) - 1000 + 0.3 * d) / 777;
        p.layer = (int)(next_random() % (unsigned)(s.g == GCubeLayered ? 2 : s.d ? s.d : 1));
    }
    return list;
}

template <class R> static std::vector<R> run(cudaTextureObject_t t, Geometry g, const std::vector<Place> &at)
{
    Place *d;
    R *out;
    std::vector<R> result(at.size());
    CHECK(cudaMalloc(&d, at.size() * sizeof(Place)));
    CHECK(cudaMalloc(&out, at.size() * sizeof(R)));
    CHECK(cudaMemcpy(d, at.data(), at.size() * sizeof(Place), cudaMemcpyHostToDevice));
    fetch<R><<<1, (unsigned)at.size()>>>(t, g, d, out);
    launches++;
    CHECK(cudaMemcpy(result.data(), out, at.size() * sizeof(R), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d));
    CHECK(cudaFree(out));
    return result;
}

// Elements T in the array, results R (T, or floats when they are normalised).
template <class T, class R> static void one(const Shape &s, const cudaTextureDesc &desc, const char *name)
{
    typedef typename Element<T>::base B;
    typedef typename Element<R>::base RB;
    const int channels = Element<T>::channels, n = 64;
    bool promoted = desc.readMode == cudaReadModeNormalizedFloat;
    Image image = {s.w, s.h ? s.h : 1, s.d ? s.d : 1, channels, {}};
    std::vector<B> raw((size_t)image.w * image.h * image.d * channels);
    for (B &b : raw) {
        b = some<B>();
        double v = (double)b;
        image.v.push_back(promoted ? std::fmax(v / Element<T>::scale, -1) : v);
    }
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
    CHECK(cudaMalloc3DArray(&array, &format, make_cudaExtent(s.w, s.h, s.d), s.flags));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(raw.data(), s.w * sizeof(T), s.w, image.h);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(s.w, image.h, image.d);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &resource, &desc, NULL));
    std::vector<Place> at = places(s, desc.normalizedCoords, n);
    std::vector<R> got = run<R>(t, s.g, at);
    Sampler sampler = {&image, desc, s.dims};
    double range = promoted ? 1 : 1000;
    for (int i = 0; i < n; i++) {
        double p[3] = {at[i].x, at[i].y, at[i].z}, u, v;
        int layer = at[i].layer;
        if (s.g == GCube || s.g == GCubeLayered) {
            layer = face(at[i], u, v) + (s.g == GCube ? 0 : 6 * at[i].layer);
            p[0] = u;
            p[1] = v;
        }
        for (int c = 0; c < channels; c++)
            compare(name, (double)((const RB *)&got[i])[c], sampler.sample(p, layer, c),
                    desc.filterMode == cudaFilterModeLinear ? range * (s.g >= GCube ? 0.01 : 2e-6)
                    : promoted                              ? 1e-7
                                                            : 0);
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));
}

static cudaTextureDesc description(int address, bool normalized, bool linear, bool promoted)
{
    cudaTextureDesc d = {};
    for (int i = 0; i < 3; i++)
        d.addressMode[i] = (cudaTextureAddressMode)((address + i) % 4);
    d.normalizedCoords = normalized;
    d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    d.readMode = promoted ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    const float border[4] = {0.25f, -0.5f, 0.75f, 1};
    for (int i = 0; i < 4 && (linear || promoted); i++)
        d.borderColor[i] = border[i];
    return d;
}

// All shapes and address modes; floats also filtered.
template <class T> static void elements(const char *name)
{
    for (const Shape &s : shapes)
        for (int address = 0; address < 4; address++)
            for (int normalized = s.g >= GCube; normalized < 2; normalized++)
                one<T, T>(s, description(address, normalized, false, false), name);
}
template <class T, class R> static void filtered(const char *name, bool promoted)
{
    for (const Shape &s : shapes)
        for (int address = 0; address < 4; address++)
            for (int normalized = s.g >= GCube; normalized < 2; normalized++)
                for (int linear = 0; linear < 2; linear++)
                    one<T, R>(s, description(address, normalized, linear, promoted), name);
}

// Linear memory: what is outside is 0; and pitched memory.
static void memory()
{
    const int n = 100, w = 10, h = 7;
    std::vector<int2> raw(n);
    std::vector<Place> at;
    for (int i = 0; i < n; i++)
        raw[i] = make_int2(i * 3 - 50, ~i);
    int2 *d;
    CHECK(cudaMalloc(&d, n * sizeof(int2)));
    CHECK(cudaMemcpy(d, raw.data(), n * sizeof(int2), cudaMemcpyHostToDevice));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = d;
    r.res.linear.desc = cudaCreateChannelDesc<int2>();
    r.res.linear.sizeInBytes = n * sizeof(int2);
    cudaTextureDesc desc = {};
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &desc, NULL));
    for (int i = -2; i < n + 2; i++)
        at.push_back({(float)i, 0, 0, 0});
    std::vector<int2> got = run<int2>(t, GFetch, at);
    for (int i = 0; i < n + 4; i++) {
        bool in = i >= 2 && i < n + 2;
        compare("fetch x", got[i].x, in ? raw[i - 2].x : 0, 0);
        compare("fetch y", got[i].y, in ? raw[i - 2].y : 0, 0);
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(d));

    Image image = {w, h, 1, 1, {}};
    float *p, host[w * h];
    size_t pitch;
    for (float &f : host)
        image.v.push_back(f = some<float>());
    CHECK(cudaMallocPitch(&p, &pitch, w * sizeof(float), h));
    CHECK(cudaMemcpy2D(p, pitch, host, w * sizeof(float), w * sizeof(float), h, cudaMemcpyHostToDevice));
    r = {};
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = p;
    r.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    r.res.pitch2D.width = w;
    r.res.pitch2D.height = h;
    r.res.pitch2D.pitchInBytes = pitch;
    desc = description(0, true, true, false);
    CHECK(cudaCreateTextureObject(&t, &r, &desc, NULL));
    Shape shape = {G2D, w, h, 0, 0, 2};
    at = places(shape, true, 64);
    std::vector<float> f = run<float>(t, G2D, at);
    Sampler sampler = {&image, desc, 2};
    for (size_t i = 0; i < at.size(); i++) {
        double c[3] = {at[i].x, at[i].y, 0};
        compare("pitched", f[i], sampler.sample(c, 0, 0), 0.002);
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(p));
}

// Half precision in the array, floats out; and a gather: lower left, lower right, upper right, upper left.
static void halves_and_gather()
{
    const int w = 8, h = 8;
    __half host[w * h * 2];
    Image image = {w, h, 1, 2, {}};
    for (__half &x : host) {
        x = __float2half((float)(next_random() % 4096) / 64 - 32);
        image.v.push_back(__half2float(x));
    }
    cudaChannelFormatDesc format = cudaCreateChannelDescHalf2();
    cudaArray_t array;
    CHECK(cudaMallocArray(&array, &format, w, h, cudaArrayTextureGather));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, host, w * 4, w * 4, h, cudaMemcpyHostToDevice));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    cudaTextureDesc desc = description(1, true, true, false);
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &desc, NULL));
    Shape shape = {G2D, w, h, 0, 0, 2};
    std::vector<Place> at = places(shape, true, 64);
    std::vector<float2> got = run<float2>(t, G2D, at);
    Sampler sampler = {&image, desc, 2};
    for (size_t i = 0; i < at.size(); i++) {
        double c[3] = {at[i].x, at[i].y, 0};
        compare("half", got[i].x, sampler.sample(c, 0, 0), 1e-4);
        compare("half", got[i].y, sampler.sample(c, 0, 1), 1e-4);
    }
    Place *d;
    float4 *out, quad[64];
    CHECK(cudaMalloc(&d, sizeof(Place) * 64));
    CHECK(cudaMalloc(&out, sizeof quad));
    CHECK(cudaMemcpy(d, at.data(), sizeof(Place) * 64, cudaMemcpyHostToDevice));
    for (int channel = 0; channel < 2; channel++) {
        gather<<<1, 64>>>(t, channel, d, out);
        launches++;
        CHECK(cudaMemcpy(quad, out, sizeof quad, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 64; i++) {
            int x = (int)std::floor(at[i].x * w - 0.5), y = (int)std::floor(at[i].y * h - 0.5);
            const int places[4][3] = {{x, y + 1, 0}, {x + 1, y + 1, 0}, {x + 1, y, 0}, {x, y, 0}};
            const float *q = &quad[i].x;
            for (int k = 0; k < 4; k++)
                compare("gather", q[k], sampler.one(places[k], 0, channel), 0);
        }
    }
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFreeArray(array));
    CHECK(cudaFree(d));
    CHECK(cudaFree(out));
}

int main()
{
    elements<char>("char");
    elements<uchar4>("uchar4");
    elements<short>("short");
    elements<ushort2>("ushort2");
    elements<int2>("int2");
    elements<uint4>("uint4");
    filtered<float, float>("float", false);
    filtered<float2, float2>("float2", false);
    filtered<float4, float4>("float4", false);
    filtered<uchar1, float>("uchar to float", true);
    filtered<uchar4, float4>("uchar4 to float4", true);
    filtered<char2, float2>("char2 to float2", true);
    filtered<short4, float4>("short4 to float4", true);
    filtered<ushort2, float2>("ushort2 to float2", true);
    memory();
    halves_and_gather();
    printf("%ld launches, %ld values, %ld wrong\n", launches, checked, wrong);
    return wrong != 0;
}
