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
    int flush;  /* runs with the processor's switch for denormals on */
    uint32_t shared_static;
    /* For which launches there is code for whole warps; SOME: of CTAs whose warps are whole, in rows. */
    enum mt_vector_for { MT_VECTOR_NONE, MT_VECTOR_PLAIN, MT_VECTOR_SOME, MT_VECTOR_ALL } vector;
    char no_vector[200]; /* why not for all */
};

struct mt_site {
    char *file, *function, *variable;
    uint32_t line, column, op, size, align;
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

struct mt_lowering;

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
    /* vector/run.c, or NULL: code for whole warps of all kernels, after the CPU image's builtins are linked.
     */
    void (*vector)(struct mt_lowering *l);
    int no_word; /* a kernel has no room for the launch context's word: nothing reads it */
};

/* Variables and functions that host code names, for the linkers to keep (clang, -fgpu-rdc). */
#define MT_CLANG_USED "__clang_gpu_used_external"

void mt_unit_init(struct mt_unit *u, LLVMModuleRef module);
void mt_unit_free(struct mt_unit *u);

/* facts.c: our entries of llvm.global.annotations become metadata that names functions by text. Were there
 * any? */
int mt_keep_annotations(LLVMModuleRef module);
/* Reads and removes what there is of both; kernels from nvvm.annotations. */
void mt_unit_read_facts(struct mt_unit *u);
const struct mt_facts *mt_unit_facts(const struct mt_unit *u, LLVMValueRef function);
const struct mt_facts *mt_unit_facts_by_name(const struct mt_unit *u, const char *mangled);
struct mt_kernel *mt_unit_kernel(struct mt_unit *u, LLVMValueRef function);

/* names.c: names of the source. */
/* Writes the names of the parameters, which an annotation of the AST side lists, into the function, which
 * must still have the parameters that clang gave it. Nothing is written where the two do not agree. */
void mt_name_params(LLVMValueRef function, const char *text, size_t length);
/* The names that a function's parameters have, for another version of it with the same parameters. */
void mt_copy_param_names(LLVMValueRef from, LLVMValueRef to);
/* Name of a function's parameter; malloc'ed or NULL. */
char *mt_param_name(LLVMValueRef param);
/* Source name of what a pointer is based on; malloc'ed, or NULL: there is none, or several. */
char *mt_variable_of(LLVMValueRef pointer);

/* sites.c */
/* align: what the access needs of its address, 0 unknown; `variable` is taken over. */
uint32_t mt_unit_add_site(struct mt_unit *u, LLVMValueRef inst, uint32_t op, uint32_t size, uint32_t align,
                          char *variable);
uint32_t mt_unit_add_note(struct mt_unit *u, LLVMValueRef inst, uint32_t kind, const char *what);
/* When all sites are there: names u->site_variable by what the sites are. Files with the same sites may share
 * it; the code of another architecture has it if its sites are the same. */
void mt_unit_name_sites(struct mt_unit *u);
/* Is the source place of this instruction to be traced ([[memtrace::skip]], #pragma memtrace off)? */
int mt_unit_wanted(const struct mt_unit *u, LLVMValueRef inst);

/* access.c: what an instruction does to memory. */
enum mt_space {
    MT_SPACE_NONE,
    MT_SPACE_GLOBAL,
    MT_SPACE_GENERIC, /* to be asked at run time */
    MT_SPACE_SHARED,  /* from here on: certainly not global */
    MT_SPACE_LOCAL,
    MT_SPACE_ON_CHIP, /* shared or local */
    MT_SPACE_OTHER    /* constants, parameters */
};
static inline int mt_space_may_be_global(enum mt_space s)
{
    return s <= MT_SPACE_GENERIC;
}

struct mt_access {
    enum mt_access_type op;
    LLVMValueRef pointer; /* pointer or i64 address */
    int64_t offset;       /* to add to pointer */
    uint32_t size;        /* bytes, or 0 when `bytes` says */
    LLVMValueRef bytes;   /* run-time length (any integer type), or NULL */
    LLVMValueRef
        only_if; /* integer: the access happens when it is not 0 (or, only_if_not, when it is); or NULL */
    int only_if_not;
    unsigned lanes; /* only the first so many of a warp do it; 0: all */
    enum mt_space space;
    int global_only; /* in shared memory it is a barrier's, which has a record of its own */
};
#define MT_MAX_ACCESSES 4
/* Fills out[]; returns how many, or -1 when the instruction touches global memory in a way that has no record
 * (*what, static or until the next call, says how). */
int mt_access_of(struct mt_unit *u, LLVMValueRef inst, struct mt_access out[MT_MAX_ACCESSES],
                 const char **what);
/* What a call of inline asm does to shared memory; as mt_access_of. */
int mt_shared_accesses_of_asm(struct mt_unit *u, LLVMValueRef call, struct mt_access out[MT_MAX_ACCESSES]);
enum mt_space mt_space_of(struct mt_unit *u, LLVMValueRef pointer);
/* spaces.c: do accesses there get a record (option spaces)? */
int mt_space_is_recorded(const struct mt_unit *u, enum mt_space s);
/* The part of a record function's name that says where: "global", "generic", "shared", "number", "any". */
const char *mt_space_word(const struct mt_unit *u, enum mt_space s);
/* What its calls have as the access's type. */
uint32_t mt_space_type(const struct mt_unit *u, const struct mt_access *a);
/* Where in local memory a pointer leads, as a number: a pointer to nowhere. */
LLVMValueRef mt_local_number(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef pointer);
/* An instruction that orders accesses of shared memory. */
struct mt_sync {
    enum mt_access_sync kind;
    uint32_t size;       /* MT_SYNC_OF_…: what the address of its record is */
    LLVMValueRef what;   /* integer: that; of an object: its address, or a pointer */
    int64_t offset;      /* objects: to add to it */
    int init;            /* it is set up */
    LLVMValueRef parity; /* of the phase, integer; NULL: to be asked for */
    int output; /* result of the call that is not 0 when the wait is over; -1: it is, or it is none */
};
/* 1 or 0. Records of waits for objects come after the instruction. */
int mt_sync_of(struct mt_unit *u, LLVMValueRef inst, struct mt_sync *out);
/* The base of a pointer through GEPs and casts only. */
LLVMValueRef mt_base_of(LLVMValueRef pointer);
/* Of an instruction or a constant expression; 0: it is neither. */
LLVMOpcode mt_opcode(LLVMValueRef v);

/* The N of sm_N that the function is compiled for; 0: not said. */
int mt_unit_architecture(LLVMValueRef function);
/* unsynchronised.c: errors for calls of warp functions that the GPU no longer has; the calls go. */
void mt_refuse_unsynchronised(LLVMModuleRef module);

/* instrument.c */
void mt_unit_instrument(struct mt_unit *u);
/* A new function: the old one's type with one more pointer, its attributes, linkage and body; all users still
 * name the old one, which is a declaration now. NULL: no memory, nothing done. */
LLVMValueRef mt_add_widened(struct mt_unit *u, LLVMValueRef old, const char *name);
/* Functions and calls lose what LLVM knew about them before they recorded. */
void mt_forget_purity(LLVMModuleRef module);
/* lower.c: turns the (instrumented) module, a clone, into an x86-64 module with its tables.
 * 0 or -1 (diagnosed). */
int mt_unit_lower(struct mt_unit *u, LLVMModuleRef clone);
/* emit.c: optimises and compiles it; malloc'ed object or NULL (diagnosed). */
/* For u->vector: fills l->vector. */
void mt_vector_kernels(struct mt_lowering *l);
LLVMMemoryBufferRef mt_unit_emit(struct mt_unit *u, LLVMModuleRef clone);
/* The same by up to n processes; as mt_pass_image_parts. */
unsigned mt_unit_emit_parts(struct mt_unit *u, LLVMModuleRef clone, unsigned n, LLVMMemoryBufferRef *objects);
/* context.c. First, on the instrumented module: which kernels can have their context on a GPU;
 * warns of others. */
void mt_unit_plan_gpu(struct mt_unit *u);
int mt_unit_needs_gpu_runtime(struct mt_unit *u);
/* Record calls become calls of the GPU's record functions, with their launch's context. */
void mt_unit_pass_context(struct mt_unit *u);
/* gpu_plain.c. On the instrumented module: which kernels get a version without record calls for the GPU; and,
 * before its record calls have their context, makes them. */
void mt_unit_plan_plain(struct mt_unit *u);
void mt_unit_make_plain(struct mt_unit *u);
/* The name and the parameters that each version will have, at the end. */
void mt_unit_name_kernel(struct mt_kernel *k);
/* gpu.c: links the device runtime into the GPU's module. 0 or -1. */
int mt_unit_link_gpu(struct mt_unit *u);
/* When all that is to be is there: kernels get their limit of registers and keep their launch bounds. */
void mt_unit_settle_kernels(struct mt_unit *u);

/* rounding.c, before optimisation. 1 when something changed. */
int mt_keep_rounding(LLVMModuleRef module);
/* effects.c, before optimisation: LLVM learns what inline asm does to memory. 1 if anything changed. */
int mt_show_asm_effects(LLVMModuleRef module);
/* After it: what the back end would leave out has no record either. */
void mt_drop_unused_asm(LLVMModuleRef module);

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
