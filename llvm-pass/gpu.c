/* The GPU's copy of an instrumented module: links the device runtime (runtime/device, bitcode) and lets each
 * kernel store its hidden parameter where record functions find it, at any call depth: one word of shared
 * memory per CTA. All threads of a CTA store the same value, and each reads it only after its own store, so
 * no barrier is needed. */
#include "unit.h"
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Linker.h>

#define CONTEXT_WORD "__mt_launch_ctx"

static int is_record_function(const char *name)
{
    return mt_starts(name, "__mt_access_") || !strcmp(name, "__mt_untraced");
}

static int calls_record_functions(struct mt_unit *u)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        if (is_record_function(mt_name(f)) && LLVMGetFirstUse(f))
            return 1;
    return 0;
}

static void store_context(struct mt_unit *u, LLVMValueRef kernel, LLVMValueRef word)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    LLVMValueRef at = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(kernel));
    while (LLVMIsAAllocaInst(at))
        at = LLVMGetNextInstruction(at);
    LLVMPositionBuilderBefore(b, at);
    LLVMValueRef value = LLVMBuildPtrToInt(b, LLVMGetLastParam(kernel), mt_type_int(u, 64), "");
    LLVMValueRef store = LLVMBuildStore(b, value, word);
    LLVMSetVolatile(store, 1); /* readers are in other functions, and read it volatile */
    LLVMSetAlignment(store, 8);
    LLVMDisposeBuilder(b);
}

int mt_unit_link_gpu(struct mt_unit *u)
{
    if (!calls_record_functions(u))
        return 0;
    LLVMModuleRef runtime = mt_load_bitcode(u, "gpu-device.bc");
    if (!runtime)
        return -1;
    LLVMSetTarget(runtime, LLVMGetTarget(u->module));
    LLVMSetDataLayout(runtime, LLVMGetDataLayoutStr(u->module));
    mt_shim_drop_named_metadata(runtime);
    for (LLVMValueRef g = LLVMGetFirstGlobal(runtime), next; g; g = next) {
        next = LLVMGetNextGlobal(g);
        if (mt_starts(mt_name(g), "llvm."))
            LLVMDeleteGlobal(g);
    }
    if (LLVMLinkModules2(u->module, runtime)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "cannot link the GPU runtime");
        return -1;
    }
    LLVMValueRef word = LLVMGetNamedGlobal(u->module, CONTEXT_WORD);
    for (unsigned k = 0; word && k < u->nkernels; k++)
        store_context(u, u->kernels[k].function, word);
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        if (is_record_function(mt_name(f)) && !LLVMIsDeclaration(f))
            LLVMSetLinkage(f, LLVMInternalLinkage);
    return 0;
}
