// Functions that llvm-c lacks for code of whole warps (vector/): passes over one function, vector forms of
// intrinsics, flags of instructions.
#include "shim.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Operator.h"
#include "llvm/Passes/PassBuilder.h"
using namespace llvm;

int mt_shim_run_passes(LLVMValueRef function, const char *passes)
{
    PassBuilder builder;
    LoopAnalysisManager loops;
    FunctionAnalysisManager functions;
    CGSCCAnalysisManager components;
    ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    FunctionPassManager manager;
    if (Error E = builder.parsePassPipeline(manager, passes)) {
        consumeError(std::move(E));
        return -1;
    }
    manager.run(*unwrap<Function>(function), functions);
    return 0;
}

static bool intrinsicHasOverflow(Intrinsic::ID id)
{
    switch (id) {
    case Intrinsic::sadd_with_overflow:
    case Intrinsic::uadd_with_overflow:
    case Intrinsic::ssub_with_overflow:
    case Intrinsic::usub_with_overflow:
    case Intrinsic::smul_with_overflow:
    case Intrinsic::umul_with_overflow:
        return true;
    default:
        return false;
    }
}

int mt_shim_vector_intrinsic(unsigned id, int argument)
{
    auto I = (Intrinsic::ID)id;
    if (argument == -2)
        return isTriviallyVectorizable(I) || intrinsicHasOverflow(I);
    if (intrinsicHasOverflow(I))
        return argument == 0 ? MT_VECTOR_OVERLOADED : 0;
    return (argument >= 0 && isVectorIntrinsicWithScalarOpAtArg(I, argument) ? MT_VECTOR_SCALAR : 0) |
           (isVectorIntrinsicWithOverloadTypeAtArg(I, argument) ? MT_VECTOR_OVERLOADED : 0);
}

namespace
{
bool isCertain(Value *V, unsigned &steps)
{
    if (auto *A = dyn_cast<Argument>(V))
        return A->hasAttribute(Attribute::NoUndef);
    if (isa<FreezeInst>(V))
        return true;
    if (isa<Constant>(V))
        return isGuaranteedNotToBeUndefOrPoison(V);
    auto *I = dyn_cast<Instruction>(V);
    return I && (isa<BinaryOperator>(I) || isa<CastInst>(I)) && steps && steps-- &&
           !canCreateUndefOrPoison(cast<Operator>(I)) &&
           all_of(I->operands(), [&](Value *O) { return isCertain(O, steps); });
}
} // namespace

int mt_shim_is_certain(LLVMValueRef value)
{
    unsigned steps = 1000;
    return isCertain(unwrap(value), steps);
}

void mt_shim_drop_promises(LLVMValueRef inst)
{
    unwrap<Instruction>(inst)->dropPoisonGeneratingAnnotations();
}

void mt_shim_copy_flags(LLVMValueRef to, LLVMValueRef from)
{
    unwrap<Instruction>(to)->copyIRFlags(unwrap<Instruction>(from));
}
