/* Annotates host variables and members with their names, by which the pass names allocations
 * (llvm-pass/host/host.c). Clang's release builds keep no value names. */
#include "plugin.h"

/* Returns a type's shape for the pass: p pointer, r record or array, & reference, ? unknown until the
 * template is instantiated, '\0' for types that contain no pointer. */
static char shape_of(const clang::ASTContext &context, clang::QualType type)
{
    if (const auto *alias = type->getAs<clang::TypedefType>())
        if (alias->getDecl()->getName() == "CUdeviceptr")
            return 'p';
    if (type->isReferenceType())
        return '&';
    if (type->isPointerType())
        return type->isFunctionPointerType() ? '\0' : 'p';
    if (type->isDependentType())
        return '?';
    if (type->isRecordType())
        return 'r';
    const clang::ArrayType *array = context.getAsArrayType(type);
    return array && shape_of(context, array->getElementType()) ? 'r' : '\0';
}

static uint64_t names_size_of(const clang::ASTContext &context, clang::QualType type)
{
    if (type->isDependentType() || type->isIncompleteType() || type->isFunctionType() ||
        !type->isObjectType() || !type->isConstantSizeType())
        return 0;
    const auto *record = type->getAsCXXRecordDecl();
    return record && record->isInvalidDecl() ? 0 : (uint64_t)context.getTypeSizeInChars(type).getQuantity();
}

/* Annotates a variable or member with its name, its shape, the shape of what it points or refers to ('-':
 * irrelevant), and the size of that, or its own size if it is neither pointer nor reference. */
static void annotate_variable(const clang::CompilerInstance &compiler, clang::DeclaratorDecl *decl,
                              llvm::StringRef name, clang::QualType type)
{
    const clang::ASTContext &context = decl->getASTContext();
    clang::QualType holds = type;
    char shape = name.empty() || decl->isInvalidDecl() ? '\0' : shape_of(context, type), inner = '-';
    if (!shape || decl->getLocation().isInvalid() ||
        compiler.getSourceManager().isInSystemHeader(decl->getLocation()))
        return;
    for (const auto *annotation : decl->specific_attrs<clang::AnnotateAttr>())
        if (annotation->getAnnotation().starts_with(mt::variable_word))
            return;
    if (shape == '&' || type->isPointerType()) {
        holds = type->getPointeeType();
        inner = shape_of(context, holds);
        inner = inner ? inner : '-';
    }
    mt::add_annotation(decl, (mt::variable_word + llvm::Twine('\t') + name + "\t" + llvm::Twine(shape) +
                              "\t" + llvm::Twine(inner) + "\t" + llvm::Twine(names_size_of(context, holds)))
                                 .str());
}

namespace
{
class Namer : public clang::RecursiveASTVisitor<Namer>
{
  public:
    explicit Namer(const clang::CompilerInstance &c) : compiler(c)
    {
    }
    bool VisitVarDecl(clang::VarDecl *variable)
    {
        if (variable->hasLocalStorage())
            annotate_variable(compiler, variable, variable->getName(), variable->getType());
        return true;
    }
    /* A capture is an unnamed member of the lambda; it gets the variable's name, whether it is a reference or
     * not. */
    bool VisitLambdaExpr(clang::LambdaExpr *lambda)
    {
        auto field = lambda->getLambdaClass()->field_begin(), end = lambda->getLambdaClass()->field_end();
        for (const clang::LambdaCapture &capture : lambda->captures()) {
            if (field == end)
                break;
            if (capture.capturesVariable())
                annotate_variable(compiler, *field, capture.getCapturedVar()->getName(),
                                  field->getType().getNonReferenceType());
            ++field;
        }
        return true;
    }

  private:
    const clang::CompilerInstance &compiler;
};
} // namespace

static bool is_named(const clang::CompilerInstance &compiler, const clang::Decl *decl)
{
    return !compiler.getLangOpts().CUDAIsDevice && mt::makes_code(compiler) &&
           !(decl->getLocation().isValid() &&
             compiler.getSourceManager().isInSystemHeader(decl->getLocation()));
}

void mt::name_variables(const clang::CompilerInstance &compiler, clang::Decl *decl)
{
    if (is_named(compiler, decl))
        Namer(compiler).TraverseDecl(decl);
}

void mt::name_members(const clang::CompilerInstance &compiler, clang::TagDecl *decl)
{
    auto *record = llvm::dyn_cast<clang::RecordDecl>(decl);
    if (!record || !is_named(compiler, decl) || record->isLambda())
        return;
    for (clang::FieldDecl *field : record->fields())
        if (!field->isBitField())
            annotate_variable(compiler, field, field->getName(), field->getType());
}
