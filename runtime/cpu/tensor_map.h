/* Layout of the 128 opaque bytes of a CUtensorMap on the CPU device, and of the bytes of a tensor copy.
 * cuTensorMapEncodeTiled (runtime/driver/memory.c) writes it; tensormap.replace and the copies
 * (builtins/tensor.c) read and change it. The layout of a GPU's own maps is unknown here. Dimensions count
 * from the innermost one, whose elements are adjacent. */
#ifndef MT_TENSOR_MAP_H
#define MT_TENSOR_MAP_H
#include <stdint.h>

#define MT_TENSOR_MAGIC 0x524f534e4554544dull /* "MTTENSOR" */
#define MT_TENSOR_RANK 5                      /* maximum number of dimensions */
#define MT_TENSOR_ALIGN 64                    /* alignment of a map */

/* Numbers as in cuda.h. */
enum mt_tensor_type {
    MT_TENSOR_U8,
    MT_TENSOR_U16,
    MT_TENSOR_U32,
    MT_TENSOR_S32,
    MT_TENSOR_U64,
    MT_TENSOR_S64,
    MT_TENSOR_F16,
    MT_TENSOR_F32,
    MT_TENSOR_F64,
    MT_TENSOR_BF16,
    MT_TENSOR_F32_FTZ,
    MT_TENSOR_TF32,
    MT_TENSOR_TF32_FTZ,
    MT_TENSOR_TYPES /* packed types of 4 and 6 bits are not supported */
};

struct mt_tensor_map {
    uint64_t magic;
    uint64_t address;              /* address of the tensor's first element */
    uint64_t stride[4];            /* bytes between elements along dimension i + 1 */
    uint32_t last[MT_TENSOR_RANK]; /* elements of the tensor in each dimension, minus one */
    uint16_t box[MT_TENSOR_RANK];  /* elements spanned by the box, 1 to 256 */
    uint8_t step[MT_TENSOR_RANK];  /* every step-th element of the box is copied; dimension 0 has step 1 */
    uint8_t type;                  /* enum mt_tensor_type */
    uint8_t rank;
    uint8_t interleave; /* 0: none; no other value is supported */
    uint8_t swizzle;    /* 0: none; 1, 2, 3: 16-byte chunks within 32, 64, 128 bytes; no other value is
                         * supported */
    uint8_t fill;       /* value outside of the tensor: 1 NaN, 0 zero */
    uint8_t pad[40];
};
_Static_assert(sizeof(struct mt_tensor_map) == 128, "a CUtensorMap");

static inline uint32_t mt_tensor_element(const struct mt_tensor_map *m)
{
    static const uint8_t bytes[MT_TENSOR_TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return bytes[m->type];
}

/* Returns the number of copied elements of the box along dimension i. */
static inline uint32_t mt_tensor_count(const struct mt_tensor_map *m, uint32_t i)
{
    return i ? (m->box[i] + m->step[i] - 1u) / m->step[i] : m->box[0];
}

/* Returns the bytes from row to row of the box in shared memory. */
static inline uint32_t mt_tensor_pitch(const struct mt_tensor_map *m)
{
    return m->swizzle ? 16u << m->swizzle : m->box[0] * mt_tensor_element(m);
}

#endif
