/* CPU images of device code that came without one: made by a separate process, mt-ptx, cached in a folder of
 * the user (base/cache.h), then loaded. Thread-safe. */
#ifndef MT_API_MADE_IMAGE_H
#define MT_API_MADE_IMAGE_H
#include <stddef.h>
#include <stdint.h>

struct mt_module;
struct mt_image;
/* Device code in memory: PTX text, a fatbin, a cubin, or the output of our linker: this head, then fatbins at
 * multiples of 8 that become one image. */
struct mt_device_code {
    const void *data;
    size_t bytes;
};
struct mt_linked_code {
    char magic[8];  /* MT_LINKED_MAGIC; differs from the start of PTX, fatbins and ELF */
    uint64_t bytes; /* total size, with this head */
};
#define MT_LINKED_MAGIC "\177MTLINK"
/* Returns the length of such code from its own headers, or 0 for anything else. PTX ends with NUL. */
size_t mt_device_code_bytes(const void *data);

/* Head of each text after the image, at a multiple of 8: PTX that the lines of its accesses refer to, padded
 * with zeros to 8. */
struct mt_made_text {
    char name[48]; /* file name in sites, derived from the contents alone. "": a list of struct mt_made_kernel
                      instead of text: in a base those with images of their own, in a kernel's image the
                      kernel itself */
    uint64_t bytes;
};

/* Lines of a kernel's code. */
struct mt_made_place {
    uint32_t file; /* mt_made_file of its path; 0: the PTX */
    uint32_t line, lines;
    uint32_t pad;
};
struct mt_made_kernel {
    uint64_t bytes;   /* size of this structure, with places and name */
    char content[40]; /* hash of its source. "": only its own image will do */
    char ptx[48];     /* file name of the PTX in sites, if lines refer to it */
    uint64_t nplaces;
    struct mt_made_place places[]; /* followed by the name, a NUL, and zeros up to 8 */
};
static inline const char *mt_made_kernel_name(const struct mt_made_kernel *k)
{
    return (const char *)(k->places + k->nplaces);
}
static inline uint32_t mt_made_file(const char *path)
{
    uint32_t h = 2166136261u;
    for (; *path; path++)
        h = (h ^ (unsigned char)*path) * 16777619u;
    return h ? h : 1;
}

/* Returns the next kernel in a list of that many bytes, or the first one, or NULL at the end. */
const struct mt_made_kernel *mt_made_kernel_next(const void *text, size_t bytes,
                                                 const struct mt_made_kernel *last);

/* ---- images that mt-ptx makes, or that are cached; several may be in progress at once ---- */

struct mt_making;
struct mt_made_code;

/* ---- images of modules that came without one ---- */

#endif
