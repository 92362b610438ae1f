/* Simplifies unoptimised code before the lowering. */
#include "lower.h"
#include "ptx/module/module.h"

/* Unoptimised code keeps thread numbers and pointers in stack slots, and gets them through functions;
 * later steps need to see them. (The image is optimised at the end in any case.) */
void mt_lower_simplify(struct mt_lowering *l)
{
    unsigned optnone = LLVMGetEnumAttributeKindForName("optnone", 7),
             noinline = LLVMGetEnumAttributeKindForName("noinline", 8);
    int any = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f) || !LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, optnone))
            continue;
        LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, optnone);
        LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, noinline);
        any = 1;
    }
    if (!any)
        return;
    mt_count_keep(l);
    l->failed = mt_run_passes(l->u, l->module, "cgscc(inline),function(sroa,early-cse)", NULL) != 0;
    mt_ptx_release_accesses(l->module);
}
