/* The texture sampler: coordinates to texels, filtering, as the CUDA programming guide's appendix on texture
 * fetching has it: weights are fixed-point numbers with 8 bits of fraction, rounded to nearest (so that they
 * reach 1). */
#include "texture.h"
#include <math.h>
#include <string.h>
#include "format/image.h"

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

#define INLINE                                                                                               \
    static inline __attribute__((always_inline)) /* so that the number of dimensions is a constant */

/* floor() of what fits: without SSE 4.1 the C library's is a call. */
INLINE int64_t texture_whole(double x)
{
    int64_t i = (int64_t)x;
    return i - (x < (double)i);
}

/* A point along one dimension: two neighbours and the second one's weight; -1 outside is the border. */
struct axis {
    int at[2];
    float weight;
};

/* A sample's place in one level. */
struct coordinates {
    double x[3]; /* in texels */
    int layer;
};

/* Texel i of n under an address mode, -1: the border. */
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

/* Coordinate to texels: whole periods are taken off before it is scaled, so that large ones keep their
 * fraction. What is not a number is 0; nothing is so far out that it cannot be an int64_t. */
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

/* A direction to face 0…5 and coordinates on it from 0 to 1. */
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

/* The direction of a point on the plane of a face, -1 to 1 inside it. */
static void direction_of(int face, double s, double t, double v[3])
{
    const double all[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t}, {s, -1, -t}, {s, -t, 1}, {-s, -t, -1}};
    memcpy(v, all[face], sizeof all[face]);
}

/* A texel of a face's plane, up to one outside the face: on which face of the cube it lies, and where. */
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

/* The two texels around x, and the weight of the second. */
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
        if (weight != 0) /* of a texel without weight nothing counts, not even that it is not a number */
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

/* One channel of the four texels that filtering would take, counterclockwise from the lower left. */
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

/* The coordinates as given, before a level is chosen. */
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

/* log2 of the longer gradient, in texels of level 0. */
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
    lod = lod > 0 ? lod < last ? lod : last : 0; /* what is not a number is 0 */
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
        out[c] = bits_of((1 - weight) * float_of(out[c]) + weight * float_of(second[c]));
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
