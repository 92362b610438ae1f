/* Code for a GPU from a module: its functions are given the architecture, and what the pass has made of them
 * becomes PTX, for ptxas or as an entry of a fatbin, which the driver assembles. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mt-ptx.h"

#define LEAST_ARCH 70  /* activemask, shfl.sync and memory orders of the record functions */
#define NEWEST_ARCH 90 /* that LLVM 19 knows */

int mt_ptxtool_gpu_begin(LLVMModuleRef module, const char *name, unsigned from, unsigned failed, unsigned to)
{
    char cpu[16], features[32];
    if (to < LEAST_ARCH || to > NEWEST_ARCH) {
        fprintf(stderr, "mt-ptx: no code for sm_%u: sm_%u to sm_%u can be had\n", to, LEAST_ARCH,
                NEWEST_ARCH);
        return 2;
    }
    if (from > to || failed) {
        fprintf(stderr,
                from > to
                    ? "mt-ptx: %s: this PTX is for sm_%u and later, no code for sm_%u can be made of it\n"
                    : "mt-ptx: %s: no code for a GPU can be made of it: %u functions are not understood\n",
                name, from > to ? from : failed, to);
        return 1;
    }
    snprintf(cpu, sizeof cpu, "sm_%u", to);
    snprintf(features, sizeof features, "+ptx83,+sm_%u", to);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        LLVMAddTargetDependentFunctionAttr(f, "target-cpu", cpu);
        LLVMAddTargetDependentFunctionAttr(f, "target-features", features);
    }
    return 0;
}

int mt_ptxtool_gpu_text(LLVMModuleRef module, LLVMTargetMachineRef machine, LLVMMemoryBufferRef *text)
{
    char *message = NULL;
    if (!LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &message, text)) {
        return 0;
    }
    fprintf(stderr, "mt-ptx: %s\n", message);
    LLVMDisposeMessage(message);
    return 1;
}

size_t mt_ptxtool_gpu_entry(LLVMMemoryBufferRef text, unsigned arch, unsigned char **out)
{
    size_t n = text ? LLVMGetBufferSize(text) : 0, padded = (n + 8) & ~(size_t)7; /* a NUL at least */
    struct entry_header h = {.kind = FATBIN_PTX,
                             .version = 0x101,
                             .header_size = sizeof h,
                             .size = padded,
                             .major = 8,
                             .minor = 3,
                             .arch = arch,
                             .flags = 0x11}; /* 64 bit, Linux */
    *out = text ? calloc(1, sizeof h + padded) : NULL;
    if (!*out) {
        return 0;
    }
    memcpy(*out, &h, sizeof h);
    memcpy(*out + sizeof h, LLVMGetBufferStart(text), n);
    return sizeof h + padded;
}
