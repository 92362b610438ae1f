/* A GPU for the tests of runtime/gpu/inject. */
#include "device.h"
#include "gpu/inject/tally.h"
#include <stdlib.h>
#include <string.h>
#include "base/options.h"
#include "trace/selection.h"

SanitizerResult device_copy_result;
struct mt_inject_call device_call;

/* ---- the API: that of api.c ---- */

static SanitizerResult device_from(void *to, void *from, size_t bytes, Sanitizer_StreamHandle s)
{
    return device_copy_result ? device_copy_result : sanitizerMemcpyDeviceToHost(to, from, bytes, s);
}

const struct mt_sanitizer *mt_sanitizer(void)
{
    static const struct mt_sanitizer functions = {.Alloc = sanitizerAlloc,
                                                  .AllocHost = sanitizerAllocHost,
                                                  .MemcpyHostToDeviceAsync = sanitizerMemcpyHostToDeviceAsync,
                                                  .MemcpyDeviceToHost = device_from,
                                                  .StreamSynchronize = sanitizerStreamSynchronize,
                                                  .GetStreamHandle = sanitizerGetStreamHandle};
    return &functions;
}

const char *mt_sanitizer_text(SanitizerResult r)
{
    return "an error of the test";
}

/* ---- what rings and waits ask others ---- */

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

int mt_tally_wanted(void)
{
    return 0;
}

uint64_t mt_tally_make(struct mt_rings_maker *m)
{
    return 0;
}
