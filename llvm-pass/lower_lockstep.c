/* Warp-synchronous code without collectives: lanes that exchange data through volatile shared memory and
 * count on the warp to run in step. Each such store becomes a point at which the lanes of a warp wait for one
 * another, before and behind it. With lockstep=on every store to shared memory does, for code that omits the
 * volatile. */
#include "lower.h"
#include <stdlib.h>

/* Shared, or a generic pointer that could be. */
static int may_be_shared(struct mt_lowering *l, LLVMValueRef pointer)
{
    unsigned as = LLVMGetPointerAddressSpace(LLVMTypeOf(pointer));
    if (as)
        return as == 3;
    for (LLVMValueRef v = pointer;;) {
        LLVMOpcode op = LLVMIsAInstruction(v)    ? LLVMGetInstructionOpcode(v)
                        : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
                                                 : (LLVMOpcode)0;
        if (op != LLVMGetElementPtr && op != LLVMBitCast && op != LLVMAddrSpaceCast)
            break;
        v = LLVMGetOperand(v, 0);
        as = LLVMGetPointerAddressSpace(LLVMTypeOf(v));
        if (as)
            return as == 3;
    }
    return mt_space_of(l->u, pointer) == MT_SPACE_GENERIC;
}

void mt_lower_lockstep(struct mt_lowering *l)
{
    LLVMTypeRef type = LLVMFunctionType(l->none, NULL, 0, 0);
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            if (!LLVMIsAStoreInst(list[i]) || !(LLVMGetVolatile(list[i]) || l->u->options->lockstep) ||
                !may_be_shared(l, LLVMGetOperand(list[i], 1)))
                continue;
            LLVMValueRef wait = mt_declare(l->module, "mt_cpu_lockstep", type);
            LLVMPositionBuilderBefore(l->builder, list[i]);
            LLVMBuildCall2(l->builder, type, wait, NULL, 0, "");
            LLVMPositionBuilderBefore(l->builder, LLVMGetNextInstruction(list[i]));
            LLVMBuildCall2(l->builder, type, wait, NULL, 0, "");
        }
        free(list);
    }
}
