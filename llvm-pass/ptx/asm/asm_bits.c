/* Bits, moves, comparisons and selection of PTX. */
#include "asm_lower.h"
#include <string.h>

#define IN(i, bits) mt_asm_in(l, &l->s->operands[i], bits)

static int asm_bits_out(struct mt_asm_body *l, LLVMValueRef v, int is_signed)
{
    return v ? mt_asm_out(l, &l->s->operands[0], v, is_signed) : -1;
}

static int asm_bits_begin(struct mt_asm_body *l, struct mt_asm_type *t, unsigned operands)
{
    return mt_asm_last_type(l, t) || mt_asm_count(l, operands, operands) ? -1 : 0;
}

/* ---- moves and logic ---------------------------------------------------------------------------- */

int mt_asm_bits_mov(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 2))
        return -1;
    const struct mt_asm_operand *o = &l->s->operands[1];
    if (o->kind == MT_ASM_F64 && t.kind == 'f') {
        LLVMValueRef v = mt_asm_in_float(l, o, t.bits);
        return v ? mt_asm_out_float(l, &l->s->operands[0], v) : -1;
    }
    return asm_bits_out(l, IN(1, t.bits * t.lanes), t.kind == 's');
}

int mt_asm_bits_logic(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 3))
        return -1;
    LLVMValueRef a = IN(1, t.bits), b = IN(2, t.bits);
    if (!a || !b)
        return -1;
    LLVMOpcode op = *l->s->parts[0] == 'a' ? LLVMAnd : *l->s->parts[0] == 'o' ? LLVMOr : LLVMXor;
    return asm_bits_out(l, LLVMBuildBinOp(l->b, op, a, b, ""), 0);
}

int mt_asm_bits_not(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 2))
        return -1;
    LLVMValueRef a = IN(1, t.bits);
    if (!a)
        return -1;
    if (!strcmp(l->s->parts[0], "cnot")) {
        a = LLVMBuildICmp(l->b, LLVMIntEQ, a, LLVMConstNull(LLVMTypeOf(a)), "");
        return asm_bits_out(l, LLVMBuildZExt(l->b, a, mt_asm_int(l, t.bits), ""), 0);
    }
    return asm_bits_out(l, LLVMBuildNot(l->b, a, ""), 0);
}

/* Shifts; amounts beyond the width give 0 (or the sign). */
int mt_asm_bits_shift(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 3))
        return -1;
    LLVMValueRef a = IN(1, t.bits), n = IN(2, 32), r;
    if (!a || !n)
        return -1;
    LLVMValueRef big = LLVMBuildICmp(l->b, LLVMIntUGE, n, mt_asm_const(l, 32, t.bits), "");
    n = LLVMBuildSelect(l->b, big, mt_asm_const(l, 32, t.bits - 1), n, "");
    n = LLVMBuildIntCast2(l->b, n, mt_asm_int(l, t.bits), 0, "");
    if (!strcmp(l->s->parts[0], "shr") && t.kind == 's')
        return asm_bits_out(l, LLVMBuildAShr(l->b, a, n, ""), 1);
    r = *(l->s->parts[0] + 2) == 'l' ? LLVMBuildShl(l->b, a, n, "") : LLVMBuildLShr(l->b, a, n, "");
    return asm_bits_out(l, LLVMBuildSelect(l->b, big, LLVMConstNull(LLVMTypeOf(a)), r, ""), 0);
}

/* shf.{l,r}.{clamp,wrap}.b32 d, a, b, c: 64-bit b:a shifted; clamp: at most 32. */
int mt_asm_bits_shf(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 4))
        return -1;
    LLVMValueRef a = IN(1, 32), b = IN(2, 32), n = IN(3, 32);
    if (!a || !b || !n)
        return -1;
    if (mt_asm_has(l->s, "wrap")) {
        n = LLVMBuildAnd(l->b, n, mt_asm_const(l, 32, 31), "");
    } else {
        LLVMValueRef args[] = {n, mt_asm_const(l, 32, 32)};
        n = mt_asm_intrinsic(l, "llvm.umin", l->i32, args, 2);
    }
    n = LLVMBuildZExt(l->b, n, l->i64, "");
    LLVMValueRef wide = LLVMBuildShl(l->b, LLVMBuildZExt(l->b, b, l->i64, ""), mt_asm_const(l, 64, 32), "");
    wide = LLVMBuildOr(l->b, wide, LLVMBuildZExt(l->b, a, l->i64, ""), "");
    if (mt_asm_has(l->s, "l"))
        wide = LLVMBuildLShr(l->b, LLVMBuildShl(l->b, wide, n, ""), mt_asm_const(l, 64, 32), "");
    else
        wide = LLVMBuildLShr(l->b, wide, n, "");
    return asm_bits_out(l, LLVMBuildTrunc(l->b, wide, l->i32, ""), 0);
}

/* lop3.b32 d, a, b, c, table; {.and,.or} d|p, a, b, c, table, q: p = (d != 0) op q */
int mt_asm_bits_lop3(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    if (mt_asm_count(l, 5, 6))
        return -1;
    LLVMValueRef v[3], table = IN(4, 32), r = mt_asm_const(l, 32, 0);
    for (unsigned i = 0; i < 3; i++)
        if (!(v[i] = IN(i + 1, 32)))
            return -1;
    if (!table || !LLVMIsAConstantInt(table))
        return mt_asm_fail(l, "%s: its table is not a constant", l->s->opcode);
    uint64_t bits = LLVMConstIntGetZExtValue(table);
    for (unsigned m = 0; m < 8; m++) {
        if (!(bits >> m & 1))
            continue;
        LLVMValueRef term = LLVMConstAllOnes(l->i32);
        for (unsigned i = 0; i < 3; i++)
            term = LLVMBuildAnd(l->b, term, m >> (2 - i) & 1 ? v[i] : LLVMBuildNot(l->b, v[i], ""), "");
        r = LLVMBuildOr(l->b, r, term, "");
    }
    if (o[0].second) {
        LLVMValueRef p = LLVMBuildICmp(l->b, LLVMIntNE, r, mt_asm_const(l, 32, 0), "");
        LLVMValueRef q = l->s->noperands == 6 ? IN(5, 1) : NULL;
        if (!q)
            return mt_asm_fail(l, "%s: operand missing", l->s->opcode);
        p = mt_asm_has(l->s, "and") ? LLVMBuildAnd(l->b, p, q, "") : LLVMBuildOr(l->b, p, q, "");
        if (mt_asm_out(l, o[0].second, p, 0))
            return -1;
    }
    return asm_bits_out(l, r, 0);
}

/* ---- fields ------------------------------------------------------------------------------------- */

static LLVMValueRef low_byte(struct mt_asm_body *l, LLVMValueRef v)
{
    return v ? LLVMBuildAnd(l->b, v, mt_asm_const(l, 32, 255), "") : NULL;
}

/* Ones in bits 0 to n-1 of a 128-bit integer, n < 128. */
static LLVMValueRef ones_below(struct mt_asm_body *l, LLVMValueRef n)
{
    LLVMValueRef one = mt_asm_const(l, 128, 1);
    n = LLVMBuildZExt(l->b, n, mt_asm_int(l, 128), "");
    return LLVMBuildSub(l->b, LLVMBuildShl(l->b, one, n, ""), one, "");
}

static LLVMValueRef at_most(struct mt_asm_body *l, LLVMValueRef v, unsigned max)
{
    LLVMValueRef args[] = {v, mt_asm_const(l, 32, max)};
    return mt_asm_intrinsic(l, "llvm.umin", l->i32, args, 2);
}

/* bfe d, a, pos, len. Signed: bits beyond the top repeat the sign bit of the field, which is bit
 * min(pos+len-1, top) of a; len = 0 gives 0. */
int mt_asm_bits_bfe(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 4))
        return -1;
    LLVMTypeRef wide = mt_asm_int(l, 128);
    LLVMValueRef a = IN(1, t.bits), pos = low_byte(l, IN(2, 32)), len = low_byte(l, IN(3, 32));
    if (!a || !pos || !len)
        return -1;
    LLVMValueRef zero = LLVMBuildICmp(l->b, LLVMIntEQ, len, mt_asm_const(l, 32, 0), "");
    LLVMValueRef p = at_most(l, pos, t.bits), n = at_most(l, len, t.bits);
    LLVMValueRef x = LLVMBuildIntCast2(l->b, a, wide, t.kind == 's', "");
    LLVMValueRef field = t.kind == 's' ? LLVMBuildAShr(l->b, x, LLVMBuildZExt(l->b, p, wide, ""), "")
                                       : LLVMBuildLShr(l->b, x, LLVMBuildZExt(l->b, p, wide, ""), "");
    if (t.kind == 's') { /* the field's own sign: shift it up and back */
        LLVMValueRef up = LLVMBuildZExt(l->b, LLVMBuildSub(l->b, mt_asm_const(l, 32, 128), n, ""), wide, "");
        up = LLVMBuildSelect(l->b, zero, mt_asm_const(l, 128, 0), up, "");
        field = LLVMBuildAShr(l->b, LLVMBuildShl(l->b, field, up, ""), up, "");
    } else {
        field = LLVMBuildAnd(l->b, field, ones_below(l, n), "");
    }
    field = LLVMBuildTrunc(l->b, field, mt_asm_int(l, t.bits), "");
    return asm_bits_out(l, LLVMBuildSelect(l->b, zero, mt_asm_const(l, t.bits, 0), field, ""), t.kind == 's');
}

/* bfi f, a, b, pos, len: a's low len bits into b at pos. */
int mt_asm_bits_bfi(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 5))
        return -1;
    LLVMTypeRef wide = mt_asm_int(l, 128);
    LLVMValueRef a = IN(1, t.bits), b = IN(2, t.bits), pos = low_byte(l, IN(3, 32)),
                 len = low_byte(l, IN(4, 32));
    if (!a || !b || !pos || !len)
        return -1;
    LLVMValueRef p = LLVMBuildZExt(l->b, at_most(l, pos, t.bits), wide, "");
    LLVMValueRef mask = ones_below(l, at_most(l, len, t.bits));
    mask = LLVMBuildTrunc(l->b, LLVMBuildShl(l->b, mask, p, ""), mt_asm_int(l, t.bits), "");
    LLVMValueRef x = LLVMBuildShl(l->b, LLVMBuildZExt(l->b, a, wide, ""), p, "");
    x = LLVMBuildAnd(l->b, LLVMBuildTrunc(l->b, x, mt_asm_int(l, t.bits), ""), mask, "");
    return asm_bits_out(l, LLVMBuildOr(l->b, LLVMBuildAnd(l->b, b, LLVMBuildNot(l->b, mask, ""), ""), x, ""),
                        0);
}

/* bmsk.{clamp,wrap}.b32 d, a, b: b ones from bit a up. */
int mt_asm_bits_bmsk(struct mt_asm_body *l)
{
    if (mt_asm_count(l, 3, 3))
        return -1;
    LLVMValueRef a = IN(1, 32), b = IN(2, 32);
    if (!a || !b)
        return -1;
    if (mt_asm_has(l->s, "wrap")) {
        a = LLVMBuildAnd(l->b, a, mt_asm_const(l, 32, 31), "");
        b = LLVMBuildAnd(l->b, b, mt_asm_const(l, 32, 31), "");
    } else {
        a = at_most(l, a, 32);
        b = at_most(l, b, 32);
    }
    LLVMValueRef m = LLVMBuildShl(l->b, ones_below(l, b), LLVMBuildZExt(l->b, a, mt_asm_int(l, 128), ""), "");
    return asm_bits_out(l, LLVMBuildTrunc(l->b, m, l->i32, ""), 0);
}

/* szext.{clamp,wrap}.{u,s}32 d, a, n: the low n bits, extended. */
int mt_asm_bits_szext(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 3))
        return -1;
    LLVMValueRef a = IN(1, 32), n = IN(2, 32);
    if (!a || !n)
        return -1;
    n = mt_asm_has(l->s, "wrap") ? LLVMBuildAnd(l->b, n, mt_asm_const(l, 32, 31), "") : at_most(l, n, 32);
    LLVMValueRef up = LLVMBuildSub(l->b, mt_asm_const(l, 32, 64), n, "");
    LLVMValueRef zero = LLVMBuildICmp(l->b, LLVMIntEQ, n, mt_asm_const(l, 32, 0), "");
    up = LLVMBuildZExt(l->b, LLVMBuildSelect(l->b, zero, mt_asm_const(l, 32, 0), up, ""), l->i64, "");
    LLVMValueRef x = LLVMBuildShl(l->b, LLVMBuildZExt(l->b, a, l->i64, ""), up, "");
    x = t.kind == 's' ? LLVMBuildAShr(l->b, x, up, "") : LLVMBuildLShr(l->b, x, up, "");
    x = LLVMBuildSelect(l->b, zero, mt_asm_const(l, 64, 0), x, "");
    return asm_bits_out(l, LLVMBuildTrunc(l->b, x, l->i32, ""), t.kind == 's');
}

int mt_asm_bits_count(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    const char *op = l->s->parts[0];
    if (asm_bits_begin(l, &t, 2))
        return -1;
    LLVMValueRef v[] = {IN(1, t.bits), mt_asm_const(l, 1, 0)}, r;
    if (!v[0])
        return -1;
    if (!strcmp(op, "popc"))
        r = mt_asm_intrinsic(l, "llvm.ctpop", mt_asm_int(l, t.bits), v, 1);
    else if (!strcmp(op, "clz"))
        r = mt_asm_intrinsic(l, "llvm.ctlz", mt_asm_int(l, t.bits), v, 2);
    else
        return asm_bits_out(l, mt_asm_intrinsic(l, "llvm.bitreverse", mt_asm_int(l, t.bits), v, 1), 0);
    return asm_bits_out(l, LLVMBuildIntCast2(l->b, r, l->i32, 0, ""), 0);
}

/* bfind{.shiftamt}: position of the highest bit that is not sign; all ones if there is none. */
int mt_asm_bits_bfind(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 2))
        return -1;
    LLVMValueRef v[] = {IN(1, t.bits), mt_asm_const(l, 1, 0)};
    if (!v[0])
        return -1;
    if (t.kind == 's') {
        LLVMValueRef sign = LLVMBuildAShr(l->b, v[0], mt_asm_const(l, t.bits, t.bits - 1), "");
        v[0] = LLVMBuildXor(l->b, v[0], sign, "");
    }
    LLVMValueRef none = LLVMBuildICmp(l->b, LLVMIntEQ, v[0], LLVMConstNull(LLVMTypeOf(v[0])), "");
    LLVMValueRef zeros = mt_asm_intrinsic(l, "llvm.ctlz", mt_asm_int(l, t.bits), v, 2);
    zeros = LLVMBuildIntCast2(l->b, zeros, l->i32, 0, "");
    LLVMValueRef r =
        mt_asm_has(l->s, "shiftamt") ? zeros : LLVMBuildSub(l->b, mt_asm_const(l, 32, t.bits - 1), zeros, "");
    return asm_bits_out(l, LLVMBuildSelect(l->b, none, mt_asm_const(l, 32, UINT32_MAX), r, ""), 0);
}

/* Selects byte number `nibble & 7` of b:a; nibble & 8 replicates its sign over the byte. */
static LLVMValueRef asm_bits_pick(struct mt_asm_body *l, LLVMValueRef both, LLVMValueRef nibble)
{
    LLVMValueRef n = LLVMBuildAnd(l->b, nibble, mt_asm_const(l, 64, 7), "");
    LLVMValueRef byte = LLVMBuildLShr(l->b, both, LLVMBuildShl(l->b, n, mt_asm_const(l, 64, 3), ""), "");
    byte = LLVMBuildTrunc(l->b, byte, l->i8, "");
    LLVMValueRef spread = LLVMBuildAnd(l->b, nibble, mt_asm_const(l, 64, 8), "");
    spread = LLVMBuildICmp(l->b, LLVMIntNE, spread, mt_asm_const(l, 64, 0), "");
    LLVMValueRef sign = LLVMBuildAShr(l->b, byte, mt_asm_const(l, 8, 7), "");
    return LLVMBuildZExt(l->b, LLVMBuildSelect(l->b, spread, sign, byte, ""), l->i32, "");
}

/* Returns the selector of result byte i for the special modes, from c & 3. */
static unsigned mode_selector(const char *mode, unsigned c, unsigned i)
{
    if (!strcmp(mode, "f4e"))
        return c + i;
    if (!strcmp(mode, "b4e"))
        return (c + 8 - i) & 7;
    if (!strcmp(mode, "rc8"))
        return c;
    if (!strcmp(mode, "ecl"))
        return i > c ? i : c;
    if (!strcmp(mode, "ecr"))
        return i < c ? i : c;
    return (c & 1) * 2 + (i & 1); /* rc16 */
}

int mt_asm_bits_prmt(struct mt_asm_body *l)
{
    const char *last = l->s->parts[l->s->nparts - 1], *mode = strcmp(last, "b32") ? last : NULL;
    if (mt_asm_count(l, 4, 4))
        return -1;
    LLVMValueRef a = IN(1, 32), b = IN(2, 32), c = IN(3, 32), r = mt_asm_const(l, 32, 0);
    if (!a || !b || !c)
        return -1;
    LLVMValueRef both = LLVMBuildShl(l->b, LLVMBuildZExt(l->b, b, l->i64, ""), mt_asm_const(l, 64, 32), "");
    both = LLVMBuildOr(l->b, both, LLVMBuildZExt(l->b, a, l->i64, ""), "");
    c = LLVMBuildZExt(l->b, c, l->i64, "");
    for (unsigned i = 0; i < 4; i++) {
        LLVMValueRef nibble = LLVMBuildLShr(l->b, c, mt_asm_const(l, 64, 4 * i), "");
        if (mode) { /* four constants, chosen by c & 3 */
            LLVMValueRef two = LLVMBuildAnd(l->b, c, mt_asm_const(l, 64, 3), "");
            nibble = mt_asm_const(l, 64, mode_selector(mode, 0, i));
            for (unsigned k = 1; k < 4; k++)
                nibble =
                    LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, two, mt_asm_const(l, 64, k), ""),
                                    mt_asm_const(l, 64, mode_selector(mode, k, i)), nibble, "");
        }
        LLVMValueRef byte =
            LLVMBuildShl(l->b, asm_bits_pick(l, both, nibble), mt_asm_const(l, 32, 8 * i), "");
        r = LLVMBuildOr(l->b, r, byte, "");
    }
    return asm_bits_out(l, r, 0);
}

/* dp4a.atype.btype d, a, b, c (four bytes each); dp2a.{lo,hi} (two halves of a, two bytes of b) */
int mt_asm_bits_dot(struct mt_asm_body *l)
{
    struct mt_asm_type ta, tb;
    int two = !strcmp(l->s->parts[0], "dp2a"), hi = mt_asm_has(l->s, "hi");
    if (asm_bits_begin(l, &tb, 4) || l->s->nparts < 3 || !mt_asm_type(l->s->parts[l->s->nparts - 2], &ta))
        return -1;
    LLVMValueRef a = IN(1, 32), b = IN(2, 32), sum = IN(3, 32);
    if (!a || !b || !sum)
        return -1;
    for (unsigned i = 0; i < (two ? 2u : 4u); i++) {
        LLVMTypeRef part = two ? l->i16 : l->i8;
        LLVMValueRef x = LLVMBuildLShr(l->b, a, mt_asm_const(l, 32, i * (two ? 16 : 8)), "");
        LLVMValueRef y = LLVMBuildLShr(l->b, b, mt_asm_const(l, 32, i * 8 + (two && hi ? 16 : 0)), "");
        x = LLVMBuildIntCast2(l->b, LLVMBuildTrunc(l->b, x, part, ""), l->i32, ta.kind == 's', "");
        y = LLVMBuildIntCast2(l->b, LLVMBuildTrunc(l->b, y, l->i8, ""), l->i32, tb.kind == 's', "");
        sum = LLVMBuildAdd(l->b, sum, LLVMBuildMul(l->b, x, y, ""), "");
    }
    return asm_bits_out(l, sum, 0);
}
