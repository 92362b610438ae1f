/* Functions of the real CUDA runtime and driver that the GPU path itself calls. Tests replace them. */
#ifndef MT_GPU_CUDA_H
#define MT_GPU_CUDA_H
#include <stdint.h>
#include <cuda_runtime_api.h>

/* F(name): a function of the runtime, called as mt_cuda()->name, without the prefix. */
/* clang-format off */
#define MT_CUDA_FUNCTIONS(F) \
    F(GetDevice) \
    F(SetDevice) \
    F(DeviceGetAttribute) \
    F(HostAlloc) \
    F(FreeHost) \
    F(HostGetDevicePointer) \
    F(Malloc) \
    F(Free) \
    F(MemcpyAsync) \
    F(StreamCreateWithFlags) \
    F(StreamDestroy) \
    F(StreamSynchronize) \
    F(DeviceSynchronize) \
    F(StreamQuery) \
    F(StreamIsCapturing) \
    F(ThreadExchangeStreamCaptureMode) \
    F(LaunchHostFunc) \
    F(PeekAtLastError) \
    F(GetLastError) \
    F(GetErrorString)
/* clang-format on */

struct mt_cuda {
#define F(name) __typeof__(&cuda##name) name;
    MT_CUDA_FUNCTIONS(F)
#undef F
    /* The driver's cuStreamWriteValue32 and cuDeviceGetName; NULL if missing. */
    int (*WriteValue)(cudaStream_t stream, unsigned long long address, unsigned value, unsigned flags);
    int (*DeviceName)(char *name, int size, int device);
    /* cudaGetFuncBySymbol, cuFuncGetModule, cuModuleGetGlobal; NULL if missing. */
    int (*FunctionOf)(void **function, const void *symbol);
    int (*ModuleOf)(void **module, void *function);
    int (*GlobalOf)(unsigned long long *address, size_t *bytes, void *module, const char *name);
    /* cuCtxGetCurrent, cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease; NULL
     * if missing. */
    int (*CurrentContext)(void **context);
    int (*PrimaryState)(int device, unsigned *flags, int *active);
    int (*RetainPrimary)(void **context, int device);
    int (*ReleasePrimary)(int device);
    int ends_at_exit; /* an atexit handler frees its memory: always, except in tests */
};
/* Sets how to find the functions, as mt_gpu_ops.functions. Call before mt_cuda. */
void mt_cuda_from(void *(*find)(const char *name));
/* Returns the functions, the same in each call, or NULL after a report if one is missing. */
const struct mt_cuda *mt_cuda(void);
#endif
