/* Launches of graphs on the CPU device: the graph's operations are queued in the stream, one after the other
 * in an order that its edges allow. Each kernel is a launch of its own there, in the trace too. */
#include "api/copy/copy.h"
#include "api/tables/error.h"
#include "api/launch/event.h"
#include "graph.h"
#include "api/launch/launch.h"
#include "api/launch/libcall.h"
#include "base/fork.h"
#include "base/report.h"
#include "api/entry.h"
#include "api/tables/map.h"
#include "memtrace/grow.h"
#include <stdlib.h>

static cudaError_t branch_put(const struct mt_branch *b, struct mt_stream *s, struct mt_op **behind);

static void graph_put(struct mt_op *op, struct mt_stream *s, struct mt_op **behind);

/* Conditional nodes of graphs: their handles, which kernels set (cudaGraphSetConditional), and their bodies.
 * What a node does is known when a launch has come to it: then it puts the operations of a body right behind
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

int mt_condition_clone(const struct CUgraph_st *from, struct CUgraph_st *to)
{
    int bad = 0;
    for (size_t i = 0; i < from->nconditions && !bad; i++)
        bad = condition_keep(to, from->condition[i]);
    return bad;
}

void mt_condition_drop(struct CUgraph_st *g)
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

void mt_branch_free(struct mt_branch *b)
{
    for (unsigned i = 0; b && i < b->size; i++)
        if (b->body[i])
            mt_graph_free(b->body[i]);
    if (b)
        condition_release(b->condition);
    free(b);
}

/* Bodies are those of `from`, or empty graphs. */
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
            mt_branch_free(b);
            return NULL;
        }
        b->body[i]->owned = 1;
    }
    return b;
}

struct mt_branch *mt_branch_clone(const struct mt_branch *b)
{
    return condition_branch(b->condition, b->type, b->size, b);
}

cudaError_t mt_branch_new(struct mt_branch **out, unsigned long long handle, int type, unsigned size)
{
    struct mt_condition *c = mt_map_get(&conditions, (const void *)(uintptr_t)handle);
    const unsigned most[] = {[IF] = 2, [WHILE] = 1, [SWITCH] = 1u << 16};
    if (!c || c->used || (unsigned)type > SWITCH || !size || size > most[type])
        return mt_fail(cudaErrorInvalidValue);
    *out = condition_branch(c, type, size, NULL);
    c->used = *out != NULL;
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

void mt_branch_forget(struct mt_branch *b)
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

/* What CUDA lets into a body. */
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
    const struct mt_branch *branch; /* of what is ready to be launched, and is there until this has ended */
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

/* Queued as by mt_graph_put: the handle decides, and a body follows. */
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
