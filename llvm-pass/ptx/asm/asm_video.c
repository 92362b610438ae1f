/* Scalar video instructions: v{add,sub,absdiff,min,max,shl,shr,set} of bytes, halves or whole registers,
 * with a second operation or a part of c that the result replaces; and cvt.pack. */
#include "asm_lower.h"
#include <stdio.h>
#include <string.h>

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
