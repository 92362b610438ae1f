/* Names of kernels, functions and variables as the source has them: what the runtime, the pass and mt-ptx do
 * around a demangler, whichever they have. */
#ifndef MT_BASE_SOURCE_NAME_H
#define MT_BASE_SOURCE_NAME_H
#ifdef __cplusplus
extern "C" {
#endif

/* A symbol without what compilers put around it where a static or unnamed-namespace thing must be visible to
 * other files' code (-rdc): "__nv_static_27__d88b0b97_6_31a_cu_109353b2__Z3hidPi" of nvcc is "_Z3hidPi",
 * "_ZL3hidPi__intern__c0e500b5f5fc16a9" of clang is "_ZL3hidPi". malloc'ed; NULL: no memory. */
char *mt_source_symbol(const char *symbol);
/* The rest, in the demangled text, in place: nvcc's namespace of a file, its types of lambdas, the two ways
 * to write a lambda, and Numba's names (python_name.h). */
void mt_source_text(char *text);
/* A demangled function without its result and parameters, in place: "int ns::f<int>(int*)" is "ns::f<int>".
 */
void mt_source_function(char *text);

#ifdef __cplusplus
}
#endif
#endif
