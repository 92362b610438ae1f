/* Values as sums, and what in them differs from lane to lane. */
#include "lanes.h"
#include <stdlib.h>
#include <string.h>

#define SREG "mtb_nvvm_read_ptx_sreg_"
#define MAX_DEPTH 40
#define MAX_VISITED 400

void mt_lanes_free(struct mt_lanes *l)
{
    free(l->memo);
    free(l->guards);
}

static LLVMOpcode sum_opcode(LLVMValueRef v)
{
    return LLVMIsAInstruction(v)    ? LLVMGetInstructionOpcode(v)
           : LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v)
                                    : (LLVMOpcode)0;
}

static int sum_constant(LLVMValueRef v, int64_t *out)
{
    if (!LLVMIsAConstantInt(v) || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64)
        return 0;
    *out = LLVMConstIntGetSExtValue(v);
    return 1;
}

/* A special register's name after the prefix, or "". */
static const char *sum_register(LLVMValueRef v)
{
    const char *name = LLVMIsACallInst(v) ? mt_name(mt_callee(v)) : LLVMIsAFunction(v) ? mt_name(v) : "";
    return mt_starts(name, SREG) ? name + strlen(SREG) : "";
}

/* ---- what a value depends on ------------------------------------------------------------------------- */

struct mt_lane_memo {
    LLVMValueRef value;
    unsigned varies;
};

struct sum_visit {
    struct mt_lanes *l;
    LLVMValueRef seen[MAX_VISITED];
    unsigned n;
};

/* Its place in the table, where it is or would be; NULL: there is no table. */
static struct mt_lane_memo *sum_known(const struct mt_lanes *l, LLVMValueRef v)
{
    if (!l->memo_cap)
        return NULL;
    unsigned i = (unsigned)((uintptr_t)v / 16 * 2654435761u) & (l->memo_cap - 1);
    while (l->memo[i].value && l->memo[i].value != v)
        i = (i + 1) & (l->memo_cap - 1);
    return &l->memo[i];
}

static void sum_remember(struct mt_lanes *l, LLVMValueRef v, unsigned varies)
{
    if (2 * l->nmemo >= l->memo_cap) {
        struct mt_lanes old = *l;
        l->memo_cap = old.memo_cap ? 2 * old.memo_cap : 256;
        l->memo = calloc(l->memo_cap, sizeof *l->memo);
        if (!l->memo) {
            *l = old;
            return;
        }
        for (unsigned i = 0; i < old.memo_cap; i++)
            if (old.memo[i].value)
                *sum_known(l, old.memo[i].value) = old.memo[i];
        free(old.memo);
    }
    *sum_known(l, v) = (struct mt_lane_memo){v, varies};
    l->nmemo++;
}

static unsigned sum_of_register(const char *name)
{
    static const char *const rows[] = {"tid_y", "tid_z", "warpid", NULL};
    if (!strcmp(name, "tid_x") || !strcmp(name, "laneid") || mt_starts(name, "lanemask"))
        return MT_VARIES_LANE;
    for (unsigned i = 0; rows[i]; i++)
        if (!strcmp(name, rows[i]))
            return MT_VARIES_ROW;
    return mt_starts(name, "clock") || mt_starts(name, "globaltimer") ? MT_VARIES_DATA : 0;
}

static unsigned sum_visit(struct sum_visit *s, LLVMValueRef v);

static unsigned sum_operands(struct sum_visit *s, LLVMValueRef v, int n)
{
    unsigned varies = 0;
    for (int i = 0; i < n && !(varies & MT_VARIES_DATA); i++)
        varies |= sum_visit(s, LLVMGetOperand(v, (unsigned)i));
    return varies;
}

static unsigned sum_of_call(struct sum_visit *s, LLVMValueRef call)
{
    const char *name = mt_name(mt_callee(call)), *sreg = sum_register(call);
    if (*sreg)
        return sum_of_register(sreg);
    if (strstr(name, "_vote_"))
        return 0;
    if (!mt_starts(name, "llvm.") && !mt_starts(name, "mtb_"))
        return MT_VARIES_DATA;
    if (strstr(name, "shfl") || strstr(name, "match") || strstr(name, "activemask"))
        return MT_VARIES_DATA;
    return sum_operands(s, call, (int)LLVMGetNumArgOperands(call));
}

/* Is it a thread's number, or one plus what is the same for all lanes? */
static int sum_counts_threads(struct sum_visit *s, LLVMValueRef v, int depth)
{
    if (mt_lane_is_own(v))
        return 1;
    LLVMOpcode op = depth < 8 ? sum_opcode(v) : (LLVMOpcode)0;
    if (op == LLVMZExt || op == LLVMSExt || op == LLVMFreeze)
        return sum_counts_threads(s, LLVMGetOperand(v, 0), depth + 1);
    if (op != LLVMAdd && !(op == LLVMOr && LLVMGetIsDisjoint(v)))
        return 0;
    LLVMValueRef a = LLVMGetOperand(v, 0), b = LLVMGetOperand(v, 1);
    return sum_counts_threads(s, a, depth + 1)   ? !(sum_visit(s, b) & MT_VARIES_LANE)
           : sum_counts_threads(s, b, depth + 1) ? !(sum_visit(s, a) & MT_VARIES_LANE)
                                                 : 0;
}

/* Does the operation leave nothing of the lane: a division of thread numbers by a warp or more? */
static int sum_drops_lane(struct sum_visit *s, LLVMValueRef v)
{
    int64_t c;
    LLVMOpcode op = LLVMGetInstructionOpcode(v);
    if (LLVMGetNumOperands(v) != 2 || !sum_constant(LLVMGetOperand(v, 1), &c))
        return 0;
    int drops = op == LLVMLShr || op == LLVMAShr   ? c >= 5
                : op == LLVMUDiv || op == LLVMSDiv ? c >= 32
                                                   : op == LLVMAnd && (c & 31) == 0;
    return drops && sum_counts_threads(s, LLVMGetOperand(v, 0), 0);
}

static unsigned sum_of_instruction(struct sum_visit *s, LLVMValueRef v)
{
    unsigned varies = 0;
    switch (LLVMGetInstructionOpcode(v)) {
    case LLVMCall:
        return sum_of_call(s, v);
    case LLVMLoad:
        return sum_visit(s, LLVMGetOperand(v, 0)) ? MT_VARIES_DATA : 0;
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
    case LLVMAlloca:
    case LLVMInvoke:
        return MT_VARIES_DATA;
    case LLVMPHI:
        for (unsigned i = 0, n = LLVMCountIncoming(v); i < n; i++)
            varies |= sum_visit(s, LLVMGetIncomingValue(v, i));
        return varies;
    default:
        varies = sum_operands(s, v, LLVMGetNumOperands(v));
        if (varies & MT_VARIES_LANE && !(varies & MT_VARIES_DATA) && sum_drops_lane(s, v))
            return MT_VARIES_ROW;
        return varies;
    }
}

static unsigned sum_visit(struct sum_visit *s, LLVMValueRef v)
{
    const struct mt_lane_memo *known;
    if (LLVMIsAArgument(v)) { /* of a function that is not inlined: most likely the thread's number */
        int is_number = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind;
        return is_number && !mt_unit_kernel(s->l->u, LLVMGetParamParent(v)) ? MT_VARIES_LANE : 0;
    }
    if (!LLVMIsAInstruction(v))
        return 0;
    if ((known = sum_known(s->l, v)) && known->value)
        return known->varies;
    for (unsigned i = 0; i < s->n; i++)
        if (s->seen[i] == v)
            return 0; /* around a loop: what comes in from outside decides */
    if (s->n == MAX_VISITED)
        return MT_VARIES_DATA;
    s->seen[s->n++] = v;
    return sum_of_instruction(s, v);
}

unsigned mt_lane_varies(struct mt_lanes *l, LLVMValueRef value)
{
    struct sum_visit s = {.l = l};
    if (LLVMIsAFunction(value))
        return sum_of_register(sum_register(value));
    unsigned varies = sum_visit(&s, value);
    if (s.n > 1)
        sum_remember(l, value, varies);
    return varies;
}

int mt_lane_is_own(LLVMValueRef symbol)
{
    int64_t c;
    const char *name = sum_register(symbol);
    if (LLVMIsAArgument(symbol) || !strcmp(name, "tid_x") || !strcmp(name, "laneid"))
        return 1;
    LLVMOpcode op = LLVMIsAInstruction(symbol) ? LLVMGetInstructionOpcode(symbol) : (LLVMOpcode)0;
    if ((op != LLVMAnd && op != LLVMURem && op != LLVMSRem) || !sum_constant(LLVMGetOperand(symbol, 1), &c))
        return 0;
    if (op == LLVMAnd ? (c & 31) != 31 : c < 32)
        return 0;
    return mt_lane_is_own(LLVMGetOperand(symbol, 0));
}

/* The phi of a loop that goes on by the same step each time: where it starts, and the step. The result is the
 * step's unit, the bytes of an element for pointers; 0: it is something else. */
static int64_t sum_steps(const struct mt_lanes *l, LLVMValueRef phi, LLVMValueRef *start, LLVMValueRef *step)
{
    if (LLVMCountIncoming(phi) != 2)
        return 0;
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef next = LLVMGetIncomingValue(phi, i);
        LLVMOpcode op = sum_opcode(next);
        int is_gep = op == LLVMGetElementPtr && LLVMGetNumOperands(next) == 2;
        if (!is_gep && op != LLVMAdd)
            continue;
        int second = LLVMGetOperand(next, 0) == phi;
        *step = LLVMGetOperand(next, second);
        *start = LLVMGetIncomingValue(phi, 1 - i);
        if (*step != phi && (second || LLVMGetOperand(next, 1) == phi))
            return is_gep ? (int64_t)LLVMABISizeOfType(l->u->layout, LLVMGetGEPSourceElementType(next)) : 1;
    }
    return 0;
}

/* Is it a number of threads of a block, or a multiple of that? */
static int sum_is_block_size(LLVMValueRef symbol)
{
    if (mt_starts(sum_register(symbol), "ntid_"))
        return 1;
    LLVMOpcode op = sum_opcode(symbol);
    if (op == LLVMMul)
        return sum_is_block_size(LLVMGetOperand(symbol, 0)) || sum_is_block_size(LLVMGetOperand(symbol, 1));
    if (op == LLVMShl || op == LLVMZExt || op == LLVMSExt)
        return sum_is_block_size(LLVMGetOperand(symbol, 0));
    return 0;
}

/* ---- sums -------------------------------------------------------------------------------------------- */

static void sum_add_term(struct mt_lane_sum *s, struct mt_lane_term t)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->term[i].symbol == t.symbol) {
            s->term[i].factor += t.factor;
            if (!s->term[i].factor)
                s->term[i] = s->term[--s->n];
            return;
        }
    if (s->n == MT_LANE_TERMS)
        s->is_cut = 1;
    else if (t.factor)
        s->term[s->n++] = t;
}

static void sum_add(struct mt_lanes *l, struct mt_lane_sum *s, LLVMValueRef v, int64_t factor, int depth);

static void sum_add_symbol(struct mt_lanes *l, struct mt_lane_sum *s, LLVMValueRef v, int64_t factor)
{
    if (*sum_register(v))
        v = mt_callee(v);
    unsigned varies = mt_lane_varies(l, v);
    if (!varies && sum_is_block_size(v))
        varies = MT_STEPS_OVER;
    sum_add_term(s, (struct mt_lane_term){v, factor, varies});
}

/* The indices of a getelementptr, in bytes. */
static void sum_add_indices(struct mt_lanes *l, struct mt_lane_sum *s, LLVMValueRef gep, int64_t factor,
                            int depth)
{
    LLVMTargetDataRef layout = l->u->layout;
    LLVMTypeRef type = LLVMGetGEPSourceElementType(gep);
    for (int i = 1, n = LLVMGetNumOperands(gep); i < n; i++) {
        LLVMValueRef index = LLVMGetOperand(gep, (unsigned)i);
        if (i > 1 && LLVMGetTypeKind(type) == LLVMStructTypeKind) {
            unsigned field = (unsigned)LLVMConstIntGetZExtValue(index);
            s->offset += factor * (int64_t)LLVMOffsetOfElement(layout, type, field);
            type = LLVMStructGetTypeAtIndex(type, field);
            continue;
        }
        if (i > 1)
            type = LLVMGetElementType(type);
        sum_add(l, s, index, factor * (int64_t)LLVMABISizeOfType(layout, type), depth + 1);
    }
}

/* What a pointer that is a phi or a select leads into,
 * when that is one thing whichever way it came; or NULL. */
static LLVMValueRef sum_underlying(LLVMValueRef v)
{
    LLVMValueRef seen[32] = {v}, root = NULL;
    unsigned n = 1;
    for (unsigned at = 0; at < n; at++) {
        LLVMValueRef p = seen[at], from[16];
        LLVMOpcode op = sum_opcode(p);
        unsigned count = 1, first = op == LLVMSelect;
        if (op == LLVMPHI)
            count = LLVMCountIncoming(p);
        else if (op == LLVMSelect)
            count = 2;
        else if (op != LLVMGetElementPtr && op != LLVMAddrSpaceCast && op != LLVMBitCast &&
                 op != LLVMFreeze) {
            if (root && root != p)
                return NULL;
            root = p;
            continue;
        }
        if (count > sizeof from / sizeof *from)
            return NULL;
        for (unsigned i = 0; i < count; i++) {
            from[i] = op == LLVMPHI ? LLVMGetIncomingValue(p, i) : LLVMGetOperand(p, i + first);
            unsigned known = 0;
            while (known < n && seen[known] != from[i])
                known++;
            if (known < n)
                continue;
            if (n == sizeof seen / sizeof *seen)
                return NULL;
            seen[n++] = from[i];
        }
    }
    return root;
}

static void sum_add_pointer(struct mt_lanes *l, struct mt_lane_sum *s, LLVMValueRef v, int64_t factor)
{
    LLVMOpcode op = sum_opcode(v);
    LLVMValueRef whole = op == LLVMPHI || op == LLVMSelect ? sum_underlying(v) : NULL;
    int is_root = !s->root && factor == 1;
    if (is_root)
        s->root = whole ? whole : v;
    if (!is_root || whole) /* the way into the root is a symbol, too */
        sum_add_symbol(l, s, v, factor);
}

/* A value that goes on by a step as where it starts and, as a term of its own, the steps. By what is the same
 * for all lanes, and not known or a warp at least, threads take turns: for (i = t; i < n;
 * i += blockDim.x). */
static int sum_add_steps(struct mt_lanes *l, struct mt_lane_sum *s, LLVMValueRef phi, int64_t factor,
                         int depth)
{
    LLVMValueRef start, step;
    int64_t c = 1, unit = sum_steps(l, phi, &start, &step);
    if (!unit)
        return 0;
    int is_known = sum_constant(step, &c), is_far = is_known ? c >= 32 || c <= -32 : !mt_lane_varies(l, step);
    int is_pointer = LLVMGetTypeKind(LLVMTypeOf(phi)) == LLVMPointerTypeKind;
    if (!is_far && !(is_known && (is_pointer || LLVMIsAConstant(start))))
        return 0;
    sum_add(l, s, start, factor, depth + 1);
    sum_add_term(s, (struct mt_lane_term){phi, factor * c * unit, is_far ? MT_STEPS_OVER : 0});
    return 1;
}

static void sum_add(struct mt_lanes *l, struct mt_lane_sum *s, LLVMValueRef v, int64_t factor, int depth)
{
    int64_t c;
    int is_pointer = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMPointerTypeKind;
    if (sum_constant(v, &c)) {
        s->offset += factor * c;
        return;
    }
    LLVMOpcode op = depth < MAX_DEPTH ? sum_opcode(v) : (LLVMOpcode)0;
#define OPERAND(i) LLVMGetOperand(v, i)
    switch (op) {
    case LLVMGetElementPtr:
        if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMPointerTypeKind)
            break;
        sum_add_indices(l, s, v, factor, depth);
        sum_add(l, s, OPERAND(0), factor, depth + 1);
        return;
    case LLVMBitCast:
    case LLVMAddrSpaceCast:
    case LLVMPtrToInt:
    case LLVMIntToPtr:
    case LLVMFreeze:
    case LLVMSExt:
    case LLVMZExt:
        sum_add(l, s, OPERAND(0), factor, depth + 1);
        return;
    case LLVMTrunc:
        if (LLVMGetIntTypeWidth(LLVMTypeOf(v)) < 32)
            break;
        sum_add(l, s, OPERAND(0), factor, depth + 1);
        return;
    case LLVMOr:
        if (!LLVMGetIsDisjoint(v))
            break; /* fall through */
    case LLVMAdd:
        sum_add(l, s, OPERAND(0), factor, depth + 1);
        sum_add(l, s, OPERAND(1), factor, depth + 1);
        return;
    case LLVMSub:
        sum_add(l, s, OPERAND(0), factor, depth + 1);
        sum_add(l, s, OPERAND(1), -factor, depth + 1);
        return;
    case LLVMMul:
        if (!sum_constant(OPERAND(1), &c))
            break;
        sum_add(l, s, OPERAND(0), factor * c, depth + 1);
        return;
    case LLVMShl:
        if (!sum_constant(OPERAND(1), &c) || c < 0 || c > 40)
            break;
        sum_add(l, s, OPERAND(0), factor * ((int64_t)1 << c), depth + 1);
        return;
    case LLVMPHI:
        if (!sum_add_steps(l, s, v, factor, depth))
            break;
        return;
    default:
        break;
    }
#undef OPERAND
    if (is_pointer)
        sum_add_pointer(l, s, v, factor);
    else if (!LLVMIsConstant(v) || LLVMIsAConstantExpr(v))
        sum_add_symbol(l, s, v, factor);
}

void mt_lane_sum_of(struct mt_lanes *l, LLVMValueRef value, struct mt_lane_sum *sum)
{
    memset(sum, 0, sizeof *sum);
    sum_add(l, sum, value, 1, 0);
}

void mt_lane_sum_subtract(struct mt_lane_sum *from, const struct mt_lane_sum *other)
{
    from->offset -= other->offset;
    from->is_cut |= other->is_cut;
    for (unsigned i = 0; i < other->n; i++) {
        struct mt_lane_term t = other->term[i];
        t.factor = -t.factor;
        sum_add_term(from, t);
    }
}
