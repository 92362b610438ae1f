/* lockstep=cta is for races between the warps of a CTA that come out right where all warps advance alike. */
#include "lower.h"
#include "base/modes.h"
#include <stdlib.h>

/* Before each write that others might see the thread gives way to all others of its CTA, so that these have
 * read what it overwrites, and have come as far. */
static int lockstep_yields(struct mt_lowering *l, LLVMValueRef inst)
{
    LLVMValueRef p =
        LLVMIsAStoreInst(inst) ? LLVMGetOperand(inst, 1)
        : LLVMIsAAtomicRMWInst(inst) || LLVMIsAAtomicCmpXchgInst(inst) || LLVMIsAMemIntrinsic(inst)
            ? LLVMGetOperand(inst, 0)
            : NULL;
    if (!p)
        return 0;
    unsigned as = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    return as ? as == 1 || as == 3
              : mt_may_be_shared(l->u, p) || mt_space_may_be_global(mt_space_of(l->u, p));
}

void mt_lower_lockstep(struct mt_lowering *l)
{
    LLVMTypeRef type = LLVMFunctionType(l->none, NULL, 0, 0);
    if (l->u->options->lockstep != MT_LOCKSTEP_CTA)
        return;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            if (!lockstep_yields(l, list[i]))
                continue;
            LLVMPositionBuilderBefore(l->builder, list[i]);
            LLVMBuildCall2(l->builder, type, mt_declare(l->module, "mt_cpu_yield", type), NULL, 0, "");
        }
        free(list);
    }
}
