/* Branches that one lane of a warp takes: if (threadIdx.x == 0). */
#include "lanes.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

static int guard_is_zero(LLVMValueRef v)
{
    return LLVMIsAConstantInt(v) && LLVMIsNull(v);
}

/* Is the sum 0 in one lane of a warp at most? */
static int guard_is_single(const struct mt_lane_sum *s)
{
    int own = 0;
    for (unsigned i = 0; i < s->n; i++) {
        if (s->term[i].varies & MT_VARIES_LANE && !mt_lane_is_own(s->term[i].symbol))
            return 0;
        if (LLVMIsAPHINode(s->term[i].symbol) || LLVMIsALoadInst(s->term[i].symbol))
            return 0; /* another time it is another lane */
        own += (s->term[i].varies & MT_VARIES_LANE) != 0;
    }
    return own == 1 && !s->is_cut && !s->root;
}

static int guard_same(const struct mt_lane_sum *a, const struct mt_lane_sum *b)
{
    struct mt_lane_sum d = *a;
    mt_lane_sum_subtract(&d, b);
    return !d.n && !d.offset && !d.is_cut;
}

static int guard_number(struct mt_lanes *l, const struct mt_lane_sum *s)
{
    for (unsigned i = 0; i < l->nguards; i++)
        if (guard_same(&l->guards[i], s))
            return (int)i;
    if (mt_grow(&l->guards, &l->guards_cap, l->nguards + 1, sizeof *l->guards))
        return MT_GUARD_NONE;
    l->guards[l->nguards] = *s;
    return (int)l->nguards++;
}

static int guard_of_equal(struct mt_lanes *l, LLVMValueRef a, LLVMValueRef b)
{
    struct mt_lane_sum sum, other;
    if (guard_is_zero(b) && LLVMIsAInstruction(a) && LLVMGetInstructionOpcode(a) == LLVMOr) {
        int first = guard_of_equal(l, LLVMGetOperand(a, 0), b); /* both are 0 */
        return first != MT_GUARD_NONE ? first : guard_of_equal(l, LLVMGetOperand(a, 1), b);
    }
    mt_lane_sum_of(l, a, &sum);
    mt_lane_sum_of(l, b, &other);
    mt_lane_sum_subtract(&sum, &other);
    return guard_is_single(&sum) ? guard_number(l, &sum) : MT_GUARD_NONE;
}

static int guard_of_compare(struct mt_lanes *l, LLVMValueRef c, int taken)
{
    LLVMValueRef a = LLVMGetOperand(c, 0), b = LLVMGetOperand(c, 1);
    LLVMIntPredicate p = LLVMGetICmpPredicate(c);
    if (LLVMGetTypeKind(LLVMTypeOf(a)) != LLVMIntegerTypeKind)
        return MT_GUARD_NONE;
    if (p == (taken ? LLVMIntEQ : LLVMIntNE))
        return guard_of_equal(l, a, b);
    int below_one = p == LLVMIntULT && LLVMIsAConstantInt(b) && LLVMConstIntGetZExtValue(b) == 1;
    int above_zero = p == LLVMIntUGT && guard_is_zero(b);
    if (taken ? below_one : above_zero)
        return guard_of_equal(l, a, LLVMConstNull(LLVMTypeOf(a)));
    return MT_GUARD_NONE;
}

int mt_lane_guard(struct mt_lanes *l, LLVMValueRef condition, int taken)
{
    if (LLVMIsAICmpInst(condition))
        return guard_of_compare(l, condition, taken);
    if (!LLVMIsAInstruction(condition))
        return MT_GUARD_NONE;
    /* a && b when it is taken, a || b when it is not: both hold */
    LLVMOpcode op = LLVMGetInstructionOpcode(condition);
    LLVMValueRef first = LLVMGetOperand(condition, 0), second = NULL;
    if (op == (taken ? LLVMAnd : LLVMOr))
        second = LLVMGetOperand(condition, 1);
    else if (op == LLVMSelect && guard_is_zero(LLVMGetOperand(condition, 2)) && taken)
        second = LLVMGetOperand(condition, 1);
    else if (op == LLVMSelect && LLVMIsAConstantInt(LLVMGetOperand(condition, 1)) && !taken)
        second = LLVMGetOperand(condition, 2); /* select a, true, b */
    else if (op == LLVMXor && LLVMIsAConstantInt(LLVMGetOperand(condition, 1)))
        return mt_lane_guard(l, first, !taken);
    if (!second)
        return MT_GUARD_NONE;
    int guard = mt_lane_guard(l, first, taken);
    return guard != MT_GUARD_NONE ? guard : mt_lane_guard(l, second, taken);
}
