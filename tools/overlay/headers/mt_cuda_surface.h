/* Surface functions (surf2Dread, surf2Dwrite, …), which nvcc implements by a builtin that clang 19 lacks. The
 * guard of the toolkit's header is set, so that it declares none of them. An element of 1, 2, 4, 8 or 16
 * bytes is one access of that size (suld.b and sust.b ignore types). */
#ifndef MT_CUDA_SURFACE_H
#define MT_CUDA_SURFACE_H
#include "surface_types.h"
#if __cplusplus >= 201103L && !defined(__SURFACE_INDIRECT_FUNCTIONS_H__)
#define __SURFACE_INDIRECT_FUNCTIONS_H__

/* `type` exists if a surface may have such elements in CUDA; `bytes` is their size. */
template <class T> struct __mt_surf_trait {
};
#define __MT_SURF_ONE(T)                                                                                     \
    template <> struct __mt_surf_trait<T> {                                                                  \
        typedef void type;                                                                                   \
        enum { bytes = sizeof(T) };                                                                          \
    };
#define __MT_SURF_VECTORS(T) __MT_SURF_ONE(T##1) __MT_SURF_ONE(T##2) __MT_SURF_ONE(T##4)
__MT_SURF_ONE(char)
__MT_SURF_ONE(signed char)
__MT_SURF_ONE(unsigned char)
__MT_SURF_ONE(short)
__MT_SURF_ONE(unsigned short)
__MT_SURF_ONE(int)
__MT_SURF_ONE(unsigned int)
__MT_SURF_ONE(long long)
__MT_SURF_ONE(unsigned long long)
__MT_SURF_ONE(float)
__MT_SURF_VECTORS(char)
__MT_SURF_VECTORS(uchar)
__MT_SURF_VECTORS(short)
__MT_SURF_VECTORS(ushort)
__MT_SURF_VECTORS(int)
__MT_SURF_VECTORS(uint)
__MT_SURF_VECTORS(float)
__MT_SURF_ONE(longlong1)
__MT_SURF_ONE(longlong2)
__MT_SURF_ONE(ulonglong1)
__MT_SURF_ONE(ulonglong2)
#undef __MT_SURF_VECTORS
#undef __MT_SURF_ONE

template <int bytes> struct __mt_surf;

/* Instruction parts: suffixes of its name, operands, and the words of an element. */
#define __MT_SURF_READ(geometry, mode, type, out, place, outputs, ...)                                       \
    asm volatile("suld.b." geometry "." type "." mode " " out ", " place ";"                                 \
                 : outputs                                                                                   \
                 : "l"(object), __VA_ARGS__                                                                  \
                 : "memory")
#define __MT_SURF_WRITE(geometry, mode, type, in, place, inputs, ...)                                        \
    asm volatile("sust.b." geometry "." type "." mode " " place ", " in ";" ::inputs, "l"(object),           \
                 __VA_ARGS__                                                                                 \
                 : "memory")
#define __MT_SURF_MODES(what, ...)                                                                           \
    if (mode == cudaBoundaryModeZero)                                                                        \
        what("zero", __VA_ARGS__);                                                                           \
    else if (mode == cudaBoundaryModeClamp)                                                                  \
        what("clamp", __VA_ARGS__);                                                                          \
    else                                                                                                     \
        what("trap", __VA_ARGS__);

/* One geometry for one element: name, operand numbers that 1, 2 or 4 words leave for the place, and the
 * coordinates as parameters and as operands. */
#define __MT_SURF_ARG(...) __VA_ARGS__
#define __MT_SURF_R(mode, g, type, words, place, outputs, arguments)                                         \
    __MT_SURF_READ(g, mode, type, words, place, __MT_SURF_ARG outputs, __MT_SURF_ARG arguments)
#define __MT_SURF_W(mode, g, type, words, place, inputs, arguments)                                          \
    __MT_SURF_WRITE(g, mode, type, words, place, __MT_SURF_ARG inputs, __MT_SURF_ARG arguments)
#define __MT_SURF_GEOMETRY(name, g, type, words, place, declared, arguments, word, outputs, inputs)          \
    static __device__ __forceinline__ void read##name(word *w, cudaSurfaceObject_t object,                   \
                                                      __MT_SURF_ARG declared, cudaSurfaceBoundaryMode mode)  \
    {                                                                                                        \
        __MT_SURF_MODES(__MT_SURF_R, g, type, words, place, outputs, arguments)                              \
    }                                                                                                        \
    static __device__ __forceinline__ void write##name(const word *w, cudaSurfaceObject_t object,            \
                                                       __MT_SURF_ARG declared, cudaSurfaceBoundaryMode mode) \
    {                                                                                                        \
        __MT_SURF_MODES(__MT_SURF_W, g, type, words, place, inputs, arguments)                               \
    }
/* o, x, y, z: operand numbers of the object and of the three integers after it. */
#define __MT_SURF_SIZE(size, word, type, words, outputs, inputs, o, x_, y_, z_)                              \
    template <> struct __mt_surf<size> {                                                                     \
        typedef word word_t;                                                                                 \
        __MT_SURF_GEOMETRY(1D, "1d", type, words, "[%" o ", {%" x_ "}]", (int x), ("r"(x)), word, outputs,   \
                           inputs)                                                                           \
        __MT_SURF_GEOMETRY(2D, "2d", type, words, "[%" o ", {%" x_ ", %" y_ "}]", (int x, int y),            \
                           ("r"(x), "r"(y)), word, outputs, inputs)                                          \
        __MT_SURF_GEOMETRY(3D, "3d", type, words, "[%" o ", {%" x_ ", %" y_ ", %" z_ ", %" z_ "}]",          \
                           (int x, int y, int z), ("r"(x), "r"(y), "r"(z)), word, outputs, inputs)           \
        __MT_SURF_GEOMETRY(1DLayered, "a1d", type, words, "[%" o ", {%" x_ ", %" y_ "}]",                    \
                           (int x, int layer), ("r"(layer), "r"(x)), word, outputs, inputs)                  \
        __MT_SURF_GEOMETRY(2DLayered, "a2d", type, words, "[%" o ", {%" x_ ", %" y_ ", %" z_ ", %" z_ "}]",  \
                           (int x, int y, int layer), ("r"(layer), "r"(x), "r"(y)), word, outputs, inputs)   \
    };
__MT_SURF_SIZE(1, unsigned short, "b8", "{%0}", ("=h"(w[0])), ("h"(w[0])), "1", "2", "3", "4")
__MT_SURF_SIZE(2, unsigned short, "b16", "{%0}", ("=h"(w[0])), ("h"(w[0])), "1", "2", "3", "4")
__MT_SURF_SIZE(4, unsigned int, "b32", "{%0}", ("=r"(w[0])), ("r"(w[0])), "1", "2", "3", "4")
__MT_SURF_SIZE(8, unsigned int, "v2.b32", "{%0, %1}", ("=r"(w[0]), "=r"(w[1])), ("r"(w[0]), "r"(w[1])), "2",
               "3", "4", "5")
__MT_SURF_SIZE(16, unsigned int, "v4.b32", "{%0, %1, %2, %3}",
               ("=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])), ("r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])),
               "4", "5", "6", "7")
#undef __MT_SURF_SIZE
#undef __MT_SURF_GEOMETRY
#undef __MT_SURF_MODES
#undef __MT_SURF_R
#undef __MT_SURF_W
#undef __MT_SURF_READ
#undef __MT_SURF_WRITE

/* CUDA's functions: `name` as users call it, `geometry` for the hardware, which treats the faces of cubes as
 * layers. */
#define __MT_SURF_FUNCTIONS(name, geometry, declared, passed)                                                \
    template <class T>                                                                                       \
    static __device__ __forceinline__ typename __mt_surf_trait<T>::type surf##name##read(                    \
        T *out, cudaSurfaceObject_t object, __MT_SURF_ARG declared,                                          \
        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                                                 \
    {                                                                                                        \
        typename __mt_surf<sizeof(T)>::word_t w[4];                                                          \
        __mt_surf<sizeof(T)>::read##geometry(w, object, __MT_SURF_ARG passed, mode);                         \
        __builtin_memcpy(out, w, sizeof(T));                                                                 \
    }                                                                                                        \
    template <class T>                                                                                       \
    static __device__ __forceinline__ T surf##name##read(cudaSurfaceObject_t object, __MT_SURF_ARG declared, \
                                                         cudaSurfaceBoundaryMode mode =                      \
                                                             cudaBoundaryModeTrap)                           \
    {                                                                                                        \
        T out;                                                                                               \
        surf##name##read(&out, object, __MT_SURF_ARG passed, mode);                                          \
        return out;                                                                                          \
    }                                                                                                        \
    template <class T>                                                                                       \
    static __device__ __forceinline__ typename __mt_surf_trait<T>::type surf##name##write(                   \
        T value, cudaSurfaceObject_t object, __MT_SURF_ARG declared,                                         \
        cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap)                                                 \
    {                                                                                                        \
        typename __mt_surf<sizeof(T)>::word_t w[4] = {0};                                                    \
        __builtin_memcpy(w, &value, sizeof(T));                                                              \
        __mt_surf<sizeof(T)>::write##geometry(w, object, __MT_SURF_ARG passed, mode);                        \
    }
__MT_SURF_FUNCTIONS(1D, 1D, (int x), (x))
__MT_SURF_FUNCTIONS(2D, 2D, (int x, int y), (x, y))
__MT_SURF_FUNCTIONS(3D, 3D, (int x, int y, int z), (x, y, z))
__MT_SURF_FUNCTIONS(1DLayered, 1DLayered, (int x, int layer), (x, layer))
__MT_SURF_FUNCTIONS(2DLayered, 2DLayered, (int x, int y, int layer), (x, y, layer))
__MT_SURF_FUNCTIONS(Cubemap, 2DLayered, (int x, int y, int face), (x, y, face))
__MT_SURF_FUNCTIONS(CubemapLayered, 2DLayered, (int x, int y, int layerface), (x, y, layerface))
#undef __MT_SURF_FUNCTIONS
#undef __MT_SURF_ARG
#endif
#endif
