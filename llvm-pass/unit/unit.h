/* What the pass knows of one device module while it works on it. One instance per module, on mt_pass_device's
 * stack; everything in it is freed by mt_unit_free. */
#ifndef MT_PASS_UNIT_H
#define MT_PASS_UNIT_H
#include <stdint.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include "memtrace/record.h"
#include "options.h"
#include "shim.h"
#include <llvm-c/DebugInfo.h>

/* A function that the AST side (or the user) annotated; strings are malloc'ed, NULL when absent. */
struct mt_facts {
    LLVMValueRef function; /* NULL: inlined everywhere and gone */
    char *name;            /* mangled */
    char *pretty, *file;
    unsigned line, column;
    int skip, trace;
    unsigned cluster[3]; /* of a kernel; 0: none */
};

struct mt_kernel {
    LLVMValueRef function; /* current one: the rewritten one once the hidden parameter is there */
    char *name;            /* mangled */
    char *pretty, *signature, *file;
    unsigned line;
    unsigned max_threads, min_blocks;
    unsigned cluster[3]; /* __cluster_dims__; 0: none */
    unsigned nparams;    /* the program's own */
    int traced;
    LLVMValueRef plain; /* the GPU's, without record calls (gpu_plain.c); NULL: none */
    int has_plain;      /* it will have one */
    int gpu_records;    /* the GPU's code will have it with record calls */
    int gpu_untraced;   /* but not on a GPU, where it would not compile with record calls */
    enum mt_word { MT_WORD_NONE, MT_WORD_STORED, MT_WORD_NO_ROOM } word; /* context.c */
    int sync;
    int frames; /* its functions keep frame pointers */
    int parted; /* lanes that its hardware keeps apart may be put together (lower/ways.c) */
    int flush;  /* runs with the processor's switch for denormals on */
    uint32_t shared_static;
    /* For which launches there is code for whole warps; SOME: of CTAs whose warps are whole, in rows. */
    enum mt_vector_for { MT_VECTOR_NONE, MT_VECTOR_PLAIN, MT_VECTOR_SOME, MT_VECTOR_ALL } vector;
    char no_vector[200]; /* why not for all */
};

struct mt_site {
    char *file, *function, *variable;
    uint32_t line, column, op, size, align, strong; /* as in image.def */
};

struct mt_note {
    char *what, *file;
    uint32_t line, kind;
};

/* A variable on the stack, and its place in the local memory that records speak of. */
struct mt_local {
    LLVMValueRef variable;
    uint64_t at;
};

struct mt_unit {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMTargetDataRef layout;
    const struct mt_pass_options *options;
    struct mt_facts *facts;
    unsigned nfacts;
    struct mt_kernel *kernels;
    unsigned nkernels;
    struct mt_site *sites;
    unsigned nsites;
    size_t sites_cap;
    char *site_variable; /* of the GPU's code, called after its sites; with -fgpu-rdc it adds it to them; or
                            NULL */
    struct mt_note *notes;
    unsigned nnotes;
    size_t notes_cap;
    struct mt_local *locals; /* by variable; NULL before the first record of one (spaces.c) */
    size_t nlocals, locals_cap;
    uint64_t shared_size; /* of the CPU image */
    int no_word;          /* a kernel has no room for the launch context's word: nothing reads it */
};

/* Variables and functions that host code names, for the linkers to keep (clang, -fgpu-rdc). */
#define MT_CLANG_USED "__clang_gpu_used_external"

/* unit.c */
void mt_unit_init(struct mt_unit *u, LLVMModuleRef module);
void mt_unit_free(struct mt_unit *u);

/* util.c */
int mt_starts(const char *text, const char *prefix);
int mt_ends(const char *text, const char *suffix);
/* Instructions of a function, collected first so that the function may change; free() the result. */
LLVMValueRef *mt_instructions(LLVMValueRef function, unsigned *count);
/* An access's alignment. (llvm-c has 32 bits for it, and LLVM gives the null pointer 2^32.) */
uint32_t mt_alignment(LLVMValueRef access);
/* parts.c: what a call reads of a struct that it passes as it lies in memory (byval): each member by itself.
 * `part` may be called as often as the struct has bytes. */
void mt_argument_parts(struct mt_unit *u, LLVMTypeRef type, uint64_t align, uint64_t offset,
                       void (*part)(void *ctx, uint64_t offset, uint32_t size), void *ctx);

/* The called function of a direct call, NULL otherwise; its name or "". */
LLVMValueRef mt_callee(LLVMValueRef call);
const char *mt_name(LLVMValueRef value);
/* A private constant of the module; the same of a string, whose address does not matter. */
LLVMValueRef mt_private_constant(LLVMModuleRef module, LLVMValueRef value, const char *name);
LLVMValueRef mt_private_text(LLVMModuleRef module, const char *text, const char *name);
LLVMTypeRef mt_type_ptr(const struct mt_unit *u);
LLVMTypeRef mt_type_int(const struct mt_unit *u, unsigned bits);
/* A function declaration in `module`, made if absent. */
LLVMValueRef mt_declare(LLVMModuleRef module, const char *name, LLVMTypeRef type);
/* Reads a bitcode file: a full path, or what lies beside the plugin (lib/memtrace/NAME).
 * NULL after a diagnostic. */
LLVMModuleRef mt_load_bitcode(struct mt_unit *u, const char *name);
void mt_diag(struct mt_unit *u, LLVMValueRef inst, enum mt_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#endif
