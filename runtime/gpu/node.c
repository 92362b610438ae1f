/* Kernels of graphs: the launch context that each has as long as its graph is ready. */
#include "cuda.h"
#include "device.h"
#include <errno.h>
#include <stdlib.h>

#define NODES_AT_ONCE 64

/* Outside of the lock: the reader needs it to give contexts back, and this may wait for a kernel. */
static struct mt_gpu_node *node_make_some(struct mt_gpu_device *d)
{
    const struct mt_cuda *cu = mt_cuda();
    struct mt_gpu_context image[NODES_AT_ONCE], *on_device;
    struct mt_gpu_node *list = NULL;
    void *memory = NULL;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    for (unsigned i = 0; i < NODES_AT_ONCE; i++)
        image[i] = (struct mt_gpu_context){.rings = (uint64_t)(uintptr_t)d->on_device,
                                           .ring_mask = MT_GPU_RINGS - 1,
                                           .id = MT_PACKET_NOBODY,
                                           .ctas = d->ctas,
                                           .spaces = mt_trace_compact() != 0};
    cu->ThreadExchangeStreamCaptureMode(&mode);
    cudaError_t e = cu->Malloc(&memory, sizeof image);
    if (!e)
        e = mt_gpu_write(cu, memory, image, sizeof image);
    cu->ThreadExchangeStreamCaptureMode(&mode);
    on_device = memory;
    for (unsigned i = 0; i < NODES_AT_ONCE && !e; i++) {
        struct mt_gpu_node *node = calloc(1, sizeof *node);
        if (!node)
            break;
        *node = (struct mt_gpu_node){.device = d, .context = on_device + i, .next = list};
        list = node;
    }
    if (e)
        cu->GetLastError();
    return list;
}

static struct mt_gpu_node *node_take(struct mt_gpu_device *d, struct mt_gpu_node *more)
{
    pthread_mutex_lock(&mt_gpu_lock);
    while (more) {
        struct mt_gpu_node *next = more->next;
        more->next = d->nodes;
        d->nodes = more;
        more = next;
    }
    struct mt_gpu_node *node = d->nodes;
    if (node) {
        d->nodes = node->next;
        node->freed = 0;
    }
    pthread_mutex_unlock(&mt_gpu_lock);
    return node;
}

struct mt_gpu_node *mt_gpu_node_new(struct mt_gpu_device *d)
{
    struct mt_gpu_node *node = node_take(d, NULL);
    return node ? node : node_take(d, node_make_some(d));
}

/* Called with the lock. */
static void node_recycle(struct mt_gpu_node *node)
{
    if (!node->freed || node->first)
        return;
    node->next = node->device->nodes;
    node->device->nodes = node;
}

void mt_gpu_node_free(struct mt_gpu_node *node)
{
    pthread_mutex_lock(&mt_gpu_lock);
    node->freed = 1;
    node_recycle(node);
    pthread_mutex_unlock(&mt_gpu_lock);
}

void *mt_gpu_node_context(const struct mt_gpu_node *node)
{
    return (char *)node->context + (node->device->ctas ? MT_CONTEXT_IN_PARTS : 0);
}

void mt_gpu_node_left(struct mt_flight *f)
{
    struct mt_flight **at = &f->node->first;
    while (*at && *at != f)
        at = &(*at)->node_next;
    if (!*at)
        return;
    *at = f->node_next;
    pthread_cond_broadcast(&mt_gpu_returned);
    node_recycle(f->node);
}

int mt_gpu_node_idle(struct mt_gpu_node *node, unsigned ms)
{
    const struct timespec end = mt_gpu_in_ms(ms);
    pthread_mutex_lock(&mt_gpu_lock);
    while (node->first && pthread_cond_timedwait(&mt_gpu_returned, &mt_gpu_lock, &end) != ETIMEDOUT)
        ;
    int idle = !node->first;
    pthread_mutex_unlock(&mt_gpu_lock);
    return idle;
}

cudaError_t mt_gpu_node_is(struct mt_gpu_node *node, uint32_t id, cudaStream_t stream)
{
    const struct mt_cuda *cu = mt_cuda();
    if (cu->WriteValue && !cu->WriteValue(stream, (uint64_t)(uintptr_t)&node->context->id, id, 0))
        return cudaSuccess;
    return cu->MemcpyAsync(&node->context->id, &node->device->numbers[id], sizeof id, cudaMemcpyHostToDevice,
                           stream);
}
