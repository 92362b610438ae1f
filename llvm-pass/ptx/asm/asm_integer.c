/* Integer arithmetic of PTX: add … mad, carry chains, comparisons, selection. */
#include "asm_lower.h"

#include <stdio.h>
#include <string.h>

/* ---- Bits, moves, comparisons and selection of PTX ---- */

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

/* Scalar video instructions: v{add,sub,absdiff,min,max,shl,shr,set} of bytes, halves or whole registers,
 * with a second operation or a part of c that the result replaces; and cvt.pack. */

#define OPERAND(i) (&l->s->operands[i])

/* Returns the bits of the register part that an operand names: 8, 16 or 32. */
static unsigned video_bits(const struct mt_asm_operand *o)
{
    return *o->part == 'b' ? 8 : *o->part == 'h' ? 16 : 32;
}

static unsigned video_shift(const struct mt_asm_operand *o)
{
    return *o->part ? video_bits(o) * (unsigned)(o->part[1] - '0') : 0;
}

static LLVMValueRef video_in(struct mt_asm_body *l, const struct mt_asm_operand *o, struct mt_asm_type t)
{
    struct mt_asm_operand whole = *o;
    memset(whole.part, 0, sizeof whole.part);
    LLVMValueRef v = mt_asm_in(l, &whole, 32);
    if (!v || video_shift(o) > 24)
        return NULL;
    v = LLVMBuildLShr(l->b, v, mt_asm_const(l, 32, video_shift(o)), "");
    v = LLVMBuildTrunc(l->b, v, mt_asm_int(l, video_bits(o)), "");
    return LLVMBuildIntCast2(l->b, v, l->i64, t.kind == 's', "");
}

static LLVMValueRef video_two(struct mt_asm_body *l, const char *intrinsic, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef args[] = {a, b};
    return mt_asm_intrinsic(l, intrinsic, LLVMTypeOf(a), args, 2);
}

/* Clamps to the range of integers of `bits` bits. */
static LLVMValueRef video_clamp(struct mt_asm_body *l, LLVMValueRef v, unsigned bits, int is_signed)
{
    uint64_t most = (1ull << (bits - (unsigned)is_signed)) - 1, least = is_signed ? ~most : 0;
    v = video_two(l, "llvm.smax", v, mt_asm_const(l, 64, least));
    return video_two(l, "llvm.smin", v, mt_asm_const(l, 64, most));
}

static LLVMValueRef video_shifted(struct mt_asm_body *l, LLVMValueRef a, LLVMValueRef b, int left)
{
    if (mt_asm_has(l->s, "clamp"))
        b = video_two(l, "llvm.umin", b, mt_asm_const(l, 64, 32));
    else
        b = LLVMBuildAnd(l->b, b, mt_asm_const(l, 64, 31), "");
    return left ? LLVMBuildShl(l->b, a, b, "") : LLVMBuildAShr(l->b, a, b, "");
}

static LLVMValueRef video_compared(struct mt_asm_body *l, LLVMValueRef a, LLVMValueRef b)
{
    static const struct {
        const char *word;
        LLVMIntPredicate is;
    } table[] = {{"eq", LLVMIntEQ},  {"ne", LLVMIntNE},  {"lt", LLVMIntSLT},
                 {"le", LLVMIntSLE}, {"gt", LLVMIntSGT}, {"ge", LLVMIntSGE}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (mt_asm_has(l->s, table[i].word))
            return LLVMBuildZExt(l->b, LLVMBuildICmp(l->b, table[i].is, a, b, ""), l->i64, "");
    return NULL;
}

/* Emits the first operation, on numbers of 33 bits at most. */
static LLVMValueRef video_first(struct mt_asm_body *l, LLVMValueRef a, LLVMValueRef b)
{
    const char *op = l->s->parts[0] + 1;
    if (!strcmp(op, "add"))
        return LLVMBuildAdd(l->b, a, b, "");
    if (!strcmp(op, "sub"))
        return LLVMBuildSub(l->b, a, b, "");
    if (!strcmp(op, "min") || !strcmp(op, "max"))
        return video_two(l, op[1] == 'i' ? "llvm.smin" : "llvm.smax", a, b);
    if (!strcmp(op, "shl") || !strcmp(op, "shr"))
        return video_shifted(l, a, b, op[2] == 'l');
    if (!strcmp(op, "set"))
        return video_compared(l, a, b);
    return video_two(l, "llvm.smax", LLVMBuildSub(l->b, a, b, ""), LLVMBuildSub(l->b, b, a, ""));
}

/* Combines the result with c: replaces a part of it, or .add, .min, .max. NULL: no such form. */
static LLVMValueRef video_second(struct mt_asm_body *l, LLVMValueRef v, struct mt_asm_type t)
{
    const struct mt_asm_operand *d = OPERAND(0);
    int add = mt_asm_has(l->s, "add"), min = mt_asm_has(l->s, "min"), max = mt_asm_has(l->s, "max");
    v = LLVMBuildTrunc(l->b, v, l->i32, "");
    if (!*d->part && !add && !min && !max)
        return l->s->noperands == 3 ? v : NULL;
    LLVMValueRef c = l->s->noperands == 4 ? mt_asm_in(l, OPERAND(3), 32) : NULL;
    if (!c || (*d->part && (add || min || max)))
        return NULL;
    if (add)
        return LLVMBuildAdd(l->b, v, c, "");
    if (min || max)
        return video_two(l,
                         t.kind == 's' ? (min ? "llvm.smin" : "llvm.smax")
                         : min         ? "llvm.umin"
                                       : "llvm.umax",
                         v, c);
    uint64_t mask = ((1ull << video_bits(d)) - 1) << video_shift(d);
    v = LLVMBuildShl(l->b, v, mt_asm_const(l, 32, video_shift(d)), "");
    v = LLVMBuildAnd(l->b, v, mt_asm_const(l, 32, mask), "");
    return LLVMBuildOr(l->b, v, LLVMBuildAnd(l->b, c, mt_asm_const(l, 32, ~mask & UINT32_MAX), ""), "");
}

/* Reads the types of result and sources: "vadd.d.a.b", "vset.a.b". Returns 0 or -1. */
static int video_types(struct mt_asm_body *l, struct mt_asm_type *t)
{
    int set = !strcmp(l->s->parts[0], "vset");
    t[0] = (struct mt_asm_type){'u', 32, 1};
    for (unsigned i = 0; i < 3; i++)
        if (!(set && !i) &&
            (l->s->nparts < 4u - (unsigned)set || !mt_asm_type(l->s->parts[i + 1 - (unsigned)set], &t[i]) ||
             t[i].bits != 32 || t[i].kind == 'f'))
            return -1;
    return 0;
}

int mt_asm_video(struct mt_asm_body *l)
{
    struct mt_asm_type t[3];
    LLVMValueRef a, b, v;
    if (mt_asm_count(l, 3, 4))
        return -1;
    if (video_types(l, t) || !(a = video_in(l, OPERAND(1), t[1])) || !(b = video_in(l, OPERAND(2), t[2])) ||
        !(v = video_first(l, a, b)))
        return mt_asm_fail(l, "%s", l->s->opcode);
    if (mt_asm_has(l->s, "sat"))
        v = video_clamp(l, v, video_bits(OPERAND(0)), t[0].kind == 's');
    struct mt_asm_operand whole = *OPERAND(0);
    memset(whole.part, 0, sizeof whole.part);
    if (!(v = video_second(l, v, t[0])))
        return mt_asm_fail(l, "%s", l->s->opcode);
    return mt_asm_out(l, &whole, v, 0);
}

/* cvt.pack.sat.dtype.s32{.b32} d, a, b{, c}: a and b saturated, a above b; for types below 16 bits, c
 * above both. */
int mt_asm_video_pack(struct mt_asm_body *l)
{
    unsigned n = l->s->noperands, bits = 0;
    char kind = 0, end;
    int known = l->s->nparts >= 5 && !strcmp(l->s->parts[2], "sat") && !strcmp(l->s->parts[4], "s32") &&
                sscanf(l->s->parts[3], "%c%u%c", &kind, &bits, &end) == 2 && (kind == 'u' || kind == 's') &&
                (bits == 16 ? n == 3 : n == 4 && (bits == 2 || bits == 4 || bits == 8));
    if (!known)
        return mt_asm_fail(l, "%s", l->s->opcode);
    LLVMValueRef v = n == 4 ? mt_asm_in(l, OPERAND(3), 32) : mt_asm_const(l, 32, 0);
    for (unsigned i = 1; v && i < 3; i++) {
        LLVMValueRef x = video_in(l, OPERAND(i), (struct mt_asm_type){'s', 32, 1});
        if (!x)
            return mt_asm_fail(l, "%s", l->s->opcode);
        x = LLVMBuildTrunc(l->b, video_clamp(l, x, bits, kind == 's'), mt_asm_int(l, bits), "");
        v = LLVMBuildShl(l->b, v, mt_asm_const(l, 32, bits), "");
        v = LLVMBuildOr(l->b, v, LLVMBuildZExt(l->b, x, l->i32, ""), "");
    }
    return v ? mt_asm_out(l, OPERAND(0), v, 0) : -1;
}

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
