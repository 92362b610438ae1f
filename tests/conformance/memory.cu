// Accesses to global memory in all their forms: how many records, of which size,
// and whether the value is right.

// conformance: levels -O1 -O0
#include "copy_row.h"
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
typedef unsigned u32;
typedef long long s64;
typedef unsigned long long u64;

COPY("load, store of char", char, out[i] = in[i])
COPY("load, store of unsigned char", unsigned char, out[i] = in[i])
COPY("load, store of short", short, out[i] = in[i])
COPY("load, store of unsigned short", unsigned short, out[i] = in[i])
COPY("load, store of int", int, out[i] = in[i])
COPY("load, store of unsigned", unsigned, out[i] = in[i])
COPY("load, store of long", long, out[i] = in[i])
COPY("load, store of long long", long long, out[i] = in[i])
COPY("load, store of u64", u64, out[i] = in[i])
COPY("load, store of float", float, out[i] = in[i])
COPY("load, store of double", double, out[i] = in[i])
COPY("load, store of char2", char2, out[i] = in[i])
COPY("load, store of char4", char4, out[i] = in[i])
COPY("load, store of uchar4", uchar4, out[i] = in[i])
COPY("load, store of short2", short2, out[i] = in[i])
COPY("load, store of ushort4", ushort4, out[i] = in[i])
COPY("load, store of int2", int2, out[i] = in[i])
COPY("load, store of int4", int4, out[i] = in[i])
COPY("load, store of uint2", uint2, out[i] = in[i])
COPY("load, store of uint4", uint4, out[i] = in[i])
COPY("load, store of longlong2", longlong2, out[i] = in[i])
COPY("load, store of ulonglong2", ulonglong2, out[i] = in[i])
COPY("load, store of float2", float2, out[i] = in[i])
COPY("load, store of float4", float4, out[i] = in[i])
COPY("load, store of double2", double2, out[i] = in[i])
COPY("load, store of int3", int3, out[i] = in[i])
COPY("load, store of float3", float3, out[i] = in[i])
COPY("load, store of __half", __half, out[i] = in[i])
COPY("load, store of __half2", __half2, out[i] = in[i])
COPY("volatile load, store of char", char, ((volatile char *)out)[i] = ((const volatile char *)in)[i])
COPY("volatile load, store of int", int, ((volatile int *)out)[i] = ((const volatile int *)in)[i])
COPY("volatile load, store of float", float, ((volatile float *)out)[i] = ((const volatile float *)in)[i])
COPY("volatile load, store of double", double, ((volatile double *)out)[i] = ((const volatile double *)in)[i])
COPY("volatile load, store of long long", long long,
     ((volatile long long *)out)[i] = ((const volatile long long *)in)[i])
// X(function, type) for the types of all such functions, and for those that loads have besides.
#define TYPES(X, f)                                                                                          \
    X(f, char)                                                                                               \
    X(f, short)                                                                                              \
    X(f, int)                                                                                                \
    X(f, unsigned)                                                                                           \
    X(f, long long)                                                                                          \
    X(f, float)                                                                                              \
    X(f, double)                                                                                             \
    X(f, int2)                                                                                               \
    X(f, float2)                                                                                             \
    X(f, int4)                                                                                               \
    X(f, float4)                                                                                             \
    X(f, double2)                                                                                            \
    X(f, uchar4)
#define LOAD(f, T) COPY(#f " of " #T, T, out[i] = f(in + i))
#define LOADS(f) TYPES(LOAD, f) LOAD(f, u64) LOAD(f, uint4) LOAD(f, longlong2) LOAD(f, short2)
#define STORE(f, T) COPY(#f " of " #T, T, f(out + i, in[i]))
LOADS(__ldg)
LOADS(__ldcg)
LOADS(__ldca)
LOADS(__ldcs)
LOADS(__ldlu)
LOADS(__ldcv)
TYPES(STORE, __stwb)
TYPES(STORE, __stcg)
TYPES(STORE, __stcs)
TYPES(STORE, __stwt)
COPY("__ldg of __half2", __half2, out[i] = __ldg(in + i))
COPY("__ldcg of __half2", __half2, out[i] = __ldcg(in + i))
COPY("__ldcs of __half2", __half2, out[i] = __ldcs(in + i))
COPY("__stcg of __half", __half, __stcg(out + i, in[i]))
COPY("__stcs of __half", __half, __stcs(out + i, in[i]))

// ---- structs and block copies ----
struct packed_7 {
    char bytes[7];
};
struct words_5 {
    int words[5];
};
struct __attribute__((packed)) odd {
    char c;
    int i;
    double d;
};
struct __align__(16) wide {
    float f[12];
};

COPY("struct packed_7", packed_7, out[i] = in[i])
COPY("struct words_5", words_5, out[i] = in[i])
COPY("struct odd", odd, out[i] = in[i])
COPY("struct wide", wide, out[i] = in[i])

// CUDA's memcpy says nothing of alignment, and LLVM's NVPTX back end makes a loop over bytes of every copy
// whose length it does not know, or that is long: so does the hardware.
static __global__ void copy_unaligned(const int *in, int *out)
{
    int v, i = threadIdx.x;
    memcpy(&v, in + i, 4);
    memcpy(out + i, &v, 4);
}
ROW("memcpy of 4 bytes to a local variable", "four loads and four stores of a byte per thread")
{
    conf::buffer<int> from(r, 32, [](long i) { return i * 70001; }), to(r, 32);
    copy_unaligned<<<1, 32>>>(from, to);
    to.is([](long i) { return i * 70001; });
    r.loads(128, 1);
    r.stores(128, 1);
}

// Programs read them as float4: nvcc puts them so.
static __device__ __noinline__ void local_fill(float *p, const float *in, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = in[i];
}
static __global__ void local_arrays(const float *in, unsigned *out)
{
    float a[8], b[13], c[5];
    local_fill(a, in, 8);
    local_fill(b, in, 13);
    local_fill(c, in, 5);
    out[threadIdx.x] = ((size_t)a | (size_t)b | (size_t)c) % 16;
}
ROW("local arrays of float", "begin at multiples of 16 bytes: 26 loads")
{
    conf::buffer<float> from(r, 13, [](long i) { return (float)i; });
    conf::buffer<unsigned> to(r, 1, [](long) { return 99u; });
    local_arrays<<<1, 1>>>(from, to);
    to.is([](long) { return 0u; });
    r.loads(26, 4);
    r.stores(1, 4);
}

static __global__ void copy_n(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
}
ROW("memcpy, length at run time", "1000 loads and stores of a byte")
{
    conf::buffer<char> from(r, 1000, [](long i) { return i * 7; }), to(r, 1000);
    copy_n<<<1, 1>>>(to, from, 1000);
    to.is([](long i) { return i * 7; });
    r.loads(1000, 1);
    r.stores(1000, 1);
}
ROW("memcpy of no bytes", "no record")
{
    conf::buffer<char> from(r, 8, [](long i) { return i; }), to(r, 8, [](long i) { return -i; });
    copy_n<<<1, 1>>>(to, from, 0);
    to.is([](long i) { return -i; });
}
static __global__ void move_n(char *p, int shift, size_t n)
{
    __builtin_memmove(p + shift, p, n);
}
ROW("memmove, overlapping", "100 loads and stores of a byte")
{
    conf::buffer<char> p(r, 110, [](long i) { return i; });
    move_n<<<1, 1>>>(p, 10, 100);
    p.is([](long i) { return i < 10 ? i : i - 10; });
    r.loads(100, 1);
    r.stores(100, 1);
}
static __global__ void set_n(char *p, int value, size_t n)
{
    memset(p + threadIdx.x * n, value + threadIdx.x, n);
}
ROW("memset, length at run time", "33 stores of a byte per thread")
{
    conf::buffer<char> p(r, 33 * 8);
    set_n<<<1, 8>>>(p, 5, 33);
    p.is([](long i) { return 5 + i / 33; });
    r.stores(8 * 33, 1);
}
static __global__ void copy_to_shared(int *to, const int *from, size_t n)
{
    __shared__ int cell[64];
    memcpy(cell, from, n * 4);
    memcpy(to, cell, n * 4);
}
ROW("memcpy to shared memory and back", "the global side has records: 256 loads and stores of a byte")
{
    conf::buffer<int> from(r, 64, [](long i) { return i * 3; }), to(r, 64);
    copy_to_shared<<<1, 1>>>(to, from, 64);
    to.is([](long i) { return i * 3; });
    r.loads(256, 1);
    r.stores(256, 1);
}
static __global__ void conditional(const int *in, int *out)
{
    if (in[threadIdx.x] & 1)
        out[threadIdx.x] = in[threadIdx.x + 32];
}
ROW("threads that do not take part", "no record for them")
{
    conf::buffer<int> in(r, 64, [](long i) { return i; }), out(r, 32, [](long) { return -1; });
    conditional<<<1, 32>>>(in, out);
    out.is([](long i) { return i & 1 ? i + 32 : -1; });
    r.loads(32 + 16, 4);
    r.stores(16, 4);
}

// ---- asynchronous copies to shared memory ----
template <int BYTES> static __global__ void pipeline(const char *in, char *out)
{
    __shared__ __align__(16) char cell[32 * BYTES];
    int at = threadIdx.x * BYTES;
    __pipeline_memcpy_async(cell + at, in + at, BYTES);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int k = 0; k < BYTES; k += 4)
        *(int *)(out + at + k) = *(int *)(cell + at + k);
}
template <int BYTES> static void run_pipeline(conf::row &r)
{
    conf::buffer<char> in(r, 32 * BYTES, [](long i) { return i * 5; }), out(r, 32 * BYTES);
    pipeline<BYTES><<<1, 32>>>(in, out);
    out.is([](long i) { return i * 5; });
    r.loads(32, BYTES);
    r.stores(8 * BYTES, 4);
}
ROW_OF("__pipeline_memcpy_async, 4 bytes", "a load of 4 per thread", run_pipeline<4>(r))
ROW_OF("__pipeline_memcpy_async, 8 bytes", "a load of 8 per thread", run_pipeline<8>(r))
ROW_OF("__pipeline_memcpy_async, 16 bytes", "a load of 16 per thread", run_pipeline<16>(r))
static __global__ void zero_fill(const int4 *in, int4 *out)
{
    __shared__ int4 cell[4];
    int i = threadIdx.x;
    __pipeline_memcpy_async(cell + i, in + i, 16, i * 4); // thread i leaves out 4 * i bytes
    __pipeline_commit();
    __pipeline_wait_prior(0);
    out[i] = cell[i];
}
ROW("__pipeline_memcpy_async with zfill", "the last bytes are zero and are not loaded")
{
    conf::buffer<int> in(r, 16, [](long i) { return i + 1; }), out(r, 16);
    zero_fill<<<1, 4>>>((const int4 *)in.d, (int4 *)out.d);
    out.is([](long i) { return i % 4 < 4 - i / 4 ? i + 1 : 0; });
    r.loads(1, 16);
    r.loads(1, 12);
    r.loads(1, 8);
    r.loads(1, 4);
    r.stores(4, 16);
    r.only_bytes();
}

CONF_MAIN
