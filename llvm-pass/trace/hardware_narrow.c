/* Loads of which only a part is used, and words of which only a part is changed. Instruction selection loads
 * or stores that part alone (LLVM's DAGCombiner: reduceLoadWidth, SliceUpLoad, scalarizeExtractedVectorLoad,
 * ShrinkLoadReplaceStoreWithStore), where all is in one block. */
#include "base/unit.h"
#include <stdlib.h>

struct narrow {
    struct mt_unit *u;
    LLVMBuilderRef b;
    LLVMValueRef load; /* or store */
    uint64_t bits, align;
};

/* Which bits of a load a use takes, and the value that has just these bits. */
struct narrow_part {
    LLVMValueRef result;
    uint64_t shift, bits; /* of the loaded value */
    uint64_t left, right; /* the result has them shifted by so many */
    int is_signed;        /* the result is sign-extended */
};

/* What is done to a load on its way: extended by zeros, shifted right, masked with a run of ones, truncated;
 * each step, where it is not missing, by the only user of the one before. */
struct narrow_chain {
    LLVMValueRef shift, mask, trunc;
    uint64_t by, at, ones, to; /* of the shift; of the mask: lowest bit and how many; of the truncation */
    int is_signed;             /* the shift fills up with the sign */
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

static uint64_t narrow_align(const struct narrow *n, uint64_t offset)
{
    uint64_t lowest = offset & -offset;
    return offset && lowest < n->align ? lowest : n->align;
}

static LLVMValueRef narrow_at(const struct narrow *n, LLVMValueRef pointer, uint64_t offset)
{
    LLVMValueRef at = LLVMConstInt(mt_type_int(n->u, 64), offset, 0);
    LLVMPositionBuilderBefore(n->b, n->load);
    LLVMSetCurrentDebugLocation2(n->b, LLVMInstructionGetDebugLoc(n->load));
    return offset ? LLVMBuildInBoundsGEP2(n->b, mt_type_int(n->u, 8), pointer, &at, 1, "") : pointer;
}

/* Is a load of these bits one instruction that the alignment allows? */
static int narrow_fits(const struct narrow *n, const struct narrow_part *p)
{
    return p->shift % 8 == 0 && narrow_is_round(p->bits) && p->shift + p->bits <= n->bits &&
           p->bits < n->bits && narrow_align(n, p->shift / 8) >= p->bits / 8;
}

static int narrow_run(LLVMValueRef v, uint64_t *at, uint64_t *ones)
{
    uint64_t mask;
    if (!narrow_constant(v, &mask) || !mask)
        return 0;
    *at = (uint64_t)__builtin_ctzll(mask);
    *ones = (uint64_t)__builtin_popcountll(mask);
    mask >>= *at;
    return !(mask & (mask + 1));
}

static LLVMValueRef narrow_next(LLVMValueRef v)
{
    LLVMValueRef user = narrow_only_user(v);
    return user && LLVMIsAInstruction(user) &&
                   LLVMGetInstructionParent(user) == LLVMGetInstructionParent(v) &&
                   LLVMGetOperand(user, 0) == v
               ? user
               : NULL;
}

/* Does the mask take nothing that the truncation after it leaves? */
static int narrow_is_idle(LLVMValueRef mask)
{
    uint64_t bits;
    LLVMValueRef trunc = narrow_next(mask);
    if (!narrow_opcode(trunc, LLVMTrunc) || !narrow_constant(LLVMGetOperand(mask, 1), &bits))
        return 0;
    uint64_t used = ~0ull >> (64 - narrow_width(trunc));
    return (bits & used) == used;
}

static void narrow_follow(const struct narrow *n, LLVMValueRef user, struct narrow_chain *c)
{
    uint64_t up = 0;
    int widened = narrow_opcode(user, LLVMZExt) && LLVMGetTypeKind(LLVMTypeOf(user)) == LLVMIntegerTypeKind;
    LLVMValueRef v = widened ? narrow_next(user) : user;
    *c = (struct narrow_chain){0};
    if (!widened && narrow_opcode(v, LLVMShl) && narrow_constant(LLVMGetOperand(v, 1), &up))
        v = narrow_next(v);
    if ((narrow_opcode(v, LLVMLShr) || narrow_opcode(v, LLVMAShr)) &&
        narrow_constant(LLVMGetOperand(v, 1), &c->by) && c->by < n->bits && c->by >= up) {
        c->shift = v;
        c->is_signed = narrow_opcode(v, LLVMAShr) && !widened;
        v = up ? NULL : narrow_next(v);
    }
    if (up && !c->shift)
        return;
    if (up) { /* what is shifted up first is cut off at the top: as if masked there */
        c->at = 0;
        c->ones = n->bits - c->by;
        c->mask = c->shift;
        c->by -= up;
        if (c->is_signed && c->by) /* neither a shift nor an extension of a part */
            *c = (struct narrow_chain){0};
        return;
    }
    if (narrow_opcode(v, LLVMAnd) && narrow_is_idle(v))
        v = narrow_next(v);
    else if (narrow_opcode(v, LLVMAnd) && narrow_run(LLVMGetOperand(v, 1), &c->at, &c->ones)) {
        c->mask = v;
        v = narrow_next(v);
    }
    if (narrow_opcode(v, LLVMTrunc)) {
        c->trunc = v;
        c->to = narrow_width(v);
    }
}

/* A truncated value that is stored is a store of a part; what it is a part of stays whole. */
static int narrow_is_stored(LLVMValueRef trunc)
{
    LLVMValueRef user = narrow_only_user(trunc);
    return user && LLVMIsAStoreInst(user) && LLVMGetOperand(user, 0) == trunc &&
           LLVMGetInstructionParent(user) == LLVMGetInstructionParent(trunc);
}

/* There are no registers of 8 bits: a half of one of 16 is made only where its other bits matter. */
static int narrow_is_extended(LLVMValueRef trunc)
{
    LLVMValueRef user = narrow_only_user(trunc);
    return narrow_opcode(user, LLVMZExt) || narrow_opcode(user, LLVMSExt);
}

/* Two numbers that are cut down to meet in a logical operation: they meet first and are cut down then. */
static int narrow_meets(LLVMValueRef trunc)
{
    LLVMValueRef user = narrow_only_user(trunc);
    if (!narrow_opcode(user, LLVMAnd) && !narrow_opcode(user, LLVMOr) && !narrow_opcode(user, LLVMXor))
        return 0;
    LLVMValueRef other = LLVMGetOperand(user, LLVMGetOperand(user, 0) == trunc ? 1 : 0);
    return LLVMGetInstructionParent(user) == LLVMGetInstructionParent(trunc) &&
           narrow_opcode(other, LLVMTrunc) &&
           LLVMGetInstructionParent(other) == LLVMGetInstructionParent(trunc) &&
           LLVMTypeOf(LLVMGetOperand(other, 0)) == LLVMTypeOf(LLVMGetOperand(trunc, 0));
}

static int narrow_truncated(const struct narrow *n, const struct narrow_chain *c, struct narrow_part *p)
{
    *p = (struct narrow_part){.result = c->trunc, .shift = c->by, .bits = c->to};
    if (n->bits == 16 && !c->by && !narrow_is_extended(c->trunc))
        return 0;
    if (narrow_fits(n, p))
        return 1;
    p->shift = 0;
    p->bits = 32;
    p->right = c->by;
    return n->bits == 64 && c->by && c->by + c->to <= 32 && !narrow_is_extended(c->trunc) &&
           narrow_fits(n, p);
}

/* 1: `p` says what is loaded of it. */
static int narrow_use(const struct narrow *n, LLVMValueRef user, struct narrow_part *p)
{
    struct narrow_chain c;
    narrow_follow(n, user, &c);
    if (c.mask) {
        *p = (struct narrow_part){.result = c.mask,
                                  .shift = c.by + c.at,
                                  .bits = c.ones,
                                  .left = c.at,
                                  .is_signed = c.is_signed && c.mask == c.shift};
        if (narrow_fits(n, p))
            return 1;
    } else if (c.trunc && !narrow_is_stored(c.trunc) && !narrow_meets(c.trunc) && narrow_truncated(n, &c, p))
        return 1;
    *p = (struct narrow_part){
        .result = c.shift, .shift = c.by, .bits = n->bits - c.by, .is_signed = c.is_signed};
    return c.shift && c.shift != c.mask && narrow_fits(n, p);
}

static void narrow_replace(const struct narrow *n, const struct narrow_part *p)
{
    LLVMTypeRef type = LLVMTypeOf(p->result);
    LLVMValueRef pointer = narrow_at(n, LLVMGetOperand(n->load, 0), p->shift / 8);
    LLVMValueRef part = LLVMBuildLoad2(n->b, mt_type_int(n->u, (unsigned)p->bits), pointer, "");
    LLVMSetAlignment(part, (unsigned)narrow_align(n, p->shift / 8));
    mt_copy_load_metadata(n->u, n->load, part);
    LLVMPositionBuilderBefore(n->b, p->result);
    if (p->right)
        part = LLVMBuildLShr(n->b, part, LLVMConstInt(LLVMTypeOf(part), p->right, 0), "");
    LLVMValueRef value = LLVMBuildIntCast2(n->b, part, type, p->is_signed, "");
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
        struct narrow_chain c;
        narrow_follow(n, LLVMGetUser(use), &c);
        if (k == 2 || c.mask || c.is_signed || !c.trunc || LLVMGetInstructionParent(c.trunc) != block)
            return;
        part[k] = (struct narrow_part){.result = c.trunc, .shift = c.by, .bits = c.to};
        if (!narrow_fits(n, &part[k]))
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
        bits < 16 || !narrow_constant(LLVMGetOperand(user, 1), &index) || n->align < bits / 8)
        return;
    LLVMValueRef pointer = narrow_at(n, LLVMGetOperand(n->load, 0), index * bits / 8);
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
    else if (kind == LLVMIntegerTypeKind && narrow_use(n, user, &part))
        narrow_replace(n, &part);
}

/* ---- a field of a word that is read, changed and written back: only the field is written -------------- */

/* Is `kept` what a load has just read from where the store writes, without some bytes: n->load, which, how
 * many bits? */
static int narrow_keeps(struct narrow *n, LLVMValueRef kept, LLVMValueRef store, uint64_t *at, uint64_t *bits)
{
    uint64_t mask;
    LLVMValueRef load = narrow_opcode(kept, LLVMAnd) ? LLVMIsALoadInst(LLVMGetOperand(kept, 0)) : NULL;
    if (!load || !narrow_constant(LLVMGetOperand(kept, 1), &mask) || mt_shim_orders_memory(load) ||
        LLVMGetOperand(load, 0) != LLVMGetOperand(store, 1))
        return 0;
    LLVMValueRef before = LLVMGetPreviousInstruction(store);
    while (before && before != load && !mt_shim_orders_memory(before))
        before = LLVMGetPreviousInstruction(before);
    n->bits = narrow_width(load);
    mask = ~mask & (n->bits == 64 ? ~0ull : (1ull << n->bits) - 1);
    LLVMValueRef field = LLVMConstInt(mt_type_int(n->u, 64), mask, 0);
    return before == load && narrow_run(field, at, bits) && *at % 8 == 0 && narrow_is_round(*bits) &&
           *bits < n->bits && *at % *bits == 0;
}

static void narrow_store(struct narrow *n, LLVMValueRef store)
{
    LLVMValueRef value = LLVMGetOperand(store, 0);
    uint64_t at, bits, zero;
    if (!narrow_opcode(value, LLVMOr) || narrow_only_user(value) != store || LLVMGetVolatile(store) ||
        LLVMGetTypeKind(LLVMTypeOf(value)) != LLVMIntegerTypeKind || narrow_width(value) > 64 ||
        LLVMGetOrdering(store) != LLVMAtomicOrderingNotAtomic)
        return;
    n->load = store;
    n->align = LLVMGetAlignment(store);
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef put = LLVMGetOperand(value, 1 - i);
        if (!narrow_keeps(n, LLVMGetOperand(value, i), store, &at, &bits) || LLVMIsNull(put))
            continue;
        uint64_t field = (bits == 64 ? ~0ull : (1ull << bits) - 1) << at;
        zero = mt_shim_zero_bits(put) | field | (n->bits == 64 ? 0 : ~0ull << n->bits);
        if (~zero)
            continue;
        LLVMValueRef pointer = narrow_at(n, LLVMGetOperand(store, 1), at / 8);
        if (at)
            put = LLVMBuildLShr(n->b, put, LLVMConstInt(LLVMTypeOf(put), at, 0), "");
        put = LLVMBuildTrunc(n->b, put, mt_type_int(n->u, (unsigned)bits), "");
        LLVMSetAlignment(LLVMBuildStore(n->b, put, pointer), (unsigned)narrow_align(n, at / 8));
        LLVMInstructionEraseFromParent(store);
        mt_shim_delete_dead(value);
        return;
    }
}

static void narrow_each(struct narrow *n, LLVMValueRef function, int stores)
{
    unsigned count = 0, some = 0;
    LLVMValueRef *list = mt_instructions(function, &count);
    for (unsigned i = 0; list && i < count; i++)
        if (stores ? LLVMIsAStoreInst(list[i]) : LLVMIsALoadInst(list[i]))
            list[some++] = list[i]; /* others may go */
    for (unsigned i = 0; i < some; i++)
        if (stores)
            narrow_store(n, list[i]);
        else
            narrow_load(n, list[i]);
    free(list);
}

void mt_unit_narrow_accesses(struct mt_unit *u)
{
    struct narrow n = {.u = u, .b = LLVMCreateBuilderInContext(u->context)};
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) {
            narrow_each(&n, f, 1);
            mt_unit_narrow_masked(u, f);
            narrow_each(&n, f, 0);
        }
    LLVMDisposeBuilder(n.b);
}
