// Grid-stride loops, whose threads the CPU device lets go on together, and loops that look like them but must
// not be treated so. Each thread counts its iterations per element; the host does the same thread by thread.
// Prints "kernel iterations" lines; exit code 1 after a difference.
#include <climits>
#include <cstdio>
#include <vector>

typedef unsigned u32;
static const u32 N = 4000, T = 40; // elements, threads of a CTA
static const u32 MOST = 300;       // iterations of a thread, where they might be very many

// first, n, step: of one type; what the body does with i is in `use`
#define STRIDE(name, type, use)                                                                              \
    __global__ void name(u32 *p, type first, type n, type step)                                              \
    {                                                                                                        \
        for (type i = (type)(first + (type)(blockIdx.x * blockDim.x + threadIdx.x)); i < n;                  \
             i = (type)(i + step)) {                                                                         \
            u32 t = blockIdx.x * blockDim.x + threadIdx.x;                                                   \
            use                                                                                              \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_host(u32 *p, u32 t, type first, type n, type step)                                    \
    {                                                                                                        \
        for (type i = (type)(first + (type)t); i < n; i = (type)(i + step)) {                                \
            use                                                                                              \
        }                                                                                                    \
    }
#define ADD(index, value)                                                                                    \
    {                                                                                                        \
        u32 *q = &p[(index) % N];                                                                            \
        *q += (value);                                                                                       \
    }
STRIDE(plain_u, u32, ADD(i, 1u))
STRIDE(plain_s, int, ADD((u32)i, 1u))
STRIDE(plain_z, size_t, ADD(i, 1u))
STRIDE(large_u, u32, ADD(i, 1u))
STRIDE(large_s, int, ADD((u32)i, 1u))
STRIDE(branches, u32, if (i % 3) ADD(i, 1u) else ADD(i, 2u))
STRIDE(breaks, u32, if (i == 700) break; ADD(i, 1u))
STRIDE(nested, u32, for (u32 j = 0; j < i % 4; j++) ADD(i, j + 1))
STRIDE(wraps_u, u32, ADD(t, 1u) if (p[t] >= MOST) break;)

static u32 *device;
static int failures;

template <class type>
static long run(const char *name, void (*kernel)(u32 *, type, type, type),
                void (*host)(u32 *, u32, type, type, type), type first, type n, type step, u32 ctas)
{
    std::vector<u32> got(N), want(N);
    cudaMemset(device, 0, N * sizeof(u32));
    kernel<<<ctas, T>>>(device, first, n, step);
    cudaMemcpy(got.data(), device, N * sizeof(u32), cudaMemcpyDeviceToHost);
    long sum = 0;
    for (u32 t = 0; t < ctas * T; t++)
        host(want.data(), t, first, n, step);
    for (u32 i = 0; i < N; i++) {
        sum += want[i];
        if (got[i] != want[i] && failures++ < 10)
            printf("%s: first %lld, n %lld, step %lld: element %u: %u, not %u\n", name, (long long)first,
                   (long long)n, (long long)step, i, got[i], want[i]);
    }
    return sum;
}

int main()
{
    if (cudaMalloc((void **)&device, N * sizeof(u32)))
        return 2;
#define RUN(name, type, first, n, step, ctas)                                                                \
    sum += run<type>(#name, name, name##_host, (type)(first), (type)(n), (type)(step), ctas)
#define EACH(name, type)                                                                                     \
    {                                                                                                        \
        long sum = 0;                                                                                        \
        for (int n : {0, 1, 39, 40, 41, 1000, 3999}) {                                                       \
            RUN(name, type, 0, n, 2 * T, 2); /* the grid */                                                  \
            RUN(name, type, 0, n, T, 1);                                                                     \
            RUN(name, type, 5, n, 1000, 1);                                                                  \
            RUN(name, type, 0, n, 7, 1); /* less than there are threads */                                   \
        }                                                                                                    \
        printf(#name " %ld\n", sum);                                                                         \
    }
    EACH(plain_u, u32)
    EACH(plain_s, int)
    EACH(plain_z, size_t)
    EACH(branches, u32)
    EACH(breaks, u32)
    EACH(nested, u32)
    long sum = 0;
    for (u32 first : {0u, 100u, UINT_MAX - 100, UINT_MAX - 20})
        for (u32 n : {0u, 300u, UINT_MAX - 5, UINT_MAX})
            for (u32 step : {7u, 40u, 500000000u, 3000000000u, UINT_MAX, 0u})
                RUN(wraps_u, u32, first, n, step, 1);
    printf("wraps_u %ld\n", sum);
    sum = 0;
    for (u32 first : {0u, 100u, UINT_MAX - 100, UINT_MAX - 20})
        for (u32 n : {300u, UINT_MAX - 400000000})
            for (u32 step : {390000000u, 400000000u})
                RUN(large_u, u32, first, n, step, 1);
    printf("large_u %ld\n", sum);
    sum = 0;
    for (int first : {0, -70, INT_MIN, INT_MAX - 20})
        for (int n : {0, 1000, INT_MAX - 400000000})
            for (int step : {390000000, 400000000})
                RUN(large_s, int, first, n, step, 1);
    printf("large_s %ld\n", sum);
    cudaFree(device);
    return failures != 0;
}
