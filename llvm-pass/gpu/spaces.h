/* Record calls in GPU code for memory other than global (option spaces). */
#ifndef MT_PASS_GPU_SPACES_H
#define MT_PASS_GPU_SPACES_H
#include "unit/unit.h"

/* Turns the address of a record call into a number in its space. Returns an i1, built before the call,
 * that says there is nothing to record; or NULL if no test is needed. */
LLVMValueRef mt_gpu_narrow_space(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call);
#endif
