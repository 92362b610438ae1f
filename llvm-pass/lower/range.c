/* Results that C and LLVM leave open and on which the two machines differ: a GPU's shifts by the
 * width or more give 0 or the sign, its conversions saturate. Programs rely on it, knowingly or not (x << (32
 * - n) with n = 0); x86-64 takes the amount modulo the width, and gives the lowest integer. Of two zeros a
 * GPU's minimum is the negative one. The optimiser has run before and may have made use of what is open; what
 * it left is done as a GPU does it, in vectors, too,
 * which it makes of neighbours. (Divisions: lower_divide.c.) */
#include "lower.h"
#include <stdlib.h>
#include <string.h>

static LLVMTypeRef scalar_of(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

/* The scalar type, or a vector of it with as many elements as `shape` has. */
static LLVMTypeRef lower_range_like(LLVMTypeRef shape, LLVMTypeRef scalar)
{
    return LLVMGetTypeKind(shape) == LLVMVectorTypeKind ? LLVMVectorType(scalar, LLVMGetVectorSize(shape))
                                                        : scalar;
}

static LLVMValueRef lower_range_splat(LLVMTypeRef type, uint64_t value)
{
    LLVMValueRef one = LLVMConstInt(scalar_of(type), value, 0);
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return one;
    unsigned n = LLVMGetVectorSize(type);
    LLVMValueRef lanes[n];
    for (unsigned i = 0; i < n; i++)
        lanes[i] = one;
    return LLVMConstVector(lanes, n);
}

static void lower_range_replace(LLVMValueRef old, LLVMValueRef by)
{
    LLVMReplaceAllUsesWith(old, by);
    LLVMInstructionEraseFromParent(old);
}

static void lower_shift(struct mt_lowering *l, LLVMValueRef shift)
{
    LLVMTypeRef type = LLVMTypeOf(shift);
    unsigned width = LLVMGetIntTypeWidth(scalar_of(type));
    LLVMValueRef amount = LLVMGetOperand(shift, 1);
    if (LLVMIsConstant(amount))
        return; /* out of range, it is poison already */
    LLVMValueRef fits = LLVMBuildICmp(l->builder, LLVMIntULT, amount, lower_range_splat(type, width), "");
    if (LLVMGetInstructionOpcode(shift) == LLVMAShr) {
        LLVMSetExact(shift, 0);
        LLVMSetOperand(shift, 1,
                       LLVMBuildSelect(l->builder, fits, amount, lower_range_splat(type, width - 1), ""));
        return;
    }
    LLVMValueRef copy = LLVMInstructionClone(shift);
    LLVMInsertIntoBuilder(l->builder, copy);
    lower_range_replace(shift, LLVMBuildSelect(l->builder, fits, copy, LLVMConstNull(type), ""));
}

/* Saturates, vectors element by element. NaN gives 0, but the highest bit alone where source or result have
 * 64 bits (PTX, cvt). Results of less than 16 bits are the low bits of a conversion to 16: NVPTX has none
 * that is narrower. What is narrower than float is all in float's range, and converted like it. */
static void lower_conversion(struct mt_lowering *l, LLVMValueRef cast, int is_signed)
{
    LLVMValueRef v = LLVMGetOperand(cast, 0);
    LLVMTypeRef type = LLVMTypeOf(cast), from = LLVMTypeOf(v);
    const char *name = is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    LLVMTypeKind kind = LLVMGetTypeKind(scalar_of(from));
    unsigned width = LLVMGetIntTypeWidth(scalar_of(type));
    if (LLVMIsConstant(v) || width > 64)
        return;
    if (kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind) {
        from = lower_range_like(from, LLVMFloatTypeInContext(l->u->context));
        v = LLVMBuildFPExt(l->builder, v, from, "");
    }
    LLVMTypeRef wide = width < 16 ? lower_range_like(type, mt_type_int(l->u, 16)) : type,
                types[] = {wide, from};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->module, id, types, 2);
    LLVMValueRef r =
        LLVMBuildCall2(l->builder, LLVMIntrinsicGetType(l->u->context, id, types, 2), f, &v, 1, "");
    if (kind == LLVMDoubleTypeKind || width == 64) {
        unsigned bits = LLVMGetIntTypeWidth(scalar_of(wide));
        LLVMValueRef nan = LLVMBuildFCmp(l->builder, LLVMRealUNO, v, v, "");
        r = LLVMBuildSelect(l->builder, nan, lower_range_splat(wide, 1ull << (bits - 1)), r, "");
    }
    lower_range_replace(cast, wide == type ? r : LLVMBuildTrunc(l->builder, r, type, ""));
}

/* Addresses of shared and local memory have 32 bits, PTX cuts off what is above: p[~i] with an unsigned i
 * lies before p. An index that is widened without its sign is never right there when
 * its highest bit is set. */
static void lower_index(struct mt_lowering *l, LLVMValueRef address)
{
    for (unsigned i = 1, n = (unsigned)LLVMGetNumOperands(address); i < n; i++) {
        LLVMValueRef index = LLVMGetOperand(address, i);
        if (!LLVMIsAZExtInst(index) || LLVMGetNNeg(index) || LLVMTypeOf(LLVMGetOperand(index, 0)) != l->i32 ||
            mt_space_may_be_global(mt_space_of(l->u, LLVMGetOperand(address, 0))))
            continue;
        LLVMSetIsInBounds(address, 0);
        LLVMSetOperand(address, i,
                       LLVMBuildSExt(l->builder, LLVMGetOperand(index, 0), LLVMTypeOf(index), ""));
    }
}

/* The intrinsic that a call calls; "": none. */
static const char *lower_range_callee(LLVMValueRef call)
{
    LLVMValueRef callee = LLVMIsACallInst(call) ? mt_callee(call) : NULL;
    return callee && LLVMGetIntrinsicID(callee) ? mt_name(callee) : "";
}

/* How many zeros zero begins or ends with, the absolute value of the lowest integer: what may be open in IR
 * has a value. */
static void lower_count(LLVMValueRef call)
{
    const char *name = lower_range_callee(call);
    if (mt_starts(name, "llvm.ctlz.") || mt_starts(name, "llvm.cttz.") || mt_starts(name, "llvm.abs."))
        LLVMSetOperand(call, 1, LLVMConstNull(LLVMTypeOf(LLVMGetOperand(call, 1))));
}

static void lower_function(struct mt_lowering *l, LLVMValueRef function)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        LLVMOpcode op = LLVMGetInstructionOpcode(list[i]);
        LLVMPositionBuilderBefore(l->builder, list[i]);
        switch (op) {
        case LLVMShl:
        case LLVMLShr:
        case LLVMAShr:
            lower_shift(l, list[i]);
            break;
        case LLVMFPToSI:
        case LLVMFPToUI:
            lower_conversion(l, list[i], op == LLVMFPToSI);
            break;
        case LLVMGetElementPtr:
            lower_index(l, list[i]);
            break;
        case LLVMCall:
            lower_count(list[i]);
            break;
        default:
            break;
        }
    }
    free(list);
}

void mt_lower_ranges(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            lower_function(l, f);
}

static unsigned lower_range_bits(LLVMTypeKind kind)
{
    return kind == LLVMDoubleTypeKind ? 64 : kind == LLVMFloatTypeKind ? 32 : 16;
}

/* Minimum and maximum: equal operands have the same bits, or are zeros of two signs; of these the minimum has
 * the sign of either, the maximum that of both. */
static void lower_extreme(struct mt_lowering *l, LLVMValueRef call)
{
    LLVMValueRef a = LLVMGetOperand(call, 0), b = LLVMGetOperand(call, 1);
    LLVMTypeRef type = LLVMTypeOf(call);
    LLVMTypeKind kind = LLVMGetTypeKind(scalar_of(type));
    int minimum = mt_starts(lower_range_callee(call), "llvm.minnum.");
    LLVMBool loses;
    if (LLVMIsAConstantFP(b) && LLVMConstRealGetDouble(b, &loses) != 0)
        return;
    LLVMTypeRef bits = lower_range_like(type, mt_type_int(l->u, lower_range_bits(kind)));
    LLVMValueRef copy = LLVMInstructionClone(call), x = LLVMBuildBitCast(l->builder, a, bits, ""),
                 y = LLVMBuildBitCast(l->builder, b, bits, ""),
                 equal = LLVMBuildFCmp(l->builder, LLVMRealOEQ, a, b, ""),
                 both = minimum ? LLVMBuildOr(l->builder, x, y, "") : LLVMBuildAnd(l->builder, x, y, "");
    LLVMInsertIntoBuilder(l->builder, copy);
    both = LLVMBuildBitCast(l->builder, both, type, "");
    lower_range_replace(call, LLVMBuildSelect(l->builder, equal, both, copy, ""));
}

void mt_lower_extremes(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            const char *name = lower_range_callee(list[i]);
            LLVMPositionBuilderBefore(l->builder, list[i]);
            if (mt_starts(name, "llvm.minnum.") || mt_starts(name, "llvm.maxnum."))
                lower_extreme(l, list[i]);
        }
        free(list);
    }
}
