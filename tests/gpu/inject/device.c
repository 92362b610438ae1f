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

const struct mt_options *mt_options(void)
{
    static struct mt_options o = {.ring_slots = 32};
    return &o;
}

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

void mt_inject_streams_settle(void)
{
}

int64_t mt_trace_number(const struct mt_trace *t)
{
    return t ? 0 : -1;
}

void mt_trace_flush(void)
{
}

void mt_event_sync(const char *what, int64_t id)
{
}

void mt_say(const char *format, ...)
{
}

/* ---- kernels ---- */

static struct mt_gpu_context *device_context(const void *data)
{
    return (struct mt_gpu_context *)((uintptr_t)data & ~(uintptr_t)MT_CONTEXT_IN_PARTS);
}

/* One slot; waits for room as a GPU does. */
static void device_put(const void *data, uint32_t cta, uint64_t first, uint64_t second, uint64_t y)
{
    struct mt_gpu_context *c = device_context(data);
    struct mt_gpu_ring *r = (struct mt_gpu_ring *)(uintptr_t)c->rings + (cta & c->ring_mask);
    uint64_t at = __atomic_fetch_add(&r->head, 1, __ATOMIC_SEQ_CST), slots = r->mask + 1;
    uint64_t tail;
    do
        tail = __atomic_load_n((uint64_t *)(uintptr_t)r->tail, __ATOMIC_ACQUIRE);
    while (tail != MT_RING_CLOSED && at + 1 - tail > slots);
    uint64_t *w = ((struct mt_slot *)(uintptr_t)r->slots)[at & r->mask].w, tag = at & slots ? 0 : 1ull << 63;
    uint64_t words[] = {first, second, cta, y};
    for (int i = 0; i < 4; i++)
        __atomic_store_n(&w[i], words[i] | tag, __ATOMIC_RELEASE);
}

static uint64_t device_mask(uint32_t lanes)
{
    return lanes == 32 ? 0xffffffff : (1ull << lanes) - 1;
}

static uint64_t device_head(const void *data, uint64_t kind, uint64_t type, uint64_t x)
{
    return kind << 60 | type << 56 | (uint64_t)device_context(data)->id << 28 | x;
}

void device_lose(const void *data, uint32_t lanes)
{
    device_context(data)->records[3] += lanes;
}

void device_store(const void *data, uint32_t cta, uint32_t lanes, uint64_t address, uint32_t site)
{
    device_lose(data, lanes);
    device_put(data, cta, device_head(data, 1, 1, 4u << 16), device_mask(lanes) << 31 | site,
               4ull << 49 | address);
}

void device_exit(const void *data, uint32_t cta, uint32_t lanes)
{
    device_put(data, cta, device_head(data, 5, 0, 0), device_mask(lanes) << 31, 0);
}

void device_note(const void *data, uint32_t cta, uint64_t accesses)
{
    device_put(data, cta, device_head(data, 6, 0, 0), device_mask(1) << 31, accesses);
}
