/* The GPU code of an instrumented module. */
#ifndef MT_PASS_GPU_H
#define MT_PASS_GPU_H
#include "unit/unit.h"

/* context.c. First step on the instrumented module: finds the kernels that can have their context on a
 * GPU, warns of others. */
void mt_unit_plan_gpu(struct mt_unit *u);
int mt_unit_needs_gpu_runtime(struct mt_unit *u);
/* Turns record calls into calls of the GPU's record functions with the context of their launch. */
void mt_unit_pass_context(struct mt_unit *u);
/* gpu_plain.c. plan: on the instrumented module, chooses the kernels that get a version without record
 * calls for the GPU. make: makes them, before record calls get their context. */
void mt_unit_plan_plain(struct mt_unit *u);
void mt_unit_make_plain(struct mt_unit *u);
/* Sets the final name and parameters of each version. */
void mt_unit_name_kernel(struct mt_kernel *k);
/* link.c: links the device runtime into the GPU's module. */
void mt_unit_link_gpu(struct mt_unit *u);
/* Last step: sets the register limit of kernels and keeps their launch bounds. */
void mt_unit_finish_kernels(struct mt_unit *u);
/* backend.c. Removes kernels of other files that are kept for host code; replaces dots in names; keeps
 * sums of indices as they are. */
void mt_gpu_forget_kernels(LLVMModuleRef module);
void mt_gpu_rename_locals(LLVMModuleRef module);
void mt_gpu_keep_sums(LLVMModuleRef module);
/* Marks kernels by their calling convention; attaches the sizes of their clusters. */
void mt_unit_mark_kernels(struct mt_unit *u);
void mt_unit_attach_clusters(struct mt_unit *u);
/* Reports errors for __managed__ variables if only a GPU can run the code. */
void mt_unit_refuse_managed(struct mt_unit *u);
#endif
