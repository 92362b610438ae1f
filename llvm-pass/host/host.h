/* Host side of the pass. host.c marks CUDA calls; host_trace.c drives the tracing of the host's own
 * accesses (option host), host_access.c classifies instructions, host_record.c inserts the records,
 * host_table.c writes the module's tables, host_name.c keeps names of variables. host_names.c and
 * host_holder.c name allocations after the variables that hold them. */
#ifndef MT_PASS_HOST_H
#define MT_PASS_HOST_H
#include "unit/unit.h"
#include "memtrace/container.h"
#include "memtrace/hash.h"
#include "format/host_module.h"

/* ---- host_access.c ---- */

enum mt_host_kind {
    MT_HOST_NOTHING,
    MT_HOST_FIXED,  /* one access of a known size: op[0], pointer[0], size */
    MT_HOST_SWAP,   /* compare-and-swap: the same, known only afterwards whether it wrote */
    MT_HOST_COPY,   /* memcpy, memmove: reads pointer[0], writes pointer[1]; size, or if 0, bytes */
    MT_HOST_FILL,   /* memset: writes pointer[0]; size, or if 0, bytes */
    MT_HOST_MASKED, /* vector at pointer[0] where mask is set: op[0]; size of an element; lanes */
    MT_HOST_LANES,  /* gather, scatter: a vector of pointers, or one pointer with index and scale */
    MT_HOST_PACKED, /* expanding load, compressing store: as many elements as mask has bits */
    MT_HOST_LIBC,   /* call of a function in format/host_libc.def */
    MT_HOST_BLIND,  /* touches memory in a way without a record; `what` says how */
};

struct mt_host_touch {
    enum mt_host_kind kind;
    enum mt_host_op op[3];
    unsigned operands;
    LLVMValueRef pointer[3], bytes;
    LLVMValueRef mask;  /* an i1 per lane, or each lane's sign; or an integer */
    LLVMValueRef index; /* a vector, to be multiplied by `scale`; or NULL */
    uint64_t size, scale;
    unsigned lanes;
    enum mt_host_libc libc;
    const char *what;
};

/* Fills *a and returns a->kind. */
enum mt_host_kind mt_host_access_of(struct mt_unit *u, LLVMValueRef inst, struct mt_host_touch *a);
/* Returns 1 if a call of another function by this name allocates memory (malloc, operator new, mmap, …). */
int mt_host_allocates(const char *callee);
/* Returns 1 if other traced code can run, or this thread's state be read, before the instruction ends. */
int mt_host_leaves(LLVMValueRef inst);

/* ---- host_table.c ---- */

struct mt_host_table {
    struct mt_unit *u;
    struct mt_host_row *rows;
    unsigned nrows, instructions;
    size_t rows_cap;
    char *strings;
    size_t nstrings, strings_cap;
    struct mt_hash offsets; /* string offsets by hash */
    uint32_t *functions;    /* names */
    unsigned nfunctions;
    size_t functions_cap;
    LLVMValueRef base, ids; /* globals; ids: declared without elements until the end */
    int failed;
};

void mt_host_table_init(struct mt_host_table *t, struct mt_unit *u);
void mt_host_table_free(struct mt_host_table *t);
/* Adds an instruction with up to 4 operands. Returns its number, or 0 without memory. */
uint32_t mt_host_table_instruction(struct mt_host_table *t);
void mt_host_table_row(struct mt_host_table *t, LLVMValueRef inst, uint32_t site, enum mt_host_op op,
                       uint64_t size, LLVMValueRef pointer);
/* Returns the index of the function's id, and adds its name. */
unsigned mt_host_table_function(struct mt_host_table *t, LLVMValueRef function);
/* Writes the tables and the constructor. */
void mt_host_table_emit(struct mt_host_table *t);

/* ---- host_record.c ---- */

struct mt_host_recorder {
    struct mt_unit *u;
    struct mt_host_table *table;
    LLVMBuilderRef builder;
    LLVMTypeRef none, ptr, i8, i32, i64;
    LLVMValueRef current; /* thread-local: this thread's struct mt_core_thread */
    uint64_t said[64];    /* hashes of the places already warned about */
    unsigned nsaid;
    LLVMValueRef lanes; /* space in the current function for addresses of a gather; NULL: none yet */
    int atomic;
};

void mt_host_recorder_init(struct mt_host_recorder *r, struct mt_unit *u, struct mt_host_table *t);
/* Records the accesses of one function, except at unwanted places. */
void mt_host_record_function(struct mt_host_recorder *r, LLVMValueRef function);
/* Builds a call of a function of the runtime. */
LLVMValueRef mt_host_call(struct mt_host_recorder *r, const char *name, LLVMValueRef *args, unsigned n);
/* Builds a call of a runtime function that keeps the registers (host/llvm/thunk.S). */
LLVMValueRef mt_host_call_kept(struct mt_host_recorder *r, const char *name, LLVMValueRef *args, unsigned n);
/* Appends an access of host=atomic, of operand 0 of `site`, with the `args` of begin. Where it cannot be
 * appended, it is put between begin and end. */
void mt_host_record_marked(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
                           uint32_t site, LLVMValueRef *args);
/* host_call.c: records accesses by calls, and those of host=atomic. */
void mt_host_record_by_call(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a);
void mt_host_record_atomic(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a);
/* Inserts a comparison of destination and source at the builder's place, before the copy `a` is recorded
 * by `site`. */
void mt_host_call_copied(struct mt_host_recorder *r, const struct mt_host_touch *a, uint32_t site);
/* host_function.c: handles entry and returns of functions, locations of allocations, calls of the
 * annotation library. */
void mt_host_hook_function(struct mt_host_recorder *r, LLVMValueRef function);
void mt_host_mark_annotation(struct mt_host_recorder *r, LLVMValueRef call);
void mt_host_mark_allocation(struct mt_host_recorder *r, LLVMValueRef call);

/* ---- host.c ---- */

/* Returns 1 for cudaMalloc and so on, and for the wrappers of cuda_runtime.h. */
int mt_host_is_cuda_call(const char *name);

/* ---- host_holder.c ---- */

struct mt_host_variable {
    LLVMValueRef value; /* variable that the annotation describes */
    const char *text;   /* its fields after the word; not terminated by NUL */
    size_t length;
};
/* Variables of one function. */
struct mt_host_variables {
    LLVMTargetDataRef layout;
    LLVMValueRef *inst; /* all instructions */
    unsigned ninst, n, annotations;
    struct mt_host_variable *list; /* sorted by value */
};
/* Source spelling of a variable that holds, or may receive, a pointer. */
struct mt_host_holder {
    char name[256];
    size_t length, root; /* root: end of the variable and start of its members; 0: the variable is `this` */
    char shape, inner;   /* p pointer, r record or array, & reference, ? unknown */
    int pointed, cut;
    uint64_t bytes;
    LLVMValueRef index; /* index of the last [] in the name; NULL: none */
};
/* Reads our annotations. Returns 1 if there are any. `v` must be dropped in any case, which removes them. */
int mt_host_variables_read(struct mt_host_variables *v, LLVMTargetDataRef layout, LLVMValueRef function);
void mt_host_variables_drop(struct mt_host_variables *v);
/* Returns 1 if the pointer leads to a variable or a part of one. */
int mt_host_holder_of(const struct mt_host_variables *v, LLVMValueRef pointer, struct mt_host_holder *h);

/* ---- host_pointed.c ---- */

/* Variables whose address is stored: a function's own, and global ones. */
enum { MT_HOST_POINTED = 16 };
struct mt_host_pointed {
    LLVMValueRef list[MT_HOST_POINTED];
    unsigned n;
    int known; /* 1: the search was done */
};
void mt_host_pointed_read(struct mt_host_pointed *p, const struct mt_host_variables *v,
                          LLVMValueRef function);

/* Returns the place where the value, or a cast of it, is stored first; NULL: nowhere. */
LLVMValueRef mt_host_stored(LLVMValueRef value, unsigned depth);

/* ---- host_names.c ---- */

/* Makes calls that may allocate name the variables that get the memory, and removes the AST side's
 * annotations. Returns 1 if anything changed. */
int mt_host_names(LLVMModuleRef module);

/* ---- host_name.c ---- */

/* Before optimisation: names values after the variables that hold them, and keeps functions of
 * host-functions from being inlined. */
void mt_host_name_values(LLVMModuleRef module);
/* Returns the source name of a pointer's base; malloc'ed, "" if unknown. */
char *mt_host_variable(LLVMValueRef pointer);
#endif
