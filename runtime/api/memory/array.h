/* CUDA arrays on the CPU device: memory of the host, row-major, which kernels reach through textures and
 * surfaces. Layers and the faces of cubes are planes. */
#ifndef MT_API_ARRAY_H
#define MT_API_ARRAY_H
#include <cuda_runtime_api.h>
#include <stddef.h>

struct mt_array {
    int device; /* whose it is; first */
    struct cudaChannelFormatDesc desc;
    struct cudaExtent extent; /* elements; height and depth 0 for fewer dimensions */
    unsigned flags;
    size_t element;      /* bytes */
    size_t pitch, slice; /* bytes from row to row, from plane to plane */
    size_t rows, planes; /* at least 1 */
    char *data;
    struct mt_mipmap *mipmap; /* whose level it is, or NULL */
};
struct mt_mipmap {
    int device; /* whose it is; first */
    unsigned nlevels;
    size_t bytes; /* of all levels: one block, the first level at its start */
    struct mt_array *level[32];
};
struct mt_array *mt_array_get(cudaArray_const_t a);            /* NULL: no such array */
struct mt_mipmap *mt_mipmap_get(cudaMipmappedArray_const_t m); /* NULL: no such array */
/* Bytes of an element; 0 when there is no such format: 1, 2 or 4 channels of 8, 16 or 32 bits. */
size_t mt_channel_bytes(const struct cudaChannelFormatDesc *desc);
/* Forgets all arrays of the device, whose memory the heap has freed: cudaDeviceReset. */
void mt_arrays_reset(int device);
#endif
