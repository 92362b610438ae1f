/* What the files of the AST side share. The pass's options (llvm-pass/unit/options.h) are the only way from
 * here to the pass, apart from the annotations. All state is that of the one compilation
 * that a cc1 process runs. */
#ifndef MT_PLUGIN_H
#define MT_PLUGIN_H
#include "compat.h"
#include "unit/options.h"
#include <string>
#include <vector>

namespace mt
{

/* ---- place.cpp: names of files ----------------------------------------------------------------------- */
/* Absolute, normalised path of a file as line tables name it (#line and -ffile-prefix-map obeyed). */
std::string traced_path(const clang::CompilerInstance &compiler, llvm::StringRef presumed);
/* Real path of the shared object that this code is in; "" when unknown. */
std::string own_path();

/* ---- facts.cpp: what the annotations say ------------------------------------------------------------- */
/* Of a kernel with __cluster_dims__, as the source has it: the annotation's text, whose arguments are the
 * sizes; the pass gets it with the sizes after it. */
inline constexpr const char cluster_word[] = MT_ANNOTATION "cluster";
/* A kernel, or a function that device code can call. */
bool is_device_code(const clang::FunctionDecl *function);
/* Qualified name with template arguments and without the parameter list. */
std::string pretty_name(const clang::FunctionDecl *function);
/* The annotation's text. A template has no name of its own: the field is empty, its instances get theirs. */
std::string facts_text(const clang::CompilerInstance &compiler, const clang::FunctionDecl *function);
/* Annotates what is in `decl` and in functions inside it. */
void annotate_tree(const clang::CompilerInstance &compiler, clang::Decl *decl);
/* Annotates this function, if it is the kind that is. */
void annotate_function(const clang::CompilerInstance &compiler, clang::FunctionDecl *function);

/* ---- names.cpp: what the host's variables are called -------------------------------------------------- */
inline constexpr const char variable_word[] = MT_ANNOTATION "variable";
/* Annotates the local variables in `decl` that can hold a pointer, and the members of a class. */
void name_variables(const clang::CompilerInstance &compiler, clang::Decl *decl);
void name_members(const clang::CompilerInstance &compiler, clang::TagDecl *decl);

/* ---- access_names.cpp: what device code's accesses are of --------------------------------------------- */
void name_accesses(const clang::CompilerInstance &compiler, clang::Decl *decl);

/* ---- arguments.cpp: -fplugin-arg-memtrace-* ---------------------------------------------------------- */
/* False after an error, which has been reported. */
bool read_arguments(const clang::CompilerInstance &compiler, const std::vector<std::string> &arguments);

/* ---- codegen.cpp: what code generation needs --------------------------------------------------------- */
/* The overlay's headers before those of another CUDA toolkit in the system's folders (/usr/local/include),
 * which clang would find first. */
void prefer_overlay(clang::CompilerInstance &compiler);
/* Adds the pass, turns line tables on, warns when the CPU image would get lost. */
void prepare_codegen(clang::CompilerInstance &compiler);

/* ---- asm_names.cpp ------------------------------------------------------------------------------------ */
/* Sees to it that names of PTX in asm may have one %. */
void mend_asm_names(clang::CompilerInstance &compiler);

/* ---- pragma.cpp -------------------------------------------------------------------------------------- */
/* Hands the regions of this compilation to the pass. */
void hand_over_regions(const clang::CompilerInstance &compiler);

} // namespace mt
#endif
