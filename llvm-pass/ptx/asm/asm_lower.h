/* Shared by the files that turn inline assembly into IR. The body is built into fresh blocks after the
 * function, which take the call's place only once all of it is understood. Every register of the asm and
 * every output is one stack slot (an integer of its width), which LLVM's SROA turns into SSA values.
 * Handlers return 0, or -1 after mt_asm_fail. */
#ifndef MT_PASS_ASM_LOWER_H
#define MT_PASS_ASM_LOWER_H
#include "asm.h"
#include <llvm-c/Target.h>

/* ---- constraints: meaning of $n (asm_access.c) ---------------------------------------------------- */

#define MT_ASM_MAX_OPERANDS 512
struct mt_asm_tie {
    int output;   /* index among the results, or -1 for an input */
    int argument; /* operand of the call: an input's value, an output's first value ("+r"); -1: none */
};
struct mt_asm_ties {
    struct mt_asm_tie operands[MT_ASM_MAX_OPERANDS]; /* outputs first, numbered as $n */
    unsigned noperands, noutputs;
};
int mt_asm_ties_read(LLVMValueRef call, struct mt_asm_ties *t, struct mt_asm_error *error);

/* ---- memory touched by a statement (asm_access.c) ------------------------------------------------ */

/* An access of one thread, by operands of the statement. */
struct mt_asm_touch {
    enum mt_access_type op;
    const struct mt_asm_operand *memory;
    unsigned size;                       /* bytes, unless `length` is set */
    const struct mt_asm_operand *length; /* bytes, or NULL */
    const struct mt_asm_operand *ignore; /* predicate that prevents the access if set; or NULL */
    int generic;                         /* 1: may be global; 0: is global */
    unsigned lanes;                      /* number of a warp's first lanes that access; 0: all */
};
/* Returns 1; 0: nothing global, or nothing to record; -1: may touch global memory in an unknown way. */
int mt_asm_touches(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t);

/* PTX types: kind 'b', 's', 'u', 'f', 'g' (bfloat), 't' (tf32) or 'p'; lanes 2 for f16x2, bf16x2, f32x2. */
struct mt_asm_type {
    char kind;
    unsigned bits, lanes; /* bits: of one lane */
};
/* Returns 0 if the word is not a type. */
int mt_asm_type(const char *word, struct mt_asm_type *t);

/* Operands of a tensor copy (asm_access.c). */
#define MT_TENSOR_RANK_MAX 5
struct mt_asm_tensor {
    uint32_t op; /* enum mt_tensor_op */
    unsigned rank;
    const struct mt_asm_operand *map, *at; /* at: `rank` coordinates */
    const struct mt_asm_operand *shared;   /* [address] */
    const struct mt_asm_operand *barrier;  /* [address]; NULL for a store */
    const struct mt_asm_operand *ctas;     /* CTAs of the cluster that get the box, one bit each; NULL:
                                            * only its own */
};

/* ---- the body being lowered --------------------------------------------------------------------- */

struct mt_asm_label {
    const char *name;
    LLVMBasicBlockRef block;
    int passed; /* 1: before the statement being lowered */
};

struct mt_asm_body {
    LLVMModuleRef m;
    LLVMContextRef c;
    LLVMBuilderRef b;
    LLVMTargetDataRef layout;
    LLVMValueRef call, function;
    LLVMTypeRef i1, i8, i16, i32, i64, ptr, none;
    const struct mt_asm *a;
    const struct mt_asm_ties *ties;
    const struct mt_asm_builtins *builtins;
    struct mt_asm_error *error;
    const struct mt_asm_statement *s; /* current statement */
    LLVMValueRef *regs, *outputs;     /* slots; registers have NULL until the first use */
    unsigned *output_bits;
    LLVMValueRef guard;      /* i1 condition of register writes, or NULL */
    LLVMBasicBlockRef first; /* first of the fresh blocks, which are the last of the function */
    struct mt_asm_label *labels;
    unsigned nlabels;
    LLVMValueRef *allocas; /* made here, to undo */
    size_t nallocas, allocas_cap;
    /* In a module: returns an integer for named memory, a special register or a name; NULL: unknown. The
     * pointer is NULL in inline asm. */
    LLVMValueRef (*symbol)(struct mt_asm_body *l, const struct mt_asm_operand *o);
};

/* Before asm_begin, set l->m, call, a, ties, builtins, error; it makes slots and labels, and puts the builder
 * into fresh blocks. Then call mt_asm_statement for each statement in order, and either asm_insert_before
 * (the blocks come before the call, which stays) or asm_undo. mt_asm_end frees. They return 0 or -1. */
int mt_asm_statement(struct mt_asm_body *l);
void mt_asm_end(struct mt_asm_body *l);

int mt_asm_fail(struct mt_asm_body *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Operands. Values are integers; floats are bit-cast for arithmetic. */
LLVMTypeRef mt_asm_int(struct mt_asm_body *l, unsigned bits);
LLVMValueRef mt_asm_const(struct mt_asm_body *l, unsigned bits, uint64_t value);
LLVMValueRef mt_asm_slot(struct mt_asm_body *l, LLVMTypeRef type, const char *name);
/* Returns the operand as an integer of `bits` bits (wider registers are truncated, narrower ones
 * zero-extended), or NULL on error. */
LLVMValueRef mt_asm_in(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits);
LLVMValueRef mt_asm_in_float(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits);
/* Writes an integer to a register, extended (signed if requested) or truncated to its width. */
int mt_asm_out(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef value, int is_signed);
/* Returns the width of a register operand, 0 for any other. */
unsigned mt_asm_width(struct mt_asm_body *l, const struct mt_asm_operand *o);
/* Returns the address of a memory operand as a plain pointer; `shared`: resolves 32-bit shared addresses. */
LLVMValueRef mt_asm_address(struct mt_asm_body *l, const struct mt_asm_operand *o, int shared);
/* Returns a 32-bit or small 64-bit shared address as a plain 64-bit address. */
LLVMValueRef mt_asm_shared_address(struct mt_asm_body *l, LLVMValueRef address);
LLVMValueRef mt_asm_float_of(struct mt_asm_body *l, LLVMValueRef bits); /* i16 becomes half */
LLVMValueRef mt_asm_bits_of(struct mt_asm_body *l, LLVMValueRef value);
/* Calls an LLVM intrinsic overloaded on one type, or on none (NULL). */
LLVMValueRef mt_asm_intrinsic(struct mt_asm_body *l, const char *name, LLVMTypeRef overload,
                              LLVMValueRef *args, unsigned n);

/* Calls a function by name; declares it from the arguments' types if there is no such builtin. */
LLVMValueRef mt_asm_call_by_name(struct mt_asm_body *l, const char *name, LLVMTypeRef result,
                                 LLVMValueRef *args, unsigned n);
LLVMValueRef mt_asm_special(struct mt_asm_body *l, const char *name); /* special register; NULL on error */
/* Returns the builtin for the whole statement, or NULL. */
LLVMValueRef mt_asm_find_builtin(struct mt_asm_body *l, LLVMTypeRef *type);
int mt_asm_call_builtin(struct mt_asm_body *l, LLVMValueRef function, LLVMTypeRef type);
/* Returns 1 if the statement names shared memory. */
int mt_asm_is_shared(const struct mt_asm_statement *s);

/* asm_access.c: lowers the statement l->s, a tensor copy. */
int mt_asm_tensor(struct mt_asm_body *l);

/* Returns a new block after the current one; does not move the builder. */
LLVMBasicBlockRef mt_asm_block(struct mt_asm_body *l);

/* asm_opcodes.c. Lowers the statement l->s. */
typedef int mt_asm_lowering(struct mt_asm_body *l);
int mt_asm_matrix(struct mt_asm_body *l); /* wmma, mma, ldmatrix, stmatrix, movmatrix (asm_matrix.c) */
/* Returns the function that lowers a statement; NULL: a builtin may. */
mt_asm_lowering *mt_asm_find_lowering(const struct mt_asm_statement *s);
enum mt_asm_flag {
    MT_ASM_SELECTS = 1,
    MT_ASM_PURE = 2,
    MT_ASM_NATIVE = 8,
    MT_ASM_NATIVE_FLOAT = 16,
    MT_ASM_FLUSHES = 32,
    MT_ASM_BITS = 64,
    MT_ASM_NO_RESULT = 128,
    MT_ASM_SHARED = 256,
};
int mt_asm_is(const struct mt_asm_statement *s, enum mt_asm_flag flag);
/* Returns 1 if the first operand is written (one or several registers). */
int mt_asm_has_destination(const struct mt_asm_statement *s);
#endif
