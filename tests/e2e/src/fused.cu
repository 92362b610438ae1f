// Sums of products: which of them are fused shows in the last bit. "simple" can be fused in one way only, so
// the host knows the result; the others print a hash for comparison between builds.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <cuda_fp16.h>

enum { N = 2048 };

struct Vector {
    float x, y, z;
};
struct Ball {
    Vector at;
    float radius;
};

static __device__ float dot(Vector a, Vector b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

__global__ void simple(const float *a, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[3 * i] * a[3 * i + 1] + a[3 * i + 2];
}

__global__ void simple_wide(const float *a, double *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = (double)a[3 * i] / 3 * a[3 * i + 1] - (double)a[3 * i + 2];
}

// Each ray's nearest ball, a load between the sums.
__global__ void rays(const float *from, const float *to, const Ball *balls, int count, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Vector o = ((const Vector *)from)[i], d = ((const Vector *)to)[i];
    float best = 1e30f;
    for (int k = 0; k < count; k++) {
        Vector c = {o.x - balls[k].at.x, o.y - balls[k].at.y, o.z - balls[k].at.z};
        float a = dot(d, d), b = dot(c, d), r = dot(c, c) - balls[k].radius * balls[k].radius;
        float root = b * b - a * r;
        if (root > 0 && (-b - sqrtf(root)) / a < best)
            best = (-b - sqrtf(root)) / a;
    }
    out[i] = best;
}

// Products that are used twice, and across a store.
__global__ void shared_products(const float *a, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 2 >= n)
        return;
    float p = a[i] * a[i + 1], q = a[i + 1] * a[i + 2];
    out[i] = p + q;
    out[i + n] = p - q * a[i];
    out[i + 2 * n] = (p + a[i]) * (q - a[i + 2]) - p * q;
}

__global__ void complex_powers(const float2 *a, float2 *out, int n, int power)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float2 z = a[i], c = z;
    for (int k = 0; k < power; k++)
        z = make_float2(z.x * z.x - z.y * z.y + c.x, 2 * z.x * z.y + c.y);
    out[i] = z;
}

__global__ void rows(const float *a, const float *b, double *sums, float4 *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4)
        return;
    float4 x = ((const float4 *)a)[i], y = ((const float4 *)b)[i];
    out[i] = make_float4(x.x * y.x + x.y, x.y * y.y - x.z, x.z - y.z * x.w, x.w * y.w + y.x);
    double s = 0;
    for (int k = 0; k < 16; k++)
        s += (double)a[(i + k) % n] * b[(i * 3 + k) % n] + s * 0.125;
    sums[i] = s;
}

__global__ void halves(const float *a, __half *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 2 < n)
        out[i] = __float2half(a[i]) * __float2half(a[i + 1]) + __float2half(a[i + 2]);
}

template <class T> static T *managed(int n)
{
    T *p;
    if (cudaMallocManaged(&p, n * sizeof(T)) != cudaSuccess)
        printf("no memory\n");
    memset(p, 0, n * sizeof(T));
    return p;
}

static void tell(const char *name, const void *at, size_t bytes)
{
    unsigned long long hash = 0;
    if (cudaDeviceSynchronize() != cudaSuccess)
        printf("%s: failed\n", name);
    for (size_t i = 0; i < bytes; i++)
        hash = hash * 31 + ((const unsigned char *)at)[i];
    printf("%s %016llx\n", name, hash);
}

int main()
{
    float *a = managed<float>(3 * N), *b = managed<float>(3 * N), *out = managed<float>(4 * N);
    double *wide = managed<double>(N);
    Ball *balls = managed<Ball>(32);
    unsigned seed = 1;
    auto next = [&] { return ((seed = seed * 1664525u + 1013904223u) >> 8) / 16777216.f - 0.5f; };
    for (int i = 0; i < 3 * N; i++) {
        a[i] = next();
        b[i] = next();
    }
    for (int i = 0; i < 32; i++)
        balls[i] = {{2 * next(), 2 * next(), 2 * next()}, 0.2f};
    simple<<<N / 128, 128>>>(a, out, N);
    simple_wide<<<N / 128, 128>>>(a, wide, N);
    int fused = cudaDeviceSynchronize() == cudaSuccess, apart = fused;
    for (int i = 0; i < N; i++) {
        const float *t = a + 3 * i;
        volatile float product = t[0] * t[1];
        volatile double third = (double)t[0] / 3, wide_product = third * t[1];
        fused &= out[i] == fmaf(t[0], t[1], t[2]) && wide[i] == fma(third, t[1], -(double)t[2]);
        apart &= out[i] == product + t[2] && wide[i] == wide_product - t[2];
    }
    printf("simple: %s\n", fused ? "fused" : apart ? "apart" : "mixed");
    rays<<<N / 128, 128>>>(a, b, balls, 32, out, N);
    tell("rays", out, N * sizeof *out);
    shared_products<<<N / 128, 128>>>(a, out, N);
    tell("shared_products", out, 3 * N * sizeof *out);
    complex_powers<<<N / 128, 128>>>((float2 *)a, (float2 *)out, N, 12);
    tell("complex_powers", out, 2 * N * sizeof *out);
    rows<<<N / 128, 128>>>(a, b, wide, (float4 *)out, N);
    tell("rows", out, N * sizeof *out);
    tell("row sums", wide, N / 4 * sizeof *wide);
    halves<<<N / 128, 128>>>(a, (__half *)out, N);
    tell("halves", out, N * sizeof(__half));
    return 0;
}
