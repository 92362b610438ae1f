/* Everything that depends on the Clang version (19): the headers of Clang that are used, and one function for
 * each interface of Clang that has changed before or may change. Port to another version here. */
#ifndef MT_PLUGIN_COMPAT_H
#define MT_PLUGIN_COMPAT_H
#include "llvm/Support/CommandLine.h"
#include "clang/AST/ASTConsumer.h"
#include "clang/AST/ASTContext.h"
#include "clang/AST/Attr.h"
#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Basic/ParsedAttrInfo.h"
#include "clang/Basic/Version.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendPluginRegistry.h"
#include "clang/Lex/HeaderSearch.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Sema/ParsedAttr.h"
#include "clang/Sema/Sema.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#if CLANG_VERSION_MAJOR != 19
#error "memtrace is written for Clang 19: what differs in another version belongs into clang-plugin/compat.h"
#endif

namespace mt
{

/* Reports through Clang's own diagnostics. An invalid location gives a line without place. Clang 19 leaves
 * the level of plugins' diagnostics as it is: -w and -Werror are obeyed here. */
inline void report(clang::DiagnosticsEngine &diags, clang::DiagnosticsEngine::Level level,
                   clang::SourceLocation at, llvm::StringRef text)
{
    if (level == clang::DiagnosticsEngine::Warning && diags.getIgnoreAllWarnings())
        return;
    if (level == clang::DiagnosticsEngine::Warning && diags.getWarningsAsErrors())
        level = clang::DiagnosticsEngine::Error;
    unsigned id =
        diags.getDiagnosticIDs()->getCustomDiagID((clang::DiagnosticIDs::Level)level, "memtrace: %0");
    diags.Report(at, id) << text;
}

/* What the compiler will make. Only these actions run a code generator and so the pass. */
inline bool makes_code(const clang::CompilerInstance &compiler)
{
    using namespace clang::frontend;
    switch (compiler.getFrontendOpts().ProgramAction) {
    case EmitAssembly:
    case EmitBC:
    case EmitLLVM:
    case EmitLLVMOnly:
    case EmitCodeGenOnly:
    case EmitObj:
        return true;
    default:
        return false;
    }
}

/* CUDA, C or C++ code for the host or for NVIDIA's GPUs: what the pass knows. */
inline bool is_our_language(const clang::LangOptions &lang)
{
    return !lang.HIP && !lang.OpenCL && !lang.HLSL && !lang.SYCLIsDevice && !lang.OpenMPIsTargetDevice &&
           !lang.ObjC;
}

/* Debug information for profiling makes LLVM's pipeline believe in a profile: its inliner then puts decisions
 * off, and the program would be another one than without us. */
inline void forget_profile()
{
    auto &known = llvm::cl::getRegisteredOptions();
    auto found = known.find("enable-npm-pgo-inline-deferral");
    if (found != known.end() && !found->second->getNumOccurrences())
        found->second->addOccurrence(1, found->first(), "false");
}

/* Line tables for ourselves. Clang 19's code generator refers to these options and reads them when it is
 * initialised, which is after plugins have been made. "Location tracking" gives every instruction its place
 * and leaves nothing in the output; linkage names, which the pass needs to know the function that inlined
 * code came from, come with "for profiling" only. Returns true when debug info was turned on by this call.
 * Value names (-fno-discard-value-names) are not available this way: the flag is copied
 * before plugins are made. */
inline bool enable_line_tables(clang::CodeGenOptions &options, bool traced)
{
    namespace dbg = llvm::codegenoptions;
    dbg::DebugInfoKind kind = options.getDebugInfo();
    bool ours = kind == dbg::NoDebugInfo;
    if (ours)
        options.setDebugInfo(dbg::LocTrackingOnly);
    if (!options.DebugInfoForProfiling && (ours || (traced && kind <= dbg::DebugLineTablesOnly))) {
        options.DebugInfoForProfiling = 1;
        forget_profile();
    }
    if (ours)
        options.DebugColumnInfo = 1;
    return ours;
}

/* -save-temps cuts a compilation into one cc1 that makes unoptimised IR, where plugins run, and one that
 * reads IR, where they do not. So the passes have to run in the first. */
inline void run_passes_here(clang::CodeGenOptions &options)
{
    if (!options.SaveTempsFilePrefix.empty())
        options.DisableLLVMPasses = 0;
}

/* Searches one of the system header folders before all others of them. Nothing has been looked up yet when
 * plugins are made. */
inline void search_first(clang::CompilerInstance &compiler, llvm::function_ref<bool(llvm::StringRef)> chosen)
{
    clang::HeaderSearch &search = compiler.getPreprocessor().getHeaderSearchInfo();
    std::vector<clang::DirectoryLookup> folders(search.search_dir_begin(), search.search_dir_end());
    const clang::HeaderSearch &as_is = search;
    auto angled = std::distance(as_is.search_dir_begin(), as_is.angled_dir_begin());
    auto system = std::distance(as_is.search_dir_begin(), as_is.system_dir_begin());
    auto first = folders.begin() + system;
    auto found = std::find_if(first, folders.end(), [&](const auto &f) { return chosen(f.getName()); });
    if (found == folders.end() || found == first)
        return;
    std::rotate(first, found, found + 1);
    search.SetSearchPaths(std::move(folders), (unsigned)angled, (unsigned)system,
                          llvm::DenseMap<unsigned, unsigned>());
}

/* Says that host code uses a device variable before any does. Clang finds that out while it parses, and with
 * -fgpu-rdc a static variable has another name from then on: code made before would look for the old one. */
inline void keep_for_host(clang::VarDecl *variable)
{
    if (!variable->hasExternalStorage() && !variable->getDeclContext()->isDependentContext() &&
        !variable->getDescribedVarTemplate())
        variable->getASTContext().CUDADeviceVarODRUsedByHost.insert(variable);
}

/* Adds an annotation that no source text stands for. */
inline void add_annotation(clang::Decl *decl, llvm::StringRef text)
{
    decl->addAttr(clang::AnnotateAttr::CreateImplicit(decl->getASTContext(), text, nullptr, 0));
}

/* The annotation as the attribute at `range` wrote it. */
inline void add_annotation(clang::Decl *decl, llvm::StringRef text, clang::SourceRange range)
{
    decl->addAttr(clang::AnnotateAttr::Create(decl->getASTContext(), text, nullptr, 0, range));
}

/* The same with arguments. */
inline void add_annotation(clang::Decl *decl, llvm::StringRef text,
                           llvm::MutableArrayRef<clang::Expr *> arguments, clang::SourceRange range)
{
    decl->addAttr(
        clang::AnnotateAttr::Create(decl->getASTContext(), text, arguments.data(), arguments.size(), range));
}

} // namespace mt
#endif
