/* Tensor maps for the copies of cp.async.bulk.tensor: arguments checked as cuda.h asks, and written into the
 * CPU device's own layout. */
#include "driver.h"
#include "base/report.h"
#include "cpu/tensor_map.h"
#include <string.h>

#if CUDA_VERSION >= 12000
_Static_assert(sizeof(CUtensorMap) == sizeof(struct mt_tensor_map), "one layout in the other");

#define PACKED_TYPES 16 /* before this one; from MT_TENSOR_TYPES on */
#define LARGE_ATOMS 7
#define STRIDE_MAX (1ull << 40)

static int tensor_is_float(int type)
{
    return type >= MT_TENSOR_F16 && type < MT_TENSOR_TYPES;
}

static CUresult tensor_missing(const char *what)
{
    mt_report("cuTensorMapEncodeTiled: the CPU device does not have %s; it returns CUDA_ERROR_NOT_SUPPORTED",
              what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The enumerations. */
static CUresult tensor_kinds(int type, int interleave, int swizzle, int promotion, int fill)
{
    if (type < 0 || type >= PACKED_TYPES || interleave < 0 || interleave > 2 || swizzle < 0 ||
        swizzle >= LARGE_ATOMS || promotion < 0 || promotion > 3 || fill < 0 || fill > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (fill && !tensor_is_float(type))
        return CUDA_ERROR_INVALID_VALUE;
    if (type >= MT_TENSOR_TYPES)
        return tensor_missing("packed types of 4 and 6 bits");
    if (interleave)
        return tensor_missing("interleaved layouts");
    return swizzle > 3 ? tensor_missing("swizzles of atoms of 32 and 64 bytes") : CUDA_SUCCESS;
}

/* One dimension; a stride before it, but for the first. */
static int tensor_dimension(struct mt_tensor_map *m, unsigned i, uint64_t elements, uint64_t stride,
                            unsigned box, unsigned step)
{
    if (!elements || elements > 1ull << 32 || !box || box > 256 || !step || step > 8)
        return -1;
    if (i && (stride % 16 || stride >= STRIDE_MAX))
        return -1;
    m->last[i] = (uint32_t)(elements - 1);
    m->box[i] = (uint16_t)box;
    m->step[i] = (uint8_t)step;
    if (i)
        m->stride[i - 1] = stride;
    return 0;
}

CUresult drv_cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                    void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                    const cuuint32_t *box, const cuuint32_t *steps,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct mt_tensor_map m = {.magic = MT_TENSOR_MAGIC, .address = (uintptr_t)address};
    CUresult e = tensor_kinds((int)type, (int)interleave, (int)swizzle, (int)promotion, (int)fill);
    if (e)
        return e;
    if (!out || (uintptr_t)out % MT_TENSOR_ALIGN || !rank || rank > MT_TENSOR_RANK || !address ||
        (uintptr_t)address % 16 || !dims || !box || !steps || (rank > 1 && !strides))
        return CUDA_ERROR_INVALID_VALUE;
    m.type = (uint8_t)type;
    m.rank = (uint8_t)rank;
    m.swizzle = (uint8_t)swizzle;
    m.fill = (uint8_t)fill;
    for (unsigned i = 0; i < rank; i++)
        if (tensor_dimension(&m, i, dims[i], i ? strides[i - 1] : 0, box[i], steps[i]))
            return CUDA_ERROR_INVALID_VALUE;
    uint32_t bytes = m.box[0] * mt_tensor_element(&m);
    if (bytes % 16 || (swizzle && bytes > mt_tensor_pitch(&m)))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, &m, sizeof m);
    return CUDA_SUCCESS;
}

CUresult drv_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct mt_tensor_map m;
    if (!map || (uintptr_t)map % MT_TENSOR_ALIGN || !address || (uintptr_t)address % 16)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&m, map, sizeof m);
    if (m.magic != MT_TENSOR_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    m.address = (uintptr_t)address;
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
#endif
