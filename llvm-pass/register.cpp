// Registers the passes with LLVM's pipelines: in clang (-fplugin) and, one by one, in opt.
#include "unit/pass.h"
#include "unit/options.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
using namespace llvm;

namespace
{
template <int (*Run)(LLVMModuleRef)> struct CPass : PassInfoMixin<CPass<Run>> {
    static bool isRequired()
    {
        return true;
    }
    PreservedAnalyses run(Module &M, ModuleAnalysisManager &)
    {
        return Run(wrap(&M)) ? PreservedAnalyses::none() : PreservedAnalyses::all();
    }
};

void registerPasses(PassBuilder &PB)
{
    mt_pass_options_from_environment();
    PB.registerPipelineStartEPCallback([](ModulePassManager &MPM, OptimizationLevel) {
        MPM.addPass(CPass<mt_pass_early>());
        MPM.addPass(CPass<mt_pass_host>());
    });
    PB.registerOptimizerLastEPCallback([](ModulePassManager &MPM, OptimizationLevel L) {
        mt_pass_options.level = L.getSpeedupLevel();
        MPM.addPass(CPass<mt_pass_device>());
        MPM.addPass(CPass<mt_pass_host_trace>());
    });
    // Single steps by name, for opt and the tests.
    PB.registerPipelineParsingCallback(
        [](StringRef Name, ModulePassManager &MPM, ArrayRef<PassBuilder::PipelineElement>) {
            if (Name == "memtrace-host")
                MPM.addPass(CPass<mt_pass_host>());
            else if (Name == "memtrace-host-trace")
                MPM.addPass(CPass<mt_pass_host_trace>());
            else if (Name == "memtrace-instrument")
                MPM.addPass(CPass<mt_pass_instrument_only>());
            else if (Name == "memtrace-lower")
                MPM.addPass(CPass<mt_pass_lower_only>());
            else if (Name == "memtrace-device")
                MPM.addPass(CPass<mt_pass_device>());
            else
                return false;
            return true;
        });
}
} // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo llvmGetPassPluginInfo()
{
    return {LLVM_PLUGIN_API_VERSION, "memtrace", MT_VERSION, registerPasses};
}
