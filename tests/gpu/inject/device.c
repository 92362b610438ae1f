/* A GPU for the tests of runtime/gpu/inject. */
#include "device.h"
#include <stdlib.h>
#include <string.h>
#include "base/options.h"
#include "trace/selection.h"

SanitizerResult device_copy_result;
struct mt_inject_call device_call;

/* ---- the API ---- */

static SanitizerResult device_alloc(CUcontext c, void **p, size_t bytes)
{
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    memset(*p, 0x5a, bytes); /* nobody promises zeros */
    return *p ? SANITIZER_SUCCESS : SANITIZER_ERROR_OUT_OF_MEMORY;
}

static SanitizerResult device_to(void *to, void *from, size_t bytes, Sanitizer_StreamHandle s)
{
    memcpy(to, from, bytes);
    return SANITIZER_SUCCESS;
}

static SanitizerResult device_from(void *to, void *from, size_t bytes, Sanitizer_StreamHandle s)
{
    if (!device_copy_result)
        memcpy(to, from, bytes);
    return device_copy_result;
}

static SanitizerResult device_synchronize(Sanitizer_StreamHandle s)
{
    return SANITIZER_SUCCESS;
}

static SanitizerResult device_stream(CUcontext c, CUstream s, Sanitizer_StreamHandle *h)
{
    *h = (Sanitizer_StreamHandle)(void *)1;
    return SANITIZER_SUCCESS;
}

const struct mt_sanitizer *mt_sanitizer(void)
{
    static const struct mt_sanitizer functions = {.Alloc = device_alloc,
                                                  .AllocHost = device_alloc,
                                                  .MemcpyHostToDeviceAsync = device_to,
                                                  .MemcpyDeviceToHost = device_from,
                                                  .StreamSynchronize = device_synchronize,
                                                  .GetStreamHandle = device_stream};
    return &functions;
}

const char *mt_sanitizer_text(SanitizerResult r)
{
    return "an error of the test";
}

/* ---- what rings and waits ask others ---- */

const struct mt_cta_rule *mt_selection_ctas(void)
{
    return NULL;
}

struct mt_inject_call *mt_inject_call(void)
{
    return &device_call;
}

struct mt_inject_context *mt_inject_context(CUcontext handle)
{
    return NULL;
}

struct mt_trace *mt_inject_stream_known(CUcontext context, Sanitizer_StreamHandle stream)
{
    return NULL;
}

void mt_inject_streams(void (*f)(CUcontext, Sanitizer_StreamHandle, const struct mt_trace *, void *),
                       void *data)
{
}

void mt_inject_streams_close(void)
{
}

int64_t mt_trace_number(const struct mt_trace *t)
{
    return t ? 0 : -1;
}

void mt_trace_flush(int all)
{
}

void mt_event_sync(const char *what, int64_t id)
{
}

void mt_say(const char *format, ...)
{
}
