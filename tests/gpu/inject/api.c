/* A small libsanitizer-public.so: memory is host memory, pcs are made up, and play.c makes the callbacks. */
#define _GNU_SOURCE
#include "api_test.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

Sanitizer_CallbackFunc api_callback;
_Thread_local const void *api_data;
unsigned api_patched, api_enabled, api_asked;
SanitizerResult api_patch_result;

/* ---- what fails: API_FAIL=NAME fails each call of sanitizerNAME, NAME:N the N-th one ---- */

struct api_failing {
    const char *name;
    unsigned calls;
};

static int api_fails(struct api_failing *f)
{
    const char *wish = getenv("API_FAIL");
    size_t n = strlen(f->name);
    unsigned number = __atomic_add_fetch(&f->calls, 1, __ATOMIC_RELAXED);
    return wish && !strncmp(wish, f->name, n) &&
           (!wish[n] || (wish[n] == ':' && strtoul(wish + n + 1, NULL, 10) == number));
}
#define API_MAY_FAIL(name)                                                                                   \
    static struct api_failing failing = {#name, 0};                                                          \
    if (api_fails(&failing))                                                                                 \
    return SANITIZER_ERROR_UNKNOWN

/* ---- a GPU's memory: with API_PROTECT nobody but the GPU and the copies can touch it ---- */

static struct {
    void *p;
    size_t bytes;
} api_memory[64];
static unsigned api_memories, api_opened;
static pthread_mutex_t api_lock = PTHREAD_MUTEX_INITIALIZER;

static void api_set(int access)
{
    for (unsigned i = 0; i < api_memories; i++)
        mprotect(api_memory[i].p, api_memory[i].bytes, access);
}

void api_touch(int on)
{
    if (!getenv("API_PROTECT"))
        return;
    pthread_mutex_lock(&api_lock);
    if (on && !api_opened++)
        api_set(PROT_READ | PROT_WRITE);
    else if (!on && !--api_opened)
        api_set(PROT_NONE);
    pthread_mutex_unlock(&api_lock);
}

static void api_remember(void *p, size_t bytes)
{
    if (!getenv("API_PROTECT") || api_memories == sizeof api_memory / sizeof *api_memory)
        return;
    pthread_mutex_lock(&api_lock);
    api_memory[api_memories].p = p;
    api_memory[api_memories++].bytes = (bytes + 4095) / 4096 * 4096;
    if (!api_opened)
        api_set(PROT_NONE);
    pthread_mutex_unlock(&api_lock);
}

/* ---- the functions ---- */

SanitizerResult sanitizerSubscribe(Sanitizer_SubscriberHandle *s, Sanitizer_CallbackFunc f, void *user)
{
    API_MAY_FAIL(Subscribe);
    if (getenv("API_TAKEN"))
        return SANITIZER_ERROR_MAX_LIMIT_REACHED;
    if (getenv("API_OTHER_DRIVER"))
        return SANITIZER_ERROR_NOT_INITIALIZED;
    *s = (Sanitizer_SubscriberHandle)(void *)1;
    api_callback = f;
    return SANITIZER_SUCCESS;
}
/* API_KNOWS=DRIVER,RUNTIME: the highest functions of these APIs that the library knows; otherwise those of
 * its headers, and in a folder "12" those of 12.9. */
static int api_knows(Sanitizer_CallbackDomain d, Sanitizer_CallbackId id)
{
    unsigned driver = SANITIZER_CBID_DRIVER_API_SIZE - 1, runtime = SANITIZER_CBID_RUNTIME_API_SIZE - 1;
    Dl_info info;
    const char *known = getenv("API_KNOWS");
    if (!known && dladdr((void *)&api_knows, &info) && strstr(info.dli_fname, "/12/"))
        known = "783,486";
    if (known)
        sscanf(known, "%u,%u", &driver, &runtime);
    return d == SANITIZER_CB_DOMAIN_DRIVER_API    ? id <= driver
           : d == SANITIZER_CB_DOMAIN_RUNTIME_API ? id <= runtime
                                                  : 1;
}
SanitizerResult sanitizerEnableCallback(uint32_t on, Sanitizer_SubscriberHandle s, Sanitizer_CallbackDomain d,
                                        Sanitizer_CallbackId id)
{
    api_asked |= 1u << d;
    API_MAY_FAIL(EnableCallback);
    if (!api_knows(d, id))
        return SANITIZER_ERROR_INVALID_PARAMETER;
    api_enabled += on;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerEnableDomain(uint32_t on, Sanitizer_SubscriberHandle s, Sanitizer_CallbackDomain d)
{
    api_asked |= 1u << d;
    API_MAY_FAIL(EnableDomain);
    api_enabled += on;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerGetResultString(SanitizerResult r, const char **text)
{
    API_MAY_FAIL(GetResultString);
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
    API_MAY_FAIL(Alloc);
    SanitizerResult r = api_alloc(p, bytes);
    api_remember(*p, bytes);
    return r;
}
SanitizerResult sanitizerAllocHost(CUcontext c, void **p, size_t bytes)
{
    API_MAY_FAIL(AllocHost);
    return api_alloc(p, bytes);
}
SanitizerResult sanitizerMemcpyHostToDeviceAsync(void *to, void *from, size_t bytes, Sanitizer_StreamHandle s)
{
    API_MAY_FAIL(MemcpyHostToDeviceAsync);
    api_touch(1);
    memcpy(to, from, bytes);
    api_touch(0);
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerMemcpyDeviceToHost(void *to, void *from, size_t bytes, Sanitizer_StreamHandle s)
{
    API_MAY_FAIL(MemcpyDeviceToHost);
    api_touch(1);
    memcpy(to, from, bytes);
    api_touch(0);
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerStreamSynchronize(Sanitizer_StreamHandle s)
{
    API_MAY_FAIL(StreamSynchronize);
    return SANITIZER_SUCCESS;
}
/* A stream's handle is a thousand more; the default one's of each context is of its own. */
SanitizerResult sanitizerGetStreamHandle(CUcontext c, CUstream s, Sanitizer_StreamHandle *h)
{
    API_MAY_FAIL(GetStreamHandle);
    *h = (Sanitizer_StreamHandle)((char *)(s ? (void *)s : (void *)c) + 1000);
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerAddPatches(const void *image, CUcontext c)
{
    API_MAY_FAIL(AddPatches);
    const char *most =
        getenv("API_LOADS"); /* a driver loads the machine code of this CUDA version and older */
    return image && (!most || atoi(image) <= atoi(most)) ? SANITIZER_SUCCESS
                                                         : SANITIZER_ERROR_INVALID_PARAMETER;
}
SanitizerResult sanitizerPatchInstructions(const Sanitizer_InstructionId id, CUmodule m, const char *function)
{
    API_MAY_FAIL(PatchInstructions);
    const char *rows = getenv("API_ROWS"); /* the highest instruction that the library knows */
    return (unsigned)id > (rows ? (unsigned)atoi(rows) : 40) ? SANITIZER_ERROR_INVALID_PARAMETER
                                                             : api_patch_result;
}
SanitizerResult sanitizerPatchModule(CUmodule m)
{
    API_MAY_FAIL(PatchModule);
    api_patched++;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerSetLaunchCallbackData(Sanitizer_LaunchHandle l, CUfunction f,
                                               Sanitizer_StreamHandle s, const void *data)
{
    API_MAY_FAIL(SetLaunchCallbackData);
    api_data = data;
    return SANITIZER_SUCCESS;
}
SanitizerResult sanitizerGetFunctionPcAndSize(CUmodule m, const char *name, uint64_t *pc, uint64_t *size)
{
    API_MAY_FAIL(GetFunctionPcAndSize);
    *pc = API_PC;
    *size = 0;
    return strcmp(name, API_KERNEL) ? SANITIZER_ERROR_INVALID_PARAMETER : SANITIZER_SUCCESS;
}
SanitizerResult sanitizerGetCallbackPcAndSize(CUcontext c, const char *name, uint64_t *pc, uint64_t *size)
{
    API_MAY_FAIL(GetCallbackPcAndSize);
    return SANITIZER_ERROR_INVALID_PARAMETER;
}
