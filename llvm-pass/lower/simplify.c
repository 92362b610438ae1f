/* See mt_lower_simplify. */
#include "lower.h"
#include "ptx/module.h"
#include <string.h>

static void simplify_remove(LLVMValueRef f, const char *name)
{
    LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                   LLVMGetEnumAttributeKindForName(name, strlen(name)));
}

static int simplify_has(LLVMValueRef f, const char *name)
{
    return LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                       LLVMGetEnumAttributeKindForName(name, strlen(name))) != NULL;
}

/* Code that nobody has optimised keeps thread numbers and pointers in stack slots, and asks for them through
 * functions: what follows wants to see them. (The image is optimised at the end in any case.) */
void mt_lower_simplify(struct mt_lowering *l)
{
    int any = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f) || !simplify_has(f, "optnone"))
            continue;
        simplify_remove(f, "optnone");
        simplify_remove(f, "noinline");
        any = 1;
    }
    if (!any)
        return;
    mt_count_keep(l);
    l->failed = mt_run_passes(l->u, l->module, "cgscc(inline),function(sroa,early-cse)", NULL) != 0;
    mt_ptx_release_accesses(l->module);
}
