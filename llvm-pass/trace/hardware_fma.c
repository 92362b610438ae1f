/* Fused multiply-adds, formed before the module is cloned, so that the traced and the untraced GPU code and
 * the CPU image round alike. The choice is instruction selection's (LLVM 19,
 * DAGCombiner::visitFADDForFMACombine and visitFSUBForFMACombine with NVPTX's "aggressive" fusion): within a
 * block, users before operands, each sum of a product that may be contracted, whether or not the product has
 * other uses. */
#include "base/unit.h"
#include "memtrace/grow.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct fuse {
    struct mt_unit *u;
    LLVMBuilderRef b;
    LLVMBasicBlockRef block;
};

static int fuse_is(LLVMValueRef v, LLVMOpcode op)
{
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == op;
}

static int fuse_may(LLVMValueRef v)
{
    return mt_pass_options.contract_all || (LLVMGetFastMathFlags(v) & LLVMFastMathAllowContract);
}

static int fuse_is_product(const struct fuse *f, LLVMValueRef v)
{
    return fuse_is(v, LLVMFMul) && LLVMGetInstructionParent(v) == f->block && fuse_may(v);
}

/* -0 - x, as device libraries spell -x. */
static int fuse_is_old_negation(LLVMValueRef v)
{
    LLVMBool loses;
    LLVMValueRef zero = fuse_is(v, LLVMFSub) ? LLVMIsAConstantFP(LLVMGetOperand(v, 0)) : NULL;
    double value = zero ? LLVMConstRealGetDouble(zero, &loses) : 1;
    return value == 0 && signbit(value);
}

/* What v is the negative of; NULL: it is not said to be. */
static LLVMValueRef fuse_negated(const struct fuse *f, LLVMValueRef v)
{
    if (!LLVMIsAInstruction(v) || LLVMGetInstructionParent(v) != f->block)
        return NULL;
    return fuse_is(v, LLVMFNeg)      ? LLVMGetOperand(v, 0)
           : fuse_is_old_negation(v) ? LLVMGetOperand(v, 1)
                                     : NULL;
}

/* Uses as instruction selection counts them: those in other blocks are one,
 * of the register that carries it. */
static unsigned fuse_uses(const struct fuse *f, LLVMValueRef v)
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

/* Half precision has an intrinsic of NVPTX's: x86 would round llvm.fma twice. */
static const char *fuse_name(LLVMTypeRef type)
{
    int pair = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    LLVMTypeKind kind = LLVMGetTypeKind(pair ? LLVMGetElementType(type) : type);
    if (pair && LLVMGetVectorSize(type) != 2 && (kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind))
        return NULL;
    return kind == LLVMHalfTypeKind     ? pair ? "llvm.nvvm.fma.rn.f16x2" : "llvm.nvvm.fma.rn.f16"
           : kind == LLVMBFloatTypeKind ? pair ? "llvm.nvvm.fma.rn.bf16x2" : "llvm.nvvm.fma.rn.bf16"
                                        : "llvm.fma";
}

static int fuse_replace(const struct fuse *f, LLVMValueRef sum, LLVMValueRef x, LLVMValueRef y,
                        LLVMValueRef z)
{
    LLVMTypeRef type = LLVMTypeOf(sum);
    const char *name = fuse_name(type);
    if (!name)
        return 0;
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name)), overloaded = !strcmp(name, "llvm.fma");
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(f->u->module, id, &type, overloaded),
                 args[] = {x, y, z};
    LLVMValueRef fma = LLVMBuildCall2(f->b, LLVMGlobalGetValueType(function), function, args, 3, "");
    LLVMSetFastMathFlags(fma, LLVMGetFastMathFlags(sum));
    LLVMReplaceAllUsesWith(sum, fma);
    mt_shim_delete_dead(sum);
    return 1;
}

/* xy + z, where xy is a product; with signs. */
static int fuse_with(const struct fuse *f, LLVMValueRef sum, LLVMValueRef xy, int minus_xy, LLVMValueRef z,
                     int minus_z)
{
    if (!fuse_is_product(f, xy))
        return 0;
    LLVMValueRef x = LLVMGetOperand(xy, 0), y = LLVMGetOperand(xy, 1);
    if (minus_xy)
        x = LLVMBuildFNeg(f->b, x, "");
    if (minus_z)
        z = LLVMBuildFNeg(f->b, z, "");
    return fuse_replace(f, sum, x, y, z);
}

static int fuse_add(const struct fuse *f, LLVMValueRef sum, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef swap = a;
    if (a == b)
        return 0;
    if (fuse_is_product(f, a) && fuse_is_product(f, b) && fuse_uses(f, a) > fuse_uses(f, b)) {
        a = b;
        b = swap;
    }
    return fuse_with(f, sum, a, 0, b, 0) || fuse_with(f, sum, b, 0, a, 0);
}

static int fuse_subtract(const struct fuse *f, LLVMValueRef sum, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef minus_a = fuse_negated(f, a);
    if (fuse_is_product(f, a) && fuse_is_product(f, b) && fuse_uses(f, a) > fuse_uses(f, b))
        return fuse_with(f, sum, b, 1, a, 0) || fuse_with(f, sum, a, 0, b, 1);
    if (fuse_with(f, sum, a, 0, b, 1) || fuse_with(f, sum, b, 1, a, 0))
        return 1;
    return minus_a && fuse_with(f, sum, minus_a, 1, b, 1);
}

static void fuse_sum(const struct fuse *f, LLVMValueRef sum)
{
    LLVMValueRef a = LLVMGetOperand(sum, 0), b = LLVMGetOperand(sum, 1);
    LLVMValueRef minus_a = fuse_negated(f, a), minus_b = fuse_negated(f, b);
    int subtract = fuse_is(sum, LLVMFSub);
    LLVMPositionBuilderBefore(f->b, sum);
    LLVMSetCurrentDebugLocation2(f->b, LLVMInstructionGetDebugLoc(sum));
    if (subtract && minus_b)
        fuse_add(f, sum, a, minus_b);
    else if (subtract)
        fuse_subtract(f, sum, a, b);
    else if (minus_b)
        fuse_subtract(f, sum, a, minus_b);
    else if (minus_a)
        fuse_subtract(f, sum, b, minus_a);
    else
        fuse_add(f, sum, a, b);
}

/* "a && b" of comparisons as a select: the operand that counts only where the other one lets it, else NULL.
 * Instruction selection makes a logical operation of it and freezes that operand. */
static LLVMValueRef fuse_guarded(LLVMValueRef select)
{
    if (!fuse_is(select, LLVMSelect) || LLVMTypeOf(select) != LLVMTypeOf(LLVMGetOperand(select, 0)))
        return NULL;
    LLVMValueRef condition = LLVMGetOperand(select, 0), yes = LLVMGetOperand(select, 1),
                 no = LLVMGetOperand(select, 2);
    if (LLVMIsAConstantInt(yes) || yes == condition)
        return no;
    return LLVMIsAConstantInt(no) || no == condition ? yes : NULL;
}

/* The freeze moves up through the comparison to products, whose other uses then see no product any more. */
static void fuse_freeze(const struct fuse *f, LLVMValueRef comparison)
{
    if (!fuse_is(comparison, LLVMFCmp) || LLVMGetInstructionParent(comparison) != f->block ||
        !LLVMGetFirstUse(comparison) || LLVMGetNextUse(LLVMGetFirstUse(comparison)) ||
        (LLVMGetFastMathFlags(comparison) & (LLVMFastMathNoNaNs | LLVMFastMathNoInfs)))
        return;
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef product = LLVMGetOperand(comparison, i);
        if (!fuse_is_product(f, product))
            continue;
        LLVMPositionBuilderBefore(f->b, LLVMGetNextInstruction(product));
        LLVMSetCurrentDebugLocation2(f->b, LLVMInstructionGetDebugLoc(product));
        LLVMValueRef frozen = LLVMBuildFreeze(f->b, product, "");
        LLVMReplaceAllUsesWith(product, frozen);
        LLVMSetOperand(frozen, 0, product);
    }
}

/* From the last sum to the first: a product goes when its last sum has taken it in. */
static void fuse_block(struct fuse *f)
{
    size_t n = 0, cap = 0;
    LLVMValueRef *list = NULL;
    for (LLVMValueRef i = LLVMGetFirstInstruction(f->block); i; i = LLVMGetNextInstruction(i)) {
        int sum = (fuse_is(i, LLVMFAdd) || fuse_is(i, LLVMFSub)) && fuse_may(i) && !fuse_is_old_negation(i);
        if (!sum && !fuse_guarded(i))
            continue;
        if (mt_grow(&list, &cap, n + 1, sizeof *list))
            break;
        list[n++] = i;
    }
    while (n--) {
        LLVMValueRef guarded = fuse_guarded(list[n]);
        if (guarded)
            fuse_freeze(f, guarded);
        else
            fuse_sum(f, list[n]);
    }
    free(list);
}

void mt_unit_fuse(struct mt_unit *u)
{
    struct fuse f = {.u = u, .b = LLVMCreateBuilderInContext(u->context)};
    for (LLVMValueRef g = LLVMGetFirstFunction(u->module); g; g = LLVMGetNextFunction(g))
        for (f.block = LLVMGetFirstBasicBlock(g); f.block; f.block = LLVMGetNextBasicBlock(f.block))
            fuse_block(&f);
    LLVMDisposeBuilder(f.b);
}

/* What is left is not to be fused: the CPU's code has other blocks. */
void mt_forbid_contraction(LLVMModuleRef module)
{
    for (LLVMValueRef g = LLVMGetFirstFunction(module); g; g = LLVMGetNextFunction(g))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(g); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if (LLVMCanValueUseFastMathFlags(i))
                    LLVMSetFastMathFlags(i, LLVMGetFastMathFlags(i) &
                                                ~(LLVMFastMathFlags)LLVMFastMathAllowContract);
}
