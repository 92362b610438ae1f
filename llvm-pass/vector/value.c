/* Warps as vectors: the values of a function, and their form in the new code. A value used in another
 * block has a slot on the stack, which LLVM turns into registers, so that no block depends on the way by
 * which lanes arrived. */
#include "vector.h"
#include "memtrace/hash.h"
#include <stdlib.h>
#include <string.h>

#define MOST_MEMBERS 64u /* maximum members of a structure value */

static unsigned value_hash(const struct vec *v, LLVMValueRef value)
{
    return (unsigned)(mt_hash_number((uintptr_t)value >> 4) >> 32) & (v->table_size - 1);
}

struct vec_value *vec_find(const struct vec *v, LLVMValueRef value)
{
    for (unsigned i = value_hash(v, value); v->table[i]; i = (i + 1) & (v->table_size - 1))
        if (v->value[v->table[i] - 1].from == value)
            return &v->value[v->table[i] - 1];
    return NULL;
}

static void value_add(struct vec *v, LLVMValueRef value, int block)
{
    unsigned i = value_hash(v, value);
    while (v->table[i])
        i = (i + 1) & (v->table_size - 1);
    v->value[v->nvalues] = (struct vec_value){.from = value, .block = block};
    v->table[i] = ++v->nvalues;
}

int vec_values(struct vec *v)
{
    unsigned n = LLVMCountParams(v->from);
    for (unsigned b = 0; b < v->nblocks; b++)
        for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[b].from); i; i = LLVMGetNextInstruction(i))
            n++;
    for (v->table_size = 64; v->table_size < 2 * n;)
        v->table_size *= 2;
    v->value = calloc(n + 1, sizeof *v->value);
    v->table = calloc(v->table_size, sizeof *v->table);
    if (!v->value || !v->table)
        return -1;
    for (unsigned i = 0; i < LLVMCountParams(v->from); i++) {
        value_add(v, LLVMGetParam(v->from, i), -1);
        v->value[i].shape = v->called ? (struct vec_shape){.kind = VEC_LANES}
                                      : (struct vec_shape){.kind = VEC_UNIFORM, .extend = VEC_EXTENDS};
    }
    for (unsigned b = 0; b < v->nblocks; b++)
        for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[b].from); i; i = LLVMGetNextInstruction(i))
            value_add(v, i, (int)b);
    return 0;
}

/* The operands of an extended row are used where the row is. */
static void value_cross(struct vec *v, LLVMValueRef value, LLVMOpcode how, int block)
{
    struct vec_value *x = vec_find(v, value);
    if (!x || x->block < 0)
        return;
    x->crosses |= x->block != block;
    if (!vec_is_made_of(v, value, how))
        return;
    LLVMOpcode op = LLVMGetInstructionOpcode(value);
    for (int i = 0, n = LLVMGetNumOperands(value); i < n; i++)
        value_cross(v, LLVMGetOperand(value, (unsigned)i),
                    op == LLVMSExt || op == LLVMZExt ? vec_extension(v, value) : how, block);
}

/* Finds values used in other blocks; a phi uses its value at the end of the incoming block. */
void vec_crossings(struct vec *v)
{
    for (unsigned i = 0; i < v->nvalues; i++) {
        struct vec_value *x = &v->value[i];
        if (x->block < 0)
            continue;
        if ((LLVMIsASExtInst(x->from) || LLVMIsAZExtInst(x->from)) && x->shape.kind == VEC_ROWS &&
            !x->shape.source)
            value_cross(v, LLVMGetOperand(x->from, 0), vec_extension(v, x->from), x->block);
        for (LLVMUseRef use = LLVMGetFirstUse(x->from); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef user = LLVMGetUser(use);
            if (!LLVMIsAPHINode(user)) {
                x->crosses |= LLVMGetInstructionParent(user) != v->block[x->block].from;
                continue;
            }
            for (unsigned n = 0; n < LLVMCountIncoming(user); n++)
                if (LLVMGetIncomingValue(user, n) == x->from)
                    x->crosses |= LLVMGetIncomingBlock(user, n) != v->block[x->block].from;
        }
    }
    for (unsigned i = 0; i < v->nvalues; i++) /* whose number is needed to test whether others are rows */
        if (v->value[i].shape.source) {
            struct vec_value *x = &v->value[v->value[i].shape.source - 1];
            x->crosses |= v->value[i].crosses || v->value[i].block != x->block;
        }
}

unsigned vec_count(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
}

static LLVMTypeRef value_element(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

unsigned vec_members(LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    return kind == LLVMStructTypeKind  ? LLVMCountStructElementTypes(type)
           : kind == LLVMArrayTypeKind ? (unsigned)LLVMGetArrayLength2(type)
                                       : 0;
}

static LLVMTypeRef value_member(LLVMTypeRef type, unsigned i)
{
    return LLVMGetTypeKind(type) == LLVMStructTypeKind ? LLVMStructGetTypeAtIndex(type, i)
                                                       : LLVMGetElementType(type);
}

LLVMValueRef vec_merge(struct vec *v, LLVMTypeRef type, LLVMValueRef mask, LLVMValueRef from,
                       LLVMValueRef others)
{
    if (!vec_members(type))
        return LLVMBuildSelect(v->b, vec_replicate_mask(v, mask, VEC_WIDTH, vec_count(type)), from, others,
                               "");
    for (unsigned i = 0; i < vec_members(type); i++) {
        LLVMValueRef a = LLVMBuildExtractValue(v->b, from, i, ""),
                     b = LLVMBuildExtractValue(v->b, others, i, "");
        others = LLVMBuildInsertValue(v->b, others, vec_merge(v, value_member(type, i), mask, a, b), i, "");
    }
    return others;
}

/* Elements of a thread's vector stay together: lane 0's, lane 1's … */
LLVMTypeRef vec_wide(struct vec *v, LLVMTypeRef type)
{
    LLVMTypeRef member[MOST_MEMBERS];
    unsigned n = vec_members(type);
    switch (LLVMGetTypeKind(type)) {
    case LLVMVoidTypeKind:
        return type;
    case LLVMIntegerTypeKind:
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind:
    case LLVMFloatTypeKind:
    case LLVMDoubleTypeKind:
    case LLVMPointerTypeKind:
        return LLVMVectorType(type, VEC_WIDTH);
    case LLVMVectorTypeKind:
        return LLVMVectorType(LLVMGetElementType(type), VEC_WIDTH * LLVMGetVectorSize(type));
    case LLVMStructTypeKind:
    case LLVMArrayTypeKind:
        if (n > MOST_MEMBERS)
            return NULL;
        for (unsigned i = 0; i < n; i++)
            if (!(member[i] = vec_wide(v, value_member(type, i))))
                return NULL;
        return LLVMStructTypeInContext(v->context, member, n, 0);
    default:
        return NULL;
    }
}

LLVMValueRef vec_number(struct vec *v, uint64_t n)
{
    return LLVMConstInt(v->l->i32, n, 0);
}

LLVMValueRef vec_shuffle(struct vec *v, LLVMValueRef a, LLVMValueRef b, const int *mask, unsigned n)
{
    LLVMValueRef *index = malloc(n * sizeof *index);
    if (!index)
        return LLVMGetPoison(LLVMVectorType(LLVMGetElementType(LLVMTypeOf(a)), n));
    for (unsigned i = 0; i < n; i++)
        index[i] = mask[i] < 0 ? LLVMGetPoison(v->l->i32) : vec_number(v, (uint64_t)mask[i]);
    LLVMValueRef r =
        LLVMBuildShuffleVector(v->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(index, n), "");
    free(index);
    return r;
}

/* Repeats a scalar, or a vector's elements, n times. */
LLVMValueRef vec_splat(struct vec *v, LLVMValueRef scalar, unsigned n)
{
    LLVMTypeRef type = LLVMTypeOf(scalar);
    unsigned count = vec_count(type);
    int mask[VEC_WIDTH * 64];
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        scalar = LLVMBuildInsertElement(v->b, LLVMGetPoison(LLVMVectorType(type, 1)), scalar,
                                        vec_number(v, 0), "");
    for (unsigned i = 0; i < n * count; i++)
        mask[i] = (int)(i % count);
    return vec_shuffle(v, scalar, NULL, mask, n * count);
}

LLVMValueRef vec_concat(struct vec *v, LLVMValueRef *part, unsigned each)
{
    int mask[VEC_WIDTH * 64];
    if (v->rows == 1)
        return part[0];
    for (unsigned i = 0; i < 2 * each; i++)
        mask[i] = (int)i;
    return vec_shuffle(v, part[0], part[1], mask, 2 * each);
}

LLVMValueRef vec_row_of(struct vec *v, LLVMValueRef lanes, unsigned row, unsigned each)
{
    int mask[VEC_WIDTH * 64];
    if (v->rows == 1)
        return lanes;
    for (unsigned i = 0; i < each; i++)
        mask[i] = (int)(row * each + i);
    return vec_shuffle(v, lanes, NULL, mask, each);
}

LLVMValueRef vec_iota(LLVMTypeRef integer, unsigned n, unsigned group, int64_t stride)
{
    LLVMValueRef list[VEC_WIDTH];
    for (unsigned i = 0; i < n; i++)
        list[i] = LLVMConstInt(integer, (uint64_t)(stride * (int64_t)(i % group)), 1);
    return LLVMConstVector(list, n);
}

LLVMValueRef vec_intrinsic(struct vec *v, const char *name, LLVMTypeRef *types, unsigned ntypes,
                           LLVMValueRef *args, unsigned nargs)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(v->module, id, types, ntypes);
    return LLVMBuildCall2(v->b, LLVMGlobalGetValueType(f), f, args, nargs, "");
}

void vec_set_seldom(struct vec *v, LLVMValueRef branch)
{
    static const char weights[] = "branch_weights";
    LLVMMetadataRef list[] = {LLVMMDStringInContext2(v->context, weights, sizeof weights - 1),
                              LLVMValueAsMetadata(vec_number(v, 2000)),
                              LLVMValueAsMetadata(vec_number(v, 1))};
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(v->context, "prof", 4),
                    LLVMMetadataAsValue(v->context, LLVMMDNodeInContext2(v->context, list, 3)));
}

LLVMValueRef vec_slot(struct vec *v, LLVMTypeRef type)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(v->b);
    LLVMValueRef first = LLVMGetFirstInstruction(v->entry);
    if (first)
        LLVMPositionBuilderBefore(v->b, first);
    else
        LLVMPositionBuilderAtEnd(v->b, v->entry);
    LLVMValueRef slot = LLVMBuildAlloca(v->b, type, "");
    LLVMPositionBuilderAtEnd(v->b, here);
    return slot;
}

static LLVMTypeRef value_part_type(struct vec *v, const struct vec_value *x)
{
    LLVMTypeRef type = LLVMTypeOf(x->from);
    return x->shape.kind == VEC_LANES ? vec_wide(v, type) : type;
}

static struct vec_rep value_of_shape(const struct vec_shape *s)
{
    return (struct vec_rep){.kind = s->kind, .stride = s->stride, .source = s->source, .scale = s->scale};
}

static struct vec_rep value_as_lanes(struct vec *v, const struct vec_rep *r, LLVMTypeRef type)
{
    return (struct vec_rep){.kind = VEC_LANES, .part = {vec_rep_lanes(v, r, type)}};
}

static unsigned value_parts(const struct vec *v, const struct vec_shape *s)
{
    return s->kind == VEC_ROWS ? v->rows : 1;
}

int vec_slots(struct vec *v)
{
    for (unsigned i = 0; i < v->nvalues; i++) {
        struct vec_value *x = &v->value[i];
        int phi = x->block >= 0 && LLVMIsAPHINode(x->from);
        if (x->block < 0 || (!x->crosses && !phi))
            continue;
        LLVMTypeRef type = value_part_type(v, x);
        if (!type)
            return -1;
        for (unsigned p = 0; p < value_parts(v, &x->shape); p++) {
            x->slot[p] = x->crosses ? vec_slot(v, type) : NULL;
            x->keep[p] = phi ? vec_slot(v, type) : NULL;
        }
    }
    return 0;
}

void vec_forget_round(struct vec *v, const struct vec_loop *loop)
{
    for (unsigned i = 0; i < v->nvalues; i++) {
        struct vec_value *x = &v->value[i];
        if (x->block < loop->first || x->block > loop->last)
            continue;
        for (unsigned p = 0; p < value_parts(v, &x->shape); p++)
            if (x->slot[p])
                LLVMBuildStore(v->b, LLVMGetPoison(value_part_type(v, x)), x->slot[p]);
    }
}

struct vec_rep vec_get_row(struct vec *v, LLVMValueRef value)
{
    struct vec_value *x = vec_find(v, value);
    struct vec_rep r = {.kind = VEC_UNIFORM};
    if (!x) {
        r.part[0] = value;
        return r;
    }
    if (x->block < 0 || x->now_round == v->round)
        return x->now;
    r = value_of_shape(&x->shape);
    for (unsigned p = 0; p < value_parts(v, &x->shape); p++)
        r.part[p] = LLVMBuildLoad2(v->b, value_part_type(v, x), x->slot[p], "");
    x->now = r;
    x->now_round = v->round;
    return r;
}

struct vec_rep vec_get(struct vec *v, LLVMValueRef value)
{
    struct vec_rep r = vec_get_row(v, value);
    return r.source ? value_as_lanes(v, &r, LLVMTypeOf(value)) : r;
}

void vec_set(struct vec *v, LLVMValueRef inst, struct vec_rep rep)
{
    struct vec_value *x = vec_find(v, inst);
    if (x->shape.kind == VEC_LANES && rep.kind != VEC_LANES)
        rep = value_as_lanes(v, &rep, LLVMTypeOf(inst));
    x->now = rep;
    x->now_round = v->round;
    for (unsigned p = 0; x->crosses && p < value_parts(v, &x->shape); p++)
        LLVMBuildStore(v->b, rep.part[p], x->slot[p]);
}

void vec_set_lanes(struct vec *v, LLVMValueRef inst, LLVMValueRef lanes)
{
    vec_set(v, inst, (struct vec_rep){.kind = VEC_LANES, .part = {lanes}});
}

void vec_set_uniform(struct vec *v, LLVMValueRef inst, LLVMValueRef value)
{
    vec_set(v, inst, (struct vec_rep){.kind = VEC_UNIFORM, .part = {value}});
}

static LLVMValueRef value_members(struct vec *v, const struct vec_rep *r, LLVMTypeRef type)
{
    LLVMValueRef all = LLVMGetPoison(vec_wide(v, type));
    for (unsigned i = 0; i < vec_members(type); i++) {
        struct vec_rep one = {.kind = r->kind};
        for (unsigned p = 0; p < (r->kind == VEC_ROWS ? v->rows : 1); p++)
            one.part[p] = LLVMBuildExtractValue(v->b, r->part[p], i, "");
        all = LLVMBuildInsertValue(v->b, all, vec_rep_lanes(v, &one, value_member(type, i)), i, "");
    }
    return all;
}

LLVMOpcode vec_extension(struct vec *v, LLVMValueRef inst)
{
    return vec_extends_as(v, inst) & (VEC_SIGNED | VEC_SIGNED_ALL) ? LLVMSExt : LLVMZExt;
}

LLVMValueRef vec_is_row(struct vec *v, const struct vec_rep *r)
{
    struct vec_value *x = &v->value[r->source - 1];
    struct vec_rep wide = vec_get_row(v, x->from);
    LLVMTypeRef narrow = LLVMTypeOf(LLVMGetOperand(x->from, 0)), type = LLVMTypeOf(x->from);
    LLVMValueRef all = NULL, step = LLVMConstInt(type, (uint64_t)(wide.stride * (int64_t)(v->group - 1)), 1);
    for (unsigned p = 0; p < v->rows; p++) {
        LLVMValueRef last = LLVMBuildAdd(v->b, wide.part[p], step, "");
        LLVMValueRef again =
            LLVMBuildCast(v->b, vec_extension(v, x->from), LLVMBuildTrunc(v->b, last, narrow, ""), type, "");
        LLVMValueRef same = LLVMBuildICmp(v->b, LLVMIntEQ, last, again, "");
        all = all ? LLVMBuildAnd(v->b, all, same, "") : same;
    }
    return all;
}

/* Returns the i64 excess of the other lanes over the row's first one, with wrapping. */
static LLVMValueRef value_rises(struct vec *v, const struct vec_rep *r)
{
    struct vec_value *x = &v->value[r->source - 1];
    struct vec_rep wide = vec_get_row(v, x->from), narrow = {.kind = VEC_ROWS, .stride = wide.stride},
                   first = {.kind = VEC_ROWS};
    LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(x->from, 0)), lanes = LLVMVectorType(v->l->i64, VEC_WIDTH);
    for (unsigned p = 0; p < v->rows; p++) {
        first.part[p] = wide.part[p];
        narrow.part[p] = LLVMBuildTrunc(v->b, wide.part[p], type, "");
    }
    LLVMValueRef all =
        LLVMBuildCast(v->b, vec_extension(v, x->from), vec_rep_lanes(v, &narrow, type), lanes, "");
    all = LLVMBuildSub(v->b, all, vec_rep_lanes(v, &first, v->l->i64), "");
    all =
        LLVMBuildMul(v->b, all, vec_splat(v, LLVMConstInt(v->l->i64, (uint64_t)r->scale, 1), VEC_WIDTH), "");
    int64_t rest = r->stride - r->scale * wide.stride;
    return LLVMBuildAdd(v->b, all, vec_iota(v->l->i64, VEC_WIDTH, v->group, rest), "");
}

LLVMValueRef vec_rep_lanes(struct vec *v, const struct vec_rep *r, LLVMTypeRef type)
{
    if (r->kind == VEC_LANES)
        return r->part[0];
    if (vec_members(type))
        return value_members(v, r, type);
    if (r->kind == VEC_UNIFORM)
        return LLVMIsPoison(r->part[0]) || LLVMIsUndef(r->part[0]) ? LLVMGetUndef(vec_wide(v, type))
                                                                   : vec_splat(v, r->part[0], VEC_WIDTH);
    LLVMValueRef row[VEC_ROWS_MAX] = {0};
    for (unsigned p = 0; p < v->rows; p++)
        row[p] = vec_splat(v, r->part[p], v->group);
    LLVMValueRef base = vec_concat(v, row, v->group * vec_count(type));
    if (!r->stride)
        return base;
    int pointer = LLVMGetTypeKind(value_element(type)) == LLVMPointerTypeKind;
    LLVMValueRef steps =
        r->source ? value_rises(v, r) : vec_iota(pointer ? v->l->i64 : type, VEC_WIDTH, v->group, r->stride);
    return pointer ? LLVMBuildGEP2(v->b, v->l->i8, base, &steps, 1, "") : LLVMBuildAdd(v->b, base, steps, "");
}

#define VALUE_WRITES_ARGUMENTS 2 /* llvm::MemoryEffects: stores to the arguments' memory, and no other */

static LLVMValueRef value_number64(struct vec *v, uint64_t n)
{
    return LLVMConstInt(v->l->i64, n, 0);
}

/* Returns the arguments of mtb_addresses from the third on: how addresses differ from a row's first one. */
static void value_rise_arguments(struct vec *v, const struct vec_rep *r, unsigned row, LLVMValueRef *args)
{
    LLVMValueRef first = value_number64(v, 0);
    int64_t step = 0, scale = 0;
    unsigned how = 64;
    if (r->source) {
        struct vec_value *x = &v->value[r->source - 1];
        struct vec_rep wide = vec_get_row(v, x->from);
        first = wide.part[row];
        step = wide.stride;
        scale = r->scale;
        how = LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(x->from, 0))) |
              (unsigned)(vec_extension(v, x->from) == LLVMSExt) << 8;
    }
    args[0] = first;
    args[1] = value_number64(v, (uint64_t)step);
    args[2] = value_number64(v, (uint64_t)scale);
    args[3] = value_number64(v, (uint64_t)(r->stride - scale * step));
    args[4] = vec_number(v, how);
}

LLVMValueRef vec_spill_addresses(struct vec *v, const struct vec_rep *r, LLVMTypeRef pointer)
{
    LLVMTypeRef wide = LLVMVectorType(v->l->i64, VEC_WIDTH), type;
    if (r->kind != VEC_ROWS)
        return vec_spill(v, LLVMBuildPtrToInt(v->b, vec_rep_lanes(v, r, pointer), wide, ""));
    LLVMValueRef f = mt_builtin(v->l, "mtb_addresses", &type), slot = vec_result_slot(v, v->l->i64);
    for (unsigned row = 0; row < v->rows; row++) {
        LLVMValueRef at = value_number64(v, (uint64_t)row * v->group), args[8];
        args[0] = LLVMBuildGEP2(v->b, v->l->i64, slot, &at, 1, "");
        args[1] = vec_number(v, v->group);
        args[2] = LLVMBuildPtrToInt(v->b, r->part[row], v->l->i64, "");
        value_rise_arguments(v, r, row, &args[3]);
        LLVMValueRef call = mt_build_call(v->l, f, args, 8);
        LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex,
                                 LLVMCreateEnumAttribute(v->context,
                                                         LLVMGetEnumAttributeKindForName("memory", 6),
                                                         VALUE_WRITES_ARGUMENTS));
    }
    return slot;
}

LLVMValueRef vec_lanes(struct vec *v, LLVMValueRef value)
{
    struct vec_rep r = vec_get(v, value);
    return vec_rep_lanes(v, &r, LLVMTypeOf(value));
}

LLVMValueRef vec_uniform(struct vec *v, LLVMValueRef value)
{
    return vec_get(v, value).part[0];
}

/* Stores the values that lanes of `edge` (NULL: all remaining, or all that will read it) bring. */
void vec_store_phi(struct vec *v, struct vec_value *phi, const struct vec_rep *rep, LLVMValueRef edge)
{
    if (phi->shape.kind == VEC_LANES) {
        LLVMTypeRef type = LLVMTypeOf(phi->from);
        LLVMValueRef lanes = vec_rep_lanes(v, rep, type);
        if (edge) {
            LLVMValueRef old = LLVMBuildLoad2(v->b, vec_wide(v, type), phi->keep[0], "");
            lanes = vec_merge(v, type, edge, lanes, old);
        }
        LLVMBuildStore(v->b, lanes, phi->keep[0]);
        return;
    }
    for (unsigned p = 0; p < value_parts(v, &phi->shape); p++)
        LLVMBuildStore(v->b, rep->part[rep->kind == VEC_ROWS ? p : 0], phi->keep[p]);
}

/* kill: the slot's present value is dead. */
void vec_load_phi(struct vec *v, struct vec_value *phi, int kill)
{
    struct vec_rep r = value_of_shape(&phi->shape);
    for (unsigned p = 0; p < value_parts(v, &phi->shape); p++) {
        LLVMTypeRef type = value_part_type(v, phi);
        r.part[p] = LLVMBuildLoad2(v->b, type, phi->keep[p], "");
        if (kill)
            LLVMBuildStore(v->b, LLVMGetPoison(type), phi->keep[p]);
    }
    vec_set(v, phi->from, r);
}
