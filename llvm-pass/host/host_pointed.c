/* Variables to which a pointer of unoptimised host code may lead: for (float **v : {&x, &y}) cudaMalloc(v,
 * n). Candidates are those whose address the function stores; at run time the actual target counts. */
#include "host.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 4, MOST_ELEMENTS = 64 };

static int pointed_is_pointer(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMPointerTypeKind;
}

/* Returns 1 for a variable that exists in the whole function and holds a pointer. */
static int pointed_fits(LLVMValueRef variable, LLVMValueRef function)
{
    if (LLVMIsAAllocaInst(variable))
        return pointed_is_pointer(LLVMGetAllocatedType(variable)) &&
               LLVMGetInstructionParent(variable) == LLVMGetEntryBasicBlock(function);
    return LLVMIsAGlobalVariable(variable) && !LLVMIsGlobalConstant(variable) &&
           pointed_is_pointer(LLVMGlobalGetValueType(variable));
}

static void pointed_add(struct mt_host_pointed *p, LLVMValueRef function, LLVMValueRef variable)
{
    for (unsigned i = 0; i < p->n; i++)
        if (p->list[i] == variable)
            return;
    if (p->n < MT_HOST_POINTED && pointed_fits(variable, function))
        p->list[p->n++] = variable;
}

/* Adds the elements of a table. */
static void pointed_in_constant(struct mt_host_pointed *p, LLVMValueRef function, LLVMValueRef c,
                                unsigned depth)
{
    LLVMValueRef table = LLVMIsAGlobalVariable(c) ? LLVMGetInitializer(c) : c;
    if (!table || depth > MOST_DEPTH || !LLVMIsAConstant(table))
        return;
    if (LLVMIsAConstantExpr(table) || LLVMIsAConstantArray(table) || LLVMIsAConstantStruct(table))
        for (int i = 0; i < LLVMGetNumOperands(table) && i < MOST_ELEMENTS; i++) {
            LLVMValueRef part = LLVMGetOperand(table, (unsigned)i);
            if (LLVMIsAGlobalVariable(part) && !LLVMIsAConstantExpr(table))
                pointed_add(p, function, part);
            else
                pointed_in_constant(p, function, part, depth + 1);
        }
}

void mt_host_pointed_read(struct mt_host_pointed *p, const struct mt_host_variables *v, LLVMValueRef function)
{
    p->known = 1;
    for (unsigned i = 0; i < v->ninst; i++) {
        if (LLVMIsAStoreInst(v->inst[i]))
            pointed_add(p, function, LLVMGetOperand(v->inst[i], 0));
        for (int k = 0; k < LLVMGetNumOperands(v->inst[i]); k++)
            pointed_in_constant(p, function, LLVMGetOperand(v->inst[i], (unsigned)k), 0);
    }
}
