/* Record calls of tensor copies. On the CPU device, builtins/tensor.c makes a record for each row of the
 * box. The GPU's code counts them as unrecorded: the layout of NVIDIA's maps is not public. */
#ifndef MT_TRACE_INSTRUMENT_H
#define MT_TRACE_INSTRUMENT_H

#include "unit/unit.h"
#include "ptx/asm/asm.h"

/* Turns these calls in the GPU's copy of the module into calls that count. */
void mt_unit_untrace_tensors(struct mt_unit *u);

#endif
