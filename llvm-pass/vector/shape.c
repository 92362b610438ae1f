/* Warps as vectors: which values are the same in all lanes, which rise from lane to lane, which are neither;
 * and on which branches lanes part. Found by starting from the best and giving way until nothing changes. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>

/* lowest n with x < 2^n */
static unsigned vec_bits(uint64_t x)
{
    return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

static struct vec_shape shape_uniform(unsigned zeros)
{
    return (struct vec_shape){VEC_UNIFORM, (uint8_t)zeros, VEC_SIGNED | VEC_UNSIGNED, 0, 0, 0};
}

static const struct vec_shape shape_lanes = {VEC_LANES, 0, 0, 0, 0, 0};

/* Bits in which the lanes of a row differ, when its first one has zeros there. */
static unsigned shape_span(const struct vec *v, int64_t stride)
{
    return stride <= 0 || stride > 1 << 24 ? VEC_MANY : vec_bits((uint64_t)stride * (v->group - 1));
}

static struct vec_shape shape_rows(const struct vec *v, int64_t stride, unsigned zeros, unsigned extend)
{
    if (!stride) /* one row is the warp */
        return (struct vec_shape){
            v->rows == 1 ? VEC_UNIFORM : VEC_ROWS, (uint8_t)zeros, VEC_SIGNED | VEC_UNSIGNED, 0, 0, 0};
    if (zeros >= shape_span(v, stride))
        extend = VEC_SIGNED | VEC_UNSIGNED;
    return (struct vec_shape){VEC_ROWS, (uint8_t)zeros, (uint8_t)extend, stride, 0, 0};
}

static struct vec_shape shape_as_is(const struct vec *v, LLVMValueRef value)
{
    struct vec_value *found = vec_find(v, value);
    if (found)
        return found->shape;
    LLVMValueRef number = LLVMIsAConstantInt(value);
    if (!number || LLVMGetIntTypeWidth(LLVMTypeOf(number)) > 64)
        return shape_uniform(0);
    uint64_t n = LLVMConstIntGetZExtValue(number);
    return shape_uniform(n ? (unsigned)__builtin_ctzll(n) : VEC_MANY);
}

struct vec_shape vec_shape_of(const struct vec *v, LLVMValueRef value)
{
    struct vec_shape s = shape_as_is(v, value);
    return s.source ? shape_lanes : s;
}

static struct vec_shape shape_operand(const struct vec *v, LLVMValueRef inst, unsigned i)
{
    return vec_shape_of(v, LLVMGetOperand(inst, i));
}

/* For operations that can be done on rows of which it is only known when they run that they are some. */
static struct vec_shape shape_row_operand(const struct vec *v, LLVMValueRef inst, unsigned i)
{
    return shape_as_is(v, LLVMGetOperand(inst, i));
}

/* Rows from one that has `scale` times the number of `source`. */
static struct vec_shape shape_from(struct vec_shape rows, unsigned source, int64_t scale)
{
    if (!source || rows.kind == VEC_LANES)
        return rows;
    if (!rows.stride || !scale || scale > 1 << 24 || scale < -(1 << 24))
        return shape_lanes;
    rows.zeros = 0;
    rows.source = source;
    rows.scale = scale;
    return rows;
}

static int shape_is_flat(struct vec_shape s)
{
    return s.kind == VEC_UNIFORM || (s.kind == VEC_ROWS && !s.stride);
}

/* What two ways give where they meet, lanes together. */
static struct vec_shape shape_meet(const struct vec *v, struct vec_shape a, struct vec_shape b)
{
    if (a.kind == VEC_UNKNOWN)
        return b;
    if (b.kind == VEC_UNKNOWN)
        return a;
    if (a.kind == VEC_LANES || b.kind == VEC_LANES || a.stride != b.stride)
        return shape_lanes;
    unsigned zeros = a.zeros < b.zeros ? a.zeros : b.zeros;
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM)
        return shape_uniform(zeros);
    return shape_rows(v, a.stride, zeros, a.extend & b.extend);
}

/* Of an operation whose result in a lane depends on the operands in that lane alone. */
static struct vec_shape shape_pure(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape s = shape_uniform(0);
    int n = LLVMGetNumOperands(inst);
    for (int i = 0; i < n; i++) {
        struct vec_shape o = shape_operand(v, inst, (unsigned)i);
        if (!shape_is_flat(o))
            return shape_lanes;
        if (o.kind == VEC_ROWS)
            s = shape_rows(v, 0, 0, 0);
    }
    return s;
}

static int shape_constant(LLVMValueRef value, int64_t *n)
{
    LLVMValueRef c = LLVMIsAConstantInt(value);
    if (!c || LLVMGetIntTypeWidth(LLVMTypeOf(c)) > 64)
        return 0;
    *n = LLVMConstIntGetSExtValue(c);
    return 1;
}

static unsigned shape_flags(LLVMValueRef inst)
{
    return (LLVMGetNSW(inst) ? VEC_SIGNED : 0u) | (LLVMGetNUW(inst) ? VEC_UNSIGNED : 0u);
}

/* What an operation promises of lanes that are here says something of the row's first one, which need not be
 * here, only where that one is the smallest of numbers that do not wrap round. */
static unsigned shape_kept(unsigned flags, struct vec_shape a, int64_t stride)
{
    int smallest = a.kind != VEC_ROWS || !a.stride || (a.extend & VEC_UNSIGNED && a.stride > 0);
    return smallest && stride > 0 ? flags : flags & ~VEC_UNSIGNED;
}

static struct vec_shape shape_sum(const struct vec *v, LLVMValueRef inst, int sign, unsigned flags)
{
    struct vec_shape a = shape_row_operand(v, inst, 0), b = shape_row_operand(v, inst, 1);
    unsigned zeros = a.zeros < b.zeros ? a.zeros : b.zeros;
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM)
        return shape_uniform(zeros);
    if (a.kind == VEC_LANES || b.kind == VEC_LANES || (a.source && b.source && a.source != b.source))
        return shape_lanes;
    int64_t stride = a.stride + sign * b.stride;
    flags = sign < 0 ? flags & ~(unsigned)VEC_UNSIGNED : shape_kept(shape_kept(flags, a, stride), b, stride);
    return shape_from(shape_rows(v, stride, zeros, flags), a.source | b.source, a.scale + sign * b.scale);
}

static struct vec_shape shape_product(const struct vec *v, LLVMValueRef inst, int shift)
{
    struct vec_shape a = shape_row_operand(v, inst, 0), b = shape_operand(v, inst, 1);
    int64_t n;
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM) {
        unsigned zeros = a.zeros;
        if (!shift)
            zeros += b.zeros;
        else if (shape_constant(LLVMGetOperand(inst, 1), &n) && n >= 0 && n < VEC_MANY)
            zeros += (unsigned)n;
        return shape_uniform(zeros > VEC_MANY ? VEC_MANY : zeros);
    }
    if (shape_is_flat(a) && shape_is_flat(b))
        return shape_pure(v, inst);
    if (!shape_constant(LLVMGetOperand(inst, 1), &n) || a.kind != VEC_ROWS || a.stride > 1 << 24 ||
        a.stride < -(1 << 24))
        return shape_lanes;
    if (shift) {
        if (n < 0 || n > 24)
            return shape_lanes;
        n = (int64_t)1 << n;
    }
    if (n > 1 << 24 || n < -(1 << 24))
        return shape_lanes;
    unsigned zeros = a.zeros + (n ? (unsigned)__builtin_ctzll((uint64_t)n) : VEC_MANY);
    return shape_from(shape_rows(v, a.stride * n, zeros > VEC_MANY ? VEC_MANY : zeros,
                                 shape_kept(shape_flags(inst), a, a.stride * n)),
                      a.source, a.scale * n);
}

/* And, or, xor with a constant, where it leaves the bits alone in which lanes differ. */
static struct vec_shape shape_logic(const struct vec *v, LLVMValueRef inst, LLVMOpcode op)
{
    struct vec_shape a = shape_operand(v, inst, 0), b = shape_operand(v, inst, 1);
    int64_t n;
    if (op == LLVMOr && LLVMGetIsDisjoint(inst))
        return shape_sum(v, inst, 1, VEC_SIGNED | VEC_UNSIGNED);
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM) {
        unsigned low = a.zeros < b.zeros ? a.zeros : b.zeros, high = a.zeros > b.zeros ? a.zeros : b.zeros;
        return shape_uniform(op == LLVMAnd ? high : low);
    }
    unsigned span = shape_span(v, a.stride);
    if (a.kind != VEC_ROWS || !a.stride || a.zeros < span || span > 32 ||
        !shape_constant(LLVMGetOperand(inst, 1), &n))
        return shape_pure(v, inst);
    uint64_t low = ((uint64_t)1 << span) - 1, bits = (uint64_t)n & low;
    unsigned zeros = n ? (unsigned)__builtin_ctzll((uint64_t)n) : VEC_MANY;
    if (op == LLVMAnd)
        return bits == low ? shape_rows(v, a.stride, a.zeros, 0)
               : bits      ? shape_lanes
                           : shape_rows(v, 0, zeros > a.zeros ? zeros : a.zeros, 0);
    return bits ? shape_lanes : shape_rows(v, a.stride, zeros < a.zeros ? zeros : a.zeros, 0);
}

/* Of rows and a number that no row crosses: all lanes of a row say the same as its first one. */
static struct vec_shape shape_compare(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape a = shape_operand(v, inst, 0);
    LLVMIntPredicate p = LLVMGetICmpPredicate(inst);
    unsigned span = shape_span(v, a.stride);
    int64_t n;
    if (a.kind != VEC_ROWS || !a.stride || a.zeros < span || span > 32 ||
        !shape_constant(LLVMGetOperand(inst, 1), &n))
        return shape_pure(v, inst);
    int64_t low = ((int64_t)1 << span) - 1;
    int below = p == LLVMIntULT || p == LLVMIntSLT || p == LLVMIntUGE || p == LLVMIntSGE;
    int above = p == LLVMIntULE || p == LLVMIntSLE || p == LLVMIntUGT || p == LLVMIntSGT;
    return (below && !(n & low)) || (above && (n & low) == low) ? shape_rows(v, 0, 0, 0) : shape_lanes;
}

static struct vec_shape shape_right(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape a = shape_operand(v, inst, 0);
    int64_t n;
    unsigned span = shape_span(v, a.stride);
    if (a.kind == VEC_UNIFORM && shape_constant(LLVMGetOperand(inst, 1), &n) && n >= 0)
        return shape_uniform(a.zeros == VEC_MANY ? VEC_MANY : a.zeros > n ? a.zeros - (unsigned)n : 0);
    if (a.kind != VEC_ROWS || !a.stride || a.zeros < span || span > 32 ||
        !shape_constant(LLVMGetOperand(inst, 1), &n) || n < 0)
        return shape_pure(v, inst);
    if (n >= span)
        return shape_rows(v, 0, a.zeros > n ? a.zeros - (unsigned)n : 0, 0);
    if (a.stride & (((int64_t)1 << n) - 1))
        return shape_lanes;
    return shape_rows(v, a.stride >> n, a.zeros - (unsigned)n, 0);
}

unsigned vec_extends_as(const struct vec *v, LLVMValueRef inst)
{
    if (LLVMGetInstructionOpcode(inst) == LLVMSExt)
        return VEC_SIGNED;
    /* What is not negative in any lane that may be here is the same extended as a signed number; and the
     * lanes that are not here, of which it is not known, are less likely to wrap round: around 0 they do not.
     */
    int only_unsigned = shape_operand(v, inst, 0).extend == VEC_UNSIGNED;
    int as_signed = !only_unsigned && LLVMGetNNeg(inst);
    return as_signed ? VEC_SIGNED : VEC_UNSIGNED;
}

static struct vec_shape shape_wider(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape a = shape_operand(v, inst, 0);
    if (a.kind != VEC_ROWS || !a.stride)
        return a.kind == VEC_UNIFORM ? shape_uniform(a.zeros) : a.kind == VEC_LANES ? a : shape_pure(v, inst);
    unsigned how = vec_extends_as(v, inst);
    struct vec_shape s =
        shape_rows(v, a.stride, a.zeros, VEC_SIGNED | (how == VEC_UNSIGNED ? VEC_UNSIGNED : 0));
    if (a.extend & how)
        return s;
    if (LLVMGetIntTypeWidth(LLVMTypeOf(inst)) != 64 ||
        LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(inst, 0))) != 32)
        return shape_lanes;
    return shape_from(s, (unsigned)(vec_find(v, inst) - v->value) + 1, 1);
}

static struct vec_shape shape_address(const struct vec *v, LLVMValueRef gep)
{
    struct vec_shape s = shape_row_operand(v, gep, 0);
    LLVMTypeRef type = LLVMGetGEPSourceElementType(gep);
    int n = LLVMGetNumOperands(gep);
    if (LLVMGetTypeKind(LLVMTypeOf(gep)) != LLVMPointerTypeKind)
        return shape_pure(v, gep);
    for (int i = 1; i < n; i++) {
        struct vec_shape at = shape_row_operand(v, gep, (unsigned)i);
        if (i > 1 && LLVMGetTypeKind(type) == LLVMStructTypeKind) {
            type = LLVMStructGetTypeAtIndex(
                type, (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(gep, (unsigned)i)));
            continue;
        }
        if (i > 1)
            type = LLVMGetElementType(type);
        if (at.kind == VEC_UNIFORM)
            continue;
        int64_t size = (int64_t)LLVMABISizeOfType(v->layout, type);
        if (at.kind == VEC_LANES || s.kind == VEC_LANES || size > 1 << 24 || at.stride > 1 << 24 ||
            at.stride < -(1 << 24))
            return shape_lanes;
        unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(gep, (unsigned)i)));
        if ((at.stride && width < 64 && !(at.extend & VEC_SIGNED)) ||
            (at.source && s.source && at.source != s.source))
            return shape_lanes;
        s = shape_from(shape_rows(v, (s.kind == VEC_ROWS ? s.stride : 0) + at.stride * size, 0, 0),
                       s.source | at.source, s.scale + at.scale * size);
    }
    return s;
}

/* A uniform mask has results that are the same in all lanes that are there. */
static struct vec_shape shape_collective(const struct vec *v, LLVMValueRef call, const char *name)
{
    struct vec_shape mask = shape_operand(v, call, 0);
    if (!strcmp(name, "mt_cpu_activemask"))
        return shape_uniform(0);
    if (mask.kind != VEC_UNIFORM || !strcmp(name, "mt_cpu_shfl") || !strcmp(name, "mt_cpu_match_any"))
        return shape_lanes;
    return shape_uniform(0);
}

static struct vec_shape shape_register(const struct vec *v, int reg)
{
    unsigned zeros = v->any ? 0 : vec_bits(v->group) - 1;
    if (v->any && reg <= VEC_TID_Z)
        return shape_lanes;
    switch (reg) {
    case VEC_TID_X:
        return shape_rows(v, 1, zeros, 0);
    case VEC_LANE_ID:
        return shape_rows(v, 1, v->rows == 1 ? VEC_MANY : zeros, 0);
    case VEC_TID_Y:
    case VEC_TID_Z:
        return shape_rows(v, 0, 0, 0);
    case VEC_NTID_X:
        return shape_uniform(zeros);
    case VEC_WARP_ID:
        return shape_uniform(0);
    default:
        return reg < VEC_NTID_X ? shape_lanes : shape_uniform(0);
    }
}

static struct vec_shape shape_call(const struct vec *v, LLVMValueRef call)
{
    const char *name = vec_callee(call);
    int reg = vec_register(name);
    if (reg >= 0)
        return shape_register(v, reg);
    if (vec_is_lockstep_call(name))
        return shape_collective(v, call, name);
    if (!strcmp(name, "mt_cpu_barrier") || mt_starts(name, "llvm.threadlocal.address"))
        return shape_uniform(0);
    LLVMValueRef callee = mt_callee(call);
    unsigned id = callee ? LLVMGetIntrinsicID(callee) : 0;
    return id && mt_shim_vector_intrinsic(id, -2) ? shape_pure(v, call) : shape_lanes;
}

static struct vec_shape shape_load(const struct vec *v, LLVMValueRef load)
{
    struct vec_shape at = shape_operand(v, load, 0);
    if (at.kind == VEC_UNIFORM)
        return shape_uniform(0);
    return at.kind == VEC_ROWS && !at.stride ? shape_rows(v, 0, 0, 0) : shape_lanes;
}

static struct vec_shape shape_phi(const struct vec *v, LLVMValueRef phi, int block)
{
    struct vec_shape s = {0};
    if (v->block[block].joins)
        return shape_lanes;
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++)
        s = shape_meet(v, s, vec_shape_of(v, LLVMGetIncomingValue(phi, i)));
    return s;
}

static struct vec_shape shape_select(const struct vec *v, LLVMValueRef select)
{
    struct vec_shape c = shape_operand(v, select, 0), a = shape_operand(v, select, 1),
                     b = shape_operand(v, select, 2);
    return c.kind == VEC_UNIFORM ? shape_meet(v, a, b) : shape_pure(v, select);
}

int64_t vec_alloca_step(const struct vec *v, LLVMValueRef alloca)
{
    uint64_t size = LLVMABISizeOfType(v->layout, LLVMGetAllocatedType(alloca)),
             align = LLVMGetAlignment(alloca);
    return (int64_t)((size + align - 1) / align * align);
}

static struct vec_shape shape_alloca(const struct vec *v, LLVMValueRef alloca)
{
    return shape_rows(v, vec_alloca_step(v, alloca), 0, 0);
}

static struct vec_shape shape_compute(const struct vec *v, LLVMValueRef inst, int block)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    if (op == LLVMPHI)
        return shape_phi(v, inst, block);
    for (int i = 0, n = LLVMGetNumOperands(inst); i < n; i++)
        if (shape_operand(v, inst, (unsigned)i).kind == VEC_UNKNOWN)
            return (struct vec_shape){0};
    switch (op) {
    case LLVMSelect:
        return shape_select(v, inst);
    case LLVMAdd:
        return shape_sum(v, inst, 1, shape_flags(inst));
    case LLVMSub:
        return shape_sum(v, inst, -1, shape_flags(inst));
    case LLVMMul:
        return shape_product(v, inst, 0);
    case LLVMShl:
        return shape_product(v, inst, 1);
    case LLVMAnd:
    case LLVMOr:
    case LLVMXor:
        return shape_logic(v, inst, op);
    case LLVMLShr:
    case LLVMAShr:
        return shape_right(v, inst);
    case LLVMICmp:
        return shape_compare(v, inst);
    case LLVMSExt:
    case LLVMZExt:
        return shape_wider(v, inst);
    case LLVMTrunc: {
        struct vec_shape a = shape_operand(v, inst, 0);
        return a.kind == VEC_ROWS && a.stride ? shape_rows(v, a.stride, a.zeros, 0) : a;
    }
    case LLVMFreeze:
    case LLVMAddrSpaceCast:
    case LLVMPtrToInt:
    case LLVMIntToPtr: {
        struct vec_shape a = shape_operand(v, inst, 0);
        int narrow = op == LLVMPtrToInt   ? LLVMGetIntTypeWidth(LLVMTypeOf(inst)) != 64
                     : op == LLVMIntToPtr ? LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(inst, 0))) != 64
                                          : 0;
        return narrow && !shape_is_flat(a) ? shape_lanes : a;
    }
    case LLVMUDiv:
    case LLVMSDiv:
    case LLVMURem:
    case LLVMSRem: {
        struct vec_shape s = shape_pure(v, inst); /* a row may have no lane here, and a zero */
        return s.kind == VEC_ROWS ? shape_lanes : s;
    }
    case LLVMGetElementPtr:
        return shape_address(v, inst);
    case LLVMLoad:
        return shape_load(v, inst);
    case LLVMAlloca:
        return shape_alloca(v, inst);
    case LLVMCall:
        return shape_call(v, inst);
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
        return shape_lanes;
    default:
        return shape_pure(v, inst);
    }
}

static int shape_same(struct vec_shape a, struct vec_shape b)
{
    return a.kind == b.kind && a.stride == b.stride && a.zeros == b.zeros && a.extend == b.extend &&
           a.source == b.source && a.scale == b.scale;
}

static int shape_fixpoint(struct vec *v)
{
    int changed = 1, rounds = 0;
    while (changed) {
        changed = 0;
        if (++rounds > 1000)
            return -1;
        for (unsigned i = 0; i < v->nvalues; i++) {
            struct vec_value *x = &v->value[i];
            if (x->block < 0)
                continue;
            struct vec_shape s = shape_compute(v, x->from, x->block);
            if (x->shape.kind == VEC_LANES || shape_same(s, x->shape))
                continue;
            /* Phis of rows that rise by different strides go up and down otherwise. */
            if (rounds > 20 && x->shape.kind == VEC_ROWS)
                s = shape_lanes;
            if (rounds > 20 && s.kind == VEC_UNIFORM)
                s.zeros = 0;
            x->shape = s;
            changed = 1;
        }
    }
    return 0;
}

int vec_shapes(struct vec *v)
{
    if (vec_values(v)) {
        vec_refuse(v, "no memory");
        return -1;
    }
    for (int more = 1; more;) {
        more = 0;
        if (shape_fixpoint(v)) {
            vec_refuse(v, "its shapes");
            return -1;
        }
        for (unsigned b = 0; b < v->nblocks; b++) {
            LLVMValueRef end = LLVMGetBasicBlockTerminator(v->block[b].from);
            if (v->block[b].nsucc < 2 || v->block[b].branch >= 0 ||
                vec_shape_of(v, LLVMGetCondition(end)).kind == VEC_UNIFORM)
                continue;
            if (vec_part(v, (int)b))
                return -1;
            more = 1;
        }
    }
    for (unsigned i = 0; i < v->nvalues; i++)
        if (v->value[i].shape.kind == VEC_UNKNOWN) /* of itself alone */
            v->value[i].shape = shape_uniform(0);
    vec_find_masks(v);
    vec_crossings(v);
    return 0;
}
