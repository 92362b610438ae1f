/* State of the pass for one device module. One instance per module, on mt_pass_device's stack;
 * mt_unit_free frees everything in it. */
#ifndef MT_PASS_UNIT_H
#define MT_PASS_UNIT_H
#include <stdint.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include "memtrace/record.h"
#include "options.h"
#include "shim.h"
#include <llvm-c/DebugInfo.h>

/* A function annotated by the AST side (or the user); strings are malloc'ed, NULL if absent. */
struct mt_facts {
    LLVMValueRef function; /* NULL: inlined everywhere and deleted */
    char *name;            /* mangled */
    char *pretty, *file;
    unsigned line, column;
    int skip, trace;
    unsigned cluster[3]; /* cluster of a kernel; 0: none */
};

struct mt_kernel {
    LLVMValueRef function; /* current one: the rewritten one once the hidden parameter is there */
    char *name;            /* mangled */
    char *pretty, *signature, *file;
    unsigned line;
    unsigned max_threads, min_blocks;
    unsigned cluster[3]; /* __cluster_dims__; 0: none */
    unsigned nparams;    /* number of the program's own parameters */
    int traced;
    LLVMValueRef plain; /* the GPU's version without record calls (gpu/context.c), or NULL */
    int has_plain;      /* 1: it will have one */
    int gpu_records;    /* 1: the GPU's code gets it with record calls */
    int gpu_untraced;   /* 1: untraced on a GPU, where it would not compile with record calls */
    enum mt_word { MT_WORD_NONE, MT_WORD_STORED, MT_WORD_NO_ROOM } word; /* context.c */
    int sync;
    int frames; /* 1: its functions keep frame pointers */
    int parted; /* 1: lanes that hardware keeps apart may be joined (lower/loops.c) */
    int flush;  /* 1: runs with the processor's denormal flush on */
    uint32_t shared_static;
    /* Launches for which there is code for whole warps; SOME: CTAs whose warps are whole, in rows. */
    enum mt_vector_for { MT_VECTOR_NONE, MT_VECTOR_PLAIN, MT_VECTOR_SOME, MT_VECTOR_ALL } vector;
    char no_vector[200]; /* reason why not for all */
};

struct mt_site {
    char *file, *function, *variable;
    uint32_t line, column, op, size, align, scope, order, object, overwrites; /* fields as in image.def */
};

/* A variable that accesses must stay in (trace/objects.c). Fields as in image.def. */
struct mt_bounds {
    LLVMValueRef base; /* variable or alloca of the instrumented module */
    char *symbol;      /* name of a variable in the module, or "" */
    char *name;
    uint64_t offset, bytes;
    uint32_t space, dynamic;
    LLVMValueRef place; /* of the CPU image */
};

struct mt_note {
    char *what, *file;
    uint32_t line, kind;
};

/* A variable on the stack, and its offset in the local memory that records name. */
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
    char *site_variable; /* name of the GPU code's variable after its sites; with -fgpu-rdc the code adds
                          * it to them; or NULL */
    struct mt_bounds *objects;
    unsigned nobjects;
    size_t objects_cap;
    struct mt_note *notes;
    unsigned nnotes;
    size_t notes_cap;
    struct mt_local *locals; /* sorted by variable; NULL before the first record of one (context.c) */
    size_t nlocals, locals_cap;
    uint64_t shared_size; /* bytes of shared memory of the CPU image */
    int no_word;          /* 1: a kernel has no room for the launch context's word, so nothing reads it */
};

/* List of variables and functions named by host code, for the linkers to keep (clang, -fgpu-rdc). */
#define MT_CLANG_USED "__clang_gpu_used_external"

void mt_unit_init(struct mt_unit *u, LLVMModuleRef module);
void mt_unit_free(struct mt_unit *u);

int mt_starts(const char *text, const char *prefix);
int mt_ends(const char *text, const char *suffix);
/* Returns the instructions of a function as an array, so that the function may change; free() it. */
LLVMValueRef *mt_instructions(LLVMValueRef function, unsigned *count);
/* Lists the loads of a call for a struct passed by value (byval), each member by itself. `part` may be called
 * once per byte of the struct. */
void mt_argument_parts(struct mt_unit *u, LLVMTypeRef type, uint64_t align, uint64_t offset,
                       void (*part)(void *ctx, uint64_t offset, uint32_t size), void *ctx);

/* Return the callee of a direct call, else NULL; and its name or "". */
LLVMValueRef mt_callee(LLVMValueRef call);
const char *mt_name(LLVMValueRef value);
/* Make a private constant of the module, and one of a string whose address does not matter. */
LLVMValueRef mt_private_constant(LLVMModuleRef module, LLVMValueRef value, const char *name);
LLVMValueRef mt_private_text(LLVMModuleRef module, const char *text, const char *name);
LLVMTypeRef mt_type_ptr(const struct mt_unit *u);
LLVMTypeRef mt_type_int(const struct mt_unit *u, unsigned bits);
/* Returns a function declaration in `module`, made if absent. */
LLVMValueRef mt_declare(LLVMModuleRef module, const char *name, LLVMTypeRef type);
/* Reads a bitcode file: a full path, or a file beside the plugin (lib/memtrace/NAME). Returns NULL after a
 * diagnostic. */
LLVMModuleRef mt_load_bitcode(struct mt_unit *u, const char *name);
void mt_diag(struct mt_unit *u, LLVMValueRef inst, enum mt_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#endif
