/* What a block of unoptimised code does twice. Instruction selection makes equal nodes once: a value that is
 * computed again, and a location that is loaded again before anything orders memory; so p[i] * p[i] is one
 * load at -O0, too. What nothing uses it does not make at all. Above -O0 the back end's passes leave only
 * what nothing uses. */
#include "base/unit.h"
#include <stdlib.h>

enum { MERGE_REACH = 512 }; /* instructions looked back at: what is farther away may be done twice */

/* 1 if an instruction before `inst` in its block does the same and serves its users, too. */
static int merge_into_earlier(LLVMValueRef inst)
{
    int reads = mt_shim_reads_memory(inst);
    LLVMValueRef at = LLVMGetPreviousInstruction(inst);
    for (int i = 0; at && i < MERGE_REACH; i++, at = LLVMGetPreviousInstruction(at)) {
        if (reads && mt_shim_orders_memory(at))
            return 0;
        if (mt_shim_merge(at, inst))
            return 1;
    }
    return 0;
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

/* Does an instruction of another block use it? Instruction selection sees one block at a time, and keeps it
 * then whatever becomes of that one. */
static int merge_leaves_block(LLVMValueRef inst)
{
    for (LLVMUseRef use = LLVMGetFirstUse(inst); use; use = LLVMGetNextUse(use))
        if (LLVMGetInstructionParent(LLVMGetUser(use)) != LLVMGetInstructionParent(inst))
            return 1;
    return 0;
}

static void merge_function(LLVMValueRef f)
{
    unsigned n = 0, left = 0;
    int again = !mt_pass_options.level;
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++) {
        if (again && ((merge_is_wanted(list[i]) && merge_into_earlier(list[i])) || merge_puts_back(list[i])))
            LLVMInstructionEraseFromParent(list[i]);
        else
            list[left++] = list[i];
    }
    n = 0;
    for (unsigned i = 0; i < left; i++)
        if (!merge_leaves_block(list[i]))
            list[n++] = list[i];
    while (n)
        if (mt_shim_is_dead(list[--n]))
            LLVMInstructionEraseFromParent(list[n]);
    free(list);
}

void mt_unit_merge_repeated(struct mt_unit *u)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            merge_function(f);
}
