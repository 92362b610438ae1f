/* Entry points of the pass, and declarations shared by its parts. Everything is C over llvm-c (LLVM 19). */
#ifndef MT_PASS_H
#define MT_PASS_H
#include <llvm-c/Core.h>
#ifdef __cplusplus
extern "C" {
#endif
/* Module passes; each returns 1 if it changed the module. */
int mt_pass_early(LLVMModuleRef module);  /* device side, before optimisation: keeps the annotations */
int mt_pass_device(LLVMModuleRef module); /* whole device side: instrument, CPU image, GPU runtime */
/* Compiles only the CPU image, by up to n processes (MT_PARTS_MAX), as objects to be linked to one.
 * Returns their number (the caller owns them), or 0 after a diagnostic. Consumes the module. */
#define MT_PARTS_MAX 8
unsigned mt_pass_image_parts(LLVMModuleRef module, unsigned n, LLVMMemoryBufferRef *objects);
/* front.c: makes the module what its PTX says. Returns 0, or -1 after a diagnostic. */
int mt_pass_front(LLVMModuleRef module);
/* Turns stack variables and registers of mt_ptx_read's result into values, before it is instrumented. */
void mt_pass_promote(LLVMModuleRef module);
int mt_pass_host(LLVMModuleRef module); /* host side, before optimisation: call sites, names for tracing */
int mt_pass_host_trace(LLVMModuleRef module);      /* host side, after optimisation: accesses (option host) */
int mt_pass_instrument_only(LLVMModuleRef module); /* record calls and hidden parameter; for tests */
int mt_pass_lower_only(LLVMModuleRef module); /* an instrumented module becomes the CPU module; for tests */
#ifdef __cplusplus
}
#endif
#endif
