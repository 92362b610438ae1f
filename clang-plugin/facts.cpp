/* Annotates functions with facts that the pass needs: readable names, kernels, device code. */
#include "plugin.h"

static const llvm::StringRef kernel_word = MT_ANNOTATION "kernel", device_word = MT_ANNOTATION "device";

bool mt::is_device_code(const clang::FunctionDecl *function)
{
    return function->hasAttr<clang::CUDAGlobalAttr>() || function->hasAttr<clang::CUDADeviceAttr>();
}

namespace
{
/* Names lambdas by place, without the folder they were compiled in. */
struct ShortPlaces : clang::PrintingCallbacks {
    std::string remapPath(llvm::StringRef file) const override
    {
        return llvm::sys::path::filename(file).str();
    }
};
} // namespace

std::string mt::pretty_name(const clang::FunctionDecl *function)
{
    static const ShortPlaces places;
    const clang::ASTContext &context = function->getASTContext();
    clang::PrintingPolicy policy(context.getPrintingPolicy());
    policy.SuppressTagKeyword = 1;
    policy.Bool = 1;
    policy.Callbacks = &places;
    std::string name;
    llvm::raw_string_ostream out(name);
    const auto *method = llvm::dyn_cast<clang::CXXMethodDecl>(function);
    if (method && method->getParent()->isLambda()) {
        context.getRecordType(method->getParent()).print(out, policy);
        out << "::operator()";
    } else {
        function->getNameForDiagnostic(out, policy, true);
    }
    return name;
}

std::string mt::facts_text(const clang::CompilerInstance &compiler, const clang::FunctionDecl *function)
{
    std::string text;
    llvm::raw_string_ostream out(text);
    clang::PresumedLoc place = compiler.getSourceManager().getPresumedLoc(function->getLocation());
    out << (function->hasAttr<clang::CUDAGlobalAttr>() ? kernel_word : device_word) << '\t';
    if (!function->isDependentContext())
        out << pretty_name(function);
    out << '\t';
    if (place.isValid())
        out << traced_path(compiler, place.getFilename()) << '\t' << place.getLine() << '\t'
            << place.getColumn();
    else
        out << "\t0\t0";
    out << '\t';
    llvm::ListSeparator comma(",");
    /* A lambda's closure has no name in the source; `this` in its body is another object. */
    const auto *method = llvm::dyn_cast<clang::CXXMethodDecl>(function);
    if (method && method->isImplicitObjectMemberFunction())
        out << comma << (method->getParent()->isLambda() ? "" : "this");
    for (const clang::ParmVarDecl *parameter : function->parameters())
        out << comma << parameter->getName();
    return text;
}

static bool is_facts(const clang::Attr *attribute)
{
    const auto *annotation = llvm::dyn_cast<clang::AnnotateAttr>(attribute);
    return annotation && (annotation->getAnnotation().starts_with(kernel_word) ||
                          annotation->getAnnotation().starts_with(device_word));
}

/* Returns true if the annotation was written for this function, not inherited from another declaration or
 * from its template, which has no name. */
static bool is_own_facts(const clang::Attr *attribute)
{
    if (!is_facts(attribute) || attribute->isImplicit() || attribute->isInherited())
        return false;
    llvm::StringRef name = llvm::cast<clang::AnnotateAttr>(attribute)->getAnnotation().split('\t').second;
    return !name.starts_with("\t");
}

/* Returns one size of __cluster_dims__, or 0 after an error. */
static unsigned cluster_size(const clang::CompilerInstance &compiler, const clang::ASTContext &context,
                             const clang::Expr *size)
{
    auto value = size->getIntegerConstantExpr(context);
    if (value && *value >= 1 && *value <= 0xffff)
        return (unsigned)value->getZExtValue();
    mt::report(compiler.getDiagnostics(), clang::DiagnosticsEngine::Error, size->getExprLoc(),
               "__cluster_dims__: expected a positive constant");
    return 0;
}

/* Replaces the source's expressions for the cluster size by a text for the pass. */
static void facts_cluster(const clang::CompilerInstance &compiler, clang::FunctionDecl *function)
{
    auto is_source = [](const clang::Attr *a) {
        const auto *annotation = llvm::dyn_cast<clang::AnnotateAttr>(a);
        return annotation && annotation->getAnnotation() == mt::cluster_word;
    };
    if (!function->hasAttrs())
        return;
    auto found = llvm::find_if(function->attrs(), is_source);
    if (found == function->attr_end())
        return;
    std::string text = mt::cluster_word;
    unsigned count = 0;
    for (const clang::Expr *size : llvm::cast<clang::AnnotateAttr>(*found)->args()) {
        text += "\t" + std::to_string(cluster_size(compiler, function->getASTContext(), size));
        count++;
    }
    for (; count && count < 3; count++)
        text += "\t1";
    llvm::erase_if(function->getAttrs(), is_source);
    if (function->getAttrs().empty())
        function->dropAttrs();
    if (count && function->hasAttr<clang::CUDAGlobalAttr>())
        mt::add_annotation(function, text);
}

void mt::annotate_function(const clang::CompilerInstance &compiler, clang::FunctionDecl *function)
{
    bool instance = function->isTemplateInstantiation();
    if (!is_device_code(function) || function->isDependentContext() ||
        !(instance || function->doesThisDeclarationHaveABody()) || function->getLocation().isInvalid() ||
        compiler.getSourceManager().isInSystemHeader(function->getLocation()))
        return;
    facts_cluster(compiler, function);
    std::string text = facts_text(compiler, function);
    if (function->hasAttrs()) {
        auto own = llvm::find_if(function->attrs(), is_own_facts);
        const clang::Attr *kept = own != function->attr_end() && !instance ? *own : nullptr;
        llvm::erase_if(function->getAttrs(), [=](const clang::Attr *a) { return is_facts(a) && a != kept; });
        if (function->getAttrs().empty())
            function->dropAttrs();
        if (kept)
            return;
    }
    add_annotation(function, text);
}

/* Warns, once per command, of an attribute on host code, where it has no effect. */
static void warn_host_only(const clang::CompilerInstance &compiler, const clang::FunctionDecl *function)
{
    if (compiler.getLangOpts().CUDAIsDevice || mt::is_device_code(function) || mt_pass_options.host ||
        function->isTemplateInstantiation())
        return;
    for (const auto *annotation : function->specific_attrs<clang::AnnotateAttr>())
        if (annotation->getAnnotation().starts_with(MT_ANNOTATION) && !annotation->isInherited())
            mt::report(compiler.getDiagnostics(), clang::DiagnosticsEngine::Warning,
                       annotation->getLocation(),
                       "this has no effect on host code: it is for kernels and __device__ functions");
}

namespace
{
class Annotator : public clang::RecursiveASTVisitor<Annotator>
{
  public:
    explicit Annotator(const clang::CompilerInstance &c) : compiler(c)
    {
    }
    bool VisitFunctionDecl(clang::FunctionDecl *function)
    {
        mt::annotate_function(compiler, function);
        warn_host_only(compiler, function);
        return true;
    }
    bool VisitVarDecl(clang::VarDecl *variable)
    {
        const auto *section = variable->getAttr<clang::SectionAttr>();
        if (section && section->getName() == MT_MANAGED_SECTION)
            mt::keep_for_host(variable);
        return true;
    }
    /* Visits the call operator, which is implicit code and therefore not visited otherwise. */
    bool VisitLambdaExpr(clang::LambdaExpr *lambda)
    {
        mt::annotate_function(compiler, lambda->getCallOperator());
        return true;
    }

  private:
    const clang::CompilerInstance &compiler;
};
} // namespace

void mt::annotate_tree(const clang::CompilerInstance &compiler, clang::Decl *decl)
{
    if (decl->getLocation().isValid() && compiler.getSourceManager().isInSystemHeader(decl->getLocation()))
        return;
    Annotator(compiler).TraverseDecl(decl);
}
