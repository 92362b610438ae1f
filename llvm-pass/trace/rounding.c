/* Works around a bug in LLVM 19, which takes integer to floating-point conversions that round towards zero
 * (llvm.nvvm.i2f.rz and the like) for those that round to nearest. Before that they become conversions
 * that round down, or up for negative numbers. */
#include "trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static LLVMValueRef rounding_convert(LLVMBuilderRef b, LLVMValueRef call, const char *name, const char *mode)
{
    LLVMValueRef x = LLVMGetOperand(call, 0);
    char other[64];
    snprintf(other, sizeof other, "llvm.nvvm.%s.%s", name, mode);
    LLVMModuleRef m = LLVMGetGlobalParent(mt_callee(call));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(m, LLVMLookupIntrinsicID(other, strlen(other)), NULL, 0);
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, &x, 1, "");
}

static void rounding_replace(LLVMBuilderRef b, LLVMValueRef call, const char *name)
{
    LLVMValueRef x = LLVMGetOperand(call, 0), r;
    LLVMPositionBuilderBefore(b, call);
    r = rounding_convert(b, call, name, "rm");
    if (*name != 'u') {
        LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, x, LLVMConstNull(LLVMTypeOf(x)), "");
        r = LLVMBuildSelect(b, negative, rounding_convert(b, call, name, "rp"), r, "");
    }
    LLVMReplaceAllUsesWith(call, r);
    LLVMInstructionEraseFromParent(call);
}

/* Swaps the operands of redux.sync: clang 19's headers pass its mask as the value and its value as the
 * mask. */
static int rounding_swap_masks(LLVMModuleRef module)
{
    int changed = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!mt_starts(mt_name(f), "llvm.nvvm.redux.sync."))
            continue;
        for (LLVMUseRef use = LLVMGetFirstUse(f); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef call = LLVMGetUser(use),
                         home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
            if (!strstr(mt_name(home), "__reduce_"))
                continue;
            LLVMValueRef first = LLVMGetOperand(call, 0);
            LLVMSetOperand(call, 0, LLVMGetOperand(call, 1));
            LLVMSetOperand(call, 1, first);
            changed = 1;
        }
    }
    return changed;
}

int mt_keep_rounding(LLVMModuleRef module)
{
    static const char *const names[] = {"i2f", "ui2f", "ll2f", "ull2f", "ll2d", "ull2d"};
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
    int changed = rounding_swap_masks(module);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "llvm.nvvm.%s.rz", names[i]);
        LLVMValueRef f = LLVMGetNamedFunction(module, name);
        for (LLVMUseRef use = f ? LLVMGetFirstUse(f) : NULL, next; use; use = next) {
            LLVMValueRef call = LLVMGetUser(use);
            next = LLVMGetNextUse(use);
            if (!LLVMIsACallInst(call) || mt_callee(call) != f)
                continue;
            rounding_replace(b, call, names[i]);
            changed = 1;
        }
    }
    LLVMDisposeBuilder(b);
    return changed;
}
