/* Facts about a device module, and the record calls that the pass inserts. */
#ifndef MT_PASS_TRACE_H
#define MT_PASS_TRACE_H
#include "unit/unit.h"

/* Turns our entries of llvm.global.annotations into metadata that names functions by text.
 * Returns 1 if there were any. */
int mt_keep_annotations(LLVMModuleRef module);
/* Lets kernels that write to __constant__ variables trap, as nvcc does. Before optimisation, in which LLVM
 * drops such stores, and after it, for those of inlined functions. Returns the number of traps. */
int mt_trap_constants(LLVMModuleRef module);
/* Reads and removes both forms; reads kernels from nvvm.annotations. */
void mt_unit_read_facts(struct mt_unit *u);
struct mt_kernel *mt_unit_kernel(struct mt_unit *u, LLVMValueRef function);

/* ---- source names ---- */
/* Copies the names of parameters to another version of a function with the same parameters. */
void mt_copy_param_names(LLVMValueRef from, LLVMValueRef to);
/* Returns the name of a function's parameter; malloc'ed or NULL. */
char *mt_param_name(LLVMValueRef param);

/* instrument.c */
/* Adds a site. align: alignment that the access needs, 0 unknown; takes ownership of `variable`. */
uint32_t mt_unit_add_site(struct mt_unit *u, LLVMValueRef inst, uint32_t op, uint32_t size, uint32_t align,
                          char *variable);
uint32_t mt_unit_add_note(struct mt_unit *u, LLVMValueRef inst, uint32_t kind, const char *what);
/* Names u->site_variable by the contents of all sites. Files with the same sites may share it; code for
 * another architecture has it if its sites are the same. */
void mt_unit_name_sites(struct mt_unit *u);
/* Returns 1 if the source location of this instruction is to be traced ([[memtrace::skip]], #pragma
 * memtrace off). */
int mt_unit_wanted(const struct mt_unit *u, LLVMValueRef inst);

/* ---- variables that accesses must stay in (objects.c) ---- */
/* Returns the number of the only variable that the address is computed from, from 1; 0: not known. */
uint32_t mt_unit_object_of(struct mt_unit *u, LLVMValueRef pointer);
/* Adds all shared variables to u->objects: an access by an unknown pointer must be in one of them. */
void mt_unit_add_shared(struct mt_unit *u);
/* Puts calls for memtrace check into the CPU image's module (with the option spaces): a check before each
 * load of constant memory at an index, of which traces have no records, and the place of barriers, warp
 * functions, malloc and printf before these. */
#define MT_CHECK_CONSTANT_CALL "__mt_access_constant"
#define MT_CHECK_PLACE_CALL "__mt_access_place"
void mt_unit_add_checks(struct mt_unit *u, LLVMModuleRef module);
/* Returns 1 for the name of either. */
int mt_is_check(const char *name);
/* Returns the variable with this name in the instrumented module, or NULL. */
struct mt_bounds *mt_unit_object_named(struct mt_unit *u, const char *symbol);
/* Returns the offset of a variable on the stack, as records have it: those of all functions are consecutive,
 * as each has its own place on the stack. */
uint64_t mt_unit_local_at(struct mt_unit *u, LLVMValueRef variable);

/* instrument.c: memory accesses of an instruction. */
enum mt_space {
    MT_SPACE_NONE,
    MT_SPACE_GLOBAL,
    MT_SPACE_GENERIC, /* tested at run time */
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
    uint32_t size;        /* bytes, or 0: see `bytes` */
    LLVMValueRef bytes;   /* run-time length (any integer type), or NULL */
    LLVMValueRef
        only_if; /* integer: the access happens if it is not 0 (with only_if_not: if it is 0); or NULL */
    int only_if_not;
    unsigned lanes; /* number of a warp's first lanes that access; 0: all */
    enum mt_space space;
    int global_only; /* 1: in shared memory it is a barrier's access, which has a record of its own */
};
#define MT_MAX_ACCESSES 4
/* Returns the space to which a pointer leads. */
enum mt_space mt_space_of(struct mt_unit *u, LLVMValueRef pointer);
/* An instruction that orders accesses to shared memory, or starts one that continues after it. */
struct mt_sync {
    enum mt_access_sync kind;
    uint32_t size;       /* MT_SYNC_OF_…, MT_COPY_…: meaning of the record's address */
    int object;          /* 1: of an mbarrier */
    LLVMValueRef what;   /* integer: the value; for an object: its address, or a pointer */
    int64_t offset;      /* objects: to add to it */
    int init;            /* 1: initialised here */
    LLVMValueRef parity; /* phase, integer; NULL: read at run time */
    int output; /* output of the call that is not 0 once the wait is over; -1: it is over, or no wait */
};
/* Returns the base of a pointer through GEPs and casts only. */
LLVMValueRef mt_base_of(LLVMValueRef pointer);

/* Returns the N of sm_N for which the function is compiled; 0: not stated. */
int mt_unit_architecture(LLVMValueRef function);

/* instrument.c */
void mt_unit_instrument(struct mt_unit *u);
/* Returns a new function with the old one's attributes, linkage and body, and one more pointer parameter.
 * Users still name the old one, now a declaration. NULL without memory, nothing changed. */
LLVMValueRef mt_add_widened(struct mt_unit *u, LLVMValueRef old, const char *name);
/* Removes from functions and calls what LLVM knew about them before they recorded. */
void mt_forget_purity(LLVMModuleRef module);

/* Turns the record calls of tensor copies in the GPU's copy of the module into calls that count: the layout
 * of NVIDIA's maps is not public. On the CPU device, builtins/tensor.c makes a record for each row of the
 * box. */
void mt_unit_untrace_tensors(struct mt_unit *u);

/* After optimisation: removes asm that the back end would drop, so that it has no record. */
void mt_drop_unused_asm(LLVMModuleRef module);
#endif
