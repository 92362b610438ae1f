/* Record calls of other memory than global (option spaces) in the GPU's code. */
#ifndef MT_PASS_GPU_SPACES_H
#define MT_PASS_GPU_SPACES_H
#include "unit/unit.h"

/* Of a record call: its address becomes a number in its space. Returns, built before it, i1: there is nothing
 * to record after all; or NULL: nobody asks. */
LLVMValueRef mt_gpu_narrow_space(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call);
#endif
