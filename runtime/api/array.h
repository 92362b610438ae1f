/* CUDA arrays on the CPU device: pitched memory of the host, row-major, which kernels cannot reach (there are
 * no textures). */
#ifndef MT_API_ARRAY_H
#define MT_API_ARRAY_H
#include <cuda_runtime_api.h>
#include <stddef.h>

struct mt_array {
    struct cudaChannelFormatDesc desc;
    struct cudaExtent extent; /* elements; height and depth 0 for fewer dimensions */
    unsigned flags;
    size_t element;      /* bytes */
    size_t pitch, slice; /* bytes from row to row, from plane to plane */
    size_t rows, planes; /* at least 1 */
    char *data;
};
struct mt_array *mt_array_get(cudaArray_const_t a); /* NULL: no such array */
#endif
