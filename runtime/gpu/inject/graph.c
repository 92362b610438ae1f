/* Launches of graphs: each node is what it would be by itself, in the stream that the graph was launched in.
 */
#include "base/fork.h"
#include "inject.h"
#include "memory.h"
#include "trace/ranges.h"
#include "trace/trace.h"

/* Ready graphs that may launch graphs from the device, by their handles. */
static struct mt_ranges launching = MT_RANGES_INIT;
MT_FORK_TABLE(launching);

static uint64_t graph_key(CUgraphExec g)
{
    return (uint64_t)(uintptr_t)g;
}

static void graph_created(const Sanitizer_GraphExecData *d)
{
    if (d->containsDeviceGraphLaunches)
        mt_ranges_add(&launching, graph_key(d->graphExec), 1, NULL);
}

static void graph_gone(const Sanitizer_GraphExecData *d)
{
    struct mt_range r;
    mt_ranges_take(&launching, graph_key(d->graphExec), &r);
}

static void graph_launched(const Sanitizer_GraphLaunchData *d)
{
    struct mt_range r;
    if (!d->isGraphUpload && mt_ranges_find(&launching, graph_key(d->graphExec), &r))
        mt_trace_miss(mt_inject_stream_trace(d->context, d->hStream),
                      "graphs were launched from the device: their launches cannot be told apart");
}

static void graph_kernel(const Sanitizer_LaunchData *l)
{
    int known = l->hApiStream != NULL;
    mt_inject_launched(l, known ? l->apiContext : l->context, known ? l->hApiStream : l->hStream);
}

static void graph_node(const Sanitizer_GraphNodeLaunchData *n)
{
    const Sanitizer_MemcpyData *copy = &n->memcpyData;
    const Sanitizer_MemsetData *fill = &n->memsetData;
    switch ((int)n->nodeType) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        graph_kernel(&n->launchData);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        mt_inject_copied(copy, mt_inject_stream_number(copy->apiContext, copy->hApiStream));
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        mt_inject_filled(fill, mt_inject_stream_number(fill->context, fill->hStream));
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        mt_inject_allocated(&n->memAllocData);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        mt_inject_freed(n->memFreeAddress);
        break;
    default:
        break;
    }
}

/* Nodes are called back when a graph is uploaded, too, which launches nothing. */
void mt_inject_graph(Sanitizer_CallbackId cbid, const void *data)
{
    const Sanitizer_GraphNodeLaunchData *n = data;
    switch (cbid) {
    case SANITIZER_CBID_GRAPHS_GRAPHEXEC_CREATED:
        graph_created(data);
        break;
    case SANITIZER_CBID_GRAPHS_GRAPHEXEC_DESTROYING:
        graph_gone(data);
        break;
    case SANITIZER_CBID_GRAPHS_LAUNCH_BEGIN:
        graph_launched(data);
        break;
    case SANITIZER_CBID_GRAPHS_NODE_LAUNCH_BEGIN:
        if (!n->isGraphUpload)
            graph_node(n);
        break;
    default:
        break;
    }
}
