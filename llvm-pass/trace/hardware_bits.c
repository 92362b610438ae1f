/* Loads whose uses, also in other blocks and after phis, all look at lower bits alone: CodeGenPrepare masks
 * them where they are loaded (LLVM 19, optimizeLoadExt), so that instruction selection, which sees one block
 * at a time, loads no more than these bits. One of the uses must be a mask of just them. */
#include "base/unit.h"
#include "memtrace/grow.h"
#include <stdlib.h>

struct bits {
    struct mt_unit *u;
    LLVMBuilderRef b;
    LLVMValueRef *seen; /* users of the load, and of phis that it goes into */
    size_t n, cap;
    uint64_t used, widest; /* bits that are looked at; the largest mask */
};

/* Notes the users. 0: no memory. */
static int bits_add_users(struct bits *m, LLVMValueRef value)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        unsigned i = 0;
        while (i < m->n && m->seen[i] != LLVMGetUser(use))
            i++;
        if (i < m->n)
            continue;
        if (mt_grow(&m->seen, &m->cap, m->n + 1, sizeof *m->seen))
            return 0;
        m->seen[m->n++] = LLVMGetUser(use);
    }
    return 1;
}

static uint64_t bits_low(uint64_t bits)
{
    return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

/* Which bits of a load of `width` bits one user looks at; 0: it cannot be said. */
static int bits_look(struct bits *m, LLVMValueRef user, uint64_t width)
{
    LLVMOpcode op = LLVMIsAInstruction(user) ? LLVMGetInstructionOpcode(user) : LLVMRet;
    LLVMValueRef by = op == LLVMAnd || op == LLVMShl ? LLVMIsAConstantInt(LLVMGetOperand(user, 1)) : NULL;
    uint64_t value = by ? LLVMConstIntGetZExtValue(by) : 0;
    if (op == LLVMPHI)
        return bits_add_users(m, user);
    if (op == LLVMTrunc)
        m->used |= bits_low(LLVMGetIntTypeWidth(LLVMTypeOf(user)));
    else if (by && op == LLVMAnd) {
        m->used |= value;
        m->widest = value > m->widest ? value : m->widest;
    } else if (by && value < width)
        m->used |= bits_low(width - value);
    else
        return 0;
    return 1;
}

/* Do all users of the load in its own block mask it alike? Instruction selection lets others there look past
 * the mask, so the load is used twice, and stays. Those in other blocks and behind a phi cannot. */
static int bits_are_masked(const struct bits *m, LLVMValueRef load)
{
    for (LLVMUseRef use = LLVMGetFirstUse(load); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (LLVMIsAPHINode(user) || LLVMGetInstructionParent(user) != LLVMGetInstructionParent(load))
            continue;
        if (LLVMGetInstructionOpcode(user) != LLVMAnd ||
            LLVMConstIntGetZExtValue(LLVMGetOperand(user, 1)) != m->used)
            return 0;
    }
    return 1;
}

/* Truncations go to where their value is made, and there equal ones are one: a load that only they use is as
 * wide as they are, whatever block they stand in. 1: it is so. */
static int bits_join_truncations(struct bits *m, LLVMValueRef load)
{
    LLVMUseRef use = LLVMGetFirstUse(load);
    LLVMTypeRef type = use ? LLVMTypeOf(LLVMGetUser(use)) : NULL;
    for (; use; use = LLVMGetNextUse(use))
        if (!LLVMIsATruncInst(LLVMGetUser(use)) || LLVMTypeOf(LLVMGetUser(use)) != type)
            return 0;
    if (!type)
        return 0;
    LLVMPositionBuilderBefore(m->b, LLVMGetNextInstruction(load));
    LLVMSetCurrentDebugLocation2(m->b, LLVMInstructionGetDebugLoc(load));
    LLVMValueRef joined = LLVMBuildTrunc(m->b, load, type, "");
    for (LLVMUseRef next = LLVMGetFirstUse(load); (use = next);) {
        next = LLVMGetNextUse(use);
        LLVMValueRef one = LLVMGetUser(use);
        if (one == joined)
            continue;
        LLVMReplaceAllUsesWith(one, joined);
        LLVMInstructionEraseFromParent(one);
    }
    return 1;
}

static void bits_load(struct bits *m, LLVMValueRef load)
{
    LLVMTypeRef type = LLVMTypeOf(load);
    if (LLVMGetTypeKind(type) != LLVMIntegerTypeKind || LLVMGetIntTypeWidth(type) > 64 ||
        LLVMGetVolatile(load) || LLVMGetOrdering(load) != LLVMAtomicOrderingNotAtomic ||
        bits_join_truncations(m, load))
        return;
    uint64_t width = LLVMGetIntTypeWidth(type);
    m->n = 0;
    m->used = m->widest = 0;
    int known = bits_add_users(m, load);
    for (unsigned i = 0; known && i < m->n; i++)
        known = bits_look(m, m->seen[i], width);
    if (!known || m->used != m->widest || (m->used != 0xff && m->used != 0xffff && m->used != 0xffffffff) ||
        m->used >= bits_low(width) || !bits_are_masked(m, load))
        return;
    LLVMPositionBuilderBefore(m->b, LLVMGetNextInstruction(load));
    LLVMSetCurrentDebugLocation2(m->b, LLVMInstructionGetDebugLoc(load));
    LLVMValueRef masked = LLVMBuildAnd(m->b, load, LLVMConstInt(type, m->used, 0), "");
    LLVMReplaceAllUsesWith(load, masked);
    LLVMSetOperand(masked, 0, load);
    for (unsigned i = 0; i < m->n; i++) { /* these masks do nothing any more */
        LLVMValueRef mask = LLVMIsAInstruction(m->seen[i]);
        if (LLVMGetInstructionOpcode(mask) != LLVMAnd || LLVMGetOperand(mask, 0) != masked ||
            LLVMConstIntGetZExtValue(LLVMGetOperand(mask, 1)) != m->used)
            continue;
        LLVMReplaceAllUsesWith(mask, masked);
        LLVMInstructionEraseFromParent(mask);
    }
}

void mt_unit_mask_loads(struct mt_unit *u)
{
    struct bits m = {.u = u, .b = LLVMCreateBuilderInContext(u->context)};
    for (LLVMValueRef f = u->options->level ? LLVMGetFirstFunction(u->module) : NULL; f;
         f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        unsigned loads = 0;
        for (unsigned i = 0; list && i < n; i++)
            if (LLVMIsALoadInst(list[i]))
                list[loads++] = list[i];
        for (unsigned i = 0; i < loads; i++)
            bits_load(&m, list[i]);
        free(list);
    }
    free(m.seen);
    LLVMDisposeBuilder(m.b);
}
