// Copies and fills, local arrays, volatile, assembly, variables of the program, atomics of all sizes.
#include <cuda_fp16.h>
#include <stdint.h>
#include <string.h>

template <int BYTES> __global__ void copy_known(char *to, const char *from)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    memcpy(to + i * BYTES, from + i * BYTES, BYTES);
}
template __global__ void copy_known<1>(char *, const char *);
template __global__ void copy_known<3>(char *, const char *);
template __global__ void copy_known<16>(char *, const char *);
template __global__ void copy_known<37>(char *, const char *);
template __global__ void copy_known<127>(char *, const char *);
template __global__ void copy_known<128>(char *, const char *);
template __global__ void copy_known<500>(char *, const char *);

template <typename T, int N> __global__ void copy_aligned(T *to, const T *from)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    memcpy(to + i * N, from + i * N, N * sizeof(T));
}
template __global__ void copy_aligned<int, 5>(int *, const int *);
template __global__ void copy_aligned<double, 4>(double *, const double *);
template __global__ void copy_aligned<int4, 3>(int4 *, const int4 *);
template __global__ void copy_aligned<float, 64>(float *, const float *);

__global__ void copy_unknown(char *to, const char *from, size_t bytes)
{
    memcpy(to + threadIdx.x * bytes, from + threadIdx.x * bytes, bytes);
}

__global__ void copy_ints_unknown(int *to, const int *from, int n)
{
    memcpy(to, from, n * sizeof(int));
}

__global__ void move_overlapping(char *p, size_t bytes)
{
    __builtin_memmove(p + 1, p, bytes);
}

__global__ void move_known(int *p)
{
    __builtin_memmove(p + 1, p, 20);
}

__global__ void fill_known(char *p)
{
    memset(p + threadIdx.x * 24, 0, 24);
}

__global__ void fill_ints(int4 *p, int v)
{
    memset(p + threadIdx.x * 2, v, 32);
}

__global__ void fill_unknown(char *p, int v, size_t bytes)
{
    memset(p, v, bytes);
}

__global__ void clear_words(int *p, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = 0;
}

__global__ void through_local(const int *in, int *out, const int *order)
{
    int local[16], i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 16; k++)
        local[k] = in[16 * i + k];
    for (int k = 0; k < 16; k++)
        out[16 * i + k] = local[order[k] & 15];
}

__global__ void sort_local(float *data)
{
    float v[8];
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    memcpy(v, data + i, sizeof v);
    for (int a = 0; a < 8; a++)
        for (int b = a + 1; b < 8; b++)
            if (v[b] < v[a]) {
                float t = v[a];
                v[a] = v[b];
                v[b] = t;
            }
    memcpy(data + i, v, sizeof v);
}

__global__ void struct_in_place(float4 *p)
{
    float4 local[2] = {p[2 * threadIdx.x], p[2 * threadIdx.x + 1]};
    local[0].x += local[1].w;
    local[1].y *= local[0].z;
    memcpy(p + 2 * threadIdx.x, local, sizeof local);
}

__global__ void volatile_flags(volatile int *flags, volatile char *bytes, volatile double *values, int n)
{
    int i = threadIdx.x;
    flags[i] = 1;
    while (flags[(i + 1) % n] == 0)
        ;
    bytes[i] = bytes[i] + 1;
    values[i] = values[i] * values[i];
}

__global__ void volatile_vector(volatile float4 *p)
{
    p[threadIdx.x].x = p[threadIdx.x].y + p[threadIdx.x].z;
}

__global__ void by_assembly(const int *in, int *out, const float4 *in4, float4 *out4)
{
    int v, i = threadIdx.x;
    float4 w;
    asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(v) : "l"(in + i));
    asm volatile("st.global.cs.s32 [%0], %1;" ::"l"(out + i), "r"(v + 1) : "memory");
    asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(w.x), "=f"(w.y), "=f"(w.z), "=f"(w.w)
        : "l"(in4 + i));
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(out4 + i), "f"(w.w), "f"(w.z), "f"(w.y),
                 "f"(w.x)
                 : "memory");
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(out + 64), "r"(v) : "memory");
}

__device__ int counters[64];
__device__ float4 origin;
__device__ const double weights[4] = {0.125, 0.375, 0.375, 0.125};
__device__ int *where;
__constant__ float table[32];

__global__ void variables(const float *in, float *out)
{
    int i = threadIdx.x;
    counters[i % 64]++;
    origin.x += in[i] * (float)weights[i % 4];
    out[i] = table[i % 32] * origin.y;
    where[i] = i;
}

__global__ void indirect(int **rows, int *const *const *cubes, int n)
{
    for (int i = 0; i < n; i++)
        rows[threadIdx.x][i] = cubes[threadIdx.x][i][blockIdx.x];
}

__global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d, unsigned short *s)
{
    atomicAdd(i, 1);
    atomicSub(i + 1, 2);
    atomicMin(i + 2, (int)threadIdx.x);
    atomicMax(u, threadIdx.x);
    atomicInc(u + 1, 7);
    atomicDec(u + 2, 7);
    atomicAnd(u + 3, 0xff);
    atomicXor(u + 4, atomicOr(u + 5, 1));
    atomicAdd(l, 1ull);
    atomicMax(l + 1, atomicExch(l + 2, 3ull));
    l[3] = atomicCAS(l + 4, 5ull, 6ull);
    f[1] = atomicAdd(f, 1.5f);
    atomicExch(f + 2, 2.5f);
    atomicAdd(d, 2.5);
    s[1] = atomicCAS(s, (unsigned short)1, (unsigned short)2);
    atomicAdd_block(i + 3, 1);
    atomicAdd_system(i + 4, 1);
}

__global__ void select_space(int *global, int *out, int k)
{
    __shared__ int shared[32];
    shared[threadIdx.x] = k;
    int *p = k ? shared : global;
    out[threadIdx.x] = p[threadIdx.x];
    p[0] = 3;
}

__global__ void conversions(const double *d, const float *f, const int64_t *l, const int8_t *b, float *fo,
                            int *io, short *so, __half *ho)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    fo[i] = (float)d[i];
    io[i] = (int)l[i] + (int)f[i] + b[i];
    so[i] = (short)l[i + 1];
    ho[i] = __float2half((float)d[i + 1]);
}

__global__ void high_parts(const uint64_t *in, const uint32_t *in4, uint32_t *out, uint16_t *out2,
                           uint8_t *out1)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] >> 32;
    out2[i] = in4[i] >> 16;
    out1[i] = in[i + 1] >> 56;
}

__global__ void reversed_bytes(const uint8_t *in, uint32_t *out)
{
    const uint8_t *p = in + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    out[blockIdx.x * blockDim.x + threadIdx.x] = p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

__global__ void gathered_bytes(const uint8_t *in, uint32_t *out)
{
    const uint8_t *p = in + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    out[blockIdx.x * blockDim.x + threadIdx.x] = p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

__global__ void flags_of(const bool *in, bool *out, const char *c, unsigned *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] && c[i] > 'a';
    if (!out[i])
        count[i] += in[i + 1];
}
