/* Matrix operations of a warp in inline assembly: registers as words on the stack, and a call of
 * mtb_matrix. */
#include <string.h>
#include "asm_lower.h"
#include "asm_matrix.h"

static unsigned width_of(const struct mt_matrix_op *op)
{
    return op->type[0] == MT_MATRIX_F64 ? 64 : 32;
}

static LLVMValueRef asm_matrix_word(struct mt_asm_body *l, LLVMValueRef array, unsigned i)
{
    LLVMValueRef index = mt_asm_const(l, 64, i);
    return LLVMBuildGEP2(l->b, l->i64, array, &index, 1, "");
}

static unsigned count_of(const struct mt_asm_operand *o)
{
    return o->kind == MT_ASM_VECTOR ? o->nitems : 1;
}

/* Stores the registers of an operand at array[*at…]. */
static int asm_matrix_put(struct mt_asm_body *l, const struct mt_matrix_op *op,
                          const struct mt_asm_operand *o, LLVMValueRef array, unsigned *at)
{
    for (unsigned i = 0; i < count_of(o); i++) {
        LLVMValueRef v = mt_asm_in(l, o->kind == MT_ASM_VECTOR ? &o->items[i] : o, width_of(op));
        if (!v)
            return -1;
        LLVMBuildStore(l->b, LLVMBuildIntCast2(l->b, v, l->i64, 0, ""), asm_matrix_word(l, array, (*at)++));
    }
    return 0;
}

static int asm_matrix_take(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef array)
{
    for (unsigned i = 0; i < count_of(o); i++) {
        LLVMValueRef v = LLVMBuildLoad2(l->b, l->i64, asm_matrix_word(l, array, i), "");
        if (mt_asm_out(l, o->kind == MT_ASM_VECTOR ? &o->items[i] : o, v, 0))
            return -1;
    }
    return 0;
}

/* Operands: results, address, sources (mma: three), stride; NULL or 0 if the operation lacks them. */
struct operands {
    const struct mt_asm_operand *d, *memory, *source[3], *stride;
    unsigned nsources;
};

static int read_operands(struct mt_asm_body *l, const struct mt_matrix_op *op, struct operands *o)
{
    const struct mt_asm_statement *s = l->s;
    int is_multiply = op->kind == MT_MATRIX_MULTIPLY,
        has_memory = !is_multiply && op->kind != MT_MATRIX_MOVMATRIX;
    unsigned i = 0, sources = is_multiply ? 3 : op->nin != 0, registers = 0;
    unsigned least = (op->nout != 0) + (unsigned)has_memory + sources;
    *o = (struct operands){.nsources = sources};
    if (s->noperands < least || s->noperands > least + (op->kind <= MT_MATRIX_STORE))
        return -1;
    if (op->nout)
        o->d = &s->operands[i++];
    if (has_memory)
        o->memory = &s->operands[i++];
    for (unsigned j = 0; j < sources; j++) {
        o->source[j] = &s->operands[i++];
        registers += count_of(o->source[j]);
        if (is_multiply && count_of(o->source[j]) != mt_matrix_registers(op, "abc"[j]))
            return -1;
    }
    if (i < s->noperands)
        o->stride = &s->operands[i];
    return registers == op->nin && (!o->d || count_of(o->d) == op->nout) ? 0 : -1;
}

/* Returns words on the stack, reused by others afterwards. */
static LLVMValueRef asm_matrix_words(struct mt_asm_body *l, unsigned n)
{
    LLVMValueRef slot = mt_asm_slot(l, LLVMArrayType2(l->i64, n), "");
    LLVMValueRef args[] = {mt_asm_const(l, 64, 8ull * n), slot};
    if (slot)
        mt_asm_intrinsic(l, "llvm.lifetime.start", l->ptr, args, 2);
    return slot;
}

static void asm_matrix_forget(struct mt_asm_body *l, LLVMValueRef slot, unsigned n)
{
    LLVMValueRef args[] = {mt_asm_const(l, 64, 8ull * n), slot};
    mt_asm_intrinsic(l, "llvm.lifetime.end", l->ptr, args, 2);
}

int mt_asm_matrix(struct mt_asm_body *l)
{
    struct mt_matrix_op op;
    struct operands o;
    unsigned at = 0;
    if (mt_matrix_read(l->s->parts, l->s->nparts, &op) || read_operands(l, &op, &o))
        return mt_asm_fail(l, "%s", l->s->opcode);
    unsigned nin = op.nin ? op.nin : 1, nout = op.nout ? op.nout : 1;
    LLVMValueRef in = asm_matrix_words(l, nin), out = asm_matrix_words(l, nout), p = LLVMConstNull(l->ptr);
    if (!in || !out)
        return -1;
    if (o.memory && !(p = mt_asm_address(l, o.memory, mt_asm_is_shared(l->s))))
        return -1;
    if (op.kind <= MT_MATRIX_STORE)
        mt_matrix_count(l->b, l->c, &op, p);
    for (unsigned j = 0; j < o.nsources; j++)
        if (asm_matrix_put(l, &op, o.source[j], in, &at))
            return -1;
    LLVMValueRef stride =
        o.stride ? mt_asm_in(l, o.stride, 32) : mt_asm_const(l, 32, o.memory ? mt_matrix_dense(&op) : 0);
    if (!stride)
        return -1;
    LLVMValueRef args[] = {mt_matrix_constant(l->m, &op), p, LLVMBuildZExt(l->b, stride, l->i64, ""), in,
                           out};
    if (!mt_asm_call_by_name(l, "mtb_matrix", l->none, args, 5))
        return -1;
    int failed = o.d ? asm_matrix_take(l, o.d, out) : 0;
    asm_matrix_forget(l, in, nin);
    asm_matrix_forget(l, out, nout);
    return failed;
}
