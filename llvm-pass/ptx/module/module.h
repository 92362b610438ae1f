/* Whole modules of PTX: the text becomes LLVM IR for NVPTX, of the shape that clang makes of CUDA, with its
 * kernels marked and debug locations. Later steps do not know where the IR came from. PTX ISA 6.0
 * to 9.0, 64 bit.
 *
 * Plain arithmetic, conversions, loads, stores, branches and calls are plain IR; each other instruction is
 * one call of inline asm, for which asm.h's table of opcodes holds. No function prints or aborts. Not shared
 * between threads. */
#ifndef MT_PASS_MODULE_H
#define MT_PASS_MODULE_H
#include <stddef.h>
#include <llvm-c/Core.h>

/* The module that the text was made of, where it knows better where instructions come from: the location that
 * the line of a .loc stands for, and a function's subprogram; NULL: none. `begin` gets the new module first,
 * to give it the debug information that these belong to. */
struct mt_ptx_origin {
    void (*begin)(void *ctx, LLVMModuleRef made);
    LLVMMetadataRef (*location)(void *ctx, unsigned line);
    LLVMMetadataRef (*subprogram)(void *ctx, const char *function);
    int (*never)(void *ctx, unsigned line); /* is its `exit` where no thread can come to? */
    void *ctx;
};

/* What is wanted of a module. A large one is compiled kernel by kernel: the base is what they share, its
 * variables and the functions that are called by pointer; a kernel comes with what it calls, and finds the
 * base's under names with MT_DEVICE_PREFIX (format/image.h). */
enum mt_ptx_part { MT_PTX_WHOLE, MT_PTX_BASE, MT_PTX_KERNEL };

/* Lines of a file, of code that a kernel has. */
struct mt_ptx_place {
    LLVMMetadataRef file; /* NULL: the PTX itself */
    unsigned line, lines; /* the first one, and how many */
};
/* The file's path, malloc'ed; NULL: the PTX, or no memory. */
char *mt_ptx_place_file(const struct mt_ptx_place *place);

/* What the image of one kernel is made of. Where the text is the same in two versions of a module, the images
 * are, but for lines: those of one version's places are those of the other's, in their order. */
struct mt_ptx_content {
    const char *kernel, *text;
    size_t length;
    const struct mt_ptx_place *places;
    unsigned nplaces;
};

struct mt_ptx_source {
    const char *name; /* of the file: for lines where the PTX has no .loc */
    const char *text;
    size_t length;
    /* What could not be read: the line in the text, counted from 1, and a sentence. */
    void (*tell)(void *ctx, unsigned line, const char *message);
    /* Of a part: its kernel, of a base each of the kernels that it leaves to others. 0, or -1: no memory. */
    int (*content)(void *ctx, const struct mt_ptx_content *content);
    void *ctx;
    enum mt_ptx_part part;
    const char *kernel;                 /* MT_PTX_KERNEL: its name */
    const struct mt_ptx_origin *origin; /* or NULL */
    uint64_t limit; /* bytes that declarations may ask for in addition to 16 times their text; 0: the usual
                       number */
};
#define MT_PTX_LIMIT (16u << 20)

/* What was read of a module. */
struct mt_ptx_result {
    unsigned functions; /* with a body, kernels among them */
    unsigned kernels;
    unsigned
        failed;     /* functions that were not understood: they run into an instruction that nobody can run */
    unsigned lines; /* 1: the PTX has lines of its source; 0: its own are taken */
    unsigned architecture; /* the N of .target sm_N */
    /* Not of a whole module: */
    int pointers;          /* 1: it has functions that are called by pointer */
    const char *undivided; /* why no base can be made; NULL: it can */
};

/* An attribute of functions with a body: that N, which may be newer than what LLVM compiles for. */
#define MT_PTX_ARCHITECTURE "memtrace-ptx-architecture"

/* The module, which the caller owns, or NULL after `tell`: the text outside of functions is not understood,
 * or what was made is not valid; or without, `undivided`. */
LLVMModuleRef mt_ptx_read(LLVMContextRef context, const struct mt_ptx_source *source,
                          struct mt_ptx_result *result);

/* on 1: until it is called with 0, LLVM's passes make no load of these functions where the PTX has none, as
 * they would out of an `if` where the address is a variable's. The PTX was optimised, and the hardware loads
 * what it says. */
void mt_ptx_keep_loads(LLVMModuleRef module, int on);

/* Integers that are addresses become pointers to what they point into, where that is known. mt_ptx_read has
 * done it; after passes that made values of variables more are known. */
void mt_ptx_find_pointers(LLVMValueRef function);

/* The load or store is volatile until it is released: no pass leaves it out or joins it with another. When a
 * module has been read, each access to global memory or by a generic address is, as ptxas leaves out few;
 * one of the stack is only if the module is compiled for a debugger. */
void mt_ptx_keep_access(LLVMValueRef inst, const char *opcode);
const char *mt_ptx_kept_as(LLVMValueRef inst); /* its opcode; NULL: it is not kept */
void mt_ptx_release_access(LLVMValueRef inst);
void mt_ptx_release_accesses(LLVMModuleRef module); /* all of them */
/* A product, sum or difference of floats that is not to be fused with another, or only by ptxas. */
void mt_ptx_keep_word(LLVMValueRef inst, const char *opcode);
/* module_spell.c, in the place of that, for the GPU: what is kept becomes inline asm, the instructions that
 * it was read from, so that the back end does not put others in their place. */
void mt_ptx_spell(LLVMModuleRef module);
#endif
