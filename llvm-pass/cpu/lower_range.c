/* Integer results that C and LLVM leave open and on which the two machines differ: a GPU's shifts by the
 * width or more give 0 or the sign, its conversions saturate. Programs rely on it, knowingly or not (x << (32
 * - n) with n = 0); x86-64 takes the amount modulo the width, and gives the lowest integer. The optimiser has
 * run before and may have made use of what is open; what it left is done as a GPU does it. (Divisions:
 * lower_divide.c.) */
#include "lower.h"
#include <stdlib.h>
#include <string.h>

static LLVMValueRef lower_range_splat(LLVMTypeRef type, uint64_t value)
{
    int vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    LLVMValueRef one = LLVMConstInt(vector ? LLVMGetElementType(type) : type, value, 0);
    LLVMValueRef lanes[64];
    if (!vector)
        return one;
    for (unsigned i = 0; i < LLVMGetVectorSize(type) && i < 64; i++)
        lanes[i] = one;
    return LLVMConstVector(lanes, LLVMGetVectorSize(type));
}

static LLVMTypeRef scalar_of(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
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

/* Saturates. NaN gives 0, but the highest bit alone where source or result have 64 bits (PTX, cvt). Results
 * of less than 16 bits are the low bits of a conversion to 16: NVPTX has none that is narrower. */
static void lower_conversion(struct mt_lowering *l, LLVMValueRef cast, int is_signed)
{
    LLVMValueRef v = LLVMGetOperand(cast, 0);
    LLVMTypeRef type = LLVMTypeOf(cast), from = LLVMTypeOf(v);
    const char *name = is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    LLVMTypeKind kind = LLVMGetTypeKind(from);
    if (LLVMGetTypeKind(type) != LLVMIntegerTypeKind || LLVMIsConstant(v))
        return;
    unsigned width = LLVMGetIntTypeWidth(type);
    if (width > 64 || (kind != LLVMFloatTypeKind && kind != LLVMDoubleTypeKind))
        return;
    LLVMTypeRef wide = width < 16 ? mt_type_int(l->u, 16) : type, types[] = {wide, from};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->module, id, types, 2);
    LLVMValueRef r =
        LLVMBuildCall2(l->builder, LLVMIntrinsicGetType(l->u->context, id, types, 2), f, &v, 1, "");
    if (kind == LLVMDoubleTypeKind || width == 64) {
        unsigned bits = LLVMGetIntTypeWidth(wide);
        LLVMValueRef nan = LLVMBuildFCmp(l->builder, LLVMRealUNO, v, v, "");
        r = LLVMBuildSelect(l->builder, nan, LLVMConstInt(wide, 1ull << (bits - 1), 0), r, "");
    }
    lower_range_replace(cast, wide == type ? r : LLVMBuildTrunc(l->builder, r, type, ""));
}

/* Addresses of shared and local memory have 32 bits, PTX cuts off what is above: p[~i] with an unsigned i
 * lies before p. An index that is widened without its sign is never right there when its highest bit is set.
 */
static void lower_index(struct mt_lowering *l, LLVMValueRef address)
{
    for (unsigned i = 1, n = (unsigned)LLVMGetNumOperands(address); i < n; i++) {
        LLVMValueRef index = LLVMGetOperand(address, i);
        if (!LLVMIsAZExtInst(index) || LLVMGetNNeg(index) || LLVMTypeOf(LLVMGetOperand(index, 0)) != l->i32 ||
            mt_space_of(l->u, LLVMGetOperand(address, 0)) != MT_SPACE_OTHER)
            continue;
        LLVMSetIsInBounds(address, 0);
        LLVMSetOperand(address, i,
                       LLVMBuildSExt(l->builder, LLVMGetOperand(index, 0), LLVMTypeOf(index), ""));
    }
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
