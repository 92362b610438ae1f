/* What inline assembly does to memory, said to LLVM. Clang takes asm without `volatile` and without a
 * "memory" clobber for a function of its operands: LLVM then drops an atomic whose result nobody uses, makes
 * one of two, and reads a word once that others write meanwhile. nvcc does none of the latter two, and where
 * its atomics are instructions of their own (atomicAdd of float2), clang's headers have such asm. */
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

/* Is it asm that LLVM takes for a function of its operands? */
static int effects_are_hidden(LLVMValueRef inst)
{
    LLVMValueRef asm_value = LLVMIsACallInst(inst) ? LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) : NULL;
    size_t length;
    return asm_value && !LLVMGetInlineAsmHasSideEffects(asm_value) &&
           !strstr(LLVMGetInlineAsmConstraintString(asm_value, &length), "~{memory}");
}

/* The same asm, with a side effect or with memory among what it may read. */
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
        for (unsigned i = n; list && i-- > 0;) /* the users of a result come after it */
            if (LLVMIsACallInst(list[i]) && LLVMIsAInlineAsm(LLVMGetCalledValue(list[i])) &&
                !LLVMGetFirstUse(list[i]) && mt_shim_asm_only_reads(list[i]))
                LLVMInstructionEraseFromParent(list[i]);
        free(list);
    }
}
