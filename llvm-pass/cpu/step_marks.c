/* lockstep=on, before optimisation: loads and stores of what could be shared memory become volatile, so that
 * none is kept in a register, dropped or moved across the place where another lane writes in between. They
 * are marked; when it is known what is shared, the others are plain again. */
#include <stdlib.h>
#include "lower.h"
#include "base/modes.h"
#include "pass.h"

static unsigned mark_kind(LLVMContextRef c)
{
    static const char name[] = "memtrace.step";
    return LLVMGetMDKindIDInContext(c, name, sizeof name - 1);
}

static LLVMValueRef pointer_of(LLVMValueRef inst)
{
    if (LLVMIsALoadInst(inst))
        return LLVMGetOperand(inst, 0);
    return LLVMIsAStoreInst(inst) ? LLVMGetOperand(inst, 1) : NULL;
}

/* Shared, or generic and not plainly a stack slot. */
static int could_be_shared(LLVMValueRef p)
{
    unsigned as = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    while (!as && (LLVMIsAGetElementPtrInst(p) || LLVMIsAAddrSpaceCastInst(p))) {
        p = LLVMGetOperand(p, 0);
        as = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    }
    return as == 3 || (!as && !LLVMIsAAllocaInst(p));
}

int mt_pass_steps(LLVMModuleRef module)
{
    LLVMContextRef c = LLVMGetModuleContext(module);
    int changed = 0;
    if (!mt_shim_is_nvptx(module) || mt_pass_options.lockstep != MT_LOCKSTEP_ON)
        return 0;
    LLVMValueRef mark = LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, NULL, 0));
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            LLVMValueRef p = pointer_of(list[i]);
            if (!p || LLVMGetVolatile(list[i]) || LLVMGetOrdering(list[i]) != LLVMAtomicOrderingNotAtomic ||
                !could_be_shared(p))
                continue;
            LLVMSetVolatile(list[i], 1);
            LLVMSetMetadata(list[i], mark_kind(c), mark);
            changed = 1;
        }
        free(list);
    }
    return changed;
}

int mt_may_be_shared(struct mt_unit *u, LLVMValueRef pointer)
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
    return mt_space_of(u, pointer) == MT_SPACE_GENERIC;
}

int mt_is_step_mark(LLVMValueRef inst)
{
    LLVMContextRef c =
        LLVMGetModuleContext(LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst))));
    return LLVMGetMetadata(inst, mark_kind(c)) != NULL;
}

void mt_settle_steps(struct mt_unit *u)
{
    if (u->options->lockstep != MT_LOCKSTEP_ON)
        return;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            LLVMValueRef p = pointer_of(list[i]);
            if (p && mt_is_step_mark(list[i]) && !mt_may_be_shared(u, p))
                LLVMSetVolatile(list[i], 0);
        }
        free(list);
    }
}
