/* Graphs of the CPU device from the program's view: nodes, edges, clones. */
#include "graph.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/copy/copy.h"
#include "api/launch/launch.h"
#include "base/fork.h"
#include "base/report.h"
#include "api/tables/map.h"
#include "memtrace/grow.h"
#include "api/memory/memory.h"
#include "api/streams/stream.h"
#include "api/device/device.h"
#include "trace/events.h"
#include "trace/objects.h"

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

static struct CUgraph_st *graph_get(cudaGraph_t g);

cudaError_t impl_cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                           unsigned flags)
{
    struct CUgraph_st *g = graph_get(graph);
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
    struct CUgraph_st *g = graph_get(graph);
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
    struct CUgraph_st *g = graph_get(graph);
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

static void graph_free(struct CUgraph_st *g);

static void branch_free(struct mt_branch *b)
{
    for (unsigned i = 0; b && i < b->size; i++)
        if (b->body[i])
            graph_free(b->body[i]);
    if (b)
        condition_release(b->condition);
    free(b);
}

static struct CUgraph_st *graph_new(void);
static struct CUgraph_st *graph_clone(const struct CUgraph_st *g);

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
        if (!(b->body[i] = from ? graph_clone(from->body[i]) : graph_new())) {
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

static unsigned branch_bodies(const struct mt_branch *b, struct CUgraph_st *const **body)
{
    *body = b->body;
    return b->size;
}

/* Returns 1 if both have the same handle, type and number of bodies. */
static int branch_like(const struct mt_branch *a, const struct mt_branch *b)
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

/* Returns 1 if the graph has conditional nodes, or -1 if one of their bodies holds nodes that CUDA does not
 * allow there. */
static int graph_conditions(const struct CUgraph_st *g)
{
    int found = 0;
    for (size_t i = 0; i < g->n; i++) {
        const struct mt_branch *b = g->node[i]->branch;
        for (unsigned k = 0; b && k < b->size; k++)
            if (!condition_allows(b->body[k]) || graph_conditions(b->body[k]) < 0)
                return -1;
        found |= b != NULL;
    }
    return found;
}

/* ---- the order of nodes, which edges alone make: paths take the place of streams ---- */

/* Of a ready graph and its child graphs; its launches follow each other, so they have the same paths. Bodies
 * have others: they are queued while the host may queue the next launch. */
struct graph_paths {
    struct mt_order_paths own, bodies;
    unsigned launches; /* so far, of the ready graph */
};

struct graph_order {
    struct mt_clock clock;         /* of all before the graph, then of all of its nodes so far */
    const struct mt_clock *before; /* of a body, as in struct mt_node_order */
    struct graph_paths *paths;
};

/* Chooses a path for a node. Without a free one the node counts as coming after all before it. */
static void paths_take(const struct graph_order *order, struct mt_node_order *node)
{
    struct mt_order_paths *p = order->before ? &order->paths->bodies : &order->paths->own;
    node->before = order->before;
    if (mt_order_path(p, node))
        return;
    mt_order_join(&node->clock, &order->clock);
    mt_order_path(p, node);
}

/* Returns the clock of a node's predecessors. */
static struct mt_clock node_clock(const struct CUgraphNode_st *n, const struct mt_node_order *nodes,
                                  const struct mt_clock *before)
{
    struct mt_clock c = *before;
    for (size_t i = 0; i < n->nafter; i++)
        mt_order_join(&c, &nodes[n->after[i]->index].clock);
    return c;
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
    struct graph_order order;       /* of the body; `paths` NULL: order is not recorded */
    struct mt_clock before;
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

static cudaError_t graph_start(struct CUgraph_st *g, struct mt_stream *s, struct mt_op **behind,
                               struct graph_order *order);

static int condition_run(struct mt_op *op);

/* Queues the decision of a conditional node, which a body follows. order: of the body, or NULL. */
static cudaError_t branch_put(const struct mt_branch *b, struct mt_stream *s, struct mt_op **behind,
                              struct mt_node_order *node, const struct graph_order *order)
{
    struct branch_op *o = mt_op_new(sizeof *o, MT_OP_OTHER, condition_run);
    if (!o)
        return mt_fail(cudaErrorMemoryAllocation);
    o->branch = b;
    o->op.order = node;
    o->order.paths = NULL;
    if (order) {
        o->before = *order->before;
        o->order = (struct graph_order){order->clock, &o->before, order->paths};
    }
    graph_put(&o->op, s, behind);
    return cudaSuccess;
}

/* Queues a conditional node. Its body knows its first number, what follows it the second one. */
static cudaError_t branch_start(const struct mt_branch *b, struct mt_stream *s, struct mt_op **behind,
                                struct mt_node_order *node, const struct graph_order *order)
{
    struct graph_order body = {.paths = order ? order->paths : NULL};
    struct mt_clock before = {{0}};
    struct mt_node_order begin;
    if (!node || !node->path)
        return branch_put(b, s, behind, node, NULL);
    begin = *node;
    mt_order_number(node);
    if (order->before)
        before = *order->before;
    before.n[node->path - 1] = node->clock.n[node->path - 1];
    body.clock = begin.clock;
    body.before = &before;
    return branch_put(b, s, behind, &begin, &body);
}

static int condition_run(struct mt_op *op)
{
    struct branch_op *o = (struct branch_op *)op;
    const struct mt_branch *b = o->branch;
    struct CUgraph_st *body = condition_taken(b);
    struct mt_op *behind = op;
    struct graph_order *order = o->order.paths ? &o->order : NULL;
    cudaError_t e = body ? graph_start(body, op->stream, &behind, order) : cudaSuccess;
    if (body && !e && b->type == WHILE)
        e = branch_put(b, op->stream, &behind, NULL, order);
    if (e) {
        mt_report("a conditional node of a graph: no memory for its body");
        mt_fail_sticky(op->stream->device, e);
    }
    return MT_OP_DONE;
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

/* Allocates it again for a launch, if the program has freed it. */
static void graph_memory_renew(struct mt_graph_memory *m)
{
    if (!__atomic_exchange_n(&m->live, 1, __ATOMIC_ACQ_REL))
        mt_heap_identify(m->p, mt_object_add(m->p, m->bytes, "async", mt_heap_owner(m->p), NULL));
}

static void *op_copy(const struct mt_op *op)
{
    struct mt_op *copy = malloc(op->bytes);
    return copy ? memcpy(copy, op, op->bytes) : NULL;
}

static cudaError_t run_node(const struct CUgraphNode_st *n, struct mt_stream *s, struct mt_op **behind,
                            struct mt_node_order *node, const struct graph_order *order)
{
    if (n->branch)
        return branch_start(n->branch, s, behind, node, order);
    if (n->memory)
        graph_memory_renew(n->memory);
    if (!n->op || n->disabled)
        return cudaSuccess;
    struct mt_op *op = op_copy(n->op);
    cudaError_t e = !op ? cudaErrorMemoryAllocation : op->renew ? (cudaError_t)op->renew(op) : cudaSuccess;
    if (e) {
        mt_op_free(op);
        return mt_fail(e);
    }
    if (op->bind)
        op->bind(op, s);
    op->order = node;
    graph_put(op, s, behind);
    return cudaSuccess;
}

/* An allocation or free node reached in a launch, for memtrace check; the memory itself stays. */
struct reached_op {
    struct mt_op op;
    int64_t id;
    int freed;
};

static int reached_run(struct mt_op *op)
{
    const struct reached_op *r = (const struct reached_op *)op;
    mt_event_ordered(r->id, r->freed, op->site);
    return MT_OP_DONE;
}

enum { REACHED_LAUNCHES = 16 }; /* in all launches edges are the same */

static cudaError_t reached_put(const struct CUgraphNode_st *n, struct mt_stream *s,
                               struct mt_node_order *order)
{
    struct reached_op *r = mt_op_new(sizeof *r, MT_OP_OTHER, reached_run);
    if (!r)
        return mt_fail(cudaErrorMemoryAllocation);
    r->id = mt_object_id(n->memory ? n->memory->p : n->freed);
    r->freed = !n->memory;
    r->op.site = n->site;
    r->op.order = order;
    graph_put(&r->op, s, NULL);
    return cudaSuccess;
}

/* Queues a node after its predecessors; those of child graphs have the same paths. */
static cudaError_t run_ordered(const struct CUgraphNode_st *n, struct mt_stream *s, struct mt_op **behind,
                               struct mt_node_order *node, const struct graph_order *order)
{
    if (n->child) {
        struct graph_order child = {node->clock, order->before, order->paths};
        cudaError_t e = graph_start(n->child, s, behind, &child);
        node->clock = child.clock;
        return e;
    }
    paths_take(order, node);
    cudaError_t e = run_node(n, s, behind, node, order);
    if (!e && (n->memory || (n->freed && !n->op)) && order->paths->launches < REACHED_LAUNCHES)
        e = reached_put(n, s, node);
    return e;
}

static cudaError_t run_all_ordered(struct CUgraph_st *g, struct CUgraphNode_st *const *sorted,
                                   struct mt_stream *s, struct mt_op **behind, struct graph_order *order)
{
    const struct mt_clock before = order->clock;
    struct mt_node_order *nodes = calloc(g->n + 1, sizeof *nodes);
    cudaError_t e = nodes ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
    for (size_t i = 0; i < g->n && !e; i++) {
        struct mt_node_order *node = &nodes[sorted[i]->index];
        node->clock = node_clock(sorted[i], nodes, &before);
        e = run_ordered(sorted[i], s, behind, node, order);
        mt_order_join(&order->clock, &node->clock);
    }
    free(nodes);
    return e;
}

static struct CUgraphNode_st **graph_sorted(struct CUgraph_st *g);

/* Queues the graph's operations in `s`, or behind the running operation *behind, which is then set to the
 * last one of them; with their order unless it is NULL. */
static cudaError_t graph_start(struct CUgraph_st *g, struct mt_stream *s, struct mt_op **behind,
                               struct graph_order *order)
{
    struct CUgraphNode_st **sorted = graph_sorted(g);
    cudaError_t e = sorted ? condition_begin(g, s, behind) : mt_fail(cudaErrorMemoryAllocation);
    if (order && !e)
        e = run_all_ordered(g, sorted, s, behind, order);
    for (size_t i = 0; i < g->n && !e && !order; i++)
        e = sorted[i]->child ? graph_start(sorted[i]->child, s, behind, NULL)
                             : run_node(sorted[i], s, behind, NULL, NULL);
    free(sorted);
    return e;
}

static struct mt_map graphs = MT_MAP_INIT, nodes = MT_MAP_INIT;
MT_FORK_TABLE(graphs);
MT_FORK_TABLE(nodes);

/* Return NULL if the program's handle is invalid. */
static struct CUgraph_st *graph_get(cudaGraph_t g)
{
    return g ? mt_map_get(&graphs, g) : NULL;
}

static struct CUgraphNode_st *graph_node(cudaGraphNode_t n)
{
    return n ? mt_map_get(&nodes, n) : NULL;
}

/* returns NULL if out of memory */
static struct CUgraph_st *graph_new(void)
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
        graph_free(n->child);
    branch_free(n->branch);
    mt_graph_memory_release(n->memory);
    free(n->after);
    free(n->args);
    free(n);
}

static void graph_free(struct CUgraph_st *g)
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

/* Adds a node after `after`, and takes the operation even on failure. Returns NULL if out of memory. */
static struct CUgraphNode_st *graph_add(struct CUgraph_st *g, enum cudaGraphNodeType type, struct mt_op *op,
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
static int graph_precedes(const struct CUgraphNode_st *n, struct CUgraphNode_st *of)
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

/* Returns the nodes in topological order, freed by the caller, or NULL if there is a cycle or no memory. */
static struct CUgraphNode_st **graph_sorted(struct CUgraph_st *g)
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
    struct mt_op *op = n->op ? op_copy(n->op) : NULL;
    if (n->op && !op)
        return -1;
    struct CUgraphNode_st *c = graph_add(to, n->type, op, NULL, 0);
    if (!c)
        return -1;
    c->from = n;
    c->disabled = n->disabled;
    c->freed = n->freed;
    c->site = n->site;
    c->memory = n->memory;
    if (c->memory)
        __atomic_fetch_add(&c->memory->refs, 1, __ATOMIC_RELAXED);
    if (n->child && !(c->child = graph_clone(n->child)))
        return -1;
    if (c->child)
        c->child->owned = 1;
    if (n->branch && !(c->branch = branch_clone(n->branch)))
        return -1;
    return 0;
}

static struct CUgraph_st *graph_clone(const struct CUgraph_st *g)
{
    struct CUgraph_st *to = graph_new();
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
        graph_free(to);
    return bad ? NULL : to;
}

/* ---- entry points ---- */

cudaError_t impl_cudaGraphCreate(cudaGraph_t *out, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags)
        return mt_fail(cudaErrorInvalidValue);
    *out = graph_new();
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphDestroy(cudaGraph_t graph)
{
    struct CUgraph_st *g = graph_get(graph);
    if (!g || g->owned || g->captures)
        return mt_fail(cudaErrorInvalidValue);
    graph_free(g);
    return cudaSuccess;
}

cudaError_t impl_cudaGraphClone(cudaGraph_t *out, cudaGraph_t graph)
{
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = graph_get(graph);
    if (!out || !g)
        return mt_fail(cudaErrorInvalidValue);
    if (graph_conditions(g)) /* not allowed by CUDA */
        return mt_fail(cudaErrorNotSupported);
    *out = graph_clone(g);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphNodeFindInClone(cudaGraphNode_t *out, cudaGraphNode_t original, cudaGraph_t clone)
{
    struct CUgraph_st *g = graph_get(clone);
    if (!out || !g || !graph_node(original))
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
    struct CUgraphNode_st *n = graph_node(node);
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
    struct CUgraph_st *g = graph_get(graph);
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
    struct CUgraph_st *g = graph_get(graph);
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
    struct CUgraphNode_st *n = graph_node(node);
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
    struct CUgraph_st *g = graph_get(graph);
    if (!g || (n && (!from || !to)))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n; i++) {
        struct CUgraphNode_st *a = graph_node(from[i]), *b = graph_node(to[i]);
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
    struct CUgraphNode_st *n = graph_node(node);
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
    struct CUgraph_st *g = graph_get(graph);
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
    struct CUgraphNode_st *n = graph_node(node);
    if (!n || n->type != cudaGraphNodeTypeKernel)
        return mt_fail(cudaErrorInvalidValue);
    p->node = n;
    p->args = NULL;
    p->f = mt_launch_parts(n->op, &p->c, &p->args);
    return p->f ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

static cudaError_t graph_replace(struct CUgraphNode_st *n, enum cudaGraphNodeType type, struct mt_op *op);

/* Gives the node the configuration in *p. */
static cudaError_t graph_attributes_change(struct parts *p)
{
    struct mt_op *op;
    cudaError_t e = mt_launch_op(&op, p->f->host, &p->c, p->args, p->node->op->site);
    return e ? e : graph_replace(p->node, cudaGraphNodeTypeKernel, op);
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
        b->condition->used = 0;
        branch_free(b);
        return e;
    }
    (*out)->type = cudaGraphNodeTypeConditional;
    (*out)->branch = b;
    branch_bodies(b, &body);
    p->phGraph_out = (cudaGraph_t *)(uintptr_t)body;
    return cudaSuccess;
}

/* A moved graph is owned by the node from then on. */
static cudaError_t graph_any_child(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                   size_t n, const struct cudaChildGraphNodeParams *p)
{
#if CUDART_VERSION >= 12090
    struct CUgraph_st *c = graph_get(p->graph);
    if (p->ownership == cudaGraphChildGraphOwnershipMove) {
        if (!c || c->owned || c->captures || c == graph || graph_conditions(c))
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
    struct CUgraph_st *c = graph_get(graph), *clone;
    if (!c || c == n->graph || graph_conditions(c))
        return mt_fail(cudaErrorInvalidValue);
    if (!(clone = graph_clone(c)))
        return mt_fail(cudaErrorMemoryAllocation);
    clone->owned = 1;
    graph_free(n->child);
    n->child = clone;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *p)
{
    MT_RETURN_IF_FAILED();
    struct CUgraphNode_st *n = graph_node(node);
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

/* ---- Executable graphs on the CPU device ---- */

/* Nodes of graphs on the CPU device: made from the program's parameters, and queries of these. */

/* ---- templates ---- */

/* Arguments as one block: {CU_LAUNCH_PARAM_BUFFER_POINTER, block,
 * CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END}. */
static int graph_nodes_unpack(void **extra, const struct mt_image_kernel *k, void **args)
{
    const struct mt_image_param *p = k->params;
    char *block = NULL;
    size_t bytes = 0, at = 0;
    for (; extra[0]; extra += 2) {
        if (extra[0] == (void *)1)
            block = extra[1];
        else if (extra[0] == (void *)2)
            bytes = *(size_t *)extra[1];
        else
            return -1;
    }
    for (uint32_t i = 0; i < k->nparams; i++) {
        size_t align = p[i].align ? p[i].align : 1;
        at = (at + align - 1) / align * align;
        args[i] = block + at;
        at += p[i].size;
    }
    return block && at <= bytes ? 0 : -1;
}

/* Makes a kernel node's template from the program's parameters. */
static cudaError_t graph_kernel_op(struct mt_op **out, const struct cudaKernelNodeParams *p)
{
    const struct mt_host_site *site = mt_host_site_take();
    if (!p || (p->kernelParams && p->extra))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_launch_config c = {p->gridDim, p->blockDim, p->sharedMemBytes, NULL, 0, {0}};
    struct mt_function *f = p->extra ? mt_function_find(p->func) : NULL;
    if (!f || !f->kernel)
        return mt_launch_op(out, p->func, &c, p->kernelParams, site);
    void **args = malloc((f->kernel->nparams + 1) * sizeof *args);
    if (!args)
        return mt_fail(cudaErrorMemoryAllocation);
    void *untraced = NULL;
    args[f->kernel->nparams] = &untraced; /* the launch context */
    cudaError_t e = graph_nodes_unpack(p->extra, f->kernel, args)
                        ? mt_fail(cudaErrorInvalidValue)
                        : mt_launch_op(out, p->func, &c, args, site);
    free(args);
    return e;
}

/* Makes a copy node's template from the program's parameters. */
static cudaError_t graph_copy_op(struct mt_op **out, const struct cudaMemcpy3DParms *p)
{
    const struct mt_host_site *site = mt_host_site_take();
    struct mt_box b;
    cudaError_t e = p ? mt_box_3d(&b, p) : cudaErrorInvalidValue;
    return e ? mt_fail(e) : mt_copy_op(out, &b, (p->dstArray ? 1 : 0) | (p->srcArray ? 2 : 0), site);
}

static cudaError_t graph_copy_1d(struct mt_op **out, void *dst, const void *src, size_t bytes,
                                 enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_1d(dst, src, bytes, kind);
    return mt_copy_op(out, &b, 0, mt_host_site_take());
}

static cudaError_t graph_copy_symbol(struct mt_op **out, const void *symbol, const void *other, size_t bytes,
                                     size_t offset, enum cudaMemcpyKind kind, int to)
{
    const struct mt_host_site *site = mt_host_site_take();
    struct mt_box b = mt_box_1d((void *)(uintptr_t)other, other, bytes, kind);
    cudaError_t e = mt_side_symbol(to ? &b.dst : &b.src, symbol, offset, bytes);
    if (!e &&
        (kind == cudaMemcpyHostToHost || kind == (to ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice)))
        e = cudaErrorInvalidMemcpyDirection;
    return e ? mt_fail(e) : mt_copy_op(out, &b, to ? 1 : 2, site);
}

/* Makes a fill node's template from the program's parameters. */
static cudaError_t graph_fill_op(struct mt_op **out, const struct cudaMemsetParams *p)
{
    const struct mt_host_site *site = mt_host_site_take();
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_fill f = {p->dst,        p->pitch,      0, p->width * p->elementSize, p->height, 1,
                        (int)p->value, p->elementSize};
    if (f.height == 1) /* the pitch is irrelevant then */
        f.pitch = f.width;
    return mt_fill_op(out, &f, site);
}

/* Makes a host node's template from the program's parameters. */
static cudaError_t graph_host_op(struct mt_op **out, const struct cudaHostNodeParams *p)
{
    if (!p || !p->fn)
        return mt_fail(cudaErrorInvalidValue);
    *out = mt_host_op(p->fn, NULL, NULL, p->userData);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

static cudaError_t graph_nodes_event_op(struct mt_op **out, cudaEvent_t event, int wait)
{
    if (!mt_event_get(event))
        return mt_fail(cudaErrorInvalidValue);
    *out = wait ? mt_event_wait_op(event) : mt_event_record_op(event);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

/* Replaces a node's template by one of the same type; takes the operation even on failure. */
static cudaError_t graph_replace(struct CUgraphNode_st *n, enum cudaGraphNodeType type, struct mt_op *op)
{
    if (!n || n->type != type) {
        mt_op_free(op);
        return mt_fail(cudaErrorInvalidValue);
    }
    mt_op_free(n->op);
    n->op = op;
    return cudaSuccess;
}

/* ---- adding ---- */

static cudaError_t graph_nodes_valid(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                     size_t n)
{
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = graph_get(graph);
    if (!out || !g || (n && !after))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n; i++) {
        struct CUgraphNode_st *a = graph_node(after[i]);
        if (!a || a->graph != g)
            return mt_fail(cudaErrorInvalidValue);
        for (size_t k = 0; k < i; k++)
            if (after[k] == after[i])
                return mt_fail(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

/* `make` fills `op`. */
#define ADD(type, make)                                                                                      \
    struct mt_op *op = NULL;                                                                                 \
    cudaError_t e = graph_nodes_valid(out, graph, after, n);                                                 \
    if (!e)                                                                                                  \
        e = (make);                                                                                          \
    if (e)                                                                                                   \
        return e;                                                                                            \
    *out = graph_add(graph, type, op, after, n);                                                             \
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation)

cudaError_t impl_cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t n, const struct cudaKernelNodeParams *params)
{
    ADD(cudaGraphNodeTypeKernel, graph_kernel_op(&op, params));
}

cudaError_t impl_cudaGraphAddMemcpyNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t n, const struct cudaMemcpy3DParms *params)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_op(&op, params));
}

cudaError_t impl_cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, size_t n, void *dst, const void *src,
                                          size_t bytes, enum cudaMemcpyKind kind)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_1d(&op, dst, src, bytes, kind));
}

cudaError_t impl_cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *out, cudaGraph_t graph,
                                                const cudaGraphNode_t *after, size_t n, const void *symbol,
                                                const void *src, size_t bytes, size_t offset,
                                                enum cudaMemcpyKind kind)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, src, bytes, offset, kind, 1));
}

cudaError_t impl_cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *out, cudaGraph_t graph,
                                                  const cudaGraphNode_t *after, size_t n, void *dst,
                                                  const void *symbol, size_t bytes, size_t offset,
                                                  enum cudaMemcpyKind kind)
{
    ADD(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, dst, bytes, offset, kind, 0));
}

cudaError_t impl_cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t n, const struct cudaMemsetParams *params)
{
    ADD(cudaGraphNodeTypeMemset, graph_fill_op(&op, params));
}

cudaError_t impl_cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                      size_t n, const struct cudaHostNodeParams *params)
{
    ADD(cudaGraphNodeTypeHost, graph_host_op(&op, params));
}

cudaError_t impl_cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                       size_t n)
{
    ADD(cudaGraphNodeTypeEmpty, cudaSuccess);
}

cudaError_t impl_cudaGraphAddEventRecordNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                             const cudaGraphNode_t *after, size_t n, cudaEvent_t event)
{
    ADD(cudaGraphNodeTypeEventRecord, graph_nodes_event_op(&op, event, 0));
}

cudaError_t impl_cudaGraphAddEventWaitNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                           const cudaGraphNode_t *after, size_t n, cudaEvent_t event)
{
    ADD(cudaGraphNodeTypeWaitEvent, graph_nodes_event_op(&op, event, 1));
}

cudaError_t impl_cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                            const cudaGraphNode_t *after, size_t n, cudaGraph_t child)
{
    cudaError_t e = graph_nodes_valid(out, graph, after, n);
    if (e)
        return e;
    struct CUgraph_st *c = graph_get(child);
    if (!c || c == graph || graph_conditions(c))
        return mt_fail(cudaErrorInvalidValue);
    struct CUgraph_st *clone = graph_clone(c);
    struct CUgraphNode_st *node = clone ? graph_add(graph, cudaGraphNodeTypeGraph, NULL, after, n) : NULL;
    if (!node) {
        if (clone)
            graph_free(clone);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    clone->owned = 1;
    node->child = clone;
    *out = node;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphAddMemAllocNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                          const cudaGraphNode_t *after, size_t n,
                                          struct cudaMemAllocNodeParams *params)
{
    const struct mt_host_site *site = mt_host_site_take();
    cudaError_t e = graph_nodes_valid(out, graph, after, n);
    if (e)
        return e;
    if (!params || !params->bytesize || params->poolProps.allocType != cudaMemAllocationTypePinned ||
        !mt_device_there(params->poolProps.location.id))
        return mt_fail(cudaErrorInvalidValue);
    void *p = mt_heap_alloc(params->poolProps.location.id, params->bytesize, MT_HEAP_DEVICE, 0);
    struct mt_graph_memory *m = p ? mt_graph_memory_new(p, params->bytesize) : NULL;
    struct CUgraphNode_st *node = m ? graph_add(graph, cudaGraphNodeTypeMemAlloc, NULL, after, n) : NULL;
    if (!node) {
        mt_graph_memory_release(m);
        if (p)
            mt_heap_free(p, 1u << MT_HEAP_DEVICE);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    mt_heap_identify(p, mt_object_add(p, params->bytesize, "async", mt_heap_owner(p), site));
    node->memory = m;
    params->dptr = p;
    *out = node;
    return cudaSuccess;
}

/* Returns the allocation node of this graph whose memory begins at `p`, or NULL. */
static struct CUgraphNode_st *graph_allocated(struct CUgraph_st *g, const void *p)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->node[i]->type == cudaGraphNodeTypeMemAlloc && g->node[i]->memory->p == p)
            return g->node[i];
    return NULL;
}

struct give_back {
    struct mt_op op;
    void *p;
    int known; /* existed when the graph was launched */
};

/* Frees memory that another graph allocated. */
static int renew_give_back(struct mt_op *op)
{
    struct give_back *g = (struct give_back *)op;
    g->known = mt_graph_gave_back(g->p) > 0;
    return g->known ? cudaSuccess : cudaErrorInvalidValue;
}

static int graph_give_back(struct mt_op *op)
{
    struct give_back *g = (struct give_back *)op;
    mt_object_done(mt_object_take(g->p), g->known);
    return MT_OP_DONE;
}

cudaError_t impl_cudaGraphAddMemFreeNode(cudaGraphNode_t *out, cudaGraph_t graph,
                                         const cudaGraphNode_t *after, size_t n, void *p)
{
    const struct mt_host_site *site = mt_host_site_take();
    cudaError_t e = graph_nodes_valid(out, graph, after, n);
    if (e)
        return e;
    struct CUgraphNode_st *node, *from = graph_allocated(graph, p);
    struct give_back *op = NULL;
    struct mt_block b;
    if (!p || (from && from->memory->freed) || (!from && !mt_heap_find(p, &b)))
        return mt_fail(cudaErrorInvalidValue);
    if (!from) {
        if (!(op = mt_op_new(sizeof *op, MT_OP_OTHER, graph_give_back)))
            return mt_fail(cudaErrorMemoryAllocation);
        op->op.renew = renew_give_back;
        op->p = p;
    }
    if (!(node = graph_add(graph, cudaGraphNodeTypeMemFree, op ? &op->op : NULL, after, n)))
        return mt_fail(cudaErrorMemoryAllocation);
    if (from)
        from->memory->freed = 1;
    node->freed = p;
    node->site = site;
    *out = node;
    return cudaSuccess;
}

/* ---- queries ---- */

/* Returns the node if it has the type, else NULL. */
static struct CUgraphNode_st *of_type(cudaGraphNode_t node, enum cudaGraphNodeType type, const void *out)
{
    struct CUgraphNode_st *n = graph_node(node);
    if (n && n->type == type && out)
        return n;
    mt_fail(cudaErrorInvalidValue);
    return NULL;
}

cudaError_t impl_cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeKernel, out);
    struct mt_launch_config c;
    if (!n)
        return cudaErrorInvalidValue;
    const struct mt_function *f = mt_launch_parts(n->op, &c, &n->args);
    if (!f)
        return mt_fail(cudaErrorMemoryAllocation);
    *out = (struct cudaKernelNodeParams){(void *)(uintptr_t)f->host, c.grid,  c.block,
                                         (unsigned)c.shared,         n->args, NULL};
    return cudaSuccess;
}

cudaError_t impl_cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemcpy, out);
    if (!n)
        return cudaErrorInvalidValue;
    const struct mt_box *b = &((const struct mt_copy_op *)n->op)->box;
    size_t drows = b->dst.pitch ? b->dst.slice / b->dst.pitch : 0,
           srows = b->src.pitch ? b->src.slice / b->src.pitch : 0;
    *out = (struct cudaMemcpy3DParms){
        .srcPtr = {b->src.p, b->src.pitch, b->width, srows},
        .dstPtr = {b->dst.p, b->dst.pitch, b->width, drows},
        .extent = {b->width, b->height, b->depth},
        .kind = b->kind,
    };
    return cudaSuccess;
}

cudaError_t impl_cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemset, out);
    if (!n)
        return cudaErrorInvalidValue;
    const struct mt_fill *f = &((const struct mt_fill_op *)n->op)->fill;
    *out = (struct cudaMemsetParams){
        f->p, f->pitch, (unsigned)f->value, f->element, f->width / f->element, f->height};
    return cudaSuccess;
}

cudaError_t impl_cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeHost, out);
    if (!n)
        return cudaErrorInvalidValue;
    const struct mt_hostfn_op *h = (const struct mt_hostfn_op *)n->op;
    out->fn = h->fn;
    out->userData = h->data;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeGraph, out);
    if (n)
        *out = n->child;
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t impl_cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeEventRecord, out);
    if (n)
        *out = ((const struct mt_event_op *)n->op)->handle;
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t impl_cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeWaitEvent, out);
    if (n)
        *out = ((const struct mt_event_op *)n->op)->handle;
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t impl_cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemAlloc, out);
    if (!n)
        return cudaErrorInvalidValue;
    memset(out, 0, sizeof *out);
    out->poolProps.allocType = cudaMemAllocationTypePinned;
    out->poolProps.location.type = cudaMemLocationTypeDevice;
    out->bytesize = n->memory->bytes;
    out->dptr = n->memory->p;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *out)
{
    struct CUgraphNode_st *n = of_type(node, cudaGraphNodeTypeMemFree, out);
    if (n)
        *(void **)out = n->freed;
    return n ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- changes ---- */

#define SET(node_type, make)                                                                                 \
    struct mt_op *op = NULL;                                                                                 \
    cudaError_t e = (make);                                                                                  \
    return e ? e : graph_replace(graph_node(node), node_type, op)

cudaError_t impl_cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    SET(cudaGraphNodeTypeKernel, graph_kernel_op(&op, params));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *params)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_op(&op, params));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                                size_t bytes, enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_1d(&op, dst, src, bytes, kind));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                      const void *src, size_t bytes, size_t offset,
                                                      enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, src, bytes, offset, kind, 1));
}

cudaError_t impl_cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst, const void *symbol,
                                                        size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    SET(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, dst, bytes, offset, kind, 0));
}

cudaError_t impl_cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *params)
{
    SET(cudaGraphNodeTypeMemset, graph_fill_op(&op, params));
}

cudaError_t impl_cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *params)
{
    SET(cudaGraphNodeTypeHost, graph_host_op(&op, params));
}

cudaError_t impl_cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    SET(cudaGraphNodeTypeEventRecord, graph_nodes_event_op(&op, event, 0));
}

cudaError_t impl_cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    SET(cudaGraphNodeTypeWaitEvent, graph_nodes_event_op(&op, event, 1));
}

struct CUgraphExec_st {
    struct CUgraph_st *graph; /* a clone; its nodes refer to the originals by `from` */
    unsigned long long flags;
    struct mt_mark *last; /* its launches follow each other in any streams */
    struct graph_paths paths;
};

static struct mt_map execs = MT_MAP_INIT;
MT_FORK_TABLE(execs);

static struct CUgraphExec_st *graph_exec_get(cudaGraphExec_t e)
{
    return e ? mt_map_get(&execs, e) : NULL;
}

/* ---- launches ---- */

static int graph_exec_nothing(struct mt_op *op)
{
    return MT_OP_DONE;
}

static cudaError_t graph_exec_run(struct CUgraphExec_st *x, struct mt_stream *s)
{
    struct mt_op *begin = mt_op_new(sizeof *begin, MT_OP_OTHER, graph_exec_nothing);
    struct mt_op *end = mt_op_new(sizeof *end, MT_OP_OTHER, graph_exec_nothing);
    struct mt_mark *mark = mt_mark_new();
    if (!begin || !end || !mark) {
        mt_op_free(begin);
        mt_op_free(end);
        mt_mark_release(mark);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    begin->always = end->always = 1;
    begin->after = x->last; /* takes over its reference */
    end->reaches = mt_mark_hold(mark);
    x->last = mark;
    mt_op_enqueue(s, begin);
    struct graph_order order = {.paths = &x->paths};
    int ordered = mt_order_now(s, &order.clock);
    cudaError_t e = graph_start(x->graph, s, NULL, ordered ? &order : NULL);
    x->paths.launches += x->paths.launches < REACHED_LAUNCHES;
    if (ordered)
        mt_order_reached(s, &order.clock);
    mt_op_enqueue(s, end);
    return e;
}

cudaError_t impl_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    struct CUgraphExec_st *x = graph_exec_get(exec);
    struct mt_stream *s = mt_stream_get(stream);
    if (!x || !s)
        return mt_fail(x ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    cudaError_t e = mt_capture_check(s, MT_CALL_SYNC); /* CUDA does not capture launches of graphs */
    return e ? e : graph_exec_run(x, s);
}

cudaError_t impl_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    if (!graph_exec_get(exec))
        return mt_fail(cudaErrorInvalidValue);
    struct mt_stream *s = mt_stream_get(stream);
    return s ? mt_capture_check(s, MT_CALL_ASYNC) : mt_fail(cudaErrorInvalidResourceHandle);
}

/* ---- creation ---- */

/* Returns whether the clone or a graph below it has a cycle, known from a failed sort. */
static int has_cycle(struct CUgraph_st *g)
{
    struct CUgraphNode_st **sorted = graph_sorted(g);
    free(sorted);
    return !sorted;
}

cudaError_t impl_cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                               unsigned long long flags)
{
    const unsigned long long known = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                     cudaGraphInstantiateFlagUpload | cudaGraphInstantiateFlagUseNodePriority;
    MT_RETURN_IF_FAILED();
    struct CUgraph_st *g = graph_get(graph);
    if (!out || !g || flags & ~(known | cudaGraphInstantiateFlagDeviceLaunch) || has_cycle(g))
        return mt_fail(cudaErrorInvalidValue);
    if (flags & cudaGraphInstantiateFlagDeviceLaunch || graph_conditions(g) < 0)
        return mt_fail(cudaErrorNotSupported);
    struct CUgraphExec_st *x = calloc(1, sizeof *x);
    if (x)
        x->graph = graph_clone(g);
    if (!x || !x->graph || mt_map_set(&execs, x, x)) {
        if (x && x->graph)
            graph_free(x->graph);
        free(x);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    x->graph->owned = 1;
    x->flags = flags;
    *out = x;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t impl_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    return impl_cudaGraphInstantiateWithFlags(out, graph, flags);
}

cudaError_t impl_cudaGraphInstantiateWithParams(cudaGraphExec_t *out, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *params)
{
    if (!params)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = impl_cudaGraphInstantiateWithFlags(out, graph, params->flags);
    params->errNode_out = NULL;
    params->result_out = e ? cudaGraphInstantiateError : cudaGraphInstantiateSuccess;
    return e;
}

cudaError_t impl_cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
    struct CUgraphExec_st *x = graph_exec_get(exec);
    if (!x || !flags)
        return mt_fail(cudaErrorInvalidValue);
    *flags = x->flags;
    return cudaSuccess;
}
#else
cudaError_t impl_cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                      char *log, size_t size)
{
    if (log && size)
        *log = 0;
    return impl_cudaGraphInstantiateWithFlags(out, graph, 0);
}
#endif

/* Launches under way continue: they have operations of their own. */
cudaError_t impl_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    struct CUgraphExec_st *x = exec ? mt_map_take(&execs, exec) : NULL;
    if (!x)
        return mt_fail(cudaErrorInvalidValue);
    if (x->last && x->graph->n)
        mt_mark_await(x->last); /* its memory nodes may be in use */
    mt_mark_release(x->last);
    mt_order_paths_done(&x->paths.own);
    mt_order_paths_done(&x->paths.bodies);
    graph_free(x->graph);
    free(x);
    return cudaSuccess;
}

/* ---- changes ---- */

/* Returns the node made from `node`, or NULL. */
static struct CUgraphNode_st *made_from(struct CUgraph_st *g, cudaGraphNode_t node)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->node[i]->from == node)
            return g->node[i];
    return NULL;
}

static struct CUgraphNode_st *graph_exec_find(cudaGraphExec_t exec, cudaGraphNode_t node)
{
    struct CUgraphExec_st *x = graph_exec_get(exec);
    return x ? made_from(x->graph, node) : NULL;
}

#define SET_EXEC(type, make)                                                                                 \
    struct mt_op *op = NULL;                                                                                 \
    cudaError_t e = (make);                                                                                  \
    return e ? e : graph_replace(graph_exec_find(exec, node), type, op)

cudaError_t impl_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaKernelNodeParams *params)
{
    SET_EXEC(cudaGraphNodeTypeKernel, graph_kernel_op(&op, params));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaMemcpy3DParms *params)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_op(&op, params));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *dst,
                                                    const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_1d(&op, dst, src, bytes, kind));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                          const void *symbol, const void *src, size_t bytes,
                                                          size_t offset, enum cudaMemcpyKind kind)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, src, bytes, offset, kind, 1));
}

cudaError_t impl_cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                            void *dst, const void *symbol, size_t bytes,
                                                            size_t offset, enum cudaMemcpyKind kind)
{
    SET_EXEC(cudaGraphNodeTypeMemcpy, graph_copy_symbol(&op, symbol, dst, bytes, offset, kind, 0));
}

cudaError_t impl_cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaMemsetParams *params)
{
    SET_EXEC(cudaGraphNodeTypeMemset, graph_fill_op(&op, params));
}

cudaError_t impl_cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                const struct cudaHostNodeParams *params)
{
    SET_EXEC(cudaGraphNodeTypeHost, graph_host_op(&op, params));
}

static cudaError_t graph_event_op(struct mt_op **out, cudaEvent_t event, int wait)
{
    if (!mt_event_get(event))
        return mt_fail(cudaErrorInvalidValue);
    *out = wait ? mt_event_wait_op(event) : mt_event_record_op(event);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      cudaEvent_t event)
{
    SET_EXEC(cudaGraphNodeTypeEventRecord, graph_event_op(&op, event, 0));
}

cudaError_t impl_cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    cudaEvent_t event)
{
    SET_EXEC(cudaGraphNodeTypeWaitEvent, graph_event_op(&op, event, 1));
}

cudaError_t impl_cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled)
{
    struct CUgraphNode_st *n = graph_exec_find(exec, node);
    if (!n || (n->type != cudaGraphNodeTypeKernel && n->type != cudaGraphNodeTypeMemset &&
               n->type != cudaGraphNodeTypeMemcpy))
        return mt_fail(cudaErrorInvalidValue);
    n->disabled = !enabled;
    return cudaSuccess;
}

cudaError_t impl_cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned *enabled)
{
    struct CUgraphNode_st *n = graph_exec_find(exec, node);
    if (!n || !enabled)
        return mt_fail(cudaErrorInvalidValue);
    *enabled = !n->disabled;
    return cudaSuccess;
}

/* ---- replacing a whole graph ---- */

/* Returns NULL if `b` has the nodes of `a`, in order, with the same edges, else the first node of `b` that
 * differs. */
static struct CUgraphNode_st *graph_exec_differs(const struct CUgraph_st *a, const struct CUgraph_st *b,
                                                 int *type);

/* Returns 1 if both have the same condition and bodies of one form, or if neither has one. */
static int graph_exec_branches(const struct CUgraphNode_st *x, const struct CUgraphNode_st *y, int *type)
{
    struct CUgraph_st *const *a, *const *b;
    if (!x->branch || !y->branch)
        return x->branch == y->branch;
    int same = branch_like(x->branch, y->branch);
    unsigned n = branch_bodies(x->branch, &a);
    branch_bodies(y->branch, &b);
    for (unsigned i = 0; same && i < n; i++)
        same = a[i]->n == b[i]->n && !graph_exec_differs(a[i], b[i], type);
    return same;
}

static struct CUgraphNode_st *graph_exec_differs(const struct CUgraph_st *a, const struct CUgraph_st *b,
                                                 int *type)
{
    *type = 0;
    for (size_t i = 0; i < a->n; i++) {
        struct CUgraphNode_st *x = a->node[i], *y = b->node[i];
        int same = x->nafter == y->nafter;
        for (size_t k = 0; same && k < x->nafter; k++)
            same = x->after[k]->index == y->after[k]->index;
        if (same && x->type != y->type)
            *type = 1;
        else if (same && x->child &&
                 (x->child->n != y->child->n || graph_exec_differs(x->child, y->child, type)))
            same = 0;
        else if (same)
            same = graph_exec_branches(x, y, type);
        if (!same || *type)
            return y;
    }
    return NULL;
}

static cudaError_t take_bodies(struct mt_branch *to, const struct mt_branch *from);

static cudaError_t take_over(struct CUgraph_st *to, const struct CUgraph_st *from)
{
    for (size_t i = 0; i < to->n; i++) {
        struct CUgraphNode_st *n = to->node[i], *m = from->node[i];
        struct mt_op *op = m->op ? op_copy(m->op) : NULL;
        if (m->op && !op)
            return cudaErrorMemoryAllocation;
        mt_op_free(n->op);
        n->op = op;
        if ((n->child && take_over(n->child, m->child)) || (n->branch && take_bodies(n->branch, m->branch)))
            return cudaErrorMemoryAllocation;
    }
    return cudaSuccess;
}

static cudaError_t take_bodies(struct mt_branch *to, const struct mt_branch *from)
{
    struct CUgraph_st *const *a, *const *b;
    unsigned n = branch_bodies(to, &a);
    cudaError_t e = cudaSuccess;
    branch_bodies(from, &b);
    for (unsigned i = 0; i < n && !e; i++)
        e = take_over(a[i], b[i]);
    return e;
}

static enum cudaGraphExecUpdateResult graph_exec_update(struct CUgraphExec_st *x, struct CUgraph_st *g,
                                                        struct CUgraphNode_st **at)
{
    int type = 0;
    *at = NULL;
    if (x->last && graph_conditions(x->graph)) /* launches under way read the bodies */
        mt_mark_await(x->last);
    if (x->graph->n != g->n)
        return cudaGraphExecUpdateErrorTopologyChanged;
    *at = graph_exec_differs(x->graph, g, &type);
    if (*at)
        return type ? cudaGraphExecUpdateErrorNodeTypeChanged : cudaGraphExecUpdateErrorTopologyChanged;
    return take_over(x->graph, g) ? cudaGraphExecUpdateError : cudaGraphExecUpdateSuccess;
}

#if CUDART_VERSION >= 12000
cudaError_t impl_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                     cudaGraphExecUpdateResultInfo *info)
{
    struct CUgraphExec_st *x = graph_exec_get(exec);
    struct CUgraph_st *g = graph_get(graph);
    struct CUgraphNode_st *at;
    MT_RETURN_IF_FAILED();
    if (!x || !g || !info)
        return mt_fail(cudaErrorInvalidValue);
    *info = (cudaGraphExecUpdateResultInfo){.result = graph_exec_update(x, g, &at)};
    info->errorNode = at;
    return info->result ? mt_fail(cudaErrorGraphExecUpdateFailure) : cudaSuccess;
}
#else
cudaError_t impl_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
                                     enum cudaGraphExecUpdateResult *result)
{
    struct CUgraphExec_st *x = get(exec);
    struct CUgraph_st *g = graph_get(graph);
    struct CUgraphNode_st *at;
    MT_RETURN_IF_FAILED();
    if (!x || !g || !result)
        return mt_fail(cudaErrorInvalidValue);
    *result = update(x, g, &at);
    if (error_node)
        *error_node = at;
    return *result ? mt_fail(cudaErrorGraphExecUpdateFailure) : cudaSuccess;
}
#endif

cudaError_t impl_cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      cudaGraph_t child)
{
    struct CUgraphNode_st *n = graph_exec_find(exec, node);
    struct CUgraph_st *g = graph_get(child);
    int type;
    if (!n || !n->child || !g || n->child->n != g->n || graph_exec_differs(n->child, g, &type))
        return mt_fail(cudaErrorInvalidValue);
    return mt_fail(take_over(n->child, g));
}

/* ---- Graphs made by captures: operations put into a captured stream become nodes ---- */

/* ---- nodes ---- */

static enum cudaGraphNodeType graph_type_of(const struct mt_op *op)
{
    static const enum cudaGraphNodeType types[] = {
        [MT_OP_KERNEL] = cudaGraphNodeTypeKernel,      [MT_OP_COPY] = cudaGraphNodeTypeMemcpy,
        [MT_OP_FILL] = cudaGraphNodeTypeMemset,        [MT_OP_HOST] = cudaGraphNodeTypeHost,
        [MT_OP_RECORD] = cudaGraphNodeTypeEventRecord, [MT_OP_WAIT] = cudaGraphNodeTypeWaitEvent,
        [MT_OP_LIBRARY] = cudaGraphNodeTypeEmpty, /* its parameters cannot be queried */
        [MT_OP_FREE] = cudaGraphNodeTypeEmpty,         [MT_OP_OTHER] = cudaGraphNodeTypeEmpty,
    };
    return types[op->kind];
}

/* Called with the lock held. */
static struct CUgraphNode_st *capture_graph_append(struct mt_stream *s, enum cudaGraphNodeType type,
                                                   struct mt_op *op)
{
    struct CUgraphNode_st *n = graph_add(s->capture->graph, type, op, s->tips, s->ntips);
    if (n)
        s->ntips = 0;
    if (!n || mt_tips_add(&s->tips, &s->ntips, &n, 1)) {
        s->capture->invalid = 1;
        return NULL;
    }
    return n;
}

static cudaError_t capture_graph_add(struct mt_stream *s, struct mt_op *op)
{
    return capture_graph_append(s, graph_type_of(op), op) ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t capture_graph_alloc(struct mt_stream *s, void *p, size_t bytes)
{
    struct mt_graph_memory *m = mt_graph_memory_new(p, bytes);
    if (!m)
        return cudaErrorMemoryAllocation;
    struct CUgraphNode_st *n = NULL;
    pthread_mutex_lock(&mt_capture_lock);
    if (s->capture && !s->capture->invalid)
        n = capture_graph_append(s, cudaGraphNodeTypeMemAlloc, NULL);
    if (n)
        n->memory = m;
    pthread_mutex_unlock(&mt_capture_lock);
    if (!n)
        mt_graph_memory_release(m);
    return n ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}

static cudaError_t capture_graph_free(struct mt_stream *s, void *p)
{
    cudaError_t e = cudaErrorStreamCaptureInvalidated;
    pthread_mutex_lock(&mt_capture_lock);
    if (s->capture && !s->capture->invalid) {
        struct CUgraphNode_st *from = graph_allocated(s->capture->graph, p), *n = NULL;
        if (from && !from->memory->freed)
            n = capture_graph_append(s, cudaGraphNodeTypeMemFree, NULL);
        if (n) {
            n->freed = p;
            n->site = mt_host_site_taken;
            from->memory->freed = 1;
        }
        e = n ? cudaSuccess : from ? cudaErrorInvalidValue : cudaErrorNotSupported;
    }
    pthread_mutex_unlock(&mt_capture_lock);
    return e;
}

/* ---- begin and end ---- */

struct leaving {
    struct mt_capture *capture;
    int unjoined;
};

/* Returns 1 if the last operation of a stream does not precede the last one of the origin. */
static int is_unjoined(struct mt_stream *origin, struct CUgraphNode_st *const *tips, size_t n)
{
    int unjoined = 0;
    for (size_t i = 0; i < n; i++) {
        int joined = 0;
        for (size_t k = 0; k < origin->ntips && !joined; k++)
            joined = graph_precedes(tips[i], origin->tips[k]);
        unjoined |= !joined;
    }
    return unjoined;
}

static void tips_clear(struct mt_stream *s)
{
    free(s->tips);
    s->tips = NULL;
    s->ntips = 0;
}

static void capture_ends(void *stream, void *ctx)
{
    struct mt_stream *s = stream;
    struct leaving *l = ctx;
    if (s->capture != l->capture || s == l->capture->origin)
        return;
    l->unjoined |= is_unjoined(l->capture->origin, s->tips, s->ntips);
    tips_clear(s);
    mt_capture_set(s, NULL);
}

/* Ends the capture. Returns 1 if some stream was not joined. Called with the lock held. */
static int capture_end(struct mt_capture *c)
{
    struct leaving l = {c, is_unjoined(c->origin, c->left, c->nleft)};
    mt_stream_each(capture_ends, &l);
    free(c->left);
    tips_clear(c->origin);
    mt_capture_set(c->origin, NULL);
    mt_capture_delist(c);
    c->graph->captures--;
    return l.unjoined;
}

/* Handles the destruction of a captured stream: if it began the capture, that can never be ended; else it
 * must have been joined as usual. */
static void capture_graph_leave(struct mt_stream *s)
{
    struct mt_capture *over = NULL;
    pthread_mutex_lock(&mt_capture_lock);
    struct mt_capture *c = s->capture;
    if (c) {
        if (c->origin == s)
            capture_end(over = c);
        else if (mt_tips_add(&c->left, &c->nleft, s->tips, s->ntips))
            c->invalid = 1;
        tips_clear(s);
        mt_capture_set(s, NULL);
    }
    pthread_mutex_unlock(&mt_capture_lock);
    if (over && !over->given)
        graph_free(over->graph);
    free(over);
}

static const struct mt_capture_ops capture_graph_ops = {capture_graph_add, capture_graph_alloc,
                                                        capture_graph_free, capture_graph_leave};

static cudaError_t capture_begin(cudaStream_t handle, struct CUgraph_st *into,
                                 struct CUgraphNode_st *const *after, size_t n,
                                 enum cudaStreamCaptureMode mode)
{
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(handle);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed)
        return mt_fail(cudaErrorInvalidValue);
    if (s->legacy)
        return mt_fail(cudaErrorStreamCaptureUnsupported);
    struct mt_capture *c = calloc(1, sizeof *c);
    if (c)
        c->graph = into ? into : graph_new();
    if (!c || !c->graph) {
        free(c);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    c->given = into != NULL;
    c->origin = s;
    c->thread = pthread_self();
    c->mode = mode;
    pthread_mutex_lock(&mt_capture_lock);
    cudaError_t e = s->capture                                   ? cudaErrorIllegalState
                    : mt_tips_add(&s->tips, &s->ntips, after, n) ? cudaErrorMemoryAllocation
                                                                 : cudaSuccess;
    if (!e) {
        mt_capture_ops = &capture_graph_ops;
        mt_capture_enlist(c);
        c->graph->captures++;
        mt_capture_set(s, c);
    }
    pthread_mutex_unlock(&mt_capture_lock);
    if (e && !into)
        graph_free(c->graph);
    if (e)
        free(c);
    return mt_fail(e);
}

cudaError_t impl_cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return capture_begin(stream, NULL, NULL, 0, mode);
}

#if CUDART_VERSION >= 12030
cudaError_t impl_cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                               const cudaGraphNode_t *after, const cudaGraphEdgeData *edges,
                                               size_t n, enum cudaStreamCaptureMode mode)
{
    struct CUgraph_st *g = graph_get(graph);
    if (!g || (n && !after))
        return mt_fail(cudaErrorInvalidValue);
    for (size_t i = 0; i < n; i++)
        if (!graph_node(after[i]) || after[i]->graph != g)
            return mt_fail(cudaErrorInvalidValue);
    return capture_begin(stream, g, after, n, mode);
}
#endif

cudaError_t impl_cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out)
{
    cudaError_t e = cudaSuccess;
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(handle);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (out)
        *out = NULL;
    pthread_mutex_lock(&mt_capture_lock);
    struct mt_capture *c = s->capture;
    if (!c)
        e = cudaErrorIllegalState;
    else if (!out && !c->given) /* of a capture into a graph of the program it may be NULL */
        e = cudaErrorInvalidValue;
    else if (c->origin != s)
        e = cudaErrorStreamCaptureUnmatched;
    else if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
        e = cudaErrorStreamCaptureWrongThread;
    if (e) {
        pthread_mutex_unlock(&mt_capture_lock);
        return mt_fail(e);
    }
    int unjoined = capture_end(c);
    pthread_mutex_unlock(&mt_capture_lock);
    e = c->invalid ? cudaErrorStreamCaptureInvalidated
        : unjoined ? cudaErrorStreamCaptureUnjoined
                   : cudaSuccess;
    if (!e && out)
        *out = c->graph;
    else if (e && !c->given)
        graph_free(c->graph);
    free(c);
    return mt_fail(e);
}

static cudaError_t capture_update(cudaStream_t handle, cudaGraphNode_t *tips, size_t n, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(handle);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (flags > cudaStreamSetCaptureDependencies || (n && !tips))
        return mt_fail(cudaErrorInvalidValue);
    pthread_mutex_lock(&mt_capture_lock);
    cudaError_t e = !s->capture           ? cudaErrorIllegalState
                    : s->capture->invalid ? cudaErrorStreamCaptureInvalidated
                                          : cudaSuccess;
    for (size_t i = 0; i < n && !e; i++)
        if (!graph_node(tips[i]) || tips[i]->graph != s->capture->graph)
            e = cudaErrorInvalidValue;
    if (!e && flags == cudaStreamSetCaptureDependencies)
        s->ntips = 0;
    if (!e && mt_tips_add(&s->tips, &s->ntips, tips, n))
        e = cudaErrorMemoryAllocation;
    pthread_mutex_unlock(&mt_capture_lock);
    return mt_fail(e);
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *tips,
                                                     const cudaGraphEdgeData *edges, size_t n, unsigned flags)
{
    return capture_update(stream, tips, n, flags);
}
#else
cudaError_t impl_cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *tips, size_t n,
                                                     unsigned flags)
{
    return capture_update(stream, tips, n, flags);
}
#endif
