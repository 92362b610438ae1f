/* The cases that most programs use, without the generality of texture.c,
 * whose results they share bit by bit. */
#include <string.h>
#include "format/image.h"
#include "texture.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* The texel that holds x, or the nearest one; 0 for what is not a number. */
INLINE int texture_fast_clamped(float x, int n)
{
    return x > 0 ? x < (float)n ? (int)x : n - 1 : 0;
}

INLINE const char *texture_fast_texel(const struct mt_texture *t, int x, int y)
{
    return t->level[0].data + (size_t)y * t->level[0].pitch + (size_t)x * t->bytes;
}

INLINE void texture_fast_load(const struct mt_texture *t, const char *from, uint32_t out[4])
{
    if (t->floats && t->channels == 1) {
        memcpy(out, from, 4);
        out[1] = out[2] = 0;
        out[3] = 0x3f800000;
    } else {
        mt_texel v = t->load(from);
        memcpy(out, &v, sizeof v);
    }
}

static void texture_fast_fetch(const struct mt_texture *t, const uint32_t *in, uint32_t out[4])
{
    if (in[0] < (uint32_t)t->level[0].size[0])
        texture_fast_load(t, t->level[0].data + (size_t)in[0] * t->bytes, out);
    else
        memset(out, 0, 4 * sizeof *out);
}

static void texture_fast_nearest(const struct mt_texture *t, const uint32_t *in, uint32_t out[4])
{
    const int *n = t->level[0].size;
    texture_fast_load(t,
                      texture_fast_texel(t, texture_fast_clamped(float_of(in[0]), n[0]),
                                         texture_fast_clamped(float_of(in[1]), n[1])),
                      out);
}

/* Two neighbours, and the second one's weight. */
struct axis {
    int low, high;
    float weight;
};

INLINE struct axis texture_fast_axis(uint32_t bits, int n)
{
    float x = float_of(bits);
    x = x > -1 ? x < (float)n + 1 ? x : (float)n + 1 : -1;  /* where all weights meet the same texel */
    int fixed = (int)(((double)x + 1) * 256 - 127.5) - 256; /* positive while it is cut */
    int i = fixed >> 8;
    int low = i < 0 ? 0 : i < n ? i : n - 1, high = i + 1 < 0 ? 0 : i + 1 < n ? i + 1 : n - 1;
    return (struct axis){low, high, (float)(fixed & 255) / 256};
}

/* Not weight * v: of a texel without weight nothing counts, not even that it is not a number. */
INLINE float texture_fast_part(float weight, float v)
{
    return weight != 0 ? weight * v : 0;
}

static void texture_fast_linear(const struct mt_texture *t, const uint32_t *in, uint32_t out[4])
{
    const struct axis x = texture_fast_axis(in[0], t->level[0].size[0]),
                      y = texture_fast_axis(in[1], t->level[0].size[1]);
    const float right = x.weight, left = 1 - right, below = y.weight, above = 1 - below;
    const float *a = (const float *)texture_fast_texel(t, x.low, y.low),
                *b = (const float *)texture_fast_texel(t, x.high, y.low);
    const float *c = (const float *)texture_fast_texel(t, x.low, y.high),
                *d = (const float *)texture_fast_texel(t, x.high, y.high);
    float sum[4] = {0, 0, 0, 1};
    for (int i = 0; i < t->channels; i++)
        sum[i] = texture_fast_part(left * above, a[i]) + texture_fast_part(right * above, b[i]) +
                 texture_fast_part(left * below, c[i]) + texture_fast_part(right * below, d[i]);
    memcpy(out, sum, sizeof sum);
}

void mt_tex_prepare(struct mt_texture *t)
{
    int clamps = 1;
    for (int d = 0; d < 2; d++)
        clamps &= t->address[d] == MT_TEX_CLAMP || (!t->normalized && t->address[d] != MT_TEX_BORDER);
    t->fast = NULL;
    if (t->nlevels != 1 || t->layers != 1)
        return;
    if (t->linear_memory) {
        t->fast = texture_fast_fetch;
        t->fast_what = MT_TEX_1D | MT_TEX_INTEGER;
    } else if (!t->normalized && clamps && (!t->linear || t->floats)) {
        t->fast = t->linear ? texture_fast_linear : texture_fast_nearest;
        t->fast_what = MT_TEX_2D;
    }
}
