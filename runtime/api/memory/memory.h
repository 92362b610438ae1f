/* The memory room for others: pools, arrays, textures, what a copy has at each end, and what the program
 * advises. */
#ifndef MT_API_MEMORY_H
#define MT_API_MEMORY_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Memory pools: who owns a block that came from one ---- */

/* cudaDeviceReset: nothing of the device's pools is in use any more. */
void mt_pools_reset(int device);

/* ---- What every synchronising call does besides waiting ---- */

/* The program may have printed on the device: marks stdout as to be flushed at the next mt_synced. */
void mt_printed(void);
/* The program has waited for the device: device output appears, companions on disk are brought up to date. */
void mt_synced(void);

/* ---- Memory of allocation nodes of graphs: at one address for all launches ---- */

struct mt_graph_memory {
    int refs;
    int freed; /* a node of its graph frees it; else the program does, and the next launch allocates anew */
    int live;  /* allocated as the program sees it; the address stays the graph's when it is not */
    void *p;
    size_t bytes;
};
/* With one reference; NULL: out of memory. */
struct mt_graph_memory *mt_graph_memory_new(void *p, size_t bytes);
/* A launch allocates it again when the program has freed it. */
void mt_graph_memory_renew(struct mt_graph_memory *m);
void mt_graph_memory_release(struct mt_graph_memory *m);
/* 1 when a graph allocated the memory at `p` and still has its address: then it is freed now as far as the
 * program can see. -1: it was already. 0: not a graph's. */
int mt_graph_gave_back(void *p);

/* ---- What the program advised about managed memory: kept for its own questions, without effect where
 * host and device share memory ---- */

/* All of the device are. */
void mt_advice_reset(int device);

/* ---- CUDA arrays on the CPU device: memory of the host, row-major, which kernels reach through
 * textures and surfaces. Layers and the faces of cubes are planes ---- */

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
/* Forgets all arrays of the device, whose memory the heap has freed: cudaDeviceReset. */
void mt_arrays_reset(int device);

/* ---- A copy of any shape as one structure: 1-D, 2-D and 3-D copies, to and from arrays and symbols,
 * all come down to it. Used by the CPU device, which carries it out, and by the recorder, which writes it
 * down ---- */

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

/* ---- Texture and surface objects of the CPU device ---- */

/* Destroys all of them: cudaDeviceReset. */
void mt_textures_reset(int device);
#endif
