/* Results that C and LLVM leave open and on which the two machines differ. A GPU's shifts by the width or
 * more give 0 or the sign, and its conversions saturate; programs rely on it, knowingly or not (x << (32 - n)
 * with n = 0). x86-64 takes the amount modulo the width, and converts to the lowest integer. Of two zeros a
 * GPU's minimum is the negative one. The optimiser ran before and may have used the freedom; the remaining
 * code behaves as on a GPU, also in vectors that it makes of neighbours. (Divisions: lower/divide.c.) */
#include "lower.h"
#include "trace/trace.h"
#include <stdlib.h>
#include <string.h>

static LLVMTypeRef range_scalar(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

/* Returns the scalar type, or a vector of it with the lanes of `shape`. */
static LLVMTypeRef range_like(LLVMTypeRef shape, LLVMTypeRef scalar)
{
    return LLVMGetTypeKind(shape) == LLVMVectorTypeKind ? LLVMVectorType(scalar, LLVMGetVectorSize(shape))
                                                        : scalar;
}

static LLVMValueRef range_splat(LLVMTypeRef type, uint64_t value)
{
    return mt_splat(type, LLVMConstInt(range_scalar(type), value, 0));
}

static void range_replace(LLVMValueRef old, LLVMValueRef by)
{
    LLVMReplaceAllUsesWith(old, by);
    LLVMInstructionEraseFromParent(old);
}

static void range_shift(struct mt_lowering *l, LLVMValueRef shift)
{
    LLVMTypeRef type = LLVMTypeOf(shift);
    unsigned width = LLVMGetIntTypeWidth(range_scalar(type));
    LLVMValueRef amount = LLVMGetOperand(shift, 1);
    if (LLVMIsConstant(amount))
        return; /* out of range, it is already poison */
    LLVMValueRef fits = LLVMBuildICmp(l->builder, LLVMIntULT, amount, range_splat(type, width), "");
    if (LLVMGetInstructionOpcode(shift) == LLVMAShr) {
        LLVMSetExact(shift, 0);
        LLVMSetOperand(shift, 1, LLVMBuildSelect(l->builder, fits, amount, range_splat(type, width - 1), ""));
        return;
    }
    LLVMValueRef copy = LLVMInstructionClone(shift);
    LLVMInsertIntoBuilder(l->builder, copy);
    range_replace(shift, LLVMBuildSelect(l->builder, fits, copy, LLVMConstNull(type), ""));
}

/* Saturates, vectors element by element. NaN becomes 0, or only the highest bit if source or result have
 * 64 bits (PTX, cvt). Results of less than 16 bits are the low bits of a conversion to 16, as NVPTX has
 * none that is narrower. Types narrower than float are converted like float, whose range includes theirs. */
static void range_conversion(struct mt_lowering *l, LLVMValueRef cast, int is_signed)
{
    LLVMValueRef v = LLVMGetOperand(cast, 0);
    LLVMTypeRef type = LLVMTypeOf(cast), from = LLVMTypeOf(v);
    const char *name = is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    LLVMTypeKind kind = LLVMGetTypeKind(range_scalar(from));
    unsigned width = LLVMGetIntTypeWidth(range_scalar(type));
    if (LLVMIsConstant(v) || width > 64)
        return;
    if (kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind) {
        from = range_like(from, LLVMFloatTypeInContext(l->u->context));
        v = LLVMBuildFPExt(l->builder, v, from, "");
    }
    LLVMTypeRef wide = width < 16 ? range_like(type, mt_type_int(l->u, 16)) : type, types[] = {wide, from};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->module, id, types, 2);
    LLVMValueRef r =
        LLVMBuildCall2(l->builder, LLVMIntrinsicGetType(l->u->context, id, types, 2), f, &v, 1, "");
    if (kind == LLVMDoubleTypeKind || width == 64) {
        unsigned bits = LLVMGetIntTypeWidth(range_scalar(wide));
        LLVMValueRef nan = LLVMBuildFCmp(l->builder, LLVMRealUNO, v, v, "");
        r = LLVMBuildSelect(l->builder, nan, range_splat(wide, 1ull << (bits - 1)), r, "");
    }
    range_replace(cast, wide == type ? r : LLVMBuildTrunc(l->builder, r, type, ""));
}

#define RANGE_DEPTH 6

/* Returns 1 if it contains a 32-bit number that was zero-extended, and may be negative as signed. */
static int range_wraps(LLVMValueRef v, unsigned depth)
{
    unsigned i = 0, n = LLVMIsAInstruction(v) ? (unsigned)LLVMGetNumOperands(v) : 0;
    LLVMOpcode op = n ? LLVMGetInstructionOpcode(v) : LLVMRet;
    if (!depth)
        return 0;
    switch (op) {
    case LLVMZExt:
    case LLVMAnd: {
        uint64_t zeros = LLVMTypeOf(v) == LLVMInt64TypeInContext(LLVMGetTypeContext(LLVMTypeOf(v)))
                             ? mt_shim_zero_bits(v)
                             : 0;
        return zeros >> 32 == UINT32_MAX && !(zeros >> 31 & 1);
    }
    case LLVMSelect:
        i = 1;
        break;
    case LLVMShl:
        n = 1;
        break;
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
    case LLVMOr:
    case LLVMPHI:
        break;
    default:
        return 0;
    }
    for (; i < n; i++)
        if (range_wraps(LLVMGetOperand(v, i), depth - 1))
            return 1;
    return 0;
}

/* Narrows addresses of shared and local memory to 32 bits, as PTX does: p[~i] with an unsigned i is before
 * p. An offset of a pointer is signed there, however it was extended. (PTX counts in bytes.) */
static void range_index(struct mt_lowering *l, LLVMValueRef address)
{
    LLVMValueRef index = LLVMGetOperand(address, 1);
    if (LLVMGetNumOperands(address) != 2 || LLVMTypeOf(index) != l->i64 || !range_wraps(index, RANGE_DEPTH) ||
        mt_space_may_be_global(mt_space_of(l->u, LLVMGetOperand(address, 0))))
        return;
    index = LLVMBuildTrunc(l->builder, index, l->i32, "");
    LLVMSetIsInBounds(address, 0);
    LLVMSetOperand(address, 1, LLVMBuildSExt(l->builder, index, l->i64, ""));
}

/* Returns the name of the called intrinsic; "": none. */
static const char *range_callee(LLVMValueRef call)
{
    LLVMValueRef callee = LLVMIsACallInst(call) ? mt_callee(call) : NULL;
    return callee && LLVMGetIntrinsicID(callee) ? mt_name(callee) : "";
}

/* Defines the number of leading or trailing zeros of zero, and the absolute value of the lowest integer,
 * which may be open in IR. */
static void range_count(LLVMValueRef call)
{
    const char *name = range_callee(call);
    if (mt_starts(name, "llvm.ctlz.") || mt_starts(name, "llvm.cttz.") || mt_starts(name, "llvm.abs."))
        LLVMSetOperand(call, 1, LLVMConstNull(LLVMTypeOf(LLVMGetOperand(call, 1))));
}

static void range_function(struct mt_lowering *l, LLVMValueRef function)
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
            range_shift(l, list[i]);
            break;
        case LLVMFPToSI:
        case LLVMFPToUI:
            range_conversion(l, list[i], op == LLVMFPToSI);
            break;
        case LLVMGetElementPtr:
            range_index(l, list[i]);
            break;
        case LLVMCall:
            range_count(list[i]);
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
            range_function(l, f);
}

static unsigned range_bits(LLVMTypeKind kind)
{
    return kind == LLVMDoubleTypeKind ? 64 : kind == LLVMFloatTypeKind ? 32 : 16;
}

/* Lowers minimum and maximum: equal operands have the same bits, or are zeros of two signs; of these the
 * minimum is negative if either is, the maximum if both are. */
static void range_extreme(struct mt_lowering *l, LLVMValueRef call)
{
    LLVMValueRef a = LLVMGetOperand(call, 0), b = LLVMGetOperand(call, 1);
    LLVMTypeRef type = LLVMTypeOf(call);
    LLVMTypeKind kind = LLVMGetTypeKind(range_scalar(type));
    int minimum = mt_starts(range_callee(call), "llvm.minnum.");
    LLVMBool loses;
    if (LLVMIsAConstantFP(b) && LLVMConstRealGetDouble(b, &loses) != 0)
        return;
    LLVMTypeRef bits = range_like(type, mt_type_int(l->u, range_bits(kind)));
    LLVMValueRef copy = LLVMInstructionClone(call), x = LLVMBuildBitCast(l->builder, a, bits, ""),
                 y = LLVMBuildBitCast(l->builder, b, bits, ""),
                 equal = LLVMBuildFCmp(l->builder, LLVMRealOEQ, a, b, ""),
                 both = minimum ? LLVMBuildOr(l->builder, x, y, "") : LLVMBuildAnd(l->builder, x, y, "");
    LLVMInsertIntoBuilder(l->builder, copy);
    both = LLVMBuildBitCast(l->builder, both, type, "");
    range_replace(call, LLVMBuildSelect(l->builder, equal, both, copy, ""));
}

void mt_lower_extremes(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            const char *name = range_callee(list[i]);
            LLVMPositionBuilderBefore(l->builder, list[i]);
            if (mt_starts(name, "llvm.minnum.") || mt_starts(name, "llvm.maxnum."))
                range_extreme(l, list[i]);
        }
        free(list);
    }
}
