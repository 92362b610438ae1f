/* What the CPU device has in the 128 opaque bytes of a CUtensorMap, and where the bytes of a tensor copy lie.
 * cuTensorMapEncodeTiled (runtime/driver/memory.c) writes it, tensormap.replace and the copies
 * (builtins/tensor.c) read and change it. Of a GPU's own maps nothing is known here.
 *
 * Dimensions count from the innermost one, whose elements lie side by side. */
#ifndef MT_TENSOR_MAP_H
#define MT_TENSOR_MAP_H
#include <stdint.h>

#define MT_TENSOR_MAGIC 0x524f534e4554544dull /* "MTTENSOR" */
#define MT_TENSOR_RANK 5                      /* the most dimensions */
#define MT_TENSOR_ALIGN 64                    /* of a map's own address */

/* Numbers as cuda.h has them. */
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
    MT_TENSOR_TYPES /* packed ones of 4 and 6 bits are not done */
};

struct mt_tensor_map {
    uint64_t magic;
    uint64_t address;              /* of the tensor's first element */
    uint64_t stride[4];            /* bytes from one element to the next in dimension i + 1 */
    uint32_t last[MT_TENSOR_RANK]; /* elements of the tensor in each dimension, less one */
    uint16_t box[MT_TENSOR_RANK];  /* … that the box spans, 1 to 256 */
    uint8_t step[MT_TENSOR_RANK];  /* of the box each step-th element is copied; of dimension 0 each */
    uint8_t type;                  /* enum mt_tensor_type */
    uint8_t rank;
    uint8_t interleave; /* 0: none; others are not done */
    uint8_t swizzle; /* 0: none; 1, 2, 3: chunks of 16 bytes within 32, 64, 128 bytes; others are not done */
    uint8_t fill;    /* 1: elements outside of the tensor are NaN, else 0 */
    uint8_t pad[40];
};
_Static_assert(sizeof(struct mt_tensor_map) == 128, "a CUtensorMap");

static inline uint32_t mt_tensor_element(const struct mt_tensor_map *m)
{
    static const uint8_t bytes[MT_TENSOR_TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return bytes[m->type];
}

/* Elements of the box that are copied, along dimension i. */
static inline uint32_t mt_tensor_count(const struct mt_tensor_map *m, uint32_t i)
{
    return i ? (m->box[i] + m->step[i] - 1u) / m->step[i] : m->box[0];
}

/* Bytes from row to row of the box in shared memory. */
static inline uint32_t mt_tensor_pitch(const struct mt_tensor_map *m)
{
    return m->swizzle ? 16u << m->swizzle : m->box[0] * mt_tensor_element(m);
}

#endif
