/* Reports warp functions without _sync (__shfl, __any, __ballot…), which sm_70 removed. clang's headers
 * still have them, and its back end would end in a crash report. */
#include "trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *intrinsic, *function;
} gone[] = {
    {"llvm.nvvm.shfl.down.", "__shfl_down"}, {"llvm.nvvm.shfl.up.", "__shfl_up"},
    {"llvm.nvvm.shfl.bfly.", "__shfl_xor"},  {"llvm.nvvm.shfl.idx.", "__shfl"},
    {"llvm.nvvm.vote.all", "__all"},         {"llvm.nvvm.vote.any", "__any"},
    {"llvm.nvvm.vote.ballot", "__ballot"},
};

static const char *function_of(const char *intrinsic)
{
    if (strstr(intrinsic, ".sync"))
        return NULL;
    for (unsigned i = 0; i < sizeof gone / sizeof *gone; i++)
        if (mt_starts(intrinsic, gone[i].intrinsic))
            return gone[i].function;
    return NULL;
}

int mt_unit_architecture(LLVMValueRef function)
{
    unsigned n;
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(function, LLVMAttributeFunctionIndex, "target-cpu",
                                                       strlen("target-cpu"));
    const char *cpu = a ? LLVMGetStringAttributeValue(a, &n) : "";
    return mt_starts(cpu, "sm_") ? atoi(cpu + strlen("sm_")) : 0;
}

/* Reports at the user's own location: in unoptimised code the header's function has callers, as do header
 * functions that call it. */
static void unsynchronised_say(LLVMValueRef call, const char *text, int depth)
{
    LLVMValueRef home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
    int said = 0;
    if (depth < 8 && mt_shim_from_toolchain(home))
        for (LLVMUseRef use = LLVMGetFirstUse(home); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef user = LLVMIsACallInst(LLVMGetUser(use));
            if (user && mt_callee(user) == home) {
                unsynchronised_say(user, text, depth + 1);
                said = 1;
            }
        }
    if (!said)
        mt_shim_diag(LLVMGetModuleContext(LLVMGetGlobalParent(home)), call, MT_DIAG_ERROR, text);
}

static void unsynchronised_refuse(LLVMValueRef intrinsic, const char *name)
{
    for (LLVMUseRef use = LLVMGetFirstUse(intrinsic), next; use; use = next) {
        char text[128];
        next = LLVMGetNextUse(use);
        LLVMValueRef call = LLVMIsACallInst(LLVMGetUser(use));
        int sm = call ? mt_unit_architecture(LLVMGetBasicBlockParent(LLVMGetInstructionParent(call))) : 0;
        if (sm < 70)
            continue;
        snprintf(text, sizeof text, "%s is not there for sm_70 and above (this is sm_%d): use %s_sync", name,
                 sm, name);
        unsynchronised_say(call, text, 0);
        LLVMReplaceAllUsesWith(call, LLVMGetPoison(LLVMTypeOf(call)));
        LLVMInstructionEraseFromParent(call);
    }
}

void mt_refuse_unsynchronised(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        const char *name = LLVMGetIntrinsicID(f) ? function_of(mt_name(f)) : NULL;
        if (name)
            unsynchronised_refuse(f, name);
    }
}
