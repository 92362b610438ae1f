/* Shared by the parts that turn inline assembly into IR.
 *
 * The body is built into fresh blocks after the function; only when all of it is understood do they take the
 * call's place. Every register of the asm and every output is one stack slot (an integer of its width), which
 * LLVM's SROA turns into SSA values. Handlers return 0, or -1 after mt_asm_fail. */
#ifndef MT_PASS_ASM_LOWER_H
#define MT_PASS_ASM_LOWER_H
#include "asm.h"
#include <llvm-c/Target.h>

/* ---- constraints: what $n stands for (asm_ties.c) ----------------------------------------------- */

#define MT_ASM_MAX_OPERANDS 512
struct mt_asm_tie {
    int output;   /* index among the results, or -1: an input */
    int argument; /* operand of the call: an input's value, an output's first value ("+r"); -1: none */
};
struct mt_asm_ties {
    struct mt_asm_tie operands[MT_ASM_MAX_OPERANDS]; /* outputs first, as $n counts */
    unsigned noperands, noutputs;
};
int mt_asm_ties_read(LLVMValueRef call, struct mt_asm_ties *t, struct mt_asm_error *error);

/* ---- what a statement does to memory (asm_touch.c) ----------------------------------------------- */

/* Of one thread, as operands of the statement. */
struct mt_asm_touch {
    enum mt_access_type op;
    const struct mt_asm_operand *memory;
    unsigned size;                       /* bytes, unless `length` says */
    const struct mt_asm_operand *length; /* bytes, or NULL */
    const struct mt_asm_operand *ignore; /* predicate: when it is set nothing is touched; or NULL */
    int generic;                         /* may be global; 0: is */
    unsigned lanes;                      /* only the first so many of a warp; 0: all */
};
/* 1, 0: nothing global, or nothing to record; -1: may touch global memory in a way that is not understood. */
int mt_asm_touches(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t);
/* The same for shared memory; t->generic has no meaning. Barriers that lie in it are not data. */
int mt_asm_touches_shared(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t);

/* PTX types: kind 'b', 's', 'u', 'f', 'g' (bfloat), 't' (tf32) or 'p'; lanes 2 for f16x2, bf16x2, f32x2. */
struct mt_asm_type {
    char kind;
    unsigned bits, lanes; /* bits of one lane */
};
/* 0 when the word is not a type. */
int mt_asm_type(const char *word, struct mt_asm_type *t);
unsigned mt_asm_type_bits(const char *word); /* of all lanes; 0: no type */

/* A tensor copy (asm_tensor.c): its operands. */
#define MT_TENSOR_RANK_MAX 5
struct mt_asm_tensor {
    uint32_t op; /* enum mt_tensor_op */
    unsigned rank;
    const struct mt_asm_operand *map, *at; /* at: the coordinates, `rank` of them */
    const struct mt_asm_operand *shared;   /* [address] */
    const struct mt_asm_operand *barrier;  /* [address]; NULL: a store has none */
    const struct mt_asm_operand *ctas;     /* of the cluster, that get the box, as bits; NULL: one alone */
};
/* 0, or -1: not such a statement, or of a form that is not done. */
int mt_asm_tensor_read(const struct mt_asm_statement *s, struct mt_asm_tensor *t);
/* What it does to global memory. */
enum mt_access_type mt_asm_tensor_type(const struct mt_asm_tensor *t);

/* ---- the body being lowered --------------------------------------------------------------------- */

struct mt_asm_label {
    const char *name;
    LLVMBasicBlockRef block;
    int passed; /* is before the statement being lowered */
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
    const struct mt_asm_statement *s; /* the statement under way */
    LLVMValueRef *regs, *outputs;     /* slots; of registers NULL until one is used */
    unsigned *output_bits;
    LLVMValueRef guard;      /* i1 that register writes depend on, or NULL */
    LLVMBasicBlockRef first; /* first of the fresh blocks; they are the last of the function */
    struct mt_asm_label *labels;
    unsigned nlabels;
    LLVMValueRef *allocas; /* made here, for undoing */
    size_t nallocas, allocas_cap;
    /* In a module: an integer for memory with a name, a special register or a name; NULL: not known. NULL in
     * inline asm. */
    LLVMValueRef (*symbol)(struct mt_asm_body *l, const struct mt_asm_operand *o);
};

/* asm_lower.c. mt_asm_begin: l->m, call, a, ties, builtins, error are set; makes slots and labels, the
 * builder is in fresh blocks. Then mt_asm_statement for each statement in order, and one of:
 * mt_asm_insert_before (the blocks come before the call, which stays), mt_asm_undo. mt_asm_end frees.
 * 0 or -1. */
int mt_asm_statement(struct mt_asm_body *l);
void mt_asm_end(struct mt_asm_body *l);

int mt_asm_fail(struct mt_asm_body *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* asm_value.c: operands. Values are integers; floats are bit-cast where they are computed with. */
LLVMTypeRef mt_asm_int(struct mt_asm_body *l, unsigned bits);
LLVMValueRef mt_asm_const(struct mt_asm_body *l, unsigned bits, uint64_t value);
LLVMValueRef mt_asm_slot(struct mt_asm_body *l, LLVMTypeRef type, const char *name);
/* The operand as an integer of `bits` bits (wider registers are cut, narrower ones zero-extended);
 * NULL on error. */
LLVMValueRef mt_asm_in(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits);
LLVMValueRef mt_asm_in_float(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits);
/* Writes an integer to a register, extending (signed if wanted) or cutting it to the register's width. */
int mt_asm_out(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef value, int is_signed);
int mt_asm_out_float(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef value);
/* Width of a register operand, 0 for anything else. */
unsigned mt_asm_width(struct mt_asm_body *l, const struct mt_asm_operand *o);
/* Address of a memory operand as a plain pointer; `shared`: resolve 32-bit shared addresses. */
LLVMValueRef mt_asm_address(struct mt_asm_body *l, const struct mt_asm_operand *o, int shared);
/* A 32-bit or small 64-bit shared address as a plain 64-bit address. */
LLVMValueRef mt_asm_shared_address(struct mt_asm_body *l, LLVMValueRef address);
LLVMValueRef mt_asm_float_of(struct mt_asm_body *l, LLVMValueRef bits); /* i16 is half */
LLVMValueRef mt_asm_bits_of(struct mt_asm_body *l, LLVMValueRef value);
/* asm_float.c: denormals of f32 become zeros of the same sign when the opcode says .ftz. */
LLVMValueRef mt_asm_float_flush(struct mt_asm_body *l, LLVMValueRef v);
/* With .sat: into [0, 1]; NaN becomes 0. */
LLVMValueRef mt_asm_float_saturate(struct mt_asm_body *l, LLVMValueRef v);
/* Call of an LLVM intrinsic overloaded on one type, or on none (NULL). */
LLVMValueRef mt_asm_intrinsic(struct mt_asm_body *l, const char *name, LLVMTypeRef overload,
                              LLVMValueRef *args, unsigned n);

/* asm_call.c */
/* Calls a function by name; declared from the arguments' types when there is no builtin of that name. */
LLVMValueRef mt_asm_call_by_name(struct mt_asm_body *l, const char *name, LLVMTypeRef result,
                                 LLVMValueRef *args, unsigned n);
LLVMValueRef mt_asm_special(struct mt_asm_body *l, const char *name); /* special register; NULL on error */
/* The builtin that does the whole statement, or NULL. */
LLVMValueRef mt_asm_find_builtin(struct mt_asm_body *l, LLVMTypeRef *type);
int mt_asm_call_builtin(struct mt_asm_body *l, LLVMValueRef function, LLVMTypeRef type);
/* For handlers that meet a form they do not know, before they have built anything: the builtin,
 * or an error. */
int mt_asm_fallback(struct mt_asm_body *l);
/* Does the statement name shared memory? */
int mt_asm_is_shared(const struct mt_asm_statement *s);

/* asm_memory.c: one atomic read-modify-write as the opcode says, of one element; the old bits, NULL on error.
 * counts: the bytes of the access that it stands for in the second count, or 0. */
LLVMValueRef mt_asm_atomic(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v, struct mt_asm_type t,
                           unsigned counts);

/* asm_video.c: cvt.pack */
int mt_asm_video_pack(struct mt_asm_body *l);

/* asm_tensor.c: lowers the statement l->s, a tensor copy. */
int mt_asm_tensor(struct mt_asm_body *l);

/* Marks an instruction for the second count (mt_mark_kind). */
void mt_asm_mark(struct mt_asm_body *l, LLVMValueRef inst, enum mt_access_type kind, uint64_t bytes);

/* Fresh block that follows the current one; the builder is not moved. */
LLVMBasicBlockRef mt_asm_block(struct mt_asm_body *l);

/* asm_opcode.c, of opcodes.def. Lowers the statement l->s. */
typedef int mt_asm_lowering(struct mt_asm_body *l);
/* clang-format off */
#define OPCODE(word, function, flags) mt_asm_lowering function;
#define TYPED(word, integers, floats, flags) mt_asm_lowering integers, floats;
#define INTEGERS OPCODE
#define FLOATS OPCODE
#define BUILTIN(word, flags)
#define TOUCH(word, modifier, effect, record)
#include "opcodes.def"
#undef OPCODE
#undef TYPED
#undef INTEGERS
#undef FLOATS
#undef BUILTIN
#undef TOUCH
/* clang-format on */
/* The function that does a statement; NULL: a builtin may. */
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
/* Is the first operand what the statement writes (a register, or several)? (asm_call.c) */
int mt_asm_has_destination(const struct mt_asm_statement *s);
/* Type that the opcode ends in; fails when there is none. */
int mt_asm_last_type(struct mt_asm_body *l, struct mt_asm_type *t);
/* Fails unless the statement has between min and max operands. */
int mt_asm_count(struct mt_asm_body *l, unsigned min, unsigned max);
#endif
