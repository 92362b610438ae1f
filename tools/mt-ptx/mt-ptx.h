/* mt-ptx: CPU images of device code that another compiler has turned into PTX.
 *
 * input.c   finds the device code in a file: a text, or fatbins, alone or in an ELF file
 * fatbin.c  entries of fatbins, unpacked
 * cubin.c   names of the kernels in machine code
 * check.c   what of it cannot run
 * choose.c  which PTX of several is taken, and what is read of it
 * image.c   PTX to IR, IR to an object, the object to the file that the runtime loads
 * list.c    what a file has
 * serve.c   as the runtime of a traced program calls it
 * cache.c   what is kept of that
 * main.c    the command line
 *
 * Messages go to stderr as "FILE:LINE: …" or "memtrace: …". Functions return 0, or the exit code after a
 * message: 1 failure, 3 input that is damaged. */
#ifndef MT_TOOLS_MT_PTX_H
#define MT_TOOLS_MT_PTX_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include "ptx/module/module.h"
#include "../cudabin/cudabin.h"

/* ---- fatbin.c */
struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* bytes that follow the header */
};
struct entry_header {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size; /* bytes that follow this header, padded */
    uint32_t packed_size, options;
    uint16_t minor, major;
    uint32_t arch, name_offset, name_size;
    uint64_t flags, reserved, unpacked_size;
};
_Static_assert(sizeof(struct fatbin_header) == 16, "as in the file");
_Static_assert(sizeof(struct entry_header) == 64, "as in the file");
#define FATBIN_PTX 1
#define FATBIN_ELF 2
#define FATBIN_LTO 8            /* LLVM IR of nvcc's, for its device linker */
#define FATBIN_ALONE 0x100000u  /* flags: for this architecture alone (compute_90a) */
#define FATBIN_FAMILY 0x200000u /* or its family (compute_100f) */
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
/* Bytes that a small input may become, and that its text may ask for without saying them (--limit). */
extern uint64_t mt_ptxtool_limit;
/* The entry's bytes; out is the caller's to free. */
int mt_ptxtool_fatbin_unpack(const char *name, const struct fatbin_entry *e, struct bytes *out);

/* ---- input.c */
struct module { /* device code of one source file: one fatbin, or a text */
    unsigned number, n;
    struct fatbin_entry *entries;
};
struct input {
    const char *name;
    struct bytes file;
    struct module *modules;
    unsigned n;
};
int mt_ptxtool_input_read(const char *name, struct input *in);
void mt_ptxtool_input_free(struct input *in);
unsigned mt_ptxtool_module_has(const struct module *m, unsigned kind); /* how many entries of this kind */

/* ---- cubin.c
 * Calls `each` for the name of each kernel in machine code. 0, or 3 when it is damaged. */
int mt_ptxtool_cubin_kernels(const struct bytes *cubin, void (*each)(void *ctx, const char *name), void *ctx);

/* ---- check.c
 * How many functions of the module have an instruction that the CPU device cannot run; the first of each is
 * told as mt_ptx_read says what it does not understand. */
unsigned mt_ptxtool_check(LLVMModuleRef module, FILE *said);

/* ---- choose.c */
struct reading {
    LLVMModuleRef module; /* the caller's; NULL: not even outside of functions was it understood */
    struct mt_ptx_result result;
    const struct fatbin_entry *entry;
    int later;            /* that is not the first choice */
    struct bytes kernels; /* of a part: struct mt_made_kernel, as the runtime gets them */
    struct bytes text;
    char *said;    /* messages, each ended by LF; "" */
    char name[48]; /* of the text, for lines that are its own */
};
/* What is wanted of a module. */
struct wanted {
    enum mt_ptx_part part;
    const char *kernel; /* of such a part */
    uint64_t divide;    /* bytes of PTX that are not worth it: no base is made of so few */
};
/* Reads the PTX of the module that is the best for the CPU device. It says that it is an sm_90, and programs
 * choose what they do by that; so the newest up to it comes first, as the driver takes it, then what is
 * newer; the first one is taken of which everything is understood, or of which the least is not. `name`: what
 * messages call it; NULL: by what it holds. 0, or the exit code when there is none or it is damaged. Of a
 * module that cannot be divided no base is read, and the result says so. */
int mt_ptxtool_read_best(LLVMContextRef context, const char *input, const struct module *m, const char *name,
                         const struct wanted *w, struct reading *out);
void mt_ptxtool_reading_free(struct reading *r); /* but not the module */

/* ---- image.c */
struct request {
    const char *input, *output;
    int emit_ir, list, verbose, number; /* number: of the module that is wanted; -1: there is but one */
    int serve, cache_list, cache_clear;
    const char *cache; /* the folder, NULL: the user's */
    /* The name there, NULL: it is not kept; or two: of what any version of the program may take, and, where
     * there is more to it than its contents, of this version's */
    const char *cache_key;
    int *alone; /* set to 1 when that is so */
    uint64_t cache_limit;
    void (*stage)(const char *name); /* told what begins now, NULL: nobody */
    int base; /* of one module with more than `divide` bytes of PTX only what its kernels share, */
    uint64_t divide;
    const char *kernel; /* and of such a module this one; NULL: all */
};
/* Reads the modules, which make one program, and writes what is asked for. `texts` gets those whose lines
 * nobody else's source has, one after the other (struct mt_made_text), or is NULL. Behind them, without a
 * name: the kernels of a module of which a base was made, each ended by NUL. */
int mt_ptxtool_image_make(const struct request *r, const char *input, const struct module *modules,
                          unsigned n, struct bytes *texts);

/* ---- say.c */

/* From here on what goes to stderr is made visible, as other tools do it (base/text.h). */
void mt_ptxtool_say_visibly(void);
/* A signal that this process brings about (LLVM's code generator dies) is said with a way out; it ends by it
 * all the same. NULL: no kernel is known. */
void mt_ptxtool_say_signals(const char *kernel);
/* Lines of text, made visible. */
void mt_ptxtool_put(FILE *to, const char *text);

/* ---- list.c */
int mt_ptxtool_list(const struct input *in);

/* ---- serve.c
 * Device code comes in descriptor 0; the image, as the cache has it, goes to 1, words go to 2, which are
 * files; 3 is a socket: stages go there, and when its other end closes nobody waits any more. */
int mt_ptxtool_serve(struct request *r);

/* ---- cache.c */
int mt_ptxtool_cache(const struct request *r);
#endif
