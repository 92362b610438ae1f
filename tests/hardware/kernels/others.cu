// Packs of 16 bytes, blocks of a few bits with a scale, structs by value, sums of grids, sparse rows.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace cg = cooperative_groups;

template <typename T> struct alignas(16) Pack {
    static constexpr int SIZE = 16 / sizeof(T);
    T values[SIZE];
    __device__ T &operator[](int i)
    {
        return values[i];
    }
    __device__ const T &operator[](int i) const
    {
        return values[i];
    }
};

template <typename T> __device__ Pack<T> load_pack(const T *p)
{
    return *reinterpret_cast<const Pack<T> *>(p);
}

template <typename T> __device__ void store_pack(T *p, Pack<T> v)
{
    *reinterpret_cast<Pack<T> *>(p) = v;
}

template <typename T> __device__ Pack<T> load_pack_streaming(const T *p)
{
    int4 bits = __ldcs(reinterpret_cast<const int4 *>(p));
    Pack<T> v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

__device__ float warp_sum(float x)
{
    for (int offset = 16; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xffffffff, x, offset);
    return x;
}

__global__ void encode_pack(__nv_bfloat16 *out, const int *tokens, const __nv_bfloat16 *words,
                            const __nv_bfloat16 *places, int n, int time, int width)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * Pack<__nv_bfloat16>::SIZE;
    if (i >= n)
        return;
    int row = i / width, column = i % width;
    Pack<__nv_bfloat16> a = load_pack_streaming(words + tokens[row] * width + column);
    Pack<__nv_bfloat16> b = load_pack_streaming(places + row % time * width + column), sum;
    for (int k = 0; k < sum.SIZE; k++)
        sum[k] = (__nv_bfloat16)((float)a[k] + (float)b[k]);
    store_pack(out + i, sum);
}

__global__ void layernorm_pack(__half *out, const __half *in, const __half *weight, const __half *bias,
                               int rows, int width)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    float sum = 0;
    for (int i = threadIdx.x * 8; i < width; i += 256) {
        Pack<__half> v = load_pack(in + row * width + i);
        for (int k = 0; k < 8; k++)
            sum += (float)v[k];
    }
    float mean = warp_sum(sum) / width, spread = 0;
    for (int i = threadIdx.x * 8; i < width; i += 256) {
        Pack<__half> v = load_pack(in + row * width + i);
        for (int k = 0; k < 8; k++)
            spread += ((float)v[k] - mean) * ((float)v[k] - mean);
    }
    float scale = rsqrtf(warp_sum(spread) / width + 1e-5f);
    for (int i = threadIdx.x * 8; i < width; i += 256) {
        Pack<__half> v = load_pack(in + row * width + i), w = load_pack(weight + i), b = load_pack(bias + i);
        for (int k = 0; k < 8; k++)
            v[k] = (__half)(((float)v[k] - mean) * scale * (float)w[k] + (float)b[k]);
        store_pack(out + row * width + i, v);
    }
}

struct Q4 {
    __half scale;
    uint8_t q[16];
};

struct Q5 {
    __half scale;
    uint8_t high[4];
    uint8_t q[16];
};

__device__ const int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

__global__ void dequantise_nonlinear(const Q4 *in, float *out)
{
    int block = blockIdx.x, k = threadIdx.x;
    float d = in[block].scale;
    out[block * 32 + k] = d * nonlinear[in[block].q[k] & 15];
    out[block * 32 + k + 16] = d * nonlinear[in[block].q[k] >> 4];
}

// The high bits are a word that is aligned to 2 and was copied as bytes: four loads, of which each pair of
// values needs two.
static __device__ __forceinline__ float2 two_of_q5(const Q5 *b, int64_t i, int j)
{
    uint32_t high;
    memcpy(&high, b[i].high, sizeof high);
    int low = (b[i].q[j] & 15) | ((high >> j << 4) & 16), up = (b[i].q[j] >> 4) | ((high >> (j + 12)) & 16);
    return make_float2((low - 16) * __half2float(b[i].scale), (up - 16) * __half2float(b[i].scale));
}

__global__ void q5_block_to_floats(const char *from, char *to, int64_t n, int64_t row, int64_t pitch)
{
    int64_t i = (int64_t)blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n)
        return;
    const Q5 *b = (const Q5 *)(from + i / row * pitch + i % row * sizeof(Q5));
    float *out = (float *)to + 32 * i;
#pragma unroll
    for (int j = 0; j < 16; j++) {
        float2 v = two_of_q5(b, 0, j);
        out[j] = v.x;
        out[j + 16] = v.y;
    }
}

// The same by one thread for each pair, from what nobody writes: by strides, so that the address has as many
// steps as the back end looks back.
__global__ void q5_pairs_to_halves(const void *__restrict__ from, __half *__restrict__ to, int64_t ne00,
                                   int64_t ne01, uint3 ne02, int64_t s01, int64_t s02, int64_t s03)
{
    int64_t i00 = 2 * ((int64_t)blockDim.x * blockIdx.x + threadIdx.x);
    if (i00 >= ne00)
        return;
    for (int64_t i01 = blockIdx.y; i01 < ne01; i01 += gridDim.y)
        for (int64_t z = blockIdx.z; z < ne02.z; z += gridDim.z) {
            uint32_t i03 = __umulhi((uint32_t)z, ne02.x) >> ne02.y, i02 = (uint32_t)z - i03 * ne02.z;
            int64_t block = i03 * s03 + i02 * s02 + i01 * s01 + i00 / 32;
            int j = i00 % 32 / 2;
            int64_t at = ((z * gridDim.y + i01) * ne00) + i00 - i00 % 32 + j;
            float2 v = two_of_q5((const Q5 *)from, block, j);
            to[at] = __float2half(v.x);
            to[at + 16] = __float2half(v.y);
        }
}

// Bytes of words that are combined before they are masked, and a byte on its way up.
__global__ void masked(const unsigned *p, const unsigned *q, unsigned *r)
{
    int i = threadIdx.x;
    r[3 * i] = (p[3 * i] ^ q[3 * i]) & 0xff;
    r[3 * i + 1] = (p[3 * i + 1] | q[3 * i + 1] | 0x1234567) & 0xffff;
    r[3 * i + 2] = (p[3 * i + 2] << 8) & 0xff00;
}

struct Mixed {
    char c;
    short s;
    int i;
    long long l;
    float f;
    double d;
};

__global__ void bump(Mixed *m)
{
    Mixed *p = m + blockIdx.x * blockDim.x + threadIdx.x;
    p->c++;
    p->s += p->c;
    p->i -= p->s;
    p->l *= p->i;
    p->f += 0.5f;
    p->d = p->f * p->d + p->l;
}

// Structs by value: the call reads them, once where it gets the same one twice.
struct Contract {
    int day[4];
    float rate[3];
};

static __device__ __noinline__ float worth(Contract c, Contract d, int n)
{
    float v = 0;
    for (int i = 0; i < 4; i++)
        v += (c.day[i & n] - d.day[i]) * c.rate[i % 3 & n];
    return v + d.rate[n & 1];
}

__global__ void contract_against_itself(const Contract *c, float *out)
{
    int i = threadIdx.x;
    out[i] = worth(c[i], c[i], 3) + c[i].day[2];
}

__global__ void contract_against_the_next(const Contract *c, float *out)
{
    int i = threadIdx.x;
    out[i] = worth(c[i], c[i + 1], c[i].day[0] + c[i].day[1]);
}

// A table on the stack, read by an index from below it.
__global__ void month_lengths(const int *month, int *out, int leap)
{
    int plain[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31},
        more[12] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    out[threadIdx.x] = (leap ? more : plain)[month[threadIdx.x] - 1];
}

template <typename T> __device__ __forceinline__ T across_warp(T x)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        x += __shfl_down_sync(0xffffffff, x, offset);
    return x;
}

__device__ unsigned arrived;

__global__ void reduce_once(const double *in, volatile double *parts, double *out, int n)
{
    __shared__ bool last;
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    for (int offset = 16; offset; offset /= 2)
        sum += warp.shfl_down(sum, offset);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x) == gridDim.x - 1;
    }
    block.sync();
    if (last && threadIdx.x == 0) {
        sum = 0;
        for (int i = 0; i < gridDim.x; i++)
            sum += parts[i];
        *out = sum;
    }
}

__global__ void scan_steps(const int *in, int *out, int n)
{
    extern __shared__ int both[];
    int t = threadIdx.x, from = 1, to = 0;
    both[t] = t > 0 ? in[t - 1] : 0;
    for (int offset = 1; offset < n; offset *= 2) {
        __syncthreads();
        to = 1 - to;
        from = 1 - to;
        both[to * n + t] =
            t >= offset ? both[from * n + t] + both[from * n + t - offset] : both[from * n + t];
    }
    __syncthreads();
    out[t] = both[to * n + t];
}

__global__ void compact(const int *in, int *out, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, v = i < n ? in[i] : 0, base;
    unsigned keep = __ballot_sync(0xffffffff, v > 0);
    if (lane == 0)
        base = atomicAdd(count, __popc(keep));
    base = __shfl_sync(0xffffffff, base, 0);
    if (v > 0)
        out[base + __popc(keep & ((1u << lane) - 1))] = v;
}

__global__ void blur_colours(const uchar4 *in, uchar4 *out, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float r = 0, g = 0, b = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            int xx = min(max(x + dx, 0), width - 1), yy = min(max(y + dy, 0), height - 1);
            uchar4 p = in[yy * width + xx];
            r += p.x;
            g += p.y;
            b += p.z;
        }
    out[y * width + x] = make_uchar4(r / 9, g / 9, b / 9, in[y * width + x].w);
}

__global__ void jacobi(const double *a, const double *b, double *c, double *residual, int n)
{
    double most = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x + 1; i < n - 1; i += gridDim.x * blockDim.x)
        for (int j = 1; j < n - 1; j++) {
            double v = 0.25 * (a[(i - 1) * n + j] + a[(i + 1) * n + j] + a[i * n + j - 1] + a[i * n + j + 1] -
                               b[i * n + j]);
            c[i * n + j] = v;
            most = fmax(most, fabs(v - a[i * n + j]));
        }
    residual[blockIdx.x * blockDim.x + threadIdx.x] = most;
}

__global__ void life(const unsigned char *in, unsigned char *out, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, left = (x + n - 1) % n,
        right = (x + 1) % n;
    const unsigned char *row = in + y * n, *up = in + (y + n - 1) % n * n, *down = in + (y + 1) % n * n;
    int sum = up[left] + up[x] + up[right] + row[left] + row[right] + down[left] + down[x] + down[right];
    out[y * n + x] = sum == 3 || (sum == 2 && row[x]);
}

__global__ void cholesky_column(double *a, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x + k + 1;
    if (i >= n)
        return;
    double l = a[i * n + k] / a[k * n + k];
    for (int j = k + 1; j <= i; j++)
        a[i * n + j] -= l * a[j * n + k];
    a[i * n + k] = l;
}

template <typename T, typename I>
__global__ void csr_row(const I *begins, const I *columns, const T *values, const T *x, T *y, I rows)
{
    I row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    T sum = 0;
    for (I k = begins[row]; k < begins[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}

template __global__ void csr_row<double, long>(const long *, const long *, const double *, const double *,
                                               double *, long);

__global__ void float_max(float *place, const float *in)
{
    int *bits = (int *)place, old = *bits, seen;
    float v = in[blockIdx.x * blockDim.x + threadIdx.x];
    do {
        seen = old;
        if (__int_as_float(seen) >= v)
            break;
        old = atomicCAS(bits, seen, __float_as_int(v));
    } while (old != seen);
}

// An index that may wrap round before it is extended, an address by a subtraction, a reciprocal.
__global__ void around(const float *in, float *out, const short *at, int below)
{
    int i = threadIdx.x;
    out[i] = 1 / in[(short)(at[i] + 32767)] + *(in + i - below);
}
