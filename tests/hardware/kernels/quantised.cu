// Weights in blocks of a few bits with a scale: structs of 18, 20, 22, 34 and 144 bytes, read as bytes, as
// pairs of bytes, as words.
#include <cuda_fp16.h>
#include <stdint.h>

struct Q8 {
    __half scale;
    int8_t q[32];
};
struct Q4 {
    __half scale;
    uint8_t q[16];
};
struct Q4Offset {
    __half2 scale;
    uint8_t q[16];
};
struct Q5 {
    __half scale;
    uint8_t high[4];
    uint8_t q[16];
};
struct Q8Sum {
    __half2 scale;
    int8_t q[32];
};
struct Q4Super {
    __half2 scale;
    uint8_t scales[12];
    uint8_t q[128];
};
struct Q6Super {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    __half scale;
};
struct Q2Super {
    uint8_t scales[16];
    uint8_t q[64];
    __half2 scale;
};
static_assert(sizeof(Q8) == 34 && sizeof(Q4) == 18 && sizeof(Q5) == 22 && sizeof(Q4Super) == 144);

// Blocks of 34 or 18 bytes are aligned to 2: a word is read as two halves.
static __device__ int word_at_2(const void *p, int i)
{
    const uint16_t *half = (const uint16_t *)p + 2 * i;
    return half[0] | half[1] << 16;
}

static __device__ int word_at_4(const void *p, int i)
{
    return ((const int *)p)[i];
}

static __device__ int dot4(int a, int b, int c)
{
    return __dp4a(a, b, c);
}

__global__ void dequantise_q8(const Q8 *in, float *out, long n)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i / 32].q[i % 32] * __half2float(in[i / 32].scale);
}

__global__ void dequantise_q4(const void *in, __half2 *out)
{
    const Q4 *x = (const Q4 *)in;
    int i = blockIdx.x * blockDim.x + threadIdx.x, block = i / 16, k = i % 16;
    float d = x[block].scale;
    int both = x[block].q[k];
    out[i] = __floats2half2_rn(((both & 15) - 8) * d, ((both >> 4) - 8) * d);
}

__global__ void dequantise_q4_offset(const Q4Offset *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, block = i / 16, k = i % 16;
    float2 d = __half22float2(in[block].scale);
    int both = in[block].q[k];
    out[block * 32 + k] = (both & 15) * d.x + d.y;
    out[block * 32 + k + 16] = (both >> 4) * d.x + d.y;
}

__global__ void dequantise_q5(const Q5 *in, float *out)
{
    int block = blockIdx.x, k = threadIdx.x;
    uint32_t high;
    memcpy(&high, in[block].high, sizeof high);
    int low = in[block].q[k], x0 = (low & 15) | (high >> k << 4 & 16),
        x1 = low >> 4 | (high >> (k + 12) & 16);
    float d = in[block].scale;
    out[block * 32 + k] = (x0 - 16) * d;
    out[block * 32 + k + 16] = (x1 - 16) * d;
}

static __device__ void scale_and_least(int j, const uint8_t *q, uint8_t &scale, uint8_t &least)
{
    if (j < 4) {
        scale = q[j] & 63;
        least = q[j + 4] & 63;
    } else {
        scale = (q[j + 4] & 15) | (q[j - 4] >> 6 << 4);
        least = q[j + 4] >> 4 | (q[j] >> 6 << 4);
    }
}

__global__ void dequantise_q4_super(const Q4Super *in, float *out)
{
    const Q4Super *x = in + blockIdx.x;
    int group = threadIdx.x / 8, k = threadIdx.x % 8, part = 2 * group;
    float *y = out + blockIdx.x * 256 + 64 * group + 4 * k;
    float d = __low2half(x->scale), m = __high2half(x->scale);
    const uint8_t *q = x->q + 32 * group + 4 * k;
    uint8_t scale, least;
    scale_and_least(part, x->scales, scale, least);
    float d1 = d * scale, m1 = m * least;
    scale_and_least(part + 1, x->scales, scale, least);
    float d2 = d * scale, m2 = m * least;
    for (int l = 0; l < 4; l++) {
        y[l] = d1 * (q[l] & 15) - m1;
        y[l + 32] = d2 * (q[l] >> 4) - m2;
    }
}

__global__ void dequantise_q6_super(const Q6Super *in, __half *out)
{
    const Q6Super *x = in + blockIdx.x;
    int half = threadIdx.x / 32, l = threadIdx.x % 32;
    __half *y = out + blockIdx.x * 256 + 128 * half + l;
    float d = x->scale;
    const uint8_t *low = x->low + 64 * half + l;
    uint8_t high = x->high[32 * half + l];
    const int8_t *scale = x->scales + 8 * half + l / 16;
    y[0] = d * scale[0] * ((int8_t)((low[0] & 15) | (high & 3) << 4) - 32);
    y[32] = d * scale[2] * ((int8_t)((low[32] & 15) | (high >> 2 & 3) << 4) - 32);
    y[64] = d * scale[4] * ((int8_t)(low[0] >> 4 | (high >> 4 & 3) << 4) - 32);
    y[96] = d * scale[6] * ((int8_t)(low[32] >> 4 | (high >> 6 & 3) << 4) - 32);
}

__global__ void dequantise_q2_super(const Q2Super *in, float *out)
{
    const Q2Super *x = in + blockIdx.x;
    int n = threadIdx.x / 32, l = threadIdx.x - 32 * n, is = 8 * n + l / 16;
    uint8_t q = x->q[32 * n + l];
    float *y = out + blockIdx.x * 256 + 128 * n + l, d = __low2half(x->scale), m = __high2half(x->scale);
    y[0] = d * (x->scales[is] & 15) * (q & 3) - m * (x->scales[is] >> 4);
    y[32] = d * (x->scales[is + 2] & 15) * (q >> 2 & 3) - m * (x->scales[is + 2] >> 4);
    y[64] = d * (x->scales[is + 4] & 15) * (q >> 4 & 3) - m * (x->scales[is + 4] >> 4);
    y[96] = d * (x->scales[is + 6] & 15) * (q >> 6 & 3) - m * (x->scales[is + 6] >> 4);
}

__global__ void quantise_q8_sum(const float *__restrict__ in, void *__restrict__ out, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    float x = i < n ? in[i] : 0, most = fabsf(x), sum = x;
    for (int mask = 16; mask; mask >>= 1) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, mask));
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    }
    float d = most / 127;
    Q8Sum *y = (Q8Sum *)out;
    y[i / 32].q[i % 32] = most == 0 ? 0 : (int8_t)roundf(x / d);
    if (i % 32)
        return;
    reinterpret_cast<__half &>(y[i / 32].scale.x) = d;
    reinterpret_cast<__half &>(y[i / 32].scale.y) = sum;
}

__global__ void quantise_q8(const float4 *in, Q8 *out)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    float4 v = in[i];
    float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
    for (int mask = 4; mask; mask >>= 1)
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, mask));
    float d = most / 127, inverse = d ? 1 / d : 0;
    int8_t *q = out[i / 8].q + 4 * (i % 8);
    q[0] = roundf(v.x * inverse);
    q[1] = roundf(v.y * inverse);
    q[2] = roundf(v.z * inverse);
    q[3] = roundf(v.w * inverse);
    if (i % 8 == 0)
        out[i / 8].scale = d;
}

__global__ void dot_q8(const Q8 *a, const Q8Sum *b, float *out, int blocks)
{
    float sum = 0;
    for (int block = threadIdx.x / 4; block < blocks; block += 8) {
        int part = threadIdx.x % 4 * 2, s = 0;
        for (int k = 0; k < 2; k++)
            s = dot4(word_at_2(a[block].q, part + k), word_at_4(b[block].q, part + k), s);
        sum += s * (__half2float(a[block].scale) * __low2float(b[block].scale));
    }
    for (int mask = 16; mask; mask >>= 1)
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    if (threadIdx.x == 0)
        out[blockIdx.x] = sum;
}

__global__ void dot_q4(const Q4 *a, const Q8Sum *b, float *out, int blocks)
{
    float sum = 0;
    for (int block = threadIdx.x / 4; block < blocks; block += 8) {
        int part = threadIdx.x % 4, v = word_at_2(a[block].q, part), s = 0;
        s = dot4(v & 0x0f0f0f0f, word_at_4(b[block].q, part), s);
        s = dot4(v >> 4 & 0x0f0f0f0f, word_at_4(b[block].q, part + 4), s);
        float2 d = __half22float2(b[block].scale);
        sum += __half2float(a[block].scale) * (s * d.x - 2 * d.y);
    }
    atomicAdd(out + blockIdx.x, sum);
}

__global__ void dot_q4_super(const Q4Super *a, const Q8Sum *b, float *out)
{
    const int *q = (const int *)(a->q + 16 * (threadIdx.x % 8));
    const uint16_t *scales = (const uint16_t *)a->scales;
    uint16_t aux[2];
    int j = threadIdx.x % 4;
    if (j < 2) {
        aux[0] = scales[j] & 0x3f3f;
        aux[1] = scales[j + 2] & 0x3f3f;
    } else {
        aux[0] = (scales[j + 2] & 0x0f0f) | (scales[j - 2] & 0xc0c0) >> 2;
        aux[1] = (scales[j + 2] >> 4 & 0x0f0f) | (scales[j] & 0xc0c0) >> 2;
    }
    const uint8_t *sc = (const uint8_t *)aux, *m = sc + 2;
    float sum = 0, least = 0;
    for (int i = 0; i < 2; i++) {
        const int *u = (const int *)b[i].q + threadIdx.x % 4;
        int s = dot4(q[0] >> 4 * i & 0x0f0f0f0f, u[0], dot4(q[4] >> 4 * i & 0x0f0f0f0f, u[4], 0));
        sum += __low2float(b[i].scale) * (s * sc[i]);
        least += __low2float(b[i].scale) * m[i];
    }
    float2 d = __half22float2(a->scale);
    out[threadIdx.x] = d.x * sum - d.y * least;
}

__constant__ uint32_t grid_of_codes[256];
__device__ const int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

__global__ void dequantise_codes(const uint16_t *codes, const __half *scales, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t word = grid_of_codes[codes[i] & 255];
    uint8_t signs = codes[i] >> 8;
    const uint8_t *bytes = (const uint8_t *)&word;
    float d = scales[i / 8];
    for (int k = 0; k < 4; k++)
        out[4 * i + k] = d * bytes[k] * (signs >> k & 1 ? -1.0f : 1.0f);
}

__global__ void dequantise_nonlinear(const Q4 *in, float *out)
{
    int block = blockIdx.x, k = threadIdx.x;
    float d = in[block].scale;
    out[block * 32 + k] = d * nonlinear[in[block].q[k] & 15];
    out[block * 32 + k + 16] = d * nonlinear[in[block].q[k] >> 4];
}

template <int COLUMNS>
__global__ void product_half(const __half2 *x, const float2 *y, float *out, int columns2)
{
    float sum[COLUMNS] = {};
    for (int c = threadIdx.x; c < columns2; c += blockDim.x) {
        float2 w = __half22float2(x[blockIdx.x * columns2 + c]);
        for (int j = 0; j < COLUMNS; j++) {
            float2 v = y[j * columns2 + c];
            sum[j] += w.x * v.x;
            sum[j] += w.y * v.y;
        }
    }
    for (int j = 0; j < COLUMNS; j++)
        atomicAdd(&out[j * gridDim.x + blockIdx.x], sum[j]);
}
template __global__ void product_half<1>(const __half2 *, const float2 *, float *, int);
template __global__ void product_half<3>(const __half2 *, const float2 *, float *, int);

__global__ void copy_block_q8(const char *from, char *to)
{
    const float *x = (const float *)from;
    Q8 *block = (Q8 *)to;
    float most = 0;
    for (int i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(x[i]));
    block->scale = most / 127;
    for (int i = 0; i < 32; i++)
        block->q[i] = roundf(x[i] * 127 / most);
}

__global__ void move_blocks(const Q5 *from, Q5 *to, const int *order)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[order[i]];
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
