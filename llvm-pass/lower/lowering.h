/* What the steps stand on that turn an instrumented device module into the CPU image. */
#ifndef MT_PASS_LOWERING_H
#define MT_PASS_LOWERING_H
#include "unit/unit.h"
#include <llvm-c/TargetMachine.h>

struct mt_var {
    LLVMValueRef global;
    LLVMTypeRef type; /* the variable's, which may lie elsewhere */
    char *name;
    uint32_t kind; /* enum mt_var_kind */
};

/* A kernel's code for whole warps (vector/); NULL: none. */
struct mt_vector {
    LLVMValueRef rows;                      /* for CTAs whose rows have a multiple of 32 threads */
    LLVMValueRef tiles;                     /* of 16, and whole warps in all */
    LLVMValueRef record_rows, record_tiles; /* with record calls */
    LLVMValueRef record_any;                /* for CTAs of all other shapes */
    int waits;                              /* they run one warp, not a CTA */
    char why[200];                          /* there is none */
};

struct mt_lowering {
    struct mt_unit *u;
    LLVMModuleRef module;   /* the clone, becomes x86-64 */
    LLVMModuleRef builtins; /* runtime/cpu/builtins as bitcode, until it is linked (then NULL) */
    LLVMBuilderRef builder;
    int failed; /* a step could not do its work: none follows */
    LLVMTypeRef ptr, i1, i8, i32, i64, none;
    /* By index of u->kernels: the clone's functions, and what runs them (either may be NULL). `plain`:
     * without record calls; no function where the kernel has none anyway. */
    struct mt_versions {
        LLVMValueRef *kernels, *entries;
    } traced, plain;
    struct mt_vector *vector; /* by index of u->kernels */
    struct mt_var *vars;      /* the program's device variables */
    unsigned nvars;
    LLVMValueRef site_base; /* what record calls add to their sites, when the loader sets it, or NULL */
    LLVMValueRef shared;    /* struct mt_image_shared of an image with relocatable device code, or NULL */
};

/* A builtin by name, declared in the clone; NULL if there is none.
 * *type gets its type (the bitcode's own). */
LLVMValueRef mt_builtin(struct mt_lowering *l, const char *name, LLVMTypeRef *type);
LLVMValueRef mt_build_call(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef *args, unsigned n);

/* A constant for each element of a type: itself, or a vector of as many as `shape` has. */
LLVMValueRef mt_splat(LLVMTypeRef shape, LLVMValueRef constant);

/* After the name of a function: its version without record calls. */
#define MT_PLAIN_SUFFIX ".plain"
/* Names of the functions that the runtime calls: this, and the kernel's. */
#define MT_RUN_ENTRY "mt.entry."
#define MT_RUN_WARPS "mt.warps."

/* A function or variable that other files' images know, or that is theirs. */
int mt_is_shared_name(LLVMValueRef global);
/* What CUDA's own headers declare and the CPU device has no use for a definition of. */
int mt_is_index_variable(const char *name);

/* Another attribute of text. */
void mt_set_text(const struct mt_unit *u, LLVMValueRef function, const char *key, const char *value);
const char *mt_image_cpu(const struct mt_unit *u); /* what the image is compiled for */
void mt_set_image_cpu(const struct mt_unit *u, LLVMValueRef function);
int mt_run_passes(struct mt_unit *u, LLVMModuleRef m, const char *passes, LLVMTargetMachineRef machine);

/* 0, or -1 after a diagnostic. mt_lowering_end() in any case. */
int mt_lowering_begin(struct mt_lowering *l, struct mt_unit *u, LLVMModuleRef clone);
void mt_lowering_end(struct mt_lowering *l);
/* records.c: the load, store or atomic by pointer `p` that a record call is before, in its block; NULL: it is
 * of something else. */
LLVMValueRef mt_recorded_access(LLVMValueRef call, LLVMValueRef p);
#endif
