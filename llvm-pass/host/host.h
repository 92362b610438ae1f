/* Host side of the pass. host.c marks CUDA calls and names allocations after the variables that hold them;
 * host_trace.c traces the host's own accesses (option host). */
#ifndef MT_PASS_HOST_H
#define MT_PASS_HOST_H

#include "unit/unit.h"
#include "memtrace/container.h"
#include "memtrace/hash.h"
#include "format/host_module.h"

/* ---- host_trace.c ---- */

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

/* ---- host.c ---- */

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

/* Variables whose address is stored: a function's own, and global ones. */
enum { MT_HOST_POINTED = 16 };

struct mt_host_pointed {
    LLVMValueRef list[MT_HOST_POINTED];
    unsigned n;
    int known; /* 1: the search was done */
};

/* Returns the source name of a pointer's base; malloc'ed, "" if unknown. */
char *mt_host_variable(LLVMValueRef pointer);

#endif
