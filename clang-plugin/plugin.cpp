/* The action "memtrace", which runs before code generation in every cc1 that loads the plugin. */
#include "plugin.h"

using namespace clang;

namespace
{
/* Annotates each function before code generation: MultiplexConsumer calls this consumer first. */
class Consumer : public ASTConsumer
{
  public:
    explicit Consumer(CompilerInstance &c) : compiler(c)
    {
    }
    bool HandleTopLevelDecl(DeclGroupRef group) override
    {
        for (Decl *decl : group) {
            if (compiler.getLangOpts().CUDA)
                mt::annotate_tree(compiler, decl);
            mt::name_accesses(compiler, decl);
            mt::name_variables(compiler, decl);
        }
        return true;
    }
    void HandleInlineFunctionDefinition(FunctionDecl *function) override
    {
        if (compiler.getLangOpts().CUDA)
            mt::annotate_tree(compiler, function);
        mt::name_accesses(compiler, function);
        mt::name_variables(compiler, function);
    }
    void HandleTagDeclDefinition(TagDecl *tag) override
    {
        mt::name_members(compiler, tag);
    }
    /* Annotates a template instance when it is used, since it may be called before its body is made at the
     * end of the file. */
    void HandleCXXImplicitFunctionInstantiation(FunctionDecl *function) override
    {
        if (compiler.getLangOpts().CUDA)
            mt::annotate_function(compiler, function);
    }
    void HandleTranslationUnit(ASTContext &) override
    {
        mt::hand_over_regions(compiler);
        if (compiler.getLangOpts().CUDA && compiler.getDiagnostics().hasErrorOccurred())
            llvm::errs()
                << "memtrace: nvcc takes some things that clang 19 refuses (braces for a dim3 or blanks in "
                   "<<< and >>>); what nvcc compiles is traced by: memtrace run ./app\n";
    }

  private:
    CompilerInstance &compiler;
};

class PluginAction : public PluginASTAction
{
  protected:
    bool ParseArgs(const CompilerInstance &compiler, const std::vector<std::string> &arguments) override
    {
        return mt::read_arguments(compiler, arguments);
    }
    std::unique_ptr<ASTConsumer> CreateASTConsumer(CompilerInstance &compiler, StringRef) override
    {
        mt::prefer_overlay(compiler);
        mt::prepare_codegen(compiler);
        if (!mt::is_our_language(compiler.getLangOpts()))
            return std::make_unique<ASTConsumer>();
        if (compiler.getLangOpts().CUDA)
            mt::mend_asm_names(compiler);
        return std::make_unique<Consumer>(compiler);
    }
    ActionType getActionType() override
    {
        return AddBeforeMainAction;
    }
};
} // namespace

static FrontendPluginRegistry::Add<PluginAction> register_plugin("memtrace",
                                                                 "memory-trace instrumentation of CUDA code");
