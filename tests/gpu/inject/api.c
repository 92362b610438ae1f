/* A small libsanitizer-public.so: memory is host memory, pcs are made up, and play.c makes the callbacks. */
#include "api_test.h"
#include <stdlib.h>
#include <string.h>

Sanitizer_CallbackFunc api_callback;
_Thread_local const void *api_data;
unsigned api_patched, api_enabled;
SanitizerResult api_patch_result;

SanitizerResult sanitizerSubscribe(Sanitizer_SubscriberHandle *s, Sanitizer_CallbackFunc f, void *user)
{
    if (getenv("API_TAKEN"))
        return SANITIZER_ERROR_MAX_LIMIT_REACHED;
    *s = (Sanitizer_SubscriberHandle)(void *)1;
    api_callback = f;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerEnableCallback(uint32_t on, Sanitizer_SubscriberHandle s, Sanitizer_CallbackDomain d,
                                        Sanitizer_CallbackId id)
{
    api_enabled++;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerEnableDomain(uint32_t on, Sanitizer_SubscriberHandle s, Sanitizer_CallbackDomain d)
{
    api_enabled++;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerGetResultString(SanitizerResult r, const char **text)
{
    *text = "a result of the test";
    return SANITIZER_SUCCESS;
}
static SanitizerResult api_alloc(void **p, size_t bytes)
{
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    memset(*p, 0x5a, bytes);
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerAlloc(CUcontext c, void **p, size_t bytes)
{
    return api_alloc(p, bytes);
}
SanitizerResult sanitizerAllocHost(CUcontext c, void **p, size_t bytes)
{
    return api_alloc(p, bytes);
}
SanitizerResult sanitizerMemcpyHostToDeviceAsync(void *to, void *from, size_t bytes, Sanitizer_StreamHandle s)
{
    memcpy(to, from, bytes);
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerMemcpyDeviceToHost(void *to, void *from, size_t bytes, Sanitizer_StreamHandle s)
{
    memcpy(to, from, bytes);
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerStreamSynchronize(Sanitizer_StreamHandle s)
{
    return SANITIZER_SUCCESS;
}
/* A stream's handle is a thousand more; the default one's of each context is of its own. */
SanitizerResult sanitizerGetStreamHandle(CUcontext c, CUstream s, Sanitizer_StreamHandle *h)
{
    *h = (Sanitizer_StreamHandle)((char *)(s ? (void *)s : (void *)c) + 1000);
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerAddPatches(const void *image, CUcontext c)
{
    return image ? SANITIZER_SUCCESS : SANITIZER_ERROR_INVALID_PARAMETER;
}
SanitizerResult sanitizerPatchInstructions(const Sanitizer_InstructionId id, CUmodule m, const char *function)
{
    return (unsigned)id > 40 ? SANITIZER_ERROR_INVALID_PARAMETER : api_patch_result;
}
SanitizerResult sanitizerPatchModule(CUmodule m)
{
    api_patched++;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerSetLaunchCallbackData(Sanitizer_LaunchHandle l, CUfunction f,
                                               Sanitizer_StreamHandle s, const void *data)
{
    api_data = data;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerGetFunctionPcAndSize(CUmodule m, const char *name, uint64_t *pc, uint64_t *size)
{
    *pc = API_PC;
    *size = 0;
    return strcmp(name, API_KERNEL) ? SANITIZER_ERROR_INVALID_PARAMETER : SANITIZER_SUCCESS;
}
SanitizerResult sanitizerGetCallbackPcAndSize(CUcontext c, const char *name, uint64_t *pc, uint64_t *size)
{
    return SANITIZER_ERROR_INVALID_PARAMETER;
}
