/* Record calls of tensor copies, which are not those of one access: builtins/tensor.c of the CPU device makes
 * a record for each row of the box. The GPU's code counts them as without a record: what a map of its says is
 * known to NVIDIA alone. */
#ifndef MT_PASS_TENSOR_H
#define MT_PASS_TENSOR_H
#include "unit/unit.h"
#include "ptx/asm/asm.h"

void mt_record_tensor(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call,
                      const struct mt_asm_warp_access *a);
/* In the GPU's copy of the module: they become calls that count. */
void mt_unit_untrace_tensors(struct mt_unit *u);
#endif
