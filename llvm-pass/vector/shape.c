/* Warps as vectors: finds which values are the same in all lanes, rise evenly from lane to lane, or
 * neither, and on which branches lanes diverge. Starts from the best shapes and weakens them until nothing
 * changes. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>

#define MOST_STRIDE (1 << 24)       /* maximum stride that is multiplied */
#define MOST_SUM ((int64_t)1 << 58) /* maximum of any stride: 31 of these are less than 2^63 */

/* Returns the lowest n with x < 2^n. */
static unsigned vec_bits(uint64_t x)
{
    return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

static struct vec_shape shape_uniform(unsigned zeros)
{
    return (struct vec_shape){VEC_UNIFORM, (uint8_t)zeros, VEC_EXTENDS, 0, 0, 0};
}

static const struct vec_shape shape_lanes = {VEC_LANES, 0, 0, 0, 0, 0};

/* Returns the width of integers and pointers; 0: nothing is known about wrapping. */
static unsigned shape_width(LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    return kind == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(type) : kind == LLVMPointerTypeKind ? 64 : 0;
}

/* A row's lanes have the values first + lane * stride modulo 2^width. So sums, products with constants and
 * truncations are rows again, whatever wraps. All else (extended, compared, shifted right, bits extracted)
 * needs proof that nothing wraps, by the rules below. */

/* Returns the number of low bits in which a row's lanes differ if its first one has zeros there: lane i is
 * then first | i * stride, and all lanes share the first one's higher bits, including the sign. 0: unknown.
 * `value`: of the row's type. */
static unsigned shape_low(const struct vec *v, LLVMValueRef value, struct vec_shape a)
{
    if (a.kind != VEC_ROWS || a.stride <= 0)
        return 0;
    unsigned span = vec_bits((uint64_t)a.stride * (v->group - 1));
    return a.zeros >= span && span < shape_width(value) ? span : 0;
}

/* Returns the extensions (VEC_SIGNED ...) proven for a row: all lanes share the bits above, or its first lane
 * is 0. */
static unsigned shape_whole(const struct vec *v, LLVMValueRef value, struct vec_shape a)
{
    unsigned width = shape_width(value);
    if (shape_low(v, value, a))
        return VEC_EXTENDS;
    if (a.zeros < width)
        return 0;
    int64_t last = a.stride * (int64_t)(v->group - 1),
            top = width > 40 ? INT64_MAX / 2 : (int64_t)1 << (width - 1);
    return (last >= -top && last < top ? VEC_SIGNED | VEC_SIGNED_ALL : 0u) |
           (last >= 0 && last < 2 * top ? VEC_UNSIGNED | VEC_UNSIGNED_ALL : 0u);
}

/* Makes rows. `extend`: further facts. `value`: of this type. */
static struct vec_shape shape_rows(const struct vec *v, LLVMValueRef value, int64_t stride, unsigned zeros,
                                   unsigned extend)
{
    struct vec_shape s = {VEC_ROWS, (uint8_t)(zeros > VEC_MANY ? VEC_MANY : zeros), VEC_EXTENDS, stride, 0,
                          0};
    if (stride > MOST_SUM || stride < -MOST_SUM)
        return shape_lanes;
    if (stride)
        s.extend = (uint8_t)(extend | shape_whole(v, value, s));
    else if (v->rows == 1) /* one row is the warp */
        s.kind = VEC_UNIFORM;
    return s;
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

/* Returns the operand's shape for operations that also work on rows known only at run time. */
static struct vec_shape shape_row_operand(const struct vec *v, LLVMValueRef inst, unsigned i)
{
    return shape_as_is(v, LLVMGetOperand(inst, i));
}

/* Makes rows that contain `scale` times the number of `source`. */
static struct vec_shape shape_from(struct vec_shape rows, unsigned source, int64_t scale)
{
    if (!source || rows.kind == VEC_LANES)
        return rows;
    if (!rows.stride || !scale || scale > MOST_STRIDE || scale < -MOST_STRIDE)
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

/* Returns the shape where two ways meet, with lanes together. */
static struct vec_shape shape_meet(const struct vec *v, LLVMValueRef value, struct vec_shape a,
                                   struct vec_shape b)
{
    if (a.kind == VEC_UNKNOWN)
        return b;
    if (b.kind == VEC_UNKNOWN)
        return a;
    if (a.kind == VEC_LANES || b.kind == VEC_LANES || a.stride != b.stride || a.source != b.source ||
        a.scale != b.scale)
        return shape_lanes;
    unsigned zeros = a.zeros < b.zeros ? a.zeros : b.zeros;
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM)
        return shape_uniform(zeros);
    return shape_from(shape_rows(v, value, a.stride, zeros, a.extend & b.extend), a.source, a.scale);
}

/* Returns the shape of an operation whose result in a lane depends on that lane's operands alone. */
static struct vec_shape shape_pure(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape s = shape_uniform(0);
    int n = LLVMGetNumOperands(inst);
    for (int i = 0; i < n; i++) {
        struct vec_shape o = shape_operand(v, inst, (unsigned)i);
        if (!shape_is_flat(o))
            return shape_lanes;
        if (o.kind == VEC_ROWS)
            s = shape_rows(v, inst, 0, 0, 0);
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

/* Flags of an operation hold for active lanes: there its result equals that of true numbers, so it is
 * evenly spaced if its operands, as true numbers, are. One operand must be a true number in all lanes, so
 * that the proof for the other one (plain_true) is a chain, not a tree. */
static unsigned shape_kept(LLVMValueRef inst, struct vec_shape a, struct vec_shape b)
{
    unsigned flags = (LLVMGetNSW(inst) ? VEC_SIGNED : 0u) | (LLVMGetNUW(inst) ? VEC_UNSIGNED : 0u);
    if (LLVMGetInstructionOpcode(inst) == LLVMOr) /* disjoint: no carries */
        flags = VEC_SIGNED | VEC_UNSIGNED;
    return flags & a.extend & b.extend & (a.extend >> 2 | b.extend >> 2);
}

int vec_is_made_of(const struct vec *v, LLVMValueRef value, LLVMOpcode how)
{
    if (!LLVMIsAInstruction(value) ||
        vec_shape_of(v, value).extend & (how == LLVMSExt ? VEC_SIGNED_ALL : VEC_UNSIGNED_ALL))
        return 0;
    LLVMOpcode op = LLVMGetInstructionOpcode(value);
    return op == LLVMAdd || op == LLVMSub || op == LLVMMul || op == LLVMShl || op == LLVMOr ||
           op == LLVMSExt || op == LLVMZExt;
}

static struct vec_shape shape_sum(const struct vec *v, LLVMValueRef inst, int sign)
{
    struct vec_shape a = shape_row_operand(v, inst, 0), b = shape_row_operand(v, inst, 1);
    unsigned zeros = a.zeros < b.zeros ? a.zeros : b.zeros;
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM)
        return shape_uniform(zeros);
    int64_t stride = a.stride + sign * b.stride;
    if (a.kind == VEC_LANES || b.kind == VEC_LANES || (a.source && b.source && a.source != b.source))
        return shape_lanes;
    return shape_from(shape_rows(v, inst, stride, zeros, shape_kept(inst, a, b)), a.source | b.source,
                      a.scale + sign * b.scale);
}

/* Returns the low zero bits of a product, and of a number shifted left by a constant. */
static unsigned shape_zeros(unsigned a, unsigned b)
{
    return a + b > VEC_MANY ? VEC_MANY : a + b;
}

/* Multiplies rows by a constant. A factor with its highest bit set is negative as a stride, but not for
 * the flag nuw. */
static struct vec_shape shape_times(const struct vec *v, LLVMValueRef inst, struct vec_shape a, int64_t n)
{
    unsigned kept = shape_kept(inst, a, shape_uniform(0)) & (n < 0 ? VEC_SIGNED : VEC_EXTENDS);
    if (n > MOST_STRIDE || n < -MOST_STRIDE || a.stride > MOST_STRIDE || a.stride < -MOST_STRIDE)
        return shape_lanes;
    unsigned zeros = shape_zeros(a.zeros, n ? (unsigned)__builtin_ctzll((uint64_t)n) : VEC_MANY);
    return shape_from(shape_rows(v, inst, a.stride * n, zeros, kept), a.source, a.scale * n);
}

static struct vec_shape shape_product(const struct vec *v, LLVMValueRef inst, int shift)
{
    struct vec_shape a = shape_row_operand(v, inst, 0), b = shape_operand(v, inst, 1);
    int64_t n = 0;
    int known = shape_constant(LLVMGetOperand(inst, 1), &n) && (!shift || (n >= 0 && n < VEC_MANY));
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM)
        return shape_uniform(shape_zeros(a.zeros, !shift ? b.zeros : known ? (unsigned)n : 0));
    if (shape_is_flat(a) && shape_is_flat(b))
        return shape_pure(v, inst);
    if (!known || a.kind != VEC_ROWS || (shift && n > 24))
        return shape_lanes;
    return shape_times(v, inst, a, shift ? (int64_t)1 << n : n);
}

/* And, or, xor with a constant that covers all or none of the bits in which lanes differ: its effect on
 * the first lane's other bits is the same in all lanes. */
static struct vec_shape shape_logic(const struct vec *v, LLVMValueRef inst, LLVMOpcode op)
{
    struct vec_shape a = shape_operand(v, inst, 0), b = shape_operand(v, inst, 1);
    int64_t n;
    if (op == LLVMOr && LLVMGetIsDisjoint(inst))
        return shape_sum(v, inst, 1);
    if (a.kind == VEC_UNIFORM && b.kind == VEC_UNIFORM) {
        unsigned low = a.zeros < b.zeros ? a.zeros : b.zeros, high = a.zeros > b.zeros ? a.zeros : b.zeros;
        return shape_uniform(op == LLVMAnd ? high : low);
    }
    unsigned span = shape_low(v, inst, a);
    if (!span || !shape_constant(LLVMGetOperand(inst, 1), &n))
        return shape_pure(v, inst);
    uint64_t low = ((uint64_t)1 << span) - 1, bits = (uint64_t)n & low;
    unsigned zeros = n ? (unsigned)__builtin_ctzll((uint64_t)n) : VEC_MANY;
    if (op == LLVMAnd)
        return bits == low ? shape_rows(v, inst, a.stride, a.zeros, 0)
               : bits      ? shape_lanes
                           : shape_rows(v, inst, 0, zeros > a.zeros ? zeros : a.zeros, 0);
    return bits ? shape_lanes : shape_rows(v, inst, a.stride, zeros < a.zeros ? zeros : a.zeros, 0);
}

/* Compares with a constant on the border of two blocks of 2^span numbers: each row is within one such
 * block, so all its lanes have the first one's result. */
static struct vec_shape shape_compare(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape a = shape_operand(v, inst, 0);
    LLVMIntPredicate p = LLVMGetICmpPredicate(inst);
    unsigned span = shape_low(v, LLVMGetOperand(inst, 0), a);
    int64_t n;
    if (!span || !shape_constant(LLVMGetOperand(inst, 1), &n))
        return shape_pure(v, inst);
    int64_t low = (int64_t)(((uint64_t)1 << span) - 1);
    int below = p == LLVMIntULT || p == LLVMIntSLT || p == LLVMIntUGE || p == LLVMIntSGE;
    int above = p == LLVMIntULE || p == LLVMIntSLE || p == LLVMIntUGT || p == LLVMIntSGT;
    return (below && !(n & low)) || (above && (n & low) == low) ? shape_rows(v, inst, 0, 0, 0) : shape_lanes;
}

/* Shifts right by a constant: lanes lose the bits in which they differ, or the stride is a multiple of 2^n.
 * The bits shifted in are the first lane's sign, or zero, in all lanes. */
static struct vec_shape shape_right(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape a = shape_operand(v, inst, 0);
    int64_t n;
    unsigned width = shape_width(inst), span = shape_low(v, inst, a), zero = width && a.zeros >= width;
    int known = shape_constant(LLVMGetOperand(inst, 1), &n) && n >= 0 && n < VEC_MANY;
    unsigned zeros = zero ? a.zeros : known && a.zeros > n ? a.zeros - (unsigned)n : 0;
    if (a.kind == VEC_UNIFORM && known)
        return shape_uniform(zeros);
    if (!span || !known)
        return shape_pure(v, inst);
    if (n >= span)
        return shape_rows(v, inst, 0, zeros, 0);
    return a.stride & (((int64_t)1 << n) - 1) ? shape_lanes : shape_rows(v, inst, a.stride >> n, zeros, 0);
}

/* A value that is negative in no active lane is the same extended with its sign. In rows without known facts,
 * signed numbers are less likely to wrap: inactive lanes may lie below 0. */
unsigned vec_extends_as(const struct vec *v, LLVMValueRef inst)
{
    static const unsigned order[] = {VEC_UNSIGNED_ALL, VEC_SIGNED_ALL, VEC_SIGNED, VEC_UNSIGNED};
    int sign = LLVMGetInstructionOpcode(inst) == LLVMSExt;
    unsigned may = sign                ? VEC_SIGNED | VEC_SIGNED_ALL
                   : LLVMGetNNeg(inst) ? VEC_EXTENDS
                                       : VEC_UNSIGNED | VEC_UNSIGNED_ALL;
    unsigned known = shape_operand(v, inst, 0).extend & may;
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
        if (known & order[i])
            return order[i];
    return may & VEC_SIGNED ? VEC_SIGNED : VEC_UNSIGNED;
}

/* Returns facts about the wider row, which has the narrow row's numbers, small for it; those of zext are
 * not negative in active lanes. Its first lane has the narrow one's zeros: `extend` refers either to that
 * number, or to sums and products of such, whose zeros count as theirs. */
static unsigned shape_extends_wider(LLVMValueRef inst, unsigned how)
{
    unsigned here = VEC_SIGNED | (LLVMGetInstructionOpcode(inst) == LLVMZExt ? VEC_UNSIGNED : 0u);
    return how == VEC_UNSIGNED_ALL ? VEC_EXTENDS : how == VEC_SIGNED_ALL ? here | VEC_SIGNED_ALL : here;
}

static struct vec_shape shape_wider(const struct vec *v, LLVMValueRef inst)
{
    struct vec_shape a = shape_operand(v, inst, 0);
    if (a.kind != VEC_ROWS || !a.stride)
        return a.kind == VEC_UNIFORM ? shape_uniform(a.zeros) : a.kind == VEC_LANES ? a : shape_pure(v, inst);
    unsigned how = vec_extends_as(v, inst);
    struct vec_shape s = shape_rows(v, inst, a.stride, a.zeros, shape_extends_wider(inst, how));
    if (a.extend & how)
        return s;
    if (shape_width(inst) != 64 || shape_width(LLVMGetOperand(inst, 0)) != 32)
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
        if (at.kind == VEC_LANES || s.kind == VEC_LANES || size > MOST_STRIDE || at.stride > MOST_STRIDE ||
            at.stride < -MOST_STRIDE)
            return shape_lanes;
        unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(gep, (unsigned)i)));
        if (width < 64 || (at.source && s.source && at.source != s.source)) /* instcombine leaves none */
            return shape_lanes;
        s = shape_from(shape_rows(v, gep, (s.kind == VEC_ROWS ? s.stride : 0) + at.stride * size, 0, 0),
                       s.source | at.source, s.scale + at.scale * size);
    }
    return s;
}

/* A uniform mask gives results that are the same in all existing lanes. */
static struct vec_shape shape_collective(const struct vec *v, LLVMValueRef call, const char *name)
{
    struct vec_shape mask = shape_operand(v, call, 0);
    if (!strcmp(name, "mt_cpu_activemask"))
        return shape_uniform(0);
    if (mask.kind != VEC_UNIFORM || !strcmp(name, "mt_cpu_shfl") || !strcmp(name, "mt_cpu_match_any"))
        return shape_lanes;
    return shape_uniform(0);
}

/* In CTAs whose threads are rows, ntid.x is a multiple of the rows' length (runtime/cpu/worker.c). */
static struct vec_shape shape_register(const struct vec *v, LLVMValueRef call, int reg)
{
    unsigned zeros = v->any ? 0 : vec_bits(v->group) - 1;
    if (v->any && reg <= VEC_TID_Z)
        return shape_lanes;
    switch (reg) {
    case VEC_TID_X:
        return shape_rows(v, call, 1, zeros, 0);
    case VEC_LANE_ID:
        return shape_rows(v, call, 1, v->rows == 1 ? VEC_MANY : zeros, 0);
    case VEC_TID_Y:
    case VEC_TID_Z:
        return shape_rows(v, call, 0, 0, 0);
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
        return shape_register(v, call, reg);
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
    return at.kind == VEC_ROWS && !at.stride ? shape_rows(v, load, 0, 0, 0) : shape_lanes;
}

/* Returns the shape of a selected value: computed ahead of its guard, its flags may fail in lanes that do
 * not use it, so that no active lane need have a true number. Facts about all lanes remain. */
static struct vec_shape shape_chosen(struct vec_shape s)
{
    s.extend &= VEC_SIGNED_ALL | VEC_UNSIGNED_ALL | s.extend >> 2;
    return s;
}

/* Returns 1 if the number that decides whether others are rows stays the same in all rounds of the loop. */
static int shape_is_before(const struct vec *v, unsigned source, unsigned loop)
{
    int block = v->value[source - 1].block;
    return block < v->loop[loop].first || block > v->loop[loop].last;
}

/* Returns the shape of a phi. Lanes that stay in a loop use every number of its phi, so an overflow there
 * is the kernel's own error. */
static struct vec_shape shape_phi(const struct vec *v, LLVMValueRef phi, int block)
{
    struct vec_shape s = {0};
    unsigned loop = v->block[block].loop;
    if (v->block[block].joins)
        return shape_lanes;
    int header = loop && v->loop[loop].first == block;
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        struct vec_shape in = shape_as_is(v, LLVMGetIncomingValue(phi, i));
        int known = !in.source || (header && shape_is_before(v, in.source, loop));
        s = shape_meet(v, phi, s, known ? in : shape_lanes);
    }
    return header ? s : shape_chosen(s);
}

static struct vec_shape shape_select(const struct vec *v, LLVMValueRef select)
{
    struct vec_shape c = shape_operand(v, select, 0), a = shape_operand(v, select, 1),
                     b = shape_operand(v, select, 2);
    return c.kind == VEC_UNIFORM ? shape_chosen(shape_meet(v, select, a, b)) : shape_pure(v, select);
}

/* 31 steps of that size are less than 2^29. Narrower numbers may repeat. */
int vec_lanes_differ(const struct vec *v, LLVMValueRef value)
{
    struct vec_shape s = vec_shape_of(v, value);
    return v->rows == 1 && s.kind == VEC_ROWS && s.stride && s.stride <= MOST_STRIDE &&
           s.stride >= -MOST_STRIDE && shape_width(value) >= 32;
}

int64_t vec_alloca_step(const struct vec *v, LLVMValueRef alloca)
{
    uint64_t size = LLVMABISizeOfType(v->layout, LLVMGetAllocatedType(alloca)),
             align = LLVMGetAlignment(alloca);
    return (int64_t)((size + align - 1) / align * align);
}

static struct vec_shape shape_alloca(const struct vec *v, LLVMValueRef alloca)
{
    return shape_rows(v, alloca, vec_alloca_step(v, alloca), 0, 0);
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
        return shape_sum(v, inst, 1);
    case LLVMSub:
        return shape_sum(v, inst, -1);
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
    case LLVMTrunc:
    case LLVMFreeze: { /* a violation of its flags is now an arbitrary number */
        struct vec_shape a = shape_operand(v, inst, 0);
        return a.kind == VEC_ROWS && a.stride ? shape_rows(v, inst, a.stride, a.zeros, 0) : a;
    }
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
        struct vec_shape s = shape_pure(v, inst); /* a row may have no active lane, and a zero */
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
            if (rounds > 20 && s.kind == VEC_UNIFORM)
                s.zeros = 0;
            if (x->shape.kind == VEC_LANES || shape_same(s, x->shape))
                continue;
            /* Phis of rows with different strides would alternate for ever otherwise. */
            if (rounds > 20 && x->shape.kind == VEC_ROWS)
                s = shape_lanes;
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
        if (v->value[i].shape.kind == VEC_UNKNOWN) /* depends only on itself */
            v->value[i].shape = shape_uniform(0);
    vec_find_masks(v);
    vec_crossings(v);
    return 0;
}
