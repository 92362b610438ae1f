// Numbers that wrap round between the lanes of a warp, in 8, 16, 32 and 64 bits, and are then made wider,
// compared, shifted or taken apart: for each rule by which a row of lanes stays a row, values for which it
// must not. The host says what is right: the same expressions, thread by thread.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

__host__ __device__ inline unsigned lane(unsigned thread)
{
#ifdef __CUDA_ARCH__
    unsigned r;
    asm("mov.u32 %0, %%laneid;" : "=r"(r));
    return r + 0 * thread;
#else
    return thread % 32;
#endif
}
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

// name, which threads (i: threadIdx.x; l: the lane; b: the CTA; n: its threads; u: 0x7ffffff0; m: -70; z: 0;
// t[]: 0, 1, 2 …), what they store
#define KERNELS(V)                                                                                           \
    /* a first lane of 0, and a stride that is negative or too large for the width */                        \
    V(negated, 1, (u64)(0u - l))                                                                             \
    V(negated_third, 1, (0u - l) / 3u)                                                                       \
    V(negated_signed, 1, (s64)(s32)(0u - l) * 5)                                                             \
    V(negated_8, 1, (u64)(u8)(0u - l * 3))                                                                   \
    V(shifted_8, 1, (s64)(s8)(l << 3))                                                                       \
    V(shifted_16, 1, (s64)(s16)(l << 11))                                                                    \
    V(shifted_u16, 1, (u64)(u16)(l << 12))                                                                   \
    V(shifted_32, 1, (s64)(s32)(l << 27))                                                                    \
    V(shifted_u32, 1, (u64)(u32)(l << 28))                                                                   \
    V(times_8, 1, (s64)(s8)(l * 9))                                                                          \
    V(far_32, 1, (s64)(s32)(l * 0x00ffffffu))                                                                \
    /* rows whose first lane has zeros up to the highest bit, and beyond */                                  \
    V(thread_8, 1, (s64)(s8)(i * 4))                                                                         \
    V(thread_u8, 1, (u64)(u8)(i * 16))                                                                       \
    V(thread_16, 1, (s64)(s16)(i * 2048))                                                                    \
    V(block_8, 1, (s64)(s8)(u8)(i + 112) + (s64)(s16)(i << 10))                                              \
    V(table, 1, (s64)(100 + (s8)(i * 32)) * 7)                                                               \
    V(as_float, 1, (s64)(float)(s8)(i * 16))                                                                 \
    V(negative, 1, (s8)(i * 8) < 0)                                                                          \
    V(negative_16, 1, (s64)((s16)(i << 11) < 0 ? 5 : 7))                                                     \
    V(right_8, 1, (s64)((s8)(i * 8) >> 3))                                                                   \
    V(right_u8, 1, (u64)((u8)(i * 16) >> 4))                                                                 \
    V(right_16, 1, (s64)((s16)(i * 2048) >> 11))                                                             \
    V(right_32, 1, (s64)((s32)(l << 27) >> 27))                                                              \
    V(mask_8, 1, (s64)(s8)((i * 16) & 0xf0))                                                                 \
    V(or_8, 1, (s64)(s8)((i * 16) | 7))                                                                      \
    V(xor_8, 1, (s64)(s8)((i * 8) ^ 0x80))                                                                   \
    V(kept_bits, 1, (u64)((i << 4) & 0x1f0) + ((i << 4) ^ 0x200))                                            \
    /* a row that wraps round, then an operation that does not */                                            \
    V(wrapped_sum, (s8)(i * 8) < 100, (s64)(s8)((s8)(i * 8) + 3))                                            \
    V(wrapped_32, (s32)(u + i) > 0 && (s32)(u + i) < 0x7ffffff9, (s64)((s32)(u + i) + 5))                    \
    V(wrapped_u32, u * 2 + i < 0xfffffff0u, (u64)(u * 2 + i + 8u))                                           \
    V(wrapped_down, u * 2 + i >= 3u, (u64)(u * 2 + i + 24u - 3u))                                            \
    V(wrapped_mul, (s32)(u + i) > 0 && (s32)(u + i) < 0x7ffffff8, (s64)((s32)(u + i) - 0x7ffffff0) * 3)      \
    /* the first lane is not here, and what holds of those that are does not hold of it */                   \
    V(first_gone_8, (s8)(i + m) >= -64, (s64)(s8)((s8)(i + m) * 2))                                          \
    V(first_gone_sub, i >= 5, (u64)(i - 5u))                                                                 \
    V(first_gone_mul, i >= 5, (u64)((i - 5u) * 3u))                                                          \
    V(first_gone_shift, i >= 5, (u64)((i - 5u) << 2) + t[(i - 5u) << 1])                                     \
    V(first_gone_deep, i % 32 >= 9 && i - 9u < 4000u, (u64)((i - 9u) * 5u + 1u) + t[i - 9u])                 \
    V(first_gone_neg, (s32)i - 7 >= 0, (s64)(s16)((s32)i - 7) * 3 + t[(s32)i - 7])                           \
    V(first_gone_low, (s32)(i + 0x80000000u - 5u) < 0, (s64)((s32)(i + 0x80000000u - 5u)))                   \
    V(difference, i >= 5 && i - 5u < u, (u64)(u - (i - 5u)))                                                 \
    V(same_row, i >= 12, (u64)((i - 12u) - (i - 12u - z)) + (u64)((i - 12u) / 4u))                           \
    /* numbers that lanes have in common although they differ */                                             \
    V(common_8, (u8)(i * 16) == 32, (u64)i)                                                                  \
    V(common_16, (u16)(i << 13) == 0x4000, (u64)i + 1)                                                       \
    /* indices of less than 64 bits, from the middle of the table */                                         \
    V(index_s8, 1, (s64)t[128 + (s8)(i * 8)])                                                                \
    V(index_u8, 1, (s64)t[(u8)(i * 8 + 130)])                                                                \
    V(index_s16, 1, (s64)t[1024 + ((s16)(i << 11) >> 6)])                                                    \
    V(index_down, 1, (s64)t[1000u - i] + t[1000 - (s32)l])                                                   \
    V(index_negated, 1, (s64)(t + 500)[-(s32)l] + (t + 500)[(s32)(0u - l)])                                  \
    V(index_wrapped, 1, (s64)t[(u32)(i - 31u) & 1023u])                                                      \
    V(index_u32, i >= 31, (s64)t[(u32)(i - 31u)])                                                            \
    /* CTAs whose size is no multiple of 32 begin anywhere */                                                \
    V(global, 1, (u64)((b * n + i) | 32) + ((b * n + i) >> 3) + t[(b * n + i) ^ 64])                         \
    V(global_8, 1, (s64)(s8)(b * n + i) * 3)                                                                 \
    /* loops whose numbers wrap round in one lane and not in the next */                                     \
    V(loop_8, 1, sum_down((u8)(i * 8)))                                                                      \
    V(loop_16, 1, sum_up((s16)(i << 11)))                                                                    \
    V(loop_steps, 1, sum_steps(i, u))

__host__ __device__ inline s64 sum_down(u8 from)
{
    s64 s = 0;
    for (u8 k = (u8)(from + 40); k != from; k = (u8)(k - 5))
        s = s * 3 + (s8)k;
    return s;
}

__host__ __device__ inline s64 sum_up(s16 from)
{
    s64 s = 0;
    for (int k = 0; k < 9; k++, from = (s16)(from + 8192))
        s = s * 5 + from / 7;
    return s;
}

__host__ __device__ inline s64 sum_steps(u32 i, u32 u)
{
    s64 s = 0;
    for (u32 k = 0; k < 40; k += 8)
        s = s * 3 + (s64)(s32)(u + i + k) + (s64)(u64)(u32)(0u - i - k);
    return s;
}

#define THREADS 256
#define DEVICE(name, where, what)                                                                            \
    __global__ void name(s64 *out, const s32 *t, u32 u, s32 m, u32 z)                                        \
    {                                                                                                        \
        u32 i = threadIdx.x, l = lane(i), b = blockIdx.x, n = blockDim.x;                                    \
        out[b * n + i] = -1;                                                                                 \
        if (where)                                                                                           \
            out[b * n + i] = (s64)(what);                                                                    \
    }                                                                                                        \
    static s64 host_##name(u32 i, u32 b, u32 n, const s32 *t, u32 u, s32 m, u32 z)                           \
    {                                                                                                        \
        u32 l = lane(i);                                                                                     \
        return (where) ? (s64)(what) : -1;                                                                   \
    }
KERNELS(DEVICE)

int main()
{
    s64 *out, got[2 * THREADS];
    s32 *t, h[2048];
    int wrong = 0, kernels = 0;
    for (int i = 0; i < 2048; i++)
        h[i] = i;
    if (cudaMalloc(&out, sizeof got) || cudaMalloc(&t, sizeof h) ||
        cudaMemcpy(t, h, sizeof h, cudaMemcpyHostToDevice))
        return 2;
#define RUN(name, where, what)                                                                               \
    for (u32 n = 32; n <= THREADS; n += n == 32 ? 68 : 156) {                                                \
        name<<<2, n>>>(out, t, 0x7ffffff0u, -70, 0u);                                                        \
        if (cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost))                                        \
            return 2;                                                                                        \
        kernels++;                                                                                           \
        for (u32 i = 0; i < 2 * n; i++) {                                                                    \
            s64 want = host_##name(i % n, i / n, n, h, 0x7ffffff0u, -70, 0u);                                \
            if (got[i] == want)                                                                              \
                continue;                                                                                    \
            printf("%s, CTAs of %u, thread %u: %lld, not %lld\n", #name, n, i, (long long)got[i],            \
                   (long long)want);                                                                         \
            wrong++;                                                                                         \
            break;                                                                                           \
        }                                                                                                    \
    }
    KERNELS(RUN)
    printf("narrow: %d of %d wrong\n", wrong, kernels);
    cudaFree(out);
    cudaFree(t);
    return wrong != 0;
}
