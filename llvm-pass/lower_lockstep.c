/* Warp-synchronous code without collectives: lanes that exchange data through volatile shared memory and
 * count on the warp to run in step. Each such store becomes a point at which the lanes of a warp wait for one
 * another: before it, so that all have read what it overwrites, and behind it, so that all have written what
 * they read next.
 *
 * lockstep=on is for code that omits the volatile: there the lanes wait before every access to shared memory,
 * loads too, and those that are behind in the code go first, so that lanes meet again where branches join, as
 * they did when a warp had one program counter. A load right behind a load needs no wait of its own. (What
 * the optimiser may not do before: step_marks.c.)
 *
 * lockstep=cta is for races between the warps of a CTA that come out right where all warps advance alike. */
#include "lower.h"
#include "modes.h"
#include <stdlib.h>

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
    return as ? as == 1 || as == 3 : mt_may_be_shared(l->u, p) || mt_space_of(l->u, p) != MT_SPACE_OTHER;
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
    if (p && mt_may_be_shared(l->u, p))
        return p;
    p = LLVMIsAMemCpyInst(inst) || LLVMIsAMemMoveInst(inst) ? LLVMGetOperand(inst, 1) : NULL;
    return p && all && mt_may_be_shared(l->u, p) ? p : NULL;
}

/* Does anything happen here that other lanes could see, or wait for? */
static int is_quiet(LLVMValueRef inst)
{
    if (!LLVMIsACallInst(inst))
        return !LLVMIsAStoreInst(inst) && !LLVMIsAAtomicRMWInst(inst) && !LLVMIsAAtomicCmpXchgInst(inst) &&
               !LLVMIsAFenceInst(inst);
    const char *name = mt_name(mt_callee(inst));
    return mt_starts(name, "__mt_") || (mt_starts(name, "llvm.") && !LLVMIsAMemIntrinsic(inst));
}

/* Is the load `inst` preceded by one that waited, with nothing in between? */
static int follows_load(struct mt_lowering *l, LLVMValueRef inst)
{
    if (!LLVMIsALoadInst(inst))
        return 0;
    while ((inst = LLVMGetPreviousInstruction(inst)) && is_quiet(inst))
        if (LLVMIsALoadInst(inst) && stepping(l, inst))
            return 1;
    return 0;
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
                if (follows_load(l, list[i]))
                    continue;
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
