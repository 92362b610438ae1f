/* Record calls of tensor copies. On the CPU device, builtins/tensor.c makes a record for each row of the
 * box. The GPU's code counts them as unrecorded: the layout of NVIDIA's maps is not public. */
#ifndef MT_PASS_TENSOR_H
#define MT_PASS_TENSOR_H
#include "unit/unit.h"
#include "ptx/asm/asm.h"

void mt_record_tensor(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call,
                      const struct mt_asm_warp_access *a);
/* Turns these calls in the GPU's copy of the module into calls that count. */
void mt_unit_untrace_tensors(struct mt_unit *u);
#endif
