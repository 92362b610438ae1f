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
CONF_MAIN
