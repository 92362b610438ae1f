// LLD inside mt-ptx, for machines without a linker. Only a wheel's mt-ptx has it, and runs itself as the
// linker.
#include <lld/Common/Driver.h>
#include <llvm/Passes/PassPlugin.h>
#include "linker.h"

LLD_HAS_DRIVER(elf)

// LLVM's link-time optimisation refers to Polly but is not used.
llvm::PassPluginLibraryInfo getPollyPluginInfo()
{
    return {LLVM_PLUGIN_API_VERSION, "none", "0", [](llvm::PassBuilder &) {}};
}

extern "C" int mt_ptxtool_linker(int argc, const char *const *argv)
{
    const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
    return lld::lldMain({argv, static_cast<size_t>(argc)}, llvm::outs(), llvm::errs(), drivers).retCode;
}
