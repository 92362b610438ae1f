/* CPU images of device code that came without one: made by mt-ptx, a process beside the program's, and kept
 * in a folder of the user's (base/cache.h). Thread-safe. */
#ifndef MT_API_MAKE_H
#define MT_API_MAKE_H
#include <stddef.h>
#include <stdint.h>

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

struct mt_made {
    void *block;        /* the caller's to free when the image is loaded */
    const void *fatbin; /* with the image after: for mt_image_load_all */
    const char *words;  /* what mt-ptx had to say, lines without a prefix; not ended by NUL */
    size_t nwords;
    const struct mt_made_text *texts; /* `ntexts` bytes of them */
    size_t ntexts;
    int kept; /* it was there already */
};
/* The first text, or the next one; NULL: there is no more. Its bytes come after the head. */
const struct mt_made_text *mt_made_next(const struct mt_made *made, const struct mt_made_text *last);
/* In a text of kernels of that many bytes: the first one, or the next one; NULL: there is no more. */
const struct mt_made_kernel *mt_made_kernel_next(const void *text, size_t bytes,
                                                 const struct mt_made_kernel *last);
struct mt_to_make {
    const struct mt_device_code *code; /* fatbins that belong together (-rdc), or one piece of any kind */
    size_t n;
    const char *what;    /* messages call it so */
    const char *kernel;  /* of a module that is divided: this kernel's image. NULL: all of it, or what kernels
                            share */
    const char *content; /* what that is made of (mt_made_kernel), or "" */
};
/* Makes one image of the code, or takes it from the folder, in two steps: others may be begun while one is
 * waited for. The code must stay where it is until the end. Begins; NULL with a sentence in *why. */
struct mt_making;
struct mt_making *mt_image_begin(const struct mt_to_make *m, char *why, size_t size);
int mt_image_begun_here(const struct mt_making *w); /* 0: before a fork; what is waited for is another's */
int mt_image_was_kept(const struct mt_making *w);
/* Waits for it as `what`, and frees w. May take seconds, and says so then. 0, or -1 with *why. */
int mt_image_end(struct mt_making *w, const char *what, struct mt_made *out, char *why, size_t size);
void mt_image_drop(struct mt_making *w); /* mt-ptx sees it, and ends */
#endif
