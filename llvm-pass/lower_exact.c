/* How exactly the GPU computes, in the CPU image: functions whose denormals become zero (clang's -fgpu-flush-denormals-to-zero,
 * nvcc's -ftz=true), and divisions that the back end approximates (-nvptx-prec-divf32=0, -use_fast_math). Only float has
 * either: double keeps its denormals, so the processor's own switch for both will not do. */
#include "lower.h"
#include <stdlib.h>
#include <string.h>

#define EXPONENT 0x7f800000u
#define SIGN 0x80000000u
static const char denormals[] = "denormal-fp-math-f32", flushed[] = "memtrace.flushed";

/* float, or a vector of it. */
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

/* No denormal, as far as can be seen. */
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

/* A constant of the type's shape: int32, or a vector of it. */
static LLVMValueRef exact_splat(struct mt_lowering *l, LLVMTypeRef type, unsigned bits)
{
    LLVMValueRef one = LLVMConstInt(l->i32, bits, 0), all[64];
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return one;
    unsigned n = LLVMGetVectorSize(type);
    for (unsigned i = 0; i < n && i < 64; i++)
        all[i] = one;
    return LLVMConstVector(all, n);
}

/* Denormals become zero of the same sign, built at the builder's place. *first: the first of the instructions. */
static LLVMValueRef exact_flush(struct mt_lowering *l, LLVMValueRef v, LLVMValueRef *first)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef zero = exact_splat(l, type, 0);
    LLVMValueRef bits = LLVMBuildBitCast(b, v, LLVMTypeOf(zero), "");
    LLVMValueRef exponent = LLVMBuildAnd(b, bits, exact_splat(l, type, EXPONENT), "");
    LLVMValueRef small = LLVMBuildICmp(b, LLVMIntEQ, exponent, zero, "");
    LLVMValueRef sign = LLVMBuildAnd(b, bits, exact_splat(l, type, SIGN), "");
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

/* An intrinsic that computes with floats: not those that move, compare or look at their bits. */
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

static void exact_flush_instruction(struct mt_lowering *l, LLVMValueRef inst)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMFAdd:
    case LLVMFSub:
    case LLVMFMul:
    case LLVMFDiv:
    case LLVMFRem:
        exact_flush_operands(l, inst, 2);
        exact_flush_result(l, inst);
        break;
    case LLVMFNeg:
    case LLVMFPExt:
        exact_flush_operands(l, inst, 1);
        break;
    case LLVMFCmp:
        exact_flush_operands(l, inst, 2);
        break;
    case LLVMFPTrunc:
        exact_flush_result(l, inst);
        break;
    case LLVMCall:
        if (exact_is_arithmetic_call(inst)) {
            exact_flush_operands(l, inst, LLVMGetNumArgOperands(inst));
            exact_flush_result(l, inst);
        }
        break;
    default:
        break;
    }
}

/* One instruction of the GPU: a times the approximate reciprocal of b, which is zero for the largest. */
static void exact_approximate(struct mt_lowering *l, LLVMValueRef division)
{
    LLVMTypeRef type;
    LLVMValueRef args[] = {LLVMGetOperand(division, 0), LLVMGetOperand(division, 1)};
    LLVMBool loses;
    int inverse = LLVMIsAConstantFP(args[0]) && LLVMConstRealGetDouble(args[0], &loses) == 1;
    if (inverse || LLVMGetTypeKind(LLVMTypeOf(division)) != LLVMFloatTypeKind)
        return; /* rcp.approx: exact enough as it is */
    LLVMValueRef f = mt_builtin(l, "mtb_nvvm_div_approx_f", &type);
    if (!f)
        return;
    LLVMPositionBuilderBefore(l->builder, division);
    LLVMValueRef r = LLVMBuildCall2(l->builder, type, f, args, 2, "");
    LLVMReplaceAllUsesWith(division, r);
    LLVMInstructionEraseFromParent(division);
}

static int exact_flushes(LLVMValueRef function)
{
    unsigned n;
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(function, LLVMAttributeFunctionIndex, denormals,
                                                       sizeof denormals - 1);
    return a && mt_starts(LLVMGetStringAttributeValue(a, &n), "preserve-sign");
}

void mt_lower_exactness(struct mt_lowering *l)
{
    int approximate = mt_shim_option("nvptx-prec-divf32", 2) == 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        int flush = exact_flushes(f);
        LLVMValueRef *list = LLVMIsDeclaration(f) || !(flush || approximate) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && flush && i < n; i++)
            exact_flush_instruction(l, list[i]);
        for (unsigned i = 0; list && approximate && i < n; i++)
            if (LLVMGetInstructionOpcode(list[i]) == LLVMFDiv)
                exact_approximate(l, list[i]);
        free(list);
        /* The image does it by itself now; callers and callees that differ in it are not inlined. */
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, denormals, sizeof denormals - 1);
    }
}
