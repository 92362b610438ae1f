/* A copy of any shape as one structure: 1-D, 2-D and 3-D copies, to and from arrays and symbols, all come
 * down to it. */
#include "box.h"
#include "array.h"
#include "api/device/device.h"
#include "api/entry.h"
#include <stdint.h>

struct mt_box mt_box_1d(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    return mt_box_2d(dst, bytes, src, bytes, bytes, 1, kind);
}

struct mt_box mt_box_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                        enum cudaMemcpyKind kind)
{
    return (struct mt_box){
        .dst = {dst, dpitch, dpitch * height},
        .src = {(char *)(uintptr_t)src, spitch, spitch * height},
        .width = width,
        .height = height,
        .depth = 1,
        .kind = kind,
    };
}

/* One side of a 3-D copy: an array (pos.x in elements) or pitched memory (pos.x in bytes). */
static cudaError_t side_3d(struct mt_side *s, cudaArray_t array, struct cudaPitchedPtr ptr,
                           struct cudaPos pos, const struct mt_box *b)
{
    if (array && ptr.ptr)
        return cudaErrorInvalidValue;
    if (array) {
        struct mt_array *a = mt_array_get(array);
        if (!a) { /* a GPU's: it has no address */
            *s = (struct mt_side){(char *)array, 0, 0};
            return mt_device_is_gpu() ? cudaSuccess : cudaErrorInvalidResourceHandle;
        }
        size_t x;
        if (__builtin_mul_overflow(pos.x, a->element, &x) || x > a->pitch || b->width > a->pitch - x ||
            pos.y > a->rows || b->height > a->rows - pos.y || pos.z > a->planes ||
            b->depth > a->planes - pos.z)
            return cudaErrorInvalidValue;
        *s = (struct mt_side){a->data + x + pos.y * a->pitch + pos.z * a->slice, a->pitch, a->slice};
        return cudaSuccess;
    }
    size_t rows = ptr.ysize ? ptr.ysize : b->height;
    *s = (struct mt_side){(char *)ptr.ptr + pos.x + (pos.y + pos.z * rows) * ptr.pitch, ptr.pitch,
                          ptr.pitch * rows};
    return ptr.ptr ? cudaSuccess : cudaErrorInvalidValue;
}

/* The extent counts elements when an array takes part. */
static size_t box_element(cudaArray_t a, cudaArray_t b)
{
    cudaArray_t one = a ? a : b;
    struct mt_array *known = one ? mt_array_get(one) : NULL;
    struct cudaChannelFormatDesc d;
    if (known)
        return known->element;
    if (one && mt_device_is_gpu() && !MT_NEXT(cudaArrayGetInfo)(&d, NULL, NULL, one))
        return (size_t)(d.x + d.y + d.z + d.w) / 8;
    return 1;
}

cudaError_t mt_box_3d(struct mt_box *b, const struct cudaMemcpy3DParms *p)
{
    size_t scale = box_element(p->srcArray, p->dstArray);
    if (p->srcArray && p->dstArray && scale != box_element(p->dstArray, NULL))
        return cudaErrorInvalidValue;
    *b = (struct mt_box){.width = p->extent.width * scale,
                         .height = p->extent.height,
                         .depth = p->extent.depth,
                         .kind = p->kind};
    cudaError_t e = side_3d(&b->dst, p->dstArray, p->dstPtr, p->dstPos, b);
    return e ? e : side_3d(&b->src, p->srcArray, p->srcPtr, p->srcPos, b);
}

cudaError_t mt_box_3d_peer(struct mt_box *b, const struct cudaMemcpy3DPeerParms *p)
{
    struct cudaMemcpy3DParms q = {
        .srcArray = p->srcArray,
        .srcPos = p->srcPos,
        .srcPtr = p->srcPtr,
        .dstArray = p->dstArray,
        .dstPos = p->dstPos,
        .dstPtr = p->dstPtr,
        .extent = p->extent,
        .kind = cudaMemcpyDeviceToDevice,
    };
    return mt_box_3d(b, &q);
}

cudaError_t mt_side_array(struct mt_side *s, cudaArray_const_t handle, size_t x, size_t y, size_t width,
                          size_t height)
{
    struct mt_array *a = mt_array_get(handle);
    if (!a) {
        *s = (struct mt_side){(char *)(uintptr_t)handle, 0, 0};
        return mt_device_is_gpu() ? cudaSuccess : cudaErrorInvalidResourceHandle;
    }
    *s = (struct mt_side){a->data + y * a->pitch + x, a->pitch, a->slice};
    /* 1-D copies (height 1) may run on into the next rows. */
    size_t room = y < a->rows && x <= a->pitch ? (a->rows - y) * a->pitch - x : 0;
    size_t need;
    if (!height || !width)
        return cudaSuccess;
    if (width > room || __builtin_mul_overflow(height - 1, a->pitch, &need) || need > room - width)
        return cudaErrorInvalidValue;
    return height > 1 && x + width > a->pitch ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t mt_side_symbol(struct mt_side *s, const void *symbol, size_t offset, size_t bytes)
{
    void *p = NULL;
    size_t size = 0;
    cudaError_t e = MT_NEXT(cudaGetSymbolAddress)(&p, symbol);
    if (!e)
        e = MT_NEXT(cudaGetSymbolSize)(&size, symbol);
    if (e)
        return e;
    *s = (struct mt_side){(char *)p + offset, bytes, bytes};
    return offset > size || bytes > size - offset ? cudaErrorInvalidValue : cudaSuccess;
}
