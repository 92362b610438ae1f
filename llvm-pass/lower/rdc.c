/* Relocatable device code (-fgpu-rdc): functions and variables known to other files keep their names,
 * after a prefix, and the images of all files are bound to each other when the program is loaded
 * (runtime/cpu/image.c). The same holds for parts of a module with images of their own; if none of its
 * functions is called by pointer, they share variables only. */
#include "lower.h"
#include "format/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns 1 for symbols between the pass, the builtins and libmemtrace.so. */
static int rdc_is_own(const char *name)
{
    return mt_starts(name, "llvm.") || mt_starts(name, "mt_cpu_") || mt_starts(name, "mtb_") ||
           mt_starts(name, "__mt_") || mt_starts(name, "mt.") || mt_starts(name, MT_SHARED_PREFIX);
}

/* Renames it with the name as the symbol's end, so that a message of the dynamic linker still shows what
 * is missing. */
static void rdc_share(LLVMValueRef global)
{
    const char *old = mt_name(global);
    char *name = malloc(strlen(MT_DEVICE_PREFIX) + strlen(old) + 1);
    if (!name)
        return;
    strcpy(name, MT_DEVICE_PREFIX);
    strcat(name, old);
    LLVMSetValueName2(global, name, strlen(name));
    mt_shim_set_dso_local(global, 0);
    LLVMSetVisibility(global, LLVMDefaultVisibility);
    free(name);
}

static int rdc_is_local(LLVMValueRef global)
{
    LLVMLinkage linkage = LLVMGetLinkage(global);
    return linkage == LLVMInternalLinkage || linkage == LLVMPrivateLinkage;
}

static int rdc_is_kernel(struct mt_lowering *l, LLVMValueRef function)
{
    for (unsigned i = 0; i < l->u->nkernels; i++)
        if (l->traced.kernels[i] == function)
            return 1;
    return 0;
}

void mt_lower_exports(struct mt_lowering *l)
{
    for (LLVMValueRef f = l->u->options->rdc ? LLVMGetFirstFunction(l->module) : NULL; f;
         f = LLVMGetNextFunction(f))
        if (!mt_is_shared_name(f) && !rdc_is_local(f) && !rdc_is_own(mt_name(f)) && !rdc_is_kernel(l, f) &&
            (!LLVMIsDeclaration(f) || LLVMGetFirstUse(f)))
            rdc_share(f);
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        if (!rdc_is_local(g) && !rdc_is_own(mt_name(g)) &&
            !(LLVMIsDeclaration(g) && mt_is_index_variable(mt_name(g))) &&
            (!LLVMIsDeclaration(g) || LLVMGetFirstUse(g))) {
            rdc_share(g);
            LLVMSetExternallyInitialized(g, 0);
        }
}
