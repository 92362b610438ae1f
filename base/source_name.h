/* Names of kernels, functions and variables as the source has them: steps before and after any demangler, for
 * the runtime, the pass and mt-ptx. */
#ifndef MT_BASE_SOURCE_NAME_H
#define MT_BASE_SOURCE_NAME_H

#include <stddef.h>

/* ---- Names of kernels that were compiled from Python ---- */

#ifdef __cplusplus
extern "C" {
#endif

/* Turns a demangled name of Numba's, with or without parameters, into the Python function's, in place:
 * "__main__::outer::_3clocals_3e::k[abi:v1][abi:cw51...]" becomes "outer.<locals>.k". Functions of other
 * modules keep the module's name before a dot. Returns 1, or 0 with the text unchanged if it is not Numba's.
 */
int mt_python_name(char *text);

#ifdef __cplusplus
}
#endif

/* ---- Source file names, for the runtime and the compiler pass ---- */

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 1 for a header of the toolchain (CUDA, CUB, the C library), whose accesses are attributed to the
 * calling line. `path` comes from mt_source_full. Looks for files; not thread-safe. */
int mt_is_toolchain_file(const char *path);
/* Writes the path of `file` in `folder` (unless it is absolute) without "." and "..", so that a file has one
 * name. Truncates it to `bytes` (at least 1). */
void mt_source_full(char *out, size_t bytes, const char *folder, const char *file);

#ifdef __cplusplus
}
#endif

/* C++ names as the source has them, demangled by the program's C++ library, since this library is not linked
 * with one. Thread-safe. */

/* Looks for the program's C++ library. Asks the dynamic linker, so the caller must hold no lock. */
void mt_demangle_prepare(void);
/* Returns the demangled name, malloc'ed, or NULL if `name` is not mangled, or if there is no C++ library and
 * source_name.h changes nothing. */
char *mt_demangle(const char *name);
/* Returns a function's name without parameters, such as "ns::f<int>", or a copy of `name` if that is unknown.
 * malloc'ed; NULL: no memory. */
char *mt_demangle_name(const char *name);

/* ---- Long names of kernels and functions, shortened for messages ---- */

#define MT_SHORT 120 /* bytes */

struct mt_short {
    char text[MT_SHORT + 8];
};
/* Shortens a name of any length (or NULL) to MT_SHORT bytes. First the inside of its brackets goes, "foo<4,
 * F<…> >::bar(…)" or if needed "foo<…>::bar(…)", then its middle. The result is for one call:
 * mt_report("kernel %s", mt_short(name).text). */
struct mt_short mt_short(const char *name);

#ifdef __cplusplus
extern "C" {
#endif

/* Removes what compilers add to symbols of static or unnamed-namespace objects that other files' code must
 * see (-rdc): nvcc's "__nv_static_27__d88b0b97_6_31a_cu_109353b2__Z3hidPi" becomes "_Z3hidPi", clang's
 * "_ZL3hidPi__intern__c0e500b5f5fc16a9" becomes "_ZL3hidPi". malloc'ed; NULL: no memory. */
char *mt_source_symbol(const char *symbol);
/* Removes further additions from demangled text, in place: nvcc's file namespaces and lambda types,
 * differences between demanglers, and Numba's names (source_name.h). */
void mt_source_text(char *text);
/* Removes the result and parameters of a demangled function, in place: "int ns::f<int>(int*)" becomes
 * "ns::f<int>". */
void mt_source_function(char *text);

#ifdef __cplusplus
}
#endif

#endif
