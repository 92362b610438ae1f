// Tests around a kernel's body, of every shape that the loop over threads turns into an interval, and some
// that it must leave alone: which threads pass is compared with the same expression evaluated on the host,
// thread by thread. Prints "kernel passes" lines; exit code 1 after a difference.
#include <climits>
#include <cstdio>
#include <cstring>
#include <vector>

typedef unsigned u32;
typedef long long s64;
static const dim3 grid(3, 2), block(37, 3);
static const int total = 3 * 2 * 37 * 3;

// t, y: threadIdx; b: blockIdx.x; d: blockDim.x; n, m: the kernel's arguments
#define GUARD(name, condition)                                                                               \
    static bool name##_passes(u32 t, u32 y, u32 b, u32 d, int n, int m)                                      \
    {                                                                                                        \
        return condition;                                                                                    \
    }                                                                                                        \
    __global__ void name(u32 *hits, int n, int m)                                                            \
    {                                                                                                        \
        u32 t = threadIdx.x, y = threadIdx.y, b = blockIdx.x, d = blockDim.x;                                \
        if (condition)                                                                                       \
            hits[((blockIdx.y * gridDim.x + b) * blockDim.y + y) * d + t] += t + 1;                          \
    }                                                                                                        \
    __global__ void name##_returns(u32 *hits, int n, int m)                                                  \
    {                                                                                                        \
        u32 t = threadIdx.x, y = threadIdx.y, b = blockIdx.x, d = blockDim.x;                                \
        if (!(condition))                                                                                    \
            return;                                                                                          \
        hits[((blockIdx.y * gridDim.x + b) * blockDim.y + y) * d + t] += t + 1;                              \
    }
GUARD(below, (int)(b *d + t) < n)
GUARD(below_unsigned, b *d + t < (u32)n)
GUARD(below_wide, (s64)b *d + t < (s64)n)
GUARD(below_size, (size_t)b *d + t < (size_t)n)
GUARD(between, (int)t > m && (int)t < n)
GUARD(between_closed, (int)t >= m && n >= (int)t)
GUARD(one, t == (u32)m)
GUARD(all_but_one, t != (u32)m)
GUARD(wraps_signed, (int)(t + (u32)m) < n)
GUARD(wraps_unsigned, t + (u32)m <= (u32)n)
GUARD(wraps_inside, (s64)(int)(b *d + t + (u32)m) < (s64)n)
GUARD(wraps_at_zero, t - 1 < (u32)n)
GUARD(from_the_end, (u32)n - t > 5)
GUARD(rows, y > 0 && (int)t < n && (int)b != m)
GUARD(odd_ones, (int)t < n && (t & 1))
GUARD(outside, (int)t < m || (int)t >= n)
GUARD(product, (int)(t *b) < n)
GUARD(same_for_all, n > m)
GUARD(byte, (unsigned char)(t + m) < (unsigned char)n)

static int failures;

typedef void kernel(u32 *, int, int);
typedef bool passes(u32, u32, u32, u32, int, int);

static long run(const char *name, kernel *k, passes *p, u32 *d, int n, int m)
{
    std::vector<u32> hits(total);
    long count = 0;
    cudaMemset(d, 0, total * sizeof *d);
    k<<<grid, block>>>(d, n, m);
    cudaMemcpy(hits.data(), d, total * sizeof *d, cudaMemcpyDeviceToHost);
    for (u32 i = 0; i < total; i++) {
        u32 t = i % block.x, y = i / block.x % block.y, b = i / (block.x * block.y) % grid.x;
        u32 want = p(t, y, b, block.x, n, m) ? t + 1 : 0;
        count += want != 0;
        if (hits[i] != want && failures++ < 10)
            printf("%s: n %d, m %d: thread (%u,%u) of CTA %u: %u, not %u\n", name, n, m, t, y, b, hits[i],
                   want);
    }
    return count;
}

int main()
{
    static const int values[] = {0,  1,  5,       36,           37,      50,         111,
                                 -1, -3, INT_MAX, INT_MAX - 20, INT_MIN, INT_MIN + 9};
    u32 *d;
    if (cudaMalloc((void **)&d, total * sizeof *d))
        return 2;
#define RUN(name)                                                                                            \
    {                                                                                                        \
        long guarded = 0, returning = 0;                                                                     \
        for (int n : values)                                                                                 \
            for (int m : values) {                                                                           \
                guarded += run(#name, name, name##_passes, d, n, m);                                         \
                returning += run(#name "_returns", name##_returns, name##_passes, d, n, m);                  \
            }                                                                                                \
        printf(#name " %ld\n" #name "_returns %ld\n", guarded, returning);                                   \
    }
    RUN(below)
    RUN(below_unsigned)
    RUN(below_wide)
    RUN(below_size)
    RUN(between)
    RUN(between_closed)
    RUN(one)
    RUN(all_but_one)
    RUN(wraps_signed)
    RUN(wraps_unsigned)
    RUN(wraps_inside)
    RUN(wraps_at_zero)
    RUN(from_the_end)
    RUN(rows)
    RUN(odd_ones)
    RUN(outside)
    RUN(product)
    RUN(same_for_all)
    RUN(byte)
    cudaFree(d);
    return failures != 0;
}
