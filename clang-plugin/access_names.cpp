/* Names the memory that each expression of device code reads or writes, as the source does. A site has the
 * file, line and column of its expression, so names match accesses at any level of optimisation. */
#include "plugin.h"

namespace
{
const clang::Expr *bare(const clang::Expr *e)
{
    return e ? e->IgnoreParenCasts() : nullptr;
}

/* Returns the name of a pointer: `grid.cells`, `m->cells`, `cells` for this->cells; "" if it has none. */
std::string pointer_name(const clang::Expr *e);

std::string member_name(const clang::Expr *base, bool arrow, llvm::StringRef member)
{
    const clang::Expr *object = bare(base);
    if (!object || llvm::isa<clang::CXXThisExpr>(object))
        return member.str();
    std::string name = pointer_name(object);
    return name.empty() ? "" : name + (arrow ? "->" : ".") + member.str();
}

std::string pointer_name(const clang::Expr *e)
{
    e = bare(e);
    if (!e)
        return "";
    if (const auto *ref = llvm::dyn_cast<clang::DeclRefExpr>(e))
        return ref->getDecl()->getNameAsString();
    if (llvm::isa<clang::CXXThisExpr>(e))
        return "this";
    if (const auto *member = llvm::dyn_cast<clang::MemberExpr>(e))
        return member_name(member->isImplicitAccess() ? nullptr : member->getBase(), member->isArrow(),
                           member->getMemberDecl()->getName());
    if (const auto *member = llvm::dyn_cast<clang::CXXDependentScopeMemberExpr>(e))
        return member->isImplicitAccess()
                   ? member->getMember().getAsString()
                   : member_name(member->getBase(), member->isArrow(), member->getMember().getAsString());
    if (const auto *subscript = llvm::dyn_cast<clang::ArraySubscriptExpr>(e))
        return pointer_name(subscript->getBase());
    if (const auto *unary = llvm::dyn_cast<clang::UnaryOperator>(e))
        return pointer_name(unary->getSubExpr());
    if (const auto *sum = llvm::dyn_cast<clang::BinaryOperator>(e))
        if (sum->isAdditiveOp() || sum->isAssignmentOp())
            return pointer_name(sum->isAdditiveOp() && sum->getRHS()->getType()->isPointerType()
                                    ? sum->getRHS()
                                    : sum->getLHS());
    return "";
}

/* Returns the name of the object that an expression accesses; members and elements belong to the whole
 * object. */
std::string object_name(const clang::Expr *e)
{
    e = bare(e);
    while (const auto *member = llvm::dyn_cast_or_null<clang::MemberExpr>(e)) {
        if (member->isArrow())
            return pointer_name(member->getBase());
        e = bare(member->getBase());
    }
    if (const auto *subscript = llvm::dyn_cast_or_null<clang::ArraySubscriptExpr>(e))
        return pointer_name(subscript->getBase());
    const auto *unary = llvm::dyn_cast_or_null<clang::UnaryOperator>(e);
    if (unary && unary->getOpcode() == clang::UO_Deref)
        return pointer_name(unary->getSubExpr());
    return "";
}

class AccessNamer : public clang::RecursiveASTVisitor<AccessNamer>
{
  public:
    explicit AccessNamer(const clang::CompilerInstance &c) : compiler(c)
    {
    }
    bool VisitArraySubscriptExpr(clang::ArraySubscriptExpr *e)
    {
        return say(e->getExprLoc(), MT_NAMED_LOAD, e, object_name(e));
    }
    bool VisitMemberExpr(clang::MemberExpr *e)
    {
        return say(e->getExprLoc(), MT_NAMED_LOAD, e, object_name(e));
    }
    bool VisitUnaryOperator(clang::UnaryOperator *e)
    {
        if (e->getOpcode() == clang::UO_Deref)
            return say(e->getExprLoc(), MT_NAMED_LOAD, e, object_name(e));
        if (!e->isIncrementDecrementOp())
            return true;
        std::string name = object_name(e->getSubExpr());
        return say(e->getExprLoc(), MT_NAMED_LOAD, e, name) && say(e->getExprLoc(), MT_NAMED_STORE, e, name);
    }
    bool VisitBinaryOperator(clang::BinaryOperator *e)
    {
        if (!e->isAssignmentOp())
            return true;
        say(e->getExprLoc(), MT_NAMED_STORE, e->getLHS(), object_name(e->getLHS()));
        /* the operand that is read: the left side of `+=`, the source of a structure copy */
        const clang::Expr *from = e->getOpcode() == clang::BO_Assign ? e->getRHS() : e->getLHS();
        return say(e->getExprLoc(), MT_NAMED_LOAD, from, object_name(from));
    }
    bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr *e)
    {
        if (e->getOperator() == clang::OO_Equal && e->getNumArgs() == 2) {
            say(e->getExprLoc(), MT_NAMED_STORE, e->getArg(0), object_name(e->getArg(0)));
            say(e->getExprLoc(), MT_NAMED_LOAD, e->getArg(1), object_name(e->getArg(1)));
        }
        return true;
    }
    /* Handles atomicAdd(p, x), __ldg(p), __stcs(p, x): toolchain functions whose access has the place of the
     * call. */
    bool VisitCallExpr(clang::CallExpr *e)
    {
        const clang::FunctionDecl *f = e->getDirectCallee();
        const clang::IdentifierInfo *id = f ? f->getIdentifier() : nullptr;
        if (!id || !e->getNumArgs() || !e->getArg(0)->getType()->isPointerType())
            return true;
        llvm::StringRef name = id->getName();
        std::string what = pointer_name(e->getArg(0));
        if (name.starts_with("atomic"))
            say(e->getExprLoc(), MT_NAMED_ATOMIC, nullptr, what);
        else if (name.starts_with("__ld"))
            say(e->getExprLoc(), MT_NAMED_LOAD, nullptr, what);
        else if (name.starts_with("__st"))
            say(e->getExprLoc(), MT_NAMED_STORE, nullptr, what);
        return true;
    }

  private:
    const clang::CompilerInstance &compiler;
    clang::FileID last;
    std::string file;

    uint32_t size_of(clang::QualType type) const
    {
        const clang::ASTContext &context = compiler.getASTContext();
        if (type.isNull() || type->isInstantiationDependentType() || !type->isScalarType() ||
            type->isIncompleteType())
            return 0;
        return (uint32_t)context.getTypeSizeInChars(type).getQuantity();
    }
    bool say(clang::SourceLocation at, enum mt_named_access op, const clang::Expr *of,
             const std::string &name)
    {
        const clang::SourceManager &sources = compiler.getSourceManager();
        clang::PresumedLoc place = name.empty() ? clang::PresumedLoc() : sources.getPresumedLoc(at);
        if (place.isInvalid())
            return true;
        if (place.getFileID() != last) {
            last = place.getFileID();
            file = mt::traced_path(compiler, place.getFilename());
        }
        mt_pass_name_access(file.c_str(), place.getLine(), place.getColumn(), op,
                            of ? size_of(of->getType()) : 0, name.c_str());
        return true;
    }
};
} // namespace

void mt::name_accesses(const clang::CompilerInstance &compiler, clang::Decl *decl)
{
    if (!compiler.getLangOpts().CUDAIsDevice ||
        (decl->getLocation().isValid() && compiler.getSourceManager().isInSystemHeader(decl->getLocation())))
        return;
    AccessNamer(compiler).TraverseDecl(decl);
}
