/* The CPU image of a module that is being lowered (lower/): its kernels' functions, its tables, its object.
 */
#ifndef MT_PASS_CPU_H
#define MT_PASS_CPU_H
#include "lower/lowering.h"

/* image.c: lists the program's variables, before builtins come in; the tables, when all else is there. */
void mt_image_variables(struct mt_lowering *l);
void mt_image_tables(struct mt_lowering *l);
/* kernels.c: which builtins the functions of kernels will call; which kernels wait; these functions, where
 * vectors (vector/) do not take all launches. */
void mt_declare_registers(struct mt_lowering *l);
void mt_kernels_wait(struct mt_lowering *l);
void mt_lower_kernels(struct mt_lowering *l);
/* emit.c. NULL after a diagnostic. */
LLVMTargetMachineRef mt_set_cpu_target(struct mt_unit *u, LLVMModuleRef clone);
/* Optimises and compiles a module that was lowered; NULL after a diagnostic. */
LLVMMemoryBufferRef mt_unit_compile(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine);
/* split.c: the same by n processes at once, as objects to be linked to one image. How many there are; 0 after
 * a diagnostic. */
unsigned mt_unit_compile_parts(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned n,
                               LLVMMemoryBufferRef *objects);
/* attach.c: puts the object into the module as one comment line of its PTX. */
void mt_image_attach(LLVMModuleRef carrier, LLVMMemoryBufferRef object);
#endif
