// Vector types, reinterpreted pointers, cache hints.
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T> __global__ void copy(const T *in, T *out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i];
}
template __global__ void copy<char2>(const char2 *, char2 *, int);
template __global__ void copy<uchar3>(const uchar3 *, uchar3 *, int);
template __global__ void copy<uchar4>(const uchar4 *, uchar4 *, int);
template __global__ void copy<short2>(const short2 *, short2 *, int);
template __global__ void copy<ushort4>(const ushort4 *, ushort4 *, int);
template __global__ void copy<int3>(const int3 *, int3 *, int);
template __global__ void copy<int4>(const int4 *, int4 *, int);
template __global__ void copy<longlong2>(const longlong2 *, longlong2 *, int);
template __global__ void copy<ulonglong4>(const ulonglong4 *, ulonglong4 *, int);
template __global__ void copy<float2>(const float2 *, float2 *, int);
template __global__ void copy<float4>(const float4 *, float4 *, int);
template __global__ void copy<double2>(const double2 *, double2 *, int);
template __global__ void copy<double3>(const double3 *, double3 *, int);
template __global__ void copy<double4>(const double4 *, double4 *, int);
template __global__ void copy<__half2>(const __half2 *, __half2 *, int);
template __global__ void copy<__nv_bfloat162>(const __nv_bfloat162 *, __nv_bfloat162 *, int);

__global__ void triad(const double2 *a, const double2 *b, double2 *c, double s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = make_double2(a[i].x + s * b[i].x, a[i].y + s * b[i].y);
}

__global__ void axpy_half2(const __half2 *x, __half2 *y, __half a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}

__global__ void scale_half(const __half *x, __half *y, float a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __float2half(__half2float(x[i]) * a);
}

__global__ void product_bfloat(const __nv_bfloat162 *x, const __nv_bfloat162 *y, __nv_bfloat162 *z)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = __hmul2(x[i], y[i]);
}

__global__ void sum_bfloat(const __nv_bfloat16 *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __nv_bfloat162 *pair = reinterpret_cast<const __nv_bfloat162 *>(x) + 4 * i;
    float sum = 0;
    for (int k = 0; k < 4; k++) {
        float2 v = __bfloat1622float2(pair[k]);
        sum += v.x + v.y;
    }
    y[i] = sum;
}

__global__ void multiply_complex(const float2 *a, const float2 *b, float2 *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 x = a[i], y = b[i];
    c[i] = make_float2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
}

__global__ void multiply_complex_double(const cuDoubleComplex *a, const cuDoubleComplex *b,
                                        cuDoubleComplex *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = cuCadd(cuCmul(a[i], b[i]), c[i]);
}

__global__ void magnitude(const cuFloatComplex *a, float *b)
{
    b[threadIdx.x] = cuCabsf(a[threadIdx.x]);
}

__global__ void butterflies(float2 *data, int half, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i % half, at = i / half * 2 * half + k;
    if (at + half >= n)
        return;
    float s, c;
    sincospif(-(float)k / half, &s, &c);
    float2 a = data[at], b = data[at + half], t = {b.x * c - b.y * s, b.x * s + b.y * c};
    data[at] = make_float2(a.x + t.x, a.y + t.y);
    data[at + half] = make_float2(a.x - t.x, a.y - t.y);
}

__global__ void part_used(const float4 *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i].x + in[i].w;
}

__global__ void one_used(const int4 *in, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i].z;
}

__global__ void half_used(const uint2 *in, unsigned short *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i].y >> 16;
}

__global__ void one_written(float4 *out, float v)
{
    out[blockIdx.x * blockDim.x + threadIdx.x].y = v;
}

__global__ void bytes_dot(const char4 *a, const char4 *b, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    char4 x = a[i], y = b[i];
    out[i] = x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

__global__ void to_grey(const uchar4 *in, unsigned char *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uchar4 p = in[i];
    out[i] = 0.299f * p.x + 0.587f * p.y + 0.114f * p.z;
}

__global__ void from_bytes(const unsigned char *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uchar4 p = *reinterpret_cast<const uchar4 *>(in + 4 * i);
    *reinterpret_cast<float4 *>(out + 4 * i) =
        make_float4(p.x / 255.0f, p.y / 255.0f, p.z / 255.0f, p.w / 255.0f);
}

// A vector of any element type, as iterators of sorting libraries load them.
template <typename T, int N> struct alignas(sizeof(T) * N) Items {
    T item[N];
};

template <typename T, int N> __device__ void load_items(const T *from, T (&items)[N])
{
    constexpr int STEP = 16 / sizeof(T) < N ? 16 / sizeof(T) : N;
    const Items<T, STEP> *vectors = reinterpret_cast<const Items<T, STEP> *>(from) + threadIdx.x * (N / STEP);
    for (int v = 0; v < N / STEP; v++) {
        Items<T, STEP> got = vectors[v];
        for (int k = 0; k < STEP; k++)
            items[v * STEP + k] = got.item[k];
    }
}

template <typename T, int N> __global__ void sum_items(const T *in, T *out)
{
    T items[N], sum = 0;
    load_items(in + blockIdx.x * blockDim.x * N, items);
    for (int k = 0; k < N; k++)
        sum += items[k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
template __global__ void sum_items<unsigned char, 16>(const unsigned char *, unsigned char *);
template __global__ void sum_items<short, 4>(const short *, short *);
template __global__ void sum_items<int, 8>(const int *, int *);
template __global__ void sum_items<float, 4>(const float *, float *);
template __global__ void sum_items<double, 4>(const double *, double *);

__global__ void transpose(const float *in, float *out, int width, int height)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        out[(y + k) * height + x] = tile[threadIdx.x][threadIdx.y + k];
}

__global__ void transpose_vector(const float4 *in, float *out, int width4, int height)
{
    __shared__ float tile[32][33];
    float4 v = in[(blockIdx.y * 32 + threadIdx.y) * width4 + blockIdx.x * 8 + threadIdx.x];
    tile[threadIdx.y][4 * threadIdx.x] = v.x;
    tile[threadIdx.y][4 * threadIdx.x + 1] = v.y;
    tile[threadIdx.y][4 * threadIdx.x + 2] = v.z;
    tile[threadIdx.y][4 * threadIdx.x + 3] = v.w;
    __syncthreads();
    for (int k = 0; k < 4; k++)
        out[(blockIdx.x * 32 + 4 * threadIdx.x + k) * height + blockIdx.y * 32 + threadIdx.y] =
            tile[threadIdx.y][4 * threadIdx.x + k];
}

__global__ void hints(const float *a, const float4 *b, const int *c, float *out, int *out2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = __ldg(b + i), w = __ldcs(b + i + 1);
    out[i] = __ldg(a + i) + __ldcs(a + i + 1) + __ldca(a + i + 2) + v.x + v.y * w.z + w.w;
    __stcs(out2 + i, __ldcv(c + i));
    __stcg(out2 + i + 1, __ldlu(c + i + 1));
    __stwt(out2 + i + 2, __ldg(c + i + 2));
    __stwb(out2 + i + 3, 4);
}

__global__ void hints_wide(const double *a, const uint4 *b, const __half2 *h, const long long *l, double *out,
                           uint4 *out2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 f = __half22float2(__ldg(h + i));
    out[i] = __ldg(a + i) + f.x + f.y + __ldg(l + i);
    uint4 v = __ldg(b + i);
    __stcs(out2 + i, make_uint4(v.w, v.z, v.y, v.x));
}

__global__ void hints_narrow(const char *a, const unsigned short *b, const uchar4 *c, const short2 *d,
                             int *out)
{
    int i = threadIdx.x;
    uchar4 v = __ldg(c + i);
    short2 s = __ldg(d + i);
    out[i] = __ldg(a + i) + __ldg(b + i) + v.x + v.w + s.x * s.y;
}

__global__ void read_only(const float *__restrict__ a, const int *__restrict__ index,
                          const double2 *__restrict__ b, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[index[i]] * a[i] + b[i].x * b[index[i]].y;
}

__global__ void matrix_vector(const float4 *__restrict__ m, const float4 *__restrict__ v,
                              float *__restrict__ out, int width4)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < width4; k++) {
        float4 a = m[row * width4 + k], b = v[k];
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    out[row] = sum;
}

__global__ void multiply_registers(const float *a, const float *b, float *c, int n)
{
    __shared__ float as[8][64], bs[8][64];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row = threadIdx.x / 2, half = threadIdx.x % 2;
    float sum[8][4] = {};
    for (int k0 = 0; k0 < n; k0 += 8) {
        if (threadIdx.x < 128) {
            float4 v = *reinterpret_cast<const float4 *>(a + (blockIdx.y * 64 + row) * n + k0 + 4 * half);
            as[4 * half][row] = v.x;
            as[4 * half + 1][row] = v.y;
            as[4 * half + 2][row] = v.z;
            as[4 * half + 3][row] = v.w;
            *reinterpret_cast<float4 *>(&bs[threadIdx.x / 16][4 * tx]) =
                *reinterpret_cast<const float4 *>(b + (k0 + threadIdx.x / 16) * n + blockIdx.x * 64 + 4 * tx);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; k++)
            for (int y = 0; y < 8; y++)
                for (int x = 0; x < 4; x++)
                    sum[y][x] += as[k][8 * ty + y] * bs[k][4 * tx + x];
        __syncthreads();
    }
    for (int y = 0; y < 8; y++)
        *reinterpret_cast<float4 *>(c + (blockIdx.y * 64 + 8 * ty + y) * n + blockIdx.x * 64 + 4 * tx) =
            make_float4(sum[y][0], sum[y][1], sum[y][2], sum[y][3]);
}
