/* Integer arithmetic of PTX: add … mad, carry chains, comparisons, selection. */
#include "asm_lower.h"
#include <string.h>

#define IN(i, bits) mt_asm_in(l, &l->s->operands[i], bits)

/* Reads n sources of one width after the destination. Returns 0 or -1. */
static int asm_integer_sources(struct mt_asm_body *l, LLVMValueRef *v, unsigned n, unsigned bits)
{
    if (mt_asm_count(l, n + 1, n + 1))
        return -1;
    for (unsigned i = 0; i < n; i++)
        if (!(v[i] = IN(i + 1, bits)))
            return -1;
    return 0;
}

static int asm_integer_out(struct mt_asm_body *l, LLVMValueRef v, struct mt_asm_type t)
{
    return mt_asm_out(l, &l->s->operands[0], v, t.kind == 's');
}

static LLVMValueRef asm_integer_widen(struct mt_asm_body *l, LLVMValueRef v, unsigned bits,
                                      struct mt_asm_type t)
{
    return LLVMBuildIntCast2(l->b, v, mt_asm_int(l, bits), t.kind == 's', "");
}

/* Returns the product in twice the width. */
static LLVMValueRef asm_integer_product(struct mt_asm_body *l, LLVMValueRef a, LLVMValueRef b,
                                        struct mt_asm_type t)
{
    return LLVMBuildMul(l->b, asm_integer_widen(l, a, 2 * t.bits, t), asm_integer_widen(l, b, 2 * t.bits, t),
                        "");
}

static LLVMValueRef asm_integer_high(struct mt_asm_body *l, LLVMValueRef wide, struct mt_asm_type t)
{
    wide = LLVMBuildLShr(l->b, wide, mt_asm_const(l, 2 * t.bits, t.bits), "");
    return LLVMBuildTrunc(l->b, wide, mt_asm_int(l, t.bits), "");
}

/* ---- carry: one flag per function, as one asm statement may pass it to the next ----------------- */

/* Finds the slot by metadata, as clang drops names of values. */
static LLVMValueRef carry_slot(struct mt_asm_body *l)
{
    unsigned mark = LLVMGetMDKindIDInContext(l->c, "mt.asm.carry", 12);
    LLVMValueRef i = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(l->function));
    for (; i; i = LLVMGetNextInstruction(i))
        if (LLVMIsAAllocaInst(i) && LLVMGetMetadata(i, mark))
            return i;
    if ((i = mt_asm_slot(l, l->i1, "")))
        LLVMSetMetadata(i, mark, LLVMMetadataAsValue(l->c, LLVMMDNodeInContext2(l->c, NULL, 0)));
    return i;
}

static LLVMValueRef carry_in(struct mt_asm_body *l)
{
    LLVMValueRef slot = carry_slot(l);
    return slot ? LLVMBuildLoad2(l->b, l->i1, slot, "") : NULL;
}

static int carry_out(struct mt_asm_body *l, LLVMValueRef flag)
{
    LLVMValueRef slot = carry_slot(l);
    if (!slot)
        return -1;
    if (l->guard)
        flag = LLVMBuildSelect(l->b, l->guard, flag, LLVMBuildLoad2(l->b, l->i1, slot, ""), "");
    LLVMBuildStore(l->b, flag, slot);
    return 0;
}

/* Computes a + b, or a - b as a + ~b + 1, with the flag by the opcode: ".cc" writes it, a final 'c' of the
 * first word reads it. So after a subtraction the flag is set if there was no borrow, and subc adds it:
 * the hardware's way, despite the manual's word "borrow". Chains that mix additions and subtractions rely
 * on it. A sum wraps if it is less than an operand: comparisons stay vectors, while additions of twice the
 * width become a chain of the processor's own carries per lane. */
static int asm_integer_carried(struct mt_asm_body *l, LLVMValueRef a, LLVMValueRef b, int minus,
                               struct mt_asm_type t)
{
    const char *op = l->s->parts[0];
    size_t n = strlen(op);
    int reads = n > 3 && op[n - 1] == 'c'; /* addc, subc, madc */
    LLVMValueRef in = reads ? carry_in(l) : NULL, x, flag;
    if (reads && !in)
        return -1;
    if (minus && !reads) {
        x = LLVMBuildSub(l->b, a, b, "");
        flag = LLVMBuildICmp(l->b, LLVMIntUGE, a, b, "");
    } else {
        x = LLVMBuildAdd(l->b, a, minus ? LLVMBuildNot(l->b, b, "") : b, "");
        flag = LLVMBuildICmp(l->b, LLVMIntULT, x, a, "");
    }
    if (reads) {
        LLVMValueRef sum = LLVMBuildAdd(l->b, x, LLVMBuildZExt(l->b, in, mt_asm_int(l, t.bits), ""), "");
        flag = LLVMBuildOr(l->b, flag, LLVMBuildICmp(l->b, LLVMIntULT, sum, x, ""), "");
        x = sum;
    }
    if (mt_asm_has(l->s, "cc") && carry_out(l, flag))
        return -1;
    return asm_integer_out(l, x, t);
}

/* ---- arithmetic --------------------------------------------------------------------------------- */

int mt_asm_integer_add(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    const char *op = l->s->parts[0];
    int minus = *op == 's';
    if (mt_asm_last_type(l, &t))
        return -1;
    if (t.lanes > 1)
        return mt_asm_fallback(l);
    if (asm_integer_sources(l, v, 2, t.bits))
        return -1;
    if (mt_asm_has(l->s, "cc") || strlen(op) == 4)
        return asm_integer_carried(l, v[0], v[1], minus, t);
    if (mt_asm_has(l->s, "sat"))
        return asm_integer_out(
            l, mt_asm_intrinsic(l, minus ? "llvm.ssub.sat" : "llvm.sadd.sat", mt_asm_int(l, t.bits), v, 2),
            t);
    return asm_integer_out(l, minus ? LLVMBuildSub(l->b, v[0], v[1], "") : LLVMBuildAdd(l->b, v[0], v[1], ""),
                           t);
}

int mt_asm_integer_mul(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    if (mt_asm_last_type(l, &t) || asm_integer_sources(l, v, 2, t.bits))
        return -1;
    if (mt_asm_has(l->s, "wide"))
        return asm_integer_out(l, asm_integer_product(l, v[0], v[1], t), t);
    if (mt_asm_has(l->s, "hi"))
        return asm_integer_out(l, asm_integer_high(l, asm_integer_product(l, v[0], v[1], t), t), t);
    return asm_integer_out(l, LLVMBuildMul(l->b, v[0], v[1], ""), t);
}

int mt_asm_integer_mad(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2], c, m;
    int wide = mt_asm_has(l->s, "wide");
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 4, 4))
        return -1;
    v[0] = IN(1, t.bits);
    v[1] = IN(2, t.bits);
    c = IN(3, wide ? 2 * t.bits : t.bits);
    if (!v[0] || !v[1] || !c)
        return -1;
    if (wide)
        return asm_integer_out(l, LLVMBuildAdd(l->b, asm_integer_product(l, v[0], v[1], t), c, ""), t);
    m = mt_asm_has(l->s, "hi") ? asm_integer_high(l, asm_integer_product(l, v[0], v[1], t), t)
                               : LLVMBuildMul(l->b, v[0], v[1], "");
    if (mt_asm_has(l->s, "cc") || !strcmp(l->s->parts[0], "madc"))
        return asm_integer_carried(l, m, c, 0, t);
    if (mt_asm_has(l->s, "sat")) {
        LLVMValueRef args[] = {m, c};
        return asm_integer_out(l, mt_asm_intrinsic(l, "llvm.sadd.sat", mt_asm_int(l, t.bits), args, 2), t);
    }
    return asm_integer_out(l, LLVMBuildAdd(l->b, m, c, ""), t);
}

/* mul24, mad24: the low 24 bits of each factor; .hi gives bits 16 to 47 of the product. */
int mt_asm_integer_mul24(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    int mad = !strcmp(l->s->parts[0], "mad24");
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, mad ? 4 : 3, mad ? 4 : 3))
        return -1;
    LLVMValueRef v[2], r;
    for (unsigned i = 0; i < 2; i++) {
        if (!(v[i] = IN(i + 1, 32)))
            return -1;
        v[i] = LLVMBuildShl(l->b, v[i], mt_asm_const(l, 32, 8), "");
        v[i] = t.kind == 's' ? LLVMBuildAShr(l->b, v[i], mt_asm_const(l, 32, 8), "")
                             : LLVMBuildLShr(l->b, v[i], mt_asm_const(l, 32, 8), "");
    }
    r = asm_integer_product(l, v[0], v[1], t);
    if (mt_asm_has(l->s, "hi"))
        r = LLVMBuildLShr(l->b, r, mt_asm_const(l, 64, 16), "");
    r = LLVMBuildTrunc(l->b, r, l->i32, "");
    if (mad) {
        LLVMValueRef args[] = {r, IN(3, 32)};
        if (!args[1])
            return -1;
        r = mt_asm_has(l->s, "sat") ? mt_asm_intrinsic(l, "llvm.sadd.sat", l->i32, args, 2)
                                    : LLVMBuildAdd(l->b, r, args[1], "");
    }
    return asm_integer_out(l, r, t);
}

/* Divides without traps: x / 0 has all bits set, x % 0 is x (PTX leaves both open), MIN / -1 wraps. */
int mt_asm_integer_div(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2], r;
    int rem = !strcmp(l->s->parts[0], "rem");
    if (mt_asm_last_type(l, &t) || asm_integer_sources(l, v, 2, t.bits))
        return -1;
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v[0])), one = mt_asm_const(l, t.bits, 1);
    LLVMValueRef ones = LLVMConstAllOnes(LLVMTypeOf(v[0]));
    LLVMValueRef by_zero = LLVMBuildICmp(l->b, LLVMIntEQ, v[1], zero, "");
    LLVMValueRef safe = LLVMBuildSelect(l->b, by_zero, one, v[1], "");
    if (t.kind == 's') {
        LLVMValueRef by_minus = LLVMBuildICmp(l->b, LLVMIntEQ, v[1], ones, "");
        safe = LLVMBuildSelect(l->b, by_minus, one, safe, "");
        r = rem ? LLVMBuildSRem(l->b, v[0], safe, "") : LLVMBuildSDiv(l->b, v[0], safe, "");
        r = LLVMBuildSelect(l->b, by_minus, rem ? zero : LLVMBuildNeg(l->b, v[0], ""), r, "");
    } else {
        r = rem ? LLVMBuildURem(l->b, v[0], safe, "") : LLVMBuildUDiv(l->b, v[0], safe, "");
    }
    return asm_integer_out(l, LLVMBuildSelect(l->b, by_zero, rem ? v[0] : ones, r, ""), t);
}

int mt_asm_integer_neg(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v;
    if (mt_asm_last_type(l, &t) || asm_integer_sources(l, &v, 1, t.bits))
        return -1;
    return asm_integer_out(l, LLVMBuildNeg(l->b, v, ""), t);
}

int mt_asm_integer_abs(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    if (mt_asm_last_type(l, &t) || asm_integer_sources(l, v, 1, t.bits))
        return -1;
    v[1] = mt_asm_const(l, 1, 0);
    return asm_integer_out(l, mt_asm_intrinsic(l, "llvm.abs", mt_asm_int(l, t.bits), v, 2), t);
}

int mt_asm_integer_minmax(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    int max = !strcmp(l->s->parts[0], "max");
    if (mt_asm_last_type(l, &t))
        return -1;
    if (t.lanes > 1 || mt_asm_has(l->s, "relu"))
        return mt_asm_fallback(l);
    if (asm_integer_sources(l, v, 2, t.bits))
        return -1;
    const char *name = t.kind == 's' ? (max ? "llvm.smax" : "llvm.smin") : (max ? "llvm.umax" : "llvm.umin");
    return asm_integer_out(l, mt_asm_intrinsic(l, name, mt_asm_int(l, t.bits), v, 2), t);
}

/* sad d, a, b, c: c + |a - b| */
int mt_asm_integer_sad(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[3];
    if (mt_asm_last_type(l, &t) || asm_integer_sources(l, v, 3, t.bits))
        return -1;
    LLVMValueRef more = LLVMBuildICmp(l->b, t.kind == 's' ? LLVMIntSGT : LLVMIntUGT, v[0], v[1], "");
    LLVMValueRef d = LLVMBuildSelect(l->b, more, LLVMBuildSub(l->b, v[0], v[1], ""),
                                     LLVMBuildSub(l->b, v[1], v[0], ""), "");
    return asm_integer_out(l, LLVMBuildAdd(l->b, d, v[2], ""), t);
}
