/* Which bits of an integer matter to what its block does with it, as instruction selection finds out (LLVM's
 * TargetLowering::SimplifyDemandedBits): a load in several parts loads only those that matter. */
#include "base/unit.h"
#include <stddef.h>

#define DEEPEST 6 /* as SelectionDAG::MaxRecursionDepth */

static uint64_t demand_all(LLVMValueRef v)
{
    unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(v));
    return bits < 64 ? (1ull << bits) - 1 : ~0ull;
}

static uint64_t demand_below(uint64_t bits)
{
    return bits ? ~0ull >> __builtin_clzll(bits) : 0;
}

static uint64_t demand_of(LLVMValueRef v, int depth);

/* Bits of v that a shift by `by` needs for the bits `used` of its result. */
static uint64_t demand_shifted(LLVMOpcode op, LLVMValueRef v, uint64_t by, uint64_t used)
{
    uint64_t all = demand_all(v), width = LLVMGetIntTypeWidth(LLVMTypeOf(v));
    if (by >= width)
        return all;
    if (op == LLVMShl)
        return used >> by;
    uint64_t sign = op == LLVMAShr && used & ~(all >> by) ? 1ull << (width - 1) : 0;
    return (used << by & all) | sign;
}

static uint64_t demand_by(LLVMValueRef user, LLVMValueRef v, int depth)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(user);
    LLVMValueRef other = LLVMGetNumOperands(user) == 2
                             ? LLVMIsAConstantInt(LLVMGetOperand(user, LLVMGetOperand(user, 0) == v))
                             : NULL;
    uint64_t number = other ? LLVMConstIntGetZExtValue(other) : 0, all = demand_all(v);
    switch (op) {
    case LLVMAnd:
    case LLVMOr:
        number = other && op == LLVMOr ? ~number : number;
        return demand_of(user, depth) & (other ? number : all);
    case LLVMXor:
    case LLVMTrunc:
        return demand_of(user, depth);
    case LLVMZExt:
        return demand_of(user, depth) & all;
    case LLVMShl:
    case LLVMLShr:
    case LLVMAShr:
        return other && LLVMGetOperand(user, 0) == v ? demand_shifted(op, v, number, demand_of(user, depth))
                                                     : all;
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
        return demand_below(demand_of(user, depth)) & all; /* carries come from below */
    default:
        return all;
    }
}

/* What has several users is as they all want it; on the way to them it is taken as a whole. */
static uint64_t demand_of(LLVMValueRef v, int depth)
{
    uint64_t bits = 0;
    LLVMUseRef use = LLVMGetFirstUse(v);
    if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMIntegerTypeKind || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64)
        return ~0ull;
    if (depth == DEEPEST || (depth && use && LLVMGetNextUse(use)))
        return demand_all(v);
    for (; use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMIsAInstruction(LLVMGetUser(use));
        if (!user || LLVMGetInstructionParent(user) != LLVMGetInstructionParent(v))
            return demand_all(v);
        bits |= demand_by(user, v, depth + 1);
    }
    return bits;
}

uint64_t mt_demanded_bits(LLVMValueRef inst)
{
    return demand_of(inst, 0);
}
