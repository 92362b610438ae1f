/* Host side of the pass: what its files share. host.c marks CUDA calls; host_trace.c drives the tracing of
 * the host's own accesses (option host), host_access.c says what an instruction does, host_record.c puts the
 * records in, host_table.c writes the module's tables, host_name.c keeps variables' names. host_names.c
 * and host_holder.c name allocations after what holds them. */
#ifndef MT_PASS_HOST_H
#define MT_PASS_HOST_H
#include "unit/unit.h"
#include "memtrace/container.h"
#include "memtrace/hash.h"
#include "format/host_module.h"

/* ---- host_access.c ---- */

enum mt_host_kind {
    MT_HOST_NOTHING,
    MT_HOST_FIXED,  /* one access of a size that is known: op[0], pointer[0], size */
    MT_HOST_SWAP,   /* compare-and-swap: the same, known only afterwards whether it wrote */
    MT_HOST_COPY,   /* memcpy, memmove: reads pointer[0], writes pointer[1]; size, or 0: bytes */
    MT_HOST_FILL,   /* memset: writes pointer[0]; size, or 0: bytes */
    MT_HOST_MASKED, /* vector at pointer[0], where mask is set: op[0]; size of an element; lanes */
    MT_HOST_LANES,  /* gather, scatter: a vector of pointers, or one, with index and scale */
    MT_HOST_PACKED, /* expanding load, compressing store: as many elements as mask has bits */
    MT_HOST_LIBC,   /* call of a function of format/host_libc.def */
    MT_HOST_BLIND,  /* touches memory in a way that has no record; `what` says how */
};

struct mt_host_touch {
    enum mt_host_kind kind;
    enum mt_host_op op[3];
    unsigned operands;
    LLVMValueRef pointer[3], bytes;
    LLVMValueRef mask;  /* i1, or the sign, of each lane; or an integer */
    LLVMValueRef index; /* a vector, to be multiplied by `scale`; or NULL */
    uint64_t size, scale;
    unsigned lanes;
    enum mt_host_libc libc;
    const char *what;
};

/* Fills *a and returns a->kind. */
enum mt_host_kind mt_host_access_of(struct mt_unit *u, LLVMValueRef inst, struct mt_host_touch *a);
/* Does this call of another function allocate memory (malloc, operator new, mmap, …)? */
int mt_host_allocates(const char *callee);
/* Can other traced code run, or this thread's state be looked at, before the instruction ends? */
int mt_host_leaves(LLVMValueRef inst);

/* ---- host_table.c ---- */

struct mt_host_table {
    struct mt_unit *u;
    struct mt_host_row *rows;
    unsigned nrows, instructions;
    size_t rows_cap;
    char *strings;
    size_t nstrings, strings_cap;
    struct mt_hash offsets; /* of strings, by their hashes */
    uint32_t *functions;    /* names */
    unsigned nfunctions;
    size_t functions_cap;
    LLVMValueRef base, ids; /* globals; ids: declared with no elements until the end */
    int failed;
};

void mt_host_table_init(struct mt_host_table *t, struct mt_unit *u);
void mt_host_table_free(struct mt_host_table *t);
/* A number for an instruction that has up to 4 operands; 0 without memory. */
uint32_t mt_host_table_instruction(struct mt_host_table *t);
void mt_host_table_row(struct mt_host_table *t, LLVMValueRef inst, uint32_t site, enum mt_host_op op,
                       uint64_t size, LLVMValueRef pointer);
/* Index of the function's id; names it. */
unsigned mt_host_table_function(struct mt_host_table *t, LLVMValueRef function);
/* Writes the tables and the constructor. */
void mt_host_table_emit(struct mt_host_table *t);

/* ---- host_record.c ---- */

struct mt_host_recorder {
    struct mt_unit *u;
    struct mt_host_table *table;
    LLVMBuilderRef builder;
    LLVMTypeRef none, ptr, i8, i32, i64;
    LLVMValueRef current; /* thread-local: the struct mt_core_thread of this thread */
    uint64_t said[64];    /* places that have had a warning, hashed */
    unsigned nsaid;
    LLVMValueRef lanes; /* of the function at hand: room for addresses of a gather; NULL: none yet */
    int atomic;
};

void mt_host_recorder_init(struct mt_host_recorder *r, struct mt_unit *u, struct mt_host_table *t);
/* Records the accesses of one function, with the places that are not wanted left out. */
void mt_host_record_function(struct mt_host_recorder *r, LLVMValueRef function);
/* A call of a function of the runtime. */
LLVMValueRef mt_host_call(struct mt_host_recorder *r, const char *name, LLVMValueRef *args, unsigned n);
/* The same of one that keeps the registers (host/llvm/thunk.S). */
LLVMValueRef mt_host_call_kept(struct mt_host_recorder *r, const char *name, LLVMValueRef *args, unsigned n);
/* Appends an access of host=atomic, of operand 0 of `site` and with begin's `args`; where it cannot be
 * appended it is between begin and end. */
void mt_host_record_marked(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
                           uint32_t site, LLVMValueRef *args);
/* host_call.c: accesses that are recorded by calls, and those of host=atomic. */
void mt_host_record_by_call(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a);
void mt_host_record_atomic(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a);
/* Where the builder is, before the copy `a` is recorded by `site`: is its destination compared with its
 * source? */
void mt_host_call_copied(struct mt_host_recorder *r, const struct mt_host_touch *a, uint32_t site);
/* host_function.c: entry and returns of functions, places of allocations, calls of the annotation library. */
void mt_host_hook_function(struct mt_host_recorder *r, LLVMValueRef function);
void mt_host_mark_annotation(struct mt_host_recorder *r, LLVMValueRef call);
void mt_host_mark_allocation(struct mt_host_recorder *r, LLVMValueRef call);

/* ---- host.c ---- */

/* cudaMalloc and so on, and the wrappers of cuda_runtime.h. */
int mt_host_is_cuda_call(const char *name);

/* ---- host_holder.c ---- */

struct mt_host_variable {
    LLVMValueRef value; /* what the annotation is about */
    const char *text;   /* its fields after the word; not ended by NUL */
    size_t length;
};
/* Of one function. */
struct mt_host_variables {
    LLVMTargetDataRef layout;
    LLVMValueRef *inst; /* all instructions */
    unsigned ninst, n, annotations;
    struct mt_host_variable *list; /* by value */
};
/* What holds, or may get, a pointer: as the source writes it. */
struct mt_host_holder {
    char name[256];
    size_t length, root; /* root: where the variable ends and its members begin; 0: the variable is `this` */
    char shape, inner;   /* p pointer, r record or array, & reference, ? not known */
    int pointed, cut;
    uint64_t bytes;
    LLVMValueRef index; /* of the last [] in the name; NULL: it has none */
};
/* 1 when it has annotations of ours. `v` is to be dropped in any case; that removes them. */
int mt_host_variables_read(struct mt_host_variables *v, LLVMTargetDataRef layout, LLVMValueRef function);
void mt_host_variables_drop(struct mt_host_variables *v);
/* 1: it leads to a variable or a part of one. */
int mt_host_holder_of(const struct mt_host_variables *v, LLVMValueRef pointer, struct mt_host_holder *h);

/* ---- host_pointed.c ---- */

/* Variables whose address is kept somewhere: a function's own, and global ones. */
enum { MT_HOST_POINTED = 16 };
struct mt_host_pointed {
    LLVMValueRef list[MT_HOST_POINTED];
    unsigned n;
    int known; /* they were looked for */
};
void mt_host_pointed_read(struct mt_host_pointed *p, const struct mt_host_variables *v,
                          LLVMValueRef function);

/* Where the value, or what a cast made of it, is stored first; NULL: nowhere. */
LLVMValueRef mt_host_stored(LLVMValueRef value, unsigned depth);

/* ---- host_names.c ---- */

/* Calls that may allocate say which variables get the memory; takes the AST side's annotations out. 1:
 * changed. */
int mt_host_names(LLVMModuleRef module);

/* ---- host_name.c ---- */

/* Before optimisation: values get the names of the variables that hold them,
 * functions of host-functions stay functions. */
void mt_host_name_values(LLVMModuleRef module);
/* Source name of what a pointer is based on; malloc'ed, "" when not known. */
char *mt_host_variable(LLVMValueRef pointer);
#endif
