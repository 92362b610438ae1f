/* Graphs of the CPU device from the program's view: nodes, edges, clones. */
#include "api/entry.h"
#include "api/tables/error.h"
#include "graph.h"
#include "api/copy/copy.h"
#include "api/launch/launch.h"
#include "base/fork.h"
#include "base/report.h"
#include "api/tables/map.h"
#include "memtrace/grow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* User objects: a destructor of the program that runs when no reference, graphs included, is left. */

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

/* Adds a graph's references for its clone. */
static int user_clone(const struct CUgraph_st *from, struct CUgraph_st *to)
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

/* Drops a graph's references when it is destroyed. */
static void user_drop(struct CUgraph_st *g)
{
    for (size_t i = 0; i < g->nuser; i++)
        if (g->user[i].count)
            user_release(g->user[i].object, g->user[i].count);
    free(g->user);
}

/* Launches of graphs on the CPU device: the graph's operations are queued in the stream, in an order that its
 * edges allow. Each kernel is a launch of its own, also in the trace. */

static cudaError_t branch_put(const struct mt_branch *b, struct mt_stream *s, struct mt_op **behind);

static void graph_put(struct mt_op *op, struct mt_stream *s, struct mt_op **behind);

/* Conditional nodes of graphs: their handles, set by kernels (cudaGraphSetConditional), and their bodies. The
 * body is chosen when a launch reaches the node, which then queues the body's operations directly behind
 * itself. */

/* A handle is its address: kernels write to `value` there. */
struct mt_condition {
    uint32_t value, first;
    int refs, assigned, used; /* assigned: `first`, when its graph begins; used: a node has it */
};

static struct mt_map conditions = MT_MAP_INIT;
MT_FORK_TABLE(conditions);

static struct mt_condition *condition_hold(struct mt_condition *c)
{
    __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

static void condition_release(struct mt_condition *c)
{
    if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
        return;
    mt_map_take(&conditions, c);
    free(c);
}

static int condition_keep(struct CUgraph_st *g, struct mt_condition *c)
{
    if (mt_grow(&g->condition, &g->condition_room, g->nconditions + 1, sizeof(struct mt_condition *)))
        return -1;
    g->condition[g->nconditions++] = condition_hold(c);
    return 0;
}

/* Clones the condition handles, with their initial values, for the clone of a graph. */
static int condition_clone(const struct CUgraph_st *from, struct CUgraph_st *to)
{
    int bad = 0;
    for (size_t i = 0; i < from->nconditions && !bad; i++)
        bad = condition_keep(to, from->condition[i]);
    return bad;
}

/* Drops the condition handles of a destroyed graph. */
static void condition_drop(struct CUgraph_st *g)
{
    for (size_t i = 0; i < g->nconditions; i++)
        condition_release(g->condition[i]);
    free(g->condition);
}

#if CUDART_VERSION >= 12030
cudaError_t impl_cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *out, cudaGraph_t graph,
                                                  unsigned first, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!out || !g || flags & ~(unsigned)cudaGraphCondAssignDefault)
        return mt_fail(cudaErrorInvalidValue);
    struct mt_condition *c = calloc(1, sizeof *c);
    int bad = !c || mt_map_set(&conditions, c, c) || condition_keep(g, c);
    if (bad) {
        if (c)
            mt_map_take(&conditions, c);
        free(c);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    c->first = first;
    c->assigned = flags == cudaGraphCondAssignDefault;
    *out = (cudaGraphConditionalHandle)(uintptr_t)c;
    return cudaSuccess;
}
#endif

/* ---- nodes ---- */

struct mt_branch {
    struct mt_condition *condition;
    int type; /* enum cudaGraphConditionalNodeType */
    unsigned size;
    struct CUgraph_st *body[];
};
enum { IF, WHILE, SWITCH };

static void branch_free(struct mt_branch *b)
{
    for (unsigned i = 0; b && i < b->size; i++)
        if (b->body[i])
            mt_graph_free(b->body[i]);
    if (b)
        condition_release(b->condition);
    free(b);
}

/* Makes a branch with copies of `from`'s bodies, or with empty graphs. */
static struct mt_branch *condition_branch(struct mt_condition *c, int type, unsigned size,
                                          const struct mt_branch *from)
{
    struct mt_branch *b = calloc(1, sizeof *b + size * sizeof *b->body);
    if (!b)
        return NULL;
    b->condition = condition_hold(c);
    b->type = type;
    b->size = size;
    for (unsigned i = 0; i < size; i++) {
        if (!(b->body[i] = from ? mt_graph_clone(from->body[i]) : mt_graph_new())) {
            branch_free(b);
            return NULL;
        }
        b->body[i]->owned = 1;
    }
    return b;
}

static struct mt_branch *branch_clone(const struct mt_branch *b)
{
    return condition_branch(b->condition, b->type, b->size, b);
}

static cudaError_t branch_new(struct mt_branch **out, unsigned long long handle, int type, unsigned size)
{
    struct mt_condition *c = mt_map_get(&conditions, (const void *)(uintptr_t)handle);
    const unsigned most[] = {[IF] = 2, [WHILE] = 1, [SWITCH] = 1u << 16};
    if (!c || c->used || (unsigned)type > SWITCH || !size || size > most[type])
        return mt_fail(cudaErrorInvalidValue);
    *out = condition_branch(c, type, size, NULL);
    c->used = *out != NULL;
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

/* the node was not made: another one may have its handle */
static void branch_forget(struct mt_branch *b)
{
    b->condition->used = 0;
}

unsigned mt_branch_bodies(const struct mt_branch *b, struct CUgraph_st *const **body)
{
    *body = b->body;
    return b->size;
}

int mt_branch_like(const struct mt_branch *a, const struct mt_branch *b)
{
    return a->condition == b->condition && a->type == b->type && a->size == b->size;
}

/* Checks that the nodes are allowed in a body by CUDA. */
static int condition_allows(const struct CUgraph_st *g)
{
    static const char allowed[cudaGraphNodeTypeCount] = {
        [cudaGraphNodeTypeKernel] = 1, [cudaGraphNodeTypeMemcpy] = 1, [cudaGraphNodeTypeMemset] = 1,
        [cudaGraphNodeTypeGraph] = 1,  [cudaGraphNodeTypeEmpty] = 1,
    };
    for (size_t i = 0; i < g->n; i++) {
        const struct CUgraphNode_st *n = g->node[i];
        if ((!n->branch && !allowed[n->type]) || (n->child && !condition_allows(n->child)))
            return 0;
    }
    return 1;
}

int mt_graph_conditions(const struct CUgraph_st *g)
{
    int found = 0;
    for (size_t i = 0; i < g->n; i++) {
        const struct mt_branch *b = g->node[i]->branch;
        for (unsigned k = 0; b && k < b->size; k++)
            if (!condition_allows(b->body[k]) || mt_graph_conditions(b->body[k]) < 0)
                return -1;
        found |= b != NULL;
    }
    return found;
}

/* ---- launches ---- */

struct condition_op {
    struct mt_op op;
    struct mt_condition *condition;
};

static int condition_assign(struct mt_op *op)
{
    struct mt_condition *c = ((struct condition_op *)op)->condition;
    __atomic_store_n(&c->value, c->first, __ATOMIC_RELEASE);
    return MT_OP_DONE;
}

static cudaError_t condition_begin(const struct CUgraph_st *g, struct mt_stream *s, struct mt_op **behind)
{
    for (size_t i = 0; i < g->nconditions; i++) {
        if (!g->condition[i]->assigned)
            continue;
        struct condition_op *o = mt_op_new(sizeof *o, MT_OP_OTHER, condition_assign);
        if (!o)
            return mt_fail(cudaErrorMemoryAllocation);
        o->condition = g->condition[i];
        graph_put(&o->op, s, behind);
    }
    return cudaSuccess;
}

struct branch_op {
    struct mt_op op;
    const struct mt_branch *branch; /* branch of the ready graph, which outlives this operation */
};

static struct CUgraph_st *condition_taken(const struct mt_branch *b)
{
    uint32_t value = __atomic_load_n(&b->condition->value, __ATOMIC_ACQUIRE);
    if (b->type == IF)
        value = !value;
    else if (b->type == WHILE)
        value = value ? 0 : 1;
    return value < b->size ? b->body[value] : NULL;
}

static int condition_run(struct mt_op *op)
{
    const struct mt_branch *b = ((struct branch_op *)op)->branch;
    struct CUgraph_st *body = condition_taken(b);
    struct mt_op *behind = op;
    cudaError_t e = body ? mt_graph_run(body, op->stream, &behind) : cudaSuccess;
    if (body && !e && b->type == WHILE)
        e = branch_put(b, op->stream, &behind);
    if (e) {
        mt_report("a conditional node of a graph: no memory for its body");
        mt_fail_sticky(op->stream->device, e);
    }
    return MT_OP_DONE;
}

/* Queues a node like graph_put: its condition decides, and a body follows. */
static cudaError_t branch_put(const struct mt_branch *b, struct mt_stream *s, struct mt_op **behind)
{
    struct branch_op *o = mt_op_new(sizeof *o, MT_OP_OTHER, condition_run);
    if (!o)
        return mt_fail(cudaErrorMemoryAllocation);
    o->branch = b;
    graph_put(&o->op, s, behind);
    return cudaSuccess;
}

static void graph_launch_bind(struct mt_op *op, struct mt_stream *s)
{
    if (op->kind == MT_OP_KERNEL)
        mt_launch_bind(op, s);
    else if (op->kind == MT_OP_LIBRARY)
        mt_libcall_bind(op, s);
    else if (op->kind == MT_OP_COPY)
        mt_copy_bind(op, s);
    else if (op->kind == MT_OP_FILL)
        mt_fill_bind(op, s);
    else if (op->kind == MT_OP_RECORD || op->kind == MT_OP_WAIT)
        mt_event_bind(op, s);
}

static void graph_put(struct mt_op *op, struct mt_stream *s, struct mt_op **behind)
{
    if (!behind) {
        mt_op_enqueue(s, op);
        return;
    }
    mt_op_follow(*behind, op);
    *behind = op;
}

static cudaError_t run_node(const struct CUgraphNode_st *n, struct mt_stream *s, struct mt_op **behind)
{
    if (n->child)
        return mt_graph_run(n->child, s, behind);
    if (n->branch)
        return branch_put(n->branch, s, behind);
    if (n->memory)
        mt_graph_memory_renew(n->memory);
    if (!n->op || n->disabled)
        return cudaSuccess;
    struct mt_op *op = mt_op_copy(n->op);
    cudaError_t e = !op ? cudaErrorMemoryAllocation : op->renew ? (cudaError_t)op->renew(op) : cudaSuccess;
    if (e) {
        mt_op_free(op);
        return mt_fail(e);
    }
    graph_launch_bind(op, s);
    graph_put(op, s, behind);
    return cudaSuccess;
}

cudaError_t mt_graph_run(struct CUgraph_st *g, struct mt_stream *s, struct mt_op **behind)
{
    struct CUgraphNode_st **sorted = mt_graph_sorted(g);
    cudaError_t e = sorted ? condition_begin(g, s, behind) : mt_fail(cudaErrorMemoryAllocation);
    for (size_t i = 0; i < g->n && !e; i++)
        e = run_node(sorted[i], s, behind);
    free(sorted);
    return e;
}

static struct mt_map graphs = MT_MAP_INIT, nodes = MT_MAP_INIT;
MT_FORK_TABLE(graphs);
MT_FORK_TABLE(nodes);

struct CUgraph_st *mt_graph_get(cudaGraph_t g)
{
    return g ? mt_map_get(&graphs, g) : NULL;
}

struct CUgraphNode_st *mt_graph_node(cudaGraphNode_t n)
{
    return n ? mt_map_get(&nodes, n) : NULL;
}

struct CUgraph_st *mt_graph_new(void)
{
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (g && mt_map_set(&graphs, g, g)) {
        free(g);
        g = NULL;
    }
    return g;
}

static void graph_free_node(struct CUgraphNode_st *n)
{
    mt_map_take(&nodes, n);
    mt_op_free(n->op);
    if (n->child)
        mt_graph_free(n->child);
    branch_free(n->branch);
    mt_graph_memory_release(n->memory);
    free(n->after);
    free(n->args);
    free(n);
}

void mt_graph_free(struct CUgraph_st *g)
{
    mt_map_take(&graphs, g);
    for (size_t i = 0; i < g->n; i++)
        graph_free_node(g->node[i]);
    user_drop(g);
    condition_drop(g);
    free(g->node);
    free(g);
}

/* Adds nodes that `n` follows. Returns 0 or -1. */
static int graph_follow(struct CUgraphNode_st *n, struct CUgraphNode_st *const *after, size_t count)
{
    if (!count)
        return 0;
    struct CUgraphNode_st **p = realloc(n->after, (n->nafter + count) * sizeof *p);
    if (!p)
        return -1;
    n->after = p;
    memcpy(p + n->nafter, after, count * sizeof *p);
    n->nafter += count;
    return 0;
}

struct CUgraphNode_st *mt_graph_add(struct CUgraph_st *g, enum cudaGraphNodeType type, struct mt_op *op,
                                    struct CUgraphNode_st *const *after, size_t count)
{
    struct CUgraphNode_st *n = calloc(1, sizeof *n);
    if (!n || mt_grow(&g->node, &g->capacity, g->n + 1, sizeof *g->node) || graph_follow(n, after, count) ||
        mt_map_set(&nodes, n, n)) {
        if (n)
            free(n->after);
        free(n);
        mt_op_free(op);
        return NULL;
    }
    n->graph = g;
    n->type = type;
    n->op = op;
    n->index = g->n;
    g->node[g->n++] = n;
    return n;
}

/* ---- walks ---- */

static void graph_unseen(struct CUgraph_st *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->node[i]->seen = 0;
}

/* Searches backwards from `of`. Returns 1 if it leads to `n`. Uses its own stack, as graphs may be long. */
int mt_graph_precedes(const struct CUgraphNode_st *n, struct CUgraphNode_st *of)
{
    struct CUgraphNode_st **stack = malloc((of->graph->n + 1) * sizeof *stack);
    size_t depth = 0;
    int found = 0;
    if (!stack)
        return 0;
    graph_unseen(of->graph);
    of->seen = 1;
    stack[depth++] = of;
    while (depth && !found) {
        struct CUgraphNode_st *at = stack[--depth];
        found = at == n;
        for (size_t i = 0; i < at->nafter; i++)
            if (!at->after[i]->seen) {
                at->after[i]->seen = 1;
                stack[depth++] = at->after[i];
            }
    }
    free(stack);
    return found;
}

struct CUgraphNode_st **mt_graph_sorted(struct CUgraph_st *g)
{
    struct CUgraphNode_st **sorted = malloc((g->n + 1) * sizeof *sorted);
    size_t done = 0;
    if (!sorted)
        return NULL;
    graph_unseen(g);
    for (size_t before = 1; done != before;) { /* nodes are usually in order already: one round */
        before = done;
        for (size_t i = 0; i < g->n; i++) {
            struct CUgraphNode_st *n = g->node[i];
            size_t k = 0;
            while (!n->seen && k < n->nafter && n->after[k]->seen)
                k++;
            if (!n->seen && k == n->nafter) {
                n->seen = 1;
                sorted[done++] = n;
            }
        }
    }
    if (done != g->n) {
        free(sorted);
        return NULL;
    }
    return sorted;
}

/* ---- clones ---- */

static int clone_node(struct CUgraph_st *to, struct CUgraphNode_st *n)
{
    struct mt_op *op = n->op ? mt_op_copy(n->op) : NULL;
    if (n->op && !op)
        return -1;
    struct CUgraphNode_st *c = mt_graph_add(to, n->type, op, NULL, 0);
    if (!c)
        return -1;
    c->from = n;
    c->disabled = n->disabled;
    c->freed = n->freed;
    c->memory = n->memory;
    if (c->memory)
        __atomic_fetch_add(&c->memory->refs, 1, __ATOMIC_RELAXED);
    if (n->child && !(c->child = mt_graph_clone(n->child)))
        return -1;
    if (c->child)
        c->child->owned = 1;
    if (n->branch && !(c->branch = branch_clone(n->branch)))
        return -1;
    return 0;
}

struct CUgraph_st *mt_graph_clone(const struct CUgraph_st *g)
{
    struct CUgraph_st *to = mt_graph_new();
    int bad = !to || user_clone(g, to) || condition_clone(g, to);
    for (size_t i = 0; i < g->n && !bad; i++)
        bad = clone_node(to, g->node[i]);
    for (size_t i = 0; i < g->n && !bad; i++) { /* edges may lead forward: all nodes first */
        struct CUgraphNode_st *n = g->node[i], *c = to->node[i];
        bad = graph_follow(c, n->after, n->nafter);
        for (size_t k = 0; k < c->nafter && !bad; k++)
            c->after[k] = to->node[n->after[k]->index];
    }
    if (bad && to)
        mt_graph_free(to);
    return bad ? NULL : to;
}

/* ---- entry points ---- */

cudaError_t impl_cudaGraphCreate(cudaGraph_t *out, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags)
        return mt_fail(cudaErrorInvalidValue);
    *out = mt_graph_new();
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphDestroy(cudaGraph_t graph)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || g->owned || g->captures)
        return mt_fail(cudaErrorInvalidValue);
    mt_graph_free(g);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphClone(cudaGraph_t *out, cudaGraph_t graph)
{
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!out || !g)
        return mt_fail(cudaErrorInvalidValue);
    if (mt_graph_conditions(g)) /* not allowed by CUDA */
        return mt_fail(cudaErrorNotSupported);
    *out = mt_graph_clone(g);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphNodeFindInClone(cudaGraphNode_t *out, cudaGraphNode_t original, cudaGraph_t clone)
{
    struct CUgraph_st *g = mt_graph_get(clone);
    if (!out || !g || !mt_graph_node(original))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < g->n; i++)
        if (g->node[i]->from == original) {
            *out = g->node[i];
            return cudaSuccess;
        }
    return mt_fail(cudaErrorInvalidValue);
}

cudaError_t impl_cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !type)
        return mt_fail(cudaErrorInvalidValue);
    *type = n->type;
    return cudaSuccess;
}

/* ---- Nodes and edges of a graph of the CPU device: queries and changes ---- */

/* Answer to a list query: the number if there is no room, else the first *room entries, followed by NULL. */
struct answer {
    cudaGraphNode_t *out, *second; /* may be NULL */
    size_t room, n;
};

static void graph_edges_give(struct answer *a, struct CUgraphNode_st *n, struct CUgraphNode_st *m)
{
    if (a->out && a->n < a->room)
        a->out[a->n] = n;
    if (a->second && a->n < a->room)
        a->second[a->n] = m;
    a->n++;
}

static cudaError_t graph_edges_given(struct answer *a, size_t *count, cudaGraphEdgeData *edges)
{
    if (a->out && edges)
        memset(edges, 0, (a->n < a->room ? a->n : a->room) * sizeof *edges);
    for (size_t i = a->n; a->out && i < a->room; i++) {
        a->out[i] = NULL;
        if (a->second)
            a->second[i] = NULL;
    }
    *count = a->n;
    return cudaSuccess;
}

static cudaError_t graph_edges_list(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count, int roots)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || !count)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = out, .room = *count};
    for (size_t i = 0; i < g->n; i++)
        if (!roots || !g->node[i]->nafter)
            graph_edges_give(&a, g->node[i], NULL);
    return graph_edges_given(&a, count, NULL);
}

cudaError_t impl_cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count)
{
    return graph_edges_list(graph, out, count, 0);
}

cudaError_t impl_cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count)
{
    return graph_edges_list(graph, out, count, 1);
}

static cudaError_t graph_edges_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                     cudaGraphEdgeData *data, size_t *count)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || !count || !from != !to)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = from, .second = to, .room = *count};
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->node[i]->nafter; k++)
            graph_edges_give(&a, g->node[i]->after[k], g->node[i]);
    return graph_edges_given(&a, count, data);
}

static cudaError_t graph_edges_neighbours(cudaGraphNode_t node, cudaGraphNode_t *out, cudaGraphEdgeData *data,
                                          size_t *count, int before)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !count)
        return mt_fail(cudaErrorInvalidValue);
    struct answer a = {.out = out, .room = *count};
    for (size_t i = 0; before && i < n->nafter; i++)
        graph_edges_give(&a, n->after[i], NULL);
    for (size_t i = 0; !before && i < n->graph->n; i++)
        for (size_t k = 0; k < n->graph->node[i]->nafter; k++)
            if (n->graph->node[i]->after[k] == n)
                graph_edges_give(&a, n->graph->node[i], NULL);
    return graph_edges_given(&a, count, data);
}

static size_t edge_at(const struct CUgraphNode_st *to, const struct CUgraphNode_st *from)
{
    size_t k = 0;
    while (k < to->nafter && to->after[k] != from)
        k++;
    return k;
}

static cudaError_t graph_edges_change(cudaGraph_t graph, const cudaGraphNode_t *from,
                                      const cudaGraphNode_t *to, size_t n, int add)
{
    struct CUgraph_st *g = mt_graph_get(graph);
    if (!g || (n && (!from || !to)))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n; i++) {
        struct CUgraphNode_st *a = mt_graph_node(from[i]), *b = mt_graph_node(to[i]);
        int bad = !a || !b || a == b || a->graph != g || b->graph != g;
        if (bad || (edge_at(b, a) < b->nafter) == add)
            return mt_fail(cudaErrorInvalidValue);
    }
    for (size_t i = 0; i < n; i++) {
        struct CUgraphNode_st *b = to[i], *a = from[i];
        size_t k = edge_at(b, a);
        if (!add && k < b->nafter)
            b->after[k] = b->after[--b->nafter];
        else if (add && k == b->nafter && graph_follow(b, &a, 1))
            return mt_fail(cudaErrorMemoryAllocation);
    }
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaGraphGetEdges(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                   cudaGraphEdgeData *data, size_t *n)
{
    return graph_edges_edges(g, from, to, data, n);
}

cudaError_t impl_cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out,
                                              cudaGraphEdgeData *data, size_t *n)
{
    return graph_edges_neighbours(node, out, data, n, 1);
}

cudaError_t impl_cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out,
                                                cudaGraphEdgeData *data, size_t *n)
{
    return graph_edges_neighbours(node, out, data, n, 0);
}

/* Programmatic edges let a kernel begin before another ends: here it waits for the whole kernel, which is
 * always correct. */
cudaError_t impl_cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                          const cudaGraphNode_t *to, const cudaGraphEdgeData *data, size_t n)
{
    return graph_edges_change(g, from, to, n, 1);
}

cudaError_t impl_cudaGraphRemoveDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                             const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
                                             size_t n)
{
    return graph_edges_change(g, from, to, n, 0);
}
#else
cudaError_t impl_cudaGraphGetEdges(cudaGraph_t g, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *n)
{
    return graph_edges_edges(g, from, to, NULL, n);
}

cudaError_t impl_cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    return graph_edges_neighbours(node, out, NULL, n, 1);
}

cudaError_t impl_cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *n)
{
    return graph_edges_neighbours(node, out, NULL, n, 0);
}

cudaError_t impl_cudaGraphAddDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                          const cudaGraphNode_t *to, size_t n)
{
    return graph_edges_change(g, from, to, n, 1);
}

cudaError_t impl_cudaGraphRemoveDependencies(cudaGraph_t g, const cudaGraphNode_t *from,
                                             const cudaGraphNode_t *to, size_t n)
{
    return graph_edges_change(g, from, to, n, 0);
}
#endif

cudaError_t impl_cudaGraphDestroyNode(cudaGraphNode_t node)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n)
        return mt_fail(cudaErrorInvalidValue);
    if (n->memory || n->freed)
        return mt_fail(cudaErrorNotSupported); /* CUDA's error for memory nodes */
    struct CUgraph_st *g = n->graph;
    if (g->captures) /* streams and events refer to its nodes */
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < g->n; i++) {
        size_t k = edge_at(g->node[i], n);
        if (k < g->node[i]->nafter)
            g->node[i]->after[k] = g->node[i]->after[--g->node[i]->nafter];
    }
    g->n--;
    memmove(g->node + n->index, g->node + n->index + 1, (g->n - n->index) * sizeof *g->node);
    for (size_t i = n->index; i < g->n; i++)
        g->node[i]->index = i;
    graph_free_node(n);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags)
{
    static const char *const names[] = {"kernel",
                                        "memcpy",
                                        "memset",
                                        "host",
                                        "graph",
                                        "empty",
                                        "wait event",
                                        "record event",
                                        "signal",
                                        "wait",
                                        "memory allocation",
                                        "memory free",
                                        "memory operations",
                                        "conditional"};
    struct CUgraph_st *g = mt_graph_get(graph);
    FILE *f = g && path ? fopen(path, "w") : NULL;
    if (!f)
        return mt_fail(g && path ? cudaErrorOperatingSystem : cudaErrorInvalidValue);
    fputs("digraph graph_1 {\n", f);
    for (size_t i = 0; i < g->n; i++) {
        unsigned type = (unsigned)g->node[i]->type;
        fprintf(f, "n%zu [label=\"%zu %s\"];\n", i, i,
                type < sizeof names / sizeof *names ? names[type] : "?");
        for (size_t k = 0; k < g->node[i]->nafter; k++)
            fprintf(f, "n%zu -> n%zu;\n", g->node[i]->after[k]->index, i);
    }
    fputs("}\n", f);
    return fclose(f) ? mt_fail(cudaErrorOperatingSystem) : cudaSuccess;
}

/* ---- Attributes of kernel nodes: those of launches that the CPU device knows ---- */

/* Parts of a kernel node. */
struct parts {
    struct CUgraphNode_st *node;
    const struct mt_function *f;
    struct mt_launch_config c;
    void **args; /* point into the node's operation */
};

static cudaError_t graph_attributes_open(struct parts *p, cudaGraphNode_t node)
{
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || n->type != cudaGraphNodeTypeKernel)
        return mt_fail(cudaErrorInvalidValue);
    p->node = n;
    p->args = malloc((mt_launch_nparams(n->op) + 1) * sizeof *p->args);
    if (!p->args)
        return mt_fail(cudaErrorMemoryAllocation);
    p->f = mt_launch_parts(n->op, &p->c, p->args);
    return cudaSuccess;
}

/* Gives the node the configuration in *p. */
static cudaError_t graph_attributes_change(struct parts *p)
{
    struct mt_op *op;
    cudaError_t e = mt_launch_op(&op, p->f->host, &p->c, p->args, p->node->op->site);
    return e ? e : mt_graph_replace(p->node, cudaGraphNodeTypeKernel, op);
}

cudaError_t impl_cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID which,
                                                 cudaLaunchAttributeValue *out)
{
    struct parts p;
    cudaError_t e = out ? graph_attributes_open(&p, node) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    free(p.args);
    memset(out, 0, sizeof *out);
    if (which == cudaLaunchAttributeCooperative)
        out->cooperative = p.c.cooperative;
    else if (which == cudaLaunchAttributeClusterDimension) {
        out->clusterDim.x = p.c.cluster.x;
        out->clusterDim.y = p.c.cluster.y;
        out->clusterDim.z = p.c.cluster.z;
    } else
        return mt_fail(cudaErrorNotSupported);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID which,
                                                 const cudaLaunchAttributeValue *value)
{
    struct parts p;
    cudaError_t e = value ? graph_attributes_open(&p, node) : mt_fail(cudaErrorInvalidValue);
    if (e)
        return e;
    e = mt_fail(mt_launch_attributes(&p.c, &(cudaLaunchAttribute){.id = which, .val = *value}, 1));
    if (!e)
        e = graph_attributes_change(&p);
    free(p.args);
    return e;
}

cudaError_t impl_cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from)
{
    struct parts a, b;
    cudaError_t e = graph_attributes_open(&a, from);
    if (e)
        return e;
    free(a.args);
    e = graph_attributes_open(&b, to);
    if (e)
        return e;
    b.c.cooperative = a.c.cooperative;
    b.c.cluster = a.c.cluster;
    e = graph_attributes_change(&b);
    free(b.args);
    return e;
}

/* Nodes with parameters of any type (cudaGraphAddNode and variants): each calls the function for its type;
 * only conditional nodes have none. Edges only order nodes: a kernel that could begin before another one ends
 * waits for it, which is always correct. */

#if CUDART_VERSION >= 12030
#if CUDART_VERSION >= 13000
#define EDGES const cudaGraphEdgeData *edges,
#else
#define EDGES
#endif

static struct cudaKernelNodeParams graph_any_kernel(const struct cudaKernelNodeParamsV2 *p)
{
    return (struct cudaKernelNodeParams){p->func,           p->gridDim,      p->blockDim,
                                         p->sharedMemBytes, p->kernelParams, p->extra};
}

static struct cudaMemsetParams graph_any_fill(const struct cudaMemsetParamsV2 *p)
{
    return (struct cudaMemsetParams){p->dst, p->pitch, p->value, p->elementSize, p->width, p->height};
}

static struct cudaHostNodeParams graph_any_host(const struct cudaHostNodeParamsV2 *p)
{
    return (struct cudaHostNodeParams){p->fn, p->userData};
}

static cudaError_t graph_any_alloc(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t n, struct cudaMemAllocNodeParamsV2 *p)
{
    struct cudaMemAllocNodeParams q = {p->poolProps, p->accessDescs, p->accessDescCount, p->bytesize, NULL};
    cudaError_t e = impl_cudaGraphAddMemAllocNode(out, graph, after, n, &q);
    if (!e)
        p->dptr = q.dptr;
    return e;
}

static cudaError_t graph_any_branch(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                    size_t n, struct cudaConditionalNodeParams *p)
{
    struct mt_branch *b;
    struct CUgraph_st *const *body;
    cudaError_t e = branch_new(&b, p->handle, (int)p->type, p->size);
    if (e)
        return e;
    e = impl_cudaGraphAddEmptyNode(out, graph, after, n);
    if (e) {
        branch_forget(b);
        branch_free(b);
        return e;
    }
    (*out)->type = cudaGraphNodeTypeConditional;
    (*out)->branch = b;
    mt_branch_bodies(b, &body);
    p->phGraph_out = (cudaGraph_t *)(uintptr_t)body;
    return cudaSuccess;
}

/* A moved graph is owned by the node from then on. */
static cudaError_t graph_any_child(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t n, const struct cudaChildGraphNodeParams *p)
{
#if CUDART_VERSION >= 12090
    struct CUgraph_st *c = mt_graph_get(p->graph);
    if (p->ownership == cudaGraphChildGraphOwnershipMove) {
        if (!c || c->owned || c->captures || c == graph || mt_graph_conditions(c))
            return mt_fail(cudaErrorInvalidValue);
        cudaError_t e = impl_cudaGraphAddEmptyNode(out, graph, after, n);
        if (e)
            return e;
        (*out)->type = cudaGraphNodeTypeGraph;
        (*out)->child = c;
        c->owned = 1;
        return cudaSuccess;
    }
#endif
    return impl_cudaGraphAddChildGraphNode(out, graph, after, n, p->graph);
}

cudaError_t impl_cudaGraphAddNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                  EDGES size_t n, struct cudaGraphNodeParams *p)
{
    MT_RETURN_IF_FAILED();
    if (!p)
        return mt_fail(cudaErrorInvalidValue);
    switch (p->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams k = graph_any_kernel(&p->kernel);
        return impl_cudaGraphAddKernelNode(out, graph, after, n, &k);
    }
    case cudaGraphNodeTypeMemcpy:
        return impl_cudaGraphAddMemcpyNode(out, graph, after, n, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams f = graph_any_fill(&p->memset);
        return impl_cudaGraphAddMemsetNode(out, graph, after, n, &f);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams h = graph_any_host(&p->host);
        return impl_cudaGraphAddHostNode(out, graph, after, n, &h);
    }
    case cudaGraphNodeTypeGraph:
        return graph_any_child(out, graph, after, n, &p->graph);
    case cudaGraphNodeTypeEmpty:
        return impl_cudaGraphAddEmptyNode(out, graph, after, n);
    case cudaGraphNodeTypeWaitEvent:
        return impl_cudaGraphAddEventWaitNode(out, graph, after, n, p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return impl_cudaGraphAddEventRecordNode(out, graph, after, n, p->eventRecord.event);
    case cudaGraphNodeTypeMemAlloc:
        return graph_any_alloc(out, graph, after, n, &p->alloc);
    case cudaGraphNodeTypeMemFree:
        return impl_cudaGraphAddMemFreeNode(out, graph, after, n, p->free.dptr);
    case cudaGraphNodeTypeConditional:
        return graph_any_branch(out, graph, after, n, &p->conditional);
    default:
        return mt_fail((unsigned)p->type < cudaGraphNodeTypeCount ? cudaErrorNotSupported
                                                                  : cudaErrorInvalidValue);
    }
}

/* Replaces a child graph by another one of the same form. */
static cudaError_t graph_any_replace(struct CUgraphNode_st *n, cudaGraph_t graph)
{
    struct CUgraph_st *c = mt_graph_get(graph), *clone;
    if (!c || c == n->graph || mt_graph_conditions(c))
        return mt_fail(cudaErrorInvalidValue);
    if (!(clone = mt_graph_clone(c)))
        return mt_fail(cudaErrorMemoryAllocation);
    clone->owned = 1;
    mt_graph_free(n->child);
    n->child = clone;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *p)
{
    MT_RETURN_IF_FAILED();
    struct CUgraphNode_st *n = mt_graph_node(node);
    if (!n || !p || n->type != p->type)
        return mt_fail(cudaErrorInvalidValue);
    switch (p->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams k = graph_any_kernel(&p->kernel);
        return impl_cudaGraphKernelNodeSetParams(node, &k);
    }
    case cudaGraphNodeTypeMemcpy:
        return impl_cudaGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams f = graph_any_fill(&p->memset);
        return impl_cudaGraphMemsetNodeSetParams(node, &f);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams h = graph_any_host(&p->host);
        return impl_cudaGraphHostNodeSetParams(node, &h);
    }
    case cudaGraphNodeTypeGraph:
        return graph_any_replace(n, p->graph.graph);
    case cudaGraphNodeTypeEmpty:
        return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
        return impl_cudaGraphEventWaitNodeSetEvent(node, p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return impl_cudaGraphEventRecordNodeSetEvent(node, p->eventRecord.event);
    default: /* memory and conditional nodes cannot be changed */
        return mt_fail(cudaErrorNotSupported);
    }
}

cudaError_t impl_cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            struct cudaGraphNodeParams *p)
{
    MT_RETURN_IF_FAILED();
    if (!p)
        return mt_fail(cudaErrorInvalidValue);
    switch (p->type) {
    case cudaGraphNodeTypeKernel: {
        struct cudaKernelNodeParams k = graph_any_kernel(&p->kernel);
        return impl_cudaGraphExecKernelNodeSetParams(exec, node, &k);
    }
    case cudaGraphNodeTypeMemcpy:
        return impl_cudaGraphExecMemcpyNodeSetParams(exec, node, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset: {
        struct cudaMemsetParams f = graph_any_fill(&p->memset);
        return impl_cudaGraphExecMemsetNodeSetParams(exec, node, &f);
    }
    case cudaGraphNodeTypeHost: {
        struct cudaHostNodeParams h = graph_any_host(&p->host);
        return impl_cudaGraphExecHostNodeSetParams(exec, node, &h);
    }
    case cudaGraphNodeTypeGraph:
        return impl_cudaGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph);
    case cudaGraphNodeTypeWaitEvent:
        return impl_cudaGraphExecEventWaitNodeSetEvent(exec, node, p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return impl_cudaGraphExecEventRecordNodeSetEvent(exec, node, p->eventRecord.event);
    default:
        return mt_fail((unsigned)p->type < cudaGraphNodeTypeCount ? cudaErrorNotSupported
                                                                  : cudaErrorInvalidValue);
    }
}
#endif
