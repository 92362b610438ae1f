/* A copy of any shape as one structure: 1-D, 2-D and 3-D copies, to and from arrays and symbols, all come
 * down to it. Used by the CPU device, which carries it out, and by the recorder, which writes it down. */
#ifndef MT_API_BOX_H
#define MT_API_BOX_H
#include <cuda_runtime_api.h>
#include <stddef.h>

struct mt_side {
    char *p;             /* first byte */
    size_t pitch, slice; /* bytes from row to row, from plane to plane */
};
struct mt_box {
    struct mt_side dst, src;
    size_t width, height, depth; /* bytes, rows, planes */
    enum cudaMemcpyKind kind;
};

struct mt_box mt_box_1d(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind);
struct mt_box mt_box_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                        enum cudaMemcpyKind kind);
/* The others return an error when the request makes no sense (CUDA's code), else cudaSuccess. */
cudaError_t mt_box_3d(struct mt_box *b, const struct cudaMemcpy3DParms *p);
cudaError_t mt_box_3d_peer(struct mt_box *b, const struct cudaMemcpy3DPeerParms *p);
/* x in bytes, y in rows. With height 1 the bytes may run on over row ends, as the 1-D array copies do. */
cudaError_t mt_side_array(struct mt_side *s, cudaArray_const_t a, size_t x, size_t y, size_t width,
                          size_t height);
cudaError_t mt_side_symbol(struct mt_side *s, const void *symbol, size_t offset, size_t bytes);
#endif
