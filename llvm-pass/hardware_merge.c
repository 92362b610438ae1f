/* What a block does twice. Instruction selection makes equal nodes once: a value that is computed again, and
 * a location that is loaded again before anything orders memory. What nothing uses it does not make at all.
 * Optimised code has little of either; unoptimised code loads p[i] once for p[i] * p[i] all the same. */
#include "unit.h"
#include <stdlib.h>

enum { MERGE_REACH = 512 }; /* instructions looked back at */

/* The instruction before `inst` in its block that it repeats; NULL: none. */
static LLVMValueRef merge_earlier(LLVMValueRef inst)
{
    int reads = mt_shim_reads_memory(inst);
    LLVMValueRef at = LLVMGetPreviousInstruction(inst);
    for (int i = 0; at && i < MERGE_REACH; i++, at = LLVMGetPreviousInstruction(at)) {
        if (reads && mt_shim_orders_memory(at))
            return NULL;
        if (mt_shim_identical(at, inst))
            return at;
    }
    return NULL;
}

/* Is the store of what was read from the same place, with nothing between that orders memory? */
static int merge_puts_back(LLVMValueRef inst)
{
    LLVMValueRef load = LLVMIsAStoreInst(inst) ? LLVMIsALoadInst(LLVMGetOperand(inst, 0)) : NULL;
    if (!load || mt_shim_orders_memory(load) || LLVMGetVolatile(inst) ||
        LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic ||
        LLVMGetOperand(load, 0) != LLVMGetOperand(inst, 1))
        return 0;
    LLVMValueRef at = LLVMGetPreviousInstruction(inst);
    while (at && at != load && !mt_shim_orders_memory(at))
        at = LLVMGetPreviousInstruction(at);
    return at == load;
}

static int merge_is_wanted(LLVMValueRef inst)
{
    return !LLVMIsAPHINode(inst) && !LLVMIsAAllocaInst(inst) && !LLVMIsATerminatorInst(inst) &&
           !mt_shim_orders_memory(inst) &&
           !(LLVMIsACallInst(inst) && LLVMIsAInlineAsm(LLVMGetCalledValue(inst)));
}

void mt_unit_merge_repeated(struct mt_unit *u)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0, left = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            LLVMValueRef first = merge_is_wanted(list[i]) ? merge_earlier(list[i]) : NULL;
            if (first)
                LLVMReplaceAllUsesWith(list[i], first);
            if (first || merge_puts_back(list[i]))
                LLVMInstructionEraseFromParent(list[i]);
            else
                list[left++] = list[i];
        }
        while (left)
            if (mt_shim_is_dead(list[--left]))
                LLVMInstructionEraseFromParent(list[left]);
        free(list);
    }
}
