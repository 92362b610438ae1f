/* Prepares code generation: adds the pass, and the overlay's headers before the toolkit's. */
#include "plugin.h"
#include "clang/Lex/HeaderSearchOptions.h"

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static void add_pass(clang::CodeGenOptions &options)
{
    std::string own = mt::own_path();
    if (own.empty())
        return;
    for (const std::string &plugin : options.PassPlugins) { /* -fpass-plugin= may have added us already */
        bool same = false;
        if (!fs::equivalent(plugin, own, same) && same)
            return;
    }
    options.PassPlugins.push_back(own);
}

/* Returns the CUDA toolkit that an include folder belongs to, or "". */
static std::string toolkit_of(llvm::StringRef include)
{
    llvm::SmallString<256> header(include), root(include);
    path::append(header, "cuda_runtime_api.h");
    if (!fs::exists(header))
        return "";
    path::append(root, "..");
    path::remove_dots(root, true);
    return root.str().str();
}

static bool exists_in(llvm::StringRef root, llvm::StringRef file)
{
    llvm::SmallString<256> name(root);
    path::append(name, file);
    return fs::exists(name);
}

static bool is_system_root(llvm::StringRef root)
{
    return root == "/usr" || root == "/usr/local";
}

/* Returns the overlay of this plugin's build or installation, else a placeholder. */
static std::string suggested_overlay()
{
    llvm::SmallString<256> folder(path::parent_path(mt::own_path()));
    for (const char *place : {"../cuda-overlay", "memtrace/cuda-overlay"}) {
        llvm::SmallString<256> name(folder);
        path::append(name, place);
        path::remove_dots(name, true);
        if (exists_in(name, "bin/.memtrace-overlay"))
            return name.str().str();
    }
    return "<overlay>";
}

/* Warns if the overlay is not in use: its tools in bin/ append the CPU image to the fatbin, and NVIDIA's own
 * lose it. Warns once: on the host side, or on the device side if that is about to fail without the overlay's
 * headers. */
static void check_overlay(const clang::CompilerInstance &compiler)
{
    std::string toolkit;
    for (const auto &entry : compiler.getHeaderSearchOpts().UserEntries) {
        std::string root = toolkit_of(entry.Path);
        if (root.empty())
            continue;
        if (exists_in(root, "bin/.memtrace-overlay"))
            return;
        if (toolkit.empty() || is_system_root(toolkit)) /* these folders are searched in any case */
            toolkit = root;
    }
    if (toolkit.empty() || !mt_pass_options.cpu_image)
        return;
    bool device = compiler.getLangOpts().CUDAIsDevice;
    bool dead = !exists_in(toolkit, "include/texture_fetch_functions.h");
    if (device ? !dead : compiler.getCodeGenOpts().CudaGpuBinaryFileName.empty())
        return;
    mt::report(
        compiler.getDiagnostics(), clang::DiagnosticsEngine::Warning, clang::SourceLocation(),
        "the CUDA path " + toolkit +
            " is not a memtrace overlay: the program will not contain its CPU image and runs on a GPU only; "
            "compile with mt-cc, after eval \"$(mt-cc --env)\", or with --cuda-path=" +
            suggested_overlay() + " (-fplugin-arg-memtrace-cpu-image=off silences this)");
}

void mt::prefer_overlay(clang::CompilerInstance &compiler)
{
    if (compiler.getLangOpts().CUDA)
        search_first(compiler, [](llvm::StringRef folder) {
            std::string root = toolkit_of(folder);
            return !root.empty() && exists_in(root, "bin/.memtrace-overlay");
        });
}

void mt::prepare_codegen(clang::CompilerInstance &compiler)
{
    const clang::LangOptions &lang = compiler.getLangOpts();
    if (!makes_code(compiler) || !is_our_language(lang))
        return;
    clang::CodeGenOptions &options = compiler.getCodeGenOpts();
    add_pass(options);
    run_passes_here(options);
    if (lang.CUDAIsDevice)
        options.NullPointerIsValid = 1; /* keeps stores to null, as nvcc does: a GPU faults at them */
    mt_pass_options.strip_debug = enable_line_tables(options, lang.CUDAIsDevice || mt_pass_options.host);
    mt_pass_options.rdc = lang.GPURelocatableDeviceCode;
    mt_pass_options.contract_all = lang.getDefaultFPContractMode() == clang::LangOptions::FPM_Fast;
    if (lang.CUDA)
        check_overlay(compiler);
}
