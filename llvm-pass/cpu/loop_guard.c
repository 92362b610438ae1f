/* `if (i < n)` around a kernel's body, or `if (i >= n) return;`, with i = something + threadIdx.x: in the
 * loop over a row of threads the test holds for an interval of threadIdx.x. The loop runs over that interval
 * alone, so that its body has no branch and vectorises without masks,
 * as the C loop that a programmer would write.
 *
 * Where i wraps around within the row (its type is too narrow: seldom, but nothing forbids it), the row is
 * run thread by thread, each tested as written:
 *
 *   for (s = 0; s < ntid; s = e) {
 *       e = wraps ? s + 1 : ntid;
 *       [lo, hi) = wraps ? (test(s) ? [s, e) : empty) : the interval;
 *       for (x = lo; x < hi; x++) body;
 *   } */
#include "lower.h"
#include <string.h>

#define MAX_TESTS 8
#define MAX_NODES 48 /* of one test's expression: it is computed anew up to four times */

/* One factor of the condition. */
struct test {
    LLVMValueRef value;                   /* i1 */
    int want;                             /* the body runs when value is this */
    enum { OPAQUE, SAME, INTERVAL } kind; /* SAME: alike for all threads of the row */
    LLVMIntPredicate predicate;           /* INTERVAL: moving `predicate` fixed */
    LLVMValueRef moving, fixed;
};

struct guard {
    struct mt_lowering *l;
    struct mt_row *row;
    struct mt_region region; /* the head */
    LLVMBasicBlockRef latch;
    LLVMValueRef next; /* x + 1, first instruction of the latch */
    struct test test[MAX_TESTS];
    unsigned n;
};

static int loop_guard_inside(const struct mt_region *r, LLVMValueRef v)
{
    LLVMBasicBlockRef b = LLVMIsAInstruction(v) ? LLVMGetInstructionParent(v) : NULL;
    return b && (b == r->head || b == r->more);
}

/* *moves: the value depends on x. */
static int can_compute(const struct mt_row *row, const struct mt_region *r, LLVMValueRef v, int *moves,
                       unsigned *nodes)
{
    if (v == row->x)
        return *moves = 1;
    if (!loop_guard_inside(r, v))
        return !r->entry || !LLVMIsAInstruction(v) || LLVMGetInstructionParent(v) == r->entry;
    if (++*nodes > MAX_NODES)
        return 0;
    switch (LLVMGetInstructionOpcode(v)) {
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
    case LLVMShl:
    case LLVMLShr:
    case LLVMAShr:
    case LLVMAnd:
    case LLVMOr:
    case LLVMXor:
    case LLVMSExt:
    case LLVMZExt:
    case LLVMTrunc:
    case LLVMICmp:
    case LLVMSelect:
        break;
    default:
        return 0;
    }
    for (unsigned i = 0, n = (unsigned)LLVMGetNumOperands(v); i < n; i++)
        if (!can_compute(row, r, LLVMGetOperand(v, i), moves, nodes))
            return 0;
    return 1;
}

int mt_row_can_compute(const struct mt_row *row, const struct mt_region *r, LLVMValueRef v, int *moves)
{
    unsigned nodes = 0;
    *moves = 0;
    return can_compute(row, r, v, moves, &nodes);
}

/* Without promises (nsw and the like), which held for the program's threads only. */
LLVMValueRef mt_row_compute(struct mt_lowering *l, const struct mt_row *row, const struct mt_region *r,
                            LLVMValueRef v, LLVMValueRef at)
{
    LLVMBuilderRef b = l->builder;
    LLVMValueRef o[3];
    if (v == row->x)
        return at;
    if (!loop_guard_inside(r, v))
        return v;
    for (unsigned i = 0, n = (unsigned)LLVMGetNumOperands(v); i < n && i < 3; i++)
        o[i] = mt_row_compute(l, row, r, LLVMGetOperand(v, i), at);
    LLVMOpcode op = LLVMGetInstructionOpcode(v);
    if (op == LLVMICmp)
        return LLVMBuildICmp(b, LLVMGetICmpPredicate(v), o[0], o[1], "");
    if (op == LLVMSelect)
        return LLVMBuildSelect(b, o[0], o[1], o[2], "");
    if (op == LLVMSExt || op == LLVMZExt || op == LLVMTrunc)
        return LLVMBuildCast(b, op, o[0], LLVMTypeOf(v), "");
    return LLVMBuildBinOp(b, op, o[0], o[1], "");
}

int mt_row_is_moving(const struct mt_row *row, const struct mt_region *r, LLVMValueRef v)
{
    int moves;
    if (v == row->x)
        return 1;
    if (!loop_guard_inside(r, v) || LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMIntegerTypeKind)
        return 0;
    switch (LLVMGetInstructionOpcode(v)) {
    case LLVMSExt:
    case LLVMZExt:
    case LLVMTrunc:
        return mt_row_is_moving(row, r, LLVMGetOperand(v, 0));
    case LLVMAdd:
        if (mt_row_is_moving(row, r, LLVMGetOperand(v, 1)))
            return mt_row_can_compute(row, r, LLVMGetOperand(v, 0), &moves) && !moves;
        /* fall through */
    case LLVMSub:
        return mt_row_is_moving(row, r, LLVMGetOperand(v, 0)) &&
               mt_row_can_compute(row, r, LLVMGetOperand(v, 1), &moves) && !moves;
    default:
        return 0;
    }
}

LLVMIntPredicate mt_inverse_predicate(LLVMIntPredicate p)
{
    switch (p) {
    case LLVMIntULT:
        return LLVMIntUGE;
    case LLVMIntULE:
        return LLVMIntUGT;
    case LLVMIntUGT:
        return LLVMIntULE;
    case LLVMIntUGE:
        return LLVMIntULT;
    case LLVMIntSLT:
        return LLVMIntSGE;
    case LLVMIntSLE:
        return LLVMIntSGT;
    case LLVMIntSGT:
        return LLVMIntSLE;
    case LLVMIntSGE:
        return LLVMIntSLT;
    case LLVMIntEQ:
        return LLVMIntNE;
    default:
        return LLVMIntEQ;
    }
}

static LLVMIntPredicate loop_guard_swapped(LLVMIntPredicate p)
{
    switch (p) {
    case LLVMIntULT:
        return LLVMIntUGT;
    case LLVMIntULE:
        return LLVMIntUGE;
    case LLVMIntUGT:
        return LLVMIntULT;
    case LLVMIntUGE:
        return LLVMIntULE;
    case LLVMIntSLT:
        return LLVMIntSGT;
    case LLVMIntSLE:
        return LLVMIntSGE;
    case LLVMIntSGT:
        return LLVMIntSLT;
    case LLVMIntSGE:
        return LLVMIntSLE;
    default:
        return p;
    }
}

static void loop_guard_classify(const struct guard *g, struct test *t)
{
    int moves;
    t->kind = OPAQUE;
    if (!mt_row_can_compute(g->row, &g->region, t->value, &moves))
        return;
    if (!moves) {
        t->kind = SAME;
        return;
    }
    if (!LLVMIsAICmpInst(t->value))
        return;
    LLVMValueRef a = LLVMGetOperand(t->value, 0), b = LLVMGetOperand(t->value, 1);
    LLVMTypeRef type = LLVMTypeOf(a);
    if (LLVMGetTypeKind(type) != LLVMIntegerTypeKind || LLVMGetIntTypeWidth(type) < 32)
        return;
    t->predicate = LLVMGetICmpPredicate(t->value);
    if (!t->want)
        t->predicate = mt_inverse_predicate(t->predicate);
    if (!mt_row_is_moving(g->row, &g->region, a)) {
        LLVMValueRef c = a;
        a = b;
        b = c;
        t->predicate = loop_guard_swapped(t->predicate);
    }
    if (t->predicate == LLVMIntNE || !mt_row_is_moving(g->row, &g->region, a) ||
        !mt_row_can_compute(g->row, &g->region, b, &moves) || moves)
        return;
    t->moving = a;
    t->fixed = b;
    t->kind = INTERVAL;
}

static int is_constant(LLVMValueRef v, unsigned value)
{
    return LLVMIsAConstantInt(v) && LLVMConstIntGetZExtValue(v) == value;
}

/* Factors of "v is `want`". 0 when they are too many. */
static int loop_guard_split(struct guard *g, LLVMValueRef v, int want)
{
    if (loop_guard_inside(&g->region, v)) {
        LLVMOpcode op = LLVMGetInstructionOpcode(v);
        LLVMValueRef a = LLVMGetOperand(v, 0);
        if (op == (want ? LLVMAnd : LLVMOr))
            return loop_guard_split(g, a, want) && loop_guard_split(g, LLVMGetOperand(v, 1), want);
        if (op == LLVMXor && is_constant(LLVMGetOperand(v, 1), 1))
            return loop_guard_split(g, a, !want);
        if (op == LLVMSelect && want && is_constant(LLVMGetOperand(v, 2), 0))
            return loop_guard_split(g, a, 1) && loop_guard_split(g, LLVMGetOperand(v, 1), 1);
        if (op == LLVMSelect && !want && is_constant(LLVMGetOperand(v, 1), 1))
            return loop_guard_split(g, a, 0) && loop_guard_split(g, LLVMGetOperand(v, 2), 0);
    }
    if (g->n == MAX_TESTS)
        return 0;
    g->test[g->n] = (struct test){.value = v, .want = want};
    loop_guard_classify(g, &g->test[g->n++]);
    return 1;
}

/* Has the head no effect for threads that fail the test? */
static int is_pure(const struct guard *g)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(g->row->head); i; i = LLVMGetNextInstruction(i)) {
        const char *name = LLVMIsACallInst(i) && mt_callee(i) ? mt_name(mt_callee(i)) : "";
        switch (LLVMGetInstructionOpcode(i)) {
        case LLVMStore:
        case LLVMFence:
        case LLVMAtomicRMW:
        case LLVMAtomicCmpXchg:
            return 0;
        case LLVMLoad:
            if (LLVMGetVolatile(i) || LLVMGetOrdering(i) != LLVMAtomicOrderingNotAtomic)
                return 0;
            break;
        case LLVMCall:
            if (!mt_starts(name, "mtb_set_thread") && strcmp(name, "llvm.assume") &&
                !mt_starts(name, "llvm.umin.") && !mt_starts(name, "llvm.umax.") &&
                !mt_starts(name, "llvm.smin.") && !mt_starts(name, "llvm.smax."))
                return 0;
            break;
        default:
            break;
        }
    }
    return 1;
}

LLVMBasicBlockRef mt_row_latch(const struct mt_row *row)
{
    if (LLVMCountIncoming(row->x) != 2)
        return NULL;
    unsigned back = LLVMGetIncomingBlock(row->x, 0) == row->before;
    LLVMBasicBlockRef latch = LLVMGetIncomingBlock(row->x, back);
    return latch != row->head && LLVMGetFirstInstruction(latch) == LLVMGetIncomingValue(row->x, back) ? latch
                                                                                                      : NULL;
}

int mt_row_skips(const struct mt_row *row, LLVMBasicBlockRef block)
{
    LLVMBasicBlockRef latch = mt_row_latch(row);
    for (int i = 0; i < 8; i++) {
        LLVMValueRef first = LLVMGetFirstInstruction(block);
        if (block == latch)
            return 1;
        if (!LLVMIsABranchInst(first) || LLVMIsConditional(first))
            return 0;
        block = LLVMGetSuccessor(first, 0);
    }
    return 0;
}

static LLVMValueRef loop_guard_minimum(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntULT, x, y, ""), x, y, "");
}

static LLVMValueRef loop_guard_maximum(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, x, y, ""), x, y, "");
}

static int is_signed(LLVMIntPredicate p)
{
    return p == LLVMIntSLT || p == LLVMIntSLE || p == LLVMIntSGT || p == LLVMIntSGE;
}

/* The interval of one test, cut with [*lo, *hi). With m the moving side at x = 0 and no wrapping, moving is m
 * + x; distances from m are unsigned. Returns "it wraps". */
static LLVMValueRef loop_guard_cut(const struct guard *g, const struct test *t, LLVMValueRef *lo,
                                   LLVMValueRef *hi)
{
    LLVMBuilderRef b = g->l->builder;
    LLVMTypeRef type = LLVMTypeOf(t->moving);
    LLVMValueRef zero = LLVMConstNull(g->l->i32), one = LLVMConstInt(g->l->i32, 1, 0), ntid = g->row->count;
    LLVMValueRef last = LLVMBuildSub(b, ntid, one, ""), wide = LLVMBuildIntCast2(b, ntid, type, 0, "");
    LLVMValueRef m = mt_row_compute(g->l, g->row, &g->region, t->moving, zero),
                 end = mt_row_compute(g->l, g->row, &g->region, t->moving, last);
    LLVMValueRef fixed = mt_row_compute(g->l, g->row, &g->region, t->fixed, zero);
    int sign = is_signed(t->predicate);
    LLVMIntPredicate less = sign ? LLVMIntSLT : LLVMIntULT;
    LLVMValueRef wraps =
        LLVMBuildICmp(b, LLVMIntNE, LLVMBuildSub(b, end, m, ""), LLVMBuildIntCast2(b, last, type, 0, ""), "");
    if (t->predicate != LLVMIntEQ)
        wraps = LLVMBuildOr(b, wraps, LLVMBuildICmp(b, less, end, m, ""), "");
    /* first: the smallest x with m + x >= fixed; beyond: the smallest with m + x > fixed */
    LLVMValueRef distance = loop_guard_minimum(b, LLVMBuildSub(b, fixed, m, ""), wide);
    LLVMValueRef first = LLVMBuildIntCast2(b, distance, g->l->i32, 0, "");
    LLVMValueRef beyond = loop_guard_minimum(b, LLVMBuildAdd(b, first, one, ""), ntid);
    LLVMValueRef below = LLVMBuildICmp(b, less, fixed, m, ""); /* all of the row lies above */
    switch (t->predicate) {
    case LLVMIntULT:
    case LLVMIntSLT:
        *hi = loop_guard_minimum(b, *hi, LLVMBuildSelect(b, below, zero, first, ""));
        break;
    case LLVMIntULE:
    case LLVMIntSLE:
        *hi = loop_guard_minimum(b, *hi, LLVMBuildSelect(b, below, zero, beyond, ""));
        break;
    case LLVMIntUGE:
    case LLVMIntSGE:
        *lo = loop_guard_maximum(b, *lo, LLVMBuildSelect(b, below, zero, first, ""));
        break;
    case LLVMIntUGT:
    case LLVMIntSGT:
        *lo = loop_guard_maximum(b, *lo, LLVMBuildSelect(b, below, zero, beyond, ""));
        break;
    default: /* equal: at most one thread */
        *lo = loop_guard_maximum(b, *lo, first);
        *hi = loop_guard_minimum(b, *hi, beyond);
        break;
    }
    return wraps;
}

/* The new outer loop: everything above the `for (x…)` of the comment on top. */
static void build_outer(struct guard *g)
{
    struct mt_lowering *l = g->l;
    struct mt_row *row = g->row;
    LLVMBuilderRef b = l->builder;
    LLVMValueRef function = LLVMGetBasicBlockParent(row->head), jump = LLVMGetBasicBlockTerminator(g->latch);
    LLVMBasicBlockRef outer = LLVMInsertBasicBlockInContext(l->u->context, row->head, "");
    LLVMBasicBlockRef tail = LLVMAppendBasicBlockInContext(l->u->context, function, "");
    LLVMBasicBlockRef after = LLVMGetSuccessor(jump, 1);
    LLVMValueRef zero = LLVMConstNull(l->i32), one = LLVMConstInt(l->i32, 1, 0);

    LLVMPositionBuilderAtEnd(b, outer);
    LLVMValueRef s = LLVMBuildPhi(b, l->i32, ""), lo = zero, hi = row->count;
    LLVMValueRef wraps = LLVMConstNull(l->i1), passes = LLVMConstInt(l->i1, 1, 0);
    for (unsigned i = 0; i < g->n; i++) {
        struct test *t = &g->test[i];
        if (t->kind == OPAQUE)
            continue;
        LLVMValueRef v = mt_row_compute(g->l, g->row, &g->region, t->value, s);
        v = t->want ? v : LLVMBuildNot(b, v, "");
        passes = LLVMBuildAnd(b, passes, v, "");
        if (t->kind == SAME)
            hi = LLVMBuildSelect(b, v, hi, zero, "");
        else
            wraps = LLVMBuildOr(b, wraps, loop_guard_cut(g, t, &lo, &hi), "");
    }
    LLVMValueRef e = LLVMBuildSelect(b, wraps, LLVMBuildAdd(b, s, one, ""), row->count, "");
    lo = LLVMBuildSelect(b, wraps, s, lo, "");
    hi = LLVMBuildSelect(b, wraps, LLVMBuildSelect(b, passes, e, s, ""), hi, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, lo, hi, ""), row->head, tail);
    LLVMPositionBuilderAtEnd(b, tail);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, e, row->count, ""), outer, after);
    LLVMAddIncoming(s, &zero, &row->before, 1);
    LLVMAddIncoming(s, &e, &tail, 1);

    LLVMSetSuccessor(LLVMGetBasicBlockTerminator(row->before), 0, outer);
    LLVMSetSuccessor(jump, 1, tail);
    LLVMPositionBuilderBefore(b, jump);
    LLVMSetCondition(jump, LLVMBuildICmp(b, LLVMIntULT, g->next, hi, ""));
    LLVMPositionBuilderBefore(b, row->x);
    LLVMValueRef x = LLVMBuildPhi(b, l->i32, "");
    LLVMAddIncoming(x, &lo, &outer, 1);
    LLVMAddIncoming(x, &g->next, &g->latch, 1);
    LLVMReplaceAllUsesWith(row->x, x);
    LLVMInstructionEraseFromParent(row->x);
    row->x = x;
}

void mt_narrow_row(struct mt_lowering *l, struct mt_row *row)
{
    struct guard g = {.l = l, .row = row};
    LLVMValueRef branch = LLVMGetBasicBlockTerminator(row->head);
    g.region.head = row->head;
    g.latch = mt_row_latch(row);
    if (!g.latch || !LLVMIsABranchInst(branch) || !LLVMIsConditional(branch))
        return;
    g.next = LLVMGetFirstInstruction(g.latch);
    int want = mt_row_skips(row, LLVMGetSuccessor(branch, 1));
    if (!want && !mt_row_skips(row, LLVMGetSuccessor(branch, 0)))
        return;
    unsigned known = 0;
    if (!loop_guard_split(&g, LLVMGetCondition(branch), want) || !is_pure(&g))
        return;
    for (unsigned i = 0; i < g.n; i++)
        known += g.test[i].kind != OPAQUE;
    if (!known)
        return;
    build_outer(&g);
    /* What is left of the test. */
    LLVMPositionBuilderBefore(l->builder, branch);
    LLVMValueRef yes = LLVMConstInt(l->i1, 1, 0), no = LLVMConstNull(l->i1), left = yes;
    for (unsigned i = g.n; i-- > 0;)
        if (g.test[i].kind == OPAQUE) {
            LLVMValueRef v = g.test[i].value;
            v = g.test[i].want ? v : LLVMBuildNot(l->builder, v, "");
            left = left == yes ? v : LLVMBuildSelect(l->builder, v, left, no, "");
        }
    LLVMSetCondition(branch, want ? left : LLVMBuildNot(l->builder, left, ""));
}
