/* The GPU code of an instrumented module. */
#ifndef MT_PASS_GPU_H
#define MT_PASS_GPU_H
#include "unit/unit.h"

/* context.c. First step on the instrumented module: finds the kernels that can have their context on a
 * GPU, warns of others. */
void mt_unit_plan_gpu(struct mt_unit *u);
/* gpu/context.c. plan: on the instrumented module, chooses the kernels that get a version without record
 * calls for the GPU. make: makes them, before record calls get their context. */
void mt_unit_plan_plain(struct mt_unit *u);
/* context.c: links the device runtime into the GPU's module. */
void mt_unit_link_gpu(struct mt_unit *u);
/* Last step: sets the register limit of kernels and keeps their launch bounds. */
void mt_unit_finish_kernels(struct mt_unit *u);
#endif
