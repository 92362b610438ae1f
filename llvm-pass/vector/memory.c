/* Warps as vectors: memory. Lanes with consecutive addresses are loaded and stored as a vector per row,
 * others gathered and scattered. If several lanes store to one place, the last one's value stays. */
#include "vector.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct access {
    LLVMValueRef inst, pointer, value; /* value: of a store */
    LLVMTypeRef type, element;
    unsigned count, align;
    int64_t size;
    struct vec_rep at;
    int fenced;
};

static void memory_fence(struct vec *v)
{
    static const char constraints[] = "~{memory}";
    LLVMTypeRef type = LLVMFunctionType(v->l->none, NULL, 0, 0);
    LLVMValueRef f =
        LLVMGetInlineAsm(type, "", 0, constraints, sizeof constraints - 1, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(v->b, type, f, NULL, 0, "");
}

static struct access memory_access(struct vec *v, LLVMValueRef inst)
{
    int store = LLVMGetInstructionOpcode(inst) == LLVMStore;
    struct access a = {.inst = inst, .value = store ? LLVMGetOperand(inst, 0) : NULL};
    a.pointer = LLVMGetOperand(inst, store);
    a.type = store ? LLVMTypeOf(a.value) : LLVMTypeOf(inst);
    a.element = LLVMGetTypeKind(a.type) == LLVMVectorTypeKind ? LLVMGetElementType(a.type) : a.type;
    a.count = vec_count(a.type);
    a.align = LLVMGetAlignment(inst);
    a.size = (int64_t)LLVMStoreSizeOfType(v->layout, a.element) * a.count;
    a.at = vec_get_row(v, a.pointer);
    if (a.at.source && a.at.stride != a.size)
        a.at = vec_get(v, a.pointer);
    /* Vectors have no volatile or atomic accesses; each lane's is one machine access all the same. */
    a.fenced = LLVMGetVolatile(inst) || LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic;
    return a;
}

static LLVMValueRef memory_align(struct vec *v, unsigned align)
{
    return vec_number(v, align ? align : 1);
}

/* Returns the address of a row's one access; a dummy if none of its lanes is active. */
static LLVMValueRef memory_row_place(struct vec *v, const struct access *a, unsigned row)
{
    if (!v->mask)
        return a->at.part[row];
    LLVMValueRef bits = vec_mask_bits(v, v->mask), here = vec_number(v, (uint64_t)0xffff << 16 * row);
    LLVMValueRef any =
        LLVMBuildICmp(v->b, LLVMIntNE, LLVMBuildAnd(v->b, bits, here, ""), vec_number(v, 0), "");
    LLVMValueRef nowhere = v->scratch;
    if (LLVMTypeOf(a->at.part[row]) != LLVMTypeOf(nowhere))
        nowhere = LLVMBuildAddrSpaceCast(v->b, nowhere, LLVMTypeOf(a->at.part[row]), "");
    return LLVMBuildSelect(v->b, any, a->at.part[row], nowhere, "");
}

static LLVMValueRef memory_row_mask(struct vec *v, unsigned row, unsigned each)
{
    return vec_replicate_mask(v, vec_row_of(v, vec_mask(v), row, v->group), v->group, each);
}

static LLVMValueRef memory_load_row(struct vec *v, const struct access *a, unsigned row)
{
    LLVMTypeRef type = LLVMVectorType(a->element, v->group * a->count);
    LLVMValueRef p = a->at.part[row];
    if (!v->mask) {
        LLVMValueRef load = LLVMBuildLoad2(v->b, type, p, "");
        LLVMSetAlignment(load, a->align);
        return load;
    }
    LLVMTypeRef types[] = {type, LLVMTypeOf(p)};
    LLVMValueRef args[] = {p, memory_align(v, a->align), memory_row_mask(v, row, a->count),
                           LLVMGetPoison(type)};
    return vec_intrinsic(v, "llvm.masked.load", types, 2, args, 4);
}

static void memory_store_row(struct vec *v, const struct access *a, LLVMValueRef lanes, unsigned row)
{
    LLVMValueRef p = a->at.part[row], part = vec_row_of(v, lanes, row, v->group * a->count);
    if (!v->mask) {
        LLVMSetAlignment(LLVMBuildStore(v->b, part, p), a->align);
        return;
    }
    LLVMTypeRef types[] = {LLVMTypeOf(part), LLVMTypeOf(p)};
    LLVMValueRef args[] = {part, p, memory_align(v, a->align), memory_row_mask(v, row, a->count)};
    vec_intrinsic(v, "llvm.masked.store", types, 2, args, 4);
}

/* Returns the addresses of element i of each lane's vector. */
static LLVMValueRef memory_element(struct vec *v, const struct access *a, LLVMValueRef pointers, unsigned i)
{
    LLVMValueRef offset = LLVMConstInt(v->l->i64, i * (uint64_t)(a->size / a->count), 0);
    return i ? LLVMBuildGEP2(v->b, v->l->i8, pointers, &offset, 1, "") : pointers;
}

static unsigned memory_element_align(const struct access *a)
{
    unsigned size = (unsigned)(a->size / a->count);
    return a->count == 1 || a->align < size ? a->align : size & -size;
}

static LLVMValueRef memory_gather(struct vec *v, const struct access *a)
{
    LLVMValueRef pointers = vec_rep_lanes(v, &a->at, LLVMTypeOf(a->pointer)), part[16] = {0};
    LLVMTypeRef type = LLVMVectorType(a->element, VEC_WIDTH);
    int mask[VEC_WIDTH * 16];
    for (unsigned i = 0; i < a->count; i++) {
        LLVMTypeRef types[] = {type, LLVMTypeOf(pointers)};
        LLVMValueRef args[] = {memory_element(v, a, pointers, i), memory_align(v, memory_element_align(a)),
                               vec_mask(v), LLVMGetPoison(type)};
        part[i] = vec_intrinsic(v, "llvm.masked.gather", types, 2, args, 4);
    }
    if (a->count == 1)
        return part[0];
    /* The elements of a lane lie side by side: j is element j % count of lane j / count. */
    unsigned n = VEC_WIDTH * a->count;
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(a->element, n));
    for (unsigned i = 0; i < a->count; i++) {
        for (unsigned j = 0; j < n; j++)
            mask[j] = j < VEC_WIDTH ? (int)j : -1;
        LLVMValueRef wide = vec_shuffle(v, part[i], NULL, mask, n);
        for (unsigned j = 0; j < n; j++)
            mask[j] = j % a->count == i ? (int)(n + j / a->count) : (int)j;
        all = vec_shuffle(v, all, wide, mask, n);
    }
    return all;
}

static void memory_scatter(struct vec *v, const struct access *a, LLVMValueRef lanes)
{
    LLVMValueRef pointers = vec_rep_lanes(v, &a->at, LLVMTypeOf(a->pointer));
    int mask[VEC_WIDTH];
    for (unsigned i = 0; i < a->count; i++) {
        for (unsigned j = 0; j < VEC_WIDTH; j++)
            mask[j] = (int)(j * a->count + i);
        LLVMValueRef part = a->count == 1 ? lanes : vec_shuffle(v, lanes, NULL, mask, VEC_WIDTH);
        LLVMTypeRef types[] = {LLVMTypeOf(part), LLVMTypeOf(pointers)};
        LLVMValueRef args[] = {part, memory_element(v, a, pointers, i),
                               memory_align(v, memory_element_align(a)), vec_mask(v)};
        vec_intrinsic(v, "llvm.masked.scatter", types, 2, args, 4);
    }
}

/* Returns 1 if the lanes' elements are not adjacent, or smaller than 32 bits and not all accessed: without
 * mask registers, LLVM would write 32 loads or stores, with as many branches. */
static int memory_wants_help(struct vec *v, const struct access *a)
{
    int apart =
        a->at.kind == VEC_LANES || (a->at.kind == VEC_ROWS && a->at.stride && a->at.stride != a->size);
    return !v->has_masks && (apart || (v->mask && a->at.stride && a->size / a->count < 4));
}

/* NULL: of an unsupported size. */
static LLVMValueRef memory_helper(struct vec *v, const struct access *a)
{
    char name[32];
    LLVMTypeRef type;
    snprintf(name, sizeof name, "mtb_%s_%u", a->value ? "scatter" : "gather", (unsigned)a->size);
    return mt_builtin(v->l, name, &type);
}

/* The addresses of lanes may already be in memory, for their record. */
static LLVMValueRef memory_addresses(struct vec *v, const struct access *a)
{
    if (v->bad_for == a->inst && a->at.kind == VEC_LANES && vec_keep_spilled(v, v->recorded, v->recorder))
        return v->recorded;
    if (a->at.kind == VEC_ROWS)
        return vec_spill_addresses(v, &a->at, LLVMTypeOf(a->pointer));
    return vec_spill(v, vec_lanes(v, a->pointer));
}

/* Calls the helper; inactive lanes get zeros. */
static void memory_help(struct vec *v, const struct access *a)
{
    LLVMValueRef f = memory_helper(v, a);
    if (!f) {
        vec_by_lane(v, a->inst);
        return;
    }
    if (a->fenced)
        memory_fence(v);
    LLVMValueRef args[] = {memory_addresses(v, a), vec_mask_bits(v, vec_mask(v)),
                           a->value ? vec_spill(v, vec_lanes(v, a->value)) : vec_result_slot(v, a->type)};
    mt_build_call(v->l, f, args, 3);
    if (!a->value)
        vec_set_lanes(v, a->inst, LLVMBuildLoad2(v->b, vec_wide(v, a->type), args[2], ""));
    if (a->fenced)
        memory_fence(v);
}

/* Sets v->mask to the lanes that are not bad. Returns the old one. They are computed as a number, as calls
 * take them: a number that becomes a vector is two instructions for each lane on AVX2. */
static LLVMValueRef memory_leave_out(struct vec *v)
{
    LLVMValueRef all = v->mask;
    v->left_bits = LLVMBuildAnd(v->b, vec_mask_bits(v, vec_mask(v)), LLVMBuildNot(v->b, v->bad, ""), "");
    v->mask = v->left = LLVMBuildBitCast(v->b, v->left_bits, v->mask_type, "");
    return all;
}

static LLVMValueRef memory_none_bad(struct vec *v)
{
    return LLVMBuildICmp(v->b, LLVMIntEQ, v->bad, vec_number(v, 0), "");
}

/* A test at run time: numbers without flags may wrap within a row, but rarely do. The builder is where
 * they do not, and no lane is bad; otherwise the access is done lane by lane. */
struct checked {
    LLVMBasicBlockRef row, lanes, after;
    LLVMValueRef by_lane; /* result of a load */
};

static struct checked memory_check_row(struct vec *v, const struct access *a)
{
    struct checked c = {.row = LLVMAppendBasicBlockInContext(v->context, v->to, ""),
                        .lanes = LLVMAppendBasicBlockInContext(v->context, v->to, ""),
                        .after = LLVMAppendBasicBlockInContext(v->context, v->to, "")};
    LLVMValueRef all = v->mask, is = vec_is_row(v, &a->at);
    int recorded = v->bad_for == a->inst;
    if (a->value)
        vec_get(v, a->value); /* here, for both ways */
    if (recorded)
        is = LLVMBuildAnd(v->b, is, memory_none_bad(v), "");
    LLVMValueRef branch = LLVMBuildCondBr(v->b, is, c.row, c.lanes);
    vec_set_seldom(v, branch);
    LLVMPositionBuilderAtEnd(v->b, c.lanes);
    if (recorded)
        memory_leave_out(v);
    memory_help(v, a);
    v->mask = all;
    c.by_lane = a->value ? NULL : vec_get(v, a->inst).part[0];
    LLVMBuildBr(v->b, c.after);
    c.lanes = LLVMGetInsertBlock(v->b);
    LLVMPositionBuilderAtEnd(v->b, c.row);
    return c;
}

static LLVMValueRef memory_load_rows(struct vec *v, const struct access *a)
{
    LLVMValueRef part[VEC_ROWS_MAX], lanes, both;
    struct checked c = {0};
    if (a->at.source)
        c = memory_check_row(v, a);
    for (unsigned row = 0; row < v->rows; row++)
        part[row] = memory_load_row(v, a, row);
    lanes = vec_concat(v, part, v->group * a->count);
    if (!c.after)
        return lanes;
    LLVMBuildBr(v->b, c.after);
    c.row = LLVMGetInsertBlock(v->b);
    LLVMPositionBuilderAtEnd(v->b, c.after);
    both = LLVMBuildPhi(v->b, LLVMTypeOf(lanes), "");
    LLVMAddIncoming(both, &lanes, &c.row, 1);
    LLVMAddIncoming(both, &c.by_lane, &c.lanes, 1);
    return both;
}

/* ---- accesses with bad lanes (MEMTRACE_CHECK) ---- The preceding record call has returned these. The way
 * without them is hardly ever taken, so it is short: one call that goes from lane to lane. */

struct without {
    LLVMBasicBlockRef good, after, from;
    struct vec_rep rep; /* result of a load there */
};

/* Handles a load of one value per row. */
static void memory_without_rows(struct vec *v, const struct access *a)
{
    struct vec_rep r = {.kind = VEC_ROWS};
    LLVMBuildStore(v->b, LLVMConstNull(a->type), v->scratch);
    for (unsigned row = 0; row < v->rows; row++) {
        r.part[row] = LLVMBuildLoad2(v->b, a->type, memory_row_place(v, a, row), "");
        LLVMSetAlignment(r.part[row], 1);
    }
    vec_set(v, a->inst, r);
}

/* Handles rows with adjacent lanes, or stores of one value per row. */
static void memory_without_row(struct vec *v, const struct access *a)
{
    LLVMTypeRef type;
    LLVMValueRef f = mt_builtin(v->l, a->value ? "mtb_store_rows" : "mtb_load_rows", &type), base[2] = {0};
    for (unsigned i = 0; i < v->rows; i++)
        base[i] = LLVMBuildPtrToInt(v->b, a->at.part[i], v->l->i64, "");
    if (v->rows == 1)
        base[1] = LLVMBuildAdd(v->b, base[0],
                               LLVMConstInt(v->l->i64, (uint64_t)a->at.stride * VEC_WIDTH / 2, 1), "");
    LLVMValueRef args[] = {base[0],
                           base[1],
                           LLVMConstInt(v->l->i64, (uint64_t)a->at.stride, 1),
                           vec_mask_bits(v, v->mask),
                           vec_number(v, (uint64_t)a->size),
                           a->value ? vec_spill(v, vec_lanes(v, a->value)) : vec_result_slot(v, a->type)};
    mt_build_call(v->l, f, args, 6);
    if (!a->value)
        vec_set_lanes(v, a->inst, LLVMBuildLoad2(v->b, vec_wide(v, a->type), args[5], ""));
}

static void memory_without_lanes(struct vec *v, const struct access *a)
{
    LLVMTypeRef type;
    if (memory_helper(v, a)) {
        memory_help(v, a);
    } else { /* unsupported size */
        LLVMValueRef f = mt_builtin(v->l, "__mt_warp_end", &type);
        mt_build_call(v->l, f, &v->bad, 1);
    }
}

static void memory_without_value(struct vec *v, const struct access *a)
{
    int rows = a->at.kind == VEC_ROWS && !a->at.source;
    if (a->at.kind == VEC_UNIFORM && a->value)
        return; /* all are bad */
    if (a->at.kind == VEC_UNIFORM)
        vec_set_uniform(v, a->inst, LLVMConstNull(a->type));
    else if (rows && !a->at.stride && !a->value)
        memory_without_rows(v, a);
    else if (rows && (!a->at.stride || a->at.stride == a->size))
        memory_without_row(v, a);
    else
        memory_without_lanes(v, a);
}

/* Emits the rare way; the builder is where no lane is bad. */
static struct without memory_without(struct vec *v, const struct access *a)
{
    struct without w = {.good = LLVMAppendBasicBlockInContext(v->context, v->to, ""),
                        .from = LLVMAppendBasicBlockInContext(v->context, v->to, ""),
                        .after = LLVMAppendBasicBlockInContext(v->context, v->to, "")};
    vec_set_seldom(v, LLVMBuildCondBr(v->b, memory_none_bad(v), w.good, w.from));
    LLVMPositionBuilderAtEnd(v->b, w.from);
    LLVMValueRef all = memory_leave_out(v);
    memory_without_value(v, a);
    w.rep = a->value ? w.rep : vec_get(v, a->inst);
    v->mask = all;
    LLVMBuildBr(v->b, w.after);
    w.from = LLVMGetInsertBlock(v->b);
    LLVMPositionBuilderAtEnd(v->b, w.good);
    return w;
}

/* Joins both ways after the access of all lanes. */
static void memory_with_all(struct vec *v, const struct access *a, struct without *w)
{
    struct vec_rep rep = a->value ? w->rep : vec_get(v, a->inst);
    LLVMBuildBr(v->b, w->after);
    w->good = LLVMGetInsertBlock(v->b);
    LLVMPositionBuilderAtEnd(v->b, w->after);
    for (unsigned i = 0; i < VEC_ROWS_MAX && rep.part[i]; i++) {
        LLVMValueRef both = LLVMBuildPhi(v->b, LLVMTypeOf(rep.part[i]), "");
        LLVMAddIncoming(both, &rep.part[i], &w->good, 1);
        LLVMAddIncoming(both, &w->rep.part[i], &w->from, 1);
        rep.part[i] = both;
    }
    if (!a->value)
        vec_set(v, a->inst, rep);
}

static void vector_memory_load(struct vec *v, LLVMValueRef load);
/* MEMTRACE_CHECK: looks whether lanes that store to one address have different values. */
static void memory_check_same(struct vec *v, const struct access *a, LLVMValueRef lanes, LLVMValueRef bits)
{
    LLVMTypeRef type;
    LLVMValueRef at = a->at.part[0], f;
    if (v->recorded_as != a->inst || !(f = mt_builtin(v->l, "mtb_store_same", &type)))
        return;
    if (LLVMTypeOf(at) != v->l->ptr)
        at = LLVMBuildAddrSpaceCast(v->b, at, v->l->ptr, "");
    LLVMValueRef args[] = {at, bits, vec_spill(v, lanes), vec_number(v, (uint64_t)a->size)};
    mt_build_call(v->l, f, args, 4);
}

static void vector_memory_store(struct vec *v, LLVMValueRef store);

/* Returns 1 if the access skips bad lanes by itself. */
static int memory_knows_bad(struct vec *v, const struct access *a)
{
    return memory_helper(v, a) &&
           (memory_wants_help(v, a) || (a->at.kind == VEC_ROWS && a->at.source && a->at.stride == a->size));
}

static void memory_emit(struct vec *v, LLVMValueRef inst, void (*emit)(struct vec *, LLVMValueRef))
{
    struct access a = memory_access(v, inst);
    if (v->bad_for != inst || memory_knows_bad(v, &a)) {
        emit(v, inst);
        return;
    }
    if (a.value)
        vec_get(v, a.value); /* here, for both ways */
    struct without w = memory_without(v, &a);
    emit(v, inst);
    memory_with_all(v, &a, &w);
}

void vec_emit_load(struct vec *v, LLVMValueRef load)
{
    memory_emit(v, load, vector_memory_load);
}

void vec_emit_store(struct vec *v, LLVMValueRef store)
{
    memory_emit(v, store, vector_memory_store);
}

static void memory_help_left(struct vec *v, const struct access *a)
{
    LLVMValueRef all = v->mask;
    if (v->bad_for == a->inst && memory_helper(v, a))
        memory_leave_out(v);
    memory_help(v, a);
    v->mask = all;
}

static void vector_memory_load(struct vec *v, LLVMValueRef load)
{
    struct access a = memory_access(v, load);
    if (a.at.kind == VEC_UNIFORM) {
        vec_emit_copy(v, load);
        return;
    }
    if (memory_wants_help(v, &a)) {
        memory_help_left(v, &a);
        return;
    }
    if (a.fenced)
        memory_fence(v);
    if (a.at.kind == VEC_ROWS && !a.at.stride) {
        struct vec_rep r = {.kind = VEC_ROWS};
        for (unsigned row = 0; row < v->rows; row++) {
            r.part[row] = LLVMBuildLoad2(v->b, a.type, memory_row_place(v, &a, row), "");
            LLVMSetAlignment(r.part[row], a.align < 16 ? a.align : 16);
        }
        vec_set(v, load, r);
    } else if (a.at.kind == VEC_ROWS && a.at.stride == a.size) {
        vec_set_lanes(v, load, memory_load_rows(v, &a));
    } else {
        vec_set_lanes(v, load, memory_gather(v, &a));
    }
    if (a.fenced)
        memory_fence(v);
}

/* Returns the value of the last of some lanes (bits, not 0). */
static LLVMValueRef memory_last(struct vec *v, LLVMValueRef lanes, LLVMTypeRef type, LLVMValueRef bits)
{
    LLVMValueRef args[] = {bits, LLVMConstInt(v->l->i1, 0, 0)};
    LLVMValueRef zeros = vec_intrinsic(v, "llvm.ctlz", &v->l->i32, 1, args, 2);
    LLVMValueRef lane =
        LLVMBuildAnd(v->b, LLVMBuildSub(v->b, vec_number(v, 31), zeros, ""), vec_number(v, 31), "");
    return vec_lane_of(v, vec_spill(v, lanes), type, lane);
}

static void memory_store_rows(struct vec *v, const struct access *a, const struct vec_rep *value)
{
    for (unsigned row = 0; row < v->rows; row++) {
        LLVMValueRef bits = LLVMBuildAnd(v->b, vec_mask_bits(v, vec_mask(v)),
                                         vec_number(v, v->rows == 1 ? ~0u : 0xffffu << 16 * row), "");
        LLVMValueRef what = value->kind == VEC_LANES ? memory_last(v, value->part[0], a->type, bits)
                                                     : value->part[value->kind == VEC_ROWS ? row : 0];
        LLVMSetAlignment(LLVMBuildStore(v->b, what, memory_row_place(v, a, row)),
                         a->align < 16 ? a->align : 16);
    }
}

static void memory_store_lanes(struct vec *v, const struct access *a, LLVMValueRef lanes)
{
    struct checked c = {0};
    if (a->at.source)
        c = memory_check_row(v, a);
    for (unsigned row = 0; row < v->rows; row++)
        memory_store_row(v, a, lanes, row);
    if (!c.after)
        return;
    LLVMBuildBr(v->b, c.after);
    LLVMPositionBuilderAtEnd(v->b, c.after);
}

static void vector_memory_store(struct vec *v, LLVMValueRef store)
{
    struct access a = memory_access(v, store);
    if (memory_wants_help(v, &a)) {
        memory_help_left(v, &a);
        return;
    }
    struct vec_rep value = vec_get(v, a.value);
    if (value.kind == VEC_ROWS && value.stride)
        value = (struct vec_rep){.kind = VEC_LANES, .part = {vec_rep_lanes(v, &value, a.type)}};
    if (a.at.kind == VEC_UNIFORM) {
        LLVMValueRef copy = LLVMInstructionClone(store);
        LLVMValueRef what = value.part[0];
        if (value.kind != VEC_UNIFORM) {
            LLVMValueRef lanes = vec_rep_lanes(v, &value, a.type), bits = vec_mask_bits(v, vec_mask(v));
            memory_check_same(v, &a, lanes, bits);
            what = memory_last(v, lanes, a.type, bits);
        }
        LLVMSetOperand(copy, 0, what);
        LLVMSetOperand(copy, 1, a.at.part[0]);
        LLVMInsertIntoBuilder(v->b, copy);
        return;
    }
    if (a.fenced)
        memory_fence(v);
    if (a.at.kind == VEC_ROWS && !a.at.stride) {
        memory_store_rows(v, &a, &value);
    } else if (a.at.kind == VEC_ROWS && a.at.stride == a.size) {
        memory_store_lanes(v, &a, vec_rep_lanes(v, &value, a.type));
    } else {
        memory_scatter(v, &a, vec_rep_lanes(v, &value, a.type));
    }
    if (a.fenced)
        memory_fence(v);
    if (LLVMGetOrdering(store) == LLVMAtomicOrderingSequentiallyConsistent)
        LLVMBuildFence(v->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
}

/* Makes 32 consecutive copies of a thread's variable. */
void vec_emit_alloca(struct vec *v, LLVMValueRef alloca)
{
    struct vec_rep r = {.kind = VEC_ROWS};
    r.stride = vec_alloca_step(v, alloca);
    LLVMValueRef slot = vec_slot(v, LLVMArrayType2(v->l->i8, (uint64_t)r.stride * VEC_WIDTH));
    LLVMSetAlignment(slot, LLVMGetAlignment(alloca) > 64 ? LLVMGetAlignment(alloca) : 64);
    for (unsigned row = 0; row < v->rows; row++) {
        LLVMValueRef at = LLVMConstInt(v->l->i64, (uint64_t)r.stride * row * v->group, 0);
        r.part[row] = LLVMBuildGEP2(v->b, v->l->i8, slot, &at, 1, "");
        if (LLVMTypeOf(r.part[row]) != LLVMTypeOf(alloca))
            r.part[row] = LLVMBuildAddrSpaceCast(v->b, r.part[row], LLVMTypeOf(alloca), "");
    }
    vec_set(v, alloca, r);
}

/* Returns 1 for an atomic at one address with an unused result: one operation on the lanes' reduction. */
static int memory_reduces(struct vec *v, LLVMValueRef rmw)
{
    static const struct {
        LLVMAtomicRMWBinOp op;
        const char *name;
    } how[] = {{LLVMAtomicRMWBinOpAdd, "llvm.vector.reduce.add"},
               {LLVMAtomicRMWBinOpAnd, "llvm.vector.reduce.and"},
               {LLVMAtomicRMWBinOpOr, "llvm.vector.reduce.or"},
               {LLVMAtomicRMWBinOpXor, "llvm.vector.reduce.xor"},
               {LLVMAtomicRMWBinOpMax, "llvm.vector.reduce.smax"},
               {LLVMAtomicRMWBinOpMin, "llvm.vector.reduce.smin"},
               {LLVMAtomicRMWBinOpUMax, "llvm.vector.reduce.umax"},
               {LLVMAtomicRMWBinOpUMin, "llvm.vector.reduce.umin"}};
    LLVMTypeRef type = LLVMTypeOf(rmw);
    LLVMAtomicRMWBinOp op = LLVMGetAtomicRMWBinOp(rmw);
    if (LLVMGetFirstUse(rmw) || LLVMGetTypeKind(type) != LLVMIntegerTypeKind ||
        vec_get(v, LLVMGetOperand(rmw, 0)).kind != VEC_UNIFORM)
        return 0;
    for (unsigned i = 0; i < sizeof how / sizeof *how; i++) {
        if (how[i].op != op)
            continue;
        LLVMValueRef lanes = vec_lanes(v, LLVMGetOperand(rmw, 1)), neutral;
        uint64_t top = (uint64_t)1 << (LLVMGetIntTypeWidth(type) - 1);
        neutral = op == LLVMAtomicRMWBinOpAnd || op == LLVMAtomicRMWBinOpUMin ? LLVMConstAllOnes(type)
                  : op == LLVMAtomicRMWBinOpMax                               ? LLVMConstInt(type, top, 0)
                  : op == LLVMAtomicRMWBinOpMin                               ? LLVMConstInt(type, top - 1, 0)
                                                                              : LLVMConstNull(type);
        if (v->mask)
            lanes = LLVMBuildSelect(v->b, v->mask, lanes, vec_splat(v, neutral, VEC_WIDTH), "");
        LLVMTypeRef wide = LLVMTypeOf(lanes);
        LLVMValueRef one = vec_intrinsic(v, how[i].name, &wide, 1, &lanes, 1),
                     copy = LLVMInstructionClone(rmw);
        LLVMSetOperand(copy, 0, vec_uniform(v, LLVMGetOperand(rmw, 0)));
        LLVMSetOperand(copy, 1, one);
        LLVMInsertIntoBuilder(v->b, copy);
        return 1;
    }
    return 0;
}

static void memory_atomic(struct vec *v, LLVMValueRef atomic)
{
    if (!LLVMIsAAtomicRMWInst(atomic) || !memory_reduces(v, atomic))
        vec_by_lane(v, atomic);
}

/* Skips bad lanes, which get zeros. */
static void memory_atomic_without(struct vec *v, LLVMValueRef atomic)
{
    LLVMBasicBlockRef before, some = LLVMAppendBasicBlockInContext(v->context, v->to, ""),
                              after = LLVMAppendBasicBlockInContext(v->context, v->to, "");
    for (int i = 0; i < LLVMGetNumOperands(atomic); i++)
        vec_get(v, LLVMGetOperand(atomic, (unsigned)i)); /* here, for both ways */
    LLVMValueRef all = memory_leave_out(v), left = v->mask, one, both;
    LLVMValueRef any = LLVMBuildICmp(v->b, LLVMIntNE, vec_mask_bits(v, left), vec_number(v, 0), "");
    LLVMTypeRef type = LLVMTypeOf(atomic);
    int used = LLVMGetFirstUse(atomic) != NULL;
    before = LLVMGetInsertBlock(v->b);
    vec_set_seldom(v, LLVMBuildCondBr(v->b, any, some, after));
    LLVMPositionBuilderAtEnd(v->b, some);
    memory_atomic(v, atomic);
    if (used) {
        LLVMValueRef none = LLVMConstNull(vec_wide(v, type));
        one = vec_merge(v, type, left, vec_lanes(v, atomic), none);
    }
    some = LLVMGetInsertBlock(v->b);
    LLVMBuildBr(v->b, after);
    LLVMPositionBuilderAtEnd(v->b, after);
    v->mask = all;
    if (!used)
        return;
    both = LLVMBuildPhi(v->b, LLVMTypeOf(one), "");
    LLVMAddIncoming(both, &one, &some, 1);
    one = LLVMConstNull(LLVMTypeOf(one));
    LLVMAddIncoming(both, &one, &before, 1);
    vec_set_lanes(v, atomic, both);
}

void vec_emit_atomic(struct vec *v, LLVMValueRef atomic)
{
    if (v->bad_for == atomic)
        memory_atomic_without(v, atomic);
    else
        memory_atomic(v, atomic);
}
