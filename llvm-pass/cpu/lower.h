/* Shared by the parts that turn an instrumented device module into the CPU image. */
#ifndef MT_PASS_LOWER_H
#define MT_PASS_LOWER_H
#include "base/unit.h"
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

/* Names of the functions that the runtime calls: this, and the kernel's. */
#define MT_RUN_ENTRY "mt.entry."
#define MT_RUN_WARPS "mt.warps."

void mt_lower_calls(struct mt_lowering *l, LLVMValueRef function); /* lower_calls.c */
void mt_lower_shared(struct mt_lowering *l);                       /* lower_shared.c */
void mt_lower_managed(struct mt_lowering *l);                      /* lower_managed.c */
/* lower_shared.c. Of a global that lies elsewhere: its uses by instructions become address(l, function, ctx),
 * once in each function, where the builder is put before mt_lower_entry. */
void mt_lower_replace(struct mt_lowering *l, LLVMValueRef global,
                      LLVMValueRef (*address)(struct mt_lowering *l, LLVMValueRef function, void *ctx),
                      void *ctx);
/* The first instruction that is no alloca. */
LLVMValueRef mt_lower_entry(LLVMValueRef function);
/* Reads word `at` of what the loader wrote before the first launch: it never changes while code runs. */
LLVMValueRef mt_lower_load_fixed(struct mt_lowering *l, LLVMTypeRef type, LLVMValueRef from, unsigned at);
void mt_lower_ranges(struct mt_lowering *l);      /* lower_range.c */
void mt_lower_divisions(struct mt_lowering *l);   /* lower_divide.c */
void mt_lower_contraction(struct mt_lowering *l); /* lower_contract.c */
void mt_lower_exactness(struct mt_lowering *l);   /* lower_exact.c */
void mt_lower_extremes(struct mt_lowering *l);    /* lower_range.c; after exactness, which makes zeros */
/* Until mt_ptx_release_accesses no pass may drop a load whose value nobody uses: the GPU's code has it. */
void mt_count_keep(struct mt_lowering *l);
void mt_lower_counts(struct mt_lowering *l); /* count.c */
void mt_lower_spins(struct mt_lowering *l);  /* lower_spin.c */
void mt_lower_plain(struct mt_lowering *l);  /* lower_plain.c */
#define MT_PLAIN_SUFFIX ".plain"
void mt_lower_places(struct mt_lowering *l);      /* lower_places.c, after it */
void mt_lower_attributes(struct mt_lowering *l);  /* lower.c */
void mt_declare_registers(struct mt_lowering *l); /* kernels.c: what it will call */
void mt_lower_kernels(struct mt_lowering *l);     /* kernels.c: entry functions */
void mt_lower_exports(struct mt_lowering *l);     /* lower_rdc.c: names across files */
/* A function or variable that other files' images know, or that is theirs. */
int mt_is_shared_name(LLVMValueRef global);
/* What CUDA's own headers declare and the CPU device has no use for a definition of. */
int mt_is_index_variable(const char *name);

void mt_image_tables(struct mt_lowering *l); /* image.c */

/* reach.c: what a function can reach through calls;
 * indirect calls reach every function whose address is taken. */
struct mt_reach {
    LLVMValueRef *functions;
    unsigned count;
    size_t cap;
    int waits;   /* a barrier, a warp collective or an unknown function */
    int gathers; /* a wait for the lanes that are at the same call (activemask) */
};
void mt_reach_from(struct mt_lowering *l, LLVMValueRef function, struct mt_reach *r);
/* Is the function used other than as the callee of a direct call? */
int mt_is_address_taken(LLVMValueRef function);
int mt_reach_has(const struct mt_reach *r, LLVMValueRef function);
void mt_reach_free(struct mt_reach *r);

extern const char *const mt_waiting_functions[];
/* Is it one of them, or a builtin (not linked yet) that comes to one: a barrier, a warp collective? */
int mt_is_meeting(const char *name);

void mt_image_variables(
    struct mt_lowering *l); /* image.c: lists the program's variables before builtins come in */
const char *mt_image_cpu(const struct mt_unit *u); /* lower.c: what the image is compiled for */
void mt_set_image_cpu(const struct mt_unit *u, LLVMValueRef function);
/* emit.c */
LLVMTargetMachineRef mt_set_cpu_target(struct mt_unit *u, LLVMModuleRef clone);
int mt_run_passes(struct mt_unit *u, LLVMModuleRef m, const char *passes, LLVMTargetMachineRef machine);
/* emit.c: optimises and compiles a module that was lowered; NULL after a diagnostic. */
LLVMMemoryBufferRef mt_unit_compile(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine);
/* split.c: the same by n processes at once, as objects to be linked to one image. How many there are; 0 after
 * a diagnostic. */
unsigned mt_unit_compile_parts(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned n,
                               LLVMMemoryBufferRef *objects);
#endif
