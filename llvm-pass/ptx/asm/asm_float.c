/* Arithmetic of PTX on f32 and f64, for instructions without a builtin: rounds to nearest even, honours
 * .ftz. Other roundings, 16-bit floats and approximations of transcendental functions are builtins or
 * errors. */
#include "asm_lower.h"

#include <string.h>

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
        v[i] = asm_float_flush(l, v[i]);
    }
    return 0;
}

static int asm_float_out(struct mt_asm_body *l, LLVMValueRef v)
{
    v = asm_float_saturate(l, asm_float_flush(l, v));
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

/* ---- Conversions, address-space casts, comparisons and selection of PTX ---- */

#define IN(i, bits) mt_asm_in(l, &l->s->operands[i], bits)

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
int mt_asm_convert_setp(struct mt_asm_body *l)
{
    const struct mt_asm_operand *d = l->s->operands;
    struct mt_asm_type t;
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 3, 4) || l->s->nparts < 3)
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
int mt_asm_convert_set(struct mt_asm_body *l)
{
    struct mt_asm_type t, d;
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 3, 4) || l->s->nparts < 4 ||
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
int mt_asm_convert_selp(struct mt_asm_body *l)
{
    struct mt_asm_type t, c;
    int slct = !strcmp(l->s->parts[0], "slct");
    LLVMValueRef p;
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 4, 4))
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
    return mt_asm_out_float(l, &l->s->operands[0], asm_float_saturate(l, v));
}

/* Handles f16 (to and from f32), f32 and f64, rounded to nearest even. Builtins do the rest. */
int mt_asm_convert_cvt(struct mt_asm_body *l)
{
    struct mt_asm_type d, s;
    unsigned n = l->s->nparts;
    static const char *const refused[] = {"rz", "rm", "rp", "rna", "rs", "relu", "satfinite"};
    if (mt_asm_has(l->s, "pack"))
        return mt_asm_video_pack(l);
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
        return mt_asm_out_float(l, &l->s->operands[0], v);
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
int mt_asm_convert_cvta(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 2, 2))
        return -1;
    LLVMValueRef v = IN(1, t.bits);
    if (v && mt_asm_is_shared(l->s) && !mt_asm_has(l->s, "to")) {
        v = mt_asm_shared_address(l, v);
        v = v ? LLVMBuildIntCast2(l->b, v, mt_asm_int(l, t.bits), 0, "") : NULL;
    }
    return v ? mt_asm_out(l, &l->s->operands[0], v, 0) : -1;
}

/* isspacep.space p, a: by the intrinsic's builtin. */
int mt_asm_convert_isspacep(struct mt_asm_body *l)
{
    char name[80] = "mtb_nvvm_isspacep_";
    LLVMTypeRef type;
    LLVMValueRef f = mt_asm_find_builtin(l, &type);
    if (f)
        return mt_asm_call_builtin(l, f, type);
    if (mt_asm_count(l, 2, 2) || l->s->nparts < 2)
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
