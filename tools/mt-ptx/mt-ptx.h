/* mt-ptx: CPU images of device code that another compiler has turned into PTX.
 *
 * input.c   finds the PTX in a file: a text, or fatbins, alone or in an ELF file
 * fatbin.c  entries of fatbins, unpacked
 * image.c   PTX to IR, IR to an object, the object to the file that the runtime loads
 * serve.c   as the runtime of a traced program calls it
 * cache.c   what is kept of that
 * main.c    the command line
 *
 * Messages go to stderr as "FILE:LINE: …" or "mt-ptx: …". Functions return 0, or the exit code after a
 * message: 1 failure, 3 input that is damaged. */
#ifndef MT_TOOLS_MT_PTX_H
#define MT_TOOLS_MT_PTX_H
#include <stddef.h>
#include <stdint.h>
#include "../cudabin/cudabin.h"

/* ---- fatbin.c */
#define FATBIN_PTX 1
#define FATBIN_ELF 2
struct fatbin_entry {
    unsigned kind, arch; /* FATBIN_…; the N of compute_N or sm_N */
    uint64_t flags;
    const unsigned char *data; /* as it lies there */
    size_t size, unpacked;     /* bytes there; after unpacking, 0: it is not packed */
};
/* Calls `each` for all entries of all fatbins that are in the bytes one after the other. 0, or 3. */
int mt_ptxtool_fatbin_walk(const char *name, const unsigned char *data, size_t size,
                           int (*each)(void *ctx, unsigned fatbin, const struct fatbin_entry *e), void *ctx);
int mt_ptxtool_fatbin_is(const unsigned char *data, size_t size);
/* The entry's bytes; out is the caller's to free. */
int mt_ptxtool_fatbin_unpack(const char *name, const struct fatbin_entry *e, struct bytes *out);

/* ---- input.c */
struct module {                  /* device code of one source file: one fatbin, or a text */
    unsigned number, nptx, nelf; /* entries of PTX and of machine code */
    struct fatbin_entry best;    /* PTX for the newest architecture; data NULL: none */
};
struct input {
    const char *name;
    struct bytes file;
    struct module *modules;
    unsigned n;
};
int mt_ptxtool_input_read(const char *name, struct input *in);
void mt_ptxtool_input_free(struct input *in);

/* ---- image.c */
struct request {
    const char *input, *output;
    int emit_ir, list, verbose, number; /* number: of the module that is wanted; -1: there is but one */
    char level;                         /* '0' to '3' */
    int serve, cache_list, cache_clear;
    const char *cache, *cache_key; /* the folder, NULL: the user's; the name there, NULL: it is not kept */
    uint64_t cache_limit;
    void (*stage)(const char *name); /* told what begins now, NULL: nobody */
};
/* PTX with the name that it has in messages. */
struct ptx {
    const char *name, *text;
    size_t size;
};
/* Reads the texts, which make one program, and writes what is asked for. */
int mt_ptxtool_image_make(const struct request *r, const struct ptx *ptx, unsigned n);

/* ---- serve.c
 * Device code comes in descriptor 0; the image, as the cache has it, goes to 1, words go to 2, which are
 * files; 3 is a socket: stages go there, and when its other end closes nobody waits any more. */
int mt_ptxtool_serve(struct request *r);

/* ---- cache.c */
int mt_ptxtool_cache(const struct request *r);
#endif
