// Runs a part of the NVPTX back end's passes over a module before the back end itself does (hardware.c).
#include "shim.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
using namespace llvm;

namespace
{
// Takes what the target adds and keeps what is wanted.
struct Sieve : legacy::PassManagerBase {
    legacy::PassManager passes;
    int (*wanted)(const char *);
    void add(Pass *p) override
    {
        if (p->getAsImmutablePass() || wanted(p->getPassName().str().c_str()))
            passes.add(p);
        else
            delete p;
    }
};

std::unique_ptr<TargetMachine> machineOf(Module &M, int level)
{
    std::string why;
    const Target *T = TargetRegistry::lookupTarget(M.getTargetTriple(), why);
    StringRef cpu, features;
    for (Function &F : M)
        if (!F.isDeclaration()) {
            cpu = F.getFnAttribute("target-cpu").getValueAsString();
            features = F.getFnAttribute("target-features").getValueAsString();
            break;
        }
    if (!T)
        return nullptr;
    return std::unique_ptr<TargetMachine>(T->createTargetMachine(M.getTargetTriple(), cpu, features,
                                                                 TargetOptions(), std::nullopt, std::nullopt,
                                                                 (CodeGenOptLevel)level));
}
} // namespace

int mt_shim_backend_passes(LLVMModuleRef module, int level, int (*wanted)(const char *name))
{
    Module &M = *unwrap(module);
    auto TM = machineOf(M, level);
    if (!TM)
        return -1;
    Sieve sieve;
    sieve.wanted = wanted;
    sieve.passes.add(new TargetLibraryInfoWrapperPass(Triple(M.getTargetTriple())));
    auto *config = static_cast<LLVMTargetMachine &>(*TM).createPassConfig(sieve);
    sieve.passes.add(config);
    config->setDisableVerify(true);
    config->addISelPasses();
    sieve.passes.run(M);
    return 0;
}

int mt_shim_reads_constants(LLVMValueRef load, int in_kernel)
{
    SmallVector<const Value *, 8> objects;
    getUnderlyingObjects(unwrap<LoadInst>(load)->getPointerOperand(), objects);
    return all_of(objects, [&](const Value *V) {
        if (auto *A = dyn_cast<Argument>(V))
            return in_kernel && A->onlyReadsMemory() && A->hasNoAliasAttr();
        auto *G = dyn_cast<GlobalVariable>(V);
        return G && G->isConstant();
    });
}
