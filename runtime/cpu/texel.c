/* Formats of texels: one small function each, chosen when a texture object is made. */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "texture.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static uint32_t half_bits(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31)
        return sign | 0x7f800000 | fraction << 13;
    if (exponent)
        return sign | (exponent + 112) << 23 | fraction << 13;
    return sign | bits_of((float)fraction * 0x1p-24f);
}

/* Bytes as floats: a look is cheaper than a division. */
static float srgb_table[256], unorm8_table[256], snorm8_table[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void texel_fill(void)
{
    for (int i = 0; i < 256; i++) {
        double c = i / 255.0;
        int s = i < 128 ? i : i - 256;
        srgb_table[i] = (float)(c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
        unorm8_table[i] = (float)i / 255.0f;
        snorm8_table[i] = s < -127 ? -1.0f : (float)s / 127.0f;
    }
}

#define ONE_INT 1u
#define ONE_FLOAT 0x3f800000u
#define CLAMP_LOW(x) ((x) < -1.0f ? -1.0f : (x))
#define U(v, i) (uint32_t)(v)
#define S(v, i) (uint32_t)(int32_t)(v)
#define UNORM8(v, i) bits_of(unorm8_table[v])
#define UNORM16(v, i) bits_of((float)(v) / 65535.0f)
#define SNORM8(v, i) bits_of(snorm8_table[(uint8_t)(v)])
#define SNORM16(v, i) bits_of(CLAMP_LOW((float)(v) / 32767.0f))
#define SRGB(v, i) bits_of((i) < 3 ? srgb_table[v] : unorm8_table[v])
#define HALF(v, i) half_bits(v)

/* Channels of v, and what stands for those that are not there. */
#define C1(convert, one) {convert(v[0], 0), 0, 0, one}
#define C2(convert, one) {convert(v[0], 0), convert(v[1], 1), 0, one}
#define C4(convert, one) {convert(v[0], 0), convert(v[1], 1), convert(v[2], 2), convert(v[3], 3)}
#define LOADER(name, type, n, convert, one)                                                                  \
    static mt_texel name##n(const void *texel)                                                               \
    {                                                                                                        \
        type v[n];                                                                                           \
        memcpy(v, texel, sizeof v);                                                                          \
        return (mt_texel)C##n(convert, one);                                                                 \
    }
#define LOADERS(name, type, convert, one)                                                                    \
    LOADER(name, type, 1, convert, one)                                                                      \
    LOADER(name, type, 2, convert, one) LOADER(name, type, 4, convert, one)

LOADERS(u8_, uint8_t, U, ONE_INT)
LOADERS(u16_, uint16_t, U, ONE_INT)
LOADERS(u32_, uint32_t, U, ONE_INT)
LOADERS(s8_, int8_t, S, ONE_INT)
LOADERS(s16_, int16_t, S, ONE_INT)
LOADERS(half_, uint16_t, HALF, ONE_FLOAT)
LOADERS(float_, uint32_t, U, ONE_FLOAT)
LOADERS(unorm8_, uint8_t, UNORM8, ONE_FLOAT)
LOADERS(unorm16_, uint16_t, UNORM16, ONE_FLOAT)
LOADERS(snorm8_, int8_t, SNORM8, ONE_FLOAT)
LOADERS(snorm16_, int16_t, SNORM16, ONE_FLOAT)
LOADERS(srgb_, uint8_t, SRGB, ONE_FLOAT)

mt_texel_load *mt_texel_loader(enum mt_texel_kind kind, unsigned bits, unsigned channels)
{
#define ROW(k, b, name) {k, b, {name##1, name##2, name##4}}
    static const struct {
        enum mt_texel_kind kind;
        unsigned bits;
        mt_texel_load *load[3];
    } table[] = {
        ROW(MT_TEXEL_UNSIGNED, 8, u8_),   ROW(MT_TEXEL_UNSIGNED, 16, u16_),
        ROW(MT_TEXEL_UNSIGNED, 32, u32_), ROW(MT_TEXEL_SIGNED, 8, s8_),
        ROW(MT_TEXEL_SIGNED, 16, s16_),   ROW(MT_TEXEL_SIGNED, 32, u32_),
        ROW(MT_TEXEL_FLOAT, 16, half_),   ROW(MT_TEXEL_FLOAT, 32, float_),
        ROW(MT_TEXEL_UNORM, 8, unorm8_),  ROW(MT_TEXEL_UNORM, 16, unorm16_),
        ROW(MT_TEXEL_SNORM, 8, snorm8_),  ROW(MT_TEXEL_SNORM, 16, snorm16_),
        ROW(MT_TEXEL_SRGB, 8, srgb_),
    };
    pthread_once(&once, texel_fill);
    if (channels != 1 && channels != 2 && channels != 4)
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind && table[i].bits == bits)
            return table[i].load[channels / 2];
    return NULL;
}
