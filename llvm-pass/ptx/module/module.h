/* Whole modules of PTX: turns the text into LLVM IR for NVPTX as clang makes it from CUDA, with kernels
 * marked and debug locations, so that later steps need not know its origin. PTX ISA 6.0 to 9.0, 64 bit.
 * Plain arithmetic, conversions, loads, stores, branches and calls become plain IR; each other instruction
 * becomes one call of inline asm under asm.h's table of opcodes. No function prints or aborts. Not shared
 * between threads. */
#ifndef MT_PASS_MODULE_H
#define MT_PASS_MODULE_H
#include <stddef.h>
#include <llvm-c/Core.h>

/* The module from which the text was made, if it knows instruction locations better: gives the location
 * for the line of a .loc, and a function's subprogram; NULL: none. `begin` gets the new module first, to
 * give it the debug information that these belong to. */
struct mt_ptx_origin {
    void (*begin)(void *ctx, LLVMModuleRef made);
    LLVMMetadataRef (*location)(void *ctx, unsigned line);
    LLVMMetadataRef (*subprogram)(void *ctx, const char *function);
    int (*never)(void *ctx, unsigned line); /* returns 1 if the `exit` on this line is unreachable */
    void *ctx;
};

/* Part of a module to make. A large module is compiled kernel by kernel. The base has all that they share:
 * variables, and functions called by pointer. A kernel comes with the functions it calls, and finds the
 * base's under names with MT_DEVICE_PREFIX (format/image.h). */
enum mt_ptx_part { MT_PTX_WHOLE, MT_PTX_BASE, MT_PTX_KERNEL };

/* Lines of a file with code of a kernel. */
struct mt_ptx_place {
    LLVMMetadataRef file; /* NULL: the PTX itself */
    unsigned line, lines; /* first line, and number of lines */
};
/* Returns the file's path, malloc'ed; NULL: the PTX itself, or no memory. */
char *mt_ptx_place_file(const struct mt_ptx_place *place);

/* Input of the image of one kernel. If the text is the same in two versions of a module, so are the
 * images, except for lines: the places of both versions correspond in order. */
struct mt_ptx_content {
    const char *kernel, *text;
    size_t length;
    const struct mt_ptx_place *places;
    unsigned nplaces;
};

struct mt_ptx_source {
    const char *name; /* name of the file, for lines if the PTX has no .loc */
    const char *text;
    size_t length;
    /* Reports an unreadable part: line of the text, counted from 1, and a sentence. */
    void (*tell)(void *ctx, unsigned line, const char *message);
    /* For parts: gets the kernel, or for a base each of the kernels left to others. Returns 0, or -1
     * without memory. */
    int (*content)(void *ctx, const struct mt_ptx_content *content);
    void *ctx;
    enum mt_ptx_part part;
    const char *kernel;                 /* MT_PTX_KERNEL: its name */
    const struct mt_ptx_origin *origin; /* original module; or NULL */
    uint64_t limit; /* bytes that declarations may request beyond 16 times their text; 0: the default */
};
#define MT_PTX_LIMIT (16u << 20)

/* Results for a module that was read. */
struct mt_ptx_result {
    unsigned functions; /* number with a body, including kernels */
    unsigned kernels;
    unsigned failed;       /* functions not understood, which become an invalid instruction */
    unsigned lines;        /* 1: the PTX has source lines; 0: its own lines are used */
    unsigned architecture; /* the N of .target sm_N */
    /* For parts only: */
    int pointers;          /* 1: some functions are called by pointer */
    const char *undivided; /* reason why no base can be made, or NULL */
};

/* Attribute of functions with a body: that N, which may be newer than LLVM supports. */
#define MT_PTX_ARCHITECTURE "memtrace-ptx-architecture"

/* Returns the module, owned by the caller. Returns NULL after `tell` if the text outside of functions is
 * not understood or the result is invalid, or without a call of it for `undivided`. */
LLVMModuleRef mt_ptx_read(LLVMContextRef context, const struct mt_ptx_source *source,
                          struct mt_ptx_result *result);

/* on 1: until a call with 0, LLVM's passes add no loads to these functions (as they would move one out of
 * an `if` for the address of a variable). The PTX was optimised, and the hardware executes exactly its
 * loads. */
void mt_ptx_keep_loads(LLVMModuleRef module, int on);

/* Turns integers that are addresses into pointers to their objects, where known. mt_ptx_read has done so;
 * more are known after passes that make variables values. */
void mt_ptx_find_pointers(LLVMValueRef function);

/* Makes the load or store volatile until it is released, so that no pass drops or joins it. A module that
 * was read has all accesses to global memory and by generic addresses kept, since ptxas drops few;
 * accesses to the stack only if it is compiled for a debugger. */
void mt_ptx_keep_access(LLVMValueRef inst, const char *opcode);
const char *mt_ptx_kept_as(LLVMValueRef inst); /* opcode of a kept access; NULL: not kept */
void mt_ptx_release_access(LLVMValueRef inst);
void mt_ptx_release_accesses(LLVMModuleRef module); /* releases all of them */
/* module_spell.c, used instead for the GPU: turns kept instructions into inline asm of the instructions
 * they were read from, so that the back end does not replace them. */
void mt_ptx_spell(LLVMModuleRef module);
#endif
