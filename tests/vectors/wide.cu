// Arithmetic of 128 bits and chains of carries, on the device and by the same C on the host: all operations
// in one kernel, whose block is long, and with -DEACH each in a kernel of its own, too. Prints "wide: N wrong
// of M".
#include <cstdint>
#include <cstdio>
typedef unsigned __int128 u128;
typedef __int128 s128;
enum { N = 100, WORDS = 8 };
#define BOTH __host__ __device__ static

// clang-format off
#define OPERATIONS(X) \
    X(0, a + b) \
    X(1, a - b) \
    X(2, a * b) \
    X(3, a / (b | 1)) \
    X(4, a % (b | 1)) \
    X(5, (u128)((s128)a / (s128)(b | 2))) \
    X(6, (u128)((s128)a % (s128)(b | 2))) \
    X(7, a << (b & 127)) \
    X(8, a >> (b & 127)) \
    X(9, (u128)((s128)a >> (int)(b & 127))) \
    X(10, -a) \
    X(11, ~a & b) \
    X(12, a ^ b) \
    X(13, a > b) \
    X(14, a <= b) \
    X(15, (s128)a < (s128)b) \
    X(16, (s128)a >= (s128)b) \
    X(17, a == b) \
    X(18, a < b ? b - a : a - b) \
    X(19, (u128)((s128)a * (int64_t)b)) \
    X(20, (u128)(uint64_t)a * (uint64_t)b) \
    X(21, (a - b) + (a > b)) \
    X(22, a + b < a) \
    X(23, (u128)(int64_t)(a >> 64) + (int)b) \
    X(24, a / (uint32_t)(b | 1)) \
    X(25, a << 63 | b >> 65) \
    X(26, a * 10 - b / 10)
// clang-format on

template <int OP> BOTH u128 operation(u128 a, u128 b);
#define DEFINE(n, expression)                                                                                \
    template <> __host__ __device__ u128 operation<n>(u128 a, u128 b)                                        \
    {                                                                                                        \
        return (u128)(expression);                                                                           \
    }
OPERATIONS(DEFINE)
#define ONE(n, expression) +1
enum { OPS = 0 OPERATIONS(ONE) };

BOTH u128 whole(const uint64_t *x)
{
    return (u128)x[1] << 64 | x[0];
}

#ifdef EACH
template <int OP> __global__ void one(const uint64_t *in, uint64_t *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    u128 r = operation<OP>(whole(in + 2 * i), whole(in + 2 * (i + N)));
    out[2 * i] = (uint64_t)r;
    out[2 * i + 1] = (uint64_t)(r >> 64);
}
#endif

__global__ void all(const uint64_t *in, uint64_t *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    u128 a = whole(in + 2 * i), b = whole(in + 2 * (i + N)), r;
#define STORE(n, expression)                                                                                 \
    r = operation<n>(a, b);                                                                                  \
    out[2 * (n * N + i)] = (uint64_t)r;                                                                      \
    out[2 * (n * N + i) + 1] = (uint64_t)(r >> 64);
    OPERATIONS(STORE)
}

// x + y, x - y, and x + y * 3 + carries of the product, of WORDS words; the last words are the flags.
__global__ void chains(const uint64_t *in, uint64_t *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N)
        return;
    const uint64_t *x = in + i, *y = in + i + N, zero = 0, three = 3;
    uint64_t *o = out + i * 3 * (WORDS + 1);
    asm volatile("add.cc.u64 %0, %1, %2;" : "=l"(o[0]) : "l"(x[0]), "l"(y[0]));
#pragma unroll
    for (int k = 1; k < WORDS; k++)
        asm volatile("addc.cc.u64 %0, %1, %2;" : "=l"(o[k]) : "l"(x[k]), "l"(y[k]));
    asm volatile("addc.u64 %0, %1, %1;" : "=l"(o[WORDS]) : "l"(zero));
    o += WORDS + 1;
    asm volatile("sub.cc.u64 %0, %1, %2;" : "=l"(o[0]) : "l"(x[0]), "l"(y[0]));
#pragma unroll
    for (int k = 1; k < WORDS; k++)
        asm volatile("subc.cc.u64 %0, %1, %2;" : "=l"(o[k]) : "l"(x[k]), "l"(y[k]));
    asm volatile("subc.u64 %0, %1, %1;" : "=l"(o[WORDS]) : "l"(zero));
    o += WORDS + 1;
    asm volatile("mad.lo.cc.u64 %0, %1, %2, %3;" : "=l"(o[0]) : "l"(y[0]), "l"(three), "l"(x[0]));
#pragma unroll
    for (int k = 1; k < WORDS; k++)
        asm volatile("madc.hi.cc.u64 %0, %1, %2, %3;" : "=l"(o[k]) : "l"(y[k - 1]), "l"(three), "l"(x[k]));
    asm volatile("addc.u64 %0, %1, %1;" : "=l"(o[WORDS]) : "l"(zero));
}

// One word, and the carry.
static uint64_t add(uint64_t a, uint64_t b, uint64_t *carry)
{
    u128 sum = (u128)a + b + *carry;
    *carry = (uint64_t)(sum >> 64);
    return (uint64_t)sum;
}

static void chains_host(const uint64_t *in, uint64_t *out)
{
    for (int i = 0; i < N; i++) {
        const uint64_t *x = in + i, *y = in + i + N;
        uint64_t *o = out + i * 3 * (WORDS + 1), carry[3] = {0, 1, 0};
        for (int k = 0; k < WORDS; k++) {
            o[k] = add(x[k], y[k], &carry[0]);
            o[k + WORDS + 1] = add(x[k], ~y[k], &carry[1]);
            o[k + 2 * (WORDS + 1)] =
                add(k ? (uint64_t)((u128)y[k - 1] * 3 >> 64) : y[0] * 3, x[k], &carry[2]);
        }
        o[WORDS] = carry[0];
        o[2 * WORDS + 1] = carry[1] - 1;
        o[3 * WORDS + 2] = carry[2];
    }
}

static unsigned wrong, total;

static void compare(const char *name, const uint64_t *got, const uint64_t *want, int words)
{
    for (int i = 0; i < words; i++) {
        if (got[i] != want[i] && wrong++ < 10)
            printf("%s, word %d: %llx for %llx\n", name, i, (unsigned long long)got[i],
                   (unsigned long long)want[i]);
        total++;
    }
}

// What carries far: ones, zeros, the highest bit; and others.
static uint64_t number(int i)
{
    static const uint64_t corners[] = {0, 1, ~0ull, ~0ull, 1ull << 63, ~(1ull << 63), 0xffffffff, 1ull << 32};
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 60 < 9 ? corners[state >> 40 & 7] : i % 3 ? state : state >> (state & 63);
}

int main()
{
    static uint64_t in[4 * N], want[2 * OPS * N], got[2 * OPS * N];
    uint64_t *device, *result;
    for (int i = 0; i < 4 * N; i++)
        in[i] = number(i);
    cudaMalloc(&device, sizeof in);
    cudaMalloc(&result, sizeof got);
    cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice);
#define HOST(n, expression)                                                                                  \
    for (int i = 0; i < N; i++) {                                                                            \
        u128 r = operation<n>(whole(in + 2 * i), whole(in + 2 * (i + N)));                                   \
        want[2 * (n * N + i)] = (uint64_t)r;                                                                 \
        want[2 * (n * N + i) + 1] = (uint64_t)(r >> 64);                                                     \
    }
    OPERATIONS(HOST)
    all<<<2, 64>>>(device, result);
    int error = cudaMemcpy(got, result, sizeof got, cudaMemcpyDeviceToHost);
    compare("all", got, want, 2 * OPS * N);
#ifdef EACH
#define RUN(n, expression)                                                                                   \
    one<n><<<2, 64>>>(device, result);                                                                       \
    error |= cudaMemcpy(got, result, 16 * N, cudaMemcpyDeviceToHost);                                        \
    compare(#expression, got, want + 2 * n * N, 2 * N);
    OPERATIONS(RUN)
#endif
    chains_host(in, want);
    chains<<<2, 64>>>(device, result);
    error |= cudaMemcpy(got, result, N * 3 * (WORDS + 1) * 8, cudaMemcpyDeviceToHost);
    compare("chains", got, want, N * 3 * (WORDS + 1));
    printf("wide: %u wrong of %u, error %d\n", wrong, total, error);
    return wrong || error;
}
