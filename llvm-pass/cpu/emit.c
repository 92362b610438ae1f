/* The CPU module as an x86-64 object. */
#include "lower.h"
#include <stdlib.h>
#include <string.h>

LLVMTargetMachineRef mt_set_cpu_target(struct mt_unit *u, LLVMModuleRef clone)
{
    static const char triple[] = "x86_64-pc-linux-gnu";
    LLVMTargetRef target;
    char *message = NULL;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "no x86-64 back end in this LLVM: %s", message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, mt_image_cpu(u), u->options->cpu_features ? u->options->cpu_features : "",
        LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(clone, triple);
    LLVMSetModuleDataLayout(clone, layout);
    LLVMDisposeTargetData(layout);
    return machine;
}

LLVMMemoryBufferRef mt_unit_emit(struct mt_unit *u, LLVMModuleRef clone)
{
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    LLVMTargetMachineRef machine = mt_set_cpu_target(u, clone);
    mt_forbid_contraction(clone);
    if (!machine || mt_unit_lower(u, clone))
        goto out;
    mt_shim_set_pic(clone);
    if (mt_run_passes(u, clone, "globaldce,default<O2>", machine))
        goto out;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, clone, LLVMObjectFile, &message, &object)) {
        mt_diag(u, NULL, MT_DIAG_ERROR, "cannot compile the CPU image: %s", message);
        LLVMDisposeMessage(message);
        object = NULL;
    }
out:
    if (machine)
        LLVMDisposeTargetMachine(machine);
    return object;
}
