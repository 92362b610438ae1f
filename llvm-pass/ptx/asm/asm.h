/* PTX inline assembly in LLVM IR: parsing, the memory it accesses, and its lowering for the CPU image. A
 * struct mt_asm owns everything reachable from it (one arena); free it with mt_asm_free. Errors go into
 * struct mt_asm_error: one sentence without place (the caller knows file and line), and the byte offset in
 * the asm string. No function prints or aborts. Not shared between threads. */
#ifndef MT_PASS_ASM_H
#define MT_PASS_ASM_H
#include <stddef.h>
#include <stdint.h>
#include <llvm-c/Core.h>
#include "memtrace/record.h"

struct mt_asm_error {
    char message[240]; /* "" if there is none */
    size_t offset;     /* byte offset in the asm string */
};

/* ---- parsed form -------------------------------------------------------------------------------- */

enum mt_asm_kind {
    MT_ASM_ARG,    /* $n: operand n of the asm, outputs first */
    MT_ASM_REG,    /* register declared in the asm: index into regs */
    MT_ASM_SREG,   /* special register, name without '%': "laneid", "tid.x" */
    MT_ASM_INT,    /* bits: two's complement */
    MT_ASM_F32,    /* bits: 0f… */
    MT_ASM_F64,    /* bits: 0d… or decimal with a point */
    MT_ASM_SINK,   /* _ */
    MT_ASM_VECTOR, /* {a, b}: items */
    MT_ASM_MEMORY, /* [a+offset]: items[0] is the address, items[1…] follow a comma ([map, {x, y}]) */
    MT_ASM_NAME,   /* label, function, variable, PTX constant (WARP_SZ) */
};

struct mt_asm_operand {
    enum mt_asm_kind kind;
    int inverted;     /* "!p" (predicates) or "-a" */
    unsigned index;   /* ARG: n; REG: index into regs */
    const char *name; /* REG, SREG, NAME */
    char part[4];     /* REG, ARG: part "b0" to "b3", "h0", "h1", or "" */
    uint64_t bits;    /* INT, F32, F64 */
    int64_t offset;   /* MEMORY, and NAME or 'm' in modules: bytes */
    unsigned nitems;
    struct mt_asm_operand *items;
    struct mt_asm_operand *second; /* operand after '|' (d|p), or run-time offset of MEMORY; or NULL */
};

struct mt_ptx_variable; /* module_parts.h */
struct mt_asm_reg {
    const char *name; /* as written; inner blocks may reuse names */
    char type;        /* 'b', 's', 'u', 'f', 'p' (predicate), 'm': named memory, in modules */
    unsigned bits;    /* 1 for predicates */
    const struct mt_ptx_variable *memory; /* 'm' */
    uint32_t hash, hidden; /* hash of the name; previous visible register in its bucket, counted from 1 */
};

#define MT_ASM_MAX_PARTS 24
struct mt_asm_statement {
    const char *label;                   /* name if the statement is only a label, else NULL */
    const char *opcode;                  /* complete, as written: "ld.global.nc.L1::no_allocate.v4.f32" */
    const char *parts[MT_ASM_MAX_PARTS]; /* split at dots: "ld", "global", "nc", … */
    unsigned nparts;
    struct mt_asm_operand *predicate; /* NULL: always; inverted = "@!p" */
    struct mt_asm_operand *operands;
    unsigned noperands;
    size_t offset;  /* byte offset in the asm string */
    unsigned scope; /* enclosing block of braces, 0: the whole text */
};

struct mt_asm {
    struct mt_asm_statement *statements;
    unsigned nstatements;
    struct mt_asm_reg *regs;
    unsigned nregs;
    unsigned *scopes; /* enclosing scope of each scope */
    unsigned nscopes;
    struct mt_asm_chunk *arena;
};

/* Parses a text. Returns NULL with *error filled if it is not understood. An empty text has no statements. */
struct mt_asm *mt_asm_parse(const char *text, size_t length, struct mt_asm_error *error);
void mt_asm_free(struct mt_asm *a);
/* Returns 1 if the opcode has this modifier ("volatile", "v4"). The first part is not a modifier. */
int mt_asm_has(const struct mt_asm_statement *s, const char *modifier);

/* ---- accesses to global memory ------------------------------------------------------------------ */

struct mt_asm_access {
    enum mt_access_type op;
    int argument;      /* operand of the call with the address (pointer or i64), or -1: computed in the asm */
    int64_t offset;    /* bytes to add */
    uint32_t size;     /* bytes per thread (vector × element), or 0: see size_argument */
    int size_argument; /* operand of the call with the run-time byte count (0: no access), or -1 */
    int generic;       /* 1: may be global, to be tested; 0: global */
    unsigned lanes;    /* number of the warp's first lanes that access; 0: all */
    int predicated;    /* 1: conditional, see only_if */
    int only_if;       /* predicated: operand of the call that must be non-zero (integer), or -1: unknown */
    int only_if_inverted; /* 1: the operand must be zero */
};

/* Lists the accesses of an inline-asm call to global memory in program order. Returns their number
 * (accesses to shared, local, constant and parameter space, prefetches and hints do not count), or -1 if
 * it may touch global memory in an unknown way (textures, tensor copies, warp-collective loads, syntax
 * errors, more than max). */
int mt_asm_accesses(LLVMValueRef call, struct mt_asm_access *out, int max);
/* Lists its accesses to shared memory. Addresses are as in the asm: 32 bits, or the 64 of a generic
 * pointer. */
int mt_asm_shared_accesses(LLVMValueRef call, struct mt_asm_access *out, int max);

/* Scope and order of the strong access, the atomic or the fence of an inline-asm call; zeros if it has
 * none. */
struct mt_asm_strength {
    enum mt_scope scope;
    enum mt_order_kind order;
    int exchanges; /* 1: the atomic is an exchange */
};
struct mt_asm_strength mt_asm_strength_of(LLVMValueRef call);

/* A barrier at which an inline-asm call waits or arrives, a fence, or its part in asynchronous copies. */
struct mt_asm_barrier {
    enum mt_access_sync kind;
    uint32_t copy;   /* for MT_SYNC_COPY: MT_COPY_…, or 0: a copy that ends with an object's phase */
    int object;      /* 1: an mbarrier, and its address follows */
    int word;        /* 1: of cooperative groups, made of operations on a word with no other use */
    int argument;    /* operand of the call with its number (mask, address), or -1: */
    uint64_t number; /* the number itself */
    /* For objects: */
    int64_t offset; /* bytes to add to the argument */
    int init;       /* 1: initialised here */
    int phase;      /* operand with the awaited phase, or -1: */
    int64_t parity; /* the phase itself; -1: the one before the object's */
    int result;     /* output of the call that is not 0 once the wait is over; -1: it is over */
};
/* Returns 1, or 0 if the asm has no barrier or fence. */
int mt_asm_barrier_of(LLVMValueRef call, struct mt_asm_barrier *out);

/* Matrix loads and stores of a warp, read from the words of an opcode or an intrinsic's name (asm_access.c).
 */
struct mt_wmma {
    enum mt_access_type op;
    unsigned share, line, bits; /* elements per lane, and per row (column) in memory; bits per element */
    uint32_t size;              /* bytes per lane */
};

/* Accesses that mt_asm_accesses gives up: a lane's share of a matrix, a tensor copy. */
struct mt_asm_warp_access {
    enum mt_access_type op;
    LLVMValueRef address; /* i64 */
    uint32_t size;        /* bytes per lane */
    int generic;
    /* A tensor copy (rank not 0): `address` is its map's; coordinates (i32, all five); its shared memory
     * side: an address (i64), and the CTAs of the cluster it is in (i32, one bit each; 0: only its own). */
    unsigned rank;
    LLVMValueRef at[5], shared, ctas;
};
/* Returns 0, or -1 if it is none of these. Builds the values it needs at b, in front of the call
 * (asm_access.c). */
int mt_asm_warp_access(LLVMModuleRef m, LLVMBuilderRef b, LLVMValueRef call, struct mt_asm_warp_access *out);

/* ---- memory effects for LLVM ------------------------------------------------------------------- */

/* Strongest effect of a body on memory of any space. */
enum mt_asm_effect {
    MT_ASM_NOTHING, /* no access, or only loads of data that is constant while a kernel runs */
    MT_ASM_READS,
    MT_ASM_ACTS, /* writes, synchronises, reads data that others write, or is not understood */
};
enum mt_asm_effect mt_asm_effect_of(const struct mt_asm *a);

/* ---- lowering for the CPU image ----------------------------------------------------------------- */

/* Builtins by name (docs/design/pass.md). Conventions for instructions that the lowering does not do itself:
 *   op.mod d, a, b            T  mtb_ptx_op_mod(a, b)
 *   op.mod a, b               void mtb_ptx_op_mod(a, b)          no destination
 *   op.mod d|p, a  {d, e}, a  void mtb_ptx_op_mod(a, uint64_t *out)   several results: out[i], zero-extended
 *   mov.u32 d, %name          uint32_t or uint64_t mtb_ptx_sreg_name(void)
 * Dots in names become underscores. Vector sources are passed as single arguments in order. Memory operands
 * are passed as pointers (shared addresses resolved) when the builtin's parameter is a pointer or 64 bits
 * wide, raw when it is 32 bits wide. When mtb_ptx_… does not exist, ".sync", ".aligned" and cache hints are
 * dropped from the name and it is tried again. */
struct mt_asm_builtins {
    /* A builtin declared in m, its function type in *type; NULL if there is none. */
    LLVMValueRef (*lookup)(void *ctx, const char *name, LLVMTypeRef *type);
    void *ctx;
};

/* Metadata of an instruction made by the lowering, for lower.c: { i32 kind, i64 bytes }. The instruction,
 * whatever it is, stands for one access of this many bytes; 0: for none, as another one stands for it. On a
 * GEP from the start of a block by its length: for an access of that block, which must not be counted
 * otherwise. */
static inline unsigned mt_mark_kind(LLVMContextRef context)
{
    return LLVMGetMDKindIDInContext(context, "memtrace.access", sizeof "memtrace.access" - 1);
}

/* Replaces the call of inline asm by plain IR and erases it. Blocks may be split: the code after the call
 * stays in its block, the code before it moves to a new block in front. 0, or -1 with *error and the module
 * unchanged (declarations apart). */
int mt_asm_lower(LLVMModuleRef m, LLVMValueRef call, const struct mt_asm_builtins *b,
                 struct mt_asm_error *error);
#endif
