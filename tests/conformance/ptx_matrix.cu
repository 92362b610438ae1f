// mma.sync, ldmatrix, stmatrix and movmatrix as inline assembly. Where each element of a fragment lies is
// written down for every shape as the PTX ISA has it ("matrix fragments for mma"); g is the lane's group, t
// its place there. conformance: levels -O1 -O0
#include "half_reference.h"
#include "map.h"
#include <cuda_fp8.h>
typedef unsigned u32;

#include "matrix_layouts.h"

// ---- numbers as elements ----

struct f16 {
    __device__ static u32 bits(int v)
    {
        return __half_as_ushort(__int2half_rn(v));
    }
};
struct bf16 {
    __device__ static u32 bits(int v)
    {
        return __bfloat16_as_ushort(__float2bfloat16((float)v));
    }
};
struct tf32 {
    __device__ static u32 bits(int v)
    {
        return __float_as_uint((float)v);
    }
};
struct integer {
    __device__ static u32 bits(int v)
    {
        return (u32)v;
    }
};
struct e4m3 {
    __device__ static u32 bits(int v)
    {
        return __nv_cvt_float_to_fp8((float)v, __NV_SATFINITE, __NV_E4M3);
    }
};
struct e5m2 {
    __device__ static u32 bits(int v)
    {
        return __nv_cvt_float_to_fp8((float)v, __NV_SATFINITE, __NV_E5M2);
    }
};
template <class E, int BITS> static __device__ void put(u32 *registers, int i, int v)
{
    u32 bits = E::bits(v);
    if (BITS == 32)
        registers[i] = bits;
    else
        registers[i * BITS / 32] |= (bits & ((1u << BITS) - 1)) << i * BITS % 32;
}

// ---- the kernel of most rows: L layout, EA and EB elements,
// OP the instruction, T the accumulators' type ----

template <class L, class EA, class EB, class OP, class T>
static __global__ void mma_kernel(const signed char *a, const signed char *b, const T *c, T *d)
{
    int lane = (int)threadIdx.x;
    u32 ra[4] = {0}, rb[4] = {0};
    T rc[4];
    for (int i = 0; i < L::EA; i++)
        put<EA, L::BITS>(ra, i, a[L::row_a(lane, i) * L::K + L::col_a(lane, i)]);
    for (int i = 0; i < L::EB; i++)
        put<EB, L::BITS>(rb, i, b[L::row_b(lane, i) * L::N + L::col_b(lane, i)]);
    for (int i = 0; i < L::EC; i++)
        rc[i] = c[L::row_c(lane, i) * L::N + L::col_c(lane, i)];
    OP::run(ra, rb, rc);
    for (int i = 0; i < L::EC; i++)
        d[L::row_c(lane, i) * L::N + L::col_c(lane, i)] = rc[i];
}
enum rule { PRODUCT, XOR, AND };
template <class L, class EA, class EB, class OP, class T>
static void run_mma(conf::row &r, int low, int high, rule rule = PRODUCT)
{
    auto number = [&](long i, int step) { return (signed char)(low + i * step % 31 % (high - low + 1)); };
    conf::buffer<signed char> a(r, L::M * L::K, [&](long i) { return number(i, 7); });
    conf::buffer<signed char> b(r, L::K * L::N, [&](long i) { return number(i, 11); });
    conf::buffer<T> c(r, L::M * L::N, [](long i) { return (T)(i * 5 % 17 - 8); }), d(r, L::M * L::N);
    mma_kernel<L, EA, EB, OP, T><<<1, 32>>>(a, b, c, d);
    d.get();
    for (int i = 0; i < L::M * L::N; i++) {
        int sum = i * 5 % 17 - 8;
        for (int k = 0; k < L::K; k++) {
            int p = a.h[i / L::N * L::K + k], q = b.h[k * L::N + i % L::N];
            sum += rule == PRODUCT ? p * q : rule == XOR ? (p ^ q) & 1 : p & q & 1;
        }
        if (!r.check(d.h[i] == (T)sum, "[%d]: got %g, expected %d", i, (double)d.h[i], sum))
            return;
    }
    r.loads(32 * (L::EA + L::EB), 1);
    r.loads(32 * L::EC, sizeof(T));
    r.stores(32 * L::EC, sizeof(T));
    r.only_bytes();
}

#define OP_4_2_4(name, text, T, reg)                                                                         \
    struct name {                                                                                            \
        __device__ static void run(const u32 *a, const u32 *b, T *c)                                         \
        {                                                                                                    \
            asm volatile(text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                       \
                         : "+" reg(c[0]), "+" reg(c[1]), "+" reg(c[2]), "+" reg(c[3])                        \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                \
        }                                                                                                    \
    };
#define OP_2_1_4(name, text, T, reg)                                                                         \
    struct name {                                                                                            \
        __device__ static void run(const u32 *a, const u32 *b, T *c)                                         \
        {                                                                                                    \
            asm volatile(text " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                                \
                         : "+" reg(c[0]), "+" reg(c[1]), "+" reg(c[2]), "+" reg(c[3])                        \
                         : "r"(a[0]), "r"(a[1]), "r"(b[0]));                                                 \
        }                                                                                                    \
    };
#define OP_1_1_2(name, text)                                                                                 \
    struct name {                                                                                            \
        __device__ static void run(const u32 *a, const u32 *b, int *c)                                       \
        {                                                                                                    \
            asm volatile(text " {%0,%1}, {%2}, {%3}, {%0,%1};"                                               \
                         : "+r"(c[0]), "+r"(c[1])                                                            \
                         : "r"(a[0]), "r"(b[0]));                                                            \
        }                                                                                                    \
    };
#define JOIN(a, b) a##b
#define MMA_AS(number, form, text, layout, ea, eb, T, reg, ...)                                              \
    form(JOIN(op_, number), text, T, reg) ROW(text, #layout)                                                 \
    {                                                                                                        \
        run_mma<layout, ea, eb, JOIN(op_, number), T>(r, __VA_ARGS__);                                       \
    }
#define MMA_INT_AS(number, text, layout, ...)                                                                \
    OP_1_1_2(JOIN(op_, number), text) ROW(text, #layout)                                                     \
    {                                                                                                        \
        run_mma<layout, integer, integer, JOIN(op_, number), int>(r, __VA_ARGS__);                           \
    }

MMA_AS(1, OP_4_2_4, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", m16n8k16_16, f16, f16, float, "f",
       -9, 9)
MMA_AS(2, OP_2_1_4, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", m16n8k8_16, f16, f16, float, "f", -9,
       9)
MMA_AS(3, OP_4_2_4, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", m16n8k16_16, bf16, bf16, float,
       "f", -9, 9)
MMA_AS(4, OP_2_1_4, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", m16n8k8_16, bf16, bf16, float, "f",
       -9, 9)
MMA_AS(5, OP_2_1_4, "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", m16n8k4_32, tf32, tf32, float, "f",
       -9, 9)
MMA_AS(6, OP_4_2_4, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", m16n8k8_32, tf32, tf32, float, "f",
       -9, 9)
MMA_AS(7, OP_2_1_4, "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", m16n8k16_8, integer, integer, int, "r",
       -9, 9)
MMA_AS(8, OP_4_2_4, "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", m16n8k32_8, integer, integer, int, "r",
       0, 9)
MMA_AS(9, OP_4_2_4, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", m16n8k32_8, integer, integer,
       int, "r", -9, 9)
MMA_AS(10, OP_4_2_4, "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", m16n8k64_4, integer, integer, int,
       "r", -8, 7)
MMA_AS(11, OP_4_2_4, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", m16n8k256_1, integer,
       integer, int, "r", 0, 1, XOR)
MMA_AS(12, OP_4_2_4, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", m16n8k256_1, integer,
       integer, int, "r", 0, 1, AND)
MMA_AS(13, OP_4_2_4, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", m16n8k32_8, e4m3, e4m3, float,
       "f", -9, 9)
MMA_AS(14, OP_4_2_4, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32", m16n8k32_8, e5m2, e4m3, float,
       "f", -4, 4)
MMA_INT_AS(15, "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", m8n8k16_8, -9, 9)
MMA_INT_AS(16, "mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32", m8n8k32_4, 0, 15)
MMA_INT_AS(17, "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc", m8n8k128_1, 0, 1, XOR)

// ---- accumulators of halves ----

static __global__ void half_sums(const signed char *a, const signed char *b, __half *d)
{
    typedef m16n8k16_16 L;
    int lane = (int)threadIdx.x;
    u32 ra[4] = {0}, rb[2] = {0}, rc[2] = {0};
    for (int i = 0; i < L::EA; i++)
        put<f16, 16>(ra, i, a[L::row_a(lane, i) * L::K + L::col_a(lane, i)]);
    for (int i = 0; i < L::EB; i++)
        put<f16, 16>(rb, i, b[L::row_b(lane, i) * L::N + L::col_b(lane, i)]);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(rc[0]), "+r"(rc[1])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < L::EC; i++)
        d[L::row_c(lane, i) * L::N + L::col_c(lane, i)] =
            __ushort_as_half((unsigned short)(rc[i / 2] >> i % 2 * 16));
}
ROW("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "two sums in a register")
{
    conf::buffer<signed char> a(r, 256, [](long i) { return (signed char)(i * 7 % 11 - 5); });
    conf::buffer<signed char> b(r, 128, [](long i) { return (signed char)(i * 5 % 13 - 6); });
    conf::buffer<__half> d(r, 128);
    half_sums<<<1, 32>>>(a, b, d);
    d.get();
    for (int i = 0; i < 128; i++) {
        int sum = 0;
        for (int k = 0; k < 16; k++)
            sum += a.h[i / 8 * 16 + k] * b.h[k * 8 + i % 8];
        r.check((float)d.h[i] == (float)sum, "[%d]: got %g, expected %d", i, (float)d.h[i], sum);
    }
    r.loads(32 * 12, 1);
    r.stores(128, 2);
    r.only_bytes();
}

// ---- doubles ----

template <class L>
static __global__ void doubles(const double *a, const double *b, const double *c, double *d)
{
    int lane = (int)threadIdx.x;
    double ra[4], rb[2], rc[4];
    for (int i = 0; i < L::EA; i++)
        ra[i] = a[L::row_a(lane, i) * L::K + L::col_a(lane, i)];
    for (int i = 0; i < L::EB; i++)
        rb[i] = b[L::row_b(lane, i) * L::N + L::col_b(lane, i)];
    for (int i = 0; i < L::EC; i++)
        rc[i] = c[L::row_c(lane, i) * L::N + L::col_c(lane, i)];
    if constexpr (L::M == 8)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(rc[0]), "+d"(rc[1])
                     : "d"(ra[0]), "d"(rb[0]));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+d"(rc[0]), "+d"(rc[1]), "+d"(rc[2]), "+d"(rc[3])
                     : "d"(ra[0]), "d"(ra[1]), "d"(ra[2]), "d"(ra[3]), "d"(rb[0]), "d"(rb[1]));
    for (int i = 0; i < L::EC; i++)
        d[L::row_c(lane, i) * L::N + L::col_c(lane, i)] = rc[i];
}
template <class L> static void run_doubles(conf::row &r)
{
    conf::buffer<double> a(r, L::M * L::K, [](long i) { return i * 0.25 - 3; });
    conf::buffer<double> b(r, L::K * L::N, [](long i) { return 7 - i * 0.5; });
    conf::buffer<double> c(r, L::M * L::N, [](long i) { return (double)i; }), d(r, L::M * L::N);
    doubles<L><<<1, 32>>>(a, b, c, d);
    d.get();
    for (int i = 0; i < L::M * L::N; i++) {
        double sum = i; // exact: eighths
        for (int k = 0; k < L::K; k++)
            sum += a.h[i / L::N * L::K + k] * b.h[k * L::N + i % L::N];
        r.check(d.h[i] == sum, "[%d]: got %g, expected %g", i, d.h[i], sum);
    }
    r.loads(32 * (L::EA + L::EB + L::EC), 8);
    r.stores(32 * L::EC, 8);
    r.only_bytes();
}
ROW_OF("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "m8n8k4_64", run_doubles<m8n8k4_64>(r))
ROW_OF("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64", "m16n8k8_64", run_doubles<m16n8k8_64>(r))

// ---- mma.m8n8k4 of halves: four products, each by lanes 4q to 4q + 3 and 4q + 16 to 4q + 19 ----

template <bool ROWS_A, bool ROWS_B>
static __global__ void quads(const signed char *a, const signed char *b, float *d)
{
    int lane = (int)threadIdx.x, q = lane % 16 / 4, t = lane % 4, high = lane < 16 ? 0 : 4;
    u32 ra[2] = {0}, rb[2] = {0};
    float c[8];
    for (int i = 0; i < 4; i++) {
        int ra_ = ROWS_A ? t + high : i + high, ca = ROWS_A ? i : t, rb_ = ROWS_B ? t : i,
            cb = ROWS_B ? i + high : t + high;
        put<f16, 16>(ra, i, a[q * 32 + ra_ * 4 + ca]);
        put<f16, 16>(rb, i, b[q * 32 + rb_ * 8 + cb]);
    }
    for (int i = 0; i < 8; i++)
        c[i] = (float)q;
#define QUADS(layouts)                                                                                       \
    asm volatile("mma.sync.aligned.m8n8k4." layouts ".f32.f16.f16.f32 "                                      \
                 "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"                 \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),       \
                   "+f"(c[7])                                                                                \
                 : "r"(ra[0]), "r"(ra[1]), "r"(rb[0]), "r"(rb[1]))
    if constexpr (ROWS_A && ROWS_B)
        QUADS("row.row");
    else if constexpr (ROWS_A)
        QUADS("row.col");
    else if constexpr (ROWS_B)
        QUADS("col.row");
    else
        QUADS("col.col");
    for (int i = 0; i < 8; i++) {
        int row = (lane & 1) + (i & 2) + high, col = (i & 4) + (lane & 2) + (i & 1);
        d[q * 64 + row * 8 + col] = c[i];
    }
}
template <bool ROWS_A, bool ROWS_B> static void run_quads(conf::row &r)
{
    conf::buffer<signed char> a(r, 128, [](long i) { return (signed char)(i * 7 % 19 - 9); });
    conf::buffer<signed char> b(r, 128, [](long i) { return (signed char)(i * 5 % 17 - 8); });
    conf::buffer<float> d(r, 256);
    quads<ROWS_A, ROWS_B><<<1, 32>>>(a, b, d);
    d.get();
    for (int i = 0; i < 256; i++) {
        int q = i / 64, sum = q;
        for (int k = 0; k < 4; k++)
            sum += a.h[q * 32 + i % 64 / 8 * 4 + k] * b.h[q * 32 + k * 8 + i % 8];
        r.check(d.h[i] == (float)sum, "[%d]: got %g, expected %d", i, d.h[i], sum);
    }
    r.loads(32 * 8, 1);
    r.stores(256, 4);
    r.only_bytes();
}
ROW_OF("mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32", "four products", run_quads<true, true>(r))
ROW_OF("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", "four products", run_quads<true, false>(r))
ROW_OF("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32", "four products", run_quads<false, true>(r))
ROW_OF("mma.sync.aligned.m8n8k4.col.col.f32.f16.f16.f32", "four products", run_quads<false, false>(r))

// ---- matrices of 8 x 8 16-bit elements in shared memory; a row of each from the address of one lane ----

template <int X, bool TRANS> static __global__ void ld_matrix(u32 *out)
{
    __shared__ unsigned short m[4][8][8 + 8]; // rows are apart
    int lane = (int)threadIdx.x;
    for (int i = lane; i < 256; i += 32)
        m[i / 64][i / 8 % 8][i % 8] = (unsigned short)i;
    __syncwarp();
    u32 at = (u32)__cvta_generic_to_shared(m[lane / 8 % X][lane % 8]), v[4] = {0};
    if constexpr (X == 1 && !TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v[0]) : "r"(at));
    else if constexpr (X == 2)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(v[0]), "=r"(v[1])
                     : "r"(at));
    else if constexpr (!TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                     : "r"(at));
    for (int i = 0; i < X; i++)
        out[i * 32 + lane] = v[i];
}
// Lane l has elements 2 * (l % 4) and the next one of row l / 4.
static u32 pair(int matrix, int lane, bool trans)
{
    int row = lane / 4, col = lane % 4 * 2, step = trans ? 8 : 1,
        at = matrix * 64 + (trans ? col * 8 + row : row * 8 + col);
    return (u32)at | (u32)(at + step) << 16;
}
template <int X, bool TRANS> static void run_ld_matrix(conf::row &r)
{
    conf::buffer<u32> out(r, X * 32);
    ld_matrix<X, TRANS><<<1, 32>>>(out);
    out.is([](long i) { return pair((int)i / 32, (int)i % 32, TRANS); });
    r.stores(X * 32, 4);
}
ROW_OF("ldmatrix.sync.aligned.m8n8.x1.shared.b16", "rows are 32 bytes apart", run_ld_matrix<1, false>(r))
ROW_OF("ldmatrix.sync.aligned.m8n8.x2.shared.b16", "rows are 32 bytes apart", run_ld_matrix<2, false>(r))
ROW_OF("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "rows are 32 bytes apart", run_ld_matrix<4, false>(r))
ROW_OF("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16", "columns instead of rows",
       run_ld_matrix<4, true>(r))

template <bool TRANS> static __global__ void st_matrix(unsigned short *out)
{
    __shared__ unsigned short m[4][8][8];
    int lane = (int)threadIdx.x;
    u32 at = (u32)__cvta_generic_to_shared(m[lane / 8][lane % 8]), v[4];
    for (int i = 0; i < 4; i++)
        v[i] = (u32)(i * 64 + lane * 2) | (u32)(i * 64 + lane * 2 + 1) << 16;
    if constexpr (TRANS)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
                     "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[0]),
                     "r"(v[1]), "r"(v[2]), "r"(v[3])
                     : "memory");
    __syncwarp();
    for (int i = lane; i < 256; i += 32)
        out[i] = m[i / 64][i / 8 % 8][i % 8];
}
ROW("stmatrix.sync.aligned.m8n8.x4.shared.b16", "element 2l, 2l + 1 of each matrix from lane l")
{
    conf::buffer<unsigned short> out(r, 256);
    st_matrix<false><<<1, 32>>>(out);
    out.is([](long i) { return i; });
    r.stores(256, 2);
}
ROW("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "columns instead of rows")
{
    conf::buffer<unsigned short> out(r, 256);
    st_matrix<true><<<1, 32>>>(out);
    out.is([](long i) { return i / 64 * 64 + i % 8 * 8 + i / 8 % 8; });
    r.stores(256, 2);
}

static __global__ void mov_matrix(u32 *out)
{
    u32 lane = threadIdx.x, v = lane * 2 | (lane * 2 + 1) << 16;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(v));
    out[lane] = v;
}
ROW_OUT("movmatrix.sync.aligned.m8n8.trans.b16", "transposed", u32, 32, (mov_matrix<<<1, 32>>>(out)),
        pair(0, (int)i, true))

// ---- wmma as assembly ----

static __global__ void wmma_asm(const __half *a, const __half *b, float *d)
{
    asm volatile(
        "{ .reg .b32 a<8>, b<8>; .reg .f32 c<8>, z;\n"
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {a0,a1,a2,a3,a4,a5,a6,a7}, [%0], 16;\n"
        "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {b0,b1,b2,b3,b4,b5,b6,b7}, [%1];\n"
        "mov.f32 z, 0f3F800000;\n"
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {c0,c1,c2,c3,c4,c5,c6,c7}, "
        "{a0,a1,a2,a3,a4,a5,a6,a7}, {b0,b1,b2,b3,b4,b5,b6,b7}, {z,z,z,z,z,z,z,z};\n"
        "wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%2], {c0,c1,c2,c3,c4,c5,c6,c7}, 20; }" ::"l"(a),
        "l"(b), "l"(d)
        : "memory");
}
ROW("wmma.load, wmma.mma, wmma.store", "m16n16k16 in one asm statement; the second stride is left out")
{
    conf::buffer<__half> a(r, 256, [](long i) { return (__half)(float)(i * 7 % 5 - 2); });
    conf::buffer<__half> b(r, 256, [](long i) { return (__half)(float)(i * 11 % 7 - 3); });
    conf::buffer<float> d(r, 320);
    wmma_asm<<<1, 32>>>(a, b, d);
    d.get();
    for (int i = 0; i < 256; i++) {
        int sum = 1, row = i / 16, col = i % 16;
        for (int k = 0; k < 16; k++)
            sum += (int)((row * 16 + k) * 7 % 5 - 2) * (int)((col * 16 + k) * 11 % 7 - 3);
        r.check(d.h[col * 20 + row] == (float)sum, "(%d, %d): got %g, expected %d", row, col,
                d.h[col * 20 + row], sum);
    }
    r.loads(512, 2);
    r.stores(256, 4);
    r.only_bytes();
}
#define TIMES8(x) x x x x x x x x
static __global__ void repeated(float *out)
{
    u32 one = 0x3c003c00; // two halves
    float d0 = 0, d1 = 1, d2 = 2, d3 = 3;
    TIMES8(TIMES8(TIMES8(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                                      "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};" : "+f"(d0),
                                      "+f"(d1), "+f"(d2), "+f"(d3) : "r"(one));)))
    float4 d = {d0, d1, d2, d3};
    out[threadIdx.x * 4] = d.x;
    out[threadIdx.x * 4 + 1] = d.y;
    out[threadIdx.x * 4 + 2] = d.z;
    out[threadIdx.x * 4 + 3] = d.w;
}
ROW("mma.sync.aligned.m16n8k16, 512 in a row", "ones times ones; one thread's stack holds them all")
{
    conf::buffer<float> out(r, 128);
    repeated<<<1, 32>>>(out);
    out.is([](long i) { return i % 4 + 512 * 16; });
    r.stores(128, 4);
    r.only_bytes();
}
CONF_MAIN
