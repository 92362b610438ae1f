/* What the pass puts into an instrumented object and what libmemtrace-host.so expects there: included by
 * both. A module (one object file) carries one `struct mt_host_module` and a constructor that hands it over
 * before any other code of the module runs. */
#ifndef MT_HOST_LLVM_ABI_H
#define MT_HOST_LLVM_ABI_H
#include <stdint.h>

#define MT_HOST_ABI 4u

/* One operand of one instruction. Strings are offsets into the module's blob (0: ""): no relocations. */
#define MT_HOST_STRONG 0x100u /* an atomic of the source, or what locks */
struct mt_host_row {
    uint32_t
        site;    /* instruction * 4 + operand, to be added to the module's base; instructions count from 1 */
    uint32_t op; /* enum mt_host_op, | MT_HOST_STRONG */
    uint32_t size; /* bytes; 0: every record says its own */
    uint32_t line, column;
    uint32_t file, function, variable;
};

/* In a function's id: its caller reports entry and return, the function itself may report them, too. */
#define MT_HOST_CALLER 0x80000000u

#define MT_HOST_MODULE_ATOMIC 1u /* built with host=atomic: each access is between begin and end */

struct mt_host_module {
    uint32_t abi, flags;
    uint32_t instructions, nrows, nfunctions, reserved;
    const struct mt_host_row *rows;
    const char *strings;
    uint32_t *base;                 /* what is added to each site; the runtime writes it */
    const uint32_t *function_names; /* undecorated, offsets into strings */
    uint32_t *function_ids;         /* 0: entry and return are of no interest; the runtime writes them */
};

/* Where a call of malloc and its like is. */
struct mt_host_alloc_location {
    const char *file, *function;
    uint32_t line, column;
};

/* There is room for so many entries at and after limit: an engine that has seen cur < limit may append so
 * many before it looks again (one comparison for all accesses of a basic block; cur is then moved once, when
 * all of them are complete). */
#define MT_CORE_SLACK 16

struct mt_core_thread {
    /* Hot: the engine appends entries here (mat mode). When cur >= limit it hands the access to
     * mt_core_record instead. Others set limit to NULL to get the thread's attention (events, signals):
     * written with __atomic_*. An engine appends whether tracing is on or not. */
    struct mt_host_entry *cur, *limit;
    /* Engines with `marks`: 1 from before cur is read until an access of atomic mode that is appended has
     * been made. Only the thread writes it, with compiler barriers after 1 and around 0. Then, if limit is
     * NULL, mt_core_atomic_end. */
    uint64_t open;
    /* The core's own. */
    struct mt_core_thread_state *state;
    void *engine; /* the engine's */
};

/* Copies of fewer bytes are not compared with what is there. */
#define MT_COPY_LEAST 64u

/* Functions of the C library that touch memory for their caller: codes of __mt_host_libc. */
enum mt_host_libc {
#define MT_HOST_LIBC(symbol, shape, ops, after) MT_LIBC_##symbol,
#include "host_libc.def"
    MT_LIBC_COUNT
};
#endif
