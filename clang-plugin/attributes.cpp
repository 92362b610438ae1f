/* Attributes [[memtrace::skip]] and [[memtrace::trace]], in GNU syntax memtrace_skip and memtrace_trace, and
 * cluster_dims, which Clang 19 lacks. */
#include "plugin.h"
#include "clang/Sema/Lookup.h"
#include "clang/Sema/SemaDiagnostic.h"

using namespace clang;

static bool has_annotation(const Decl *decl, StringRef text)
{
    for (const auto *annotation : decl->specific_attrs<AnnotateAttr>())
        if (annotation->getAnnotation() == text && !annotation->isInherited())
            return true;
    return false;
}

static bool wrong_place(Sema &sema, const ParsedAttr &attribute)
{
    sema.Diag(attribute.getLoc(), diag::warn_attribute_wrong_decl_type_str)
        << "'" + attribute.getNormalizedFullName() + "'" << attribute.isRegularKeywordAttribute()
        << "functions";
    return false;
}

namespace
{
struct Choice : ParsedAttrInfo {
    const char *own, *other, *other_name;

    Choice(ArrayRef<Spelling> spellings, const char *own, const char *other, const char *other_name)
        : own(own), other(other), other_name(other_name)
    {
        Spellings = spellings;
    }
    bool diagAppertainsToDecl(Sema &sema, const ParsedAttr &attribute, const Decl *decl) const override
    {
        if (decl->getAsFunction())
            return true;
        return wrong_place(sema, attribute);
    }
    bool diagAppertainsToStmt(Sema &sema, const ParsedAttr &attribute, const Stmt *) const override
    {
        return wrong_place(sema, attribute);
    }
    AttrHandling handleDeclAttribute(Sema &sema, Decl *decl, const ParsedAttr &attribute) const override
    {
        if (has_annotation(decl, other)) {
            sema.Diag(attribute.getLoc(), diag::err_attributes_are_not_compatible)
                << "'" + attribute.getNormalizedFullName() + "'" << other_name
                << attribute.isRegularKeywordAttribute();
            return AttributeNotApplied;
        }
        if (!has_annotation(decl, own))
            mt::add_annotation(decl, own, attribute.getRange());
        return AttributeApplied;
    }
};

constexpr const char skip_text[] = MT_ANNOTATION "skip", trace_text[] = MT_ANNOTATION "trace";

struct Skip : Choice {
    static constexpr Spelling spellings[] = {{ParsedAttr::AS_CXX11, "memtrace::skip"},
                                             {ParsedAttr::AS_C23, "memtrace::skip"},
                                             {ParsedAttr::AS_GNU, "memtrace_skip"}};
    Skip() : Choice(spellings, skip_text, trace_text, "'memtrace::trace'")
    {
    }
};

struct Trace : Choice {
    static constexpr Spelling spellings[] = {{ParsedAttr::AS_CXX11, "memtrace::trace"},
                                             {ParsedAttr::AS_C23, "memtrace::trace"},
                                             {ParsedAttr::AS_GNU, "memtrace_trace"}};
    Trace() : Choice(spellings, trace_text, skip_text, "'memtrace::skip'")
    {
    }
};
} // namespace

/* Returns an argument as an expression, or NULL if it is none. A single name as the first argument arrives as
 * an identifier, as in attributes that take one. */
static Expr *attributes_argument(Sema &sema, const ParsedAttr &attribute, unsigned i)
{
    if (attribute.isArgExpr(i))
        return attribute.getArgAsExpr(i);
    if (!attribute.isArgIdent(i))
        return nullptr;
    IdentifierLoc *name = attribute.getArgAsIdent(i);
    CXXScopeSpec scope;
    LookupResult found(sema, name->Ident, name->Loc, Sema::LookupOrdinaryName);
    sema.LookupName(found, sema.getCurScope());
    if (found.empty())
        return nullptr;
    return sema.BuildDeclarationNameExpr(scope, found, /*NeedsADL=*/false).get();
}

namespace
{
/* __cluster_dims__(x, y, z) of CUDA's headers. The sizes remain expressions until templates are instantiated.
 */
struct ClusterDims : ParsedAttrInfo {
    static constexpr Spelling spellings[] = {{ParsedAttr::AS_GNU, "cluster_dims"}};
    ClusterDims()
    {
        Spellings = spellings;
        OptArgs = 3;
    }
    bool diagAppertainsToDecl(Sema &sema, const ParsedAttr &attribute, const Decl *decl) const override
    {
        return decl->getAsFunction() || wrong_place(sema, attribute);
    }
    AttrHandling handleDeclAttribute(Sema &sema, Decl *decl, const ParsedAttr &attribute) const override
    {
        SmallVector<Expr *, 3> sizes;
        for (unsigned i = 0; i < attribute.getNumArgs(); i++) {
            Expr *size = attributes_argument(sema, attribute, i);
            if (!size) {
                sema.Diag(attribute.getLoc(), diag::err_attribute_argument_type)
                    << attribute << AANT_ArgumentIntegerConstant;
                return AttributeNotApplied;
            }
            sizes.push_back(size);
        }
        mt::add_annotation(decl, mt::cluster_word, sizes, attribute.getRange());
        return AttributeApplied;
    }
};
} // namespace

static ParsedAttrInfoRegistry::Add<Skip> register_skip("memtrace_skip",
                                                       "this function's own code is not traced");
static ParsedAttrInfoRegistry::Add<Trace> register_trace("memtrace_trace",
                                                         "traced in spite of pragmas and filters");
static ParsedAttrInfoRegistry::Add<ClusterDims> register_cluster("cluster_dims",
                                                                 "CTAs of a kernel's clusters");
