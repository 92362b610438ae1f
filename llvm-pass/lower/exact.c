/* Exactness of the GPU's arithmetic in the CPU image: functions that flush denormals (clang's
 * -fgpu-flush-denormals-to-zero, nvcc's -ftz=true), and divisions that the back end approximates
 * (-nvptx-prec-divf32=0, -use_fast_math). Both exist for float only. The processor has one switch for
 * float and double: kernels that compute with float only run with it on (MT_KERNEL_FLUSH), at no cost; if
 * another type or an operation that keeps denormals is reachable, single instructions flush. */
#include "lower.h"
#include "lowering.h"
#include <stdlib.h>
#include <string.h>

#define EXPONENT 0x7f800000u
#define SIGN 0x80000000u
static const char denormals[] = "denormal-fp-math-f32", flushed[] = "memtrace.flushed",
                  all[] = "memtrace.flush-all";

/* Returns 1 for float, or a vector of it. */
static int exact_is_float(LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        type = LLVMGetElementType(type);
    return LLVMGetTypeKind(type) == LLVMFloatTypeKind;
}

static unsigned exact_mark(struct mt_lowering *l)
{
    return LLVMGetMDKindIDInContext(l->u->context, flushed, sizeof flushed - 1);
}

/* Returns 1 for a value that is provably no denormal. */
static int exact_is_flushed(struct mt_lowering *l, LLVMValueRef v)
{
    if (LLVMIsAConstantFP(v)) {
        LLVMBool loses;
        double d = LLVMConstRealGetDouble(v, &loses);
        return d == 0 || d != d || d >= 0x1p-126 || d <= -0x1p-126;
    }
    return LLVMIsASIToFPInst(v) || LLVMIsAUIToFPInst(v) ||
           (LLVMIsABitCastInst(v) && LLVMGetMetadata(v, exact_mark(l)));
}

/* Flushes denormals to zero of the same sign, at the builder's place. *first: the first new instruction. */
static LLVMValueRef exact_flush(struct mt_lowering *l, LLVMValueRef v, LLVMValueRef *first)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef zero = mt_splat(type, LLVMConstInt(l->i32, 0, 0));
    LLVMValueRef bits = LLVMBuildBitCast(b, v, LLVMTypeOf(zero), "");
    LLVMValueRef exponent = LLVMBuildAnd(b, bits, mt_splat(type, LLVMConstInt(l->i32, EXPONENT, 0)), "");
    LLVMValueRef small = LLVMBuildICmp(b, LLVMIntEQ, exponent, zero, "");
    LLVMValueRef sign = LLVMBuildAnd(b, bits, mt_splat(type, LLVMConstInt(l->i32, SIGN, 0)), "");
    LLVMValueRef r = LLVMBuildBitCast(b, LLVMBuildSelect(b, small, sign, bits, ""), type, "");
    if (LLVMIsAInstruction(r))
        LLVMSetMetadata(r, exact_mark(l),
                        LLVMMetadataAsValue(l->u->context, LLVMMDNodeInContext2(l->u->context, NULL, 0)));
    if (first)
        *first = bits;
    return r;
}

static void exact_flush_operands(struct mt_lowering *l, LLVMValueRef inst, unsigned n)
{
    LLVMPositionBuilderBefore(l->builder, inst);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef v = LLVMGetOperand(inst, i);
        if (exact_is_float(LLVMTypeOf(v)) && !exact_is_flushed(l, v))
            LLVMSetOperand(inst, i, exact_flush(l, v, NULL));
    }
}

static void exact_flush_result(struct mt_lowering *l, LLVMValueRef inst)
{
    LLVMValueRef next = LLVMGetNextInstruction(inst), first;
    if (!exact_is_float(LLVMTypeOf(inst)) || !next)
        return;
    LLVMPositionBuilderBefore(l->builder, next);
    LLVMValueRef r = exact_flush(l, inst, &first);
    for (LLVMUseRef use = LLVMGetFirstUse(inst), following; use; use = following) {
        LLVMValueRef user = LLVMGetUser(use);
        following = LLVMGetNextUse(use);
        for (int i = 0; user != first && i < LLVMGetNumOperands(user); i++)
            if (LLVMGetOperand(user, (unsigned)i) == inst)
                LLVMSetOperand(user, (unsigned)i, r);
    }
}

/* Returns 1 for an intrinsic that computes with floats, not one that moves, compares or inspects them. */
static int exact_is_arithmetic_call(LLVMValueRef inst)
{
    static const char *const others[] = {"llvm.copysign.", "llvm.is.fpclass.", "llvm.masked.", "llvm.vp."};
    LLVMValueRef callee = LLVMIsACallInst(inst) ? mt_callee(inst) : NULL;
    if (!callee || !LLVMGetIntrinsicID(callee))
        return 0;
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        if (mt_starts(mt_name(callee), others[i]))
            return 0;
    return 1;
}

/* Returns 1 for operations covered by the processor's switch. Comparisons are not: with a select they may
 * become the processor's minimum, which also flushes. */
static int exact_is_switched(LLVMValueRef inst)
{
    static const char *const served[] = {"llvm.fma.", "llvm.fmuladd.", "llvm.sqrt."};
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    for (unsigned i = 0; op == LLVMCall && i < sizeof served / sizeof *served; i++)
        if (mt_callee(inst) && mt_starts(mt_name(mt_callee(inst)), served[i]))
            return 1;
    return op != LLVMCall && op != LLVMFNeg && op != LLVMFRem && op != LLVMFCmp;
}

static void exact_flush_instruction(struct mt_lowering *l, LLVMValueRef inst, int by_switch)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    int calls = op == LLVMCall && exact_is_arithmetic_call(inst);
    if (by_switch && exact_is_switched(inst))
        return;
    if (calls)
        exact_flush_operands(l, inst, LLVMGetNumArgOperands(inst));
    else if (op == LLVMFAdd || op == LLVMFSub || op == LLVMFMul || op == LLVMFDiv || op == LLVMFRem ||
             op == LLVMFCmp)
        exact_flush_operands(l, inst, 2);
    else if (op == LLVMFNeg || op == LLVMFPExt)
        exact_flush_operands(l, inst, 1);
    if (calls || op == LLVMFAdd || op == LLVMFSub || op == LLVMFMul || op == LLVMFDiv || op == LLVMFRem ||
        op == LLVMFPTrunc)
        exact_flush_result(l, inst);
}

static LLVMAttributeRef exact_attribute(LLVMValueRef function, const char *key)
{
    return LLVMGetStringAttributeAtIndex(function, LLVMAttributeFunctionIndex, key, (unsigned)strlen(key));
}

static int exact_flushes(LLVMValueRef function)
{
    unsigned n;
    LLVMAttributeRef a = exact_attribute(function, denormals);
    return a && mt_starts(LLVMGetStringAttributeValue(a, &n), "preserve-sign");
}

/* Returns 1 for double, bfloat and the like, or a vector of them. */
static int exact_is_other(LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (kind == LLVMVectorTypeKind)
        kind = LLVMGetTypeKind(LLVMGetElementType(type));
    return kind == LLVMDoubleTypeKind || kind == LLVMBFloatTypeKind;
}

/* Returns 1 if a builtin may be called with the switch on. */
static int exact_suits_builtin(LLVMValueRef callee)
{
    static const char *const moving[] = {"mtb_ptx_cvt_f32_f16", "mtb_ptx_tanh_approx_f32"};
    const char *name = mt_name(callee);
    LLVMTypeRef type = LLVMGlobalGetValueType(callee), params[16];
    unsigned n = LLVMCountParamTypes(type);
    int floats = exact_is_float(LLVMGetReturnType(type));
    if (n > 16 || !strcmp(name, "mt_cpu_matrix") || strstr(name, "bf16") ||
        exact_is_other(LLVMGetReturnType(type)))
        return 0;
    LLVMGetParamTypes(type, params);
    for (unsigned i = 0; i < n; i++) {
        floats |= exact_is_float(params[i]);
        if (exact_is_other(params[i]))
            return 0;
    }
    if (!floats || strstr(name, "_ftz"))
        return 1;
    for (unsigned i = 0; i < sizeof moving / sizeof *moving; i++)
        if (mt_starts(name, moving[i]))
            return 1;
    return 0;
}

/* Returns 1 if the instruction means the same with the switch on. */
static int exact_suits(LLVMValueRef inst)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMFAdd:
    case LLVMFSub:
    case LLVMFMul:
    case LLVMFDiv:
    case LLVMFRem:
    case LLVMFNeg:
    case LLVMFCmp:
        return !exact_is_other(LLVMTypeOf(LLVMGetOperand(inst, 0)));
    case LLVMCall:
        for (unsigned i = 0, n = LLVMGetNumArgOperands(inst); i < n; i++)
            if (exact_is_other(LLVMTypeOf(LLVMGetOperand(inst, i))) && exact_is_arithmetic_call(inst))
                return 0;
        return !exact_is_other(LLVMTypeOf(inst));
    default:
        return 1;
    }
}

static int exact_suits_function(LLVMValueRef f)
{
    unsigned n = 0;
    if (LLVMIsDeclaration(f))
        return !mt_is_shared_name(f) && exact_suits_builtin(f);
    LLVMValueRef *list = mt_instructions(f, &n);
    int suits = list && exact_flushes(f);
    for (unsigned i = 0; suits && i < n; i++)
        suits = exact_suits(list[i]);
    free(list);
    return suits;
}

/* Chooses the kernels that run with the switch on; functions reachable from others run without. */
static void exact_choose(struct mt_lowering *l)
{
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        struct mt_reach r = {0};
        LLVMValueRef f = l->traced.kernels[k];
        int suits = f && !l->u->options->rdc && exact_flushes(f);
        if (suits)
            mt_reach_from(l, f, &r);
        for (unsigned i = 0; suits && i < r.count; i++)
            suits = exact_suits_function(r.functions[i]);
        l->u->kernels[k].flush = suits;
        if (f && !suits && !r.count)
            mt_reach_from(l, f, &r);
        for (unsigned i = 0; !suits && i < r.count; i++)
            LLVMAddAttributeAtIndex(r.functions[i], LLVMAttributeFunctionIndex,
                                    LLVMCreateStringAttribute(l->u->context, all, sizeof all - 1, "", 0));
        mt_reach_free(&r);
    }
}

static void exact_lower(struct mt_lowering *l, LLVMValueRef f)
{
    unsigned n = 0;
    int flush = exact_flushes(f), by_switch = !l->u->options->rdc && !exact_attribute(f, all);
    LLVMValueRef *list = LLVMIsDeclaration(f) || !flush ? NULL : mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++)
        exact_flush_instruction(l, list[i], by_switch);
    free(list);
}

void mt_lower_exactness(struct mt_lowering *l)
{
    int flush = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f && !flush; f = LLVMGetNextFunction(f))
        flush = exact_flushes(f);
    if (flush)
        exact_choose(l);
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        exact_lower(l, f);
    /* The image flushes by itself now; callers and callees that differ in the attribute are not inlined. */
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, denormals, sizeof denormals - 1);
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, all, sizeof all - 1);
    }
}
