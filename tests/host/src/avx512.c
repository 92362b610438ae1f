/* AVX-512: whole vectors, a masked rest, a gather and a scatter. Prints a sum. */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 100 }; /* six vectors, and four numbers more */

__attribute__((target("avx512f"), noinline)) static void twice(const float *from, float *to)
{
    for (int i = 0; i < NUMBERS; i += 16) {
        __mmask16 mask = NUMBERS - i >= 16 ? 0xffff : (__mmask16)((1u << (NUMBERS - i)) - 1);
        if (mask == 0xffff) {
            __m512 v = _mm512_loadu_ps(from + i);
            _mm512_storeu_ps(to + i, _mm512_add_ps(v, v));
        } else {
            __m512 v = _mm512_maskz_loadu_ps(mask, from + i);
            _mm512_mask_storeu_ps(to + i, mask, _mm512_add_ps(v, v));
        }
    }
}

/* Every sixth number of `from` to every fifth of `to`; lanes 1, 4, 7 … not. */
__attribute__((target("avx512f"), noinline)) static void spread(const float *from, float *to)
{
    __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __mmask16 mask = 0xdb6d; /* 1101101101101101 */
    __m512 v = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask,
                                        _mm512_mullo_epi32(lane, _mm512_set1_epi32(6)), from, 4);
    _mm512_mask_i32scatter_ps(to, mask, _mm512_mullo_epi32(lane, _mm512_set1_epi32(5)), v, 4);
}

int main(void)
{
    float *from = malloc(1777), *to = malloc(1888), sum = 0;
    for (int i = 0; i < NUMBERS; i++)
        from[i] = (float)i;
    twice(from, to);
    spread(from, to);
    for (int i = 0; i < NUMBERS; i++)
        sum += to[i];
    printf("%.0f\n", (double)sum);
    free(from);
    free(to);
    return 0;
}
