/* The texture sampler: coordinates to texels and filtering, by the CUDA programming guide's appendix on
 * texture fetching. Weights are fixed-point numbers with 8 fraction bits, rounded to nearest (so that they
 * reach 1). */
#include "texture.h"
#include "format/image.h"
#include "scheduler.h"
#include "base/fork.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- texel formats: one small function each, chosen when a texture object is made ---- */

static uint32_t texel_bits_of(float f)
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
    return sign | texel_bits_of((float)fraction * 0x1p-24f);
}

/* Bytes as floats: a table lookup is cheaper than a division. */
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
#define UNORM8(v, i) texel_bits_of(unorm8_table[v])
#define UNORM16(v, i) texel_bits_of((float)(v) / 65535.0f)
#define SNORM8(v, i) texel_bits_of(snorm8_table[(uint8_t)(v)])
#define SNORM16(v, i) texel_bits_of(CLAMP_LOW((float)(v) / 32767.0f))
#define SRGB(v, i) texel_bits_of((i) < 3 ? srgb_table[v] : unorm8_table[v])
#define HALF(v, i) half_bits(v)

/* Channels of v, with defaults for missing ones. */
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
#undef ROW
    pthread_once(&once, texel_fill);
    if (channels != 1 && channels != 2 && channels != 4)
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind && table[i].bits == bits)
            return table[i].load[channels / 2];
    return NULL;
}

/* Common cases without the generality of the rest, with the same results bit by bit. */

#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Returns the texel that contains x, or the nearest one; 0 for NaN. */
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
struct texture_fast_axis {
    int low, high;
    float weight;
};

INLINE struct texture_fast_axis texture_fast_axis(uint32_t bits, int n)
{
    float x = float_of(bits);
    x = x > -1 ? x < (float)n + 1 ? x : (float)n + 1 : -1;  /* all weights meet the same texel there */
    int fixed = (int)(((double)x + 1) * 256 - 127.5) - 256; /* positive for the truncation */
    int i = fixed >> 8;
    int low = i < 0 ? 0 : i < n ? i : n - 1, high = i + 1 < 0 ? 0 : i + 1 < n ? i + 1 : n - 1;
    return (struct texture_fast_axis){low, high, (float)(fixed & 255) / 256};
}

/* Not weight * v: a texel of weight 0 does not count, even if it is NaN. */
INLINE float texture_fast_part(float weight, float v)
{
    return weight != 0 ? weight * v : 0;
}

static void texture_fast_linear(const struct mt_texture *t, const uint32_t *in, uint32_t out[4])
{
    const struct texture_fast_axis x = texture_fast_axis(in[0], t->level[0].size[0]),
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

static uint32_t texture_float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

#define INLINE                                                                                               \
    static inline __attribute__((always_inline)) /* inlined, so that the number of dimensions is constant */

/* floor() of a value that fits: without SSE 4.1 the C library's is a call. */
INLINE int64_t texture_whole(double x)
{
    int64_t i = (int64_t)x;
    return i - (x < (double)i);
}

/* A point along one dimension: two neighbours and the second one's weight; -1 is the border. */
struct axis {
    int at[2];
    float weight;
};

/* Coordinates of a sample in one level. */
struct coordinates {
    double x[3]; /* coordinates in texels */
    int layer;
};

/* Returns texel i of n under an address mode, or -1 for the border. */
INLINE int texture_addressed(int64_t i, int n, int mode)
{
    if (__builtin_expect((uint64_t)i < (uint64_t)n, 1))
        return (int)i;
    switch (mode) {
    case MT_TEX_WRAP:
        i %= n;
        return (int)(i < 0 ? i + n : i);
    case MT_TEX_MIRROR:
        i %= 2 * (int64_t)n;
        i = i < 0 ? i + 2 * (int64_t)n : i;
        return (int)(i < n ? i : 2 * (int64_t)n - 1 - i);
    case MT_TEX_CLAMP:
        return i < 0 ? 0 : n - 1;
    default:
        return -1;
    }
}

/* Converts a coordinate to texels: whole periods are removed before scaling, so that large ones keep their
 * fraction. NaN becomes 0, and far values are clamped to fit an int64_t. */
INLINE double texture_scaled(float x, int n, int normalized, int mode)
{
    if (!(x > -0x1p40f && x < 0x1p40f))
        x = x > 0 ? 0x1p40f : x < 0 ? -0x1p40f : 0;
    if (!normalized)
        return x;
    if (mode == MT_TEX_WRAP)
        x -= (float)texture_whole(x);
    else if (mode == MT_TEX_MIRROR)
        x -= 2 * (float)texture_whole(x / 2);
    return (double)x * n;
}

INLINE int mode_of(const struct mt_texture *t, int d)
{
    int mode = t->address[d];
    return !t->normalized && mode != MT_TEX_BORDER ? MT_TEX_CLAMP : mode;
}

INLINE const char *texture_texel(const struct mt_texture *t, const struct mt_tex_level *l, int x, int y,
                                 int z)
{
    return l->data + (size_t)z * l->slice + (size_t)y * l->pitch + (size_t)x * t->bytes;
}

/* ---- cubes ---- */

/* Converts a direction to a face 0…5 and coordinates on it from 0 to 1. */
static int face_of(const double v[3], double *s, double *t)
{
    double x = v[0], y = v[1], z = v[2], ax = fabs(x), ay = fabs(y), az = fabs(z), m;
    int face;
    if (ax >= ay && ax >= az) {
        face = x >= 0 ? 0 : 1;
        m = ax;
        *s = x >= 0 ? -z : z;
        *t = -y;
    } else if (ay >= az) {
        face = y >= 0 ? 2 : 3;
        m = ay;
        *s = x;
        *t = y >= 0 ? z : -z;
    } else {
        face = z >= 0 ? 4 : 5;
        m = az;
        *s = z >= 0 ? x : -x;
        *t = -y;
    }
    *s = m > 0 ? (*s / m + 1) / 2 : 0.5;
    *t = m > 0 ? (*t / m + 1) / 2 : 0.5;
    return face;
}

/* Computes the direction of a point on the plane of a face, -1 to 1 inside it. */
static void direction_of(int face, double s, double t, double v[3])
{
    const double all[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t}, {s, -1, -t}, {s, -t, 1}, {-s, -t, -1}};
    memcpy(v, all[face], sizeof all[face]);
}

/* Finds a texel of a face's plane, at most one outside: its face of the cube, and its address. */
static const char *cube_texel(const struct mt_texture *t, const struct mt_tex_level *l, int layer, int x,
                              int y)
{
    int n = l->size[0], cube = layer / 6 * 6, face = layer % 6;
    if (x < 0 || y < 0 || x >= n || y >= n) {
        double v[3], s, u;
        direction_of(face, (2 * x + 1.0) / n - 1, (2 * y + 1.0) / n - 1, v);
        face = face_of(v, &s, &u);
        x = texture_addressed((int64_t)(s * n), n, MT_TEX_CLAMP);
        y = texture_addressed((int64_t)(u * n), n, MT_TEX_CLAMP);
    }
    return texture_texel(t, l, x, y, cube + face);
}

/* ---- one level ---- */

INLINE mt_texel load_one(const struct mt_texture *t, const struct mt_tex_level *l, const int at[3], int layer,
                         int seamless)
{
    if (seamless)
        return t->load(cube_texel(t, l, layer, at[0], at[1]));
    if ((at[0] | at[1] | at[2]) < 0)
        return (mt_texel){t->border[0], t->border[1], t->border[2], t->border[3]};
    return t->load(texture_texel(t, l, at[0], at[1], at[2] + layer));
}

INLINE void texture_load(const struct mt_texture *t, const struct mt_tex_level *l, const int at[3], int layer,
                         int seamless, uint32_t out[4])
{
    mt_texel v = load_one(t, l, at, layer, seamless);
    memcpy(out, &v, sizeof v);
}

/* Returns the two texels around x, and the weight of the second. */
INLINE struct axis axis_of(const struct mt_texture *t, double x, int n, int d, int seamless)
{
    int mode = mode_of(t, d);
    int64_t fixed = texture_whole((x - 0.5) * 256 + 0.5), i = fixed >> 8;
    struct axis a = {{0}, (float)(fixed & 255) / 256};
    if (seamless) {
        a.at[0] = (int)i;
        a.at[1] = (int)i + 1;
        return a;
    }
    a.at[0] = texture_addressed(i, n, mode);
    a.at[1] = texture_addressed(i + 1, n, mode);
    return a;
}

typedef float floats4 __attribute__((vector_size(16)));

INLINE void texture_filtered(const struct mt_texture *t, const struct mt_tex_level *l,
                             const struct coordinates *p, int dims, int seamless, uint32_t out[4])
{
    struct axis a[3] = {{{0}, 0}, {{0}, 0}, {{0}, 0}};
    floats4 sum = {0, 0, 0, 0};
    for (int d = 0; d < dims; d++)
        a[d] = axis_of(t, p->x[d], l->size[d], d, seamless);
#pragma GCC unroll 8
    for (int corner = 0; corner < 1 << dims; corner++) {
        float weight = 1;
        int at[3] = {0, 0, 0};
#pragma GCC unroll 3
        for (int d = 0; d < dims; d++) {
            int second = corner >> d & 1;
            weight *= second ? a[d].weight : 1 - a[d].weight;
            at[d] = a[d].at[second];
        }
        if (weight != 0) /* a texel of weight 0 does not count, even if it is NaN */
            sum += weight * (floats4)load_one(t, l, at, p->layer, seamless);
    }
    memcpy(out, &sum, sizeof sum);
}

INLINE void texture_nearest(const struct mt_texture *t, const struct mt_tex_level *l,
                            const struct coordinates *p, int dims, uint32_t out[4])
{
    int at[3] = {0, 0, 0};
    for (int d = 0; d < dims; d++) {
        int64_t i = texture_whole(p->x[d]);
        if (t->linear_memory && (uint64_t)i >= (uint64_t)l->size[d]) {
            memset(out, 0, 4 * sizeof *out);
            return;
        }
        at[d] = texture_addressed(i, l->size[d], mode_of(t, d));
    }
    texture_load(t, l, at, p->layer, 0, out);
}

/* Gathers one channel of the four texels that filtering would use, counterclockwise from the lower left. */
static void texture_gathered(const struct mt_texture *t, const struct mt_tex_level *l,
                             const struct coordinates *p, int component, uint32_t out[4])
{
    static const unsigned char corner[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
    struct axis x = axis_of(t, p->x[0], l->size[0], 0, 0), y = axis_of(t, p->x[1], l->size[1], 1, 0);
    for (int i = 0; i < 4; i++) {
        uint32_t texel[4];
        int at[3] = {x.at[corner[i][0]], y.at[corner[i][1]], 0};
        texture_load(t, l, at, p->layer, 0, texel);
        out[i] = texel[component];
    }
}

/* ---- levels of detail ---- */

/* Coordinates as given, before a level is chosen. */
struct request {
    float x[3], level;
    int integer[3];
    int dims, layer, cube;
};

INLINE void in_level(const struct mt_texture *t, const struct request *r, uint32_t what,
                     const struct mt_tex_level *l, int dims, uint32_t out[4])
{
    int integers = (what & MT_TEX_INTEGER) != 0;
    struct coordinates p = {{0}, r->layer};
    for (int d = 0; d < dims; d++)
        p.x[d] = integers ? (double)r->integer[d]
                          : texture_scaled(r->x[d], l->size[d], r->cube || t->normalized, mode_of(t, d));
    if ((what & MT_TEX_MODE) == MT_TEX_GATHER)
        texture_gathered(t, l, &p, what >> MT_TEX_COMPONENT_AT & 3, out);
    else if (!t->linear || integers)
        texture_nearest(t, l, &p, dims, out);
    else
        texture_filtered(t, l, &p, dims, r->cube && t->seamless, out);
}

static void one_level(const struct mt_texture *t, const struct request *r, uint32_t what, int level,
                      uint32_t out[4])
{
    const struct mt_tex_level *l = &t->level[level];
    if (r->dims == 1)
        in_level(t, r, what, l, 1, out);
    else if (r->dims == 2)
        in_level(t, r, what, l, 2, out);
    else
        in_level(t, r, what, l, 3, out);
}

/* Returns log2 of the longer gradient, in texels of level 0. */
static float level_of_gradients(const struct mt_texture *t, const struct request *r, const uint32_t *in)
{
    double longest = 0;
    for (int g = 0; g < 2; g++) {
        double sum = 0;
        for (int d = 0; d < (r->cube ? 3 : r->dims); d++) {
            double scale = r->cube ? t->level[0].size[0] / 2.0 : t->normalized ? t->level[0].size[d] : 1;
            double v = float_of(in[4 + 4 * g + d]) * scale;
            sum += v * v;
        }
        longest = fmax(longest, sqrt(sum));
    }
    return longest > 0 ? (float)log2(longest) : -126;
}

static void texture_levels(const struct mt_texture *t, const struct request *r, uint32_t what,
                           uint32_t out[4])
{
    float lod = fminf(fmaxf(r->level + t->bias, t->low), t->high), last = (float)(t->nlevels - 1);
    lod = lod > 0 ? lod < last ? lod : last : 0; /* NaN becomes 0 */
    if (!t->linear_levels) {
        one_level(t, r, what, (int)(lod + 0.5f), out);
        return;
    }
    int low = (int)lod;
    float weight = (float)(int)((lod - (float)low) * 256 + 0.5f) / 256;
    uint32_t second[4];
    one_level(t, r, what, low, out);
    if (weight == 0)
        return;
    one_level(t, r, what, low + 1 < t->nlevels ? low + 1 : low, second);
    for (int c = 0; c < 4; c++)
        out[c] = texture_float_bits((1 - weight) * float_of(out[c]) + weight * float_of(second[c]));
}

static int clamp_layer(uint32_t layer, int layers)
{
    return layer < (uint32_t)layers ? (int)layer : layers - 1;
}

void mt_tex_sample(const struct mt_texture *t, uint32_t what, const uint32_t *in, uint32_t out[4])
{
    static const unsigned char dims[] = {1, 2, 3, 1, 2, 2, 2};
    static const unsigned char layered[] = {0, 0, 0, 1, 1, 0, 1};
    uint32_t geometry = what & MT_TEX_GEOMETRY;
    struct request r = {.dims = dims[geometry], .cube = geometry >= MT_TEX_CUBE};
    const uint32_t *c = in + layered[geometry];
    int cubes = t->layers / 6 > 0 ? t->layers / 6 : 1;
    if (layered[geometry])
        r.layer = r.cube ? 6 * clamp_layer(in[0], cubes) : clamp_layer(in[0], t->layers);
    if (r.cube) {
        double v[3] = {float_of(c[0]), float_of(c[1]), float_of(c[2])}, s, u;
        r.layer += face_of(v, &s, &u);
        r.layer = clamp_layer((uint32_t)r.layer, t->layers);
        r.x[0] = (float)s;
        r.x[1] = (float)u;
    } else {
        for (int d = 0; d < r.dims; d++) {
            r.integer[d] = (int)c[d];
            r.x[d] = float_of(c[d]);
        }
    }
    if ((what & MT_TEX_MODE) == MT_TEX_LEVEL)
        r.level = float_of(in[4]);
    else if ((what & MT_TEX_MODE) == MT_TEX_GRAD && t->nlevels > 1)
        r.level = level_of_gradients(t, &r, in);
    if (t->nlevels > 1)
        texture_levels(t, &r, what, out);
    else
        one_level(t, &r, what, 0, out);
}

/* Entry points for texture and surface instructions of device code, and the table of objects. */

/* ---- handles: index + 1 in a table whose rows never move ---- */

#define ROW 1024
#define ROWS 1024
struct slot {
    _Atomic(const void *) object;
    _Atomic uint32_t kind;
    uint32_t next_free; /* index + 1 */
};
static struct slot *_Atomic rows[ROWS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);
static uint32_t used, first_free;

static struct slot *texture_slot(uint64_t handle)
{
    uint64_t i = handle - 1;
    struct slot *row =
        i < (uint64_t)ROW * ROWS ? atomic_load_explicit(&rows[i / ROW], memory_order_acquire) : NULL;
    return row ? &row[i % ROW] : NULL;
}

/* Returns index + 1 of a free slot, or 0. Called with the lock held. */
static uint32_t take_slot(void)
{
    uint32_t handle = first_free;
    if (handle) {
        first_free = texture_slot(handle)->next_free;
        return handle;
    }
    if (used == ROW * ROWS)
        return 0;
    if (!rows[used / ROW]) {
        struct slot *row = calloc(ROW, sizeof *row);
        if (!row)
            return 0;
        atomic_store_explicit(&rows[used / ROW], row, memory_order_release);
    }
    return ++used;
}

uint64_t mt_tex_object_add(enum mt_tex_object_kind kind, const void *object)
{
    pthread_mutex_lock(&lock);
    uint32_t handle = take_slot();
    if (handle) {
        struct slot *s = texture_slot(handle);
        atomic_store(&s->object, object);
        atomic_store(&s->kind, kind);
    }
    pthread_mutex_unlock(&lock);
    return handle;
}

/* NULL: no such object */
static const void *tex_object_get(enum mt_tex_object_kind kind, uint64_t handle)
{
    struct slot *s = texture_slot(handle);
    if (!s || atomic_load_explicit(&s->kind, memory_order_acquire) != kind)
        return NULL;
    return atomic_load_explicit(&s->object, memory_order_relaxed);
}

const void *mt_tex_object_take(enum mt_tex_object_kind kind, uint64_t handle)
{
    const void *object = NULL;
    pthread_mutex_lock(&lock);
    struct slot *s = texture_slot(handle);
    if (s && s->kind == kind) {
        object = s->object;
        s->kind = 0;
        s->next_free = first_free;
        first_free = (uint32_t)handle;
    }
    pthread_mutex_unlock(&lock);
    return object;
}

/* ---- device code ---- */

void mt_cpu_tex(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out)
{
    const struct mt_texture *t = tex_object_get(MT_TEX_OBJECT, object);
    uint32_t words[4];
    if (!t)
        mt_fault_fail(MT_ERR_ADDRESS, "0x%llx is not a texture object", (unsigned long long)object);
    if (t->fast && what == t->fast_what)
        t->fast(t, in, words);
    else
        mt_tex_sample(t, what, in, words);
    for (int i = 0; i < 4; i++)
        out[i] = words[i];
}

/* Returns the address of an access; NULL: outside, which the mode permits. */
static char *surface_at(uint64_t object, uint32_t what, const uint32_t *in)
{
    const struct mt_surface *s = tex_object_get(MT_SURF_OBJECT, object);
    uint32_t geometry = what & MT_TEX_GEOMETRY, mode = what & MT_SURF_MODE;
    if (!s)
        mt_fault_fail(MT_ERR_ADDRESS, "0x%llx is not a surface object", (unsigned long long)object);
    static const unsigned char dims_of[] = {1, 2, 3, 1, 2};
    int layered = geometry >= MT_TEX_A1D, dims = dims_of[geometry];
    int64_t bytes = (int64_t)(what >> MT_SURF_BYTES_AT & 15) * (what >> MT_SURF_COUNT_AT & 7);
    int64_t at[3] = {0, 0, 0};
    const int64_t limit[3] = {(int64_t)s->level.size[0] * s->bytes - bytes, s->level.size[1] - 1,
                              (layered ? s->layers : s->level.size[2]) - 1};
    for (int d = 0; d < dims; d++)
        at[d] = (int32_t)in[layered + d];
    if (layered)
        at[2] = in[0] < (uint32_t)s->layers ? in[0] : (uint32_t)s->layers - 1;
    for (int d = 0; d < 3; d++) {
        if (at[d] >= 0 && at[d] <= limit[d])
            continue;
        if (mode == MT_SURF_ZERO || limit[d] < 0)
            return NULL;
        if (mode != MT_SURF_CLAMP)
            mt_fault_fail(MT_ERR_LAUNCH, "surface access outside: %s %lld of %lld",
                          d ? d == 1 ? "row" : "plane" : "byte", (long long)at[d], (long long)limit[d] + 1);
        at[d] = at[d] < 0 ? 0 : limit[d];
    }
    return s->level.data + (size_t)at[2] * s->level.slice + (size_t)at[1] * s->level.pitch + at[0];
}

void mt_cpu_surf_load(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out)
{
    uint32_t bytes = what >> MT_SURF_BYTES_AT & 15, n = what >> MT_SURF_COUNT_AT & 7;
    const char *p = surface_at(object, what, in);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = 0;
        if (p)
            memcpy(&out[i], p + i * bytes, bytes);
    }
}

void mt_cpu_surf_store(uint64_t object, uint32_t what, const uint32_t *in, const uint64_t *value)
{
    uint32_t bytes = what >> MT_SURF_BYTES_AT & 15, n = what >> MT_SURF_COUNT_AT & 7;
    char *p = surface_at(object, what, in);
    for (uint32_t i = 0; p && i < n; i++)
        memcpy(p + i * bytes, &value[i], bytes);
}

uint32_t mt_cpu_tex_size(uint64_t object, uint32_t dimension)
{
    const struct mt_texture *t = tex_object_get(MT_TEX_OBJECT, object);
    const struct mt_surface *s = tex_object_get(MT_SURF_OBJECT, object);
    if (!t && !s)
        mt_fault_fail(MT_ERR_ADDRESS, "0x%llx is not a texture or surface object",
                      (unsigned long long)object);
    if (dimension >= 3)
        return (uint32_t)(t ? t->layers : s->layers);
    return (uint32_t)(t ? &t->level[0] : &s->level)->size[dimension];
}
