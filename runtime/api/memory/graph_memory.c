/* Memory of allocation nodes: at one address for all launches of their graph. */
#include "graph_memory.h"
#include "api/device/device.h"
#include "api/tables/map.h"
#include "trace/objects.h"
#include "base/fork.h"
#include <stdlib.h>

static struct mt_map memories = MT_MAP_INIT; /* by address */
MT_FORK_TABLE(memories);

struct mt_graph_memory *mt_graph_memory_new(void *p, size_t bytes)
{
    struct mt_graph_memory *m = malloc(sizeof *m);
    if (!m)
        return NULL;
    *m = (struct mt_graph_memory){.refs = 1, .live = 1, .p = p, .bytes = bytes};
    if (!mt_map_set(&memories, p, m))
        return m;
    free(m);
    return NULL;
}

int mt_graph_gave_back(void *p)
{
    struct mt_graph_memory *m = p ? mt_map_get(&memories, p) : NULL;
    if (!m)
        return 0;
    return __atomic_exchange_n(&m->live, 0, __ATOMIC_ACQ_REL) ? 1 : -1;
}

void mt_graph_memory_renew(struct mt_graph_memory *m)
{
    if (!__atomic_exchange_n(&m->live, 1, __ATOMIC_ACQ_REL))
        mt_heap_identify(m->p, mt_object_add(m->p, m->bytes, "async", mt_heap_owner(m->p), NULL));
}

/* What the program has not freed is its own from here on. */
void mt_graph_memory_release(struct mt_graph_memory *m)
{
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL))
        return;
    mt_map_take(&memories, m->p);
    if ((m->freed || !m->live) && mt_heap_free(m->p, 1u << MT_HEAP_DEVICE))
        mt_object_done(mt_object_take(m->p), 1);
    free(m);
}
