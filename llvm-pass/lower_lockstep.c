/* Warp-synchronous code without collectives: lanes that exchange data through volatile shared memory and
 * count on the warp to run in step. Each such store becomes a point at which the lanes of a warp wait for one
 * another: before it, so that all have read what it overwrites, and behind it, so that all have written what
 * they read next.
 *
 * lockstep=on is for code that omits the volatile: there the lanes wait before every access to shared memory,
 * loads too, and those that are behind in the code go first, so that lanes meet again where branches join, as
 * they did when a warp had one program counter.
 *
 * lockstep=cta is for races between the warps of a CTA that come out right where all warps advance alike. */
#include "lower.h"
#include "modes.h"
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

/* lockstep=cta: before each write that others might see the thread gives way to all others of its CTA, so
 * that these have read what it overwrites, and have come as far. */
static int yields(struct mt_lowering *l, LLVMValueRef inst)
{
    LLVMValueRef p =
        LLVMIsAStoreInst(inst) ? LLVMGetOperand(inst, 1)
        : LLVMIsAAtomicRMWInst(inst) || LLVMIsAAtomicCmpXchgInst(inst) || LLVMIsAMemIntrinsic(inst)
            ? LLVMGetOperand(inst, 0)
            : NULL;
    if (!p || l->u->options->lockstep != MT_LOCKSTEP_CTA)
        return 0;
    unsigned as = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    return as ? as == 1 || as == 3 : mt_space_of(l->u, p) != MT_SPACE_OTHER;
}

/* The shared memory that an instruction accesses in a way that counts on step; NULL: it does not. */
static LLVMValueRef stepping(struct mt_lowering *l, LLVMValueRef inst)
{
    int all = l->u->options->lockstep == MT_LOCKSTEP_ON;
    LLVMValueRef p = NULL;
    if (LLVMIsAStoreInst(inst))
        p = LLVMGetVolatile(inst) || all ? LLVMGetOperand(inst, 1) : NULL;
    else if (!all)
        return NULL;
    else if (LLVMIsALoadInst(inst) || LLVMIsAAtomicRMWInst(inst) || LLVMIsAAtomicCmpXchgInst(inst) ||
             LLVMIsAMemIntrinsic(inst))
        p = LLVMGetOperand(inst, 0);
    if (p && may_be_shared(l, p))
        return p;
    p = LLVMIsAMemCpyInst(inst) || LLVMIsAMemMoveInst(inst) ? LLVMGetOperand(inst, 1) : NULL;
    return p && all && may_be_shared(l, p) ? p : NULL;
}

void mt_lower_lockstep(struct mt_lowering *l)
{
    LLVMTypeRef plain = LLVMFunctionType(l->none, NULL, 0, 0);
    LLVMTypeRef ordered = LLVMFunctionType(l->none, &l->i32, 1, 0);
    uint32_t order = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            LLVMPositionBuilderBefore(l->builder, list[i]);
            if (yields(l, list[i]))
                LLVMBuildCall2(l->builder, plain, mt_declare(l->module, "mt_cpu_yield", plain), NULL, 0, "");
            if (!stepping(l, list[i]))
                continue;
            if (l->u->options->lockstep == MT_LOCKSTEP_ON) {
                LLVMValueRef at = LLVMConstInt(l->i32, order++, 0);
                LLVMBuildCall2(l->builder, ordered, mt_declare(l->module, "mt_cpu_step", ordered), &at, 1,
                               "");
                continue;
            }
            LLVMValueRef wait = mt_declare(l->module, "mt_cpu_lockstep", plain);
            LLVMBuildCall2(l->builder, plain, wait, NULL, 0, "");
            LLVMPositionBuilderBefore(l->builder, LLVMGetNextInstruction(list[i]));
            LLVMBuildCall2(l->builder, plain, wait, NULL, 0, "");
        }
        free(list);
    }
}
