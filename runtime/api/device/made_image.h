/* CPU images of device code that came without one: made by mt-ptx, a process beside the program's, kept in a
 * folder of the user's (base/cache.h), then loaded. Thread-safe. */
#ifndef MT_API_MADE_IMAGE_H
#define MT_API_MADE_IMAGE_H
#include <stddef.h>
#include <stdint.h>

struct mt_module;
struct mt_image;
/* Device code in memory: PTX as text, a fatbin, a cubin, or what a linker of ours has made: fatbins after
 * such a head, each at a multiple of 8, that are to become one image. */
struct mt_device_code {
    const void *data;
    size_t bytes;
};
struct mt_linked_code {
    char magic[8];  /* MT_LINKED_MAGIC; no PTX, fatbin or ELF begins so */
    uint64_t bytes; /* of all, with this head */
};
#define MT_LINKED_MAGIC "\177MTLINK"
/* How long such code is, as it says itself; 0: it is not one of these. PTX ends with NUL. */
size_t mt_device_code_bytes(const void *data);

/* After the image, at a multiple of 8: PTX whose lines are those of its accesses, each text after such a
 * head and with zeros up to 8. */
struct mt_made_text {
    char
        name[48]; /* what sites call the file; of its contents alone. "": no such text, but kernels, a struct
                     mt_made_kernel each: of a base those that have images of their own, of a kernel itself */
    uint64_t bytes;
};

/* Lines of a kernel's code. */
struct mt_made_place {
    uint32_t file; /* mt_made_file of its path; 0: the PTX */
    uint32_t line, lines;
    uint32_t pad;
};
struct mt_made_kernel {
    uint64_t bytes;   /* of this, with the places and the name */
    char content[40]; /* what it is made of, as a hash. "": nobody else's image will do */
    char ptx[48];     /* what sites call the PTX, where its lines are theirs */
    uint64_t nplaces;
    struct mt_made_place places[]; /* then the name, ended by NUL, and zeros up to 8 */
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

/* In a text of kernels of that many bytes: the first one, or the next one; NULL: there is no more. */
const struct mt_made_kernel *mt_made_kernel_next(const void *text, size_t bytes,
                                                 const struct mt_made_kernel *last);

/* ---- an image that mt-ptx makes, or that the folder has already; others may be begun while one is waited
 * for ---- */

struct mt_making;
struct mt_made_code;
int mt_making_kept(const struct mt_making *w); /* it was in the folder */
void mt_making_drop(struct mt_making *w);      /* mt-ptx sees it, and ends */

/* ---- images of modules that came without one ---- */

/* What the program or library is called that the module's code is in; the dynamic linker knows. */
const char *mt_made_name(const struct mt_module *m);
/* Begins to have a kernel's image made; NULL: it cannot be. */
struct mt_making *mt_made_begin(const struct mt_module *m, const char *name,
                                const struct mt_made_kernel *kernel);
/* Has an image made of the module's device code, which takes seconds at times: that of a kernel of which
 * its base has said so, or NULL;
 * `begun` is used up, or NULL. NULL: no memory. */
struct mt_made_code *mt_made_ask(const struct mt_module *m, const char *name,
                                 const struct mt_made_kernel *kernel, struct mt_making *begun);
/* The kernels that are to be asked for by name (mt_made_kernel_next), the caller's to free; NULL: all are in
 * the image. */
void *mt_made_kernels(const struct mt_made_code *c, size_t *bytes);
/* Loads it, a kernel's under the `base` that came before and with its lines there, or NULL; and says what
 * could not be done of the code. NULL: *why is a sentence, which stays. */
struct mt_image *mt_made_load(struct mt_made_code *c, struct mt_image *base,
                              const struct mt_made_kernel *kernel, const char **why);
void mt_made_free(struct mt_made_code *c);
#endif
