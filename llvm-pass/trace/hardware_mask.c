/* A mask of a byte, 16 or 32 bits over a combination of loads: (p[i] ^ q[i]) & 255. Instruction selection
 * loads just these bits of each (LLVM's DAGCombiner: BackwardsPropagateMask). */
#include "base/unit.h"
#include <stdlib.h>

#define MOST_LOADS 32

struct mask {
    struct mt_unit *u;
    LLVMBasicBlockRef block;
    unsigned bits;
    LLVMValueRef loads[MOST_LOADS];
    unsigned n;
    int rest; /* values that are masked by an instruction of their own: one may be */
};

/* Does anything in the block, or, of what the block makes, anything else, use the value a second time? */
static int mask_is_shared(const struct mask *m, LLVMValueRef v, int made_here)
{
    unsigned uses = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMIsAInstruction(LLVMGetUser(use));
        uses += made_here || (user && LLVMGetInstructionParent(user) == m->block);
    }
    return uses > 1;
}

static int mask_is_entry(const struct mask *m)
{
    return m->block == LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(m->block));
}

/* 0: this load cannot give way to a smaller one. */
static int mask_load(struct mask *m, LLVMValueRef load)
{
    if (LLVMGetVolatile(load) || LLVMGetOrdering(load) != LLVMAtomicOrderingNotAtomic || m->n == MOST_LOADS)
        return 0;
    if (LLVMGetIntTypeWidth(LLVMTypeOf(load)) > m->bits)
        m->loads[m->n++] = load;
    return 1;
}

static LLVMValueRef mask_extended(LLVMValueRef v)
{
    return LLVMIsAZExtInst(v) || LLVMIsASExtInst(v) ? LLVMGetOperand(v, 0) : v;
}

static int mask_search(struct mask *m, LLVMValueRef v)
{
    int is_argument = LLVMIsAArgument(v) && mask_is_entry(m);
    int made_here = is_argument || (LLVMIsAInstruction(v) && LLVMGetInstructionParent(v) == m->block);
    if (LLVMIsAConstantInt(v))
        return 1;
    if (mask_is_shared(m, v, made_here))
        return 0;
    if (is_argument) /* a load from the parameters; without optimisation all blocks get it from a register */
        return mt_pass_options.level > 0;
    LLVMValueRef load = made_here ? LLVMIsALoadInst(mask_extended(v)) : NULL;
    if (load && LLVMGetInstructionParent(load) == m->block && (load == v || !mask_is_shared(m, load, 1)))
        return mask_load(m, load);
    if (made_here && LLVMIsAZExtInst(v) && LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(v, 0))) <= m->bits)
        return 1;
    if (made_here && (LLVMIsAInstruction(v) &&
                      (LLVMGetInstructionOpcode(v) == LLVMOr || LLVMGetInstructionOpcode(v) == LLVMXor ||
                       LLVMGetInstructionOpcode(v) == LLVMAnd)))
        return mask_search(m, LLVMGetOperand(v, 0)) && mask_search(m, LLVMGetOperand(v, 1));
    return !m->rest++;
}

static void mask_narrow(const struct mask *m, LLVMBuilderRef b, LLVMValueRef load)
{
    LLVMPositionBuilderBefore(b, load);
    LLVMSetCurrentDebugLocation2(b, LLVMInstructionGetDebugLoc(load));
    LLVMValueRef part = LLVMBuildLoad2(b, mt_type_int(m->u, m->bits), LLVMGetOperand(load, 0), "");
    LLVMSetAlignment(part, (unsigned)mt_alignment(load));
    mt_copy_load_metadata(m->u, load, part);
    LLVMReplaceAllUsesWith(load, LLVMBuildZExt(b, part, LLVMTypeOf(load), ""));
    LLVMInstructionEraseFromParent(load);
}

/* What an instruction takes the lowest 8, 16 or 32 bits of; NULL: it does something else. */
static LLVMValueRef mask_over(LLVMValueRef inst, unsigned *bits)
{
    LLVMValueRef trunc = LLVMIsAZExtInst(inst) ? LLVMIsATruncInst(LLVMGetOperand(inst, 0)) : NULL,
                 from = NULL;
    if (trunc && LLVMTypeOf(LLVMGetOperand(trunc, 0)) == LLVMTypeOf(inst) &&
        !LLVMGetNextUse(LLVMGetFirstUse(trunc))) {
        *bits = LLVMGetIntTypeWidth(LLVMTypeOf(trunc));
        from = LLVMGetOperand(trunc, 0);
    } else if (LLVMIsABinaryOperator(inst) && LLVMGetInstructionOpcode(inst) == LLVMAnd &&
               LLVMIsAConstantInt(LLVMGetOperand(inst, 1)) && LLVMGetIntTypeWidth(LLVMTypeOf(inst)) <= 64) {
        uint64_t ones = LLVMConstIntGetZExtValue(LLVMGetOperand(inst, 1));
        *bits = ones & (ones + 1) ? 0 : (unsigned)__builtin_popcountll(ones);
        from = LLVMGetOperand(inst, 0);
    }
    if (!from || !LLVMIsABinaryOperator(from) || (*bits != 8 && *bits != 16 && *bits != 32))
        return NULL;
    return LLVMGetInstructionOpcode(from) == LLVMAnd && LLVMIsAConstantInt(LLVMGetOperand(from, 1)) ? NULL
                                                                                                    : from;
}

void mt_unit_narrow_masked(struct mt_unit *u, LLVMValueRef function)
{
    unsigned count = 0, some = 0, bits;
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    LLVMValueRef *list = mt_instructions(function, &count);
    for (unsigned i = 0; list && i < count; i++)
        if (mask_over(list[i], &bits))
            list[some++] = list[i]; /* loads may go */
    for (unsigned i = 0; i < some; i++) {
        struct mask m = {.u = u, .block = LLVMGetInstructionParent(list[i])};
        if (!mask_search(&m, mask_over(list[i], &m.bits)))
            continue;
        for (unsigned k = 0; k < m.n; k++)
            mask_narrow(&m, b, m.loads[k]);
    }
    free(list);
    LLVMDisposeBuilder(b);
}
