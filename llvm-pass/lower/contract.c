/* Fuses products and sums without a stated rounding, which PTX lets ptxas fuse, as ptxas is believed to do
 * it: within a block, users before operands, each sum of a product, whether or not the product has other
 * uses. LLVM makes fma instructions for this target by the same rule (LLVM 19,
 * DAGCombiner::visitFADDForFMACombine with NVPTX's "aggressive" fusion). */
#include "lower.h"
#include "memtrace/grow.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fuse {
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMBasicBlockRef block;
};

static int contract_is(LLVMValueRef v, LLVMOpcode op)
{
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == op;
}

static int contract_may(LLVMValueRef v)
{
    return (LLVMGetFastMathFlags(v) & LLVMFastMathAllowContract) != 0;
}

static int contract_is_product(const struct fuse *f, LLVMValueRef v)
{
    return contract_is(v, LLVMFMul) && LLVMGetInstructionParent(v) == f->block && contract_may(v);
}

/* Matches -0 - x, device libraries' spelling of -x. */
static int contract_is_old_negation(LLVMValueRef v)
{
    LLVMBool loses;
    LLVMValueRef zero = contract_is(v, LLVMFSub) ? LLVMIsAConstantFP(LLVMGetOperand(v, 0)) : NULL;
    double value = zero ? LLVMConstRealGetDouble(zero, &loses) : 1;
    return value == 0 && signbit(value);
}

/* Returns the operand that v negates, or NULL. */
static LLVMValueRef contract_negated(const struct fuse *f, LLVMValueRef v)
{
    if (!LLVMIsAInstruction(v) || LLVMGetInstructionParent(v) != f->block)
        return NULL;
    return contract_is(v, LLVMFNeg)      ? LLVMGetOperand(v, 0)
           : contract_is_old_negation(v) ? LLVMGetOperand(v, 1)
                                         : NULL;
}

/* Counts uses as instruction selection does: those in other blocks are one, of the register that carries
 * it. */
static unsigned contract_uses(const struct fuse *f, LLVMValueRef v)
{
    unsigned n = 0;
    int leaves = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(v); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (LLVMGetInstructionParent(user) == f->block && !LLVMIsAPHINode(user))
            n++;
        else
            leaves = 1;
    }
    return n + (unsigned)leaves;
}

static int contract_replace(const struct fuse *f, LLVMValueRef sum, LLVMValueRef x, LLVMValueRef y,
                            LLVMValueRef z)
{
    static const char name[] = "llvm.fma";
    LLVMTypeRef type = LLVMTypeOf(sum);
    unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(f->module, id, &type, 1), args[] = {x, y, z};
    LLVMValueRef fma = LLVMBuildCall2(f->b, LLVMGlobalGetValueType(function), function, args, 3, "");
    LLVMReplaceAllUsesWith(sum, fma);
    mt_shim_delete_dead(sum);
    return 1;
}

/* Fuses xy + z, where xy is a product; with signs. */
static int contract_with(const struct fuse *f, LLVMValueRef sum, LLVMValueRef xy, int minus_xy,
                         LLVMValueRef z, int minus_z)
{
    if (!contract_is_product(f, xy))
        return 0;
    LLVMValueRef x = LLVMGetOperand(xy, 0), y = LLVMGetOperand(xy, 1);
    if (minus_xy)
        x = LLVMBuildFNeg(f->b, x, "");
    if (minus_z)
        z = LLVMBuildFNeg(f->b, z, "");
    return contract_replace(f, sum, x, y, z);
}

static int contract_add(const struct fuse *f, LLVMValueRef sum, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef swap = a;
    if (a == b)
        return 0;
    if (contract_is_product(f, a) && contract_is_product(f, b) && contract_uses(f, a) > contract_uses(f, b)) {
        a = b;
        b = swap;
    }
    return contract_with(f, sum, a, 0, b, 0) || contract_with(f, sum, b, 0, a, 0);
}

static int contract_subtract(const struct fuse *f, LLVMValueRef sum, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef minus_a = contract_negated(f, a);
    if (contract_is_product(f, a) && contract_is_product(f, b) && contract_uses(f, a) > contract_uses(f, b))
        return contract_with(f, sum, b, 1, a, 0) || contract_with(f, sum, a, 0, b, 1);
    if (contract_with(f, sum, a, 0, b, 1) || contract_with(f, sum, b, 1, a, 0))
        return 1;
    return minus_a && contract_with(f, sum, minus_a, 1, b, 1);
}

static void contract_sum(const struct fuse *f, LLVMValueRef sum)
{
    LLVMValueRef a = LLVMGetOperand(sum, 0), b = LLVMGetOperand(sum, 1);
    LLVMValueRef minus_a = contract_negated(f, a), minus_b = contract_negated(f, b);
    int subtract = contract_is(sum, LLVMFSub);
    LLVMPositionBuilderBefore(f->b, sum);
    LLVMSetCurrentDebugLocation2(f->b, LLVMInstructionGetDebugLoc(sum));
    if (subtract && minus_b)
        contract_add(f, sum, a, minus_b);
    else if (subtract)
        contract_subtract(f, sum, a, b);
    else if (minus_b)
        contract_subtract(f, sum, a, minus_b);
    else if (minus_a)
        contract_subtract(f, sum, b, minus_a);
    else
        contract_add(f, sum, a, b);
}

/* Fuses from the last sum to the first: a product is removed once its last sum is fused. */
static void contract_block(struct fuse *f)
{
    size_t n = 0, cap = 0;
    LLVMValueRef *list = NULL;
    for (LLVMValueRef i = LLVMGetFirstInstruction(f->block); i; i = LLVMGetNextInstruction(i)) {
        int sum = (contract_is(i, LLVMFAdd) || contract_is(i, LLVMFSub)) && contract_may(i) &&
                  !contract_is_old_negation(i);
        if (!sum)
            continue;
        if (mt_grow(&list, &cap, n + 1, sizeof *list))
            break;
        list[n++] = i;
    }
    while (n--)
        contract_sum(f, list[n]);
    free(list);
}

/* Forbids fusing what is left, as the code has other blocks now. */
static void contract_forbid(LLVMModuleRef module)
{
    for (LLVMValueRef g = LLVMGetFirstFunction(module); g; g = LLVMGetNextFunction(g))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(g); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if (LLVMCanValueUseFastMathFlags(i))
                    LLVMSetFastMathFlags(i, LLVMGetFastMathFlags(i) &
                                                ~(LLVMFastMathFlags)LLVMFastMathAllowContract);
}

void mt_lower_contraction(struct mt_lowering *l)
{
    struct fuse f = {.module = l->module, .b = LLVMCreateBuilderInContext(l->u->context)};
    for (LLVMValueRef g = LLVMGetFirstFunction(l->module); g; g = LLVMGetNextFunction(g))
        for (f.block = LLVMGetFirstBasicBlock(g); f.block; f.block = LLVMGetNextBasicBlock(f.block))
            contract_block(&f);
    LLVMDisposeBuilder(f.b);
    contract_forbid(l->module);
}
