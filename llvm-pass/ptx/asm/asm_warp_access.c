/* Accesses with more than one address: matrices of a warp (wmma.load, wmma.store) and tensor copies. Their
 * calls are one instruction, with the call's operands or constants. */
#include "asm.h"
#include "asm_lower.h"
#include <string.h>

struct made {
    LLVMModuleRef m;
    LLVMBuilderRef b;
    LLVMValueRef call;
    const struct mt_asm_ties *ties;
};

static LLVMTypeRef made_int(const struct made *w, unsigned bits)
{
    return LLVMIntTypeInContext(LLVMGetModuleContext(w->m), bits);
}

/* Returns NULL for anything but an integer or a pointer of the call, or a constant. */
static LLVMValueRef made_value(const struct made *w, const struct mt_asm_operand *o, unsigned bits)
{
    if (o->kind == MT_ASM_INT)
        return LLVMConstInt(made_int(w, bits), o->bits, 0);
    int argument =
        o->kind == MT_ASM_ARG && o->index < w->ties->noperands ? w->ties->operands[o->index].argument : -1;
    LLVMValueRef v = argument < 0 ? NULL : LLVMGetOperand(w->call, (unsigned)argument);
    if (v && LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMPointerTypeKind)
        v = LLVMBuildPtrToInt(w->b, v, made_int(w, 64), "");
    return v && LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind
               ? LLVMBuildIntCast2(w->b, v, made_int(w, bits), 0, "")
               : NULL;
}

static LLVMValueRef made_address(const struct made *w, const struct mt_asm_operand *o)
{
    LLVMValueRef v =
        o->kind == MT_ASM_MEMORY && o->nitems == 1 && !o->second ? made_value(w, &o->items[0], 64) : NULL;
    return v && o->offset ? LLVMBuildAdd(w->b, v, LLVMConstInt(made_int(w, 64), (uint64_t)o->offset, 1), "")
                          : v;
}

/* wmma.load.… {registers}, [address]{, stride}; wmma.store.… [address], {registers}{, stride} */
static int wmma_of(const struct made *x, const struct mt_asm_statement *s, struct mt_asm_warp_access *out)
{
    struct mt_wmma w;
    if (strcmp(s->parts[0], "wmma") || s->noperands < 2 || mt_wmma_read(s->parts, s->nparts, &w))
        return -1;
    LLVMValueRef base = made_address(x, &s->operands[w.op == MT_LOAD]),
                 by = s->noperands > 2 ? made_value(x, &s->operands[2], 32) : NULL;
    if (!base || (s->noperands > 2 && !by))
        return -1;
    *out = (struct mt_asm_warp_access){.op = w.op,
                                       .address = mt_wmma_address(x->m, x->b, &w, base, by),
                                       .size = w.size,
                                       .generic = !mt_asm_has(s, "global")};
    return 0;
}

/* Reads a tensor copy; the shared address stays as in the asm. */
static int tensor_of(const struct made *x, const struct mt_asm_statement *s, struct mt_asm_warp_access *out)
{
    struct mt_asm_tensor t;
    if (mt_asm_tensor_read(s, &t))
        return -1;
    *out = (struct mt_asm_warp_access){.op = mt_asm_tensor_type(&t), .rank = t.rank};
    for (unsigned i = 0; i < MT_TENSOR_RANK_MAX; i++)
        if (!(out->at[i] = i < t.rank ? made_value(x, &t.at[i], 32) : LLVMConstInt(made_int(x, 32), 0, 0)))
            return -1;
    out->address = made_value(x, t.map, 64);
    out->shared = made_address(x, t.shared);
    out->ctas = t.ctas ? made_value(x, t.ctas, 16) : LLVMConstInt(made_int(x, 16), 0, 0);
    if (!out->address || !out->shared || !out->ctas)
        return -1;
    out->ctas = LLVMBuildZExt(x->b, out->ctas, made_int(x, 32), "");
    return 0;
}

int mt_asm_warp_access(LLVMModuleRef m, LLVMBuilderRef b, LLVMValueRef call, struct mt_asm_warp_access *out)
{
    struct mt_asm_error error;
    struct mt_asm_ties ties;
    struct made w = {m, b, call, &ties};
    size_t length;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, &error);
    const struct mt_asm_statement *s = a && a->nstatements == 1 ? a->statements : NULL;
    int failed = !s || s->label || s->predicate || mt_asm_ties_read(call, &ties, &error) ||
                 (wmma_of(&w, s, out) && tensor_of(&w, s, out));
    mt_asm_free(a);
    return failed ? -1 : 0;
}
