/* Textures and surfaces as device code sees them through an object's handle. The API layer describes them
 * (runtime/api/memory/array.c); mt_cpu_tex and its like (format/image.h) read them. */
#ifndef MT_CPU_TEXTURE_H
#define MT_CPU_TEXTURE_H
#include <stddef.h>
#include <stdint.h>

enum mt_texel_kind {
    MT_TEXEL_UNSIGNED,
    MT_TEXEL_SIGNED,
    MT_TEXEL_FLOAT, /* 16 or 32 bits */
    MT_TEXEL_UNORM, /* 8 or 16 bits unsigned, as 0 to 1 */
    MT_TEXEL_SNORM, /* 8 or 16 bits signed, as -1 to 1 */
    MT_TEXEL_SRGB,  /* 8 bits unsigned, with gamma removed from the first three channels */
};
/* Reads one texel as four channels of 32 bits: integers widened, everything else as floats. Missing
 * channels are 0, the fourth 1. (It is a vector because four words written one by one and read as one
 * stall the processor.) */
typedef uint32_t mt_texel __attribute__((vector_size(16)));
typedef mt_texel mt_texel_load(const void *texel);
/* Returns the loader of a format, or NULL if there is no such format. bits: per channel, 8, 16 or 32;
 * channels: 1, 2 or 4. */
mt_texel_load *mt_texel_loader(enum mt_texel_kind kind, unsigned bits, unsigned channels);

enum mt_tex_address { MT_TEX_WRAP, MT_TEX_CLAMP, MT_TEX_MIRROR, MT_TEX_BORDER };

/* An array, or one mipmap level of an array. */
struct mt_tex_level {
    char *data;
    int size[3]; /* width, height, depth in texels; 1 for a missing dimension */
    size_t pitch, slice;
};
#define MT_TEX_LEVELS 32
struct mt_texture {
    mt_texel_load *load;
    unsigned bytes; /* bytes of a texel */
    int channels;
    int floats; /* texels are 32-bit floats in memory */
    int layers; /* 1 if not layered; 6 for a cube, 6 each for layered cubes */
    int nlevels;
    uint8_t linear_memory; /* one row; texels outside read as 0 */
    uint8_t normalized;    /* coordinates range from 0 to 1 */
    uint8_t linear;        /* filtered between texels; the loader returns floats; excludes linear_memory */
    uint8_t linear_levels; /* filtered between levels */
    uint8_t seamless;      /* cubes: filtered across face edges */
    uint8_t address[3];    /* enum mt_tex_address */
    uint32_t border[4];    /* bit pattern */
    float bias, low, high; /* of the level of detail: bias and limits */
    /* Faster function for instructions that equal fast_what, set by mt_tex_prepare, or NULL. */
    void (*fast)(const struct mt_texture *t, const uint32_t *in, uint32_t out[4]);
    uint32_t fast_what;
    struct mt_tex_level level[MT_TEX_LEVELS];
};
struct mt_surface {
    struct mt_tex_level level;
    unsigned bytes;
    int layers;
};

/* Handles are never 0, and small numbers as in CUDA. */
enum mt_tex_object_kind { MT_TEX_OBJECT = 1, MT_SURF_OBJECT };
/* Registers `object` (a struct mt_texture or mt_surface), which must live until it is removed. Returns its
 * handle, or 0 if there are too many. */
uint64_t mt_tex_object_add(enum mt_tex_object_kind kind, const void *object);
const void *mt_tex_object_take(enum mt_tex_object_kind kind, uint64_t handle);

/* Completes a texture; called after all other fields are set. */
void mt_tex_prepare(struct mt_texture *t);
/* Samples without device thread or handle: the core of mt_cpu_tex (format/image.h). */
void mt_tex_sample(const struct mt_texture *t, uint32_t what, const uint32_t *in, uint32_t out[4]);
#endif
