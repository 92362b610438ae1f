/* Textures and surfaces as device code sees them: what an object's handle stands for. The API layer describes
 * them (runtime/api/memory/array.c), mt_cpu_tex and its like (format/image.h) read them. */
#ifndef MT_CPU_TEXTURE_H
#define MT_CPU_TEXTURE_H
#include <stddef.h>
#include <stdint.h>

enum mt_texel_kind {
    MT_TEXEL_UNSIGNED,
    MT_TEXEL_SIGNED,
    MT_TEXEL_FLOAT, /* 16 or 32 bits */
    MT_TEXEL_UNORM, /* 0 to 1, of 8 or 16 bits unsigned */
    MT_TEXEL_SNORM, /* -1 to 1, of 8 or 16 bits signed */
    MT_TEXEL_SRGB,  /* 8 bits unsigned, gamma taken out of the first three channels */
};
/* Reads one texel: four channels as 32 bits, integers widened, all else as floats. Channels that the texel
 * does not have are 0, the fourth 1. (A vector, because four words that are written one by one and read as
 * one make the processor wait.) */
typedef uint32_t mt_texel __attribute__((vector_size(16)));
typedef mt_texel mt_texel_load(const void *texel);
/* NULL when there is no such format. bits: of one channel, 8, 16 or 32; channels: 1, 2 or 4. */
mt_texel_load *mt_texel_loader(enum mt_texel_kind kind, unsigned bits, unsigned channels);

enum mt_tex_address { MT_TEX_WRAP, MT_TEX_CLAMP, MT_TEX_MIRROR, MT_TEX_BORDER };

/* One array, or one mipmap level of it. */
struct mt_tex_level {
    char *data;
    int size[3]; /* width, height, depth in texels; 1 where there is none */
    size_t pitch, slice;
};
#define MT_TEX_LEVELS 32
struct mt_texture {
    mt_texel_load *load;
    unsigned bytes; /* of one texel */
    int channels;
    int floats; /* texels are 32-bit floats in memory */
    int layers; /* 1 when not layered; a cube has 6, layered cubes 6 each */
    int nlevels;
    uint8_t linear_memory; /* one row; texels outside read 0 */
    uint8_t normalized;    /* coordinates go from 0 to 1 */
    uint8_t linear;        /* filtered between texels; the loader gives floats; not with linear_memory */
    uint8_t linear_levels; /* filtered between levels */
    uint8_t seamless;      /* cubes: filtered across the edges of faces */
    uint8_t address[3];    /* enum mt_tex_address */
    uint32_t border[4];    /* bits */
    float bias, low, high; /* of the level of detail */
    /* A shorter way for instructions that are fast_what, by mt_tex_prepare; or NULL. */
    void (*fast)(const struct mt_texture *t, const uint32_t *in, uint32_t out[4]);
    uint32_t fast_what;
    struct mt_tex_level level[MT_TEX_LEVELS];
};
struct mt_surface {
    struct mt_tex_level level;
    unsigned bytes;
    int layers;
};

/* Handles: never 0, small numbers as CUDA's are. */
enum mt_tex_object_kind { MT_TEX_OBJECT = 1, MT_SURF_OBJECT };
/* `object` (a struct mt_texture or mt_surface) must stay until it is taken back.
 * 0 when there are too many. */
uint64_t mt_tex_object_add(enum mt_tex_object_kind kind, const void *object);
const void *mt_tex_object_take(enum mt_tex_object_kind kind, uint64_t handle);

/* Call it when all else of a texture is set. */
void mt_tex_prepare(struct mt_texture *t);
/* The sampler alone, without device thread or handle: mt_cpu_tex of format/image.h. */
void mt_tex_sample(const struct mt_texture *t, uint32_t what, const uint32_t *in, uint32_t out[4]);
#endif
