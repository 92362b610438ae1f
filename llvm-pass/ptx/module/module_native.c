/* Arithmetic, logic, comparisons and conversions of PTX as plain IR, by the handlers of inline asm. An
 * instruction is kept where plain IR would round, saturate or flush differently, or where the back end
 * would make several of it. */
#include "module_parts.h"
#include <string.h>

static int native_is_float(struct mt_asm_type t)
{
    return t.kind == 'f' || t.kind == 'g' || t.kind == 't';
}

/* Returns the operands' type: the last one in the opcode. */
static int native_type(const struct mt_asm_statement *s, struct mt_asm_type *t)
{
    return s->nparts > 1 && mt_asm_type(s->parts[s->nparts - 1], t);
}

/* Returns 1 if the instruction has a variant that flushes f32 denormals. */
static int native_may_flush(const struct mt_asm_statement *s)
{
    struct mt_asm_type t;
    return s->nparts > 1 && mt_asm_is(s, MT_ASM_FLUSHES) && native_type(s, &t) && t.kind == 'f' &&
           t.bits == 32 && t.lanes == 1;
}

int mt_ptx_flushes(const struct mt_asm *a)
{
    int flushes = 0;
    for (unsigned i = 0; i < a->nstatements; i++) {
        const struct mt_asm_statement *s = &a->statements[i];
        if (s->label || !native_may_flush(s))
            continue;
        if (!mt_asm_has(s, "ftz"))
            return 0;
        flushes = 1;
    }
    return flushes;
}

/* cvt.d.s: between integers, from integers to f32 and f64, between f32, f64 and f16 rounded to nearest,
 * and to integers towards zero. */
static int native_cvt(const struct mt_asm_statement *s)
{
    struct mt_asm_type to, from;
    unsigned n = s->nparts;
    if (n < 3 || !mt_asm_type(s->parts[n - 1], &from) || !mt_asm_type(s->parts[n - 2], &to) ||
        from.lanes > 1 || to.lanes > 1)
        return 0;
    if (mt_asm_has(s, "rni") || mt_asm_has(s, "rmi") || mt_asm_has(s, "rpi"))
        return 0;
    if (!native_is_float(to) && !native_is_float(from))
        return 1;
    if (mt_asm_has(s, "sat") || from.bits == 8 || to.bits == 8)
        return 0;
    if (!native_is_float(to) && (from.bits != 32 || to.bits > 32)) /* NaN is not 0 there */
        return 0;
    return (to.kind == 'f' || !native_is_float(to)) && (from.kind == 'f' || !native_is_float(from)) &&
           !(mt_asm_has(s, "rzi") && native_is_float(to));
}

static int native_wants(const struct mt_ptx_body *b, const struct mt_asm_statement *s)
{
    static const char *const refused[] = {"rz",     "rm",   "rp",        "rna", "rs",      "relu",
                                          "approx", "full", "satfinite", "NaN", "xorsign", "pack"};
    struct mt_asm_type t;
    if (!native_type(s, &t))
        return 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (mt_asm_has(s, refused[i]))
            return 0;
    if (mt_asm_has(s, "ftz") && !b->flush)
        return 0;
    if (!strcmp(s->parts[0], "cvt"))
        return native_cvt(s);
    if (t.lanes > 1 && strcmp(s->parts[0], "mov") != 0)
        return 0;
    if (!native_is_float(t))
        return mt_asm_is(s, MT_ASM_NATIVE);
    if (!mt_asm_is(s, MT_ASM_NATIVE_FLOAT) || mt_asm_has(s, "sat"))
        return 0;
    return !strcmp(s->parts[0], "mov") || !strcmp(s->parts[0], "selp") || (t.kind == 'f' && t.bits >= 32);
}

/* Sets fusing: PTX allows it for a product and a sum without a rounding, but not with one. The word stays
 * on instructions that must not become others for the GPU. */
static void native_contract(struct mt_ptx_body *b, LLVMValueRef before)
{
    const struct mt_asm_statement *s = b->l.s;
    struct mt_asm_type t;
    if (!native_type(s, &t) || t.kind != 'f')
        return;
    LLVMValueRef i = LLVMGetLastInstruction(LLVMGetInsertBlock(b->l.b));
    for (; i && i != before; i = LLVMGetPreviousInstruction(i)) {
        LLVMOpcode op = LLVMGetInstructionOpcode(i);
        if (op != LLVMFAdd && op != LLVMFSub && op != LLVMFMul)
            continue;
        if (!mt_asm_has(s, "rn"))
            LLVMSetFastMathFlags(i, LLVMFastMathAllowContract);
        mt_ptx_keep_word(i, s->opcode);
    }
}

/* Rewrites the statement as in a function that flushes anyway. */
static void native_without_ftz(const struct mt_asm_statement *s, struct mt_asm_statement *out)
{
    *out = *s;
    out->nparts = 0;
    for (unsigned i = 0; i < s->nparts; i++)
        if (strcmp(s->parts[i], "ftz") != 0)
            out->parts[out->nparts++] = s->parts[i];
}

int mt_ptx_native(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    mt_asm_lowering *lower = native_wants(b, s) ? mt_asm_find_lowering(s) : NULL;
    struct mt_asm_statement plain;
    if (!lower)
        return 0;
    LLVMValueRef before = LLVMGetLastInstruction(LLVMGetInsertBlock(l->b));
    native_without_ftz(s, &plain);
    l->s = &plain;
    int failed = lower(l);
    l->s = s;
    if (failed) { /* kept as an instruction; IR built so far is unused */
        *l->error = (struct mt_asm_error){0};
        return 0;
    }
    native_contract(b, before);
    return 1;
}
