/* Loads of which only a part is used. Instruction selection loads that part alone (LLVM's DAGCombiner:
 * reduceLoadWidth, SliceUpLoad, scalarizeExtractedVectorLoad), where load and use stand in one block. */
#include "base/unit.h"
#include <stdlib.h>

struct narrow {
    struct mt_unit *u;
    LLVMBuilderRef b;
    LLVMValueRef load;
    uint64_t bits, align;
};

/* Which bits of a load a use takes, and the instruction that has just these bits, zero-extended or not. */
struct narrow_part {
    LLVMValueRef result;
    uint64_t shift, bits; /* of the loaded value */
    uint64_t left;        /* the result has them shifted left by so many */
};

static int narrow_constant(LLVMValueRef v, uint64_t *value)
{
    if (!LLVMIsAConstantInt(v))
        return 0;
    *value = LLVMConstIntGetZExtValue(v);
    return 1;
}

static LLVMValueRef narrow_only_user(LLVMValueRef v)
{
    LLVMUseRef use = LLVMGetFirstUse(v);
    return use && !LLVMGetNextUse(use) ? LLVMGetUser(use) : NULL;
}

static int narrow_opcode(LLVMValueRef v, LLVMOpcode op)
{
    return v && LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == op;
}

static uint64_t narrow_width(LLVMValueRef v)
{
    return LLVMGetIntTypeWidth(LLVMTypeOf(v));
}

static int narrow_is_round(uint64_t bits)
{
    return bits == 8 || bits == 16 || bits == 32;
}

/* Is a load of these bits one instruction that the alignment allows? */
static int narrow_fits(const struct narrow *n, const struct narrow_part *p)
{
    uint64_t offset = p->shift / 8, at = offset & -offset;
    uint64_t align = offset && at < n->align ? at : n->align;
    return p->shift % 8 == 0 && narrow_is_round(p->bits) && p->shift + p->bits <= n->bits &&
           p->bits < n->bits && align >= p->bits / 8;
}

/* trunc, lshr, trunc of lshr, and with a run of ones. */
static int narrow_use(const struct narrow *n, LLVMValueRef user, struct narrow_part *p)
{
    uint64_t mask;
    *p = (struct narrow_part){.result = user};
    if (narrow_opcode(user, LLVMTrunc)) {
        p->bits = narrow_width(user);
        return 1;
    }
    if (narrow_opcode(user, LLVMLShr) && narrow_constant(LLVMGetOperand(user, 1), &p->shift) &&
        p->shift < n->bits) {
        LLVMValueRef next = narrow_only_user(user);
        p->bits = n->bits - p->shift;
        if (narrow_opcode(next, LLVMTrunc) && narrow_width(next) <= p->bits) {
            p->bits = narrow_width(next);
            p->result = next;
        }
        return LLVMGetOperand(user, 0) == n->load;
    }
    if (narrow_opcode(user, LLVMAnd) && narrow_constant(LLVMGetOperand(user, 1), &mask) && mask) {
        p->shift = p->left = (uint64_t)__builtin_ctzll(mask);
        mask >>= p->shift;
        p->bits = (uint64_t)__builtin_popcountll(mask);
        return !(mask & (mask + 1));
    }
    return 0;
}

static void narrow_replace(const struct narrow *n, const struct narrow_part *p)
{
    LLVMTypeRef type = LLVMTypeOf(p->result), i8 = mt_type_int(n->u, 8);
    LLVMValueRef pointer = LLVMGetOperand(n->load, 0);
    LLVMValueRef at = LLVMConstInt(mt_type_int(n->u, 64), p->shift / 8, 0);
    uint64_t offset = p->shift / 8, lowest = offset & -offset;
    LLVMPositionBuilderBefore(n->b, n->load);
    LLVMSetCurrentDebugLocation2(n->b, LLVMInstructionGetDebugLoc(n->load));
    if (offset)
        pointer = LLVMBuildInBoundsGEP2(n->b, i8, pointer, &at, 1, "");
    LLVMValueRef part = LLVMBuildLoad2(n->b, mt_type_int(n->u, (unsigned)p->bits), pointer, "");
    LLVMSetAlignment(part, (unsigned)(offset && lowest < n->align ? lowest : n->align));
    mt_copy_load_metadata(n->u, n->load, part);
    LLVMPositionBuilderBefore(n->b, p->result);
    LLVMValueRef value = LLVMBuildZExtOrBitCast(n->b, part, type, "");
    if (p->left)
        value = LLVMBuildShl(n->b, value, LLVMConstInt(type, p->left, 0), "");
    LLVMReplaceAllUsesWith(p->result, value);
    mt_shim_delete_dead(p->result);
}

/* A load in two halves costs one more load; it saves the way of a bit pattern from an integer register to one
 * for floating point. */
static int narrow_moves_to_float(LLVMValueRef half)
{
    LLVMValueRef user = narrow_only_user(half);
    LLVMTypeKind kind =
        narrow_opcode(user, LLVMBitCast) ? LLVMGetTypeKind(LLVMTypeOf(user)) : LLVMVoidTypeKind;
    return kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind;
}

static void narrow_slices(const struct narrow *n, LLVMBasicBlockRef block)
{
    struct narrow_part part[2];
    unsigned k = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(n->load); use; use = LLVMGetNextUse(use), k++) {
        LLVMValueRef user = LLVMGetUser(use);
        if (k == 2 || narrow_opcode(user, LLVMAnd) || !narrow_use(n, user, &part[k]) ||
            !narrow_opcode(part[k].result, LLVMTrunc) || !narrow_fits(n, &part[k]) ||
            LLVMGetInstructionParent(part[k].result) != block)
            return;
    }
    if (k != 2 || part[0].bits + part[1].bits != n->bits || part[0].shift == part[1].shift ||
        (!narrow_moves_to_float(part[0].result) && !narrow_moves_to_float(part[1].result)))
        return;
    narrow_replace(n, &part[0]);
    narrow_replace(n, &part[1]);
}

/* One element of a vector that has one register of 32 bits. */
static void narrow_element(const struct narrow *n, LLVMValueRef user)
{
    LLVMTypeRef vector = LLVMTypeOf(n->load), element = LLVMGetElementType(vector);
    uint64_t index, bits = LLVMSizeOfTypeInBits(n->u->layout, element);
    if (!narrow_opcode(user, LLVMExtractElement) || LLVMSizeOfTypeInBits(n->u->layout, vector) != 32 ||
        bits < 8 || !narrow_constant(LLVMGetOperand(user, 1), &index) || n->align < bits / 8)
        return;
    LLVMValueRef at = LLVMConstInt(mt_type_int(n->u, 64), index, 0);
    LLVMPositionBuilderBefore(n->b, n->load);
    LLVMSetCurrentDebugLocation2(n->b, LLVMInstructionGetDebugLoc(n->load));
    LLVMValueRef pointer = LLVMBuildInBoundsGEP2(n->b, element, LLVMGetOperand(n->load, 0), &at, 1, "");
    LLVMValueRef part = LLVMBuildLoad2(n->b, element, pointer, "");
    LLVMSetAlignment(part, (unsigned)(bits / 8));
    mt_copy_load_metadata(n->u, n->load, part);
    LLVMReplaceAllUsesWith(user, part);
    mt_shim_delete_dead(user);
}

static void narrow_load(struct narrow *n, LLVMValueRef load)
{
    LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(load));
    LLVMBasicBlockRef block = LLVMGetInstructionParent(load);
    LLVMValueRef user = narrow_only_user(load);
    struct narrow_part part;
    n->load = load;
    n->align = mt_alignment(load);
    n->bits = LLVMSizeOfTypeInBits(n->u->layout, LLVMTypeOf(load));
    if (LLVMGetVolatile(load) || LLVMGetOrdering(load) != LLVMAtomicOrderingNotAtomic || n->bits > 64)
        return;
    if (kind == LLVMIntegerTypeKind && !user)
        narrow_slices(n, block);
    if (!user || !LLVMIsAInstruction(user) || LLVMGetInstructionParent(user) != block)
        return;
    if (kind == LLVMVectorTypeKind)
        narrow_element(n, user);
    else if (kind == LLVMIntegerTypeKind && narrow_use(n, user, &part) && narrow_fits(n, &part) &&
             LLVMGetInstructionParent(part.result) == block)
        narrow_replace(n, &part);
}

void mt_unit_narrow_loads(struct mt_unit *u)
{
    struct narrow n = {.u = u, .b = LLVMCreateBuilderInContext(u->context)};
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        unsigned count = 0, loads = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &count);
        for (unsigned i = 0; list && i < count; i++)
            if (LLVMIsALoadInst(list[i]))
                list[loads++] = list[i]; /* other instructions may go */
        for (unsigned i = 0; i < loads; i++)
            narrow_load(&n, list[i]);
        free(list);
    }
    LLVMDisposeBuilder(n.b);
}
