/* The GPU's copy of an instrumented module: links the device runtime (runtime/device, bitcode) and lets the
 * record calls have their launch's context. */
#include "options.h"
#include "unit.h"
#include <string.h>
#include <llvm-c/Linker.h>

int mt_unit_link_gpu(struct mt_unit *u)
{
    if (!mt_unit_needs_gpu_runtime(u))
        return 0;
    LLVMModuleRef runtime =
        mt_load_bitcode(u, mt_pass_options.gpu_runtime ? mt_pass_options.gpu_runtime : "gpu-device.bc");
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
    mt_unit_make_plain(u);
    mt_unit_pass_context(u);
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        if (!mt_starts(mt_name(f), "__mt_gpu_") || LLVMIsDeclaration(f))
            continue;
        if (LLVMGetFirstUse(f))
            LLVMSetLinkage(f, LLVMInternalLinkage);
        else
            LLVMDeleteFunction(f);
    }
    return 0;
}
