/* Kernels made by chance. Each is LLVM IR with all the promises (nsw, nuw, disjoint, nneg, exact) that hold
 * in the threads that need its numbers, and in no others: the generator computes each value for each thread
 * as it writes the instruction, and puts flags where the numbers allow them. Constants are such that
 * something wraps round in one of the threads, often. */
#include "rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t rows_random(struct rows_kernel *k)
{
    k->seed += 0x9e3779b97f4a7c15u;
    uint64_t z = (k->seed ^ k->seed >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned rows_below(struct rows_kernel *k, unsigned n)
{
    return (unsigned)(rows_random(k) >> 20) % n;
}

static uint64_t rows_cut(uint64_t x, unsigned width)
{
    return width == 64 ? x : x & (((uint64_t)1 << width) - 1);
}

static int64_t rows_signed(uint64_t x, unsigned width)
{
    return (int64_t)(x << (64 - width)) >> (64 - width);
}

static LLVMTypeRef rows_type(struct rows_make *m, unsigned width)
{
    return LLVMIntTypeInContext(m->l->u->context, width);
}

static struct rows_value *rows_new(struct rows_make *m, unsigned width)
{
    struct rows_kernel *k = m->k;
    if (k->n == VALUES) /* another one is forgotten */
        k->n--, memmove(k->value, k->value + 1, k->n * sizeof *k->value);
    struct rows_value *x = &k->value[k->n++];
    *x = (struct rows_value){.width = width};
    return x;
}

/* Numbers at which something wraps round, and small ones. */
static uint64_t rows_number(struct rows_kernel *k, unsigned width)
{
    unsigned bit = rows_below(k, width);
    uint64_t top = (uint64_t)1 << bit;
    switch (rows_below(k, 6)) {
    case 0:
        return rows_cut(top, width);
    case 1:
        return rows_cut(top - 1, width);
    case 2:
        return rows_cut((uint64_t)0 - top, width);
    case 3:
        return rows_cut(rows_random(k), width);
    default:
        return rows_cut(rows_below(k, 40) - (uint64_t)8, width);
    }
}

/* One of the last values of that width, as it is or made so. */
static const struct rows_value *rows_any(struct rows_make *m, unsigned width);

/* ---- operations: what they are in a thread, and which promises hold ---- */

enum { NSW = 1, NUW = 2, DISJOINT = 4, EXACT = 8 };

static unsigned rows_holds(LLVMOpcode op, uint64_t a, uint64_t b, unsigned width)
{
    __int128 sa = rows_signed(a, width), sb = rows_signed(b, width), s = 0;
    unsigned __int128 ua = a, ub = b, u = 0;
    uint64_t low = b < width ? (((uint64_t)1 << b) - 1) : 0;
    switch (op) {
    case LLVMAdd:
        s = sa + sb, u = ua + ub;
        break;
    case LLVMSub:
        s = sa - sb, u = ua - ub;
        break;
    case LLVMMul:
        s = sa * sb, u = ua * ub;
        break;
    case LLVMShl:
        s = sa * ((__int128)1 << b), u = ua << b;
        break;
    case LLVMOr:
        return a & b ? 0 : DISJOINT;
    case LLVMLShr:
    case LLVMAShr:
        return a & low ? 0 : EXACT;
    default:
        return 0;
    }
    return (s == rows_signed(rows_cut((uint64_t)s, width), width) ? NSW : 0u) |
           (u == rows_cut((uint64_t)u, width) ? NUW : 0u);
}

static uint64_t rows_apply(LLVMOpcode op, uint64_t a, uint64_t b, unsigned width)
{
    uint64_t x = op == LLVMAdd    ? a + b
                 : op == LLVMSub  ? a - b
                 : op == LLVMMul  ? a * b
                 : op == LLVMShl  ? a << b
                 : op == LLVMLShr ? a >> b
                 : op == LLVMAShr ? (uint64_t)(rows_signed(a, width) >> b)
                 : op == LLVMAnd  ? a & b
                 : op == LLVMOr   ? a | b
                                  : a ^ b;
    return rows_cut(x, width);
}

static unsigned rows_promises(struct rows_kernel *k, LLVMOpcode op, const struct rows_value *a,
                              const struct rows_value *b)
{
    unsigned holds = NSW | NUW | DISJOINT | EXACT;
    for (unsigned t = 0; t < THREADS; t++)
        holds &= k->here[t] ? rows_holds(op, a->of[t], b->of[t], a->width) : holds;
    return rows_below(k, 5) ? holds : holds & (unsigned)rows_random(k);
}

static void rows_promise(LLVMValueRef inst, LLVMOpcode op, unsigned flags)
{
    if (!LLVMIsAInstruction(inst))
        return;
    if (op == LLVMOr)
        LLVMSetIsDisjoint(inst, (flags & DISJOINT) != 0);
    else if (op == LLVMLShr || op == LLVMAShr)
        LLVMSetExact(inst, (flags & EXACT) != 0);
    else if (op != LLVMAnd && op != LLVMXor)
        LLVMSetNSW(inst, (flags & NSW) != 0), LLVMSetNUW(inst, (flags & NUW) != 0);
}

static struct rows_value rows_constant(struct rows_make *m, unsigned width, uint64_t n)
{
    struct rows_value x = {.ir = LLVMConstInt(rows_type(m, width), n, 0), .width = width};
    for (unsigned t = 0; t < THREADS; t++)
        x.of[t] = n;
    return x;
}

/* Such that the operation wraps round near the number of one of the threads, which others are on either side
 * of. */
static struct rows_value rows_near(struct rows_make *m, LLVMOpcode op, const struct rows_value *a)
{
    struct rows_kernel *k = m->k;
    unsigned width = a->width;
    uint64_t edge = ((uint64_t)rows_below(k, 2) << (width - 1)) + rows_below(k, 3) - 1,
             of = a->of[rows_below(k, THREADS)];
    if (op == LLVMShl || op == LLVMLShr || op == LLVMAShr)
        return rows_constant(m, width, rows_below(k, width));
    if (!rows_below(k, 3))
        return rows_constant(m, width, rows_number(k, width));
    if (op == LLVMAdd || op == LLVMSub)
        return rows_constant(m, width, rows_cut(op == LLVMAdd ? edge - of : of - edge, width));
    return rows_constant(m, width, rows_cut(rows_below(k, 24) - (uint64_t)8, width));
}

static const struct rows_value *rows_binary_of(struct rows_make *m, LLVMOpcode op, struct rows_value a,
                                               struct rows_value b)
{
    struct rows_value *x = rows_new(m, a.width);
    x->ir = LLVMBuildBinOp(m->b, op, a.ir, b.ir, "");
    rows_promise(x->ir, op, rows_promises(m->k, op, &a, &b));
    for (unsigned t = 0; t < THREADS; t++)
        x->of[t] = rows_apply(op, a.of[t], b.of[t], a.width);
    return x;
}

static void rows_binary(struct rows_make *m, unsigned width)
{
    static const LLVMOpcode ops[] = {LLVMAdd,  LLVMSub,  LLVMAdd, LLVMSub, LLVMMul, LLVMShl,
                                     LLVMLShr, LLVMAShr, LLVMAnd, LLVMOr,  LLVMOr,  LLVMXor};
    struct rows_kernel *k = m->k;
    LLVMOpcode op = ops[rows_below(k, sizeof ops / sizeof *ops)];
    struct rows_value a = *rows_any(m, width), b;
    int any = op == LLVMAdd || op == LLVMSub || op == LLVMOr;
    b = any && rows_below(k, 2) ? *rows_any(m, width) : rows_near(m, op, &a);
    if (op == LLVMSub && rows_below(k, 2))
        rows_binary_of(m, op, b, a);
    else
        rows_binary_of(m, op, a, b);
}

static struct rows_value rows_widened(struct rows_make *m, struct rows_value a, unsigned width, int sign)
{
    struct rows_value x = {.width = width};
    int negative = 0;
    if (a.width == width)
        return a;
    for (unsigned t = 0; t < THREADS; t++) {
        x.of[t] = sign ? rows_cut((uint64_t)rows_signed(a.of[t], a.width), width) : a.of[t];
        negative |= m->k->here[t] && rows_signed(a.of[t], a.width) < 0;
    }
    x.ir = LLVMBuildCast(m->b, sign ? LLVMSExt : LLVMZExt, a.ir, rows_type(m, width), "");
    if (!sign && !negative && LLVMIsAZExtInst(x.ir) && rows_below(m->k, 3))
        LLVMSetNNeg(x.ir, 1);
    return x;
}

static struct rows_value rows_as(struct rows_make *m, struct rows_value a, unsigned width)
{
    struct rows_value x = {.width = width};
    if (a.width <= width)
        return rows_widened(m, a, width, (int)rows_below(m->k, 2));
    x.ir = LLVMBuildTrunc(m->b, a.ir, rows_type(m, width), "");
    for (unsigned t = 0; t < THREADS; t++)
        x.of[t] = rows_cut(a.of[t], width);
    return x;
}

static const struct rows_value *rows_any(struct rows_make *m, unsigned width)
{
    struct rows_kernel *k = m->k;
    unsigned first = rows_below(k, k->n), seen = rows_below(k, 3) ? k->n > 6 ? k->n - 6 : 0 : 0;
    if (seen)
        first = seen + rows_below(k, k->n - seen); /* of the last ones, mostly */
    if (k->value[first].width == width)
        return &k->value[first];
    struct rows_value x = rows_as(m, k->value[first], width), *to = rows_new(m, width);
    *to = x;
    return to;
}

/* A constant, which LLVM cannot know to be one. */
static struct rows_value rows_hidden(struct rows_make *m, struct rows_value n)
{
    struct rows_value u = rows_as(m, m->leaf[LEAVES - 1], n.width);
    return *rows_binary_of(m, LLVMAdd, u, rows_constant(m, n.width, rows_cut(n.of[0] - u.of[0], n.width)));
}

/* One of two values, as a comparison says. */
static void rows_compare(struct rows_make *m, unsigned width)
{
    static const LLVMIntPredicate all[] = {LLVMIntULT, LLVMIntUGE, LLVMIntULE, LLVMIntUGT,
                                           LLVMIntSLT, LLVMIntSGE, LLVMIntSLE, LLVMIntSGT};
    static const int on_less[] = {1, 0, 1, 0}, on_same[] = {0, 1, 1, 0};
    struct rows_kernel *k = m->k;
    unsigned p = rows_below(k, 8);
    struct rows_value a = *rows_any(m, width), b = a, x = {.width = 8u << rows_below(k, 4)}, way[2];
    b = rows_below(k, 3) ? rows_constant(m, width, a.of[rows_below(k, THREADS)])
                         : rows_constant(m, width, rows_cut(rows_below(k, 2) - (uint64_t)1, width));
    for (unsigned i = 0; i < 2; i++)
        way[i] = *rows_any(m, x.width);
    x.ir = LLVMBuildSelect(m->b, LLVMBuildICmp(m->b, all[p], a.ir, b.ir, ""), way[1].ir, way[0].ir, "");
    for (unsigned t = 0; t < THREADS; t++) {
        int64_t sa = rows_signed(a.of[t], width), sb = rows_signed(b.of[t], width);
        int less = p < 4 ? a.of[t] < b.of[t] : sa < sb, same = a.of[t] == b.of[t];
        x.of[t] = way[same ? on_same[p % 4] : less ? on_less[p % 4] : !on_less[p % 4]].of[t];
    }
    *rows_new(m, x.width) = x;
}

/* table[middle + index], whose elements are their numbers, where all that are here stay within it. */
static void rows_load(struct rows_make *m, struct rows_value a)
{
    unsigned width = a.width;
    for (unsigned t = 0; t < THREADS; t++)
        if (m->k->here[t] && (rows_signed(a.of[t], width) < -(int)(TABLE / 2) ||
                              rows_signed(a.of[t], width) >= (int)(TABLE / 2)))
            return;
    LLVMValueRef at = LLVMBuildGEP2(m->b, m->l->i32, LLVMGetParam(m->f, 1), &a.ir, 1, "");
    struct rows_value *x = rows_new(m, 32);
    x->ir = LLVMBuildLoad2(m->b, m->l->i32, at, "");
    for (unsigned t = 0; t < THREADS; t++)
        x->of[t] = rows_cut((uint64_t)(rows_signed(a.of[t], width) + TABLE / 2), 32);
}

static void rows_store_at(struct rows_make *m, LLVMValueRef number, unsigned slot)
{
    LLVMTypeRef i64 = rows_type(m, 64);
    LLVMValueRef at = LLVMBuildAdd(m->b, LLVMBuildZExt(m->b, m->thread, i64, ""),
                                   LLVMConstInt(i64, (uint64_t)slot * THREADS, 0), "");
    LLVMBuildStore(m->b, number, LLVMBuildGEP2(m->b, i64, LLVMGetParam(m->f, 0), &at, 1, ""));
}

static void rows_store_wide(struct rows_make *m, struct rows_value x)
{
    struct rows_kernel *k = m->k;
    if (k->nstores >= STORES)
        return;
    rows_store_at(m, x.ir, k->nstores);
    for (unsigned t = 0; t < THREADS; t++) {
        k->want[k->nstores][t] = x.of[t];
        k->stored[k->nstores][t] = k->here[t];
    }
    k->nstores++;
}

/* Made wider in one step or two, with its sign or without. */
static struct rows_value rows_wide(struct rows_make *m, struct rows_value a)
{
    struct rows_kernel *k = m->k;
    unsigned between = a.width << rows_below(k, 3);
    a = rows_widened(m, a, between > 64 ? 64 : between, (int)rows_below(k, 2));
    return rows_widened(m, a, 64, (int)rows_below(k, 2));
}

static void rows_store(struct rows_make *m, struct rows_value a)
{
    rows_store_wide(m, rows_wide(m, a));
    if (a.width < 64)
        rows_store_wide(m, rows_wide(m, a));
}

/* What breaks its promise in some threads, and is a number again: any, but the same wherever it is used. */
static void rows_store_broken(struct rows_make *m)
{
    static const LLVMOpcode ops[] = {LLVMAdd, LLVMSub, LLVMMul, LLVMShl};
    struct rows_kernel *k = m->k;
    unsigned width = 8u << rows_below(k, 2);
    LLVMOpcode op = ops[rows_below(k, 4)];
    struct rows_value a = *rows_any(m, width), b = rows_near(m, op, &a);
    if (k->nstores + 3 > STORES)
        return;
    if (rows_below(k, 2)) /* LLVM leaves a freeze alone only if both may be poison */
        b = rows_hidden(m, b);
    LLVMValueRef x = LLVMBuildBinOp(m->b, op, a.ir, b.ir, "");
    if (!LLVMIsAInstruction(x))
        return;
    rows_promise(x, op, 1 + rows_below(k, 3));
    rows_store_at(m, LLVMBuildZExt(m->b, x, rows_type(m, 64), ""), k->nstores++);
    x = LLVMBuildFreeze(m->b, x, "");
    rows_store_at(m, LLVMBuildZExt(m->b, x, rows_type(m, 64), ""), k->nstores);
    rows_store_at(m, LLVMBuildSExt(m->b, x, rows_type(m, 64), ""), k->nstores + 1);
    for (unsigned t = 0; t < THREADS; t++)
        k->stored[k->nstores + 1][t] = k->here[t] ? (int)width : 0;
    k->nstores += 2;
}

static void rows_some(struct rows_make *m, unsigned n)
{
    static const unsigned widths[] = {8, 16, 32, 32, 64};
    for (unsigned i = 0; i < n; i++) {
        unsigned width = widths[rows_below(m->k, 5)], what = rows_below(m->k, 17);
        if (what < 11)
            rows_binary(m, width);
        else if (what == 11)
            rows_compare(m, width);
        else if (what == 12)
            rows_load(m, *rows_any(m, width));
        else if (what == 13)
            rows_store_broken(m);
        else
            rows_store(m, *rows_any(m, width));
    }
}

static LLVMBasicBlockRef rows_block(struct rows_make *m)
{
    return LLVMAppendBasicBlockInContext(m->l->u->context, m->f, "");
}

/* Which threads a comparison lets through. */
struct rows_gate {
    LLVMIntPredicate p; /* SGE, SLE, UGE or ULE */
    uint64_t limit;
};

static int rows_passes(const struct rows_gate *g, uint64_t a, unsigned width)
{
    int64_t sa = rows_signed(a, width), limit = rows_signed(g->limit, width);
    return g->p == LLVMIntSGE   ? sa >= limit
           : g->p == LLVMIntSLE ? sa <= limit
           : g->p == LLVMIntUGE ? a >= g->limit
                                : a <= g->limit;
}

static struct rows_gate rows_gate(struct rows_kernel *k, const struct rows_value *a)
{
    static const LLVMIntPredicate all[] = {LLVMIntSGE, LLVMIntSLE, LLVMIntUGE, LLVMIntULE};
    return (struct rows_gate){all[rows_below(k, 4)], a->of[rows_below(k, THREADS)]};
}

/* Only threads go on that pass; some of each kernel do. */
static void rows_guard(struct rows_make *m, LLVMBasicBlockRef end, const struct rows_value *a,
                       const struct rows_gate *g)
{
    LLVMBasicBlockRef on = rows_block(m);
    LLVMValueRef limit = LLVMConstInt(rows_type(m, a->width), g->limit, 0);
    LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, g->p, a->ir, limit, ""), on, end);
    LLVMPositionBuilderAtEnd(m->b, on);
    for (unsigned t = 0; t < THREADS; t++)
        m->k->here[t] &= rows_passes(g, a->of[t], a->width);
}

/* Does `flag` hold of the operation in the threads that pass, of which there are some, and in others not? */
static int rows_divides(const struct rows_kernel *k, const struct rows_gate *g, const struct rows_value *a,
                        LLVMOpcode op, uint64_t c, unsigned flag)
{
    unsigned here = 0, breaks = 0;
    for (unsigned t = 0; t < THREADS; t++) {
        int passes = k->here[t] && rows_passes(g, a->of[t], a->width);
        int holds = (rows_holds(op, a->of[t], c, a->width) & flag) != 0;
        if (passes && !holds)
            return 0;
        here += (unsigned)passes;
        breaks += (unsigned)!holds;
    }
    return here && breaks;
}

/* `a`, by a choice between it and another row that all threads make alike. */
static struct rows_value rows_either(struct rows_make *m, struct rows_value a)
{
    struct rows_value other = rows_as(m, m->leaf[rows_below(m->k, LEAVES)], a.width);
    LLVMValueRef b = rows_binary_of(m, LLVMAdd, other, rows_near(m, LLVMAdd, &other))->ir;
    LLVMValueRef is =
        LLVMBuildICmp(m->b, LLVMIntEQ, LLVMGetParam(m->f, 2), LLVMConstInt(rows_type(m, 32), m->k->u, 0), "");
    a.ir = LLVMBuildSelect(m->b, is, a.ir, b, "");
    return a;
}

/* … for which an operation keeps a promise that it breaks in others. It is done behind the guard, or before
 * it and used by those that pass. */
static int rows_narrow_guard(struct rows_make *m, LLVMBasicBlockRef end)
{
    static const LLVMOpcode ops[] = {LLVMAdd, LLVMSub, LLVMMul, LLVMShl};
    struct rows_kernel *k = m->k;
    int all[THREADS], early = (int)rows_below(k, 2);
    for (unsigned i = 0; i < 60; i++) {
        LLVMOpcode op = ops[rows_below(k, 4)];
        struct rows_value a = k->value[rows_below(k, k->n)], c = rows_near(m, op, &a);
        struct rows_gate g = rows_gate(k, &a);
        if (!rows_divides(k, &g, &a, op, c.of[0], rows_below(k, 2) ? NSW : NUW))
            continue;
        memcpy(all, k->here, sizeof all);
        if (early)
            for (unsigned t = 0; t < THREADS; t++)
                k->here[t] &= rows_passes(&g, a.of[t], a.width);
        else
            rows_guard(m, end, &a, &g);
        struct rows_value x = *rows_binary_of(m, op, a, c), wide;
        if (rows_below(k, 2))
            x = rows_either(m, x);
        wide = rows_wide(m, x);
        rows_store_wide(m, wide);
        if (early)
            memcpy(k->here, all, sizeof all), rows_guard(m, end, &a, &g);
        rows_store_wide(m, wide);
        rows_store(m, x);
        return 1;
    }
    return 0;
}

/* Sums and products of a number made wider that may wrap round, as LLVM knows: as values and as indices. */
static void rows_scaled(struct rows_make *m, struct rows_value narrow)
{
    struct rows_kernel *k = m->k;
    struct rows_value w = rows_widened(m, narrow, 64, (int)rows_below(k, 2)), other = m->leaf[LANE];
    other = rows_widened(m, other, 64, 0);
    w = *rows_binary_of(m, LLVMMul, w, rows_constant(m, 64, 1 + rows_below(k, 5)));
    w = rows_below(k, 2) ? *rows_binary_of(m, LLVMSub, other, w) : *rows_binary_of(m, LLVMAdd, w, other);
    rows_store(m, w);
    rows_load(m, w);
    rows_store(m, k->value[k->n - 1]);
}

/* What the lane's number and another row are apart, which is the same in all lanes, for those on one side of
 * where the other one wraps round. */
static void rows_apart(struct rows_make *m, LLVMBasicBlockRef end)
{
    static const unsigned rises[] = {0, 1, 4};
    struct rows_kernel *k = m->k;
    struct rows_value a = m->leaf[LANE], b = m->leaf[rises[rows_below(k, 3)]];
    unsigned first = rows_below(k, 31), last = first + rows_below(k, 32 - first);
    b = *rows_binary_of(m, LLVMAdd, b, rows_constant(m, 32, rows_cut(0 - b.of[first], 32)));
    struct rows_gate g = {rows_below(k, 2) ? LLVMIntULE : LLVMIntUGE, b.of[last]};
    rows_guard(m, end, &b, &g);
    rows_scaled(m, b);
    rows_store(m, rows_below(k, 2) ? *rows_binary_of(m, LLVMSub, a, b) : *rows_binary_of(m, LLVMSub, b, a));
}

/* Two ways that all threads take alike: which, the kernel is told. Each brings a value. */
static void rows_ways(struct rows_make *m)
{
    struct rows_kernel *k = m->k;
    unsigned width = 8u << rows_below(k, 4), taken = rows_below(k, 2);
    LLVMBasicBlockRef way[2] = {rows_block(m), rows_block(m)}, after = rows_block(m), from[2];
    struct rows_value brought[2];
    int here[THREADS], alike = (int)rows_below(k, 3), flat = !rows_below(k, 3);
    LLVMValueRef is = LLVMBuildICmp(m->b, LLVMIntEQ, LLVMGetParam(m->f, 2),
                                    LLVMConstInt(rows_type(m, 32), taken ? k->u + 1 : k->u, 0), "");
    LLVMBuildCondBr(m->b, is, way[0], way[1]);
    memcpy(here, k->here, sizeof here);
    static struct rows_value before[VALUES];
    unsigned n = k->n, stores = k->nstores;
    memcpy(before, k->value, sizeof before);
    for (unsigned i = 0; i < 2; i++) {
        LLVMPositionBuilderAtEnd(m->b, way[i]);
        if (i != taken) /* nobody is here: all promises hold */
            memset(k->here, 0, sizeof here);
        k->nstores = STORES; /* none on the ways */
        rows_some(m, 2);
        unsigned leaf = flat ? (i ? 2 : 5) : rows_below(k, LEAVES); /* threadIdx.y, the parameter */
        brought[i] = alike ? rows_as(m, m->leaf[leaf], width) : *rows_any(m, width);
        brought[i] = *rows_binary_of(m, LLVMAdd, brought[i], rows_near(m, LLVMAdd, &brought[i]));
        k->nstores = stores;
        from[i] = LLVMGetInsertBlock(m->b);
        LLVMBuildBr(m->b, after);
        memcpy(k->here, here, sizeof here);
        memcpy(k->value, before, sizeof before);
        k->n = n;
    }
    LLVMPositionBuilderAtEnd(m->b, after);
    LLVMValueRef phi = LLVMBuildPhi(m->b, rows_type(m, width), ""), in[2] = {brought[0].ir, brought[1].ir};
    LLVMAddIncoming(phi, in, from, 2);
    struct rows_value *x = rows_new(m, width);
    *x = brought[taken];
    x->ir = phi;
    rows_store(m, *x);
}

/* x, x + c, … three times; what they are when made wider is added up. */
static void rows_loop(struct rows_make *m)
{
    struct rows_kernel *k = m->k;
    unsigned width = 8u << rows_below(k, 3), flags = NSW | NUW;
    struct rows_value x = *rows_any(m, width), *sum;
    uint64_t c = rows_number(k, width), all[THREADS] = {0};
    int sign = (int)rows_below(k, 2);
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < 3; i++) {
            all[t] = all[t] * 3 + (sign ? (uint64_t)rows_signed(x.of[t], width) : x.of[t]);
            flags &= k->here[t] ? rows_holds(LLVMAdd, x.of[t], c, width) : flags;
            x.of[t] = rows_cut(x.of[t] + c, width);
        }
    LLVMTypeRef type = rows_type(m, width), i64 = rows_type(m, 64), i32 = rows_type(m, 32);
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(m->b), rows_block(m)}, after = rows_block(m);
    LLVMBuildBr(m->b, from[1]);
    LLVMPositionBuilderAtEnd(m->b, from[1]);
    LLVMValueRef value = LLVMBuildPhi(m->b, type, ""), added = LLVMBuildPhi(m->b, i64, ""),
                 round = LLVMBuildPhi(m->b, i32, "");
    LLVMValueRef wide = LLVMBuildCast(m->b, sign ? LLVMSExt : LLVMZExt, value, i64, "");
    LLVMValueRef ins[3][2] = {
        {x.ir, LLVMBuildAdd(m->b, value, LLVMConstInt(type, c, 0), "")},
        {LLVMConstNull(i64),
         LLVMBuildAdd(m->b, LLVMBuildMul(m->b, added, LLVMConstInt(i64, 3, 0), ""), wide, "")},
        {LLVMConstNull(i32), LLVMBuildAdd(m->b, round, LLVMConstInt(i32, 1, 0), "")}};
    rows_promise(ins[0][1], LLVMAdd, flags);
    LLVMAddIncoming(value, ins[0], from, 2);
    LLVMAddIncoming(added, ins[1], from, 2);
    LLVMAddIncoming(round, ins[2], from, 2);
    /* As often as a parameter says, so that it stays a loop. */
    LLVMBuildCondBr(m->b, LLVMBuildICmp(m->b, LLVMIntULT, ins[2][1], LLVMGetParam(m->f, 3), ""), from[1],
                    after);
    LLVMPositionBuilderAtEnd(m->b, after);
    sum = rows_new(m, 64);
    sum->ir = ins[1][1];
    memcpy(sum->of, all, sizeof all);
}

static LLVMValueRef rows_register(struct rows_make *m, const char *name)
{
    LLVMTypeRef type;
    char full[64];
    snprintf(full, sizeof full, "mtb_nvvm_read_ptx_sreg_%s", name);
    return LLVMBuildCall2(m->b, LLVMGlobalGetValueType(mt_builtin(m->l, full, &type)),
                          mt_builtin(m->l, full, &type), NULL, 0, "");
}

/* The thread's number, x, y, lane, its place in the grid, a parameter. */
static void rows_leaves(struct rows_make *m)
{
    struct rows_kernel *k = m->k;
    unsigned wide = k->tiles ? 16 : THREADS;
    static const char *const names[] = {"tid_x", "tid_y", "laneid", "ntid_x", "ctaid_x"};
    LLVMValueRef r[5];
    for (unsigned i = 0; i < 5; i++)
        r[i] = rows_register(m, names[i]);
    LLVMValueRef linear = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, r[1], r[3], ""), r[0], ""),
                 global = LLVMBuildAdd(m->b, LLVMBuildMul(m->b, r[4], r[3], ""), r[0], "");
    m->thread = linear;
    LLVMValueRef leaf[LEAVES] = {linear, r[0], r[1], r[2], global, LLVMGetParam(m->f, 2)};
    for (unsigned i = 0; i < LEAVES; i++) {
        struct rows_value *x = rows_new(m, 32);
        x->ir = leaf[i];
        for (unsigned t = 0; t < THREADS; t++) {
            uint64_t of[] = {t, t % wide, t / wide, t % 32, (uint64_t)k->cta * wide + t % wide, k->u};
            x->of[t] = rows_cut(of[i], 32);
        }
        m->leaf[i] = *x;
    }
}

void mt_rows_kernel(struct rows_make *m, unsigned number)
{
    struct rows_kernel *k = m->k;
    struct mt_lowering *l = m->l;
    LLVMTypeRef types[] = {l->ptr, l->ptr, l->i32, l->i32};
    char name[32];
    snprintf(name, sizeof name, "k%u", number);
    m->f = LLVMAddFunction(l->module, name, LLVMFunctionType(l->none, types, 4, 0));
    LLVMBasicBlockRef begin = rows_block(m), end = rows_block(m);
    LLVMPositionBuilderAtEnd(m->b, end);
    LLVMBuildRetVoid(m->b);
    LLVMPositionBuilderAtEnd(m->b, begin);
    for (unsigned t = 0; t < THREADS; t++)
        k->here[t] = 1;
    k->tiles = (int)rows_below(k, 2);
    k->cta = rows_below(k, 3) ? rows_below(k, 7) : 0x07fffffe;
    k->u = (uint32_t)rows_number(k, 32);
    rows_leaves(m);
    rows_some(m, rows_below(k, 7));
    if (!rows_below(k, 2) || !rows_narrow_guard(m, end)) {
        struct rows_value a = *rows_any(m, 8u << rows_below(k, 4));
        struct rows_gate g = rows_gate(k, &a);
        rows_guard(m, end, &a, &g);
    }
    rows_some(m, 3 + rows_below(k, 4));
    if (rows_below(k, 3) == 0)
        rows_apart(m, end);
    if (rows_below(k, 3) == 0)
        rows_loop(m);
    if (rows_below(k, 3) == 0)
        rows_ways(m);
    rows_some(m, 3 + rows_below(k, 5));
    for (unsigned i = 0; i < 4 && k->n; i++)
        rows_store(m, k->value[k->n - 1 - i]);
    LLVMBuildBr(m->b, end);
    LLVMMoveBasicBlockAfter(end, LLVMGetInsertBlock(m->b));
    k->text = LLVMPrintValueToString(m->f);
}
