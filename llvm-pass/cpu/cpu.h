/* The CPU image of a module that is being lowered (lower/): the functions of its kernels, its tables, its
 * object file. */
#ifndef MT_PASS_CPU_H
#define MT_PASS_CPU_H
#include "lower/lowering.h"

/* image.c: lists the program's variables before builtins are linked in; writes the tables once all else is
 * there. */
void mt_image_variables(struct mt_lowering *l);
void mt_image_tables(struct mt_lowering *l);
/* lower.c: declares the builtins that kernel functions will call; finds kernels that wait; makes these
 * functions, unless vectors (vector/) take all launches. */
void mt_declare_registers(struct mt_lowering *l);
/* image.c. Returns NULL after a diagnostic. */
LLVMTargetMachineRef mt_set_cpu_target(struct mt_unit *u, LLVMModuleRef clone);
/* Compiles with n processes at once, to objects that are linked to one image. Returns their
 * number, or 0 after a diagnostic. */
unsigned mt_unit_compile_parts(struct mt_unit *u, LLVMModuleRef m, LLVMTargetMachineRef machine, unsigned n,
                               LLVMMemoryBufferRef *objects);
#endif
