/* Warps as vectors: makes a copy of a kernel that calls nothing of its own module, with simple loops. */
#include "vector.h"
#include "lower/loops.h"
#include <stdlib.h>
#include <string.h>

#define MOST_INSTRUCTIONS 10000u
#define MOST_CALLS 1500u

#define SREG "mtb_nvvm_read_ptx_sreg_"
static const char *const prepare_registers[VEC_REGISTERS] = {
    [VEC_TID_X] = "tid_x",
    [VEC_TID_Y] = "tid_y",
    [VEC_TID_Z] = "tid_z",
    [VEC_LANE_ID] = "laneid",
    [VEC_WARP_ID] = "warpid",
    [VEC_EQ] = "lanemask_eq",
    [VEC_LT] = "lanemask_lt",
    [VEC_LE] = "lanemask_le",
    [VEC_GT] = "lanemask_gt",
    [VEC_GE] = "lanemask_ge",
    [VEC_NTID_X] = "ntid_x",
    "ntid_y",
    "ntid_z",
    "ctaid_x",
    "ctaid_y",
    "ctaid_z",
    "nctaid_x",
    "nctaid_y",
    "nctaid_z",
};

int vec_register(const char *callee)
{
    if (mt_starts(callee, SREG))
        for (int r = 0; r < VEC_REGISTERS; r++)
            if (!strcmp(callee + strlen(SREG), prepare_registers[r]))
                return r;
    return -1;
}

const char *vec_register_name(int reg)
{
    return prepare_registers[reg];
}

const char *vec_callee(LLVMValueRef inst)
{
    LLVMValueRef callee = LLVMIsACallInst(inst) ? mt_callee(inst) : NULL;
    return callee ? mt_name(callee) : "";
}

int vec_calls(LLVMValueRef inst, const char *name)
{
    return !strcmp(vec_callee(inst), name);
}

int vec_is_lockstep_call(const char *callee)
{
    static const char *const names[] = {"mt_cpu_shfl",      "mt_cpu_vote",   "mt_cpu_match_any",
                                        "mt_cpu_match_all", "mt_cpu_redux",  "mt_cpu_activemask",
                                        "mt_cpu_syncwarp",  "mt_cpu_matrix", NULL};
    for (unsigned i = 0; names[i]; i++)
        if (!strcmp(callee, names[i]))
            return 1;
    return 0;
}

int vec_is_wait(const char *callee)
{
    static const char *const names[] = {
        "mt_cpu_barrier",        "mt_cpu_barrier_arrive", "mt_cpu_cluster_arrive",
        "mt_cpu_cluster_wait",   "mt_cpu_yield",          "mt_cpu_nanosleep",
        "mtb_ptx_mbarrier_test", "mtb_ptx_mbarrier_try",  NULL};
    for (unsigned i = 0; names[i]; i++)
        if (mt_starts(callee, "mtb_") ? mt_starts(callee, names[i]) : !strcmp(callee, names[i]))
            return 1;
    return 0;
}

/* Returns a reason why this call cannot be in vector code, or NULL. */
static const char *prepare_refuses(LLVMValueRef inst)
{
    if (LLVMIsAInvokeInst(inst) || LLVMIsACallBrInst(inst))
        return "an exception";
    if (!LLVMIsACallInst(inst))
        return NULL;
    if (LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return LLVMGetNumArgOperands(inst) ? "inline assembly" : NULL;
    LLVMValueRef callee = mt_callee(inst);
    if (callee && LLVMIsDeclaration(callee) && mt_is_shared_name(callee))
        return "a call of another file's function";
    return NULL;
}

/* Returns 1 for builtins that change memory visible to other threads, one thread after the other. */
static int prepare_is_in_turn(const char *name)
{
    return mt_starts(name, "mtb_ptx_mbarrier_") || mt_starts(name, "mtb_ptx_cp_async_mbarrier_") ||
           mt_starts(name, "mtb_ptx_cp_async_bulk_") || mt_starts(name, "mtb_ptx_cp_reduce_async_");
}

LLVMValueRef vec_own_callee(LLVMValueRef inst)
{
    LLVMValueRef callee = LLVMIsACallInst(inst) ? mt_callee(inst) : NULL;
    int own = callee && !LLVMIsDeclaration(callee) && vec_register(mt_name(callee)) < 0 &&
              !prepare_is_in_turn(mt_name(callee)) && !vec_is_record(inst);
    return own ? callee : NULL;
}

static int prepare_inlines(LLVMValueRef inst)
{
    LLVMValueRef callee = vec_own_callee(inst);
    return callee && !vec_recurs(callee);
}

/* Makes the end of a thread a jump to the function's end. */
static void prepare_exit(struct mt_lowering *l, LLVMValueRef call)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(LLVMGetInstructionParent(call));
    if (!LLVMIsAUnreachableInst(end))
        return;
    LLVMPositionBuilderBefore(l->builder, end);
    LLVMBuildRetVoid(l->builder);
    LLVMInstructionEraseFromParent(end);
    LLVMInstructionEraseFromParent(call);
}

/* Inlines all callees except recursive functions. */
static const char *prepare_inline(struct mt_lowering *l, LLVMValueRef f, int called)
{
    unsigned calls = 0, n, more = 1;
    while (more) {
        LLVMValueRef *list = mt_instructions(f, &n);
        if (!list)
            return "no memory";
        more = 0;
        const char *why = n > MOST_INSTRUCTIONS || calls > MOST_CALLS ? "its size" : NULL;
        for (unsigned i = 0; i < n && !why; i++)
            if (prepare_inlines(list[i])) {
                LLVMSetInstructionCallConv(list[i], LLVMGetFunctionCallConv(mt_callee(list[i])));
                calls++;
                more = 1;
                if (!mt_shim_inline(list[i]))
                    why = "a call that cannot be inlined";
            }
        free(list);
        if (why)
            return why;
    }
    vec_cut_endless(f);
    LLVMValueRef *list = mt_instructions(f, &n);
    const char *why = list ? NULL : "no memory";
    for (unsigned i = 0; list && i < n; i++) {
        if (!why)
            why = prepare_refuses(list[i]);
        const char *name = vec_callee(list[i]);
        if (mt_starts(name, "llvm.lifetime.") || mt_starts(name, "llvm.assume") ||
            mt_starts(name, "llvm.experimental.noalias.scope") || mt_starts(name, "llvm.prefetch"))
            LLVMInstructionEraseFromParent(list[i]);
        else if (!strcmp(name, "mt_cpu_exit_thread") && called)
            why = "the end of a thread";
        else if (!strcmp(name, "mt_cpu_exit_thread"))
            prepare_exit(l, list[i]);
    }
    free(list);
    return why;
}

/* Reads each register once, at the function's start, so that two ways have the same value. */
static void prepare_registers_once(struct mt_lowering *l, LLVMValueRef f)
{
    LLVMValueRef once[VEC_REGISTERS] = {0};
    unsigned n;
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++) {
        int reg = vec_register(vec_callee(list[i]));
        if (reg < 0)
            continue;
        if (!once[reg]) {
            LLVMPositionBuilderBefore(l->builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(f)));
            once[reg] = mt_build_call(l, mt_callee(list[i]), NULL, 0);
        }
        LLVMReplaceAllUsesWith(list[i], once[reg]);
        LLVMInstructionEraseFromParent(list[i]);
    }
    free(list);
}

/* Returns 1 if a parameter passed by value is only read. */
static int prepare_is_only_read(LLVMValueRef pointer, unsigned depth)
{
    for (LLVMUseRef use = LLVMGetFirstUse(pointer); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (LLVMIsALoadInst(user))
            continue;
        if (mt_starts(vec_callee(user), "llvm.memcpy") && LLVMGetOperand(user, 0) != pointer)
            continue;
        if (depth > 20 || !(LLVMIsAGetElementPtrInst(user) || LLVMIsAAddrSpaceCastInst(user)) ||
            !prepare_is_only_read(user, depth + 1))
            return 0;
    }
    return 1;
}

/* Copies structure parameters, except those that a kernel only reads: a kernel's is in memory shared by all
 * threads, a function's in its caller's. */
static void prepare_structures(struct mt_lowering *l, LLVMValueRef f, int called)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(l->module);
    for (unsigned i = 0; i < LLVMCountParams(f); i++) {
        LLVMTypeRef type = mt_shim_byval_type(f, i);
        LLVMValueRef p = LLVMGetParam(f, i);
        if (!type || (!called && prepare_is_only_read(p, 0)))
            continue;
        unsigned align = LLVMABIAlignmentOfType(layout, type);
        LLVMPositionBuilderBefore(l->builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(f)));
        LLVMValueRef own = LLVMBuildAlloca(l->builder, type, "");
        LLVMSetAlignment(own, align > 16 ? align : 16);
        LLVMReplaceAllUsesWith(p, own);
        LLVMBuildMemCpy(l->builder, own, align, p, align,
                        LLVMConstInt(l->i64, LLVMABISizeOfType(layout, type), 0));
    }
}

/* Keeps LLVM from making two nested loops of one with a `continue`, which lanes leave in different rounds,
 * if calls made by lanes together would move into the inner one. */
static void prepare_hold_loops(LLVMValueRef f, int hold)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
    LLVMAttributeRef convergent = LLVMCreateEnumAttribute(LLVMGetTypeContext(LLVMTypeOf(f)), kind, 0);
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (vec_is_record(i) && hold)
                LLVMAddCallSiteAttribute(i, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, convergent);
            else if (vec_is_record(i))
                LLVMRemoveCallSiteEnumAttribute(i, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, kind);
}

/* Simplifies loops. Inlined code may have added ways into code behind a loop. */
static const char *prepare_flow(struct mt_lowering *l, LLVMValueRef f, LLVMValueRef kernel, int called)
{
    if (mt_shim_run_passes(f, "sroa,early-cse,adce,simplifycfg,instcombine<no-verify-fixpoint>"))
        return "LLVM's passes";
    mt_ways_apart(l, f, kernel, !called);
    prepare_hold_loops(f, 1);
    int failed = mt_shim_run_passes(f, "lower-switch,mergereturn,fix-irreducible,loop-simplify,lcssa");
    prepare_hold_loops(f, 0);
    return failed ? "LLVM's passes" : NULL;
}

LLVMValueRef vec_prepare(struct mt_lowering *l, LLVMValueRef kernel, int called, const char **why)
{
    LLVMValueRef f = mt_shim_clone_function(kernel, ".warp");
    LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                   LLVMGetEnumAttributeKindForName("noinline", 8));
    *why = prepare_inline(l, f, called);
    if (!*why)
        *why = vec_prepare_records(l, f);
    if (!*why) {
        prepare_structures(l, f, called);
        prepare_registers_once(l, f);
    }
    if (!*why)
        *why = prepare_flow(l, f, kernel, called);
    if (!*why)
        return f;
    LLVMDeleteFunction(f);
    return NULL;
}
