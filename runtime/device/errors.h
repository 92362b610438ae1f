/* Sticky CUDA errors: a device returns them for all later calls, until it is reset. */
#ifndef MT_GPU_ERRORS_H
#define MT_GPU_ERRORS_H
#include <cuda_runtime_api.h>

static inline int mt_error_stays(int e)
{
    switch (e) {
    case 226: /* cudaErrorContained, cudaErrorTensorMemoryLeak, cudaErrorExternalDevice: only in newer headers
               */
    case 721:
    case 911:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorMpsClientTerminated:
        return 1;
    default:
        return 0;
    }
}
#endif
