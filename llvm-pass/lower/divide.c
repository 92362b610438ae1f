/* Integer division: a GPU returns a value for a division by zero, and the dividend for the smallest number
 * by -1; x86-64 traps. Programs that never use such a result must run on both. */
#include "lower.h"
#include <stdlib.h>

/* Returns 1 for a constant divisor that cannot trap. */
static int divide_is_harmless(LLVMValueRef divisor, int is_signed)
{
    if (!LLVMIsAConstantInt(divisor) || LLVMGetIntTypeWidth(LLVMTypeOf(divisor)) > 64)
        return 0;
    long long n = LLVMConstIntGetSExtValue(divisor);
    return n != 0 && !(is_signed && n == -1);
}

/* Divides by 1 instead of by zero or -1, and selects their result: all bits set for zero, the negated
 * dividend (remainder 0) for -1. Vectors element by element. */
static void divide_guard(struct mt_lowering *l, LLVMValueRef division)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(division);
    int is_signed = op == LLVMSDiv || op == LLVMSRem, quotient = op == LLVMSDiv || op == LLVMUDiv;
    LLVMValueRef x = LLVMGetOperand(division, 0), d = LLVMGetOperand(division, 1);
    LLVMTypeRef type = LLVMTypeOf(d);
    if (divide_is_harmless(d, is_signed))
        return;
    LLVMBuilderRef b = l->builder;
    LLVMValueRef zero = LLVMConstNull(type), ones = LLVMConstAllOnes(type), one = LLVMConstNeg(ones);
    LLVMPositionBuilderBefore(b, division);
    LLVMValueRef by_zero = LLVMBuildICmp(b, LLVMIntEQ, d, zero, ""), special = by_zero, by_minus = NULL;
    if (is_signed) {
        by_minus = LLVMBuildICmp(b, LLVMIntEQ, d, ones, "");
        special = LLVMBuildOr(b, by_zero, by_minus, "");
    }
    LLVMValueRef result = LLVMBuildBinOp(b, op, x, LLVMBuildSelect(b, special, one, d, ""), "");
    if (is_signed)
        result = LLVMBuildSelect(b, by_minus, quotient ? LLVMBuildNeg(b, x, "") : zero, result, "");
    LLVMReplaceAllUsesWith(division, LLVMBuildSelect(b, by_zero, ones, result, ""));
    LLVMInstructionEraseFromParent(division);
}

void mt_lower_divisions(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            LLVMOpcode op = LLVMGetInstructionOpcode(list[i]);
            if (op == LLVMSDiv || op == LLVMUDiv || op == LLVMSRem || op == LLVMURem)
                divide_guard(l, list[i]);
        }
        free(list);
    }
}
