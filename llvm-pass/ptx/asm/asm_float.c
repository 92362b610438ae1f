/* Arithmetic of PTX on f32 and f64, for instructions without a builtin: rounds to nearest even, honours
 * .ftz. Other roundings, 16-bit floats and approximations of transcendental functions are builtins or
 * errors. */
#include "asm_lower.h"
#include <string.h>

LLVMValueRef mt_asm_float_flush(struct mt_asm_body *l, LLVMValueRef v)
{
    if (!mt_asm_has(l->s, "ftz") || LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMFloatTypeKind)
        return v;
    LLVMValueRef u = mt_asm_bits_of(l, v);
    LLVMValueRef exponent = LLVMBuildAnd(l->b, u, mt_asm_const(l, 32, 0x7f800000), "");
    LLVMValueRef sign = LLVMBuildAnd(l->b, u, mt_asm_const(l, 32, 0x80000000), "");
    LLVMValueRef small = LLVMBuildICmp(l->b, LLVMIntEQ, exponent, mt_asm_const(l, 32, 0), "");
    return mt_asm_float_of(l, LLVMBuildSelect(l->b, small, sign, u, ""));
}

LLVMValueRef mt_asm_float_saturate(struct mt_asm_body *l, LLVMValueRef v)
{
    LLVMValueRef zero = LLVMConstReal(LLVMTypeOf(v), 0), one = LLVMConstReal(LLVMTypeOf(v), 1);
    if (!mt_asm_has(l->s, "sat"))
        return v;
    v = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOGT, v, zero, ""), v, zero, "");
    return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOLT, v, one, ""), v, one, "");
}

/* Reads the type, and the sources after the destination; rejects operations whose host default differs. */
static int asm_float_begin(struct mt_asm_body *l, struct mt_asm_type *t, LLVMValueRef *v, unsigned n)
{
    static const char *const refused[] = {"rz", "rm", "rp", "rna", "rs", "relu", "NaN", "xorsign"};
    if (mt_asm_last_type(l, t) || mt_asm_count(l, n + 1, n + 1))
        return -1;
    int bad = t->kind != 'f' || t->bits < 32 || t->lanes > 1;
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++)
        bad |= mt_asm_has(l->s, refused[i]);
    for (unsigned i = 1; i + 1 < l->s->nparts; i++) { /* mixed precision: add.f32.f16 */
        struct mt_asm_type other;
        bad |= mt_asm_type(l->s->parts[i], &other);
    }
    if (bad)
        return mt_asm_fail(l, "%s", l->s->opcode);
    for (unsigned i = 0; i < n; i++) {
        if (!(v[i] = mt_asm_in_float(l, &l->s->operands[i + 1], t->bits)))
            return -1;
        v[i] = mt_asm_float_flush(l, v[i]);
    }
    return 0;
}

static int asm_float_out(struct mt_asm_body *l, LLVMValueRef v)
{
    v = mt_asm_float_saturate(l, mt_asm_float_flush(l, v));
    return mt_asm_out_float(l, &l->s->operands[0], v);
}

int mt_asm_float_binary(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    if (asm_float_begin(l, &t, v, 2))
        return -1;
    switch (*l->s->parts[0]) {
    case 'a':
        return asm_float_out(l, LLVMBuildFAdd(l->b, v[0], v[1], ""));
    case 's':
        return asm_float_out(l, LLVMBuildFSub(l->b, v[0], v[1], ""));
    case 'm':
        return asm_float_out(l, LLVMBuildFMul(l->b, v[0], v[1], ""));
    default:
        return asm_float_out(l, LLVMBuildFDiv(l->b, v[0], v[1], ""));
    }
}

int mt_asm_float_fma(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[3];
    return asm_float_begin(l, &t, v, 3)
               ? -1
               : asm_float_out(l, mt_asm_intrinsic(l, "llvm.fma", LLVMTypeOf(v[0]), v, 3));
}

/* A NaN operand gives the other one; code generation ensures -0 < +0. */
int mt_asm_float_minmax(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    const char *name = strcmp(l->s->parts[0], "max") ? "llvm.minnum" : "llvm.maxnum";
    return asm_float_begin(l, &t, v, 2) ? -1
                                        : asm_float_out(l, mt_asm_intrinsic(l, name, LLVMTypeOf(v[0]), v, 2));
}

int mt_asm_float_unary(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v;
    const char *op = l->s->parts[0];
    if (asm_float_begin(l, &t, &v, 1))
        return -1;
    LLVMValueRef one = LLVMConstReal(LLVMTypeOf(v), 1);
    if (!strcmp(op, "neg"))
        return asm_float_out(l, LLVMBuildFNeg(l->b, v, ""));
    if (!strcmp(op, "abs"))
        return asm_float_out(l, mt_asm_intrinsic(l, "llvm.fabs", LLVMTypeOf(v), &v, 1));
    if (!strcmp(op, "rcp"))
        return asm_float_out(l, LLVMBuildFDiv(l->b, one, v, ""));
    v = mt_asm_intrinsic(l, "llvm.sqrt", LLVMTypeOf(v), &v, 1);
    return asm_float_out(l, *op == 's' ? v : LLVMBuildFDiv(l->b, one, v, ""));
}

/* copysign d, a, b: b with a's sign. */
int mt_asm_float_copysign(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    if (asm_float_begin(l, &t, v, 2))
        return -1;
    LLVMValueRef args[] = {v[1], v[0]};
    return mt_asm_out_float(l, &l->s->operands[0],
                            mt_asm_intrinsic(l, "llvm.copysign", LLVMTypeOf(v[0]), args, 2));
}

/* testp.op.type p, a */
int mt_asm_float_testp(struct mt_asm_body *l)
{
    static const struct {
        const char *word;
        unsigned classes; /* bits for llvm.is.fpclass */
    } table[] = {{"finite", 0x1f8}, {"infinite", 0x204},  {"number", 0x3fc},
                 {"notanumber", 3}, {"subnormal", 0x090}, {"normal", 0x168} /* including zeros */};
    struct mt_asm_type t;
    LLVMValueRef v;
    if (asm_float_begin(l, &t, &v, 1))
        return -1;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (mt_asm_has(l->s, table[i].word)) {
            LLVMValueRef args[] = {v, mt_asm_const(l, 32, table[i].classes)};
            LLVMValueRef r = mt_asm_intrinsic(l, "llvm.is.fpclass", LLVMTypeOf(v), args, 2);
            return mt_asm_out(l, &l->s->operands[0], r, 0);
        }
    return mt_asm_fail(l, "%s", l->s->opcode);
}
