/* Functions as called by programs for CUDA 11 and 12, where CUDA 13 has other arguments (older.def). */
#include "api/entry.h"
#include "api/tables/error.h"
#include "base/report.h"
#include <string.h>

#if CUDART_VERSION >= 13000
#define OLDER __attribute__((visibility("default")))
/* One function for both versions. */
#define OLDER_BOTH(name)                                                                                     \
    OLDER extern __typeof__(older12_##name) older11_##name __attribute__((alias("older12_" #name)));

/* ---- the device ---- */

struct older_properties {
#define MT_SAME(type, field, dimension) type field dimension;
#define MT_WAS(field, attribute) int field;
#define MT_FROM_12
#include "older_properties.def"
#undef MT_SAME
#undef MT_WAS
#undef MT_FROM_12
    int reserved[63];
};
enum { PROPERTIES_11 = 728, PROPERTIES_12 = 1032 };
_Static_assert(sizeof(struct older_properties) == PROPERTIES_12, "as in CUDA 12");
_Static_assert(offsetof(struct older_properties, hostRegisterSupported) <= PROPERTIES_11, "as in CUDA 11");

static int older_attribute(enum cudaDeviceAttr attribute, int device)
{
    int n = 0;
    return cudaDeviceGetAttribute(&n, attribute, device) ? 0 : n;
}

/* Fills `size` bytes of CUDA 12's structure. */
static cudaError_t older_properties(void *out, size_t size, int device)
{
    struct cudaDeviceProp p;
    struct older_properties o = {0};
    cudaError_t e = cudaGetDeviceProperties(out ? &p : NULL, device);
    if (e)
        return e;
#define MT_SAME(type, field, dimension) memcpy(&o.field, &p.field, sizeof o.field);
#define MT_WAS(field, attribute) o.field = older_attribute(cudaDevAttr##attribute, device);
#define MT_FROM_12
#include "older_properties.def"
    memcpy(out, &o, size);
    return cudaSuccess;
}

OLDER cudaError_t older12_cudaGetDeviceProperties_v2(void *out, int device)
{
    return older_properties(out, PROPERTIES_12, device);
}

/* Without _v2 it is CUDA 11's function, in CUDA 12 as well. */
OLDER cudaError_t older12_cudaGetDeviceProperties(void *out, int device)
{
    return older_properties(out, PROPERTIES_11, device);
}
OLDER_BOTH(cudaGetDeviceProperties)

OLDER cudaError_t older12_cudaThreadExit(void)
{
    return cudaDeviceReset();
}
OLDER_BOTH(cudaThreadExit)

OLDER cudaError_t older12_cudaThreadSynchronize(void)
{
    return cudaDeviceSynchronize();
}
OLDER_BOTH(cudaThreadSynchronize)

OLDER cudaError_t older12_cudaThreadGetLimit(size_t *value, enum cudaLimit limit)
{
    return cudaDeviceGetLimit(value, limit);
}
OLDER_BOTH(cudaThreadGetLimit)

OLDER cudaError_t older12_cudaThreadSetLimit(enum cudaLimit limit, size_t value)
{
    return cudaDeviceSetLimit(limit, value);
}
OLDER_BOTH(cudaThreadSetLimit)

OLDER cudaError_t older12_cudaThreadGetCacheConfig(enum cudaFuncCache *config)
{
    return cudaDeviceGetCacheConfig(config);
}
OLDER_BOTH(cudaThreadGetCacheConfig)

OLDER cudaError_t older12_cudaThreadSetCacheConfig(enum cudaFuncCache config)
{
    return cudaDeviceSetCacheConfig(config);
}
OLDER_BOTH(cudaThreadSetCacheConfig)

/* ---- memory, functions, textures: structs that have grown ---- */

struct older_pointer {
    enum cudaMemoryType type;
    int device;
    void *device_pointer, *host_pointer;
};

OLDER cudaError_t older12_cudaPointerGetAttributes(struct older_pointer *out, const void *p)
{
    struct cudaPointerAttributes a;
    cudaError_t e = cudaPointerGetAttributes(out ? &a : NULL, p);
    if (!e)
        *out = (struct older_pointer){a.type, a.device, a.devicePointer, a.hostPointer};
    return e;
}
OLDER_BOTH(cudaPointerGetAttributes)

OLDER cudaError_t older11_cudaFuncGetAttributes(void *out, const void *function)
{
    struct cudaFuncAttributes a;
    cudaError_t e = cudaFuncGetAttributes(out ? &a : NULL, function);
    if (!e)
        memcpy(out, &a, offsetof(struct cudaFuncAttributes, clusterDimMustBeSet));
    return e;
}

OLDER cudaError_t older11_cudaCreateTextureObject(cudaTextureObject_t *out,
                                                  const struct cudaResourceDesc *from, const void *how,
                                                  const struct cudaResourceViewDesc *view)
{
    struct cudaTextureDesc d = {0};
    if (how)
        memcpy(&d, how, offsetof(struct cudaTextureDesc, seamlessCubemap));
    return cudaCreateTextureObject(out, from, how ? &d : NULL, view);
}

OLDER cudaError_t older11_cudaGetTextureObjectTextureDesc(void *out, cudaTextureObject_t texture)
{
    struct cudaTextureDesc d;
    cudaError_t e = cudaGetTextureObjectTextureDesc(out ? &d : NULL, texture);
    if (!e)
        memcpy(out, &d, offsetof(struct cudaTextureDesc, seamlessCubemap));
    return e;
}

static struct cudaMemLocation older_location(int device)
{
    return device == cudaCpuDeviceId ? (struct cudaMemLocation){cudaMemLocationTypeHost, 0}
                                     : (struct cudaMemLocation){cudaMemLocationTypeDevice, device};
}

OLDER cudaError_t older12_cudaMemAdvise(const void *p, size_t n, enum cudaMemoryAdvise what, int device)
{
    return cudaMemAdvise(p, n, what, older_location(device));
}
OLDER_BOTH(cudaMemAdvise)

OLDER cudaError_t older12_cudaMemAdvise_v2(const void *p, size_t n, enum cudaMemoryAdvise what,
                                           struct cudaMemLocation to)
{
    return cudaMemAdvise(p, n, what, to);
}

OLDER cudaError_t older12_cudaMemPrefetchAsync_v2(const void *p, size_t n, struct cudaMemLocation to,
                                                  unsigned flags, cudaStream_t stream)
{
    return cudaMemPrefetchAsync(p, n, to, flags, stream);
}

OLDER cudaError_t older12_cudaMemPrefetchAsync(const void *p, size_t n, int device, cudaStream_t stream)
{
    return cudaMemPrefetchAsync(p, n, older_location(device), 0, stream);
}
OLDER_BOTH(cudaMemPrefetchAsync)

/* ---- graphs and capture: edges have data now ---- */

#define OLDER_EDGES(what)                                                                                    \
    OLDER cudaError_t older12_cudaGraph##what##Dependencies(cudaGraph_t graph, const cudaGraphNode_t *from,  \
                                                            const cudaGraphNode_t *to, size_t n)             \
    {                                                                                                        \
        return cudaGraph##what##Dependencies(graph, from, to, NULL, n);                                      \
    }                                                                                                        \
    OLDER_BOTH(cudaGraph##what##Dependencies)                                                                \
    OLDER cudaError_t older12_cudaGraph##what##Dependencies_v2(                                              \
        cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,                           \
        const cudaGraphEdgeData *data, size_t n)                                                             \
    {                                                                                                        \
        return cudaGraph##what##Dependencies(graph, from, to, data, n);                                      \
    }
OLDER_EDGES(Add)
OLDER_EDGES(Remove)

#define OLDER_NEIGHBOURS(what)                                                                               \
    OLDER cudaError_t older12_cudaGraphNodeGet##what(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)  \
    {                                                                                                        \
        return cudaGraphNodeGet##what(node, out, NULL, n);                                                   \
    }                                                                                                        \
    OLDER_BOTH(cudaGraphNodeGet##what)                                                                       \
    OLDER cudaError_t older12_cudaGraphNodeGet##what##_v2(cudaGraphNode_t node, cudaGraphNode_t *out,        \
                                                          cudaGraphEdgeData *data, size_t *n)                \
    {                                                                                                        \
        return cudaGraphNodeGet##what(node, out, data, n);                                                   \
    }
OLDER_NEIGHBOURS(Dependencies)
OLDER_NEIGHBOURS(DependentNodes)

OLDER cudaError_t older12_cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                            size_t *n)
{
    return cudaGraphGetEdges(graph, from, to, NULL, n);
}
OLDER_BOTH(cudaGraphGetEdges)

OLDER cudaError_t older12_cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                               cudaGraphEdgeData *data, size_t *n)
{
    return cudaGraphGetEdges(graph, from, to, data, n);
}

OLDER cudaError_t older12_cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                           const cudaGraphNode_t *after, size_t n,
                                           struct cudaGraphNodeParams *params)
{
    return cudaGraphAddNode(out, graph, after, NULL, n, params);
}

OLDER cudaError_t older12_cudaGraphAddNode_v2(cudaGraphNode_t *out, cudaGraph_t graph,
                                              const cudaGraphNode_t *after, const cudaGraphEdgeData *data,
                                              size_t n, struct cudaGraphNodeParams *params)
{
    return cudaGraphAddNode(out, graph, after, data, n, params);
}

/* Functions without a log leave the program's log unchanged. */
OLDER cudaError_t older11_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
                                               cudaGraphNode_t *wrong, char *log, size_t room)
{
    if (wrong)
        *wrong = NULL;
    if (log && room)
        *log = 0;
    return cudaGraphInstantiate(out, graph, 0);
}

OLDER cudaError_t older11_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *wrong,
                                              enum cudaGraphExecUpdateResult *result)
{
    cudaGraphExecUpdateResultInfo info = {0};
    cudaError_t e = cudaGraphExecUpdate(exec, graph, &info);
    if (wrong)
        *wrong = info.errorNode;
    if (result)
        *result = info.result;
    return e;
}

/* CUDA 12 added arguments to this function under the same name: here it is _v2. */
OLDER cudaError_t older12_cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                                      enum cudaStreamCaptureStatus *status,
                                                      unsigned long long *id, cudaGraph_t *graph,
                                                      const cudaGraphNode_t **after, size_t *n)
{
    return cudaStreamGetCaptureInfo(stream, status, id, graph, after, NULL, n);
}
OLDER_BOTH(cudaStreamGetCaptureInfo_v2)

OLDER cudaError_t older12_cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
                                                      enum cudaStreamCaptureStatus *status,
                                                      unsigned long long *id, cudaGraph_t *graph,
                                                      const cudaGraphNode_t **after,
                                                      const cudaGraphEdgeData **data, size_t *n)
{
    return cudaStreamGetCaptureInfo(stream, status, id, graph, after, data, n);
}

/* The plain name has CUDA 11's three arguments. */
OLDER cudaError_t older12_cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                                   unsigned long long *id)
{
    return cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
}
OLDER_BOTH(cudaStreamGetCaptureInfo)

OLDER cudaError_t older12_cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                              size_t n, unsigned flags)
{
    return cudaStreamUpdateCaptureDependencies(stream, nodes, NULL, n, flags);
}
OLDER_BOTH(cudaStreamUpdateCaptureDependencies)

OLDER cudaError_t older12_cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *nodes,
                                                                 const cudaGraphEdgeData *data, size_t n,
                                                                 unsigned flags)
{
    return cudaStreamUpdateCaptureDependencies(stream, nodes, data, n, flags);
}

/* ---- per-thread default streams ---- */

#define OLDER_PER_THREAD(name, parameters, ...)                                                              \
    OLDER cudaError_t older12_##name##_ptsz parameters                                                       \
    {                                                                                                        \
        int outer = mt_per_thread_enter(__builtin_return_address(0));                                        \
        cudaError_t e = older12_##name(__VA_ARGS__);                                                         \
        mt_per_thread_leave(outer);                                                                          \
        return e;                                                                                            \
    }
OLDER_PER_THREAD(cudaMemPrefetchAsync, (const void *p, size_t n, int device, cudaStream_t s), p, n, device, s)
OLDER_BOTH(cudaMemPrefetchAsync_ptsz)
OLDER_PER_THREAD(cudaMemPrefetchAsync_v2,
                 (const void *p, size_t n, struct cudaMemLocation to, unsigned flags, cudaStream_t s), p, n,
                 to, flags, s)
OLDER_PER_THREAD(cudaStreamGetCaptureInfo,
                 (cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id), s, status,
                 id)
OLDER_BOTH(cudaStreamGetCaptureInfo_ptsz)
OLDER_PER_THREAD(cudaStreamGetCaptureInfo_v2,
                 (cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                  cudaGraph_t *graph, const cudaGraphNode_t **after, size_t *n),
                 s, status, id, graph, after, n)
OLDER_BOTH(cudaStreamGetCaptureInfo_v2_ptsz)
OLDER_PER_THREAD(cudaStreamGetCaptureInfo_v3,
                 (cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                  cudaGraph_t *graph, const cudaGraphNode_t **after, const cudaGraphEdgeData **data,
                  size_t *n),
                 s, status, id, graph, after, data, n)
OLDER_PER_THREAD(cudaStreamUpdateCaptureDependencies,
                 (cudaStream_t s, cudaGraphNode_t *nodes, size_t n, unsigned flags), s, nodes, n, flags)
OLDER_BOTH(cudaStreamUpdateCaptureDependencies_ptsz)
OLDER_PER_THREAD(cudaStreamUpdateCaptureDependencies_v2,
                 (cudaStream_t s, cudaGraphNode_t *nodes, const cudaGraphEdgeData *data, size_t n,
                  unsigned flags),
                 s, nodes, data, n, flags)

/* ---- functions missing in CUDA 13, and the version nodes of all ---- */

static cudaError_t older_gone(const char *name, int major, int *said)
{
    if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
        mt_report("%s: of CUDA %d, and not in this runtime; it returns cudaErrorNotSupported", name, major);
    return mt_fail(cudaErrorNotSupported);
}

#define MT_KEPT(major, name, versioned)                                                                      \
    _Static_assert(sizeof &older##major##_##name, "is defined above");                                       \
    __asm__(".symver older" #major "_" #name ", " versioned);
#define MT_GONE(major, name, versioned)                                                                      \
    OLDER cudaError_t older##major##_##name(void)                                                            \
    {                                                                                                        \
        static int said;                                                                                     \
        return older_gone(#name, major, &said);                                                              \
    }                                                                                                        \
    __asm__(".symver older" #major "_" #name ", " versioned);
#include "older.inc"
#endif
