/* Shared base of the steps that turn an instrumented device module into the CPU image. */
#ifndef MT_PASS_LOWERING_H
#define MT_PASS_LOWERING_H

#include "unit/unit.h"
#include <llvm-c/TargetMachine.h>

struct mt_var {
    LLVMValueRef global;
    LLVMTypeRef type; /* type of the variable, which may be placed elsewhere */
    char *name;
    uint32_t kind; /* enum mt_var_kind */
};

/* A kernel's code for whole warps (vector/); NULL: none. */
struct mt_vector {
    LLVMValueRef rows;                      /* for CTAs whose rows are a multiple of 32 threads */
    LLVMValueRef tiles;                     /* rows of a multiple of 16, and whole warps in all */
    LLVMValueRef record_rows, record_tiles; /* versions with record calls */
    LLVMValueRef record_any;                /* for CTAs of any other shape */
    int waits;                              /* they run one warp, not a CTA */
    char why[200];                          /* reason for NULL */
};

struct mt_lowering {
    struct mt_unit *u;
    LLVMModuleRef module;   /* the clone, which becomes x86-64 */
    LLVMModuleRef builtins; /* runtime/cpu/builtins as bitcode, until it is linked (then NULL) */
    LLVMBuilderRef builder;
    int failed; /* 1: a step failed, none follows */
    LLVMTypeRef ptr, i1, i8, i32, i64, none;
    /* Functions of the clone by index of u->kernels, and their entry points (either may be NULL). `plain`:
     * without record calls; no function for a kernel that has none anyway. */
    struct mt_versions {
        LLVMValueRef *kernels, *entries;
    } traced, plain;
    struct mt_vector *vector; /* indexed like u->kernels */
    struct mt_var *vars;      /* the program's device variables */
    unsigned nvars;
    LLVMValueRef site_base; /* variable that record calls add to their sites if the loader sets it, or NULL */
    LLVMValueRef shared;    /* struct mt_image_shared of an image with relocatable device code, or NULL */
};

/* Declares a builtin in the clone by name. Returns NULL if there is none. *type gets its type (the
 * bitcode's own). */
LLVMValueRef mt_builtin(struct mt_lowering *l, const char *name, LLVMTypeRef *type);

LLVMValueRef mt_build_call(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef *args, unsigned n);

/* Suffix of a function's version without record calls. */
#define MT_PLAIN_SUFFIX ".plain"

/* Prefixes of the names of functions that the runtime calls, before the kernel's name. */
#define MT_RUN_ENTRY "mt.entry."

#define MT_RUN_WARPS "mt.warps."

/* Returns 1 for a function or variable shared with images of other files. */
int mt_is_shared_name(LLVMValueRef global);

/* Sets a text attribute. */
void mt_set_text(const struct mt_unit *u, LLVMValueRef function, const char *key, const char *value);

const char *mt_image_cpu(const struct mt_unit *u); /* CPU for which the image is compiled */
void mt_set_image_cpu(const struct mt_unit *u, LLVMValueRef function);
int mt_run_passes(struct mt_unit *u, LLVMModuleRef m, const char *passes, LLVMTargetMachineRef machine);

/* Returns 0, or -1 after a diagnostic. mt_lowering_end() must follow in any case. */
int mt_lowering_begin(struct mt_lowering *l, struct mt_unit *u, LLVMModuleRef clone);

void mt_lowering_end(struct mt_lowering *l);

/* Returns the load, store or atomic by pointer `p` that follows a record call in its block;
 * NULL: the record is of something else. */
LLVMValueRef mt_recorded_access(LLVMValueRef call, LLVMValueRef p);

/* ---- steps (lower.c has the others) ---- */

void mt_lower_records(struct mt_lowering *l);
void mt_lower_spins(struct mt_lowering *l); /* spin.c */
void mt_lower_ways(struct mt_lowering *l);  /* loops.c */

/* Functions reachable through calls; indirect calls reach every function whose address is taken. */

struct mt_reach {
    LLVMValueRef *functions;
    unsigned count;
    size_t cap;
    int waits;   /* a barrier, a warp collective or an unknown function */
    int gathers; /* a wait for the lanes at the same call (activemask) */
};

void mt_reach_from(struct mt_lowering *l, LLVMValueRef function, struct mt_reach *r);

/* Returns 1 if the function is used other than as the callee of a direct call. */
int mt_is_address_taken(LLVMValueRef function);

int mt_reach_has(const struct mt_reach *r, LLVMValueRef function);
void mt_reach_free(struct mt_reach *r);

/* Functions in which threads wait for others; ends with NULL. */
extern const char *const mt_waiting_functions[];

#endif
