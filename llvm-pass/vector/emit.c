/* Warps as vectors: emits blocks one after the other. Each begins with a test whether lanes have reached
 * it; if all remaining lanes go the same way and none waits before, they jump. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>

LLVMValueRef vec_mask(struct vec *v)
{
    return v->mask ? v->mask : LLVMConstAllOnes(v->mask_type);
}

LLVMValueRef vec_mask_bits(struct vec *v, LLVMValueRef mask)
{
    if (mask == v->left)
        return v->left_bits;
    return LLVMBuildBitCast(v->b, mask, v->l->i32, "");
}

static LLVMValueRef emit_and(struct vec *v, LLVMValueRef flags)
{
    /* Not an `and`: flags of inactive lanes may be poison. */
    return v->mask ? LLVMBuildSelect(v->b, v->mask, flags, LLVMConstNull(v->mask_type), "") : flags;
}

LLVMValueRef vec_masked_bits(struct vec *v, LLVMValueRef flags)
{
    return vec_mask_bits(v, emit_and(v, flags));
}

LLVMValueRef vec_replicate_mask(struct vec *v, LLVMValueRef mask, unsigned lanes, unsigned each)
{
    int index[VEC_WIDTH * 64];
    if (each == 1)
        return mask;
    for (unsigned i = 0; i < lanes * each; i++)
        index[i] = (int)(i / each);
    return vec_shuffle(v, mask, NULL, index, lanes * each);
}

static LLVMBasicBlockRef emit_block(struct vec *v)
{
    return LLVMAppendBasicBlockInContext(v->context, v->to, "");
}

/* Returns the block at which control continues after block b when its lanes wait elsewhere: the next round
 * of the loop that ends there, of the one around loop `inside`, or the next block. */
static LLVMBasicBlockRef emit_behind(struct vec *v, int b, unsigned inside)
{
    unsigned loop = inside ? v->parents[inside - 1] : v->block[b].loop;
    if (loop && v->loop[loop].last == b)
        return v->loop[loop].again;
    return b + 1 < (int)v->nblocks ? v->block[b + 1].check : v->done;
}

static LLVMValueRef emit_any(struct vec *v, int block)
{
    struct vec_block *b = &v->block[block];
    if (!b->masked)
        return LLVMBuildLoad2(v->b, v->l->i1, b->pending, "");
    LLVMValueRef mask = LLVMBuildLoad2(v->b, v->mask_type, b->pending, "");
    return LLVMBuildICmp(v->b, LLVMIntNE, vec_mask_bits(v, mask), vec_number(v, 0), "");
}

static void emit_clear(struct vec *v, const struct vec_block *b)
{
    LLVMBuildStore(v->b, LLVMConstNull(b->masked ? v->mask_type : v->l->i1), b->pending);
}

/* Jumps to the block if lanes wait at it. If not, the store tells LLVM so, and it needs no mask and no
 * second test. */
static void emit_check(struct vec *v, LLVMBasicBlockRef at, int block, LLVMBasicBlockRef behind)
{
    LLVMBasicBlockRef none = emit_block(v);
    LLVMPositionBuilderAtEnd(v->b, at);
    LLVMBuildCondBr(v->b, emit_any(v, block), v->block[block].body, none);
    LLVMPositionBuilderAtEnd(v->b, none);
    emit_clear(v, &v->block[block]);
    LLVMBuildBr(v->b, behind);
}

static void emit_checks(struct vec *v)
{
    for (unsigned b = 0; b < v->nblocks; b++)
        emit_check(v, v->block[b].check, (int)b, emit_behind(v, (int)b, 0));
    for (unsigned i = 1; i <= v->nloops; i++)
        emit_check(v, v->loop[i].again, v->loop[i].first, emit_behind(v, v->loop[i].last, i));
}

/* Makes those of `lanes` (NULL: all) wait at the block from now on. */
static void emit_wait(struct vec *v, int block, LLVMValueRef lanes)
{
    struct vec_block *b = &v->block[block];
    if (!b->masked) {
        LLVMBuildStore(v->b, LLVMConstInt(v->l->i1, 1, 0), b->pending);
        return;
    }
    LLVMValueRef old = LLVMBuildLoad2(v->b, v->mask_type, b->pending, "");
    LLVMValueRef all = lanes ? LLVMBuildOr(v->b, old, lanes, "") : LLVMConstAllOnes(v->mask_type);
    LLVMBuildStore(v->b, all, b->pending);
}

/* Values for the phis of a block from the current one, read before any phi changes. */
struct incoming {
    struct vec_value *phi;
    struct vec_rep rep;
};

static struct incoming *emit_incoming(struct vec *v, int to, unsigned *n)
{
    struct incoming *list = NULL;
    *n = 0;
    for (LLVMValueRef phi = LLVMGetFirstInstruction(v->block[to].from); phi && LLVMIsAPHINode(phi);
         phi = LLVMGetNextInstruction(phi)) {
        struct incoming *more = realloc(list, (*n + 1) * sizeof *more);
        if (!more)
            break;
        list = more;
        struct vec_value *x = vec_find(v, phi);
        for (unsigned i = 0; i < LLVMCountIncoming(phi); i++)
            if (LLVMGetIncomingBlock(phi, i) == v->block[v->now].from) {
                LLVMValueRef value = LLVMGetIncomingValue(phi, i);
                struct vec_rep r = x->shape.source ? vec_get_row(v, value) : vec_get(v, value);
                if (x->shape.kind == VEC_LANES)
                    r = (struct vec_rep){.kind = VEC_LANES, .part = {vec_rep_lanes(v, &r, LLVMTypeOf(phi))}};
                list[(*n)++] = (struct incoming){x, r};
                break;
            }
    }
    return list;
}

static void emit_phis(struct vec *v, int to, const struct incoming *in, unsigned n, LLVMValueRef edge)
{
    for (unsigned i = 0; i < n; i++)
        vec_store_phi(v, in[i].phi, &in[i].rep, v->block[to].joins ? edge : NULL);
}

static LLVMBasicBlockRef emit_full(const struct vec *v, int to)
{
    return v->block[to].masked ? v->block[to].full : v->block[to].body;
}

/* Moves all active lanes to `to`. */
static void emit_go(struct vec *v, int to, const struct incoming *in, unsigned n)
{
    if (!v->mask && emit_full(v, to)) { /* no lane waits anywhere */
        emit_phis(v, to, in, n, NULL);
        LLVMBuildBr(v->b, emit_full(v, to));
        return;
    }
    int direct = vec_is_direct(v, v->now, to);
    emit_phis(v, to, in, n, v->mask);
    if (v->block[to].masked || !direct)
        emit_wait(v, to, v->mask);
    LLVMBuildBr(v->b, direct ? v->block[to].body : emit_behind(v, v->now, 0));
}

/* Continues with all lanes active: if they go the same way they need no masks there either. */
static void emit_together(struct vec *v, LLVMValueRef flags, struct incoming *const *in, const unsigned *n)
{
    LLVMValueRef bits = vec_mask_bits(v, flags);
    for (unsigned i = 0; i < 2; i++) {
        int to = v->block[v->now].succ[i];
        if (!emit_full(v, to))
            continue;
        LLVMBasicBlockRef all = emit_block(v), rest = emit_block(v);
        LLVMBuildCondBr(v->b, LLVMBuildICmp(v->b, LLVMIntEQ, bits, vec_number(v, i ? 0 : ~0u), ""), all,
                        rest);
        LLVMPositionBuilderAtEnd(v->b, all);
        emit_go(v, to, in[i], n[i]);
        LLVMPositionBuilderAtEnd(v->b, rest);
    }
}

static LLVMIntPredicate emit_inverse(LLVMIntPredicate p)
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

/* Rows are evenly spaced: a comparison that holds for the first and last lane of each holds for those
 * between. */
static LLVMValueRef emit_surely_compared(struct vec *v, LLVMValueRef inst, int wanted)
{
    LLVMValueRef a = LLVMGetOperand(inst, 0), b = LLVMGetOperand(inst, 1), all = NULL;
    LLVMIntPredicate p = LLVMGetICmpPredicate(inst);
    int swapped = vec_shape_of(v, a).kind == VEC_UNIFORM;
    struct vec_rep row = vec_get_row(v, swapped ? b : a);
    struct vec_value *x = vec_find(v, swapped ? b : a);
    struct vec_shape s = x ? x->shape : vec_shape_of(v, b);
    unsigned how = p >= LLVMIntSGT && p <= LLVMIntSLE   ? VEC_SIGNED
                   : p >= LLVMIntUGT && p <= LLVMIntULE ? VEC_UNSIGNED
                                                        : 0;
    if (s.kind != VEC_ROWS || vec_shape_of(v, swapped ? a : b).kind != VEC_UNIFORM || !(s.extend & how) ||
        LLVMGetTypeKind(LLVMTypeOf(a)) != LLVMIntegerTypeKind)
        return NULL;
    LLVMValueRef other = vec_uniform(v, swapped ? a : b);
    LLVMValueRef step = LLVMConstInt(LLVMTypeOf(a), (uint64_t)(s.stride * (int64_t)(v->group - 1)), 1);
    p = wanted ? p : emit_inverse(p);
    if (row.source)
        all = vec_is_row(v, &row);
    for (unsigned i = 0; i < 2 * v->rows; i++) {
        LLVMValueRef at = row.part[i / 2];
        at = i % 2 ? LLVMBuildAdd(v->b, at, step, "") : at;
        at = LLVMBuildICmp(v->b, p, swapped ? other : at, swapped ? at : other, "");
        all = all ? LLVMBuildAnd(v->b, all, at, "") : at;
    }
    return all;
}

/* Returns an i1 that tells, without a test of each lane, whether the condition (with !wanted, its
 * negation) is true in all lanes; NULL: unknown. 0 does not prove the contrary. All lanes are active. */
static LLVMValueRef emit_surely(struct vec *v, LLVMValueRef condition, int wanted, unsigned depth)
{
    struct vec_value *x = vec_find(v, condition);
    if (vec_shape_of(v, condition).kind == VEC_UNIFORM) {
        LLVMValueRef c = vec_uniform(v, condition);
        return wanted ? c : LLVMBuildNot(v->b, c, "");
    }
    if (!x || x->block != v->now || depth > 6)
        return NULL;
    LLVMOpcode op = LLVMGetInstructionOpcode(condition);
    if (op == LLVMICmp)
        return emit_surely_compared(v, condition, wanted);
    LLVMValueRef a = LLVMGetOperand(condition, 0), b = NULL;
    if (op == (wanted ? LLVMAnd : LLVMOr))
        b = LLVMGetOperand(condition, 1);
    else if (op == LLVMSelect && LLVMIsAConstantInt(LLVMGetOperand(condition, wanted ? 2 : 1)) &&
             (LLVMConstIntGetZExtValue(LLVMGetOperand(condition, wanted ? 2 : 1)) != 0) != wanted)
        b = LLVMGetOperand(condition, wanted ? 1 : 2);
    a = b ? emit_surely(v, a, wanted, depth + 1) : NULL;
    b = a ? emit_surely(v, b, wanted, depth + 1) : NULL;
    return b ? LLVMBuildAnd(v->b, a, b, "") : NULL;
}

/* Lets warps inside of the kernel's range, which most are, go on before their lanes are tested one by one. */
static void emit_surely_together(struct vec *v, LLVMValueRef condition, struct incoming *const *in,
                                 const unsigned *n)
{
    struct vec_block *b = &v->block[v->now];
    for (int i = 0; i < 2; i++) {
        if (b->succ[i] == b->meet || !emit_full(v, b->succ[i]))
            continue;
        LLVMValueRef all = emit_surely(v, condition, !i, 0);
        if (!all)
            continue;
        LLVMBasicBlockRef way = emit_block(v), rest = emit_block(v);
        LLVMBuildCondBr(v->b, LLVMBuildFreeze(v->b, all, ""), way, rest);
        LLVMPositionBuilderAtEnd(v->b, way);
        emit_go(v, b->succ[i], in[i], n[i]);
        LLVMPositionBuilderAtEnd(v->b, rest);
    }
}

/* Lets all lanes do another lap of a region before anything else is tested, and ends it if they do not. */
static void emit_lap(struct vec *v, LLVMValueRef condition, LLVMValueRef flags, struct incoming *const *in,
                     const unsigned *n)
{
    int back = v->block[v->now].succ[1] == v->now;
    LLVMValueRef all = emit_surely(v, condition, !back, 0);
    for (unsigned i = 0; i < 2; i++) {
        if (i)
            all = LLVMBuildICmp(v->b, LLVMIntEQ, vec_mask_bits(v, flags), vec_number(v, back ? 0 : ~0u), "");
        else if (all)
            all = LLVMBuildFreeze(v->b, all, "");
        else
            continue;
        LLVMBasicBlockRef lap = emit_block(v), rest = emit_block(v);
        LLVMBuildCondBr(v->b, all, lap, rest);
        LLVMPositionBuilderAtEnd(v->b, lap);
        vec_region_way(v, v->now);
        emit_go(v, v->now, in[back], n[back]);
        LLVMPositionBuilderAtEnd(v->b, rest);
    }
    vec_region_way(v, -1);
}

static void emit_ways(struct vec *v, LLVMValueRef end)
{
    struct vec_block *b = &v->block[v->now];
    unsigned n[2] = {0};
    struct incoming *in[2] = {0};
    LLVMValueRef condition = b->nsucc == 2 ? LLVMGetCondition(end) : NULL;
    for (unsigned i = 0; i < b->nsucc; i++)
        in[i] = emit_incoming(v, b->succ[i], &n[i]);
    if (b->nsucc == 1) {
        emit_go(v, b->succ[0], in[0], n[0]);
    } else if (b->branch < 0) {
        LLVMBasicBlockRef way[2] = {emit_block(v), emit_block(v)};
        LLVMBuildCondBr(v->b, vec_uniform(v, condition), way[0], way[1]);
        for (unsigned i = 0; i < 2; i++) {
            LLVMPositionBuilderAtEnd(v->b, way[i]);
            vec_region_way(v, b->succ[i]);
            emit_go(v, b->succ[i], in[i], n[i]);
        }
    } else {
        LLVMValueRef flags = vec_lanes(v, condition);
        if (vec_region_is_loop(v)) {
            flags = LLVMBuildFreeze(v->b, flags, "");
            emit_lap(v, condition, flags, in, n);
        } else if (!v->mask) {
            emit_surely_together(v, condition, in, n);
        }
        flags = LLVMBuildFreeze(v->b, flags, "");
        if (!v->mask)
            emit_together(v, flags, in, n);
        for (unsigned i = 0; i < 2; i++) {
            LLVMValueRef edge = emit_and(v, i ? LLVMBuildNot(v->b, flags, "") : flags);
            emit_phis(v, b->succ[i], in[i], n[i], edge);
            emit_wait(v, b->succ[i], edge);
        }
        LLVMBuildBr(v->b, emit_behind(v, v->now, 0));
    }
    free(in[0]);
    free(in[1]);
}

static void emit_instruction(struct vec *v, LLVMValueRef inst)
{
    struct vec_shape s = vec_find(v, inst)->shape;
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        vec_emit_load(v, inst);
        return;
    case LLVMStore:
        vec_emit_store(v, inst);
        return;
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
        vec_emit_atomic(v, inst);
        return;
    case LLVMAlloca:
        vec_emit_alloca(v, inst);
        return;
    case LLVMFence:
        vec_emit_copy(v, inst);
        return;
    case LLVMCall:
        if (vec_emit_warp(v, inst) || vec_emit_record(v, inst))
            return;
        if (LLVMIsAInlineAsm(LLVMGetCalledValue(inst))) {
            vec_emit_copy(v, inst);
            return;
        }
        if (vec_is_called(inst)) {
            vec_emit_call(v, inst);
            return;
        }
        if (s.kind == VEC_LANES && !vec_is_plain_call(inst)) {
            vec_by_lane(v, inst);
            return;
        }
        break;
    default:
        break;
    }
    if (s.kind == VEC_ROWS || (s.kind == VEC_UNIFORM && vec_takes_rows(v, inst)))
        vec_emit_rows(v, inst);
    else if (s.kind == VEC_UNIFORM)
        vec_emit_copy(v, inst);
    else
        vec_emit_plain(v, inst);
}

static void emit_body(struct vec *v, int full)
{
    struct vec_block *b = &v->block[v->now];
    v->round++;
    LLVMPositionBuilderAtEnd(v->b, full ? b->full : b->body);
    v->mask = b->masked && !full ? LLVMBuildLoad2(v->b, v->mask_type, b->pending, "") : NULL;
    if (!full)
        emit_clear(v, b);
    for (unsigned loop = 1; loop <= v->nloops; loop++)
        if (v->loop[loop].first == v->now)
            vec_forget_round(v, &v->loop[loop]);
    LLVMValueRef i = LLVMGetFirstInstruction(b->from), end = LLVMGetBasicBlockTerminator(b->from);
    for (; LLVMIsAPHINode(i); i = LLVMGetNextInstruction(i))
        vec_load_phi(v, vec_find(v, i), b->joins);
    vec_region_block(v);
    for (; i != end; i = LLVMGetNextInstruction(i)) {
        v->inst = i;
        emit_instruction(v, i);
    }
    vec_region_lap(v);
    vec_emit_return(v, end);
    if (b->nsucc)
        emit_ways(v, end);
    else
        LLVMBuildBr(v->b, emit_behind(v, v->now, 0));
}

/* Computes each lane's coordinates and the existing lanes, in a CTA of any shape. The quotients are small. */
static LLVMValueRef emit_there(struct vec *v)
{
    LLVMBuilderRef b = v->b;
    LLVMValueRef at = LLVMBuildAdd(b, vec_splat(v, v->linear, VEC_WIDTH),
                                   vec_iota(v->l->i32, VEC_WIDTH, VEC_WIDTH, 1), ""),
                 threads = v->cta[0];
    LLVMTypeRef type = LLVMTypeOf(at), wide = LLVMVectorType(LLVMFloatTypeInContext(v->context), VEC_WIDTH);
    LLVMValueRef rest = at, size[2];
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef n = vec_splat(v, v->cta[i], VEC_WIDTH),
                     half = LLVMConstReal(LLVMFloatTypeInContext(v->context), 0.5);
        /* (x + 1/2) / n is not near an integer for numbers of threads. */
        LLVMValueRef q =
            LLVMBuildFAdd(b, LLVMBuildSIToFP(b, rest, wide, ""), vec_splat(v, half, VEC_WIDTH), "");
        q = LLVMBuildFPToSI(b, LLVMBuildFDiv(b, q, LLVMBuildSIToFP(b, n, wide, ""), ""), type, "");
        v->thread[i][0] = LLVMBuildSub(b, rest, LLVMBuildMul(b, q, n, ""), "");
        rest = q;
        size[i] = v->cta[i + 1];
    }
    v->thread[2][0] = rest;
    for (unsigned i = 0; i < 2; i++)
        threads = LLVMBuildMul(b, threads, size[i], "");
    return LLVMBuildICmp(b, LLVMIntULT, at, vec_splat(v, threads, VEC_WIDTH), "");
}

void vec_emit(struct vec *v)
{
    v->entry = emit_block(v);
    LLVMPositionBuilderAtEnd(v->b, v->entry);
    v->scratch = vec_slot(v, LLVMArrayType2(v->l->i64, 64));
    v->result_slot = v->result ? vec_slot(v, v->result) : NULL;
    for (unsigned i = 0; i < v->nblocks; i++) {
        struct vec_block *b = &v->block[i];
        LLVMTypeRef type = b->masked ? v->mask_type : v->l->i1;
        b->check = emit_block(v);
        b->body = emit_block(v);
        b->full = b->masked && v->twice ? emit_block(v) : NULL;
        b->pending = vec_slot(v, type);
        emit_clear(v, b);
    }
    for (unsigned i = 1; i <= v->nloops; i++)
        v->loop[i].again = emit_block(v);
    v->done = emit_block(v);
    if (vec_slots(v)) {
        vec_refuse(v, "a type of its values");
        return;
    }
    LLVMPositionBuilderAtEnd(v->b, v->entry);
    if (v->any) {
        LLVMValueRef there = emit_there(v);
        there = v->called ? LLVMBuildBitCast(v->b, v->here, v->mask_type, "") : there;
        LLVMBuildStore(v->b, there, v->block[0].pending);
    }
    LLVMBuildBr(v->b, v->block[0].body);
    emit_checks(v);
    for (unsigned i = 0; i < v->nblocks; i++) {
        v->now = (int)i;
        emit_body(v, 0);
        if (v->block[i].full)
            emit_body(v, 1);
    }
    LLVMPositionBuilderAtEnd(v->b, v->done);
    if (v->result)
        LLVMBuildRet(v->b, LLVMBuildLoad2(v->b, v->result, v->result_slot, ""));
    else
        LLVMBuildRetVoid(v->b);
}
