/* Tells LLVM the memory effects of inline assembly. Clang takes asm without `volatile` and without a
 * "memory" clobber for a function of its operands: LLVM then drops an atomic with an unused result, merges
 * two into one, and reads once a word that others write meanwhile. nvcc does neither of the latter two,
 * and clang's headers have such asm for nvcc's separate atomic instructions (atomicAdd of float2). */
#include "ptx/asm/asm.h"
#include "trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum mt_asm_effect effects_of(LLVMValueRef call)
{
    struct mt_asm_error error;
    size_t length;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, &error);
    enum mt_asm_effect e = a ? mt_asm_effect_of(a) : MT_ASM_ACTS;
    mt_asm_free(a);
    return e;
}

/* Returns 1 for asm that LLVM takes for a function of its operands. */
static int effects_are_hidden(LLVMValueRef inst)
{
    LLVMValueRef asm_value = LLVMIsACallInst(inst) ? LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) : NULL;
    size_t length;
    return asm_value && !LLVMGetInlineAsmHasSideEffects(asm_value) &&
           !strstr(LLVMGetInlineAsmConstraintString(asm_value, &length), "~{memory}");
}

/* Returns the same asm with a side effect, or marked as reading memory. */
static LLVMValueRef effects_add(LLVMValueRef old, enum mt_asm_effect effect)
{
    size_t text_length, length;
    const char *text = LLVMGetInlineAsmAsmString(old, &text_length);
    const char *constraints = LLVMGetInlineAsmConstraintString(old, &length);
    char *more = malloc(length + sizeof ",~{memory}");
    if (!more)
        return old;
    int n = sprintf(more, "%.*s%s", (int)length, constraints, effect == MT_ASM_ACTS ? "" : ",~{memory}");
    LLVMValueRef new = LLVMGetInlineAsm(LLVMGetInlineAsmFunctionType(old), text, text_length, more, (size_t)n,
                                        effect == MT_ASM_ACTS, LLVMGetInlineAsmNeedsAlignedStack(old),
                                        LLVMGetInlineAsmDialect(old), LLVMGetInlineAsmCanUnwind(old));
    free(more);
    return new;
}

int mt_show_asm_effects(LLVMModuleRef module)
{
    int changed = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n;
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            enum mt_asm_effect effect = effects_are_hidden(list[i]) ? effects_of(list[i]) : MT_ASM_NOTHING;
            if (effect == MT_ASM_NOTHING)
                continue;
            LLVMSetOperand(list[i], (unsigned)LLVMGetNumOperands(list[i]) - 1,
                           effects_add(LLVMGetCalledValue(list[i]), effect));
            if (effect == MT_ASM_ACTS)
                mt_shim_make_impure(list[i]);
            else
                mt_shim_only_reads(list[i]);
            changed = 1;
        }
        free(list);
    }
    return changed;
}

void mt_drop_unused_asm(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n;
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = n; list && i-- > 0;) /* users of a result come after it */
            if (LLVMIsACallInst(list[i]) && LLVMIsAInlineAsm(LLVMGetCalledValue(list[i])) &&
                !LLVMGetFirstUse(list[i]) && mt_shim_asm_only_reads(list[i]))
                LLVMInstructionEraseFromParent(list[i]);
        free(list);
    }
}
