/* Accesses that only x86's own intrinsics make, each in a function of its own; cases_accesses.py says which
 * they are. With the word avx512 those, too. Prints where the arrays lie, and a sum that shows that they did
 * their work. */
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

static int from[64], to[64];
#define AVX2 __attribute__((noinline, target("avx2")))
#define AVX512 __attribute__((noinline, target("avx512f,avx512vl,avx512bw")))

AVX2 static long gather_d_d(void) /* all of eight, bytes apart by four */
{
    __m256i v = _mm256_i32gather_epi32(from, _mm256_setr_epi32(3, 1, 4, 1, 5, 9, 2, 6), 4);
    return _mm256_extract_epi32(v, 5) + _mm256_extract_epi32(v, 0);
}
AVX2 static long gather_d_pd(void) /* two of four indices; the first is left out */
{
    __m128d mask = _mm_castsi128_pd(_mm_set_epi64x(-1, 0));
    __m128d v = _mm_mask_i32gather_pd(_mm_set1_pd(7), (double *)from, _mm_setr_epi32(1, -1, 5, 6), mask, 8);
    return (long)v[0];
}
AVX2 static long gather_q_ps(void) /* four of a base in the middle: an index is negative */
{
    __m128 v = _mm256_i64gather_ps((float *)from + 10, _mm256_setr_epi64x(-2, 0, 20, 8), 2);
    return (long)v[0];
}
AVX2 static long maskload(void)
{
    const int *p = from + 8;
    __asm__("" : "+r"(p)); /* or else the load becomes one of all 32 bytes, which are known to be there */
    __m256i v = _mm256_maskload_epi32(p, _mm256_setr_epi32(-1, 0, -1, -1, 0, 1, 0, -5));
    __asm__("" : "+x"(v)); /* or else one of the last element */
    return _mm256_extract_epi32(v, 7);
}
AVX2 static long maskstore(void)
{
    _mm256_maskstore_pd((double *)to, _mm256_setr_epi64x(0, -1, -1, 1), _mm256_set1_pd(1));
    return to[3] != 0;
}
__attribute__((noinline)) static long maskmov(void)
{
    _mm_maskmoveu_si128(_mm_set1_epi8(1), _mm_setr_epi8(-1, -1, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1),
                        (char *)to + 40);
    return ((char *)to)[55];
}
AVX512 static long gather_512(void) /* lanes 0, 4, 5, 7 */
{
    __m512i v = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), 0xb1,
                                            _mm512_setr_epi64(1, 2, 3, 4, 5, 6, 7, 8), from, 8);
    return (long)_mm512_reduce_add_epi64(v);
}
AVX512 static long scatter_512(void) /* lanes 2 and 9 */
{
    _mm512_mask_i32scatter_epi32(to, 0x204,
                                 _mm512_setr_epi32(0, 1, 20, 3, 4, 5, 6, 7, 8, 30, 10, 11, 12, 13, 14, 15),
                                 _mm512_set1_epi32(5), 4);
    return to[20] + to[30];
}
AVX512 static long scatter_256(void) /* all of four */
{
    _mm256_i64scatter_epi32(to, _mm256_setr_epi64x(40, 42, 44, 41), _mm_set1_epi32(6), 4);
    return to[40] + to[41];
}
AVX512 static long narrowed(void) /* 16 words become bytes, of which the mask leaves 0 to 2 and 15 */
{
    _mm256_mask_cvtepi16_storeu_epi8((char *)to + 200, 0x8007, _mm256_set1_epi16(3));
    return ((char *)to)[215];
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 64; i++)
        from[i] = i * 3;
    printf("%p %p\n", (void *)from, (void *)to);
    long sum = gather_d_d() + gather_d_pd() + gather_q_ps() + maskload() + maskstore() + maskmov();
    if (argc > 1 && !strcmp(argv[1], "avx512"))
        sum += gather_512() + scatter_512() + scatter_256() + narrowed();
    printf("%ld\n", sum);
    return 0;
}
