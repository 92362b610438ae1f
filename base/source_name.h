/* Names of kernels, functions and variables as the source has them: steps before and after any demangler, for
 * the runtime, the pass and mt-ptx. */
#ifndef MT_BASE_SOURCE_NAME_H
#define MT_BASE_SOURCE_NAME_H
#ifdef __cplusplus
extern "C" {
#endif

/* Removes what compilers add to symbols of static or unnamed-namespace objects that other files' code must
 * see (-rdc): nvcc's "__nv_static_27__d88b0b97_6_31a_cu_109353b2__Z3hidPi" becomes "_Z3hidPi", clang's
 * "_ZL3hidPi__intern__c0e500b5f5fc16a9" becomes "_ZL3hidPi". malloc'ed; NULL: no memory. */
char *mt_source_symbol(const char *symbol);
/* Removes further additions from demangled text, in place: nvcc's file namespaces and lambda types,
 * differences between demanglers, and Numba's names (python_name.h). */
void mt_source_text(char *text);
/* Removes the result and parameters of a demangled function, in place: "int ns::f<int>(int*)" becomes
 * "ns::f<int>". */
void mt_source_function(char *text);

#ifdef __cplusplus
}
#endif
#endif
