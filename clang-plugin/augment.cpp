/* The action "cuda-aug" writes the source with its annotations, for builds in two steps:
 *
 *   -Xclang -load -Xclang libMemtrace-AA.so -Xclang -plugin -Xclang cuda-aug
 *   -Xclang -plugin-arg-cuda-aug -Xclang -f -Xclang -plugin-arg-cuda-aug -Xclang FILE … -E kernel.cu
 *
 * Without -f the file is augmented-<name> in the current folder. The command runs one cc1 for each side, and
 * the host's writes the file. The text compiles with and without the plugin and keeps all lines and columns
 * of the original: an insertion is on lines of its own, followed by a #line directive and blanks. */
#include "plugin.h"
#include "clang/Lex/Lexer.h"
#include "clang/Rewrite/Core/Rewriter.h"

using namespace clang;
namespace path = llvm::sys::path;

static std::string quoted(StringRef text)
{
    std::string out = "\"";
    for (char c : text) {
        if (c == '\t') {
            out += "\\t";
            continue;
        }
        if (c == '"' || c == '\\')
            out += '\\';
        out += c;
    }
    return out + '"';
}

namespace
{
class Augmenter : public RecursiveASTVisitor<Augmenter>
{
  public:
    explicit Augmenter(CompilerInstance &c)
        : compiler(c), sources(c.getSourceManager()), rewriter(c.getSourceManager(), c.getLangOpts())
    {
    }
    bool VisitFunctionDecl(FunctionDecl *function);
    bool VisitCUDAKernelCallExpr(CUDAKernelCallExpr *call);
    /* Adjusts includes; `output` is the file to be written. */
    void mend_includes(StringRef output);
    void print(raw_ostream &out);

  private:
    bool explicit_device_code(const FunctionDecl *function) const;
    SourceLocation start_in_main_file(const DeclaratorDecl *decl) const;
    void mend_include(const Token &name, StringRef from, bool here);

    CompilerInstance &compiler;
    SourceManager &sources;
    Rewriter rewriter;
    std::string launches;
};
} // namespace

/* Returns 1 for functions declared __global__ or __device__ in the source. Others, such as constexpr ones,
 * are annotated when they are compiled. */
bool Augmenter::explicit_device_code(const FunctionDecl *function) const
{
    const auto *global = function->getAttr<CUDAGlobalAttr>();
    const auto *device = function->getAttr<CUDADeviceAttr>();
    return (global && !global->isImplicit()) || (device && !device->isImplicit());
}

/* Returns where an attribute can be inserted before the declaration. Invalid if that is inside a macro, in
 * another file, or in a macro that makes a whole template. */
SourceLocation Augmenter::start_in_main_file(const DeclaratorDecl *decl) const
{
    SourceLocation at = decl->getInnerLocStart(); /* after template <> */
    if (at.isMacroID() && !Lexer::isAtStartOfMacroExpansion(at, sources, compiler.getLangOpts(), &at))
        return SourceLocation();
    return at.isFileID() && sources.isWrittenInMainFile(at) ? at : SourceLocation();
}

bool Augmenter::VisitFunctionDecl(FunctionDecl *function)
{
    const auto *method = dyn_cast<CXXMethodDecl>(function);
    if (!function->doesThisDeclarationHaveABody() || function->isImplicit() || function->isDefaulted() ||
        function->isTemplateInstantiation() || (method && method->getParent()->isLambda()) ||
        !explicit_device_code(function))
        return true;
    SourceLocation at = start_in_main_file(function);
    if (at.isInvalid())
        return true;
    PresumedLoc place = sources.getPresumedLoc(at);
    std::string text = "\n__attribute__((annotate(" + quoted(mt::facts_text(compiler, function)) +
                       ")))\n#line " + std::to_string(place.getLine()) + " " + quoted(place.getFilename()) +
                       "\n";
    text.append(sources.getSpellingColumnNumber(at) - 1, ' ');
    rewriter.InsertTextBefore(at, text);
    return true;
}

bool Augmenter::VisitCUDAKernelCallExpr(CUDAKernelCallExpr *call)
{
    SourceLocation at = sources.getExpansionLoc(call->getBeginLoc());
    if (!sources.isWrittenInMainFile(at))
        return true;
    PresumedLoc place = sources.getPresumedLoc(at);
    const FunctionDecl *kernel = call->getDirectCallee();
    launches += "// memtrace: launch of " + (kernel ? mt::pretty_name(kernel) : std::string("a kernel")) +
                " at " + place.getFilename() + ":" + std::to_string(place.getLine()) + ":" +
                std::to_string(place.getColumn()) + "\n";
    return true;
}

/* Adjusts #include "name" of a file beside the original, so that it is found from the output's folder.
 * `here`: the output is in the current folder, so relative names stay relative. */
void Augmenter::mend_include(const Token &name, StringRef from, bool here)
{
    StringRef text(sources.getCharacterData(name.getLocation()), name.getLength());
    SmallString<256> target(from);
    path::append(target, text.drop_front().drop_back());
    if (text.size() < 3 || path::is_absolute(text.drop_front()) || !llvm::sys::fs::exists(target))
        return;
    if (!here && llvm::sys::fs::make_absolute(target))
        return;
    rewriter.ReplaceText(name.getLocation(), name.getLength(), "\"" + target.str().str() + "\"");
}

void Augmenter::mend_includes(StringRef output)
{
    FileID file = sources.getMainFileID();
    OptionalFileEntryRef entry = sources.getFileEntryRefForID(file);
    if (!entry)
        return;
    StringRef from = path::parent_path(entry->getName()), to = path::parent_path(output);
    if (llvm::sys::fs::equivalent(from.empty() ? "." : from, to.empty() ? "." : to))
        return;
    bool here = llvm::sys::fs::equivalent(to.empty() ? "." : to, ".");
    /* Works on tokens, so that branches not compiled on this side are adjusted, too. */
    Lexer lexer(file, sources.getBufferOrFake(file), sources, compiler.getLangOpts());
    Token token;
    for (bool end = false; !end;) {
        end = lexer.LexFromRawLexer(token);
        if (token.isNot(tok::hash) || !token.isAtStartOfLine())
            continue;
        end = lexer.LexFromRawLexer(token);
        if (token.isNot(tok::raw_identifier) || token.getRawIdentifier() != "include")
            continue;
        end = lexer.LexFromRawLexer(token);
        if (token.is(tok::string_literal) && !token.isAtStartOfLine())
            mend_include(token, from, here);
    }
}

void Augmenter::print(raw_ostream &out)
{
    FileID file = sources.getMainFileID();
    PresumedLoc start = sources.getPresumedLoc(sources.getLocForStartOfFile(file));
    out << "#line 1 " << quoted(start.isValid() ? start.getFilename() : "<unknown>") << "\n";
    if (const auto *changed = rewriter.getRewriteBufferFor(file))
        changed->write(out);
    else
        out << sources.getBufferData(file);
    if (!launches.empty())
        out << "\n" << launches;
}

namespace
{
class Writer : public ASTConsumer
{
  public:
    Writer(CompilerInstance &c, std::string o) : compiler(c), output(std::move(o)), augmenter(c)
    {
    }
    bool HandleTopLevelDecl(DeclGroupRef group) override;
    void HandleTranslationUnit(ASTContext &) override;

  private:
    CompilerInstance &compiler;
    std::string output;
    Augmenter augmenter;
};
} // namespace

bool Writer::HandleTopLevelDecl(DeclGroupRef group)
{
    for (Decl *decl : group) {
        const FunctionDecl *function = decl->getAsFunction();
        if (!function || !function->isTemplateInstantiation()) /* instances have no text of their own */
            augmenter.TraverseDecl(decl);
    }
    return true;
}

void Writer::HandleTranslationUnit(ASTContext &)
{
    DiagnosticsEngine &diags = compiler.getDiagnostics();
    if (compiler.getLangOpts().CUDAIsDevice || diags.hasErrorOccurred())
        return;
    const SourceManager &sources = compiler.getSourceManager();
    OptionalFileEntryRef input = sources.getFileEntryRefForID(sources.getMainFileID());
    if (input && llvm::sys::fs::equivalent(input->getName(), output)) {
        mt::report(diags, DiagnosticsEngine::Error, SourceLocation(),
                   "cuda-aug: " + output +
                       " is the source itself; name another file after -plugin-arg-cuda-aug -f");
        return;
    }
    augmenter.mend_includes(output);
    llvm::Error error = llvm::writeToOutput(output, [&](raw_ostream &out) {
        augmenter.print(out);
        return llvm::Error::success();
    });
    if (error)
        mt::report(diags, DiagnosticsEngine::Error, SourceLocation(),
                   "cuda-aug: cannot write " + llvm::toString(std::move(error)));
}

namespace
{
class AugmentAction : public PluginASTAction
{
  protected:
    bool ParseArgs(const CompilerInstance &compiler, const std::vector<std::string> &arguments) override
    {
        for (size_t i = 0; i < arguments.size(); i++) {
            if (arguments[i] == "-f" && i + 1 < arguments.size()) {
                output = arguments[++i];
                continue;
            }
            mt::report(compiler.getDiagnostics(), DiagnosticsEngine::Error, SourceLocation(),
                       arguments[i] == "-f"
                           ? "cuda-aug: -f needs a file name (-plugin-arg-cuda-aug FILE)"
                           : "cuda-aug: unknown argument '" + arguments[i] + "'; the only one is -f FILE");
            return false;
        }
        return true;
    }
    std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance &compiler, StringRef input) override
    {
        if (output.empty())
            output = "augmented-" + path::filename(input).str();
        return std::make_unique<Writer>(compiler, output);
    }
    /* Plugins of the default type, "after the main action if asked for", replace the main action if -plugin
     * names them and do nothing otherwise. With "Replace" this would happen in every compilation that loads
     * the plugin. */

  private:
    std::string output;
};
} // namespace

static FrontendPluginRegistry::Add<AugmentAction> register_augment("cuda-aug",
                                                                   "writes the annotated source to a file");
