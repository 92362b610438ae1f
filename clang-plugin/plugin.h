/* Interfaces between the plugin's files. The plugin talks to the pass only by options
 * (llvm-pass/unit/options.h) and annotations. All state belongs to the single compilation of a cc1 process.
 */
#ifndef MT_PLUGIN_H
#define MT_PLUGIN_H
#include "compat.h"
#include "unit/options.h"
#include <string>
#include <vector>

namespace mt
{

/* ---- place.cpp: names of files ----------------------------------------------------------------------- */
/* Returns the absolute, normalised path of a file as line tables name it; applies #line and
 * -ffile-prefix-map. */
std::string traced_path(const clang::CompilerInstance &compiler, llvm::StringRef presumed);
/* Returns the real path of the shared object that contains this code, or "" if unknown. */
std::string own_path();

/* ---- facts.cpp: annotations of functions -------------------------------------------------------------- */
/* Annotation of a kernel with __cluster_dims__. In the source its arguments are the sizes; for the pass they
 * follow in the text. */
inline constexpr const char cluster_word[] = MT_ANNOTATION "cluster";
/* Returns true for a kernel, or a function that device code can call. */
bool is_device_code(const clang::FunctionDecl *function);
/* Returns the qualified name with template arguments, without parameters. */
std::string pretty_name(const clang::FunctionDecl *function);
/* Returns the annotation's text. The name is empty for a template; its instances have names of their own. */
std::string facts_text(const clang::CompilerInstance &compiler, const clang::FunctionDecl *function);
/* Annotates everything in `decl`, including functions inside it. */
void annotate_tree(const clang::CompilerInstance &compiler, clang::Decl *decl);
/* Annotates a function if the pass needs its facts. */
void annotate_function(const clang::CompilerInstance &compiler, clang::FunctionDecl *function);

/* ---- names.cpp: names of host variables ---------------------------------------------------------------- */
inline constexpr const char variable_word[] = MT_ANNOTATION "variable";
/* Annotates the local variables in `decl` that can contain a pointer, and the members of a class. */
void name_variables(const clang::CompilerInstance &compiler, clang::Decl *decl);
void name_members(const clang::CompilerInstance &compiler, clang::TagDecl *decl);

/* ---- access_names.cpp: names of what device code accesses ---------------------------------------------- */
void name_accesses(const clang::CompilerInstance &compiler, clang::Decl *decl);

/* ---- arguments.cpp: -fplugin-arg-memtrace-* ---------------------------------------------------------- */
/* Returns false after an error, which has been reported. */
bool read_arguments(const clang::CompilerInstance &compiler, const std::vector<std::string> &arguments);

/* ---- codegen.cpp: code generation --------------------------------------------------------------------- */
/* Puts the overlay's headers before those of another CUDA toolkit in a system folder (/usr/local/include),
 * which clang would find first. */
void prefer_overlay(clang::CompilerInstance &compiler);
/* Adds the pass, turns on line tables, and warns if the CPU image would get lost. */
void prepare_codegen(clang::CompilerInstance &compiler);

/* ---- asm_names.cpp ------------------------------------------------------------------------------------ */
/* Lets names of PTX in asm have a single %. */
void mend_asm_names(clang::CompilerInstance &compiler);

/* ---- pragma.cpp -------------------------------------------------------------------------------------- */
/* Passes the regions of this compilation to the pass. */
void hand_over_regions(const clang::CompilerInstance &compiler);

} // namespace mt
#endif
