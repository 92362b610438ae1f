/* Copies, fills and words that streams write, as they are begun. What a callback says of a copy of several
 * planes is not how far they lie from each other: they are taken to follow each other. */
#include "inject.h"
#include "memory.h"
#include "trace/events.h"
#include "trace/objects.h"
#include "trace/planes.h"

static const char *copy_kind(const Sanitizer_MemcpyData *m)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d"};
    if (m->direction >= SANITIZER_MEMCPY_DIRECTION_HOST_TO_HOST &&
        m->direction <= SANITIZER_MEMCPY_DIRECTION_DEVICE_TO_DEVICE)
        return kinds[m->direction - SANITIZER_MEMCPY_DIRECTION_HOST_TO_HOST];
    return kinds[(mt_object_is_device((void *)(uintptr_t)m->dstAddress) ? 1 : 0) |
                 (mt_object_is_device((void *)(uintptr_t)m->srcAddress) ? 2 : 0)];
}

/* Rows and planes, if they make up the whole; else one block. */
static struct mt_planes_size copy_size(const Sanitizer_MemcpyData *m)
{
    struct mt_planes_size s = {m->width, m->height ? m->height : 1, m->depth ? m->depth : 1};
    uint64_t rows = 0, bytes = 0;
    if (__builtin_mul_overflow(s.width, s.height, &rows) || __builtin_mul_overflow(rows, s.depth, &bytes) ||
        (m->size && bytes != m->size))
        return (struct mt_planes_size){m->size, 1, 1};
    return s;
}

static struct mt_planes copy_planes(uint64_t at, uint64_t pitch, const struct mt_planes_size *s)
{
    pitch = pitch ? pitch : s->width;
    return (struct mt_planes){at, pitch, pitch * s->height, mt_object_device((void *)(uintptr_t)at)};
}

void mt_inject_copied(const Sanitizer_MemcpyData *m, int64_t stream)
{
    struct mt_planes_size size = copy_size(m);
    mt_planes_copied(copy_planes(m->dstAddress, m->dstPitch, &size),
                     copy_planes(m->srcAddress, m->srcPitch, &size), size,
                     &(struct mt_memcpy_line){.kind = copy_kind(m), .stream = stream}, mt_host_site_take());
}

/* Width counts elements, as in the driver's functions. */
void mt_inject_filled(const Sanitizer_MemsetData *m, int64_t stream)
{
    uint32_t element = m->elementSize ? m->elementSize : 1;
    struct mt_planes_size size = {m->width * element, m->height ? m->height : 1, 1};
    mt_planes_filled(copy_planes(m->address, m->pitch, &size), size, m->value, stream, mt_host_site_take());
}

void mt_inject_memcpy(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_MemcpyData *m = data;
    if (cbid == SANITIZER_CBID_MEMCPY_STARTING)
        mt_inject_copied(m, mt_inject_stream_number(m->apiContext, m->hApiStream));
}

void mt_inject_memset(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_MemsetData *m = data;
    if (cbid == SANITIZER_CBID_MEMSET_STARTING)
        mt_inject_filled(m, mt_inject_stream_number(m->context, m->hStream));
}

void mt_inject_batch(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_BatchMemopData *b = data;
    uint64_t bytes = b->type == SANITIZER_BATCH_MEMOP_TYPE_64B ? 8 : 4;
    if (cbid == SANITIZER_CBID_BATCH_MEMOP_WRITE)
        mt_planes_filled((struct mt_planes){b->address, bytes, bytes, -1},
                         (struct mt_planes_size){bytes, 1, 1}, b->value,
                         mt_inject_stream_number(b->context, b->hStream), mt_host_site_take());
}
