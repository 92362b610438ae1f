/* Warps as vectors: operations of a warp's lanes together, and the registers that distinguish lanes. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>
#include "format/image.h"

static LLVMValueRef warp_argument(struct vec *v, LLVMValueRef call, unsigned i)
{
    return vec_lanes(v, LLVMGetOperand(call, i));
}

static LLVMValueRef warp_all(struct vec *v, uint64_t n)
{
    return vec_splat(v, vec_number(v, n), VEC_WIDTH);
}

static LLVMValueRef warp_lane_ids(struct vec *v)
{
    return vec_iota(v->l->i32, VEC_WIDTH, VEC_WIDTH, 1);
}

/* Returns the value of lane from[i] for each lane i. A constant `from` gives a shuffle of registers. */
static LLVMValueRef warp_pick(struct vec *v, LLVMValueRef value, LLVMValueRef from)
{
    int mask[VEC_WIDTH];
    int known = LLVMIsConstant(from) && LLVMIsAConstantDataVector(from);
    for (unsigned i = 0; known && i < VEC_WIDTH; i++)
        mask[i] = (int)LLVMConstIntGetZExtValue(LLVMGetAggregateElement(from, i)) & 31;
    value = LLVMBuildFreeze(v->b, value, "");
    if (known)
        return vec_shuffle(v, value, NULL, mask, VEC_WIDTH);
    from = LLVMBuildAnd(v->b, LLVMBuildFreeze(v->b, from, ""), warp_all(v, 31), "");
    LLVMValueRef at = LLVMBuildGEP2(v->b, v->l->i32, vec_spill(v, value), &from, 1, "");
    LLVMTypeRef type = LLVMTypeOf(value), types[] = {type, LLVMTypeOf(at)};
    LLVMValueRef here = v->has_masks ? vec_mask(v) : LLVMConstAllOnes(v->mask_type);
    LLVMValueRef args[] = {at, vec_number(v, 4), here, LLVMGetPoison(type)};
    return vec_intrinsic(v, "llvm.masked.gather", types, 2, args, 4);
}

/* Reports lanes whose result CUDA leaves undefined, rarely any: `from` (may be NULL) is their source lane. */
static void warp_tell(struct vec *v, LLVMValueRef lanes, LLVMValueRef from)
{
    LLVMTypeRef type;
    LLVMBasicBlockRef some = LLVMAppendBasicBlockInContext(v->context, v->to, ""),
                      rest = LLVMAppendBasicBlockInContext(v->context, v->to, "");
    LLVMBuildCondBr(v->b, LLVMBuildICmp(v->b, LLVMIntNE, lanes, vec_number(v, 0), ""), some, rest);
    LLVMPositionBuilderAtEnd(v->b, some);
    LLVMValueRef args[] = {v->linear, lanes, from ? vec_spill(v, from) : LLVMConstNull(v->l->ptr)};
    LLVMValueRef f = mt_builtin(v->l, "__mt_warp_undefined", &type);
    LLVMBuildCall2(v->b, type, f, args, 3, "");
    LLVMBuildBr(v->b, rest);
    LLVMPositionBuilderAtEnd(v->b, rest);
}

/* Returns bit i of x for each lane i. */
static LLVMValueRef warp_bit_of(struct vec *v, LLVMValueRef x, LLVMValueRef i)
{
    LLVMValueRef bit = LLVMBuildAnd(v->b, LLVMBuildLShr(v->b, x, i, ""), warp_all(v, 1), "");
    return LLVMBuildICmp(v->b, LLVMIntNE, bit, LLVMConstNull(LLVMTypeOf(bit)), "");
}

static int warp_names_all(LLVMValueRef call)
{
    LLVMValueRef members = LLVMGetOperand(call, 0);
    return LLVMIsAConstantInt(members) && (uint32_t)LLVMConstIntGetZExtValue(members) == UINT32_MAX;
}

/* Reports lanes that the mask of their warp function does not name. */
static void warp_check_named(struct vec *v, LLVMValueRef call)
{
    LLVMValueRef named;
    if (warp_names_all(call))
        return;
    named = warp_bit_of(v, warp_argument(v, call, 0), warp_lane_ids(v));
    warp_tell(v, vec_masked_bits(v, LLVMBuildNot(v->b, named, "")), NULL);
}

/* Reports lanes within the segment that shuffle from an inactive one. */
static void warp_check_there(struct vec *v, LLVMValueRef call, LLVMValueRef from, LLVMValueRef in)
{
    if (!v->mask && warp_names_all(call))
        return;
    LLVMValueRef here = vec_splat(v, vec_mask_bits(v, vec_mask(v)), VEC_WIDTH);
    from = LLVMBuildAnd(v->b, LLVMBuildFreeze(v->b, from, ""), warp_all(v, 31), "");
    LLVMValueRef there = warp_bit_of(v, LLVMBuildAnd(v->b, here, warp_argument(v, call, 0), ""), from);
    LLVMValueRef own = LLVMBuildICmp(v->b, LLVMIntEQ, from, warp_lane_ids(v), "");
    there = LLVMBuildOr(v->b, there, own, "");
    warp_tell(v, vec_masked_bits(v, LLVMBuildAnd(v->b, in, LLVMBuildNot(v->b, there, ""), "")), from);
}

/* PTX, shfl.sync: computes the source lane, and whether it is within the segment; else the lane's own
 * value stays. */
static LLVMValueRef warp_shuffle(struct vec *v, LLVMValueRef call)
{
    LLVMBuilderRef b = v->b;
    LLVMValueRef value = warp_argument(v, call, 1), by = warp_argument(v, call, 2),
                 c = warp_argument(v, call, 3);
    unsigned mode = (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(call, 4));
    LLVMValueRef lane = warp_lane_ids(v), low = warp_all(v, 31), from, in;
    by = LLVMBuildAnd(b, by, low, "");
    LLVMValueRef segment = LLVMBuildAnd(b, LLVMBuildLShr(b, c, warp_all(v, 8), ""), low, "");
    LLVMValueRef clamp = LLVMBuildAnd(b, c, low, ""),
                 free = LLVMBuildAnd(b, LLVMBuildNot(b, segment, ""), low, "");
    LLVMValueRef first = LLVMBuildAnd(b, lane, segment, "");
    LLVMValueRef last = LLVMBuildOr(b, first, LLVMBuildAnd(b, clamp, free, ""), "");
    switch (mode) {
    case MT_SHFL_UP:
        from = LLVMBuildSub(b, lane, by, "");
        break;
    case MT_SHFL_DOWN:
        from = LLVMBuildAdd(b, lane, by, "");
        break;
    case MT_SHFL_BFLY:
        from = LLVMBuildXor(b, lane, by, "");
        break;
    default:
        from = LLVMBuildOr(b, first, LLVMBuildAnd(b, by, free, ""), "");
    }
    in = LLVMBuildICmp(b, mode == MT_SHFL_UP ? LLVMIntSGE : LLVMIntSLE, from, last, "");
    warp_check_there(v, call, from, in);
    LLVMValueRef got = warp_pick(v, value, LLVMBuildSelect(b, in, from, lane, ""));
    LLVMTypeRef wide = LLVMVectorType(v->l->i64, VEC_WIDTH);
    LLVMValueRef high = LLVMBuildShl(b, LLVMBuildZExt(b, in, wide, ""),
                                     vec_splat(v, LLVMConstInt(v->l->i64, 32, 0), VEC_WIDTH), "");
    return LLVMBuildOr(b, LLVMBuildZExt(b, got, wide, ""), high, "");
}

static LLVMValueRef warp_is_not_zero(struct vec *v, LLVMValueRef lanes)
{
    return LLVMBuildICmp(v->b, LLVMIntNE, lanes, LLVMConstNull(LLVMTypeOf(lanes)), "");
}

/* `members`: of the call, one number or one per lane. */
static LLVMValueRef warp_vote(struct vec *v, LLVMValueRef call, LLVMValueRef members)
{
    LLVMBuilderRef b = v->b;
    LLVMValueRef flags = warp_is_not_zero(v, warp_argument(v, call, 1));
    LLVMValueRef yes = vec_masked_bits(v, flags), no = vec_masked_bits(v, LLVMBuildNot(b, flags, ""));
    int each = LLVMGetTypeKind(LLVMTypeOf(members)) == LLVMVectorTypeKind;
    if (each) {
        yes = vec_splat(v, yes, VEC_WIDTH);
        no = vec_splat(v, no, VEC_WIDTH);
    }
    yes = LLVMBuildAnd(b, yes, members, "");
    no = LLVMBuildAnd(b, no, members, "");
    LLVMValueRef none = LLVMConstNull(LLVMTypeOf(yes)), r;
    switch (LLVMConstIntGetZExtValue(LLVMGetOperand(call, 2))) {
    case MT_VOTE_ALL:
        r = LLVMBuildICmp(b, LLVMIntEQ, no, none, "");
        break;
    case MT_VOTE_ANY:
        r = LLVMBuildICmp(b, LLVMIntNE, yes, none, "");
        break;
    case MT_VOTE_UNI:
        r = LLVMBuildOr(b, LLVMBuildICmp(b, LLVMIntEQ, no, none, ""),
                        LLVMBuildICmp(b, LLVMIntEQ, yes, none, ""), "");
        break;
    default:
        return yes;
    }
    return LLVMBuildZExt(b, r, LLVMTypeOf(yes), "");
}

static LLVMValueRef warp_match_any(struct vec *v, LLVMValueRef call)
{
    struct vec_each e;
    LLVMValueRef members = warp_argument(v, call, 0),
                 value = LLVMBuildFreeze(v->b, warp_argument(v, call, 1), "");
    LLVMValueRef all = vec_spill(v, value), out = vec_slot(v, LLVMVectorType(v->l->i32, VEC_WIDTH));
    vec_each_begin(v, &e);
    LLVMValueRef one = vec_lane_of(v, all, v->l->i64, e.lane);
    LLVMValueRef same = LLVMBuildICmp(v->b, LLVMIntEQ, value, vec_splat(v, one, VEC_WIDTH), "");
    LLVMValueRef at = LLVMBuildGEP2(v->b, v->l->i32, out, &e.lane, 1, "");
    LLVMBuildStore(v->b, vec_masked_bits(v, same), at);
    vec_each_end(v, &e);
    return LLVMBuildAnd(v->b, LLVMBuildLoad2(v->b, LLVMVectorType(v->l->i32, VEC_WIDTH), out, ""), members,
                        "");
}

static LLVMValueRef warp_bits(struct vec *v)
{
    return vec_mask_bits(v, vec_mask(v));
}

/* Returns the lanes that are active and among the members. */
static LLVMValueRef warp_taking_part(struct vec *v, LLVMValueRef members)
{
    return LLVMBuildBitCast(v->b, LLVMBuildAnd(v->b, warp_bits(v), members, ""), v->mask_type, "");
}

static LLVMValueRef warp_match_all(struct vec *v, LLVMValueRef call, LLVMValueRef members)
{
    LLVMValueRef value = LLVMBuildFreeze(v->b, warp_argument(v, call, 1), "");
    LLVMValueRef here = LLVMBuildAnd(v->b, warp_bits(v), members, ""),
                 args[] = {here, LLVMConstInt(v->l->i1, 0, 0)};
    LLVMValueRef first =
        LLVMBuildAnd(v->b, vec_intrinsic(v, "llvm.cttz", &v->l->i32, 1, args, 2), vec_number(v, 31), "");
    LLVMValueRef one = vec_lane_of(v, vec_spill(v, value), v->l->i64, first);
    LLVMValueRef other = LLVMBuildICmp(v->b, LLVMIntNE, value, vec_splat(v, one, VEC_WIDTH), "");
    LLVMValueRef differ = LLVMBuildAnd(v->b, vec_masked_bits(v, other), members, "");
    LLVMValueRef same = LLVMBuildICmp(v->b, LLVMIntEQ, differ, vec_number(v, 0), "");
    return LLVMBuildSelect(v->b, same, members, vec_number(v, 0), "");
}

static LLVMValueRef warp_redux(struct vec *v, LLVMValueRef call, LLVMValueRef members)
{
    static const struct {
        const char *name;
        uint32_t neutral;
    } how[] = {[MT_REDUX_ADD] = {"llvm.vector.reduce.add", 0},
               [MT_REDUX_UMIN] = {"llvm.vector.reduce.umin", ~0u},
               [MT_REDUX_UMAX] = {"llvm.vector.reduce.umax", 0},
               [MT_REDUX_MIN] = {"llvm.vector.reduce.smin", INT32_MAX},
               [MT_REDUX_MAX] = {"llvm.vector.reduce.smax", 1u << 31},
               [MT_REDUX_AND] = {"llvm.vector.reduce.and", ~0u},
               [MT_REDUX_OR] = {"llvm.vector.reduce.or", 0},
               [MT_REDUX_XOR] = {"llvm.vector.reduce.xor", 0}};
    unsigned op = (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(call, 2));
    LLVMValueRef value = LLVMBuildSelect(v->b, warp_taking_part(v, members), warp_argument(v, call, 1),
                                         warp_all(v, how[op].neutral), "");
    LLVMTypeRef type = LLVMTypeOf(value);
    return vec_intrinsic(v, how[op].name, &type, 1, &value, 1);
}

/* Groups lanes that name the same members. */
static LLVMValueRef warp_by_members(struct vec *v, LLVMValueRef call, int match)
{
    struct vec_groups g;
    vec_groups_begin(v, &g, warp_argument(v, call, 0), v->l->i32);
    LLVMValueRef r = match ? warp_match_all(v, call, g.one) : warp_redux(v, call, g.one);
    return vec_groups_end(v, &g, vec_splat(v, r, VEC_WIDTH));
}

/* Returns a value that is the same in all active lanes, though not provably. */
static LLVMValueRef warp_same(struct vec *v, LLVMValueRef value)
{
    if (vec_shape_of(v, value).kind == VEC_UNIFORM)
        return vec_uniform(v, value);
    LLVMValueRef args[] = {vec_mask_bits(v, vec_mask(v)), LLVMConstInt(v->l->i1, 0, 0)};
    LLVMValueRef first =
        LLVMBuildAnd(v->b, vec_intrinsic(v, "llvm.cttz", &v->l->i32, 1, args, 2), vec_number(v, 31), "");
    return vec_lane_of(v, vec_spill(v, vec_lanes(v, value)), LLVMTypeOf(value), first);
}

static int warp_block_waits(LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
        if (vec_calls(i, "mt_cpu_barrier"))
            return 1;
    return 0;
}

/* Returns 1 if lanes at this block may reach a barrier; others end, and are not waited for. together: a
 * barrier that all lanes reach together. */
static int warp_may_wait(const struct vec *v, int block, int together)
{
    unsigned char *seen = calloc(v->nblocks, 1);
    int *left = malloc((v->nblocks + 1) * sizeof *left), n = 0, waits = 0;
    if (seen && left)
        seen[left[n++] = block] = 1;
    while (n && !waits) {
        const struct vec_block *b = &v->block[left[--n]];
        waits = (!together || !b->masked) && warp_block_waits(b->from);
        for (unsigned i = 0; i < b->nsucc; i++)
            if (!seen[b->succ[i]])
                seen[left[n++] = b->succ[i]] = 1;
    }
    free(seen);
    free(left);
    return waits;
}

/* MEMTRACE_CHECK: reports lanes on their way to another barrier, or none, when some reach this one. */
static void warp_barrier_apart(struct vec *v)
{
    LLVMValueRef apart = NULL;
    LLVMTypeRef type;
    for (unsigned i = 0; v->mask && i < v->nblocks; i++) {
        const struct vec_block *b = &v->block[i];
        if ((int)i == v->now || !b->masked || !warp_may_wait(v, (int)i, 0))
            continue;
        LLVMValueRef bits = vec_mask_bits(v, LLVMBuildLoad2(v->b, v->mask_type, b->pending, ""));
        apart = apart ? LLVMBuildOr(v->b, apart, bits, "") : bits;
    }
    if (v->mask && warp_may_wait(v, v->now, 1)) /* the inactive lanes wait there */
        apart = LLVMBuildNot(v->b, vec_mask_bits(v, v->mask), "");
    if (!v->mask)
        return;
    LLVMValueRef args[] = {v->linear, vec_mask_bits(v, v->mask), apart ? apart : vec_number(v, 0)},
                 f = mt_builtin(v->l, "__mt_warp_apart", &type);
    LLVMBuildCall2(v->b, type, f, args, 3, "");
}

/* Returns a number for a barrier's place, the same in all versions of the code: its function's name and
 * its index among the calls. */
static uint32_t warp_place(LLVMValueRef call)
{
    LLVMBasicBlockRef block = LLVMGetInstructionParent(call);
    LLVMValueRef f = LLVMGetBasicBlockParent(block), i;
    uint32_t h = 2166136261u, n = 0;
    for (const char *s = mt_name(f); *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = b == block ? NULL : LLVMGetNextBasicBlock(b))
        for (i = LLVMGetFirstInstruction(b); i && i != call; i = LLVMGetNextInstruction(i))
            n += LLVMIsACallInst(i) != NULL;
    return ((h + n * 2654435761u) >> MT_BARRIER_PLACE) | 1;
}

/* All remaining lanes of the warp arrive at once: the runtime gets the number that vote yes. */
static LLVMValueRef warp_barrier(struct vec *v, LLVMValueRef call)
{
    LLVMValueRef kind = LLVMGetOperand(call, 0), id = warp_same(v, LLVMGetOperand(call, 1));
    LLVMValueRef count = warp_same(v, LLVMGetOperand(call, 2)), args[5], said = vec_number(v, 0);
    LLVMTypeRef params[5];
    unsigned mode = (unsigned)LLVMConstIntGetZExtValue(kind) % MT_BARRIER_SOME;
    warp_barrier_apart(v);
    if (mode) {
        LLVMValueRef flags = warp_is_not_zero(v, warp_argument(v, call, 3));
        said = vec_masked_bits(v, mode == 2 ? LLVMBuildNot(v->b, flags, "") : flags);
        said = vec_intrinsic(v, "llvm.ctpop", &v->l->i32, 1, &said, 1);
    }
    for (unsigned i = 0; i < 4; i++)
        params[i] = v->l->i32;
    LLVMValueRef f = mt_declare(v->module, "mt_cpu_warp_barrier", LLVMFunctionType(v->l->i32, params, 4, 0));
    args[0] = vec_number(v, (unsigned)LLVMConstIntGetZExtValue(kind) | warp_place(call) << MT_BARRIER_PLACE);
    args[1] = id;
    args[2] = count;
    args[3] = said;
    return mt_build_call(v->l, f, args, 4);
}

/* Returns masks of the bits below, at or above each lane's number, from 1 << lane. */
static LLVMValueRef warp_lane_mask(struct vec *v, int reg)
{
    LLVMValueRef list[VEC_WIDTH];
    for (unsigned i = 0; i < VEC_WIDTH; i++) {
        uint32_t eq = 1u << i, lt = eq - 1;
        uint32_t n = reg == VEC_EQ   ? eq
                     : reg == VEC_LT ? lt
                     : reg == VEC_LE ? (eq | lt)
                     : reg == VEC_GT ? ~(eq | lt)
                                     : ~lt;
        list[i] = vec_number(v, n);
    }
    return LLVMConstVector(list, VEC_WIDTH);
}

static void warp_register(struct vec *v, LLVMValueRef call, int reg)
{
    struct vec_rep r = {.kind = v->rows == 1 ? VEC_UNIFORM : VEC_ROWS};
    if (v->any && reg <= VEC_TID_Z) {
        vec_set_lanes(v, call, v->thread[reg - VEC_TID_X][0]);
        return;
    }
    switch (reg) {
    case VEC_TID_X:
    case VEC_LANE_ID:
        r.kind = VEC_ROWS;
        r.stride = 1;
        for (unsigned p = 0; p < v->rows; p++)
            r.part[p] = reg == VEC_TID_X ? v->thread[0][p] : vec_number(v, p * v->group);
        vec_set(v, call, r);
        return;
    case VEC_TID_Y:
    case VEC_TID_Z:
        for (unsigned p = 0; p < v->rows; p++)
            r.part[p] = v->thread[reg - VEC_TID_X][p];
        vec_set(v, call, r);
        return;
    case VEC_WARP_ID:
        vec_set_uniform(v, call, LLVMBuildLShr(v->b, v->linear, vec_number(v, 5), ""));
        return;
    default:
        if (reg >= VEC_NTID_X)
            vec_set_uniform(v, call, v->cta[reg - VEC_NTID_X]);
        else
            vec_set_lanes(v, call, warp_lane_mask(v, reg));
    }
}

static int warp_is_memory(LLVMValueRef inst)
{
    return LLVMIsALoadInst(inst) || LLVMIsAStoreInst(inst) || LLVMIsAAtomicRMWInst(inst) ||
           LLVMIsAAtomicCmpXchgInst(inst) ||
           (LLVMIsACallInst(inst) && !vec_is_plain_call(inst) && !vec_is_record(inst));
}

/* Returns the `touched` state at the block's end, given the one at its start. */
static int warp_touches(struct vec *v, const struct vec_block *b, int touched)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(b->from); i; i = LLVMGetNextInstruction(i)) {
        const char *name = vec_callee(i);
        if (!strcmp(name, "mt_cpu_barrier")) {
            touched = 0;
        } else if (vec_is_lockstep_call(name)) {
            vec_find(v, i)->turn = touched;
            touched = 0;
        } else if (vec_register(name) < 0 && warp_is_memory(i)) {
            touched = 1;
        }
    }
    return touched;
}

/* Chooses turns. Without them a warp runs from barrier to barrier past all its warp functions; on a GPU,
 * and with fibers, others have meanwhile read data that it writes after such a function. */
void vec_turns(struct vec *v)
{
    v->block[0].touched = v->called; /* perhaps */
    for (int more = 1; more;) {
        more = 0;
        for (unsigned b = 0; b < v->nblocks; b++) {
            int touched = warp_touches(v, &v->block[b], v->block[b].touched);
            for (unsigned i = 0; i < v->block[b].nsucc; i++) {
                struct vec_block *to = &v->block[v->block[b].succ[i]];
                more |= touched && !to->touched;
                to->touched |= touched;
            }
        }
    }
}

static void warp_turn(struct vec *v, LLVMValueRef call)
{
    LLVMTypeRef type;
    if ((v->waits || v->called) && vec_find(v, call)->turn) {
        LLVMValueRef f = mt_builtin(v->l, "__mt_warp_turn", &type);
        LLVMBuildCall2(v->b, type, f, NULL, 0, "");
    }
}

/* The lanes' operands are adjacent in memory. */
static void warp_matrix(struct vec *v, LLVMValueRef call)
{
    LLVMTypeRef type;
    LLVMValueRef f = mt_builtin(v->l, "__mt_warp_matrix", &type), args[6];
    args[0] = vec_uniform(v, LLVMGetOperand(call, 0));
    for (unsigned i = 1; i < 5; i++)
        args[i] = vec_spill(v, warp_argument(v, call, i));
    args[5] = warp_bits(v);
    LLVMBuildCall2(v->b, type, f, args, 6, "");
}

static void warp_wait(struct vec *v, LLVMValueRef call)
{
    LLVMValueRef args[3] = {0};
    unsigned n = LLVMGetNumArgOperands(call);
    for (unsigned i = 0; i < n; i++)
        args[i] = warp_same(v, LLVMGetOperand(call, i));
    mt_build_call(v->l, mt_callee(call), args, n);
}

int vec_emit_warp(struct vec *v, LLVMValueRef call)
{
    const char *name = vec_callee(call);
    int reg = vec_register(name);
    if (reg >= 0) {
        warp_register(v, call, reg);
        return 1;
    }
    if (!strcmp(name, "mt_cpu_barrier")) {
        vec_set_uniform(v, call, warp_barrier(v, call));
        return 1;
    }
    if (vec_is_wait(name) && mt_starts(name, "mt_cpu_")) { /* once for all lanes */
        warp_wait(v, call);
        return 1;
    }
    if (!vec_is_lockstep_call(name))
        return 0;
    warp_turn(v, call);
    if (!strcmp(name, "mt_cpu_syncwarp")) {
        warp_check_named(v, call);
        return 1; /* they are in step */
    }
    if (!strcmp(name, "mt_cpu_matrix")) {
        warp_matrix(v, call);
        return 1;
    }
    if (strcmp(name, "mt_cpu_activemask"))
        warp_check_named(v, call);
    if (!strcmp(name, "mt_cpu_activemask")) {
        vec_set_uniform(v, call, warp_bits(v));
    } else if (!strcmp(name, "mt_cpu_shfl")) {
        vec_set_lanes(v, call, warp_shuffle(v, call));
    } else if (!strcmp(name, "mt_cpu_match_any")) {
        vec_set_lanes(v, call, warp_match_any(v, call));
    } else if (vec_get(v, LLVMGetOperand(call, 0)).kind != VEC_UNIFORM) {
        vec_set_lanes(v, call,
                      !strcmp(name, "mt_cpu_vote")
                          ? warp_vote(v, call, warp_argument(v, call, 0))
                          : warp_by_members(v, call, !strcmp(name, "mt_cpu_match_all")));
    } else {
        LLVMValueRef members = vec_uniform(v, LLVMGetOperand(call, 0));
        vec_set_uniform(v, call,
                        !strcmp(name, "mt_cpu_vote")        ? warp_vote(v, call, members)
                        : !strcmp(name, "mt_cpu_match_all") ? warp_match_all(v, call, members)
                                                            : warp_redux(v, call, members));
    }
    return 1;
}
