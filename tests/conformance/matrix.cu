// Matrices of a warp through nvcuda::wmma. They hold small whole numbers, so that every sum is exact in each
// type. Which lanes touch which elements is not said by CUDA, but all elements are touched:
// bytes are compared.
#include "half_reference.h"
#include "map.h"
#include <mma.h>
using namespace nvcuda;

static int element_a(long i)
{
    return (int)(i * 7 % 5) - 2;
}
static int element_b(long i)
{
    return (int)(i * 11 % 7) - 3;
}
static int element_c(long i)
{
    return (int)(i * 5 % 9) - 4;
}

// What differs between a type's elements in memory, those of the fragments, and numbers.
template <class T> struct element {
    static T of(int v)
    {
        return (T)(float)v;
    }
    static double number(T v)
    {
        return (double)(float)v;
    }
};
template <> struct element<double> {
    static double of(int v)
    {
        return v;
    }
    static double number(double v)
    {
        return v;
    }
};
template <> struct element<int> {
    static int of(int v)
    {
        return v;
    }
    static double number(int v)
    {
        return v;
    }
};
template <class T> struct memory_of {
    typedef T type;
};
template <> struct memory_of<wmma::precision::tf32> {
    typedef float type;
};

// d = a * b + c of one warp; `ld` elements from row to row more than needed.
template <int M, int N, int K, class F, class A, class C, class LA, class LB>
static __global__ void product(const A *a, const A *b, const C *c, C *d, int more, wmma::layout_t layout)
{
    wmma::fragment<wmma::matrix_a, M, N, K, F, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, F, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    const bool a_rows = std::is_same<LA, wmma::row_major>::value,
               b_rows = std::is_same<LB, wmma::row_major>::value;
    const int line = layout == wmma::mem_row_major ? N : M;
    wmma::load_matrix_sync(fa, a, (a_rows ? K : M) + more);
    wmma::load_matrix_sync(fb, b, (b_rows ? N : K) + more);
    wmma::load_matrix_sync(fc, c, line + more, layout);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, line + more, layout);
}

// Where row `i`, column `j` of a matrix is.
static long place(bool rows, int height, int width, int more, int i, int j)
{
    return rows ? (long)i * (width + more) + j : (long)j * (height + more) + i;
}
static long room(bool rows, int height, int width, int more)
{
    return rows ? (long)height * (width + more) : (long)width * (height + more);
}

template <int M, int N, int K, class F, class C, class LA, class LB>
static void run_product(conf::row &r, int more = 0, bool c_rows = true)
{
    typedef typename memory_of<F>::type A;
    const bool a_rows = std::is_same<LA, wmma::row_major>::value,
               b_rows = std::is_same<LB, wmma::row_major>::value;
    conf::buffer<A> a(r, room(a_rows, M, K, more), [](long i) { return element<A>::of(element_a(i)); });
    conf::buffer<A> b(r, room(b_rows, K, N, more), [](long i) { return element<A>::of(element_b(i)); });
    conf::buffer<C> c(r, room(c_rows, M, N, more), [](long i) { return element<C>::of(element_c(i)); });
    conf::buffer<C> d(r, room(c_rows, M, N, more));
    product<M, N, K, F, A, C, LA, LB>
        <<<1, 32>>>(a, b, c, d, more, c_rows ? wmma::mem_row_major : wmma::mem_col_major);
    d.get();
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            long at = place(c_rows, M, N, more, i, j);
            double sum = element<C>::number(c.h[at]);
            for (int k = 0; k < K; k++)
                sum += element<A>::number(a.h[place(a_rows, M, K, more, i, k)]) *
                       element<A>::number(b.h[place(b_rows, K, N, more, k, j)]);
            if (!r.check(element<C>::number(d.h[at]) == sum, "(%d, %d): got %g, expected %g", i, j,
                         element<C>::number(d.h[at]), sum))
                return;
        }
    r.loads(M * K + K * N, sizeof(A));
    r.loads(M * N, sizeof(C));
    r.stores(M * N, sizeof(C));
    r.only_bytes();
}
typedef wmma::row_major row_t;
typedef wmma::col_major col_t;

ROW_OF("wmma half, float, row x col", "16x16x16", run_product<16, 16, 16, __half, float, row_t, col_t>(r))
ROW_OF("wmma half, float, row x row", "16x16x16", run_product<16, 16, 16, __half, float, row_t, row_t>(r))
ROW_OF("wmma half, float, col x col", "16x16x16", run_product<16, 16, 16, __half, float, col_t, col_t>(r))
ROW_OF("wmma half, float, col x row", "16x16x16, rows of 24 elements in memory, c and d by columns",
       run_product<16, 16, 16, __half, float, col_t, row_t>(r, 8, false))
ROW_OF("wmma half, half, row x col", "16x16x16", run_product<16, 16, 16, __half, __half, row_t, col_t>(r))
ROW_OF("wmma half, float, 32x8x16", "row x col", run_product<32, 8, 16, __half, float, row_t, col_t>(r))
ROW_OF("wmma half, half, 8x32x16", "col x row", run_product<8, 32, 16, __half, __half, col_t, row_t>(r, 8))
ROW_OF("wmma bfloat16, float, row x col", "16x16x16",
       run_product<16, 16, 16, __nv_bfloat16, float, row_t, col_t>(r))
ROW_OF("wmma bfloat16, float, 8x32x16", "row x row",
       run_product<8, 32, 16, __nv_bfloat16, float, row_t, row_t>(r))
ROW_OF("wmma bfloat16, float, 32x8x16", "col x col",
       run_product<32, 8, 16, __nv_bfloat16, float, col_t, col_t>(r, 8, false))
ROW_OF("wmma tf32, float, row x col", "16x16x8",
       run_product<16, 16, 8, wmma::precision::tf32, float, row_t, col_t>(r))
ROW_OF("wmma tf32, float, col x row", "16x16x8",
       run_product<16, 16, 8, wmma::precision::tf32, float, col_t, row_t>(r, 4))
ROW_OF("wmma double, row x col", "8x8x4", run_product<8, 8, 4, double, double, row_t, col_t>(r))
ROW_OF("wmma double, col x row", "8x8x4", run_product<8, 8, 4, double, double, col_t, row_t>(r, 2, false))
ROW_OF("wmma signed char, int, row x col", "16x16x16",
       run_product<16, 16, 16, signed char, int, row_t, col_t>(r))
ROW_OF("wmma signed char, int, 32x8x16", "col x row",
       run_product<32, 8, 16, signed char, int, col_t, row_t>(r, 16))
ROW_OF("wmma unsigned char, int, 8x32x16", "row x col; negative numbers are large ones",
       run_product<8, 32, 16, unsigned char, int, row_t, col_t>(r))

// ---- what is done with fragments ----

static __global__ void on_elements(float *d, const __half *a)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, row_t> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, row_t> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::fill_fragment(fb, __float2half(1));
    wmma::fill_fragment(fc, 0.5f);
    for (int i = 0; i < fa.num_elements; i++)
        fa.x[i] = __hmul(fa.x[i], __float2half(2));
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] = -fc.x[i];
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}
ROW("wmma fill_fragment, elements of a fragment", "all elements alike, whichever lane holds them")
{
    conf::buffer<__half> a(r, 256, [](long i) { return (__half)(float)element_a(i); });
    conf::buffer<float> d(r, 256);
    on_elements<<<1, 32>>>(d, a);
    d.get();
    for (int i = 0; i < 256; i++) {
        float sum = 0.5f;
        for (int k = 0; k < 16; k++)
            sum += 2 * (float)element_a(i / 16 * 16 + k);
        r.check(d.h[i] == -sum, "[%d]: got %g, expected %g", i, d.h[i], -sum);
    }
    r.loads(256, 2);
    r.stores(256, 4);
    r.only_bytes();
}

// c += a * b over two tiles in shared memory, by two warps with a half of the columns each.
static __global__ void in_shared(const __half *a, const __half *b, float *d)
{
    __shared__ __half sa[16 * 32], sb[32 * 32];
    __shared__ float sd[16 * 32];
    for (int i = threadIdx.x; i < 16 * 32; i += 64)
        sa[i] = a[i];
    for (int i = threadIdx.x; i < 32 * 32; i += 64)
        sb[i] = b[i];
    __syncthreads();
    int first = threadIdx.x / 32 * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < 32; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, row_t> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, row_t> fb;
        wmma::load_matrix_sync(fa, sa + k, 32);
        wmma::load_matrix_sync(fb, sb + k * 32 + first, 32);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(sd + first, fc, 32, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 16 * 32; i += 64)
        d[i] = sd[i];
}
ROW("wmma in shared memory", "two warps, two steps: records of global memory alone")
{
    conf::buffer<__half> a(r, 16 * 32, [](long i) { return (__half)(float)element_a(i); });
    conf::buffer<__half> b(r, 32 * 32, [](long i) { return (__half)(float)element_b(i); });
    conf::buffer<float> d(r, 16 * 32);
    in_shared<<<1, 64>>>(a, b, d);
    d.get();
    for (int i = 0; i < 16 * 32; i++) {
        int sum = 0;
        for (int k = 0; k < 32; k++)
            sum += element_a(i / 32 * 32 + k) * element_b(k * 32 + i % 32);
        r.check(d.h[i] == (float)sum, "[%d]: got %g, expected %d", i, d.h[i], sum);
    }
    r.loads(16 * 32 + 32 * 32, 2);
    r.stores(16 * 32, 4);
}

static __global__ void saturating(const signed char *a, const int *c, int *d, bool satf)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, row_t> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, col_t> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::fill_fragment(fb, (signed char)1);
    wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
    if (satf)
        wmma::mma_sync(fc, fa, fb, fc, true);
    else
        wmma::mma_sync(fc, fa, fb, fc, false);
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}
ROW("wmma mma_sync(…, satf)", "integers are clamped, or wrap around")
{
    conf::buffer<signed char> a(r, 256, [](long i) { return (signed char)(i < 128 ? 127 : -128); });
    conf::buffer<int> c(r, 256, [](long i) { return i < 128 ? INT32_MAX - 2000 : INT32_MIN + 2000; }),
        d(r, 256);
    for (int satf = 0; satf < 2; satf++) {
        saturating<<<1, 32>>>(a, c, d, satf);
        d.get();
        for (int i = 0; i < 256; i++) {
            int64_t sum = (int64_t)c.h[i] + 16 * (i < 128 ? 127 : -128);
            int64_t want = !satf ? (int64_t)(int32_t)(uint32_t)sum : i < 128 ? INT32_MAX : INT32_MIN;
            r.same(i, d.h[i], want);
        }
    }
    r.loads(2 * 256, 1);
    r.loads(2 * 256, 4);
    r.stores(2 * 256, 4);
    r.only_bytes();
}

// ---- elements smaller than a byte ----

template <class F> static __global__ void small(const unsigned *a, const unsigned *b, int *d)
{
    using namespace wmma::experimental;
    const int K = std::is_same<F, precision::b1>::value ? 128 : 32;
    wmma::fragment<wmma::matrix_a, 8, 8, K, F, row_t> fa;
    wmma::fragment<wmma::matrix_b, 8, 8, K, F, col_t> fb;
    wmma::fragment<wmma::accumulator, 8, 8, K, int> fc;
    wmma::load_matrix_sync(fa, a, K);
    wmma::load_matrix_sync(fb, b, K);
    wmma::fill_fragment(fc, -3);
    if constexpr (std::is_same<F, precision::b1>::value)
        bmma_sync(fc, fa, fb, fc);
    else
        wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
}
static unsigned word(long i)
{
    return (unsigned)(i + 3) * 2654435761u;
}
// Element k of a line of packed words, `bits` wide.
static int packed(const unsigned *line, int k, int bits, bool is_signed)
{
    int v = line[k * bits / 32] >> k * bits % 32 & ((1 << bits) - 1);
    return is_signed && v >> (bits - 1) ? v - (1 << bits) : v;
}
template <class F> static void run_small(conf::row &r, int bits, bool is_signed)
{
    int k = 128 / bits, words = k * bits / 32;
    conf::buffer<unsigned> a(r, 8 * words, word), b(r, 8 * words, [](long i) { return word(i + 99); });
    conf::buffer<int> d(r, 64);
    small<F><<<1, 32>>>(a, b, d);
    d.is([&](long i) {
        int sum = -3;
        for (int x = 0; x < k; x++) {
            int p = packed(a.h + i / 8 * words, x, bits, is_signed),
                q = packed(b.h + i % 8 * words, x, bits, is_signed);
            sum += bits == 1 ? p ^ q : p * q;
        }
        return sum;
    });
    r.loads(2 * 8 * words, 4);
    r.stores(64, 4);
    r.only_bytes();
}
ROW_OF("wmma experimental::precision::s4", "8x8x32", run_small<wmma::experimental::precision::s4>(r, 4, true))
ROW_OF("wmma experimental::precision::u4", "8x8x32",
       run_small<wmma::experimental::precision::u4>(r, 4, false))
ROW_OF("wmma experimental::precision::b1", "8x8x128, bmma_sync",
       run_small<wmma::experimental::precision::b1>(r, 1, false))
#define TIMES8(x) x x x x x x x x
static __global__ void repeated(const __half *a, const __half *b, float *d)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    TIMES8(TIMES8(TIMES8(wmma::mma_sync(sum, fa, fb, sum);)))
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
}
ROW("wmma, 512 products in a row", "as unrolled loops have them: one thread's stack holds them all")
{
    conf::buffer<__half> a(r, 256, [](long i) { return element<__half>::of((int)(i % 7) - 3); });
    conf::buffer<__half> b(r, 256, [](long i) { return element<__half>::of((int)(i % 5) - 2); });
    conf::buffer<float> d(r, 256);
    repeated<<<1, 32>>>(a, b, d);
    d.is([](long i) {
        long sum = 0;
        for (int k = 0; k < 16; k++)
            sum += ((i / 16 * 16 + k) % 7 - 3) * ((i % 16 * 16 + k) % 5 - 2);
        return sum * 512;
    });
    r.loads(512, 2);
    r.stores(256, 4);
    r.only_bytes();
}
CONF_MAIN
