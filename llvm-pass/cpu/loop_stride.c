/* Grid-stride loops, `for (i = something + threadIdx.x; i < n; i += stride) body;` as all that a kernel does.
 * Thread after thread they would go through memory in steps of the stride, each time past the caches. As
 * threads of such a kernel do not wait for each other, they may as well go on together:
 *
 *   for (off = 0; ; off += stride)
 *       for (x = 0; x < ntid; x++) { i = something + x + off; if (i < n) body; }
 *
 * Each thread still does its own iterations in order, and i is all that it takes from one to the next. A
 * check at the function's entry makes sure that nothing wraps around, else a copy of the function as it was
 * does the work. */
#include "lower.h"
#include <string.h>

struct stride {
    struct mt_lowering *l;
    struct mt_row *row;
    struct mt_region region;          /* head and the block before the inner loop */
    LLVMBasicBlockRef entry, latch;   /* of the function; of the row's loop */
    LLVMBasicBlockRef inner, last;    /* first and last block of the inner loop */
    LLVMBasicBlockRef done;           /* where it goes on to */
    LLVMValueRef i, first, step, end; /* the phi, its first value, the stride, n */
    LLVMValueRef place;               /* the phi that counts iterations for record calls, or NULL */
    LLVMIntPredicate less;
};

/* "value less end" as the meaning of a conditional branch to `to`; 0 if it is something else. */
static int is_test(LLVMValueRef branch, LLVMBasicBlockRef to, LLVMIntPredicate *less, LLVMValueRef *value,
                   LLVMValueRef *end)
{
    LLVMValueRef c = LLVMIsABranchInst(branch) && LLVMIsConditional(branch) ? LLVMGetCondition(branch) : NULL;
    if (!c || !LLVMIsAICmpInst(c))
        return 0;
    *less = LLVMGetICmpPredicate(c);
    if (LLVMGetSuccessor(branch, 0) != to)
        *less = mt_inverse_predicate(*less);
    *value = LLVMGetOperand(c, 0);
    *end = LLVMGetOperand(c, 1);
    if (*less == LLVMIntSGT || *less == LLVMIntUGT) {
        *less = *less == LLVMIntSGT ? LLVMIntSLT : LLVMIntULT;
        *value = LLVMGetOperand(c, 1);
        *end = LLVMGetOperand(c, 0);
    }
    return *less == LLVMIntSLT || *less == LLVMIntULT;
}

/* The blocks of the inner loop are left at its end only: a thread that breaks out must not go on. */
static int has_one_exit(const struct stride *s)
{
    enum { MAX_BLOCKS = 64 };
    LLVMBasicBlockRef seen[MAX_BLOCKS] = {s->inner};
    unsigned count = 1;
    for (unsigned at = 0; at < count; at++) {
        LLVMValueRef t = LLVMGetBasicBlockTerminator(seen[at]);
        if (seen[at] == s->last)
            continue;
        for (unsigned k = 0, n = LLVMGetNumSuccessors(t); k < n; k++) {
            LLVMBasicBlockRef to = LLVMGetSuccessor(t, k);
            unsigned known = 0;
            while (known < count && seen[known] != to)
                known++;
            if (to == s->inner || to == s->latch || to == s->row->head || to == s->done ||
                count == MAX_BLOCKS)
                return 0;
            if (known == count)
                seen[count++] = to;
        }
    }
    return 1;
}

/* Private arrays have one place for all threads of the loop: each thread must end before the next begins. */
static int has_private_memory(const struct stride *s)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(s->entry); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsAAllocaInst(i))
            return 1;
    return 0;
}

/* What is before the inner loop is done in each round now: nothing but arithmetic. */
static int is_arithmetic(LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = block ? LLVMGetFirstInstruction(block) : NULL; i; i = LLVMGetNextInstruction(i)) {
        LLVMOpcode op = LLVMGetInstructionOpcode(i);
        if (op == LLVMLoad || op == LLVMStore || op == LLVMFence || op == LLVMAtomicRMW ||
            op == LLVMAtomicCmpXchg || op == LLVMVAArg || op == LLVMAlloca)
            return 0;
        if (op == LLVMCall && (!mt_callee(i) || !mt_starts(mt_name(mt_callee(i)), "mtb_set_thread")))
            return 0;
    }
    return 1;
}

/* Finds the inner loop and its parts. */
static int loop_stride_find(struct stride *s)
{
    LLVMValueRef branch = LLVMGetBasicBlockTerminator(s->row->head), value, end, next;
    LLVMIntPredicate less;
    if (!LLVMIsABranchInst(branch) || !LLVMIsConditional(branch))
        return 0;
    int second = mt_row_skips(s->row, LLVMGetSuccessor(branch, 1));
    if (!second && !mt_row_skips(s->row, LLVMGetSuccessor(branch, 0)))
        return 0;
    LLVMBasicBlockRef into = LLVMGetSuccessor(branch, second ? 0 : 1), before = s->row->head;
    s->inner = into;
    if (!LLVMIsAPHINode(LLVMGetFirstInstruction(into))) {
        LLVMValueRef jump = LLVMGetBasicBlockTerminator(into);
        if (!LLVMIsABranchInst(jump) || LLVMIsConditional(jump))
            return 0;
        before = s->region.more = into;
        s->inner = LLVMGetSuccessor(jump, 0);
    }
    s->i = LLVMGetFirstInstruction(s->inner);
    if (LLVMIsAPHINode(s->i) && LLVMGetMetadata(s->i, mt_place_metadata(s->l))) {
        s->place = s->i;
        s->i = LLVMGetNextInstruction(s->i);
    }
    if (!LLVMIsAPHINode(s->i) || LLVMCountIncoming(s->i) != 2 || LLVMIsAPHINode(LLVMGetNextInstruction(s->i)))
        return 0;
    unsigned back = LLVMGetIncomingBlock(s->i, 0) == before;
    if (LLVMGetIncomingBlock(s->i, !back) != before)
        return 0;
    s->first = LLVMGetIncomingValue(s->i, !back);
    s->last = LLVMGetIncomingBlock(s->i, back);
    next = LLVMGetIncomingValue(s->i, back);
    if (!LLVMIsAInstruction(next) || LLVMGetInstructionOpcode(next) != LLVMAdd)
        return 0;
    s->step = LLVMGetOperand(next, LLVMGetOperand(next, 0) == s->i);
    if (LLVMGetOperand(next, 0) != s->i && LLVMGetOperand(next, 1) != s->i)
        return 0;
    if (!is_test(branch, into, &less, &value, &end) || value != s->first)
        return 0;
    LLVMValueRef again = LLVMGetBasicBlockTerminator(s->last);
    if (!is_test(again, s->inner, &s->less, &value, &s->end) || value != next || s->less != less ||
        s->end != end)
        return 0;
    s->done = LLVMGetSuccessor(again, LLVMGetSuccessor(again, 0) == s->inner);
    return mt_row_skips(s->row, s->done) && has_one_exit(s) && is_arithmetic(s->row->head) &&
           is_arithmetic(s->region.more);
}

/* Can the check at the entry know all that it needs? */
static int can_check(const struct stride *s)
{
    int moves;
    return LLVMGetTypeKind(LLVMTypeOf(s->i)) == LLVMIntegerTypeKind &&
           LLVMGetIntTypeWidth(LLVMTypeOf(s->i)) >= 32 && mt_row_is_moving(s->row, &s->region, s->first) &&
           mt_row_can_compute(s->row, &s->region, s->first, &moves) && moves &&
           mt_row_can_compute(s->row, &s->region, s->step, &moves) && !moves &&
           mt_row_can_compute(s->row, &s->region, s->end, &moves) && !moves;
}

/* At the entry: nothing wraps within a row or from round to round, or the copy does the work. *step, *first
 * (that of x = 0) and *end are valid in the whole function then. */
static void build_check(struct stride *s, LLVMValueRef function, LLVMValueRef copy, LLVMValueRef *first,
                        LLVMValueRef *step, LLVMValueRef *end)
{
    struct mt_lowering *l = s->l;
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(s->i);
    LLVMValueRef jump = LLVMGetBasicBlockTerminator(s->entry), zero = LLVMConstNull(l->i32);
    LLVMBasicBlockRef start = LLVMGetSuccessor(jump, 0);
    int sign = s->less == LLVMIntSLT;
    unsigned width = LLVMGetIntTypeWidth(type);
    LLVMPositionBuilderBefore(b, jump);
    LLVMValueRef count = LLVMBuildIntCast2(b, s->row->count, type, 0, "");
    LLVMValueRef back = LLVMBuildSub(b, s->row->count, LLVMConstInt(l->i32, 1, 0), "");
    *first = mt_row_compute(l, s->row, &s->region, s->first, zero);
    *step = mt_row_compute(l, s->row, &s->region, s->step, zero);
    *end = mt_row_compute(l, s->row, &s->region, s->end, zero);
    LLVMValueRef last = mt_row_compute(l, s->row, &s->region, s->first, back);
    LLVMValueRef most = LLVMConstInt(type, sign ? ~0ull >> (65 - width) : ~0ull >> (64 - width), 0);
    LLVMValueRef ok = LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildSub(b, last, *first, ""),
                                    LLVMBuildIntCast2(b, back, type, 0, ""), "");
    ok = LLVMBuildAnd(b, ok, LLVMBuildICmp(b, sign ? LLVMIntSLE : LLVMIntULE, *first, last, ""), "");
    ok = LLVMBuildAnd(b, ok, LLVMBuildICmp(b, sign ? LLVMIntSGE : LLVMIntUGE, *step, count, ""), "");
    ok = LLVMBuildAnd(
        b, ok, LLVMBuildICmp(b, sign ? LLVMIntSLE : LLVMIntULE, *end, LLVMBuildSub(b, most, *step, ""), ""),
        "");
    LLVMBasicBlockRef other = LLVMAppendBasicBlockInContext(l->u->context, function, "");
    LLVMBuildCondBr(b, ok, start, other);
    LLVMInstructionEraseFromParent(jump);
    LLVMPositionBuilderAtEnd(b, other);
    LLVMValueRef args = LLVMGetParam(function, 0);
    mt_build_call(l, copy, &args, 1);
    LLVMBuildRetVoid(b);
}

void mt_stride_row(struct mt_lowering *l, struct mt_row *row)
{
    LLVMValueRef function = LLVMGetBasicBlockParent(row->head);
    struct stride s = {.l = l, .row = row, .entry = LLVMGetEntryBasicBlock(function)};
    s.region = (struct mt_region){.head = row->head, .entry = s.entry};
    s.latch = mt_row_latch(row);
    if (!s.latch || has_private_memory(&s) || !loop_stride_find(&s) || !can_check(&s))
        return;
    LLVMValueRef copy = mt_shim_clone_function(function, ".threads"), first, step, end;
    build_check(&s, function, copy, &first, &step, &end);
    if (s.place) { /* a row's accesses come together: they are of one iteration */
        LLVMReplaceAllUsesWith(s.place, LLVMConstNull(l->i64));
        LLVMInstructionEraseFromParent(s.place);
    }

    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(s.i);
    LLVMValueRef zero = LLVMConstNull(type), none = LLVMConstNull(l->i32);
    LLVMBasicBlockRef round = LLVMInsertBasicBlockInContext(l->u->context, row->head, "");
    LLVMBasicBlockRef tail = LLVMAppendBasicBlockInContext(l->u->context, function, "");
    LLVMValueRef jump = LLVMGetBasicBlockTerminator(s.latch), next = LLVMGetFirstInstruction(s.latch);
    LLVMBasicBlockRef after = LLVMGetSuccessor(jump, 1);

    LLVMPositionBuilderAtEnd(b, round);
    LLVMValueRef off = LLVMBuildPhi(b, type, "");
    LLVMBuildBr(b, row->head);
    LLVMPositionBuilderAtEnd(b, tail); /* the row goes on as long as its first thread does */
    LLVMValueRef further = LLVMBuildAdd(b, off, step, "");
    LLVMValueRef here = LLVMBuildICmp(b, s.less, LLVMBuildAdd(b, first, off, ""), end, "");
    LLVMValueRef there = LLVMBuildICmp(b, s.less, LLVMBuildAdd(b, first, further, ""), end, "");
    LLVMBuildCondBr(b, LLVMBuildAnd(b, here, there, ""), round, after);
    LLVMAddIncoming(off, &zero, &row->before, 1);
    LLVMAddIncoming(off, &further, &tail, 1);
    LLVMSetSuccessor(LLVMGetBasicBlockTerminator(row->before), 0, round);
    LLVMSetSuccessor(jump, 1, tail);

    LLVMPositionBuilderBefore(b, row->x);
    LLVMValueRef x = LLVMBuildPhi(b, l->i32, "");
    LLVMAddIncoming(x, &none, &round, 1);
    LLVMAddIncoming(x, &next, &s.latch, 1);
    s.first = s.first == row->x ? x : s.first;
    LLVMReplaceAllUsesWith(row->x, x);
    LLVMInstructionEraseFromParent(row->x);
    row->x = x;
    row->before = round;

    LLVMValueRef branch = LLVMGetBasicBlockTerminator(row->head);
    LLVMPositionBuilderBefore(b, branch);
    LLVMValueRef i = LLVMBuildAdd(b, s.first, off, ""), in = LLVMBuildICmp(b, s.less, i, s.end, "");
    int skips_first = mt_row_skips(row, LLVMGetSuccessor(branch, 0));
    LLVMSetCondition(branch, skips_first ? LLVMBuildNot(b, in, "") : in);
    LLVMReplaceAllUsesWith(s.i, i);
    LLVMInstructionEraseFromParent(s.i);
    LLVMInstructionEraseFromParent(LLVMGetBasicBlockTerminator(s.last));
    LLVMPositionBuilderAtEnd(b, s.last);
    LLVMBuildBr(b, s.done);
}
