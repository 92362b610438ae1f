/* Elements of any type, as complex numbers of double. */
#include "element.h"
#include "call.h"
#include <math.h>
#include <string.h>

char mt_blas_letter(int64_t cuda_type)
{
    static const char letters[] = {
        [0] = 'S', [1] = 'D', [2] = 'H', [3] = 'i', [4] = 'C', [5] = 'Z', [10] = 'I', [14] = 'B'};
    return cuda_type < 0 || cuda_type >= (int64_t)sizeof letters ? 0 : letters[cuda_type];
}

size_t mt_blas_letter_bytes(char letter)
{
    switch (letter) {
    case 'S':
    case 'I':
        return 4;
    case 'D':
    case 'C':
        return 8;
    case 'Z':
        return 16;
    case 'H':
    case 'B':
        return 2;
    default:
        return 1;
    }
}

static float element_from_bf16(uint16_t v)
{
    float f;
    memcpy(&f, &(uint32_t){(uint32_t)v << 16}, sizeof f);
    return f;
}

/* To the nearest, ties to even. */
static uint16_t element_to_bf16(float f)
{
    uint32_t v;
    memcpy(&v, &f, sizeof v);
    return isnan(f) ? 0x7fff : (uint16_t)((v + 0x7fff + (v >> 16 & 1)) >> 16);
}

double _Complex mt_element_get(char letter, const void *p, int64_t i)
{
    switch (letter) {
    case 'S':
        return ((const float *)p)[i];
    case 'D':
        return ((const double *)p)[i];
    case 'C':
        return ((const float _Complex *)p)[i];
    case 'Z':
        return ((const double _Complex *)p)[i];
    case 'H':
        return (double)((const _Float16 *)p)[i];
    case 'B':
        return element_from_bf16(((const uint16_t *)p)[i]);
    case 'I':
        return ((const int32_t *)p)[i];
    default:
        return ((const int8_t *)p)[i];
    }
}

static int64_t element_whole(double v, int64_t low, int64_t high)
{
    return v<(double)low ? low : v>(double) high ? high : (int64_t)nearbyint(v);
}

void mt_element_put(char letter, void *p, int64_t i, double _Complex v)
{
    double re = __real__ v;
    switch (letter) {
    case 'S':
        ((float *)p)[i] = (float)re;
        break;
    case 'D':
        ((double *)p)[i] = re;
        break;
    case 'C':
        ((float _Complex *)p)[i] = (float _Complex)v;
        break;
    case 'Z':
        ((double _Complex *)p)[i] = v;
        break;
    case 'H':
        ((_Float16 *)p)[i] = (_Float16)re;
        break;
    case 'B':
        ((uint16_t *)p)[i] = element_to_bf16((float)re);
        break;
    case 'I':
        ((int32_t *)p)[i] = (int32_t)element_whole(re, INT32_MIN, INT32_MAX);
        break;
    default:
        ((int8_t *)p)[i] = (int8_t)element_whole(re, INT8_MIN, INT8_MAX);
    }
}
