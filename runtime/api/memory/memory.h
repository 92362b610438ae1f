/* Interface of the memory folder: pools, arrays, textures, both sides of a copy, and memory advice. */
#ifndef MT_API_MEMORY_H
#define MT_API_MEMORY_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* cudaDeviceReset: frees the device's memory, and forgets the use of its pools and the advice for it. */
void mt_memory_reset(int device);
/* Under MEMTRACE_CHECK: lets the stream show where in its order this memory is there. */
void mt_memory_ordered(const void *p, cudaStream_t stream);

/* ---- Side effects of every synchronising call ---- */

/* 1: the program may have printed on the device; the next mt_synced flushes stdout. */
extern _Atomic int mt_printed;
/* Flushes device output and updates companion files on disk, after the program has waited for the device. */
void mt_synced(void);

/* ---- Memory of a graph's allocation nodes: the same address in all launches ---- */

struct mt_graph_memory {
    int refs;
    int freed; /* a node of its graph frees it; else the program does, and the next launch allocates it again
                */
    int live;  /* allocated from the program's view; the graph keeps the address in any case */
    void *p;
    size_t bytes;
};
/* Makes one with one reference. Returns NULL if out of memory. */
struct mt_graph_memory *mt_graph_memory_new(void *p, size_t bytes);
void mt_graph_memory_release(struct mt_graph_memory *m);
/* Frees the memory at `p` from the program's view, if a graph allocated it and still has its address. Returns
 * 1, -1 if it was already freed, or 0 if it is not a graph's. */
int mt_graph_gave_back(void *p);

/* ---- CUDA arrays on the CPU device: row-major host memory that kernels reach through textures and surfaces.
 * Layers and the faces of cubes are planes ---- */

struct mt_array {
    int device; /* owner; first field */
    struct cudaChannelFormatDesc desc;
    struct cudaExtent extent; /* in elements; height and depth are 0 for fewer dimensions */
    unsigned flags;
    size_t element;      /* bytes */
    size_t pitch, slice; /* bytes from row to row, from plane to plane */
    size_t rows, planes; /* at least 1 */
    char *data;
    struct mt_mipmap *mipmap; /* mipmap that it is a level of, or NULL */
};
struct mt_mipmap {
    int device; /* owner; first field */
    unsigned nlevels;
    size_t bytes; /* size of all levels: one block that begins with the first level */
    struct mt_array *level[32];
};
struct mt_array *mt_array_get(cudaArray_const_t a);            /* NULL: no such array */
struct mt_mipmap *mt_mipmap_get(cudaMipmappedArray_const_t m); /* NULL: no such array */
/* cudaDeviceReset: forgets all arrays, textures and surfaces of the device; the heap has their memory. */
void mt_arrays_reset(int device);

/* ---- A structure for copies of any shape: 1-D, 2-D and 3-D copies, arrays and symbols are all reduced to
 * it. The CPU device executes it, and the recorder logs it ---- */

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
/* These return cudaSuccess, or CUDA's error if the arguments are invalid. */
cudaError_t mt_box_3d(struct mt_box *b, const struct cudaMemcpy3DParms *p);
cudaError_t mt_side_symbol(struct mt_side *s, const void *symbol, size_t offset, size_t bytes);
#endif
