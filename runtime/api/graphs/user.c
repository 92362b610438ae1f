/* User objects: a destructor of the program that runs when nobody, graphs included, has a share any more. */
#include "api/entry.h"
#include "api/tables/error.h"
#include "graph.h"
#include <stdlib.h>

struct CUuserObject_st {
    int refs;
    void *data;
    cudaHostFn_t destroy;
};

static cudaError_t user_release(struct CUuserObject_st *o, unsigned count)
{
    int left = __atomic_sub_fetch(&o->refs, (int)count, __ATOMIC_ACQ_REL);
    if (!left) {
        o->destroy(o->data);
        free(o);
    }
    return cudaSuccess;
}

cudaError_t impl_cudaUserObjectCreate(cudaUserObject_t *out, void *data, cudaHostFn_t destroy, unsigned refs,
                                      unsigned flags)
{
    struct CUuserObject_st *o = NULL;
    MT_RETURN_IF_FAILED();
    if (!out || !destroy || !refs || refs > INT32_MAX || flags != cudaUserObjectNoDestructorSync)
        return mt_fail(cudaErrorInvalidValue);
    if (!(o = malloc(sizeof *o)))
        return mt_fail(cudaErrorMemoryAllocation);
    *o = (struct CUuserObject_st){(int)refs, data, destroy};
    *out = o;
    return cudaSuccess;
}

cudaError_t impl_cudaUserObjectRetain(cudaUserObject_t object, unsigned count)
{
    struct CUuserObject_st *o = object;
    if (!o || !count)
        return mt_fail(cudaErrorInvalidValue);
    __atomic_fetch_add(&o->refs, (int)count, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t impl_cudaUserObjectRelease(cudaUserObject_t object, unsigned count)
{
    struct CUuserObject_st *o = object;
    return o && count ? user_release(o, count) : mt_fail(cudaErrorInvalidValue);
}

static int user_share(struct CUgraph_st *g, struct CUuserObject_st *o, unsigned count)
{
    for (size_t i = 0; i < g->nuser; i++)
        if (g->user[i].object == o) {
            g->user[i].count += count;
            return 0;
        }
    struct mt_user_share *p = realloc(g->user, (g->nuser + 1) * sizeof *p);
    if (!p)
        return -1;
    g->user = p;
    p[g->nuser++] = (struct mt_user_share){o, count};
    return 0;
}

cudaError_t impl_cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                           unsigned flags)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    struct CUuserObject_st *o = object;
    if (!g || !o || !count || flags & ~(unsigned)cudaGraphUserObjectMove)
        return mt_fail(cudaErrorInvalidValue);
    if (user_share(g, o, count))
        return mt_fail(cudaErrorMemoryAllocation);
    if (!(flags & cudaGraphUserObjectMove))
        __atomic_fetch_add(&o->refs, (int)count, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    for (size_t i = 0; g && count && i < g->nuser; i++)
        if (g->user[i].object == object && g->user[i].count >= count) {
            g->user[i].count -= count;
            return user_release(g->user[i].object, count);
        }
    return mt_fail(cudaErrorInvalidValue);
}

int mt_user_clone(const struct CUgraph_st *from, struct CUgraph_st *to)
{
    for (size_t i = 0; i < from->nuser; i++) {
        if (!from->user[i].count)
            continue;
        if (user_share(to, from->user[i].object, from->user[i].count))
            return -1;
        __atomic_fetch_add(&from->user[i].object->refs, (int)from->user[i].count, __ATOMIC_RELAXED);
    }
    return 0;
}

void mt_user_drop(struct CUgraph_st *g)
{
    for (size_t i = 0; i < g->nuser; i++)
        if (g->user[i].count)
            user_release(g->user[i].object, g->user[i].count);
    free(g->user);
}
