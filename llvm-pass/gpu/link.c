/* The GPU's copy of an instrumented module: links the device runtime (runtime/device, bitcode) and passes
 * each launch's context to the record calls. */
#include "unit/options.h"
#include "gpu.h"
#include "trace/instrument.h"
#include "format/packet.h"
#include <stdio.h>
#include <string.h>
#include <llvm-c/Linker.h>

#define MT_GPU_PREFIX "__mt_gpu_"
#define SITE_BASE MT_GPU_PREFIX "site_base"

static void replace_loads(LLVMValueRef variable, LLVMValueRef value)
{
    for (LLVMUseRef use = LLVMGetFirstUse(variable), next; use; use = next) {
        LLVMValueRef load = LLVMGetUser(use); /* its only use */
        next = LLVMGetNextUse(use);
        LLVMReplaceAllUsesWith(load, value);
        LLVMInstructionEraseFromParent(load);
    }
}

/* Sets the number that record functions add to their sites: with -fgpu-rdc the host writes it
 * (runtime/gpu/gpu.c). Otherwise it is 0, and the variable's presence identifies the sites. */
static void link_site_base(struct mt_unit *u)
{
    LLVMValueRef base = LLVMGetNamedGlobal(u->module, SITE_BASE);
    LLVMTypeRef type = mt_type_int(u, 32);
    if (base && !(u->site_variable && u->options->rdc))
        replace_loads(base, LLVMConstInt(type, 0, 0));
    if (base && u->site_variable) {
        LLVMSetInitializer(base, LLVMConstInt(type, MT_SITE_UNKNOWN, 0));
        LLVMSetExternallyInitialized(base, 1);
        LLVMSetLinkage(base, LLVMWeakAnyLinkage);
        LLVMSetValueName2(base, u->site_variable, strlen(u->site_variable));
    } else if (base) {
        LLVMDeleteGlobal(base);
    }
}

/* Drops unused record functions, which may be the only callers of others. */
static int drop_unused(struct mt_unit *u)
{
    int dropped = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        if (!mt_starts(mt_name(f), MT_GPU_PREFIX) || LLVMIsDeclaration(f) || LLVMGetFirstUse(f))
            continue;
        LLVMDeleteFunction(f);
        dropped = 1;
    }
    return dropped;
}

/* Makes record functions weak. NVPTX's call lowering looks at all calls of an internal function, for each
 * call; weak functions give the same code in ptxas. With linked files each one has its own, under a name
 * with its sites' hash: files with the same sites share it, as they share the number added to these. */
static void publish_records(struct mt_unit *u)
{
    const char *hash = u->site_variable ? strrchr(u->site_variable, '_') : NULL;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        char name[256];
        if (!mt_starts(mt_name(f), MT_GPU_PREFIX) || LLVMIsDeclaration(f))
            continue;
        if (!u->options->rdc) {
            LLVMSetLinkage(f, LLVMWeakODRLinkage);
        } else if (hash && snprintf(name, sizeof name, "%s%s", mt_name(f), hash) < (int)sizeof name) {
            LLVMSetLinkage(f, LLVMWeakODRLinkage);
            LLVMSetValueName2(f, name, strlen(name));
        } else {
            LLVMSetLinkage(f, LLVMInternalLinkage);
        }
    }
}

static void gpu_annotate(struct mt_unit *u, LLVMValueRef kernel, const char *key, uint64_t value)
{
    LLVMValueRef parts[] = {kernel, LLVMMDStringInContext(u->context, key, (unsigned)strlen(key)),
                            LLVMConstInt(mt_type_int(u, 32), value, 0)};
    LLVMAddNamedMetadataOperand(u->module, "nvvm.annotations", LLVMMDNodeInContext(u->context, parts, 3));
}

/* Registers of an SM; a warp's are allocated in units of 8 per thread. */
#define SM_REGISTERS 65536u
#define MOST_THREADS 1024u
#define MOST_REGISTERS 255u

/* Sets a register limit, as a kernel needs more with record calls, and must remain launchable with as many
 * threads: those of its launch bounds, or the maximum. Not by launch bounds of our own: for too small ones
 * ptxas 13.0 uses 32 registers where 64 are possible. With -fgpu-rdc ptxas rejects a limited kernel that
 * calls a function above the limit. */
static void limit_registers(struct mt_unit *u, const struct mt_kernel *k)
{
    unsigned threads = k->max_threads && k->max_threads < MOST_THREADS ? k->max_threads : MOST_THREADS;
    unsigned most = SM_REGISTERS / ((threads + 31) / 32 * 32) / 8 * 8;
    if (!u->options->rdc && !k->min_blocks && most < MOST_REGISTERS)
        gpu_annotate(u, k->function, "maxnreg", most);
}

void mt_unit_finish_kernels(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        struct mt_kernel *k = &u->kernels[i];
        if (k->gpu_records)
            limit_registers(u, k);
        mt_unit_name_kernel(k);
    }
}

void mt_unit_link_gpu(struct mt_unit *u)
{
    if (!mt_unit_needs_gpu_runtime(u))
        return;
    LLVMModuleRef runtime =
        mt_load_bitcode(u, mt_pass_options.gpu_runtime ? mt_pass_options.gpu_runtime : "gpu-device.bc");
    if (!runtime)
        return;
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
        return;
    }
    link_site_base(u);
    mt_unit_untrace_tensors(u);
    mt_unit_make_plain(u);
    mt_unit_pass_context(u);
    while (drop_unused(u)) {
    }
    publish_records(u);
}
