/* Matrix operations of a warp. */
#include "builtin.h"

/* What the pass makes of wmma, mma, ldmatrix and their like. */
MT_BUILTIN void mtb_matrix(const struct mt_matrix_op *op, void *p, uint64_t stride, const uint64_t *in,
                           uint64_t *out)
{
    mt_cpu_matrix(op, p, stride, in, out);
}
