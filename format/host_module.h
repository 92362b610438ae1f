/* Interface between an instrumented object and libmemtrace-host.so; included by the pass and by the library.
 * A module (one object file) contains one `struct mt_host_module` and a constructor that registers it before
 * any other code of the module runs. */
#ifndef MT_HOST_LLVM_ABI_H
#define MT_HOST_LLVM_ABI_H
#include <stdint.h>

#define MT_HOST_ABI 4u

/* Row for one operand of one instruction. Strings are offsets into the module's blob (0: ""): no
 * relocations. */
#define MT_HOST_STRONG 0x100u /* flag of op: an atomic of the source, or a locked instruction */
struct mt_host_row {
    uint32_t site; /* instruction * 4 + operand, added to the module's base; instructions count from 1 */
    uint32_t op;   /* enum mt_host_op, | MT_HOST_STRONG */
    uint32_t size; /* bytes; 0: the size is in each record */
    uint32_t line, column;
    uint32_t file, function, variable;
};

/* Flag of a function's id: its caller reports entry and return; the function itself may do so as well. */
#define MT_HOST_CALLER 0x80000000u

#define MT_HOST_MODULE_ATOMIC 1u /* built with host=atomic: each access is between calls of begin and end */

struct mt_host_module {
    uint32_t abi, flags;
    uint32_t instructions, nrows, nfunctions, reserved;
    const struct mt_host_row *rows;
    const char *strings;
    uint32_t *base;                 /* added to each site; written by the runtime */
    const uint32_t *function_names; /* undecorated, offsets into strings */
    uint32_t *function_ids;         /* 0: entry and return are not traced; written by the runtime */
};

/* Location of a call of malloc or a similar function. */
/* function: after its name, a line for each function that it is inlined into: "\nFILE:LINE in FUNCTION". */
struct mt_host_alloc_location {
    const char *file, *function;
    uint32_t line, column;
};

/* Number of entries that fit at and after limit. An engine that has seen cur < limit may append this many
 * before it checks again: one comparison for all accesses of a basic block; cur is then moved once, when all
 * are complete. */
#define MT_CORE_SLACK 16

struct mt_core_thread {
    /* Hot: the engine appends entries here (mat mode). When cur >= limit it passes the access to
     * mt_core_record instead. Others set limit to NULL to get the thread's attention (events, signals), with
     * __atomic_*. An engine appends whether tracing is on or not. */
    struct mt_host_entry *cur, *limit;
    /* For engines with `marks`: 1 from before cur is read until the appended access of atomic mode has been
     * made. Only the thread writes it, with compiler barriers after 1 and around 0. Afterwards, if limit is
     * NULL, it calls mt_core_atomic_end. */
    uint64_t open;
    /* state owned by the core */
    struct mt_core_thread_state *state;
    void *engine; /* state owned by the engine */
};

/* Minimum size, in bytes, of a copy whose destination is compared for unchanged bytes. */
#define MT_COPY_LEAST 64u

/* Functions of the C library that access memory for their caller: codes of __mt_host_libc. */
enum mt_host_libc {
#define MT_HOST_LIBC(symbol, shape, ops, after) MT_LIBC_##symbol,
#include "host_libc.def"
    MT_LIBC_COUNT
};
#endif
