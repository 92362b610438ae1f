/* Warps as vectors: values of a lane computed from that lane's operands alone. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>

int vec_is_plain_call(LLVMValueRef call)
{
    LLVMValueRef callee = mt_callee(call);
    unsigned id = callee ? LLVMGetIntrinsicID(callee) : 0;
    return id && mt_shim_vector_intrinsic(id, -2);
}

/* Repeats the instruction on other operands: once for all lanes. */
void vec_emit_copy(struct vec *v, LLVMValueRef inst)
{
    LLVMValueRef copy = LLVMInstructionClone(inst);
    for (int i = 0, n = LLVMGetNumOperands(inst); i < n; i++)
        LLVMSetOperand(copy, (unsigned)i, vec_uniform(v, LLVMGetOperand(inst, (unsigned)i)));
    LLVMInsertIntoBuilder(v->b, copy);
    if (LLVMGetTypeKind(LLVMTypeOf(inst)) != LLVMVoidTypeKind)
        vec_set_uniform(v, inst, copy);
}

/* Returns a phi's first number, extended, counted back from the first active lane, as the numbers of
 * inactive ones may wrap. */
static LLVMValueRef plain_wider_here(struct vec *v, LLVMValueRef first, LLVMTypeRef type, LLVMOpcode how,
                                     int64_t stride, unsigned row)
{
    LLVMTypeRef narrow = LLVMTypeOf(first);
    if (!v->mask)
        return LLVMBuildCast(v->b, how, first, type, "");
    LLVMValueRef bits = vec_mask_bits(v, v->mask),
                 args[] = {LLVMBuildLShr(v->b, bits, vec_number(v, row * v->group), ""),
                           LLVMConstInt(v->l->i1, 0, 0)};
    LLVMValueRef lane = vec_intrinsic(v, "llvm.cttz", &v->l->i32, 1, args, 2),
                 step = LLVMConstInt(v->l->i64, (uint64_t)stride, 1);
    LLVMValueRef back = LLVMBuildMul(v->b, LLVMBuildZExt(v->b, lane, v->l->i64, ""), step, "");
    LLVMValueRef here = LLVMBuildAdd(v->b, first, LLVMBuildIntCast2(v->b, back, narrow, 1, ""), "");
    return LLVMBuildSub(v->b, LLVMBuildCast(v->b, how, here, type, ""),
                        LLVMBuildIntCast2(v->b, back, type, 1, ""), "");
}

/* Returns the row's first number without wrapping, computed from that of its operands. The first lane's
 * own need not be that number: the lane may be inactive, and even if active, its flags need not hold as
 * long as the number is unused. */
static LLVMValueRef plain_true(struct vec *v, LLVMValueRef value, LLVMTypeRef type, LLVMOpcode how,
                               unsigned row)
{
    struct vec_rep r = vec_get_row(v, value);
    LLVMValueRef first = r.part[r.kind == VEC_ROWS ? row : 0];
    if (vec_shape_of(v, value).extend & (how == LLVMSExt ? VEC_SIGNED_ALL : VEC_UNSIGNED_ALL))
        return LLVMBuildCast(v->b, how, first, type, "");
    if (!vec_is_made_of(v, value, how))
        return plain_wider_here(v, first, type, how, r.stride, row);
    LLVMOpcode op = LLVMGetInstructionOpcode(value);
    if (op == LLVMSExt || op == LLVMZExt)
        return plain_true(v, LLVMGetOperand(value, 0), type, vec_extension(v, value), row);
    return LLVMBuildBinOp(v->b, op == LLVMOr ? LLVMAdd : op,
                          plain_true(v, LLVMGetOperand(value, 0), type, how, row),
                          plain_true(v, LLVMGetOperand(value, 1), type, how, row), "");
}

static LLVMValueRef plain_wider(struct vec *v, LLVMValueRef inst, LLVMValueRef first, unsigned row)
{
    LLVMOpcode how = vec_extension(v, inst);
    if (!vec_find(v, inst)->shape.source)
        return plain_true(v, LLVMGetOperand(inst, 0), LLVMTypeOf(inst), how, row);
    if (!mt_shim_is_certain(first))
        first = LLVMBuildFreeze(v->b, first, ""); /* branches depend on it */
    return LLVMBuildCast(v->b, how, first, LLVMTypeOf(inst), "");
}

/* Computes once per row, on the row's first lane, which may be inactive, so flags are dropped. */
void vec_emit_rows(struct vec *v, LLVMValueRef inst)
{
    struct vec_shape s = vec_find(v, inst)->shape;
    struct vec_rep r = {.kind = s.kind, .stride = s.stride, .source = s.source, .scale = s.scale};
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    int n = LLVMGetNumOperands(inst);
    struct vec_rep *in = calloc((size_t)n + 1, sizeof *in);
    if (!in)
        return;
    for (int i = 0; i < n; i++)
        in[i] = vec_get_row(v, LLVMGetOperand(inst, (unsigned)i));
    for (unsigned p = 0; p < v->rows; p++) {
        LLVMValueRef first = in[0].part[in[0].kind == VEC_ROWS ? p : 0];
        if ((op == LLVMZExt || op == LLVMSExt) && s.stride) {
            r.part[p] = plain_wider(v, inst, first, p);
            continue;
        }
        if (op == LLVMOr && LLVMGetIsDisjoint(inst)) {
            r.part[p] = LLVMBuildAdd(v->b, first, in[1].part[in[1].kind == VEC_ROWS ? p : 0], "");
            continue;
        }
        LLVMValueRef copy = LLVMInstructionClone(inst);
        for (int i = 0; i < n; i++)
            LLVMSetOperand(copy, (unsigned)i, in[i].part[in[i].kind == VEC_ROWS ? p : 0]);
        mt_shim_drop_promises(copy);
        LLVMInsertIntoBuilder(v->b, copy);
        r.part[p] = copy;
    }
    free(in);
    vec_set(v, inst, r);
}

/* Returns 1 if it has operands that are rows. Operands of one row may have a result that is the same in
 * all lanes. */
int vec_takes_rows(const struct vec *v, LLVMValueRef inst)
{
    for (int i = 0, n = LLVMGetNumOperands(inst); i < n; i++) {
        struct vec_value *x = vec_find(v, LLVMGetOperand(inst, (unsigned)i));
        if (x && x->shape.kind == VEC_ROWS)
            return 1;
    }
    return 0;
}

static void plain_flags(LLVMValueRef to, LLVMValueRef from)
{
    if (LLVMIsAInstruction(to))
        mt_shim_copy_flags(to, from);
}

/* Replaces a zero divisor in inactive lanes by one. */
static LLVMValueRef plain_divisor(struct vec *v, LLVMValueRef by)
{
    LLVMTypeRef type = LLVMTypeOf(by);
    if (!v->mask)
        return by;
    unsigned each = LLVMGetVectorSize(type) / VEC_WIDTH;
    LLVMValueRef one = vec_splat(v, LLVMConstInt(LLVMGetElementType(type), 1, 0), VEC_WIDTH * each);
    return LLVMBuildSelect(v->b, vec_replicate_mask(v, v->mask, VEC_WIDTH, each), by, one, "");
}

/* Divides 32-bit integers through doubles, which hold them exactly: vectors have no integer division. */
static LLVMValueRef plain_divide(struct vec *v, LLVMOpcode op, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    int sign = op == LLVMSDiv || op == LLVMSRem, rest = op == LLVMURem || op == LLVMSRem;
    if (LLVMGetIntTypeWidth(LLVMGetElementType(type)) != 32 ||
        (LLVMIsConstant(b) && LLVMIsAConstantDataVector(b)))
        return LLVMBuildBinOp(v->b, op, a, b, "");
    LLVMTypeRef wide = LLVMVectorType(LLVMDoubleTypeInContext(v->context), LLVMGetVectorSize(type));
    LLVMOpcode to = sign ? LLVMSIToFP : LLVMUIToFP;
    LLVMValueRef q =
        LLVMBuildFDiv(v->b, LLVMBuildCast(v->b, to, a, wide, ""), LLVMBuildCast(v->b, to, b, wide, ""), "");
    q = LLVMBuildCast(v->b, sign ? LLVMFPToSI : LLVMFPToUI, q, type, "");
    return rest ? LLVMBuildSub(v->b, a, LLVMBuildMul(v->b, q, b, ""), "") : q;
}

static LLVMValueRef plain_binary(struct vec *v, LLVMValueRef inst, LLVMOpcode op)
{
    LLVMValueRef a = vec_lanes(v, LLVMGetOperand(inst, 0)), b = vec_lanes(v, LLVMGetOperand(inst, 1));
    if (op == LLVMUDiv || op == LLVMSDiv || op == LLVMURem || op == LLVMSRem)
        return plain_divide(v, op, a, plain_divisor(v, b));
    LLVMValueRef r = LLVMBuildBinOp(v->b, op, a, b, "");
    plain_flags(r, inst);
    return r;
}

/* Shuffles equally in each lane: element j of the result is element mask[j] of a or b. */
static LLVMValueRef plain_shuffle(struct vec *v, LLVMValueRef a, LLVMValueRef b, const int *mask, unsigned n,
                                  unsigned na, unsigned nb)
{
    int index[VEC_WIDTH * 64];
    for (unsigned i = 0; i < VEC_WIDTH * n; i++) {
        unsigned lane = i / n;
        int m = mask[i % n];
        index[i] = m < 0         ? -1
                   : m < (int)na ? (int)(lane * na) + m
                                 : (int)(VEC_WIDTH * na + lane * nb) + m - (int)na;
    }
    return vec_shuffle(v, a, b, index, VEC_WIDTH * n);
}

static LLVMValueRef plain_extract(struct vec *v, LLVMValueRef inst)
{
    LLVMValueRef from = LLVMGetOperand(inst, 0);
    int at = (int)LLVMConstIntGetZExtValue(LLVMGetOperand(inst, 1));
    return plain_shuffle(v, vec_lanes(v, from), NULL, &at, 1, vec_count(LLVMTypeOf(from)), 0);
}

static LLVMValueRef plain_insert(struct vec *v, LLVMValueRef inst)
{
    LLVMValueRef into = vec_lanes(v, LLVMGetOperand(inst, 0)), what = vec_lanes(v, LLVMGetOperand(inst, 1));
    unsigned n = vec_count(LLVMTypeOf(inst)),
             at = (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(inst, 2));
    int spread[64], mask[64];
    for (unsigned i = 0; i < n; i++) {
        spread[i] = i == at ? 0 : -1;
        mask[i] = (int)(i == at ? n + at : i);
    }
    what = plain_shuffle(v, what, NULL, spread, n, 1, 0);
    return plain_shuffle(v, into, what, mask, n, n, n);
}

static LLVMValueRef plain_mix(struct vec *v, LLVMValueRef inst)
{
    int mask[64];
    unsigned n = LLVMGetNumMaskElements(inst);
    for (unsigned i = 0; i < n; i++)
        mask[i] = LLVMGetMaskValue(inst, i);
    LLVMValueRef a = LLVMGetOperand(inst, 0), b = LLVMGetOperand(inst, 1);
    return plain_shuffle(v, vec_lanes(v, a), vec_lanes(v, b), mask, n, vec_count(LLVMTypeOf(a)),
                         vec_count(LLVMTypeOf(b)));
}

static LLVMValueRef plain_address(struct vec *v, LLVMValueRef gep)
{
    LLVMValueRef index[32];
    int n = LLVMGetNumOperands(gep);
    struct vec_rep base = vec_get(v, LLVMGetOperand(gep, 0));
    LLVMValueRef from =
        base.kind == VEC_UNIFORM ? base.part[0] : vec_rep_lanes(v, &base, LLVMTypeOf(LLVMGetOperand(gep, 0)));
    for (int i = 1; i < n; i++) {
        LLVMValueRef at = LLVMGetOperand(gep, (unsigned)i);
        struct vec_rep r = vec_get(v, at);
        index[i - 1] = r.kind == VEC_UNIFORM ? r.part[0] : vec_rep_lanes(v, &r, LLVMTypeOf(at));
    }
    return (LLVMIsInBounds(gep) ? LLVMBuildInBoundsGEP2 : LLVMBuildGEP2)(
        v->b, LLVMGetGEPSourceElementType(gep), from, index, (unsigned)n - 1, "");
}

static LLVMValueRef plain_select(struct vec *v, LLVMValueRef inst)
{
    LLVMValueRef condition = LLVMGetOperand(inst, 0);
    struct vec_rep c = vec_get(v, condition);
    LLVMValueRef a = vec_lanes(v, LLVMGetOperand(inst, 1)), b = vec_lanes(v, LLVMGetOperand(inst, 2)), flags;
    if (c.kind == VEC_UNIFORM && vec_count(LLVMTypeOf(condition)) == 1) {
        flags = c.part[0];
    } else {
        flags = vec_rep_lanes(v, &c, LLVMTypeOf(condition));
        if (vec_members(LLVMTypeOf(inst)))
            return vec_merge(v, LLVMTypeOf(inst), flags, a, b);
        if (vec_count(LLVMTypeOf(condition)) == 1)
            flags = vec_replicate_mask(v, flags, VEC_WIDTH, vec_count(LLVMTypeOf(inst)));
    }
    LLVMValueRef r = LLVMBuildSelect(v->b, flags, a, b, "");
    plain_flags(r, inst);
    return r;
}

/* Sets the member of a member. */
static LLVMValueRef plain_put(struct vec *v, LLVMValueRef into, LLVMValueRef what, const unsigned *index,
                              unsigned n)
{
    if (n > 1)
        what = plain_put(v, LLVMBuildExtractValue(v->b, into, *index, ""), what, index + 1, n - 1);
    return LLVMBuildInsertValue(v->b, into, what, *index, "");
}

/* Calls an intrinsic on vectors. */
static LLVMValueRef plain_call(struct vec *v, LLVMValueRef call)
{
    unsigned id = LLVMGetIntrinsicID(mt_callee(call)), n = LLVMGetNumArgOperands(call), ntypes = 0;
    LLVMValueRef args[8];
    LLVMTypeRef types[8];
    if (mt_shim_vector_intrinsic(id, -1) & MT_VECTOR_OVERLOADED)
        types[ntypes++] = vec_wide(v, LLVMTypeOf(call));
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef a = LLVMGetOperand(call, i);
        int how = mt_shim_vector_intrinsic(id, (int)i);
        args[i] = how & MT_VECTOR_SCALAR ? vec_uniform(v, a) : vec_lanes(v, a);
        if (how & MT_VECTOR_OVERLOADED)
            types[ntypes++] = LLVMTypeOf(args[i]);
    }
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(v->module, id, types, ntypes);
    LLVMValueRef r = LLVMBuildCall2(v->b, LLVMGlobalGetValueType(f), f, args, n, "");
    plain_flags(r, call);
    return r;
}

void vec_emit_plain(struct vec *v, LLVMValueRef inst)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    LLVMTypeRef wide = vec_wide(v, LLVMTypeOf(inst));
    LLVMValueRef r, first = vec_lanes(v, LLVMGetOperand(inst, 0));
    switch (op) {
    case LLVMICmp:
        r = LLVMBuildICmp(v->b, LLVMGetICmpPredicate(inst), first, vec_lanes(v, LLVMGetOperand(inst, 1)), "");
        break;
    case LLVMFCmp:
        r = LLVMBuildFCmp(v->b, LLVMGetFCmpPredicate(inst), first, vec_lanes(v, LLVMGetOperand(inst, 1)), "");
        plain_flags(r, inst);
        break;
    case LLVMFNeg:
        r = LLVMBuildFNeg(v->b, first, "");
        plain_flags(r, inst);
        break;
    case LLVMSelect:
        r = plain_select(v, inst);
        break;
    case LLVMGetElementPtr:
        r = plain_address(v, inst);
        break;
    case LLVMFreeze:
        r = LLVMBuildFreeze(v->b, first, "");
        break;
    case LLVMExtractElement:
        r = plain_extract(v, inst);
        break;
    case LLVMInsertElement:
        r = plain_insert(v, inst);
        break;
    case LLVMShuffleVector:
        r = plain_mix(v, inst);
        break;
    case LLVMExtractValue:
        r = first;
        for (unsigned i = 0; i < LLVMGetNumIndices(inst); i++)
            r = LLVMBuildExtractValue(v->b, r, LLVMGetIndices(inst)[i], "");
        break;
    case LLVMInsertValue:
        r = plain_put(v, first, vec_lanes(v, LLVMGetOperand(inst, 1)), LLVMGetIndices(inst),
                      LLVMGetNumIndices(inst));
        break;
    case LLVMCall:
        r = plain_call(v, inst);
        break;
    default:
        if (LLVMIsACastInst(inst)) {
            r = LLVMBuildCast(v->b, op, first, wide, "");
            plain_flags(r, inst);
        } else {
            r = plain_binary(v, inst, op);
        }
    }
    vec_set_lanes(v, inst, r);
}

static int plain_has_wide(struct vec *v, LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind && LLVMGetVectorSize(type) > 16)
        return 0;
    return vec_wide(v, type) != NULL;
}

/* Returns 1 if the instruction can be emitted; asked before any code is made. */
int vec_plain_ok(struct vec *v, LLVMValueRef inst)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    const struct vec_value *x = vec_find(v, inst);
    int uniform = x->shape.kind == VEC_UNIFORM, ok = 1;
    switch (op) {
    case LLVMExtractElement:
        ok = uniform || LLVMIsAConstantInt(LLVMGetOperand(inst, 1));
        break;
    case LLVMInsertElement:
        ok = uniform || LLVMIsAConstantInt(LLVMGetOperand(inst, 2));
        break;
    case LLVMGetElementPtr:
        ok = LLVMGetNumOperands(inst) < 32;
        break;
    case LLVMSwitch:
    case LLVMIndirectBr:
    case LLVMInvoke:
    case LLVMVAArg:
    case LLVMResume:
        ok = 0;
        break;
    default:
        break;
    }
    if (ok && !uniform)
        ok = plain_has_wide(v, LLVMTypeOf(inst));
    for (int i = 0, n = LLVMGetNumOperands(inst); ok && i < n; i++) {
        LLVMValueRef o = LLVMGetOperand(inst, (unsigned)i);
        LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(o));
        if (kind != LLVMLabelTypeKind && kind != LLVMMetadataTypeKind && !LLVMIsAFunction(o))
            ok = plain_has_wide(v, LLVMTypeOf(o));
    }
    if (!ok)
        vec_refuse(v, "an instruction that has no form for vectors (opcode %d)", (int)op);
    return ok;
}
