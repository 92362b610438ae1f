/* Interfaces that depend on the Clang version (19): the headers of Clang that are used, and one function for
 * each interface that has changed or may change. A port to another version changes this file only. */
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

/* Reports through Clang's diagnostics. An invalid location gives a line without a place. Applies -w and
 * -Werror, which Clang 19 does not do for plugins. */
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

/* Returns true if the compiler will generate code. Only such actions run the pass. */
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

/* Returns true for CUDA, C or C++ code for the host or NVIDIA's GPUs, which the pass handles. */
inline bool is_our_language(const clang::LangOptions &lang)
{
    return !lang.HIP && !lang.OpenCL && !lang.HLSL && !lang.SYCLIsDevice && !lang.OpenMPIsTargetDevice &&
           !lang.ObjC;
}

/* Turns off the profile that debug information for profiling implies: LLVM's inliner would postpone
 * decisions, and the program would differ from one without the plugin. */
inline void forget_profile()
{
    auto &known = llvm::cl::getRegisteredOptions();
    auto found = known.find("enable-npm-pgo-inline-deferral");
    if (found != known.end() && !found->second->getNumOccurrences())
        found->second->addOccurrence(1, found->first(), "false");
}

/* Turns on line tables for the pass. Clang 19 reads these options when it initialises its code generator,
 * after it has made the plugins. "Location tracking" gives each instruction its place without changing the
 * output. Linkage names, from which the pass finds the function of inlined code, require "for profiling".
 * Returns true if this call turned on debug information. Value names (-fno-discard-value-names) cannot be set
 * here: that flag is copied before plugins are made. */
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

/* Makes the passes run in this cc1. -save-temps splits a compilation into a cc1 that makes unoptimised IR,
 * where plugins run, and one that reads IR, where they do not. */
inline void run_passes_here(clang::CodeGenOptions &options)
{
    if (!options.SaveTempsFilePrefix.empty())
        options.DisableLLVMPasses = 0;
}

/* Moves the chosen system header folder before all others. No header has been looked up when plugins are
 * made. */
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

/* Marks a device variable as used by host code before any use is compiled. Clang detects that while it
 * parses, and with -fgpu-rdc a static variable is renamed then: code generated earlier would refer to the old
 * name. */
inline void keep_for_host(clang::VarDecl *variable)
{
    if (!variable->hasExternalStorage() && !variable->getDeclContext()->isDependentContext() &&
        !variable->getDescribedVarTemplate())
        variable->getASTContext().CUDADeviceVarODRUsedByHost.insert(variable);
}

/* Adds an annotation without a place in the source. */
inline void add_annotation(clang::Decl *decl, llvm::StringRef text)
{
    decl->addAttr(clang::AnnotateAttr::CreateImplicit(decl->getASTContext(), text, nullptr, 0));
}

/* Adds an annotation for the attribute at `range`. */
inline void add_annotation(clang::Decl *decl, llvm::StringRef text, clang::SourceRange range)
{
    decl->addAttr(clang::AnnotateAttr::Create(decl->getASTContext(), text, nullptr, 0, range));
}

/* Adds an annotation with arguments. */
inline void add_annotation(clang::Decl *decl, llvm::StringRef text,
                           llvm::MutableArrayRef<clang::Expr *> arguments, clang::SourceRange range)
{
    decl->addAttr(
        clang::AnnotateAttr::Create(decl->getASTContext(), text, arguments.data(), arguments.size(), range));
}

} // namespace mt
#endif
