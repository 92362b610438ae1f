/* What tests use of NCCL, declared here: its own header is in no package of the CUDA toolkit. declared_nccl.c
 * compares the two where there is one. */
#ifndef MT_TEST_NCCL_H
#define MT_TEST_NCCL_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
#ifndef NCCL_H_ /* NVIDIA's is there */
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef enum {
    ncclSuccess,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage,
    ncclRemoteError,
    ncclInProgress
} ncclResult_t;
typedef enum {
    ncclSum,
    ncclProd,
    ncclMax,
    ncclMin,
    ncclAvg,
    ncclNumOps,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;
typedef enum {
    ncclInt8,
    ncclUint8,
    ncclInt32,
    ncclUint32,
    ncclInt64,
    ncclUint64,
    ncclFloat16,
    ncclFloat32,
    ncclFloat64,
    ncclBfloat16,
    ncclFloat8e4m3,
    ncclFloat8e5m2,
    ncclNumTypes
} ncclDataType_t;
typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;
typedef struct ncclConfig ncclConfig_t;
ncclResult_t ncclCommWindowRegister(ncclComm_t, void *, size_t, void **, int);
#endif

#define MT_NCCL(X)                                                                                           \
    X(GetVersion, int *)                                                                                     \
    X(GetUniqueId, ncclUniqueId *)                                                                           \
    X(CommInitRank, ncclComm_t *, int, ncclUniqueId, int)                                                    \
    X(CommInitAll, ncclComm_t *, int, const int *)                                                           \
    X(CommFinalize, ncclComm_t)                                                                              \
    X(CommDestroy, ncclComm_t)                                                                               \
    X(CommAbort, ncclComm_t)                                                                                 \
    X(CommCount, const ncclComm_t, int *)                                                                    \
    X(CommCuDevice, const ncclComm_t, int *)                                                                 \
    X(CommUserRank, const ncclComm_t, int *)                                                                 \
    X(CommGetAsyncError, ncclComm_t, ncclResult_t *)                                                         \
    X(CommRegister, const ncclComm_t, void *, size_t, void **)                                               \
    X(CommDeregister, const ncclComm_t, void *)                                                              \
    X(MemAlloc, void **, size_t)                                                                             \
    X(MemFree, void *)                                                                                       \
    X(RedOpCreatePreMulSum, ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t)        \
    X(RedOpDestroy, ncclRedOp_t, ncclComm_t)                                                                 \
    X(GroupStart, void)                                                                                      \
    X(GroupEnd, void)                                                                                        \
    X(AllReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)        \
    X(Broadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)                \
    X(Bcast, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)                                  \
    X(Reduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t)      \
    X(AllGather, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)                     \
    X(ReduceScatter, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)    \
    X(AlltoAll, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)                      \
    X(Gather, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)                   \
    X(Scatter, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)                  \
    X(Send, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)                             \
    X(Recv, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
#define X(name, ...) ncclResult_t nccl##name(__VA_ARGS__);
MT_NCCL(X)
#undef X
ncclResult_t ncclCommInitRankConfig(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
const char *ncclGetErrorString(ncclResult_t);
const char *ncclGetLastError(ncclComm_t);
#ifdef __cplusplus
}
#endif
#endif
