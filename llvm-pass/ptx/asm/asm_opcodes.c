/* What each opcode of PTX becomes in LLVM IR, and the table of all of them (opcodes.def). */
#include "asm_lower.h"
#include "format/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Integer arithmetic of PTX: add … mad, carry chains, comparisons, selection ---- */

/* ---- Bits, moves, comparisons and selection of PTX ---- */

#define IN(i, bits) mt_asm_in(l, &l->s->operands[i], bits)

static int asm_bits_out(struct mt_asm_body *l, LLVMValueRef v, int is_signed)
{
    return v ? mt_asm_out(l, &l->s->operands[0], v, is_signed) : -1;
}

/* Finds the type at the end of the opcode; fails if there is none. */
static int asm_last_type(struct mt_asm_body *l, struct mt_asm_type *t)
{
    for (unsigned i = l->s->nparts; i-- > 1;) /* usually the last word; "atom.v4.f32.add" has more after it */
        if (mt_asm_type(l->s->parts[i], t))
            return 0;
    return mt_asm_fail(l, "%s", l->s->opcode);
}

/* Fails unless the statement has min to max operands. */
static int asm_count(struct mt_asm_body *l, unsigned min, unsigned max)
{
    if (l->s->noperands >= min && l->s->noperands <= max)
        return 0;
    return mt_asm_fail(l, "%s with %u operands", l->s->opcode, l->s->noperands);
}

static int asm_bits_begin(struct mt_asm_body *l, struct mt_asm_type *t, unsigned operands)
{
    return asm_last_type(l, t) || asm_count(l, operands, operands) ? -1 : 0;
}

/* ---- moves and logic ---------------------------------------------------------------------------- */

static int asm_out_float(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef value)
{
    return mt_asm_out(l, o, mt_asm_bits_of(l, value), 0);
}

static int asm_bits_mov(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_bits_begin(l, &t, 2))
        return -1;
    const struct mt_asm_operand *o = &l->s->operands[1];
    if (o->kind == MT_ASM_F64 && t.kind == 'f') {
        LLVMValueRef v = mt_asm_in_float(l, o, t.bits);
        return v ? asm_out_float(l, &l->s->operands[0], v) : -1;
    }
    return asm_bits_out(l, IN(1, t.bits * t.lanes), t.kind == 's');
}

static int asm_bits_logic(struct mt_asm_body *l)
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

static int asm_bits_not(struct mt_asm_body *l)
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
static int asm_bits_shift(struct mt_asm_body *l)
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
static int asm_bits_shf(struct mt_asm_body *l)
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
static int asm_bits_lop3(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    if (asm_count(l, 5, 6))
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
static int asm_bits_bfe(struct mt_asm_body *l)
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
static int asm_bits_bfi(struct mt_asm_body *l)
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
static int asm_bits_bmsk(struct mt_asm_body *l)
{
    if (asm_count(l, 3, 3))
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
static int asm_bits_szext(struct mt_asm_body *l)
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

static int asm_bits_count(struct mt_asm_body *l)
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
static int asm_bits_bfind(struct mt_asm_body *l)
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

static int asm_bits_prmt(struct mt_asm_body *l)
{
    const char *last = l->s->parts[l->s->nparts - 1], *mode = strcmp(last, "b32") ? last : NULL;
    if (asm_count(l, 4, 4))
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
static int asm_bits_dot(struct mt_asm_body *l)
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

static int asm_video(struct mt_asm_body *l)
{
    struct mt_asm_type t[3];
    LLVMValueRef a, b, v;
    if (asm_count(l, 3, 4))
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
static int asm_video_pack(struct mt_asm_body *l)
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
    if (asm_count(l, n + 1, n + 1))
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

/* Calls the builtin, or reports an error; for handlers that find an unknown form before they have built
 * anything. */
static int asm_fallback(struct mt_asm_body *l)
{
    LLVMTypeRef type;
    LLVMValueRef f = mt_asm_find_builtin(l, &type);
    return f ? mt_asm_call_builtin(l, f, type) : mt_asm_fail(l, "%s", l->s->opcode);
}

static int asm_integer_add(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    const char *op = l->s->parts[0];
    int minus = *op == 's';
    if (asm_last_type(l, &t))
        return -1;
    if (t.lanes > 1)
        return asm_fallback(l);
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

static int asm_integer_mul(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    if (asm_last_type(l, &t) || asm_integer_sources(l, v, 2, t.bits))
        return -1;
    if (mt_asm_has(l->s, "wide"))
        return asm_integer_out(l, asm_integer_product(l, v[0], v[1], t), t);
    if (mt_asm_has(l->s, "hi"))
        return asm_integer_out(l, asm_integer_high(l, asm_integer_product(l, v[0], v[1], t), t), t);
    return asm_integer_out(l, LLVMBuildMul(l->b, v[0], v[1], ""), t);
}

static int asm_integer_mad(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2], c, m;
    int wide = mt_asm_has(l->s, "wide");
    if (asm_last_type(l, &t) || asm_count(l, 4, 4))
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
static int asm_integer_mul24(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    int mad = !strcmp(l->s->parts[0], "mad24");
    if (asm_last_type(l, &t) || asm_count(l, mad ? 4 : 3, mad ? 4 : 3))
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
static int asm_integer_div(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2], r;
    int rem = !strcmp(l->s->parts[0], "rem");
    if (asm_last_type(l, &t) || asm_integer_sources(l, v, 2, t.bits))
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

static int asm_integer_neg(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v;
    if (asm_last_type(l, &t) || asm_integer_sources(l, &v, 1, t.bits))
        return -1;
    return asm_integer_out(l, LLVMBuildNeg(l->b, v, ""), t);
}

static int asm_integer_abs(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    if (asm_last_type(l, &t) || asm_integer_sources(l, v, 1, t.bits))
        return -1;
    v[1] = mt_asm_const(l, 1, 0);
    return asm_integer_out(l, mt_asm_intrinsic(l, "llvm.abs", mt_asm_int(l, t.bits), v, 2), t);
}

static int asm_integer_minmax(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    int max = !strcmp(l->s->parts[0], "max");
    if (asm_last_type(l, &t))
        return -1;
    if (t.lanes > 1 || mt_asm_has(l->s, "relu"))
        return asm_fallback(l);
    if (asm_integer_sources(l, v, 2, t.bits))
        return -1;
    const char *name = t.kind == 's' ? (max ? "llvm.smax" : "llvm.smin") : (max ? "llvm.umax" : "llvm.umin");
    return asm_integer_out(l, mt_asm_intrinsic(l, name, mt_asm_int(l, t.bits), v, 2), t);
}

/* sad d, a, b, c: c + |a - b| */
static int asm_integer_sad(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[3];
    if (asm_last_type(l, &t) || asm_integer_sources(l, v, 3, t.bits))
        return -1;
    LLVMValueRef more = LLVMBuildICmp(l->b, t.kind == 's' ? LLVMIntSGT : LLVMIntUGT, v[0], v[1], "");
    LLVMValueRef d = LLVMBuildSelect(l->b, more, LLVMBuildSub(l->b, v[0], v[1], ""),
                                     LLVMBuildSub(l->b, v[1], v[0], ""), "");
    return asm_integer_out(l, LLVMBuildAdd(l->b, d, v[2], ""), t);
}

/* Arithmetic of PTX on f32 and f64, for instructions without a builtin: rounds to nearest even, honours
 * .ftz. Other roundings, 16-bit floats and approximations of transcendental functions are builtins or
 * errors. */

/* Flushes f32 denormals to zeros of the same sign if the opcode has .ftz. */
static LLVMValueRef asm_float_flush(struct mt_asm_body *l, LLVMValueRef v)
{
    if (!mt_asm_has(l->s, "ftz") || LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMFloatTypeKind)
        return v;
    LLVMValueRef u = mt_asm_bits_of(l, v);
    LLVMValueRef exponent = LLVMBuildAnd(l->b, u, mt_asm_const(l, 32, 0x7f800000), "");
    LLVMValueRef sign = LLVMBuildAnd(l->b, u, mt_asm_const(l, 32, 0x80000000), "");
    LLVMValueRef small = LLVMBuildICmp(l->b, LLVMIntEQ, exponent, mt_asm_const(l, 32, 0), "");
    return mt_asm_float_of(l, LLVMBuildSelect(l->b, small, sign, u, ""));
}

/* Clamps to [0, 1] with .sat; NaN becomes 0. */
static LLVMValueRef asm_float_saturate(struct mt_asm_body *l, LLVMValueRef v)
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
    if (asm_last_type(l, t) || asm_count(l, n + 1, n + 1))
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
        v[i] = asm_float_flush(l, v[i]);
    }
    return 0;
}

static int asm_float_out(struct mt_asm_body *l, LLVMValueRef v)
{
    v = asm_float_saturate(l, asm_float_flush(l, v));
    return asm_out_float(l, &l->s->operands[0], v);
}

static int asm_float_binary(struct mt_asm_body *l)
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

static int asm_float_fma(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[3];
    return asm_float_begin(l, &t, v, 3)
               ? -1
               : asm_float_out(l, mt_asm_intrinsic(l, "llvm.fma", LLVMTypeOf(v[0]), v, 3));
}

/* A NaN operand gives the other one; code generation ensures -0 < +0. */
static int asm_float_minmax(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    const char *name = strcmp(l->s->parts[0], "max") ? "llvm.minnum" : "llvm.maxnum";
    return asm_float_begin(l, &t, v, 2) ? -1
                                        : asm_float_out(l, mt_asm_intrinsic(l, name, LLVMTypeOf(v[0]), v, 2));
}

static int asm_float_unary(struct mt_asm_body *l)
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
static int asm_float_copysign(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    LLVMValueRef v[2];
    if (asm_float_begin(l, &t, v, 2))
        return -1;
    LLVMValueRef args[] = {v[1], v[0]};
    return asm_out_float(l, &l->s->operands[0],
                         mt_asm_intrinsic(l, "llvm.copysign", LLVMTypeOf(v[0]), args, 2));
}

/* testp.op.type p, a */
static int asm_float_testp(struct mt_asm_body *l)
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

/* ---- Conversions, address-space casts, comparisons and selection of PTX ---- */

static int is_float(struct mt_asm_type t)
{
    return t.kind == 'f' || t.kind == 'g' || t.kind == 't';
}

/* ---- comparisons -------------------------------------------------------------------------------- */

static LLVMValueRef compare_ints(struct mt_asm_body *l, const char *word, LLVMValueRef a, LLVMValueRef b,
                                 int is_signed)
{
    static const struct {
        const char *word;
        LLVMIntPredicate is_unsigned, is_signed;
    } table[] = {{"eq", LLVMIntEQ, LLVMIntEQ},   {"ne", LLVMIntNE, LLVMIntNE},
                 {"lt", LLVMIntULT, LLVMIntSLT}, {"le", LLVMIntULE, LLVMIntSLE},
                 {"gt", LLVMIntUGT, LLVMIntSGT}, {"ge", LLVMIntUGE, LLVMIntSGE},
                 {"lo", LLVMIntULT, LLVMIntULT}, {"ls", LLVMIntULE, LLVMIntULE},
                 {"hi", LLVMIntUGT, LLVMIntUGT}, {"hs", LLVMIntUGE, LLVMIntUGE}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return LLVMBuildICmp(l->b, is_signed ? table[i].is_signed : table[i].is_unsigned, a, b, "");
    return NULL;
}

static LLVMValueRef compare_floats(struct mt_asm_body *l, const char *word, LLVMValueRef a, LLVMValueRef b)
{
    static const struct {
        const char *word;
        LLVMRealPredicate predicate;
    } table[] = {{"eq", LLVMRealOEQ},  {"ne", LLVMRealONE},  {"lt", LLVMRealOLT},  {"le", LLVMRealOLE},
                 {"gt", LLVMRealOGT},  {"ge", LLVMRealOGE},  {"equ", LLVMRealUEQ}, {"neu", LLVMRealUNE},
                 {"ltu", LLVMRealULT}, {"leu", LLVMRealULE}, {"gtu", LLVMRealUGT}, {"geu", LLVMRealUGE},
                 {"num", LLVMRealORD}, {"nan", LLVMRealUNO}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return LLVMBuildFCmp(l->b, table[i].predicate, a, b, "");
    return NULL;
}

/* Compares operands 1 and 2 by the opcode's second word; NULL on error. */
static LLVMValueRef asm_convert_compare(struct mt_asm_body *l, struct mt_asm_type t)
{
    LLVMValueRef r = NULL;
    if (is_float(t) && (t.kind != 'f' || t.bits < 32 || t.lanes > 1)) {
        mt_asm_fail(l, "%s", l->s->opcode);
        return NULL;
    }
    if (is_float(t)) {
        LLVMValueRef a = mt_asm_in_float(l, &l->s->operands[1], t.bits);
        LLVMValueRef b = mt_asm_in_float(l, &l->s->operands[2], t.bits);
        if (!a || !b)
            return NULL;
        r = compare_floats(l, l->s->parts[1], asm_float_flush(l, a), asm_float_flush(l, b));
    } else {
        LLVMValueRef a = IN(1, t.bits), b = IN(2, t.bits);
        if (!a || !b)
            return NULL;
        r = compare_ints(l, l->s->parts[1], a, b, t.kind == 's');
    }
    if (!r)
        mt_asm_fail(l, "%s", l->s->opcode);
    return r;
}

/* setp.cmp{.bool}.type p{|q}, a, b{, {!}c}: p = cmp bool c, q = !cmp bool c */
static int asm_convert_setp(struct mt_asm_body *l)
{
    const struct mt_asm_operand *d = l->s->operands;
    struct mt_asm_type t;
    if (asm_last_type(l, &t) || asm_count(l, 3, 4) || l->s->nparts < 3)
        return mt_asm_fail(l, "%s", l->s->opcode);
    LLVMValueRef p = asm_convert_compare(l, t), c = NULL;
    if (!p)
        return -1;
    LLVMValueRef both[] = {p, LLVMBuildNot(l->b, p, "")};
    if (l->s->noperands == 4 && !(c = IN(3, 1)))
        return -1;
    for (unsigned i = 0; i < 2 && c; i++)
        both[i] = mt_asm_has(l->s, "or")    ? LLVMBuildOr(l->b, both[i], c, "")
                  : mt_asm_has(l->s, "xor") ? LLVMBuildXor(l->b, both[i], c, "")
                                            : LLVMBuildAnd(l->b, both[i], c, "");
    if (d->second && mt_asm_out(l, d->second, both[1], 0))
        return -1;
    struct mt_asm_operand first = *d;
    first.second = NULL;
    return mt_asm_out(l, &first, both[0], 0);
}

/* set.cmp{.bool}.dtype.stype d, a, b{, {!}c}: all ones or 1.0 */
static int asm_convert_set(struct mt_asm_body *l)
{
    struct mt_asm_type t, d;
    if (asm_last_type(l, &t) || asm_count(l, 3, 4) || l->s->nparts < 4 ||
        !mt_asm_type(l->s->parts[l->s->nparts - 2], &d) || (is_float(d) && d.bits != 32))
        return mt_asm_fail(l, "%s", l->s->opcode);
    LLVMValueRef p = asm_convert_compare(l, t), c;
    if (!p)
        return -1;
    if (l->s->noperands == 4) {
        if (!(c = IN(3, 1)))
            return -1;
        p = mt_asm_has(l->s, "or")    ? LLVMBuildOr(l->b, p, c, "")
            : mt_asm_has(l->s, "xor") ? LLVMBuildXor(l->b, p, c, "")
                                      : LLVMBuildAnd(l->b, p, c, "");
    }
    LLVMValueRef yes = mt_asm_const(l, 32, is_float(d) ? 0x3f800000 : UINT32_MAX);
    return mt_asm_out(l, &l->s->operands[0], LLVMBuildSelect(l->b, p, yes, mt_asm_const(l, 32, 0), ""), 0);
}

/* selp.type d, a, b, p; slct.dtype.ctype d, a, b, c: a if c >= 0 */
static int asm_convert_selp(struct mt_asm_body *l)
{
    struct mt_asm_type t, c;
    int slct = !strcmp(l->s->parts[0], "slct");
    LLVMValueRef p;
    if (asm_last_type(l, &t) || asm_count(l, 4, 4))
        return -1;
    c = t;
    if (slct && (l->s->nparts < 3 || !mt_asm_type(l->s->parts[l->s->nparts - 2], &t)))
        return mt_asm_fail(l, "%s", l->s->opcode);
    unsigned bits = t.bits * t.lanes;
    if (!slct) {
        p = IN(3, 1);
    } else if (is_float(c)) {
        p = mt_asm_in_float(l, &l->s->operands[3], 32);
        p = p ? asm_float_flush(l, p) : NULL;
        p = p ? LLVMBuildFCmp(l->b, LLVMRealOGE, p, LLVMConstNull(LLVMTypeOf(p)), "") : NULL;
    } else {
        p = IN(3, 32);
        p = p ? LLVMBuildICmp(l->b, LLVMIntSGE, p, mt_asm_const(l, 32, 0), "") : NULL;
    }
    LLVMValueRef v[2];
    for (unsigned i = 0; p && i < 2; i++) {
        const struct mt_asm_operand *o = &l->s->operands[i + 1];
        v[i] = o->kind == MT_ASM_F64 && bits == 32 ? mt_asm_bits_of(l, mt_asm_in_float(l, o, 32))
                                                   : mt_asm_in(l, o, bits);
        if (!v[i])
            return -1;
    }
    return p ? mt_asm_out(l, &l->s->operands[0], LLVMBuildSelect(l->b, p, v[0], v[1], ""), t.kind == 's')
             : -1;
}

/* ---- cvt ---------------------------------------------------------------------------------------- */

static int int_to_int(struct mt_asm_body *l, struct mt_asm_type d, struct mt_asm_type s)
{
    LLVMValueRef v = IN(1, s.bits);
    if (!v)
        return -1;
    int from_signed = s.kind == 's', to_signed = d.kind == 's';
    if (mt_asm_has(l->s, "sat")) { /* clamp in 128 bits, where all fit */
        LLVMTypeRef wide = mt_asm_int(l, 128);
        LLVMValueRef one = mt_asm_const(l, 128, 1);
        v = LLVMBuildIntCast2(l->b, v, wide, from_signed, "");
        LLVMValueRef limit =
            LLVMBuildShl(l->b, one, mt_asm_const(l, 128, to_signed ? d.bits - 1 : d.bits), "");
        LLVMValueRef low[] = {v, to_signed ? LLVMBuildNeg(l->b, limit, "") : mt_asm_const(l, 128, 0)};
        v = mt_asm_intrinsic(l, "llvm.smax", wide, low, 2);
        LLVMValueRef high[] = {v, LLVMBuildSub(l->b, limit, one, "")};
        v = mt_asm_intrinsic(l, "llvm.smin", wide, high, 2);
    }
    v = LLVMBuildIntCast2(l->b, v, mt_asm_int(l, d.bits), from_signed, "");
    return mt_asm_out(l, &l->s->operands[0], v, to_signed);
}

/* Returns the intrinsic that rounds to an integer for .rni, .rzi, .rmi, .rpi; NULL if the opcode has none. */
static const char *rounding_of(const struct mt_asm_statement *s)
{
    return mt_asm_has(s, "rni")   ? "llvm.roundeven"
           : mt_asm_has(s, "rzi") ? "llvm.trunc"
           : mt_asm_has(s, "rmi") ? "llvm.floor"
           : mt_asm_has(s, "rpi") ? "llvm.ceil"
                                  : NULL;
}

static LLVMTypeRef float_type(struct mt_asm_body *l, unsigned bits)
{
    return bits == 64   ? LLVMDoubleTypeInContext(l->c)
           : bits == 32 ? LLVMFloatTypeInContext(l->c)
                        : LLVMHalfTypeInContext(l->c);
}

/* Converts; out of range saturates, NaN becomes 0. */
static int float_to_int(struct mt_asm_body *l, struct mt_asm_type d, LLVMValueRef v)
{
    const char *rounding = rounding_of(l->s), *name = d.kind == 's' ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    if (!rounding)
        return mt_asm_fail(l, "%s", l->s->opcode);
    v = mt_asm_intrinsic(l, rounding, LLVMTypeOf(v), &v, 1);
    LLVMTypeRef types[] = {mt_asm_int(l, d.bits), LLVMTypeOf(v)};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, types, 2);
    v = LLVMBuildCall2(l->b, LLVMIntrinsicGetType(l->c, id, types, 2), f, &v, 1, "");
    return mt_asm_out(l, &l->s->operands[0], v, d.kind == 's');
}

static int float_to_float(struct mt_asm_body *l, struct mt_asm_type d, LLVMValueRef v)
{
    const char *rounding = rounding_of(l->s);
    if (rounding)
        v = mt_asm_intrinsic(l, rounding, LLVMTypeOf(v), &v, 1);
    v = asm_float_flush(l, LLVMBuildFPCast(l->b, v, float_type(l, d.bits), ""));
    return asm_out_float(l, &l->s->operands[0], asm_float_saturate(l, v));
}

/* Handles f16 (to and from f32), f32 and f64, rounded to nearest even. Builtins do the rest. */
static int asm_convert_cvt(struct mt_asm_body *l)
{
    struct mt_asm_type d, s;
    unsigned n = l->s->nparts;
    static const char *const refused[] = {"rz", "rm", "rp", "rna", "rs", "relu", "satfinite"};
    if (mt_asm_has(l->s, "pack"))
        return asm_video_pack(l);
    int bad = n < 3 || !mt_asm_type(l->s->parts[n - 1], &s) || !mt_asm_type(l->s->parts[n - 2], &d);
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++)
        bad |= mt_asm_has(l->s, refused[i]);
    bad = bad || l->s->noperands != 2 || s.lanes > 1 || d.lanes > 1 || strchr("gtp", s.kind) ||
          strchr("gtp", d.kind);
    if (bad || (s.kind == 'f' && s.bits == 64 && d.kind == 'f' && d.bits == 16))
        return mt_asm_fail(l, "%s", l->s->opcode);
    if (s.kind != 'f' && d.kind != 'f')
        return int_to_int(l, d, s);
    if (s.kind != 'f') {
        LLVMValueRef v = IN(1, s.bits);
        if (d.bits == 16 || !v)
            return mt_asm_fail(l, "%s", l->s->opcode);
        v = s.kind == 's' ? LLVMBuildSIToFP(l->b, v, float_type(l, d.bits), "")
                          : LLVMBuildUIToFP(l->b, v, float_type(l, d.bits), "");
        return asm_out_float(l, &l->s->operands[0], v);
    }
    LLVMValueRef v = mt_asm_in_float(l, &l->s->operands[1], s.bits);
    if (!v)
        return -1;
    v = asm_float_flush(l, v);
    if (s.bits == 16)
        v = LLVMBuildFPExt(l->b, v, float_type(l, 32), "");
    return d.kind == 'f' ? float_to_float(l, d, v) : float_to_int(l, d, v);
}

/* ---- address spaces ----------------------------------------------------------------------------- */

/* All spaces are one here, but a shared address may have lost its high half. */
static int asm_convert_cvta(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (asm_last_type(l, &t) || asm_count(l, 2, 2))
        return -1;
    LLVMValueRef v = IN(1, t.bits);
    if (v && mt_asm_is_shared(l->s) && !mt_asm_has(l->s, "to")) {
        v = mt_asm_shared_address(l, v);
        v = v ? LLVMBuildIntCast2(l->b, v, mt_asm_int(l, t.bits), 0, "") : NULL;
    }
    return v ? mt_asm_out(l, &l->s->operands[0], v, 0) : -1;
}

/* isspacep.space p, a: by the intrinsic's builtin. */
static int asm_convert_isspacep(struct mt_asm_body *l)
{
    char name[80] = "mtb_nvvm_isspacep_";
    LLVMTypeRef type;
    LLVMValueRef f = mt_asm_find_builtin(l, &type);
    if (f)
        return mt_asm_call_builtin(l, f, type);
    if (asm_count(l, 2, 2) || l->s->nparts < 2)
        return mt_asm_fail(l, "%s", l->s->opcode);
    size_t space = strcspn(l->s->parts[1], ":");
    strncat(name, l->s->parts[1], space < 40 ? space : 40);
    if (!strcmp(l->s->parts[1], "shared::cluster")) /* shared memory of any CTA; shared::cta and shared
                                                     * mean one's own */
        strcat(name, "_cluster");
    LLVMValueRef a = IN(1, 64);
    f = l->builtins->lookup ? l->builtins->lookup(l->builtins->ctx, name, &type) : NULL;
    if (!a || !f || LLVMCountParamTypes(type) != 1)
        return mt_asm_fail(l, "%s", l->s->opcode);
    LLVMValueRef r = mt_asm_call_by_name(l, name, l->i1, &a, 1);
    if (!r)
        return -1;
    r = LLVMBuildICmp(l->b, LLVMIntNE, r, LLVMConstNull(LLVMTypeOf(r)), "");
    return mt_asm_out(l, &l->s->operands[0], r, 0);
}

/* Barriers, warp collectives and control of the thread: calls of the CPU device (format/image.h). */

static LLVMValueRef asm_warp_call(struct mt_asm_body *l, const char *name, LLVMTypeRef result,
                                  LLVMValueRef *args, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!args[i])
            return NULL;
    return mt_asm_call_by_name(l, name, result, args, n);
}

static LLVMValueRef asm_warp_u32(struct mt_asm_body *l, uint32_t value)
{
    return mt_asm_const(l, 32, value);
}

/* Returns a predicate operand as 0 or 1 in 32 bits. */
static LLVMValueRef asm_warp_predicate(struct mt_asm_body *l, const struct mt_asm_operand *o)
{
    LLVMValueRef p = mt_asm_in(l, o, 1);
    return p ? LLVMBuildZExt(l->b, p, l->i32, "") : NULL;
}

static LLVMValueRef asm_warp_nonzero(struct mt_asm_body *l, LLVMValueRef v)
{
    return LLVMBuildICmp(l->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

/* shfl{.sync}.mode.b32 d{|p}, a, lane, c{, mask} */
static int asm_warp_shfl(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    int sync = mt_asm_has(l->s, "sync");
    uint32_t mode = mt_asm_has(l->s, "up")     ? MT_SHFL_UP
                    : mt_asm_has(l->s, "down") ? MT_SHFL_DOWN
                    : mt_asm_has(l->s, "bfly") ? MT_SHFL_BFLY
                                               : MT_SHFL_IDX;
    if (asm_count(l, sync ? 5 : 4, sync ? 5 : 4))
        return -1;
    LLVMValueRef mask =
        sync ? mt_asm_in(l, &o[4], 32) : asm_warp_call(l, "mt_cpu_activemask", l->i32, NULL, 0);
    LLVMValueRef args[] = {mask, mt_asm_in(l, &o[1], 32), mt_asm_in(l, &o[2], 32), mt_asm_in(l, &o[3], 32),
                           asm_warp_u32(l, mode)};
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_shfl", l->i64, args, 5);
    if (!r)
        return -1;
    if (mt_asm_out(l, &o[0], LLVMBuildTrunc(l->b, r, l->i32, ""), 0))
        return -1;
    if (!o[0].second)
        return 0;
    LLVMValueRef p = LLVMBuildLShr(l->b, r, mt_asm_const(l, 64, 32), "");
    return mt_asm_out(l, o[0].second, LLVMBuildTrunc(l->b, p, l->i1, ""), 0);
}

/* vote{.sync}.mode.type d, {!}p{, mask} */
static int asm_warp_vote(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    int sync = mt_asm_has(l->s, "sync"), ballot = mt_asm_has(l->s, "ballot");
    uint32_t mode = ballot                    ? MT_VOTE_BALLOT
                    : mt_asm_has(l->s, "all") ? MT_VOTE_ALL
                    : mt_asm_has(l->s, "any") ? MT_VOTE_ANY
                                              : MT_VOTE_UNI;
    if (asm_count(l, sync ? 3 : 2, sync ? 3 : 2))
        return -1;
    LLVMValueRef mask =
        sync ? mt_asm_in(l, &o[2], 32) : asm_warp_call(l, "mt_cpu_activemask", l->i32, NULL, 0);
    LLVMValueRef args[] = {mask, asm_warp_predicate(l, &o[1]), asm_warp_u32(l, mode)};
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_vote", l->i32, args, 3);
    if (!r)
        return -1;
    return mt_asm_out(l, &o[0], ballot ? r : asm_warp_nonzero(l, r), 0);
}

/* match.any.sync.type d, a, mask; match.all.sync.type d{|p}, a, mask */
static int asm_warp_match(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    struct mt_asm_type t;
    if (asm_count(l, 3, 3) || asm_last_type(l, &t))
        return -1;
    LLVMValueRef v = mt_asm_in(l, &o[1], t.bits);
    LLVMValueRef args[] = {mt_asm_in(l, &o[2], 32), v ? LLVMBuildZExt(l->b, v, l->i64, "") : NULL};
    LLVMValueRef r =
        asm_warp_call(l, mt_asm_has(l->s, "all") ? "mt_cpu_match_all" : "mt_cpu_match_any", l->i32, args, 2);
    if (!r || mt_asm_out(l, &o[0], r, 0))
        return -1;
    return o[0].second ? mt_asm_out(l, o[0].second, asm_warp_nonzero(l, r), 0) : 0;
}

static int asm_warp_redux(struct mt_asm_body *l)
{
    static const struct {
        const char *word;
        uint32_t is_unsigned, is_signed;
    } table[] = {{"add", MT_REDUX_ADD, MT_REDUX_ADD},  {"min", MT_REDUX_UMIN, MT_REDUX_MIN},
                 {"max", MT_REDUX_UMAX, MT_REDUX_MAX}, {"and", MT_REDUX_AND, MT_REDUX_AND},
                 {"or", MT_REDUX_OR, MT_REDUX_OR},     {"xor", MT_REDUX_XOR, MT_REDUX_XOR}};
    const struct mt_asm_operand *o = l->s->operands;
    struct mt_asm_type t;
    if (asm_count(l, 3, 3) || asm_last_type(l, &t))
        return -1;
    for (unsigned i = 0; i < sizeof table / sizeof *table && t.kind != 'f'; i++) {
        if (!mt_asm_has(l->s, table[i].word))
            continue;
        LLVMValueRef args[] = {mt_asm_in(l, &o[2], 32), mt_asm_in(l, &o[1], 32),
                               asm_warp_u32(l, t.kind == 's' ? table[i].is_signed : table[i].is_unsigned)};
        LLVMValueRef r = asm_warp_call(l, "mt_cpu_redux", l->i32, args, 3);
        return r ? mt_asm_out(l, &o[0], r, 0) : -1;
    }
    return asm_fallback(l);
}

static int asm_warp_activemask(struct mt_asm_body *l)
{
    if (asm_count(l, 1, 1))
        return -1;
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_activemask", l->i32, NULL, 0);
    return r ? mt_asm_out(l, &l->s->operands[0], r, 0) : -1;
}

/* elect.sync d|p, mask: elects the lowest lane of the mask. */
static int asm_warp_elect(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    if (asm_count(l, 2, 2))
        return -1;
    LLVMValueRef mask = mt_asm_in(l, &o[1], 32), lane = mask ? mt_asm_special(l, "laneid") : NULL;
    if (!lane || !asm_warp_call(l, "mt_cpu_syncwarp", l->none, &mask, 1))
        return -1;
    LLVMValueRef args[] = {mask, mt_asm_const(l, 1, 0)};
    LLVMValueRef leader = mt_asm_intrinsic(l, "llvm.cttz", l->i32, args, 2);
    lane = LLVMBuildIntCast2(l->b, lane, l->i32, 0, "");
    if (o[0].second && mt_asm_out(l, o[0].second, LLVMBuildICmp(l->b, LLVMIntEQ, lane, leader, ""), 0))
        return -1;
    return mt_asm_out(l, &o[0], leader, 0);
}

/* bar{.cta}.sync a{, b}; bar.arrive a, b; bar.red.op.type d, a{, b}, {!}c; bar.warp.sync mask; barrier.… the
 * same */
static int asm_warp_bar(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    const struct mt_asm_operand *o = s->operands;
    if (mt_asm_has(s, "cluster")) {
        int arrives = mt_asm_has(s, "arrive");
        if (asm_count(l, 0, 0) || arrives == mt_asm_has(s, "wait"))
            return -1;
        return asm_warp_call(l, arrives ? "mt_cpu_cluster_arrive" : "mt_cpu_cluster_wait", l->none, NULL, 0)
                   ? 0
                   : -1;
    }
    if (mt_asm_has(s, "warp")) {
        LLVMValueRef mask = asm_count(l, 1, 1) ? NULL : mt_asm_in(l, o, 32);
        return asm_warp_call(l, "mt_cpu_syncwarp", l->none, &mask, 1) ? 0 : -1;
    }
    int red = mt_asm_has(s, "red"), arrive = mt_asm_has(s, "arrive");
    unsigned first = (unsigned)red;
    if (asm_count(l, first + 1 + (unsigned)red, first + 2 + (unsigned)red))
        return -1;
    LLVMValueRef id = mt_asm_in(l, &o[first], 32);
    LLVMValueRef count =
        s->noperands == first + 2 + (unsigned)red ? mt_asm_in(l, &o[first + 1], 32) : asm_warp_u32(l, 0);
    /* bar is barrier.aligned: if one thread of a warp reaches it, all do. */
    int aligned = !strcmp(s->parts[0], "bar") || mt_asm_has(s, "aligned");
    if (arrive) {
        LLVMValueRef args[] = {id, count, asm_warp_u32(l, (uint32_t)aligned)};
        return asm_warp_call(l, "mt_cpu_barrier_arrive", l->none, args, 3) ? 0 : -1;
    }
    uint32_t kind = !red ? 0 : mt_asm_has(s, "popc") ? 1 : mt_asm_has(s, "and") ? 2 : 3;
    kind |= aligned ? 0 : MT_BARRIER_SOME;
    LLVMValueRef args[] = {asm_warp_u32(l, kind), id, count,
                           red ? asm_warp_predicate(l, &o[s->noperands - 1]) : asm_warp_u32(l, 0)};
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_barrier", l->i32, args, 4);
    if (!r)
        return -1;
    return red ? mt_asm_out(l, &o[0], kind == 1 ? r : asm_warp_nonzero(l, r), 0) : 0;
}

static int asm_warp_nanosleep(struct mt_asm_body *l)
{
    LLVMValueRef ns = asm_count(l, 1, 1) ? NULL : mt_asm_in(l, l->s->operands, 32);
    return asm_warp_call(l, "mt_cpu_nanosleep", l->none, &ns, 1) ? 0 : -1;
}

static int asm_warp_trap(struct mt_asm_body *l)
{
    return asm_warp_call(l, "mt_cpu_trap", l->none, NULL, 0) ? 0 : -1;
}

static int asm_warp_exit(struct mt_asm_body *l)
{
    return asm_warp_call(l, "mt_cpu_exit_thread", l->none, NULL, 0) ? 0 : -1;
}

/* Memory instructions of PTX as plain loads, stores, atomics and copies: every space is ordinary memory
 * here. */

/* ---- Asynchronous copies of PTX, completed at once, and the barriers that count them ---- */

/* cp.async [dst], [src], size{, src-size | ignore-src}{, policy}: copies at once and zeroes the rest. */
static int cp_async(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    unsigned hint = strstr(s->opcode, "::cache_hint") != NULL;
    if (asm_count(l, 3, 5))
        return -1;
    LLVMValueRef n = mt_asm_in(l, &s->operands[2], 64);
    LLVMValueRef dst = mt_asm_address(l, &s->operands[0], 1);
    if (!n || !dst)
        return -1;
    if (s->noperands - hint == 4) {
        const struct mt_asm_operand *o = &s->operands[3];
        LLVMBuildMemSet(l->b, dst, mt_asm_const(l, 8, 0), n, 1);
        LLVMValueRef less;
        if (mt_asm_width(l, o) == 1) {
            LLVMValueRef ignore = mt_asm_in(l, o, 1);
            less = ignore ? LLVMBuildSelect(l->b, ignore, mt_asm_const(l, 64, 0), n, "") : NULL;
        } else {
            less = mt_asm_in(l, o, 64);
        }
        if (!less)
            return -1;
        LLVMValueRef args[] = {n, less};
        n = mt_asm_intrinsic(l, "llvm.umin", l->i64, args, 2);
    }
    LLVMValueRef src = mt_asm_address(l, &s->operands[1], 0);
    if (!src)
        return -1;
    LLVMBuildMemCpy(l->b, dst, 1, src, 1, n);
    return 0;
}

static LLVMValueRef asm_atomic(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v, struct mt_asm_type t,
                               unsigned counts);

/* Marks an instruction for the second count (mt_mark_kind). */
static void asm_mark(struct mt_asm_body *l, LLVMValueRef inst, enum mt_access_type kind, uint64_t bytes)
{
    if (!LLVMIsAInstruction(inst))
        return;
    LLVMMetadataRef values[] = {LLVMValueAsMetadata(mt_asm_const(l, 32, kind)),
                                LLVMValueAsMetadata(mt_asm_const(l, 64, bytes))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(l->c, values, 2);
    LLVMSetMetadata(inst, mt_mark_kind(l->c), LLVMMetadataAsValue(l->c, node));
}

/* cp.reduce.async.bulk.global.shared::cta.bulk_group.op.type [dst], [src], size: one atomic per element. */
static int bulk_reduce(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    struct mt_asm_type t;
    if (s->nparts < 8 || strcmp(s->parts[4], "global") || strncmp(s->parts[5], "shared", 6))
        return asm_fallback(l);
    if (asm_last_type(l, &t) || asm_count(l, 3, 4))
        return -1;
    LLVMTypeRef type = mt_asm_int(l, t.bits * t.lanes);
    LLVMValueRef n = mt_asm_in(l, &s->operands[2], 64), at = mt_asm_slot(l, l->i64, "");
    LLVMValueRef dst = mt_asm_address(l, &s->operands[0], 0), src = mt_asm_address(l, &s->operands[1], 1);
    if (!n || !at || !dst || !src)
        return -1;
    asm_mark(l, LLVMBuildGEP2(l->b, l->i8, dst, &n, 1, ""), MT_ATOMIC, 0); /* one access in all */
    LLVMBasicBlockRef test = mt_asm_block(l), body = mt_asm_block(l), done = mt_asm_block(l);
    n = LLVMBuildUDiv(l->b, n, mt_asm_const(l, 64, t.bits * t.lanes / 8), "");
    LLVMBuildStore(l->b, mt_asm_const(l, 64, 0), at);
    LLVMBuildBr(l->b, test);
    LLVMPositionBuilderAtEnd(l->b, test);
    LLVMValueRef i = LLVMBuildLoad2(l->b, l->i64, at, "");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, i, n, ""), body, done);
    LLVMPositionBuilderAtEnd(l->b, body);
    LLVMValueRef v = LLVMBuildLoad2(l->b, type, LLVMBuildGEP2(l->b, type, src, &i, 1, ""), "");
    if (!asm_atomic(l, LLVMBuildGEP2(l->b, type, dst, &i, 1, ""), v, t, 0))
        return -1;
    LLVMBuildStore(l->b, LLVMBuildAdd(l->b, i, mt_asm_const(l, 64, 1), ""), at);
    LLVMBuildBr(l->b, test);
    LLVMPositionBuilderAtEnd(l->b, done);
    return 0;
}

/* Marks a copy by a builtin, whose accesses the second count cannot see. */
static void mark_copy(struct mt_asm_body *l)
{
    struct mt_asm_touch t;
    if (mt_asm_touches(l->a, l->s, &t) != 1 || !t.length || t.ignore)
        return;
    LLVMValueRef p = mt_asm_address(l, t.memory, 0), n = mt_asm_in(l, t.length, 64);
    if (p && n)
        asm_mark(l, LLVMBuildGEP2(l->b, l->i8, p, &n, 1, ""), t.op, 0);
}

/* Calls the builtin without the optional cache policy at the end. */
static int copy_by_builtin(struct mt_asm_body *l, LLVMValueRef builtin, LLVMTypeRef type)
{
    const struct mt_asm_statement *whole = l->s;
    struct mt_asm_statement s = *whole;
    s.noperands -= s.noperands && mt_asm_has(&s, "L2::cache_hint");
    mark_copy(l);
    l->s = &s;
    int failed = mt_asm_call_builtin(l, builtin, type);
    l->s = whole;
    return failed;
}

static int asm_copy_cp(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    static const char *const done[] = {"commit_group", "wait_group", "wait_all", "prefetch"};
    LLVMTypeRef type;
    if (mt_asm_has(s, "tensor") && !mt_asm_has(s, "prefetch"))
        return mt_asm_tensor(l);
    LLVMValueRef builtin = mt_asm_find_builtin(l, &type);
    if (builtin)
        return copy_by_builtin(l, builtin, type);
    for (unsigned i = 0; i < sizeof done / sizeof *done; i++)
        if (mt_asm_has(s, done[i]))
            return 0; /* copies complete when issued */
    if (mt_asm_has(s, "mbarrier"))
        return asm_fallback(l);
    if (mt_asm_has(s, "reduce"))
        return bulk_reduce(l);
    if (!mt_asm_has(s, "bulk"))
        return cp_async(l);
    if (s->nparts < 5 || strcmp(s->parts[3], "global") || mt_asm_has(s, "cp_mask"))
        return asm_fallback(l);
    if (asm_count(l, 3, 4))
        return -1;
    /* to global memory: [dst], [src], size */
    LLVMValueRef n = mt_asm_in(l, &s->operands[2], 64);
    LLVMValueRef dst = mt_asm_address(l, &s->operands[0], 0), src = mt_asm_address(l, &s->operands[1], 1);
    if (!n || !dst || !src)
        return -1;
    LLVMBuildMemCpy(l->b, dst, 1, src, 1, n);
    return 0;
}

/* ---- mbarrier ---- */

/* Calls the builtin for mbarrier.arrive without a count, which is then 1. */
static int arrive_once(struct mt_asm_body *l)
{
    const struct mt_asm_statement *whole = l->s;
    struct mt_asm_statement s = *whole;
    struct mt_asm_operand operands[3];
    LLVMTypeRef type;
    LLVMValueRef builtin = mt_asm_find_builtin(l, &type);
    if (!builtin || LLVMCountParamTypes(type) != 2)
        return asm_fallback(l);
    operands[0] = whole->operands[0];
    operands[1] = whole->operands[1];
    operands[2] = (struct mt_asm_operand){.kind = MT_ASM_INT, .bits = 1};
    s.operands = operands;
    s.noperands = 3;
    l->s = &s;
    int failed = mt_asm_call_builtin(l, builtin, type);
    l->s = whole;
    return failed;
}

/* Lowers mbarrier operations. mbarrier.arrive{.drop} with a count has a builtin of its own; the time limit
 * of try_wait is only a hint. */
static int asm_copy_mbarrier(struct mt_asm_body *l)
{
    const struct mt_asm_statement *whole = l->s;
    struct mt_asm_statement s = *whole;
    int wait = mt_asm_has(whole, "try_wait"),
        plain = mt_asm_has(whole, "arrive") && !mt_asm_has(whole, "expect_tx");
    if (plain && s.noperands == 2 && !mt_asm_has(whole, "noComplete"))
        return arrive_once(l);
    if (wait && s.noperands > 3)
        s.noperands = 3;
    if (plain && s.noperands == 3 && !mt_asm_has(whole, "noComplete")) {
        s.nparts = 0;
        for (unsigned i = 0; i < whole->nparts; i++) {
            const char *part = whole->parts[i];
            int last_word = !strcmp(part, mt_asm_has(whole, "drop") ? "drop" : "arrive");
            if (i < 3 || !strncmp(part, "shared", 6) || i + 1 == whole->nparts)
                if (strcmp(part, "release") && strcmp(part, "relaxed") && s.nparts + 2 < MT_ASM_MAX_PARTS)
                    s.parts[s.nparts++] =
                        strncmp(part, "shared", 6) ? part : "shared::cta"; /* a CTA is its own cluster */
            if (last_word)
                s.parts[s.nparts++] = "noComplete";
        }
    }
    l->s = &s;
    int failed = asm_fallback(l);
    l->s = whole;
    return failed;
}

/* Texture and surface instructions: passes their operands as an array of words to mt_cpu_tex and the like
 * (format/image.h). */

static int word_in(const struct mt_asm_statement *s, const char *const *words, unsigned n)
{
    for (unsigned i = 1; i < s->nparts; i++)
        for (unsigned j = 0; j < n; j++)
            if (!strcmp(s->parts[i], words[j]))
                return (int)j;
    return -1;
}
#define WORD_IN(s, words) word_in((s), (words), sizeof(words) / sizeof *(words))

static const char *const geometries[] = {"1d", "2d", "3d", "a1d", "a2d", "cube", "acube"};
/* Number of coordinates in use, including the layer; PTX pads three to four. */
static const unsigned coordinates[] = {1, 2, 3, 2, 3, 3, 4};

static LLVMValueRef asm_texture_at(struct mt_asm_body *l, LLVMValueRef array, unsigned bits, unsigned i)
{
    LLVMValueRef index = mt_asm_const(l, 64, i);
    return LLVMBuildGEP2(l->b, mt_asm_int(l, bits), array, &index, 1, "");
}

/* Stores the words of a vector operand, or a single one, at array[from…]. Returns 0 or -1. */
static int asm_texture_put(struct mt_asm_body *l, LLVMValueRef array, unsigned from,
                           const struct mt_asm_operand *o, unsigned n)
{
    int vector = o->kind == MT_ASM_VECTOR;
    if ((vector ? o->nitems : 1) < n || (vector ? o->nitems : 1) > 4)
        return mt_asm_fail(l, "%s: operand not understood", l->s->opcode);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef v = mt_asm_in(l, vector ? &o->items[i] : o, 32);
        if (!v)
            return -1;
        LLVMBuildStore(l->b, v, asm_texture_at(l, array, 32, from + i));
    }
    return 0;
}

/* Copies results to the registers of operand 0; the p of d|p becomes "resident". */
static int asm_texture_take(struct mt_asm_body *l, LLVMValueRef array, unsigned n)
{
    const struct mt_asm_operand *d = &l->s->operands[0];
    int vector = d->kind == MT_ASM_VECTOR;
    if ((vector ? d->nitems : 1) != n)
        return mt_asm_fail(l, "%s: destination not understood", l->s->opcode);
    for (unsigned i = 0; i < n; i++)
        if (mt_asm_out(l, vector ? &d->items[i] : d,
                       LLVMBuildLoad2(l->b, l->i64, asm_texture_at(l, array, 64, i), ""), 0))
            return -1;
    return d->second ? mt_asm_out(l, d->second, mt_asm_const(l, 1, 1), 0) : 0;
}

/* Reads [object, {coordinates}]: returns the object, with the coordinates in the array; NULL on error. */
static LLVMValueRef object_and_place(struct mt_asm_body *l, const struct mt_asm_operand *o,
                                     LLVMValueRef array, unsigned n)
{
    if (o->kind != MT_ASM_MEMORY || o->nitems != 2 || o->offset || o->second) {
        mt_asm_fail(l, "%s: address not understood", l->s->opcode);
        return NULL;
    }
    if (asm_texture_put(l, array, 0, &o->items[1], n))
        return NULL;
    return mt_asm_in(l, &o->items[0], 64);
}

static int asm_texture_call(struct mt_asm_body *l, const char *name, LLVMValueRef object, unsigned what,
                            LLVMValueRef in, LLVMValueRef out)
{
    LLVMValueRef args[] = {object, mt_asm_const(l, 32, what), in, out};
    return mt_asm_call_by_name(l, name, l->none, args, 4) ? 0 : -1;
}

/* tex[.level|.grad].geom.v4.dtype.ctype d[|p], [obj, c]{, level | dx, dy};  tld4.comp.2d.v4.dtype.f32 */
static int asm_texture_tex(struct mt_asm_body *l)
{
    static const char *const components[] = {"r", "g", "b", "a"};
    const struct mt_asm_statement *s = l->s;
    int geometry = WORD_IN(s, geometries), gather = !strcmp(s->parts[0], "tld4");
    int level = mt_asm_has(s, "level"), grad = mt_asm_has(s, "grad");
    const char *dtype = s->nparts > 3 ? s->parts[s->nparts - 2] : "";
    const char *ctype = s->nparts > 3 ? s->parts[s->nparts - 1] : "";
    unsigned what = (unsigned)geometry, wanted = 2 + (level ? 1 : grad ? 2 : 0);
    if (geometry < 0 || !mt_asm_has(s, "v4") || s->noperands != wanted || mt_asm_has(s, "base") ||
        (strcmp(dtype, "f32") && strcmp(dtype, "s32") && strcmp(dtype, "u32")) ||
        (strcmp(ctype, "f32") && (strcmp(ctype, "s32") || level || grad || gather)))
        return mt_asm_fail(l, "%s", s->opcode);
    if (gather) {
        int component = WORD_IN(s, components);
        if (component < 0 || geometry != MT_TEX_2D)
            return mt_asm_fail(l, "%s", s->opcode);
        what |= MT_TEX_GATHER | (unsigned)component << MT_TEX_COMPONENT_AT;
    }
    what |= level ? MT_TEX_LEVEL : grad ? MT_TEX_GRAD : 0;
    what |= *ctype == 's' ? MT_TEX_INTEGER : 0;
    LLVMValueRef in = mt_asm_slot(l, LLVMArrayType2(l->i32, 12), "");
    LLVMValueRef out = mt_asm_slot(l, LLVMArrayType2(l->i64, 4), "");
    unsigned n = coordinates[geometry],
             slopes = geometry >= MT_TEX_A1D && geometry != MT_TEX_CUBE ? n - 1 : n;
    LLVMValueRef object = in && out ? object_and_place(l, &s->operands[1], in, n) : NULL;
    if (!object || (level && asm_texture_put(l, in, 4, &s->operands[2], 1)) ||
        (grad && (asm_texture_put(l, in, 4, &s->operands[2], slopes) ||
                  asm_texture_put(l, in, 8, &s->operands[3], slopes))))
        return -1;
    return asm_texture_call(l, "mt_cpu_tex", object, what, in, out) || asm_texture_take(l, out, 4) ? -1 : 0;
}

/* suld.b.geom{.cache}{.vec}.type.mode d, [obj, c];  sust.b.… [obj, c], v */
static int asm_texture_surface(struct mt_asm_body *l)
{
    static const char *const modes[] = {"trap", "clamp", "zero"}, *const vectors[] = {"v1", "v2", "v4"},
                             *const types[] = {"b8", "b16", "b32", "b64"};
    const struct mt_asm_statement *s = l->s;
    int geometry = WORD_IN(s, geometries), type = WORD_IN(s, types), mode = WORD_IN(s, modes);
    int vector = WORD_IN(s, vectors), store = !strcmp(s->parts[0], "sust");
    if (geometry < 0 || geometry > MT_TEX_A2D || type < 0 || mode < 0 || s->noperands != 2 ||
        strcmp(s->parts[1], "b"))
        return mt_asm_fail(l, "%s", s->opcode);
    unsigned n = 1u << (vector < 0 ? 0 : vector), bytes = 1u << type;
    unsigned what =
        (unsigned)geometry | (unsigned)mode << 3 | bytes << MT_SURF_BYTES_AT | n << MT_SURF_COUNT_AT;
    LLVMValueRef in = mt_asm_slot(l, LLVMArrayType2(l->i32, 4), "");
    LLVMValueRef data = mt_asm_slot(l, LLVMArrayType2(l->i64, 4), "");
    LLVMValueRef object =
        in && data ? object_and_place(l, &s->operands[!store], in, coordinates[geometry]) : NULL;
    if (!object)
        return -1;
    if (!store)
        return asm_texture_call(l, "mt_cpu_surf_load", object, what, in, data) || asm_texture_take(l, data, n)
                   ? -1
                   : 0;
    const struct mt_asm_operand *v = &s->operands[1];
    if ((v->kind == MT_ASM_VECTOR ? v->nitems : 1) != n)
        return mt_asm_fail(l, "%s: source not understood", s->opcode);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef x = mt_asm_in(l, v->kind == MT_ASM_VECTOR ? &v->items[i] : v, 8 * bytes);
        if (!x)
            return -1;
        LLVMBuildStore(l->b, LLVMBuildZExt(l->b, x, l->i64, ""), asm_texture_at(l, data, 64, i));
    }
    return asm_texture_call(l, "mt_cpu_surf_store", object, what, in, data);
}

/* txq.width.b32 d, [obj];  suq.… */
static int asm_texture_query(struct mt_asm_body *l)
{
    static const char *const sizes[] = {"width", "height", "depth", "array_size"};
    const struct mt_asm_statement *s = l->s;
    int size = WORD_IN(s, sizes);
    if (size < 0 || s->nparts != 3 || s->noperands != 2 || s->operands[1].kind != MT_ASM_MEMORY ||
        s->operands[1].nitems != 1)
        return mt_asm_fail(l, "%s", s->opcode);
    LLVMValueRef object = mt_asm_in(l, &s->operands[1].items[0], 64);
    if (!object)
        return -1;
    LLVMValueRef args[] = {object, mt_asm_const(l, 32, (unsigned)size)};
    LLVMValueRef v = mt_asm_call_by_name(l, "mt_cpu_tex_size", l->i32, args, 2);
    return v ? mt_asm_out(l, &s->operands[0], v, 0) : -1;
}

static unsigned lanes_of(const struct mt_asm_statement *s)
{
    return mt_asm_has(s, "v2") ? 2 : mt_asm_has(s, "v4") ? 4 : mt_asm_has(s, "v8") ? 8 : 1;
}

/* Returns the order of .relaxed, .acquire and so on; not atomic without one. .volatile is relaxed with
 * volatile. */
static LLVMAtomicOrdering ordering_of(const struct mt_asm_statement *s, LLVMAtomicOrdering otherwise)
{
    static const struct {
        const char *word;
        LLVMAtomicOrdering ordering;
    } table[] = {{"relaxed", LLVMAtomicOrderingMonotonic},
                 {"acquire", LLVMAtomicOrderingAcquire},
                 {"release", LLVMAtomicOrderingRelease},
                 {"acq_rel", LLVMAtomicOrderingAcquireRelease},
                 {"sc", LLVMAtomicOrderingSequentiallyConsistent},
                 {"volatile", LLVMAtomicOrderingMonotonic},
                 {"mmio", LLVMAtomicOrderingMonotonic}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (mt_asm_has(s, table[i].word))
            return table[i].ordering;
    return otherwise;
}

static LLVMValueRef asm_memory_element(struct mt_asm_body *l, LLVMValueRef p, LLVMTypeRef type, unsigned i)
{
    LLVMValueRef index = mt_asm_const(l, 64, i);
    return i ? LLVMBuildGEP2(l->b, type, p, &index, 1, "") : p;
}

static void asm_memory_qualify(struct mt_asm_body *l, LLVMValueRef access, unsigned bytes)
{
    LLVMAtomicOrdering ordering = ordering_of(l->s, LLVMAtomicOrderingNotAtomic);
    LLVMSetAlignment(access, bytes);
    if (ordering != LLVMAtomicOrderingNotAtomic)
        LLVMSetOrdering(access, ordering);
    if (mt_asm_has(l->s, "volatile"))
        LLVMSetVolatile(access, 1);
}

/* Returns 1 if the vector must be one access, as other threads are meant to see it. A GPU moves up to 16
 * aligned bytes at once, and code that publishes a value beside its flag relies on it (CUB's look-back). */
static int is_whole(const struct mt_asm_body *l, unsigned n, unsigned bits)
{
    return n > 1 && n * bits <= 128 &&
           (ordering_of(l->s, LLVMAtomicOrderingNotAtomic) != LLVMAtomicOrderingNotAtomic ||
            mt_asm_has(l->s, "cg") || mt_asm_has(l->s, "cv") || mt_asm_has(l->s, "wt"));
}

static void qualify_whole(struct mt_asm_body *l, LLVMValueRef access, unsigned bytes)
{
    asm_memory_qualify(l, access, bytes);
    if (LLVMGetOrdering(access) == LLVMAtomicOrderingNotAtomic)
        LLVMSetOrdering(access, LLVMAtomicOrderingMonotonic);
}

static void load_whole(struct mt_asm_body *l, LLVMValueRef p, unsigned n, unsigned bits, LLVMValueRef *parts)
{
    LLVMValueRef all = LLVMBuildLoad2(l->b, mt_asm_int(l, n * bits), p, "");
    qualify_whole(l, all, n * bits / 8);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef shifted = LLVMBuildLShr(l->b, all, mt_asm_const(l, n * bits, i * bits), "");
        parts[i] = LLVMBuildTrunc(l->b, shifted, mt_asm_int(l, bits), "");
    }
}

static void store_whole(struct mt_asm_body *l, LLVMValueRef p, unsigned n, unsigned bits, LLVMValueRef *parts)
{
    LLVMTypeRef type = mt_asm_int(l, n * bits);
    LLVMValueRef all = LLVMConstNull(type);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef wide = LLVMBuildZExt(l->b, parts[i], type, "");
        wide = LLVMBuildShl(l->b, wide, mt_asm_const(l, n * bits, i * bits), "");
        all = LLVMBuildOr(l->b, all, wide, "");
    }
    qualify_whole(l, LLVMBuildStore(l->b, all, p), n * bits / 8);
}

/* Returns element i of a vector operand, or the operand itself if there is one lane. */
static const struct mt_asm_operand *asm_memory_lane(struct mt_asm_body *l, const struct mt_asm_operand *o,
                                                    unsigned lanes, unsigned i)
{
    if (o->kind == MT_ASM_VECTOR && o->nitems == lanes)
        return &o->items[i];
    if (lanes == 1 && o->kind != MT_ASM_VECTOR)
        return o;
    mt_asm_fail(l, "%s: vector operand expected", l->s->opcode);
    return NULL;
}

static int asm_memory_ld(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    unsigned n = lanes_of(l->s);
    if (asm_last_type(l, &t) || asm_count(l, 2, 3))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[1], mt_asm_is_shared(l->s));
    LLVMTypeRef type = mt_asm_int(l, t.bits * t.lanes);
    LLVMValueRef loaded[8];
    if (!p)
        return -1;
    int whole = is_whole(l, n, t.bits * t.lanes);
    if (whole)
        load_whole(l, p, n, t.bits * t.lanes, loaded);
    for (unsigned i = 0; !whole && i < n; i++) {
        loaded[i] = LLVMBuildLoad2(l->b, type, asm_memory_element(l, p, type, i), "");
        asm_memory_qualify(l, loaded[i], t.bits * t.lanes / 8);
        if (n > 1)
            asm_mark(l, loaded[i], MT_LOAD, i ? 0 : n * t.bits * t.lanes / 8);
    }
    for (unsigned i = 0; i < n; i++) { /* after all loads: the address may also be a destination */
        const struct mt_asm_operand *d = asm_memory_lane(l, &l->s->operands[0], n, i);
        if (!d || mt_asm_out(l, d, loaded[i], t.kind == 's'))
            return -1;
    }
    return 0;
}

/* st.bulk [a], size, 0 */
static int st_bulk(struct mt_asm_body *l)
{
    if (asm_count(l, 3, 3))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[0], mt_asm_is_shared(l->s));
    LLVMValueRef n = mt_asm_in(l, &l->s->operands[1], 64), v = mt_asm_in(l, &l->s->operands[2], 8);
    if (!p || !n || !v)
        return -1;
    LLVMBuildMemSet(l->b, p, v, n, 1);
    return 0;
}

/* Returns 1 for st.async and red.async within a cluster, counted by an mbarrier; those to global memory
 * complete at once. */
static int is_counted(const struct mt_asm_statement *s)
{
    return mt_asm_has(s, "mbarrier::complete_tx::bytes");
}

static int asm_memory_st(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    unsigned n = lanes_of(l->s);
    if (mt_asm_has(l->s, "bulk"))
        return st_bulk(l);
    if (is_counted(l->s))
        return asm_fallback(l);
    if (asm_last_type(l, &t) || asm_count(l, 2, 3))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[0], mt_asm_is_shared(l->s));
    unsigned bits = t.bits * t.lanes;
    LLVMValueRef parts[8];
    int whole = is_whole(l, n, bits);
    for (unsigned i = 0; p && i < n; i++) {
        const struct mt_asm_operand *from = asm_memory_lane(l, &l->s->operands[1], n, i);
        LLVMValueRef v = NULL;
        if (from && from->kind == MT_ASM_F64 && t.kind == 'f') {
            v = mt_asm_in_float(l, from, bits);
            v = v ? mt_asm_bits_of(l, v) : NULL;
        } else if (from) {
            v = mt_asm_in(l, from, bits);
        }
        if (!v)
            return -1;
        parts[i] = v;
        if (whole)
            continue;
        LLVMValueRef store = LLVMBuildStore(l->b, v, asm_memory_element(l, p, LLVMTypeOf(v), i));
        asm_memory_qualify(l, store, bits / 8);
        if (n > 1)
            asm_mark(l, store, MT_STORE, i ? 0 : n * bits / 8);
    }
    if (p && whole)
        store_whole(l, p, n, bits, parts);
    return p ? 0 : -1;
}

/* ---- atomics ------------------------------------------------------------------------------------ */

struct atomic_op {
    const char *word;
    LLVMAtomicRMWBinOp is_unsigned, is_signed, is_float;
};
#define NO_FLOAT LLVMAtomicRMWBinOpXchg
static const struct atomic_op atomic_ops[] = {
    {"add", LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpFAdd},
    {"min", LLVMAtomicRMWBinOpUMin, LLVMAtomicRMWBinOpMin, LLVMAtomicRMWBinOpFMin},
    {"max", LLVMAtomicRMWBinOpUMax, LLVMAtomicRMWBinOpMax, LLVMAtomicRMWBinOpFMax},
    {"inc", LLVMAtomicRMWBinOpUIncWrap, LLVMAtomicRMWBinOpUIncWrap, NO_FLOAT},
    {"dec", LLVMAtomicRMWBinOpUDecWrap, LLVMAtomicRMWBinOpUDecWrap, NO_FLOAT},
    {"and", LLVMAtomicRMWBinOpAnd, LLVMAtomicRMWBinOpAnd, NO_FLOAT},
    {"or", LLVMAtomicRMWBinOpOr, LLVMAtomicRMWBinOpOr, NO_FLOAT},
    {"xor", LLVMAtomicRMWBinOpXor, LLVMAtomicRMWBinOpXor, NO_FLOAT},
    {"exch", LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg, NO_FLOAT},
};

/* Widens half or bfloat bits to float. */
static LLVMValueRef asm_memory_widen16(struct mt_asm_body *l, LLVMValueRef bits, char kind)
{
    LLVMTypeRef single = LLVMFloatTypeInContext(l->c);
    if (kind == 'f')
        return LLVMBuildFPExt(l->b, mt_asm_float_of(l, bits), single, "");
    LLVMValueRef wide =
        LLVMBuildShl(l->b, LLVMBuildZExt(l->b, bits, l->i32, ""), mt_asm_const(l, 32, 16), "");
    return LLVMBuildBitCast(l->b, wide, single, "");
}

/* Narrows a float to half or bfloat bits, rounded to nearest even. */
static LLVMValueRef asm_memory_narrow16(struct mt_asm_body *l, LLVMValueRef value, char kind)
{
    if (kind == 'f')
        return mt_asm_bits_of(l, LLVMBuildFPTrunc(l->b, value, LLVMHalfTypeInContext(l->c), ""));
    LLVMValueRef u = mt_asm_bits_of(l, value), sixteen = mt_asm_const(l, 32, 16);
    LLVMValueRef odd = LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, u, sixteen, ""), mt_asm_const(l, 32, 1), "");
    LLVMValueRef up = LLVMBuildAdd(l->b, LLVMBuildAdd(l->b, u, mt_asm_const(l, 32, 0x7fff), ""), odd, "");
    LLVMValueRef nan = LLVMBuildFCmp(l->b, LLVMRealUNO, value, value, "");
    up = LLVMBuildSelect(l->b, nan, mt_asm_const(l, 32, 0x7fff0000), up, "");
    return LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, up, sixteen, ""), l->i16, "");
}

static LLVMValueRef asm_memory_combine16(struct mt_asm_body *l, LLVMValueRef a, LLVMValueRef b,
                                         const struct atomic_op *op, struct mt_asm_type t)
{
    LLVMValueRef x = asm_memory_widen16(l, a, t.kind), y = asm_memory_widen16(l, b, t.kind), args[] = {x, y};
    LLVMTypeRef single = LLVMFloatTypeInContext(l->c);
    LLVMValueRef r = op->is_float == LLVMAtomicRMWBinOpFAdd ? LLVMBuildFAdd(l->b, x, y, "")
                     : op->is_float == LLVMAtomicRMWBinOpFMin
                         ? mt_asm_intrinsic(l, "llvm.minnum", single, args, 2)
                         : mt_asm_intrinsic(l, "llvm.maxnum", single, args, 2);
    return asm_memory_narrow16(l, r, t.kind);
}

/* Emits a compare-and-swap loop for one word of 16-bit floats (one or two). Returns the old word. */
static LLVMValueRef asm_memory_loop16(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v,
                                      const struct atomic_op *op, struct mt_asm_type t, unsigned counts)
{
    unsigned bits = t.bits * t.lanes;
    LLVMTypeRef word = mt_asm_int(l, bits);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b), loop = mt_asm_block(l), done = mt_asm_block(l);
    LLVMValueRef seen = LLVMBuildLoad2(l->b, word, p, ""), fresh = mt_asm_const(l, bits, 0);
    LLVMSetAlignment(seen, bits / 8);
    LLVMSetOrdering(seen, LLVMAtomicOrderingMonotonic);
    asm_mark(l, seen, MT_ATOMIC, counts); /* counted once, for any number of attempts */
    LLVMBuildBr(l->b, loop);
    LLVMPositionBuilderAtEnd(l->b, loop);
    LLVMValueRef old = LLVMBuildPhi(l->b, word, "");
    for (unsigned i = 0; i < t.lanes; i++) {
        LLVMValueRef by = mt_asm_const(l, bits, 16 * i);
        LLVMValueRef a = LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, old, by, ""), l->i16, "");
        LLVMValueRef b = LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, v, by, ""), l->i16, "");
        LLVMValueRef r = LLVMBuildZExt(l->b, asm_memory_combine16(l, a, b, op, t), word, "");
        fresh = LLVMBuildOr(l->b, fresh, LLVMBuildShl(l->b, r, by, ""), "");
    }
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(l->b, p, old, fresh, LLVMAtomicOrderingAcquireRelease,
                                               LLVMAtomicOrderingMonotonic, 0);
    asm_mark(l, pair, MT_ATOMIC, 0);
    LLVMValueRef values[] = {seen, LLVMBuildExtractValue(l->b, pair, 0, "")};
    LLVMBuildCondBr(l->b, LLVMBuildExtractValue(l->b, pair, 1, ""), done, loop);
    LLVMAddIncoming(old, values, (LLVMBasicBlockRef[]){from, loop}, 2);
    LLVMPositionBuilderAtEnd(l->b, done);
    return old;
}

static const struct atomic_op *atomic_op_of(const struct mt_asm_statement *s)
{
    for (unsigned i = 0; i < sizeof atomic_ops / sizeof *atomic_ops; i++)
        if (mt_asm_has(s, atomic_ops[i].word))
            return &atomic_ops[i];
    return NULL;
}

/* Builds one atomic read-modify-write of one element by the opcode. Returns the old bits, or
 * NULL on error. counts: bytes of its access in the second count, or 0. */
static LLVMValueRef asm_atomic(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v, struct mt_asm_type t,
                               unsigned counts)
{
    const struct atomic_op *op = atomic_op_of(l->s);
    LLVMAtomicOrdering ordering = ordering_of(l->s, LLVMAtomicOrderingMonotonic);
    int real = t.kind == 'f' || t.kind == 'g';
    if (!op || (real && op->is_float == NO_FLOAT && strcmp(op->word, "exch"))) {
        mt_asm_fail(l, "%s", l->s->opcode);
        return NULL;
    }
    if (real && t.bits == 16 && strcmp(op->word, "exch"))
        return asm_memory_loop16(l, p, v, op, t, counts);
    LLVMValueRef old = NULL;
    if (!strcmp(op->word, "exch"))
        old = LLVMBuildAtomicRMW(l->b, LLVMAtomicRMWBinOpXchg, p, v, ordering, 0);
    else if (t.lanes > 1) {
        mt_asm_fail(l, "%s", l->s->opcode);
        return NULL;
    } else if (real)
        old = LLVMBuildAtomicRMW(l->b, op->is_float, p, mt_asm_float_of(l, v), ordering, 0);
    else
        old = LLVMBuildAtomicRMW(l->b, t.kind == 's' ? op->is_signed : op->is_unsigned, p, v, ordering, 0);
    asm_mark(l, old, MT_ATOMIC, counts);
    return mt_asm_bits_of(l, old);
}

static int lower_cas(struct mt_asm_body *l, LLVMValueRef p, struct mt_asm_type t)
{
    LLVMAtomicOrdering ordering = ordering_of(l->s, LLVMAtomicOrderingMonotonic);
    LLVMAtomicOrdering failure = ordering == LLVMAtomicOrderingAcquireRelease ? LLVMAtomicOrderingAcquire
                                 : ordering == LLVMAtomicOrderingRelease      ? LLVMAtomicOrderingMonotonic
                                                                              : ordering;
    LLVMValueRef expected = mt_asm_in(l, &l->s->operands[2], t.bits);
    LLVMValueRef desired = mt_asm_in(l, &l->s->operands[3], t.bits);
    if (!expected || !desired)
        return -1;
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(l->b, p, expected, desired, ordering, failure, 0);
    return mt_asm_out(l, &l->s->operands[0], LLVMBuildExtractValue(l->b, pair, 0, ""), t.kind == 's');
}

static int asm_memory_atom(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    int returns = !strcmp(l->s->parts[0], "atom"), cas = mt_asm_has(l->s, "cas");
    unsigned n = lanes_of(l->s), bits, at = (unsigned)returns;
    LLVMValueRef old[8];
    if (is_counted(l->s))
        return asm_fallback(l);
    if (asm_last_type(l, &t) || asm_count(l, at + 2 + (unsigned)cas, at + 3 + (unsigned)cas))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[at], mt_asm_is_shared(l->s));
    bits = t.bits * t.lanes;
    if (!p)
        return -1;
    if (cas && returns)
        return lower_cas(l, p, t);
    for (unsigned i = 0; i < n; i++) {
        const struct mt_asm_operand *from = &l->s->operands[at + 1];
        if ((n > 1 && !(from = asm_memory_lane(l, from, n, i))))
            return -1;
        LLVMValueRef v = mt_asm_in(l, from, bits);
        if (!v || !(old[i] = asm_atomic(l, asm_memory_element(l, p, mt_asm_int(l, bits), i), v, t,
                                        i ? 0 : n * bits / 8)))
            return -1;
    }
    for (unsigned i = 0; returns && i < n; i++) {
        const struct mt_asm_operand *d = &l->s->operands[0];
        if (n > 1 && d->kind != MT_ASM_SINK && !(d = asm_memory_lane(l, d, n, i)))
            return -1;
        if (mt_asm_out(l, d, old[i], t.kind == 's'))
            return -1;
    }
    return 0;
}

/* ---- fences, hints ------------------------------------------------------------------------------ */

static int asm_memory_fence(struct mt_asm_body *l)
{
    int light = mt_asm_has(l->s, "acq_rel") || mt_asm_has(l->s, "acquire") || mt_asm_has(l->s, "release");
    LLVMBuildFence(l->b, light ? LLVMAtomicOrderingAcquireRelease : LLVMAtomicOrderingSequentiallyConsistent,
                   0, "");
    return 0;
}

static int asm_nothing(struct mt_asm_body *l)
{
    (void)l;
    return 0;
}

static int asm_memory_createpolicy(struct mt_asm_body *l)
{
    return asm_count(l, 1, 5) ? -1 : mt_asm_out(l, &l->s->operands[0], mt_asm_const(l, 64, 0), 0);
}

/* The table of opcodes: the functions that lower statements, and properties of statements. */

#define SELECTS MT_ASM_SELECTS
#define PURE MT_ASM_PURE
#define VALUE (SELECTS | PURE)
#define NATIVE MT_ASM_NATIVE
#define NATIVE_FLOAT MT_ASM_NATIVE_FLOAT
#define NATIVE_BOTH (NATIVE | NATIVE_FLOAT)
#define FLUSHES MT_ASM_FLUSHES
#define BITS MT_ASM_BITS
#define NO_RESULT MT_ASM_NO_RESULT
#define SHARED MT_ASM_SHARED
static const struct opcode {
    const char *word;
    mt_asm_lowering *integers, *floats;
    unsigned flags;
} opcodes[] = {
#define OPCODE(word, function, flags) {word, function, function, flags},
#define TYPED(word, integers, floats, flags) {word, integers, floats, flags},
#define INTEGERS(word, function, flags) {word, function, NULL, flags},
#define FLOATS(word, function, flags) {word, NULL, function, flags},
#define BUILTIN(word, flags) {word, NULL, NULL, flags},
#define TOUCH(word, modifier, effect, record)
#include "opcodes.def"
};

static const struct opcode *opcode_find(const struct mt_asm_statement *s)
{
    const char *word = s->parts[0];
    for (const struct opcode *o = opcodes; o < opcodes + sizeof opcodes / sizeof *opcodes; o++)
        if (*o->word == *word && !strcmp(o->word, word))
            return o;
    return NULL;
}

mt_asm_lowering *mt_asm_find_lowering(const struct mt_asm_statement *s)
{
    const struct opcode *o = opcode_find(s);
    struct mt_asm_type t;
    if (!o || o->integers == o->floats)
        return o ? o->integers : NULL;
    return mt_asm_type(s->parts[s->nparts - 1], &t) && strchr("fgt", t.kind) ? o->floats : o->integers;
}

int mt_asm_is(const struct mt_asm_statement *s, enum mt_asm_flag flag)
{
    const struct opcode *o = opcode_find(s);
    return o && o->flags & flag;
}
