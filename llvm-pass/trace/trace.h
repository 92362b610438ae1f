/* What the pass finds in a device module, and the record calls that it puts there. */
#ifndef MT_PASS_TRACE_H
#define MT_PASS_TRACE_H
#include "unit/unit.h"

/* facts.c: our entries of llvm.global.annotations become metadata that names functions by text. Were there
 * any? */
int mt_keep_annotations(LLVMModuleRef module);
/* Reads and removes what there is of both; kernels from nvvm.annotations. */
void mt_unit_read_facts(struct mt_unit *u);
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
/* An instruction that orders accesses of shared memory, or makes one that goes on after it. */
struct mt_sync {
    enum mt_access_sync kind;
    uint32_t size;       /* MT_SYNC_OF_…, MT_COPY_…: what the address of its record is */
    int object;          /* it is an mbarrier's */
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
/* Attributes, linkage and body, but for the parameters: the old one is a declaration then. */
void mt_move_function(LLVMValueRef new, LLVMValueRef old);
/* A new function: the old one's type with one more pointer, its attributes, linkage and body; all users still
 * name the old one, which is a declaration now. NULL: no memory, nothing done. */
LLVMValueRef mt_add_widened(struct mt_unit *u, LLVMValueRef old, const char *name);
/* Functions and calls lose what LLVM knew about them before they recorded. */
void mt_forget_purity(LLVMModuleRef module);

/* rounding.c, before optimisation. 1 when something changed. */
int mt_keep_rounding(LLVMModuleRef module);
/* narrow.c, before optimisation and before kernels are named by text. 1 when something changed. */
int mt_narrow_params(LLVMModuleRef module);
/* effects.c, before optimisation: LLVM learns what inline asm does to memory. 1 if anything changed. */
int mt_show_asm_effects(LLVMModuleRef module);
/* After it: what the back end would leave out has no record either. */
void mt_drop_unused_asm(LLVMModuleRef module);
#endif
