/* Warps as vectors: instructions executed lane by lane (atomics, calls), with operands and results in
 * memory. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>

/* i1 has no memory type of its own. */
static LLVMTypeRef lane_memory_type(struct vec *v, LLVMTypeRef type)
{
    return type == v->l->i1 ? v->l->i8 : type;
}

static unsigned lane_each(LLVMTypeRef wide)
{
    return LLVMGetVectorSize(wide) / VEC_WIDTH;
}

static LLVMValueRef lane_memory(struct vec *v, LLVMTypeRef type)
{
    for (unsigned i = 0; i < v->nspilled; i++)
        if (v->spilled[i].type == type && v->spilled[i].user != v->inst) {
            v->spilled[i].user = v->inst;
            return v->spilled[i].slot;
        }
    LLVMValueRef slot = vec_slot(v, type);
    if (v->nspilled < sizeof v->spilled / sizeof *v->spilled)
        v->spilled[v->nspilled++] = (struct vec_spilled){type, slot, v->inst};
    return slot;
}

LLVMValueRef vec_spill(struct vec *v, LLVMValueRef lanes)
{
    LLVMTypeRef wide = LLVMTypeOf(lanes), element = LLVMGetElementType(wide);
    if (element == v->l->i1) {
        wide = LLVMVectorType(v->l->i8, LLVMGetVectorSize(wide));
        lanes = LLVMBuildZExt(v->b, lanes, wide, "");
    }
    LLVMValueRef slot = lane_memory(v, wide);
    LLVMBuildStore(v->b, lanes, slot);
    return slot;
}

int vec_keep_spilled(struct vec *v, LLVMValueRef slot, LLVMValueRef user)
{
    for (unsigned i = 0; i < v->nspilled; i++)
        if (v->spilled[i].slot == slot && v->spilled[i].user == user) {
            v->spilled[i].user = v->inst;
            return 1;
        }
    return 0;
}

/* Returns the address of a lane's part of a slot for all lanes; `type` is the lane's. */
static LLVMValueRef lane_at(struct vec *v, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef lane, unsigned i)
{
    LLVMTypeRef element = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    LLVMValueRef at = LLVMBuildMul(v->b, LLVMBuildZExt(v->b, lane, v->l->i64, ""),
                                   LLVMConstInt(v->l->i64, vec_count(type), 0), "");
    at = LLVMBuildAdd(v->b, at, LLVMConstInt(v->l->i64, i, 0), "");
    return LLVMBuildGEP2(v->b, lane_memory_type(v, element), slot, &at, 1, "");
}

LLVMValueRef vec_lane_of(struct vec *v, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef lane)
{
    int vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    LLVMTypeRef element = vector ? LLVMGetElementType(type) : type;
    LLVMValueRef all = vector ? LLVMGetPoison(type) : NULL;
    for (unsigned i = 0; i < vec_count(type); i++) {
        LLVMValueRef x =
            LLVMBuildLoad2(v->b, lane_memory_type(v, element), lane_at(v, slot, type, lane, i), "");
        if (element == v->l->i1)
            x = LLVMBuildTrunc(v->b, x, v->l->i1, "");
        if (!vector)
            return x;
        all = LLVMBuildInsertElement(v->b, all, x, vec_number(v, i), "");
    }
    return all;
}

static void lane_put(struct vec *v, LLVMValueRef slot, LLVMValueRef value, LLVMValueRef lane)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    int vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    for (unsigned i = 0; i < vec_count(type); i++) {
        LLVMValueRef x = vector ? LLVMBuildExtractElement(v->b, value, vec_number(v, i), "") : value;
        if (LLVMTypeOf(x) == v->l->i1)
            x = LLVMBuildZExt(v->b, x, v->l->i8, "");
        LLVMBuildStore(v->b, x, lane_at(v, slot, type, lane, i));
    }
}

LLVMValueRef vec_result_slot(struct vec *v, LLVMTypeRef type)
{
    LLVMTypeRef element = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    return lane_memory(v, LLVMVectorType(lane_memory_type(v, element), VEC_WIDTH * vec_count(type)));
}

static LLVMValueRef lane_result(struct vec *v, LLVMValueRef slot, LLVMTypeRef type)
{
    LLVMTypeRef wide = vec_wide(v, type), element = LLVMGetElementType(wide);
    if (element != v->l->i1)
        return LLVMBuildLoad2(v->b, wide, slot, "");
    LLVMTypeRef bytes = LLVMVectorType(v->l->i8, VEC_WIDTH * lane_each(wide));
    return LLVMBuildTrunc(v->b, LLVMBuildLoad2(v->b, bytes, slot, ""), wide, "");
}

void vec_each_begin(struct vec *v, struct vec_each *e)
{
    LLVMValueRef all = vec_mask_bits(v, vec_mask(v));
    LLVMBasicBlockRef before = LLVMGetInsertBlock(v->b);
    e->head = LLVMAppendBasicBlockInContext(v->context, v->to, "");
    LLVMBuildBr(v->b, e->head);
    LLVMPositionBuilderAtEnd(v->b, e->head);
    e->bits = LLVMBuildPhi(v->b, v->l->i32, "");
    LLVMAddIncoming(e->bits, &all, &before, 1);
    LLVMValueRef args[] = {e->bits, LLVMConstInt(v->l->i1, 1, 0)};
    e->lane = vec_intrinsic(v, "llvm.cttz", &v->l->i32, 1, args, 2);
}

void vec_each_end(struct vec *v, struct vec_each *e)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(v->b);
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(v->context, v->to, "");
    LLVMValueRef rest = LLVMBuildAnd(v->b, e->bits, LLVMBuildSub(v->b, e->bits, vec_number(v, 1), ""), "");
    LLVMAddIncoming(e->bits, &rest, &here, 1);
    LLVMBuildCondBr(v->b, LLVMBuildICmp(v->b, LLVMIntNE, rest, vec_number(v, 0), ""), e->head, after);
    LLVMPositionBuilderAtEnd(v->b, after);
}

void vec_groups_begin(struct vec *v, struct vec_groups *g, LLVMValueRef value, LLVMTypeRef result)
{
    LLVMTypeRef wide = LLVMTypeOf(value);
    *g = (struct vec_groups){.all = v->mask, .type = result, .value = LLVMBuildFreeze(v->b, value, "")};
    if (LLVMGetTypeKind(result) != LLVMVoidTypeKind)
        g->slot = vec_slot(v, vec_wide(v, result));
    LLVMValueRef spilled = vec_spill(v, g->value), all = vec_mask_bits(v, vec_mask(v));
    LLVMBasicBlockRef before = LLVMGetInsertBlock(v->b);
    g->head = LLVMAppendBasicBlockInContext(v->context, v->to, "");
    LLVMBuildBr(v->b, g->head);
    LLVMPositionBuilderAtEnd(v->b, g->head);
    g->bits = LLVMBuildPhi(v->b, v->l->i32, "");
    LLVMAddIncoming(g->bits, &all, &before, 1);
    LLVMValueRef args[] = {g->bits, LLVMConstInt(v->l->i1, 1, 0)};
    g->one = vec_lane_of(v, spilled, LLVMGetElementType(wide),
                         vec_intrinsic(v, "llvm.cttz", &v->l->i32, 1, args, 2));
    LLVMValueRef same = LLVMBuildICmp(v->b, LLVMIntEQ, g->value, vec_splat(v, g->one, VEC_WIDTH), "");
    g->group = LLVMBuildAnd(v->b, vec_mask_bits(v, same), g->bits, "");
    v->mask = LLVMBuildBitCast(v->b, g->group, v->mask_type, "");
}

LLVMValueRef vec_groups_end(struct vec *v, struct vec_groups *g, LLVMValueRef lanes)
{
    if (g->slot) {
        LLVMValueRef old = LLVMBuildLoad2(v->b, vec_wide(v, g->type), g->slot, "");
        LLVMBuildStore(v->b, vec_merge(v, g->type, v->mask, lanes, old), g->slot);
    }
    v->mask = g->all;
    LLVMValueRef rest = LLVMBuildAnd(v->b, g->bits, LLVMBuildNot(v->b, g->group, ""), "");
    LLVMBasicBlockRef here = LLVMGetInsertBlock(v->b),
                      after = LLVMAppendBasicBlockInContext(v->context, v->to, "");
    LLVMAddIncoming(g->bits, &rest, &here, 1);
    LLVMBuildCondBr(v->b, LLVMBuildICmp(v->b, LLVMIntNE, rest, vec_number(v, 0), ""), g->head, after);
    LLVMPositionBuilderAtEnd(v->b, after);
    return g->slot ? LLVMBuildLoad2(v->b, vec_wide(v, g->type), g->slot, "") : NULL;
}

/* Sets the current thread for a function that asks for it. */
static void lane_set_thread(struct vec *v, LLVMValueRef lane)
{
    LLVMTypeRef type;
    LLVMValueRef f = mt_builtin(v->l, "mtb_set_thread", &type), where[4];
    where[3] = LLVMBuildAdd(v->b, v->linear, lane, "");
    if (v->any) {
        for (unsigned i = 0; i < 3; i++)
            where[i] = LLVMBuildExtractElement(v->b, v->thread[i][0], lane, "");
        LLVMBuildCall2(v->b, type, f, where, 4, "");
        return;
    }
    LLVMValueRef first = v->rows == 1 ? LLVMConstInt(v->l->i1, 0, 0)
                                      : LLVMBuildICmp(v->b, LLVMIntUGE, lane, vec_number(v, v->group), "");
    for (unsigned i = 0; i < 3; i++)
        where[i] = v->rows == 1 ? v->thread[i][0]
                                : LLVMBuildSelect(v->b, first, v->thread[i][1], v->thread[i][0], "");
    where[0] = LLVMBuildAdd(v->b, where[0], LLVMBuildAnd(v->b, lane, vec_number(v, v->group - 1), ""), "");
    LLVMBuildCall2(v->b, type, f, where, 4, "");
}

void vec_by_lane(struct vec *v, LLVMValueRef inst)
{
    struct vec_each e;
    LLVMTypeRef type = LLVMTypeOf(inst);
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    int n = LLVMGetNumOperands(inst), used = LLVMGetFirstUse(inst) != NULL;
    LLVMValueRef *slot = calloc((size_t)n + 1, sizeof *slot), out[8] = {0};
    if (!slot)
        return;
    for (int i = 0; i < n; i++) {
        LLVMValueRef o = LLVMGetOperand(inst, (unsigned)i);
        if (vec_get(v, o).kind != VEC_UNIFORM)
            slot[i] = vec_spill(v, vec_lanes(v, o));
    }
    unsigned members = kind == LLVMStructTypeKind ? LLVMCountStructElementTypes(type) : 1;
    for (unsigned m = 0; used && m < members; m++)
        out[m] = vec_result_slot(v, kind == LLVMStructTypeKind ? LLVMStructGetTypeAtIndex(type, m) : type);
    vec_each_begin(v, &e);
    LLVMValueRef callee = LLVMIsACallInst(inst) ? mt_callee(inst) : NULL;
    if (callee && !LLVMGetIntrinsicID(callee) && !vec_is_record(inst))
        lane_set_thread(v, e.lane);
    LLVMValueRef copy = LLVMInstructionClone(inst);
    for (int i = 0; i < n; i++) {
        LLVMValueRef o = LLVMGetOperand(inst, (unsigned)i);
        LLVMSetOperand(copy, (unsigned)i,
                       slot[i] ? vec_lane_of(v, slot[i], LLVMTypeOf(o), e.lane) : vec_uniform(v, o));
    }
    LLVMInsertIntoBuilder(v->b, copy);
    for (unsigned m = 0; used && m < members; m++)
        lane_put(v, out[m], kind == LLVMStructTypeKind ? LLVMBuildExtractValue(v->b, copy, m, "") : copy,
                 e.lane);
    vec_each_end(v, &e);
    free(slot);
    if (!used)
        return;
    if (kind != LLVMStructTypeKind) {
        vec_set_lanes(v, inst, lane_result(v, out[0], type));
        return;
    }
    LLVMValueRef all = LLVMGetPoison(vec_wide(v, type));
    for (unsigned m = 0; m < members; m++)
        all =
            LLVMBuildInsertValue(v->b, all, lane_result(v, out[m], LLVMStructGetTypeAtIndex(type, m)), m, "");
    vec_set_lanes(v, inst, all);
}
