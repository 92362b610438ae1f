/* Stands for the real CUDA runtime: writes down who called it with what. */
#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char fake_log[65536]; /* a line per call */
void *fake_context;   /* last launch: what args[nparams] points to, if the kernel has so many parameters */
void **fake_args;     /* and what it was given */
static char memory[4096], symbol[16];

static void fake_cudart_note(const char *format, ...)
{
    va_list ap;
    size_t n = strlen(fake_log);
    va_start(ap, format);
    vsnprintf(fake_log + n, sizeof fake_log - n, format, ap);
    va_end(ap);
}
/* Launches with record calls are refused with this error, which stays until it is asked for. */
cudaError_t fake_refusal, fake_error;
int fake_cooperative; /* kernel nodes of graphs are */
#define NUM(x) ((unsigned long long)(uintptr_t)(x))

/* Which registered function `func` is. */
static struct {
    const void *host;
    char name[64];
} functions[32];
static unsigned nfunctions;
static const char *name_of(const void *func)
{
    for (unsigned i = 0; i < nfunctions; i++)
        if (functions[i].host == func || functions[i].name == func)
            return functions[i].name;
    return "?";
}

/* FAKE_COUNT_ERROR: what the runtime says of the driver (fake_driver.c). */
cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return getenv("FAKE_COUNT_ERROR") ? (cudaError_t)atoi(getenv("FAKE_COUNT_ERROR")) : cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *v)
{
    fake_cudart_note("cudaRuntimeGetVersion\n");
    *v = 4711;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t n)
{
    fake_cudart_note("cudaMalloc %zu\n", n);
    if (n && n % 4096 == 0) { /* what the library asks for */
        *p = aligned_alloc(4096, n);
        return cudaSuccess;
    }
    *p = memory;
    return n > sizeof memory ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    fake_cudart_note("cudaFree %d\n", p == memory);
    return p == memory ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
    fake_cudart_note("cudaMemcpy %zu %d\n", n, kind);
    memcpy(dst, src, n);
    return cudaSuccess;
}

cudaError_t cudaMemcpy_ptds(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
    fake_cudart_note("cudaMemcpy_ptds %zu %d\n", n, kind);
    return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n, cudaStream_t s)
{
    fake_cudart_note("cudaMemcpyPeerAsync %d %d %zu %llu\n", to, from, n, NUM(s));
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    fake_cudart_note("cudaStreamSynchronize %llu\n", NUM(s));
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    fake_cudart_note("cudaStreamIsCapturing_ptsz %llu\n", NUM(s));
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    if (status) /* the library asks */
        *status = cudaStreamCaptureStatusNone;
    else
        fake_cudart_note("cudaStreamIsCapturing %llu\n", NUM(s));
    return cudaSuccess;
}

/* Eight arguments: two of them on the stack. */
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
                                     size_t n, void *dst, const void *src, size_t count,
                                     enum cudaMemcpyKind kind)
{
    fake_cudart_note("cudaGraphAddMemcpyNode1D %llu %llu %llu %zu %llu %llu %zu %d\n", NUM(node), NUM(graph),
                     NUM(deps), n, NUM(dst), NUM(src), count, kind);
    return (cudaError_t)333;
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){w, z, y, x, f}; /* backwards, so that it is surely this one */
}

const char *cudaGetErrorName(cudaError_t e)
{
    return "the fake's";
}

static unsigned nsymbols; /* asked for; the first one is not in the GPU's code */
cudaError_t cudaGetSymbolAddress(void **p, const void *s)
{
    *p = symbol;
    return ++nsymbols > 1 ? cudaSuccess : (fake_error = cudaErrorInvalidSymbol);
}

static void *handle;

void **__cudaRegisterFatBinary(void *wrapper)
{
    fake_cudart_note("__cudaRegisterFatBinary\n");
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **h)
{
    fake_cudart_note("__cudaRegisterFatBinaryEnd %d\n", h == &handle);
}

void __cudaUnregisterFatBinary(void **h)
{
}

void __cudaRegisterFunction(void **h, const char *host, char *device, const char *name, int limit, uint3 *tid,
                            uint3 *bid, dim3 *block, dim3 *grid, int *warp)
{
    fake_cudart_note("__cudaRegisterFunction %d %s\n", h == &handle, name);
    if (nfunctions < sizeof functions / sizeof *functions) {
        functions[nfunctions].host = host;
        snprintf(functions[nfunctions++].name, sizeof functions->name, "%s", name);
    }
}

void __cudaRegisterVar(void **h, char *host, char *device, const char *name, int ext, size_t size,
                       int constant, int global)
{
    fake_cudart_note("__cudaRegisterVar %d %s %zu %d\n", h == &handle, name, size, constant);
}

/* What the library itself asks for while it traces a launch: memory is host memory, and everything put into a
 * stream is done at once. */
cudaError_t cudaSetDevice(int device)
{
    return device ? cudaErrorInvalidDevice : cudaSuccess;
}

cudaError_t cudaGetDevice(int *d)
{
    *d = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int device)
{
    *value = 3;
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags)
{
    *p = aligned_alloc(4096, (n + 4095) & ~(size_t)4095);
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    *device = host;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s)
{
    memcpy(to, from, n);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    *s = (cudaStream_t)99;
    return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void *data)
{
    f(data);
    return cudaSuccess;
}
cudaError_t cudaPeekAtLastError(void)
{
    return fake_error;
}
cudaError_t cudaGetLastError(void)
{
    cudaError_t e = fake_error;
    fake_error = cudaSuccess;
    return e;
}
const char *cudaGetErrorString(cudaError_t e)
{
    return "the fake's";
}

/* What is done at once, and well. */
#define FINE(name, ...)                                                                                      \
    cudaError_t name(__VA_ARGS__)                                                                            \
    {                                                                                                        \
        return cudaSuccess;                                                                                  \
    }
FINE(cudaStreamDestroy, cudaStream_t s)
FINE(cudaStreamQuery, cudaStream_t s)
FINE(cudaThreadExchangeStreamCaptureMode, enum cudaStreamCaptureMode *mode)
FINE(cudaDeviceSynchronize, void)
FINE(cudaGraphExecDestroy, cudaGraphExec_t exec)

static int has_records(const char *name)
{
    return strstr(name, "__memtrace_traced") != NULL;
}

/* Attributes that distinguish the versions of a kernel: registers 40 and 512 threads with record calls, 20
 * and 1024 without; two blocks on an SM, and four. */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *func)
{
    int records = has_records(name_of(func));
    memset(a, 0, sizeof *a);
    a->numRegs = records ? 40 : 20;
    a->maxThreadsPerBlock = records ? 512 : 1024;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func, int threads,
                                                          size_t shared)
{
    *blocks = has_records(name_of(func)) ? 2 : 4;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute a, int value)
{
    fake_cudart_note("cudaFuncSetAttribute %s %d %d\n", name_of(func), a, value);
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    for (unsigned i = 0; i < nfunctions; i++)
        if (functions[i].host == func) {
            *kernel = (cudaKernel_t)functions[i].name;
            return cudaSuccess;
        }
    return cudaErrorInvalidDeviceFunction;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    return __cudaGetKernel(kernel, func);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *func)
{
    return __cudaGetKernel((cudaKernel_t *)function, func);
}

char fake_launched[64]; /* the function launched last, as registered */

/* A kernel reads as many arguments as it has: the program's two, and with record calls one more. */
static cudaError_t fake_cudart_launched(const char *name, void **args)
{
    if (*name == '?')
        return fake_error = cudaErrorInvalidDeviceFunction;
    if (fake_refusal && has_records(name))
        return fake_error = fake_refusal;
    snprintf(fake_launched, sizeof fake_launched, "%s", name);
    fake_context = has_records(name) ? *(void **)args[2] : NULL;
    fake_args = args;
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
    return fake_cudart_launched((const char *)kernel, args);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *func, void **args)
{
    fake_cudart_note("cudaLaunchKernelExC");
    for (unsigned i = 0; i < c->numAttrs; i++)
        fake_cudart_note(" %d", (int)c->attrs[i].id);
    fake_cudart_note("\n");
    return fake_cudart_launched(name_of(func), args);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                        cudaStream_t stream)
{
    return fake_cudart_launched(name_of(func), args);
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t stream)
{
    fake_cudart_note("cudaLaunchKernel %u %u %u %u %u %u %zu %llu args %u\n", grid.x, grid.y, grid.z, block.x,
                     block.y, block.z, shared, NUM(stream), args ? *(unsigned *)args[1] : 0);
    return fake_cudart_launched(name_of(func), args);
}

static cudaGraphNode_t make_node(const struct cudaKernelNodeParams *p);
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t n, const struct cudaKernelNodeParams *p)
{
    fake_context = has_records(name_of(p->func)) ? *(void **)p->kernelParams[2] : NULL;
    fake_args = p->kernelParams;
    fake_cudart_note("cudaGraphAddKernelNode %zu %u args %u\n", n, p->gridDim.x,
                     *(unsigned *)p->kernelParams[1]);
    if (node)
        *node = make_node(p);
    return cudaSuccess;
}

/* Graphs: there is one, with up to four kernel nodes that take the three parameters of `fill`; one is ready
 * to be launched. */
struct CUgraphNode_st {
    struct cudaKernelNodeParams p;
    void *args[3];
    uint64_t values[3];
};
static struct CUgraphNode_st nodes[4];
static unsigned nnodes;

static void set_node(struct CUgraphNode_st *node, const struct cudaKernelNodeParams *p)
{
    node->p = *p;
    node->values[2] = 0;
    for (unsigned i = 0; i < 2u + has_records(name_of(p->func)); i++) {
        void *value = *(void **)p->kernelParams[i];
        node->values[i] = i == 1 ? *(unsigned *)p->kernelParams[i] : (uint64_t)(uintptr_t)value;
        node->args[i] = &node->values[i];
    }
    node->p.kernelParams = node->args;
}

static cudaGraphNode_t make_node(const struct cudaKernelNodeParams *p)
{
    set_node(&nodes[nnodes], p);
    return &nodes[nnodes++];
}

static void note_nodes(const char *what)
{
    fake_cudart_note("%s", what);
    for (unsigned i = 0; i < nnodes; i++)
        fake_cudart_note(" %s %s", name_of(nodes[i].p.func), nodes[i].values[2] ? "context" : "none");
    fake_cudart_note("\n");
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *n)
{
    for (unsigned i = 0; out && i < nnodes; i++)
        out[i] = &nodes[i];
    *n = nnodes;
    return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    *type = cudaGraphNodeTypeKernel;
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *p)
{
    if (*name_of(node->p.func) == '?') /* of a library that has a runtime of its own */
        return fake_error = cudaErrorInvalidDeviceFunction;
    *p = node->p;
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *p)
{
    struct cudaKernelNodeParams copy = *p;
    set_node(node, &copy);
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaKernelNodeAttrID id,
                                            cudaKernelNodeAttrValue *value)
{
    value->cooperative = fake_cooperative;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    note_nodes("ready:");
    *out = (cudaGraphExec_t)77;
    return cudaSuccess;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *p)
{
    int context = has_records(name_of(p->func)) && *(void **)p->kernelParams[2];
    fake_cudart_note("changed: %s %s\n", name_of(p->func), context ? "context" : "none");
    return cudaSuccess;
}

/* Nodes of any type: here they are kernels. */
static struct cudaKernelNodeParams kernel_of(const struct cudaGraphNodeParams *p)
{
    return (struct cudaKernelNodeParams){.func = p->kernel.func,
                                         .gridDim = p->kernel.gridDim,
                                         .blockDim = p->kernel.blockDim,
                                         .kernelParams = p->kernel.kernelParams};
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                             const cudaGraphEdgeData *edges, size_t n, struct cudaGraphNodeParams *params)
{
    struct cudaKernelNodeParams p = kernel_of(params);
    return cudaGraphAddKernelNode(node, graph, after, n, &p);
}
#endif

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *params)
{
    struct cudaKernelNodeParams p = kernel_of(params);
    return cudaGraphKernelNodeSetParams(node, &p);
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                       struct cudaGraphNodeParams *params)
{
    struct cudaKernelNodeParams p = kernel_of(params);
    return cudaGraphExecKernelNodeSetParams(exec, node, &p);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    note_nodes("in the program's graph:");
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                  cudaStream_t stream)
{
    fake_cudart_note("cudaLaunchKernel_ptsz %llu\n", NUM(stream));
    return cudaSuccess;
}
