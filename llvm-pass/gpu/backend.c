/* Workarounds for code that LLVM's GPU back end cannot take, or cannot express in PTX. */
#include "gpu.h"
#include "trace/trace.h"
#include "format/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes kernels of other files from the array in which clang keeps names used by host code (-fgpu-rdc).
 * They become plain functions there, which nvlink rejects. */
void mt_gpu_forget_kernels(LLVMModuleRef module)
{
    LLVMValueRef g = LLVMGetNamedGlobal(module, MT_CLANG_USED), list = g ? LLVMGetInitializer(g) : NULL;
    if (!list || !LLVMIsAConstantArray(list))
        return;
    int n = LLVMGetNumOperands(list), dropped = 0;
    LLVMValueRef *entries = malloc(((size_t)n + 1) * sizeof *entries),
                 *kernels = malloc(((size_t)n + 1) * sizeof *kernels);
    for (int i = 0; entries && kernels && i < n; i++) {
        entries[i] = LLVMGetOperand(list, (unsigned)i);
        if (LLVMIsAFunction(entries[i]) && LLVMIsDeclaration(entries[i])) {
            kernels[dropped++] = entries[i];
            entries[i] = LLVMConstNull(LLVMTypeOf(entries[i]));
        }
    }
    if (dropped)
        LLVMSetInitializer(g, LLVMConstArray2(LLVMTypeOf(entries[0]), entries, (uint64_t)n));
    for (int i = 0; i < dropped; i++) {
        mt_shim_drop_dead_users(kernels[i]);
        if (!LLVMGetFirstUse(kernels[i]))
            mt_shim_detach_function(kernels[i]); /* for the reason in trace/instrument.c */
    }
    free(entries);
    free(kernels);
}

/* Removes dots from local names. The back end does so, but not in debug information about variables, and
 * ptxas then rejects the file (assert() with -g: __PRETTY_FUNCTION__._Z1kv). */
void mt_gpu_rename_locals(LLVMModuleRef module)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g)) {
        const char *name = mt_name(g);
        LLVMLinkage linkage = LLVMGetLinkage(g);
        if ((linkage != LLVMInternalLinkage && linkage != LLVMPrivateLinkage) || !strchr(name, '.') ||
            mt_starts(name, "llvm."))
            continue;
        char *plain = malloc(3 * strlen(name) + 1), *o = plain;
        for (const char *c = name; plain && *c; c++) {
            if (*c == '.') {
                memcpy(o, "_$_", 3);
                o += 3;
            } else
                *o++ = *c;
        }
        if (plain)
            LLVMSetValueName2(g, plain, (size_t)(o - plain));
        free(plain);
    }
}

/* Returns 1 if the index is an extended sum with a constant that may wrap before it is extended. */
static int backend_may_wrap(LLVMValueRef index)
{
    unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(index));
    while (LLVMIsASExtInst(index))
        index = LLVMGetOperand(index, 0);
    if (!LLVMIsAInstruction(index) || LLVMGetInstructionOpcode(index) != LLVMAdd || LLVMGetNSW(index))
        return 0;
    return (width < 64 || LLVMGetIntTypeWidth(LLVMTypeOf(index)) < 64) &&
           (LLVMIsAConstantInt(LLVMGetOperand(index, 0)) || LLVMIsAConstantInt(LLVMGetOperand(index, 1)));
}

/* Drops `inbounds` from an address. The back end takes its index for non-negative and moves a constant out
 * of the sign extension of a sum that wraps: x[(short)(i + 32767)] would become x[i + 32767]
 * (SeparateConstOffsetFromGEP of LLVM 19). Without the flag it leaves the sum alone. */
static void backend_keep_sums(LLVMValueRef gep)
{
    int n = LLVMGetNumOperands(gep);
    for (int i = 1; i < n && LLVMIsInBounds(gep); i++) {
        LLVMValueRef index = LLVMGetOperand(gep, (unsigned)i);
        if (LLVMGetTypeKind(LLVMTypeOf(index)) == LLVMIntegerTypeKind && backend_may_wrap(index))
            LLVMSetIsInBounds(gep, 0);
    }
}

void mt_gpu_keep_sums(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if (LLVMIsAGetElementPtrInst(i))
                    backend_keep_sums(i);
}

/* Marks kernels by calling convention. NVPTX looks them up in the annotations and caches the answers by
 * address, even for functions deleted since: a kernel at such an address would become a plain function.
 * Without annotations it uses the calling convention. */
void mt_unit_mark_kernels(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        LLVMSetFunctionCallConv(u->kernels[i].function, LLVMPTXKernelCallConv);
        if (u->kernels[i].plain)
            LLVMSetFunctionCallConv(u->kernels[i].plain, LLVMPTXKernelCallConv);
    }
}

/* Attaches cluster sizes to the GPU's code, which LLVM 19 cannot express in PTX. */
void mt_unit_attach_clusters(struct mt_unit *u)
{
    for (unsigned i = 0; i < u->nkernels; i++) {
        const struct mt_kernel *k = &u->kernels[i];
        char *line;
        if (!k->cluster[0])
            continue;
        if (mt_unit_architecture(k->function) < 90) {
            mt_diag(u, NULL, MT_DIAG_WARNING, "%s: sm_%d has no clusters: __cluster_dims__ is left out",
                    k->pretty, mt_unit_architecture(k->function));
            continue;
        }
        LLVMValueRef versions[] = {k->function, k->plain};
        for (int v = 0; v < 2 && versions[v]; v++) {
            int n = asprintf(&line, MT_PTX_CLUSTER "%s %u %u %u\n", mt_name(versions[v]), k->cluster[0],
                             k->cluster[1], k->cluster[2]);
            if (n < 0) {
                mt_diag(u, NULL, MT_DIAG_ERROR, "%s: no memory for its cluster size", k->pretty);
                return;
            }
            LLVMAppendModuleInlineAsm(u->module, line, (size_t)n);
            free(line);
        }
    }
}

void mt_unit_refuse_managed(struct mt_unit *u)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(u->module); g; g = LLVMGetNextGlobal(g)) {
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            mt_diag(u, NULL, MT_DIAG_ERROR,
                    "%s: clang 19 has no __managed__ variables for GPUs: compile with nvcc and run the "
                    "program with "
                    "memtrace run",
                    mt_name(g));
    }
}
