/* The GPU's code of an instrumented module. */
#ifndef MT_PASS_GPU_H
#define MT_PASS_GPU_H
#include "unit/unit.h"

/* context.c. First, on the instrumented module: which kernels can have their context on a GPU;
 * warns of others. */
void mt_unit_plan_gpu(struct mt_unit *u);
int mt_unit_needs_gpu_runtime(struct mt_unit *u);
/* Record calls become calls of the GPU's record functions, with their launch's context. */
void mt_unit_pass_context(struct mt_unit *u);
/* gpu_plain.c. On the instrumented module: which kernels get a version without record calls for the GPU; and,
 * before its record calls have their context, makes them. */
void mt_unit_plan_plain(struct mt_unit *u);
void mt_unit_make_plain(struct mt_unit *u);
/* The name and the parameters that each version will have, at the end. */
void mt_unit_name_kernel(struct mt_kernel *k);
/* link.c: links the device runtime into the GPU's module. */
void mt_unit_link_gpu(struct mt_unit *u);
/* When all that is to be is there: kernels get their limit of registers and keep their launch bounds. */
void mt_unit_finish_kernels(struct mt_unit *u);
/* backend.c. Kernels of other files go from what is kept for host code; names without dots; sums of indices
 * stay what they are. */
void mt_gpu_forget_kernels(LLVMModuleRef module);
void mt_gpu_rename_locals(LLVMModuleRef module);
void mt_gpu_keep_sums(LLVMModuleRef module);
/* Kernels by their calling convention, with the sizes of their clusters. */
void mt_unit_mark_kernels(struct mt_unit *u);
void mt_unit_attach_clusters(struct mt_unit *u);
/* Errors for __managed__ variables where nothing but a GPU can run the code. */
void mt_unit_refuse_managed(struct mt_unit *u);
#endif
