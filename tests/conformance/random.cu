// cuRAND's device side: the first numbers of its generators, against the
// generators' published recurrences.

// conformance: needs curand_kernel.h
#include "kernel_row.h"
#include <curand_kernel.h>
typedef unsigned u32;
typedef unsigned long long u64;

// Philox4x32-10 (Salmon et al., 2011).
static void philox(u32 c[4], u32 k0, u32 k1)
{
    for (int round = 0; round < 10; round++) {
        u64 p = (u64)0xD2511F53 * c[0], q = (u64)0xCD9E8D57 * c[2];
        u32 next[4] = {(u32)(q >> 32) ^ c[1] ^ k0, (u32)q, (u32)(p >> 32) ^ c[3] ^ k1, (u32)p};
        memcpy(c, next, sizeof next);
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}
static u32 philox_number(u64 seed, u64 sequence, int n)
{
    u32 c[4] = {(u32)(n / 4), 0, (u32)sequence, (u32)(sequence >> 32)};
    philox(c, (u32)seed, (u32)(seed >> 32));
    return c[n % 4];
}
KERNEL_ROW("curand, Philox", "the sixth number of 32 sequences", 32, u32, ({
               curandStatePhilox4_32_10_t s;
               curand_init(0x123456789abcull, i, 0, &s);
               u32 v = 0;
               for (int k = 0; k < 6; k++)
                   v = curand(&s);
               v;
           }),
           philox_number(0x123456789abcull, i, 5))
KERNEL_ROW("curand_uniform, Philox", "in (0, 1], the number times 2^-32", 32, float, ({
               curandStatePhilox4_32_10_t s;
               curand_init(7, i, 0, &s);
               curand_uniform(&s);
           }),
           philox_number(7, i, 0) * 2.3283064e-10f + 2.3283064e-10f / 2)
KERNEL_ROW("curand4, Philox", "four numbers at once", 32, u32, ({
               curandStatePhilox4_32_10_t s;
               curand_init(7, i, 0, &s);
               uint4 v = curand4(&s);
               v.x ^ v.y ^ v.z ^ v.w;
           }),
           philox_number(7, i, 0) ^ philox_number(7, i, 1) ^ philox_number(7, i, 2) ^ philox_number(7, i, 3))

// xorwow (Marsaglia, 2003): five words and a counter; the device's own state is
// stepped by hand.
static __global__ void xorwow(u32 *out)
{
    curandState s;
    curand_init(1234, 0, 0, &s);
    for (int k = 0; k < 5; k++)
        out[k] = s.v[k];
    out[5] = s.d;
    for (int k = 0; k < 20; k++)
        out[6 + k] = curand(&s);
}
ROW("curand, XORWOW", "20 numbers follow Marsaglia's recurrence from the state "
                      "that curand_init made")
{
    conf::buffer<u32> out(r, 26);
    xorwow<<<1, 1>>>(out);
    u32 *v = out.get(), x[5], d = v[5];
    memcpy(x, v, sizeof x);
    for (int k = 0; k < 20; k++) {
        u32 t = x[0] ^ x[0] >> 2;
        memmove(x, x + 1, 16);
        x[4] = x[4] ^ x[4] << 4 ^ t ^ t << 1;
        d += 362437;
        r.same(k, v[6 + k], (u32)(x[4] + d));
    }
    r.stores(26, 4);
}

// MRG32k3a (L'Ecuyer, 1999): two recurrences of third order; the device's own state is stepped by hand.
static __global__ void mrg(u32 *state, double *out)
{
    curandStateMRG32k3a_t s;
    curand_init(4321, 0, 0, &s);
    for (int k = 0; k < 3; k++) {
        state[k] = (u32)s.s1[k];
        state[3 + k] = (u32)s.s2[k];
    }
    for (int k = 0; k < 20; k++)
        out[k] = curand_uniform_double(&s);
}
ROW("curand_uniform_double, MRG32k3a",
    "20 numbers follow L'Ecuyer's recurrences from the state that curand_init made")
{
    const long long m1 = 4294967087ll, m2 = 4294944443ll;
    conf::buffer<u32> state(r, 6);
    conf::buffer<double> out(r, 20);
    mrg<<<1, 1>>>(state, out);
    u32 *v = state.get();
    out.get();
    long long x[3] = {v[0], v[1], v[2]}, y[3] = {v[3], v[4], v[5]};
    for (int k = 0; k < 20; k++) {
        long long p = ((1403580 * x[1] - 810728 * x[0]) % m1 + m1) % m1,
                  q = ((527612 * y[2] - 1370589 * y[0]) % m2 + m2) % m2;
        memmove(x, x + 1, 2 * sizeof *x);
        memmove(y, y + 1, 2 * sizeof *y);
        x[2] = p;
        y[2] = q;
        double want = (double)(p > q ? p - q : p - q + m1) / (double)m1; // in (0, 1]
        r.check(fabs(out.h[k] - want) < 1e-15, "[%d]: got %.17g, expected %.17g", k, out.h[k], want);
    }
    r.stores(6, 4);
    r.stores(20, 8);
}

// Sobol' sequences in Gray code order: number n combines the direction vectors of the bits of n ^ n / 2. Any
// vectors do.
template <class T> static T direction(int i)
{
    return (T)1 << (sizeof(T) * 8 - 1 - i) | (T)(i * 0x9e3779b97f4a7c15ull >> (i + 64 - sizeof(T) * 8)) >> 1;
}
template <class T> static T sobol(u64 n, T start)
{
    u64 gray = n ^ n >> 1;
    for (int i = 0; i < (int)sizeof(T) * 8; i++)
        start ^= gray >> i & 1 ? direction<T>(i) : 0;
    return start;
}
template <class S, class T, bool SCRAMBLED> static __global__ void sobol_kernel(T *vectors, T *out)
{
    S s;
    if constexpr (SCRAMBLED)
        curand_init(vectors, (T)12345, 1000 + threadIdx.x * 8, &s);
    else
        curand_init(vectors, 1000 + threadIdx.x * 8, &s);
    for (int k = 0; k < 8; k++)
        out[threadIdx.x * 8 + k] = curand(&s);
}
template <class S, class T, bool SCRAMBLED> static void run_sobol(conf::row &r)
{
    const int bits = (int)sizeof(T) * 8;
    conf::buffer<T> vectors(r, bits, [](long i) { return direction<T>((int)i); }), out(r, 256);
    sobol_kernel<S, T, SCRAMBLED><<<1, 32>>>(vectors, out);
    out.is([](long i) { return sobol<T>(1000 + (u64)i, SCRAMBLED ? 12345 : 0); });
    r.loads(32 * bits, sizeof(T));
    r.stores(256, sizeof(T));
    r.only_bytes();
}
ROW_OF("curand, Sobol32", "256 numbers from the 1000th on, 8 by each thread",
       run_sobol<curandStateSobol32_t, u32, false>(r))
ROW_OF("curand, scrambled Sobol32", "256 numbers from the 1000th on, 8 by each thread",
       run_sobol<curandStateScrambledSobol32_t, u32, true>(r))
ROW_OF("curand, Sobol64", "256 numbers from the 1000th on, 8 by each thread",
       run_sobol<curandStateSobol64_t, u64, false>(r))
ROW_OF("curand, scrambled Sobol64", "256 numbers from the 1000th on, 8 by each thread",
       run_sobol<curandStateScrambledSobol64_t, u64, true>(r))

// Box and Muller's transform of two numbers of Philox.
static __global__ void normals(float *out)
{
    curandStatePhilox4_32_10_t s;
    curand_init(99, threadIdx.x, 0, &s);
    float2 v = curand_normal2(&s);
    out[threadIdx.x * 2] = v.x;
    out[threadIdx.x * 2 + 1] = v.y;
}
ROW("curand_normal2, Philox", "sine and cosine of the second number, by the first one's logarithm")
{
    conf::buffer<float> out(r, 64);
    normals<<<1, 32>>>(out);
    out.get();
    for (int i = 0; i < 64; i++) {
        double u = (philox_number(99, i / 2, 0) + 0.5) * 0x1p-32,
               v = (philox_number(99, i / 2, 1) + 0.5) * 0x1p-32;
        double want = sqrt(-2 * log(u)) * (i & 1 ? cos(v * 2 * M_PI) : sin(v * 2 * M_PI));
        r.check(fabs(out.h[i] - want) < 1e-5 * (1 + fabs(want)), "[%d]: got %g, expected %g", i, out.h[i],
                want);
    }
    r.stores(64, 4);
    r.only_bytes();
}

// A thousand numbers of each of 32 threads: their mean and variance are known,
// and so is how far they may be off.
static __global__ void draws(float *mean, float *square, int kind)
{
    curandState s;
    curand_init(77, 0, threadIdx.x * 5000, &s);
    float sum = 0, squares = 0;
    for (int i = 0; i < 1000; i++) {
        float v = kind == 0   ? curand_normal(&s)
                  : kind == 1 ? (float)curand_poisson(&s, 4.0)
                              : curand_log_normal(&s, 0, 0.5f);
        sum += v;
        squares += v * v;
    }
    mean[threadIdx.x] = sum / 1000;
    square[threadIdx.x] = squares / 1000;
}
static void run_draws(conf::row &r, int kind, double mean, double variance)
{
    conf::buffer<float> sum(r, 32), square(r, 32);
    draws<<<1, 32>>>(sum, square, kind);
    sum.get();
    square.get();
    double m = 0, q = 0;
    for (int i = 0; i < 32; i++) {
        m += sum.h[i] / 32;
        q += square.h[i] / 32;
    }
    double off = 5 * sqrt(variance / 32000);
    r.check(fabs(m - mean) < off, "mean %g, expected %g +- %g", m, mean, off);
    r.check(fabs(q - m * m - variance) < 0.1 * variance, "variance %g, expected %g", q - m * m, variance);
    r.stores(64, 4);
    r.at_least(conf::LOAD, 1, 4); // tables of the library
}
ROW_OF("curand_normal, XORWOW", "mean and variance of 32,000 numbers", run_draws(r, 0, 0, 1))
ROW_OF("curand_poisson, XORWOW", "mean and variance of 32,000 numbers", run_draws(r, 1, 4, 4))
ROW_OF("curand_log_normal, XORWOW", "mean and variance of 32,000 numbers",
       run_draws(r, 2, exp(0.125), (exp(0.25) - 1) * exp(0.25)))
CONF_MAIN
