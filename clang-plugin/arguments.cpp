/* Parses the plugin's command line, -fplugin-arg-…, and reports its errors. */
#include "plugin.h"

namespace
{
struct Help {
    const char *argument, *text;
};
} // namespace

static const Help help[] = {
    {"kernels=REGEX", "trace only kernels whose name fits (POSIX extended)"},
    {"exclude=REGEX", "do not trace kernels whose name fits"},
    {"only=LIST", "record only these, ','-separated: loads, stores, atomics"},
    {"spaces=LIST", "memory of which accesses are recorded, ','-separated: global (default), shared, local"},
    {"cpu-image=on|off", "add an image for the CPU device (on)"},
    {"gpu-trace=on|off", "instrument the GPU's code (on)"},
    {"gpu-plain=on|off",
     "the GPU's code has each kernel as it was, too, for launches that are not traced (on)"},
    {"vectors=on|off", "CPU device: warps are vectors where they can be (on), or each thread is a fiber"},
    {"cpu=NAME", "CPU that the CPU image is compiled for, as in -march (x86-64-v3)"},
    {"count=on|off|only",
     "count accesses a second time, in addition to the records or instead of them (off)"},
    {"host=on|off|atomic",
     "trace the host's own accesses, too; atomic: so that threads' can be ordered (off)"},
    {"host-stack=on|off", "host: local variables whose address stays in their function, too (on)"},
    {"host-functions=REGEX", "host: these functions are not inlined, so that they can be traced by name"},
    {"verbose=on|off", "say what the pass does (off)"},
    {"help", "print this list"},
};

static void print_help()
{
    llvm::errs() << "memtrace " MT_VERSION ": arguments, each as -fplugin-arg-memtrace-<argument>\n";
    for (const Help &line : help)
        llvm::errs() << "  " << llvm::left_justify(line.argument, 22) << line.text << "\n";
}

bool mt::read_arguments(const clang::CompilerInstance &compiler, const std::vector<std::string> &arguments)
{
    bool fine = true;
    for (const std::string &argument : arguments) {
        const char *why = "";
        if (argument == "help") {
            if (!compiler.getLangOpts().CUDAIsDevice) /* once per command, not once per side */
                print_help();
        } else if (mt_pass_option_set(argument.c_str(), &why)) {
            report(compiler.getDiagnostics(), clang::DiagnosticsEngine::Error, clang::SourceLocation(),
                   "-fplugin-arg-memtrace-" + argument + ": " + why);
            fine = false;
        }
    }
    return fine;
}
