/* Steps that turn an instrumented device module into an x86-64 module, and their order. */
#include "cpu/cpu.h"
#include "lower/lowering.h"
#include "lower.h"
#include "memtrace/grow.h"
#include "ptx/module/module.h"
#include "trace/trace.h"
#include "ptx/asm/asm.h"
#include "format/image.h"
#include "trace/plain.h"
#include "vector/vector.h"

#include <llvm-c/DebugInfo.h>
#include <llvm-c/Linker.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions that the CPU device calls, per kernel: those for whole warps (vector/) and, if these do not
 * take all launches, entry(void **args), which runs one thread with its coordinates in thread-local state. */

/* Adds one internal function (ptr args) -> void for the image's CPU. */
static LLVMValueRef add_runner(struct mt_lowering *l, const char *prefix, const char *kernel)
{
    char name[4200];
    snprintf(name, sizeof name, "%s%s", prefix, kernel);
    LLVMTypeRef type = LLVMFunctionType(l->none, &l->ptr, 1, 0);
    LLVMValueRef f = LLVMAddFunction(l->module, name, type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    mt_set_image_cpu(l->u, f);
    LLVMAddAttributeAtIndex(
        f, LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(l->u->context, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
    return f;
}

/* Loads the kernel's arguments from args[]; by-value structures stay in place. Returns a malloc'ed array. */
static LLVMValueRef *load_arguments(struct mt_lowering *l, LLVMValueRef kernel, LLVMValueRef args)
{
    unsigned n = LLVMCountParams(kernel);
    LLVMValueRef *values = malloc((n + 1) * sizeof *values);
    for (unsigned i = 0; values && i < n; i++) {
        LLVMValueRef index = LLVMConstInt(l->i64, i, 0);
        LLVMValueRef slot = LLVMBuildGEP2(l->builder, l->ptr, args, &index, 1, "");
        LLVMValueRef p = LLVMBuildLoad2(l->builder, l->ptr, slot, "");
        LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(kernel, i));
        values[i] = mt_shim_byval_type(kernel, i) ? p : LLVMBuildLoad2(l->builder, type, p, "");
    }
    return values;
}

static LLVMValueRef call_kernel(struct mt_lowering *l, LLVMValueRef kernel, LLVMValueRef *values)
{
    LLVMValueRef call = LLVMBuildCall2(l->builder, LLVMGlobalGetValueType(kernel), kernel, values,
                                       LLVMCountParams(kernel), "");
    mt_shim_copy_param_attributes(call, kernel);
    return call;
}

static LLVMValueRef build_entry(struct mt_lowering *l, LLVMValueRef kernel)
{
    LLVMValueRef f = add_runner(l, MT_RUN_ENTRY, mt_name(kernel));
    LLVMPositionBuilderAtEnd(l->builder, LLVMAppendBasicBlockInContext(l->u->context, f, ""));
    LLVMValueRef *values = load_arguments(l, kernel, LLVMGetParam(f, 0));
    if (values)
        call_kernel(l, kernel, values);
    LLVMBuildRetVoid(l->builder);
    free(values);
    return f;
}

/* Declares builtins called by code that is made later. */
void mt_declare_registers(struct mt_lowering *l)
{
    static const char *const registers[] = {"tid", "ntid", "ctaid", "nctaid"};
    static const char *const others[] = {"mtb_nvvm_read_ptx_sreg_warpid",
                                         "mtb_set_thread",
                                         "mtb_warp_first",
                                         "mtb_warp_end",
                                         "__mt_warp_global",
                                         "__mt_warp_generic",
                                         "__mt_warp_global_rows",
                                         "__mt_warp_generic_rows",
                                         "__mt_warp_global_lanes",
                                         "__mt_warp_generic_lanes",
                                         "__mt_warp_end",
                                         "__mt_region_begin",
                                         "__mt_region_end",
                                         "__mt_region_leave",
                                         "__mt_region_lost",
                                         "__mt_warp_apart",
                                         "__mt_warp_undefined",
                                         "__mt_warp_turn",
                                         "__mt_warp_matrix",
                                         "__mt_warp_each",
                                         "mtb_addresses",
                                         "mtb_load_rows",
                                         "mtb_store_same",
                                         "mtb_store_rows"};
    char name[64];
    LLVMTypeRef type;
    for (unsigned i = 0; i < sizeof registers / sizeof *registers; i++)
        for (char c = 'x'; c <= 'z'; c++) {
            snprintf(name, sizeof name, "mtb_nvvm_read_ptx_sreg_%s_%c", registers[i], c);
            mt_builtin(l, name, &type);
        }
    for (int size = 1; size <= 16; size *= 2)
        for (int store = 0; store < 2; store++) {
            snprintf(name, sizeof name, "mtb_%s_%d", store ? "scatter" : "gather", size);
            mt_builtin(l, name, &type);
        }
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        mt_builtin(l, others[i], &type);
}

/* Returns 1 for a large kernel (as in sorting libraries), which is not worth compiling twice: recording
 * costs a fiber little beside its waits. */
static int is_large(LLVMValueRef kernel)
{
    unsigned n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(kernel); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            n++;
    return n > 500;
}

/* Builds functions for launches that vectors do not take, if any. */
static void kernels_build(struct mt_lowering *l, unsigned k)
{
    if (l->vector[k].record_any)
        return;
    l->traced.entries[k] = build_entry(l, l->traced.kernels[k]);
    if (l->plain.kernels[k] && !(l->u->kernels[k].sync && is_large(l->plain.kernels[k])))
        l->plain.entries[k] = build_entry(l, l->plain.kernels[k]);
}

static void kernels_tell_vector(struct mt_lowering *l, unsigned k)
{
    struct mt_kernel *kernel = &l->u->kernels[k];
    kernel->vector = l->vector[k].record_any    ? MT_VECTOR_ALL
                     : l->vector[k].record_rows ? MT_VECTOR_SOME
                     : l->vector[k].rows        ? MT_VECTOR_PLAIN
                                                : MT_VECTOR_NONE;
    snprintf(kernel->no_vector, sizeof kernel->no_vector, "%s", l->vector[k].why);
}

/* Keeps two calls of a function from being merged: a group has only lanes that came by the same calls. */
static void kernels_keep_callers(struct mt_lowering *l, const struct mt_reach *reach)
{
    unsigned nomerge = LLVMGetEnumAttributeKindForName("nomerge", 7);
    for (unsigned i = 0; reach->gathers && i < reach->count; i++)
        LLVMAddAttributeAtIndex(reach->functions[i], LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(l->u->context, nomerge, 0));
}

/* Keeps waits from depending on further conditions: simplifycfg would copy a barrier behind a branch into
 * both ways. */
static void kernels_keep_waits(struct mt_lowering *l)
{
    unsigned convergent = LLVMGetEnumAttributeKindForName("convergent", 10);
    for (unsigned i = 0; mt_waiting_functions[i]; i++) {
        LLVMValueRef f = LLVMGetNamedFunction(l->module, mt_waiting_functions[i]);
        if (f)
            LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                    LLVMCreateEnumAttribute(l->u->context, convergent, 0));
    }
}

static void kernels_wait(struct mt_lowering *l)
{
    kernels_keep_waits(l);
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        struct mt_reach reach = {0};
        mt_reach_from(l, l->traced.kernels[k], &reach);
        l->u->kernels[k].sync = reach.waits;
        l->u->kernels[k].frames = reach.gathers;
        kernels_keep_callers(l, &reach);
        mt_reach_free(&reach);
    }
}

static void lower_kernels(struct mt_lowering *l)
{
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        kernels_tell_vector(l, k);
        kernels_build(l, k);
    }
}

/* Fuses products and sums without a stated rounding, which PTX lets ptxas fuse, as ptxas is believed to do
 * it: within a block, users before operands, each sum of a product, whether or not the product has other
 * uses. LLVM makes fma instructions for this target by the same rule (LLVM 19,
 * DAGCombiner::visitFADDForFMACombine with NVPTX's "aggressive" fusion). */

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

static void lower_contraction(struct mt_lowering *l)
{
    struct fuse f = {.module = l->module, .b = LLVMCreateBuilderInContext(l->u->context)};
    for (LLVMValueRef g = LLVMGetFirstFunction(l->module); g; g = LLVMGetNextFunction(g))
        for (f.block = LLVMGetFirstBasicBlock(g); f.block; f.block = LLVMGetNextBasicBlock(f.block))
            contract_block(&f);
    LLVMDisposeBuilder(f.b);
    contract_forbid(l->module);
}

/* ---- Simplifies unoptimised code before the lowering ---- */

static void count_keep(struct mt_lowering *l);

/* Unoptimised code keeps thread numbers and pointers in stack slots, and gets them through functions;
 * later steps need to see them. (The image is optimised at the end in any case.) */
static void lower_simplify(struct mt_lowering *l)
{
    unsigned optnone = LLVMGetEnumAttributeKindForName("optnone", 7),
             noinline = LLVMGetEnumAttributeKindForName("noinline", 8);
    int any = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f) || !LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, optnone))
            continue;
        LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, optnone);
        LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, noinline);
        any = 1;
    }
    if (!any)
        return;
    count_keep(l);
    l->failed = mt_run_passes(l->u, l->module, "cgscc(inline),function(sroa,early-cse)", NULL) != 0;
    mt_ptx_release_accesses(l->module);
}

/* Results that C and LLVM leave open and on which the two machines differ. A GPU's shifts by the width or
 * more give 0 or the sign, and its conversions saturate; programs rely on it, knowingly or not (x << (32 - n)
 * with n = 0). x86-64 takes the amount modulo the width, and converts to the lowest integer. Of two zeros a
 * GPU's minimum is the negative one. The optimiser ran before and may have used the freedom; the remaining
 * code behaves as on a GPU, also in vectors that it makes of neighbours. */

static LLVMTypeRef range_scalar(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

/* Returns the scalar type, or a vector of it with the lanes of `shape`. */
static LLVMTypeRef range_like(LLVMTypeRef shape, LLVMTypeRef scalar)
{
    return LLVMGetTypeKind(shape) == LLVMVectorTypeKind ? LLVMVectorType(scalar, LLVMGetVectorSize(shape))
                                                        : scalar;
}

/* Returns a constant for each element of a type: itself, or a vector with the lanes of `shape`. */
static LLVMValueRef lower_splat(LLVMTypeRef shape, LLVMValueRef constant)
{
    if (LLVMGetTypeKind(shape) != LLVMVectorTypeKind)
        return constant;
    unsigned n = LLVMGetVectorSize(shape);
    LLVMValueRef elements[n];
    for (unsigned i = 0; i < n; i++)
        elements[i] = constant;
    return LLVMConstVector(elements, n);
}

static LLVMValueRef range_splat(LLVMTypeRef type, uint64_t value)
{
    return lower_splat(type, LLVMConstInt(range_scalar(type), value, 0));
}

static void range_replace(LLVMValueRef old, LLVMValueRef by)
{
    LLVMReplaceAllUsesWith(old, by);
    LLVMInstructionEraseFromParent(old);
}

static void range_shift(struct mt_lowering *l, LLVMValueRef shift)
{
    LLVMTypeRef type = LLVMTypeOf(shift);
    unsigned width = LLVMGetIntTypeWidth(range_scalar(type));
    LLVMValueRef amount = LLVMGetOperand(shift, 1);
    if (LLVMIsConstant(amount))
        return; /* out of range, it is already poison */
    LLVMValueRef fits = LLVMBuildICmp(l->builder, LLVMIntULT, amount, range_splat(type, width), "");
    if (LLVMGetInstructionOpcode(shift) == LLVMAShr) {
        LLVMSetExact(shift, 0);
        LLVMSetOperand(shift, 1, LLVMBuildSelect(l->builder, fits, amount, range_splat(type, width - 1), ""));
        return;
    }
    LLVMValueRef copy = LLVMInstructionClone(shift);
    LLVMInsertIntoBuilder(l->builder, copy);
    range_replace(shift, LLVMBuildSelect(l->builder, fits, copy, LLVMConstNull(type), ""));
}

/* Saturates, vectors element by element. NaN becomes 0, or only the highest bit if source or result have
 * 64 bits (PTX, cvt). Results of less than 16 bits are the low bits of a conversion to 16, as NVPTX has
 * none that is narrower. Types narrower than float are converted like float, whose range includes theirs. */
static void range_conversion(struct mt_lowering *l, LLVMValueRef cast, int is_signed)
{
    LLVMValueRef v = LLVMGetOperand(cast, 0);
    LLVMTypeRef type = LLVMTypeOf(cast), from = LLVMTypeOf(v);
    const char *name = is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
    LLVMTypeKind kind = LLVMGetTypeKind(range_scalar(from));
    unsigned width = LLVMGetIntTypeWidth(range_scalar(type));
    if (LLVMIsConstant(v) || width > 64)
        return;
    if (kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind) {
        from = range_like(from, LLVMFloatTypeInContext(l->u->context));
        v = LLVMBuildFPExt(l->builder, v, from, "");
    }
    LLVMTypeRef wide = width < 16 ? range_like(type, mt_type_int(l->u, 16)) : type, types[] = {wide, from};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->module, id, types, 2);
    LLVMValueRef r =
        LLVMBuildCall2(l->builder, LLVMIntrinsicGetType(l->u->context, id, types, 2), f, &v, 1, "");
    if (kind == LLVMDoubleTypeKind || width == 64) {
        unsigned bits = LLVMGetIntTypeWidth(range_scalar(wide));
        LLVMValueRef nan = LLVMBuildFCmp(l->builder, LLVMRealUNO, v, v, "");
        r = LLVMBuildSelect(l->builder, nan, range_splat(wide, 1ull << (bits - 1)), r, "");
    }
    range_replace(cast, wide == type ? r : LLVMBuildTrunc(l->builder, r, type, ""));
}

#define RANGE_DEPTH 6

/* Returns 1 if it contains a 32-bit number that was zero-extended, and may be negative as signed. */
static int range_wraps(LLVMValueRef v, unsigned depth)
{
    unsigned i = 0, n = LLVMIsAInstruction(v) ? (unsigned)LLVMGetNumOperands(v) : 0;
    LLVMOpcode op = n ? LLVMGetInstructionOpcode(v) : LLVMRet;
    if (!depth)
        return 0;
    switch (op) {
    case LLVMZExt:
    case LLVMAnd: {
        uint64_t zeros = LLVMTypeOf(v) == LLVMInt64TypeInContext(LLVMGetTypeContext(LLVMTypeOf(v)))
                             ? mt_shim_zero_bits(v)
                             : 0;
        return zeros >> 32 == UINT32_MAX && !(zeros >> 31 & 1);
    }
    case LLVMSelect:
        i = 1;
        break;
    case LLVMShl:
        n = 1;
        break;
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
    case LLVMOr:
    case LLVMPHI:
        break;
    default:
        return 0;
    }
    for (; i < n; i++)
        if (range_wraps(LLVMGetOperand(v, i), depth - 1))
            return 1;
    return 0;
}

/* Narrows addresses of shared and local memory to 32 bits, as PTX does: p[~i] with an unsigned i is before
 * p. An offset of a pointer is signed there, however it was extended. (PTX counts in bytes.) */
static void range_index(struct mt_lowering *l, LLVMValueRef address)
{
    LLVMValueRef index = LLVMGetOperand(address, 1);
    if (LLVMGetNumOperands(address) != 2 || LLVMTypeOf(index) != l->i64 || !range_wraps(index, RANGE_DEPTH) ||
        mt_space_may_be_global(mt_space_of(l->u, LLVMGetOperand(address, 0))))
        return;
    index = LLVMBuildTrunc(l->builder, index, l->i32, "");
    LLVMSetIsInBounds(address, 0);
    LLVMSetOperand(address, 1, LLVMBuildSExt(l->builder, index, l->i64, ""));
}

/* Returns the name of the called intrinsic; "": none. */
static const char *range_callee(LLVMValueRef call)
{
    LLVMValueRef callee = LLVMIsACallInst(call) ? mt_callee(call) : NULL;
    return callee && LLVMGetIntrinsicID(callee) ? mt_name(callee) : "";
}

/* Defines the number of leading or trailing zeros of zero, and the absolute value of the lowest integer,
 * which may be open in IR. */
static void range_count(LLVMValueRef call)
{
    const char *name = range_callee(call);
    if (mt_starts(name, "llvm.ctlz.") || mt_starts(name, "llvm.cttz.") || mt_starts(name, "llvm.abs."))
        LLVMSetOperand(call, 1, LLVMConstNull(LLVMTypeOf(LLVMGetOperand(call, 1))));
}

static void range_function(struct mt_lowering *l, LLVMValueRef function)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        LLVMOpcode op = LLVMGetInstructionOpcode(list[i]);
        LLVMPositionBuilderBefore(l->builder, list[i]);
        switch (op) {
        case LLVMShl:
        case LLVMLShr:
        case LLVMAShr:
            range_shift(l, list[i]);
            break;
        case LLVMFPToSI:
        case LLVMFPToUI:
            range_conversion(l, list[i], op == LLVMFPToSI);
            break;
        case LLVMGetElementPtr:
            range_index(l, list[i]);
            break;
        case LLVMCall:
            range_count(list[i]);
            break;
        default:
            break;
        }
    }
    free(list);
}

static void lower_ranges(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            range_function(l, f);
}

static unsigned range_bits(LLVMTypeKind kind)
{
    return kind == LLVMDoubleTypeKind ? 64 : kind == LLVMFloatTypeKind ? 32 : 16;
}

/* Lowers minimum and maximum: equal operands have the same bits, or are zeros of two signs; of these the
 * minimum is negative if either is, the maximum if both are. */
static void range_extreme(struct mt_lowering *l, LLVMValueRef call)
{
    LLVMValueRef a = LLVMGetOperand(call, 0), b = LLVMGetOperand(call, 1);
    LLVMTypeRef type = LLVMTypeOf(call);
    LLVMTypeKind kind = LLVMGetTypeKind(range_scalar(type));
    int minimum = mt_starts(range_callee(call), "llvm.minnum.");
    LLVMBool loses;
    if (LLVMIsAConstantFP(b) && LLVMConstRealGetDouble(b, &loses) != 0)
        return;
    LLVMTypeRef bits = range_like(type, mt_type_int(l->u, range_bits(kind)));
    LLVMValueRef copy = LLVMInstructionClone(call), x = LLVMBuildBitCast(l->builder, a, bits, ""),
                 y = LLVMBuildBitCast(l->builder, b, bits, ""),
                 equal = LLVMBuildFCmp(l->builder, LLVMRealOEQ, a, b, ""),
                 both = minimum ? LLVMBuildOr(l->builder, x, y, "") : LLVMBuildAnd(l->builder, x, y, "");
    LLVMInsertIntoBuilder(l->builder, copy);
    both = LLVMBuildBitCast(l->builder, both, type, "");
    range_replace(call, LLVMBuildSelect(l->builder, equal, both, copy, ""));
}

static void lower_extremes(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            const char *name = range_callee(list[i]);
            LLVMPositionBuilderBefore(l->builder, list[i]);
            if (mt_starts(name, "llvm.minnum.") || mt_starts(name, "llvm.maxnum."))
                range_extreme(l, list[i]);
        }
        free(list);
    }
}

/* Integer division: a GPU returns a value for a division by zero, and the dividend for the smallest number
 * by -1; x86-64 traps. Programs that never use such a result must run on both. */

/* Returns 1 for a constant divisor that cannot trap. */
static int divide_is_harmless(LLVMValueRef divisor, int is_signed)
{
    if (!LLVMIsAConstantInt(divisor) || LLVMGetIntTypeWidth(LLVMTypeOf(divisor)) > 64)
        return 0;
    long long n = LLVMConstIntGetSExtValue(divisor);
    return n != 0 && !(is_signed && n == -1);
}

/* Divides by 1 instead of by zero or -1, and selects their result: all bits set for zero, the negated
 * dividend (remainder 0) for -1. Vectors element by element. */
static void divide_guard(struct mt_lowering *l, LLVMValueRef division)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(division);
    int is_signed = op == LLVMSDiv || op == LLVMSRem, quotient = op == LLVMSDiv || op == LLVMUDiv;
    LLVMValueRef x = LLVMGetOperand(division, 0), d = LLVMGetOperand(division, 1);
    LLVMTypeRef type = LLVMTypeOf(d);
    if (divide_is_harmless(d, is_signed))
        return;
    LLVMBuilderRef b = l->builder;
    LLVMValueRef zero = LLVMConstNull(type), ones = LLVMConstAllOnes(type), one = LLVMConstNeg(ones);
    LLVMPositionBuilderBefore(b, division);
    LLVMValueRef by_zero = LLVMBuildICmp(b, LLVMIntEQ, d, zero, ""), special = by_zero, by_minus = NULL;
    if (is_signed) {
        by_minus = LLVMBuildICmp(b, LLVMIntEQ, d, ones, "");
        special = LLVMBuildOr(b, by_zero, by_minus, "");
    }
    LLVMValueRef result = LLVMBuildBinOp(b, op, x, LLVMBuildSelect(b, special, one, d, ""), "");
    if (is_signed)
        result = LLVMBuildSelect(b, by_minus, quotient ? LLVMBuildNeg(b, x, "") : zero, result, "");
    LLVMReplaceAllUsesWith(division, LLVMBuildSelect(b, by_zero, ones, result, ""));
    LLVMInstructionEraseFromParent(division);
}

static void lower_divisions(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            LLVMOpcode op = LLVMGetInstructionOpcode(list[i]);
            if (op == LLVMSDiv || op == LLVMUDiv || op == LLVMSRem || op == LLVMURem)
                divide_guard(l, list[i]);
        }
        free(list);
    }
}

/* Exactness of the GPU's arithmetic in the CPU image: functions that flush denormals (clang's
 * -fgpu-flush-denormals-to-zero, nvcc's -ftz=true), and divisions that the back end approximates
 * (-nvptx-prec-divf32=0, -use_fast_math). Both exist for float only. The processor has one switch for
 * float and double: kernels that compute with float only run with it on (MT_KERNEL_FLUSH), at no cost; if
 * another type or an operation that keeps denormals is reachable, single instructions flush. */

#define EXPONENT 0x7f800000u
#define SIGN 0x80000000u
static const char denormals[] = "denormal-fp-math-f32", flushed[] = "memtrace.flushed",
                  all[] = "memtrace.flush-all";

/* Returns 1 for float, or a vector of it. */
static int exact_is_float(LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        type = LLVMGetElementType(type);
    return LLVMGetTypeKind(type) == LLVMFloatTypeKind;
}

static unsigned exact_mark(struct mt_lowering *l)
{
    return LLVMGetMDKindIDInContext(l->u->context, flushed, sizeof flushed - 1);
}

/* Returns 1 for a value that is provably no denormal. */
static int exact_is_flushed(struct mt_lowering *l, LLVMValueRef v)
{
    if (LLVMIsAConstantFP(v)) {
        LLVMBool loses;
        double d = LLVMConstRealGetDouble(v, &loses);
        return d == 0 || d != d || d >= 0x1p-126 || d <= -0x1p-126;
    }
    return LLVMIsASIToFPInst(v) || LLVMIsAUIToFPInst(v) ||
           (LLVMIsABitCastInst(v) && LLVMGetMetadata(v, exact_mark(l)));
}

/* Flushes denormals to zero of the same sign, at the builder's place. *first: the first new instruction. */
static LLVMValueRef exact_flush(struct mt_lowering *l, LLVMValueRef v, LLVMValueRef *first)
{
    LLVMBuilderRef b = l->builder;
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef zero = lower_splat(type, LLVMConstInt(l->i32, 0, 0));
    LLVMValueRef bits = LLVMBuildBitCast(b, v, LLVMTypeOf(zero), "");
    LLVMValueRef exponent = LLVMBuildAnd(b, bits, lower_splat(type, LLVMConstInt(l->i32, EXPONENT, 0)), "");
    LLVMValueRef small = LLVMBuildICmp(b, LLVMIntEQ, exponent, zero, "");
    LLVMValueRef sign = LLVMBuildAnd(b, bits, lower_splat(type, LLVMConstInt(l->i32, SIGN, 0)), "");
    LLVMValueRef r = LLVMBuildBitCast(b, LLVMBuildSelect(b, small, sign, bits, ""), type, "");
    if (LLVMIsAInstruction(r))
        LLVMSetMetadata(r, exact_mark(l),
                        LLVMMetadataAsValue(l->u->context, LLVMMDNodeInContext2(l->u->context, NULL, 0)));
    if (first)
        *first = bits;
    return r;
}

static void exact_flush_operands(struct mt_lowering *l, LLVMValueRef inst, unsigned n)
{
    LLVMPositionBuilderBefore(l->builder, inst);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef v = LLVMGetOperand(inst, i);
        if (exact_is_float(LLVMTypeOf(v)) && !exact_is_flushed(l, v))
            LLVMSetOperand(inst, i, exact_flush(l, v, NULL));
    }
}

static void exact_flush_result(struct mt_lowering *l, LLVMValueRef inst)
{
    LLVMValueRef next = LLVMGetNextInstruction(inst), first;
    if (!exact_is_float(LLVMTypeOf(inst)) || !next)
        return;
    LLVMPositionBuilderBefore(l->builder, next);
    LLVMValueRef r = exact_flush(l, inst, &first);
    for (LLVMUseRef use = LLVMGetFirstUse(inst), following; use; use = following) {
        LLVMValueRef user = LLVMGetUser(use);
        following = LLVMGetNextUse(use);
        for (int i = 0; user != first && i < LLVMGetNumOperands(user); i++)
            if (LLVMGetOperand(user, (unsigned)i) == inst)
                LLVMSetOperand(user, (unsigned)i, r);
    }
}

/* Returns 1 for an intrinsic that computes with floats, not one that moves, compares or inspects them. */
static int exact_is_arithmetic_call(LLVMValueRef inst)
{
    static const char *const others[] = {"llvm.copysign.", "llvm.is.fpclass.", "llvm.masked.", "llvm.vp."};
    LLVMValueRef callee = LLVMIsACallInst(inst) ? mt_callee(inst) : NULL;
    if (!callee || !LLVMGetIntrinsicID(callee))
        return 0;
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        if (mt_starts(mt_name(callee), others[i]))
            return 0;
    return 1;
}

/* Returns 1 for operations covered by the processor's switch. Comparisons are not: with a select they may
 * become the processor's minimum, which also flushes. */
static int exact_is_switched(LLVMValueRef inst)
{
    static const char *const served[] = {"llvm.fma.", "llvm.fmuladd.", "llvm.sqrt."};
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    for (unsigned i = 0; op == LLVMCall && i < sizeof served / sizeof *served; i++)
        if (mt_callee(inst) && mt_starts(mt_name(mt_callee(inst)), served[i]))
            return 1;
    return op != LLVMCall && op != LLVMFNeg && op != LLVMFRem && op != LLVMFCmp;
}

static void exact_flush_instruction(struct mt_lowering *l, LLVMValueRef inst, int by_switch)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    int calls = op == LLVMCall && exact_is_arithmetic_call(inst);
    if (by_switch && exact_is_switched(inst))
        return;
    if (calls)
        exact_flush_operands(l, inst, LLVMGetNumArgOperands(inst));
    else if (op == LLVMFAdd || op == LLVMFSub || op == LLVMFMul || op == LLVMFDiv || op == LLVMFRem ||
             op == LLVMFCmp)
        exact_flush_operands(l, inst, 2);
    else if (op == LLVMFNeg || op == LLVMFPExt)
        exact_flush_operands(l, inst, 1);
    if (calls || op == LLVMFAdd || op == LLVMFSub || op == LLVMFMul || op == LLVMFDiv || op == LLVMFRem ||
        op == LLVMFPTrunc)
        exact_flush_result(l, inst);
}

static LLVMAttributeRef exact_attribute(LLVMValueRef function, const char *key)
{
    return LLVMGetStringAttributeAtIndex(function, LLVMAttributeFunctionIndex, key, (unsigned)strlen(key));
}

static int exact_flushes(LLVMValueRef function)
{
    unsigned n;
    LLVMAttributeRef a = exact_attribute(function, denormals);
    return a && mt_starts(LLVMGetStringAttributeValue(a, &n), "preserve-sign");
}

/* Returns 1 for double, bfloat and the like, or a vector of them. */
static int exact_is_other(LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (kind == LLVMVectorTypeKind)
        kind = LLVMGetTypeKind(LLVMGetElementType(type));
    return kind == LLVMDoubleTypeKind || kind == LLVMBFloatTypeKind;
}

/* Returns 1 if a builtin may be called with the switch on. */
static int exact_suits_builtin(LLVMValueRef callee)
{
    static const char *const moving[] = {"mtb_ptx_cvt_f32_f16", "mtb_ptx_tanh_approx_f32"};
    const char *name = mt_name(callee);
    LLVMTypeRef type = LLVMGlobalGetValueType(callee), params[16];
    unsigned n = LLVMCountParamTypes(type);
    int floats = exact_is_float(LLVMGetReturnType(type));
    if (n > 16 || !strcmp(name, "mt_cpu_matrix") || strstr(name, "bf16") ||
        exact_is_other(LLVMGetReturnType(type)))
        return 0;
    LLVMGetParamTypes(type, params);
    for (unsigned i = 0; i < n; i++) {
        floats |= exact_is_float(params[i]);
        if (exact_is_other(params[i]))
            return 0;
    }
    if (!floats || strstr(name, "_ftz"))
        return 1;
    for (unsigned i = 0; i < sizeof moving / sizeof *moving; i++)
        if (mt_starts(name, moving[i]))
            return 1;
    return 0;
}

/* Returns 1 if the instruction means the same with the switch on. */
static int exact_suits(LLVMValueRef inst)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMFAdd:
    case LLVMFSub:
    case LLVMFMul:
    case LLVMFDiv:
    case LLVMFRem:
    case LLVMFNeg:
    case LLVMFCmp:
        return !exact_is_other(LLVMTypeOf(LLVMGetOperand(inst, 0)));
    case LLVMCall:
        for (unsigned i = 0, n = LLVMGetNumArgOperands(inst); i < n; i++)
            if (exact_is_other(LLVMTypeOf(LLVMGetOperand(inst, i))) && exact_is_arithmetic_call(inst))
                return 0;
        return !exact_is_other(LLVMTypeOf(inst));
    default:
        return 1;
    }
}

static int exact_suits_function(LLVMValueRef f)
{
    unsigned n = 0;
    if (LLVMIsDeclaration(f))
        return !mt_is_shared_name(f) && exact_suits_builtin(f);
    LLVMValueRef *list = mt_instructions(f, &n);
    int suits = list && exact_flushes(f);
    for (unsigned i = 0; suits && i < n; i++)
        suits = exact_suits(list[i]);
    free(list);
    return suits;
}

/* Chooses the kernels that run with the switch on; functions reachable from others run without. */
static void exact_choose(struct mt_lowering *l)
{
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        struct mt_reach r = {0};
        LLVMValueRef f = l->traced.kernels[k];
        int suits = f && !l->u->options->rdc && exact_flushes(f);
        if (suits)
            mt_reach_from(l, f, &r);
        for (unsigned i = 0; suits && i < r.count; i++)
            suits = exact_suits_function(r.functions[i]);
        l->u->kernels[k].flush = suits;
        if (f && !suits && !r.count)
            mt_reach_from(l, f, &r);
        for (unsigned i = 0; !suits && i < r.count; i++)
            LLVMAddAttributeAtIndex(r.functions[i], LLVMAttributeFunctionIndex,
                                    LLVMCreateStringAttribute(l->u->context, all, sizeof all - 1, "", 0));
        mt_reach_free(&r);
    }
}

static void exact_lower(struct mt_lowering *l, LLVMValueRef f)
{
    unsigned n = 0;
    int flush = exact_flushes(f), by_switch = !l->u->options->rdc && !exact_attribute(f, all);
    LLVMValueRef *list = LLVMIsDeclaration(f) || !flush ? NULL : mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++)
        exact_flush_instruction(l, list[i], by_switch);
    free(list);
}

static void lower_exactness(struct mt_lowering *l)
{
    int flush = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f && !flush; f = LLVMGetNextFunction(f))
        flush = exact_flushes(f);
    if (flush)
        exact_choose(l);
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        exact_lower(l, f);
    /* The image flushes by itself now; callers and callees that differ in the attribute are not inlined. */
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, denormals, sizeof denormals - 1);
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, all, sizeof all - 1);
    }
}

/* A second count of accesses to global memory, to check the records against (option count). It counts where
 * no records are made: in the CPU module, after inline asm and intrinsics have become plain loads, stores,
 * atomics and copies, the very instructions that run. It shares nothing with instrument.c and asm_access.c:
 * each of these instructions counts, and whether its address is global is always tested at run time. A GPU
 * instruction that became several here has metadata from the lowering (mt_asm_mark). */

#define OPERAND(inst, i) LLVMGetOperand(inst, i)

static LLVMValueRef count_number(struct mt_lowering *l, uint64_t n)
{
    return LLVMConstInt(l->i64, n, 0);
}

/* Returns 1 for address spaces that are never global (shared, constant, local, parameters), and for plain
 * stack slots. */
static int count_is_elsewhere(LLVMValueRef p)
{
    unsigned as = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    if (as)
        return as != 1;
    while (LLVMIsAGetElementPtrInst(p) || LLVMIsABitCastInst(p))
        p = OPERAND(p, 0);
    return LLVMIsAAllocaInst(p) != NULL;
}

static LLVMValueRef count_generic(struct mt_lowering *l, LLVMValueRef p)
{
    return LLVMGetPointerAddressSpace(LLVMTypeOf(p)) ? LLVMBuildAddrSpaceCast(l->builder, p, l->ptr, "") : p;
}

/* Counts `accesses` with a total of `bytes` at p (both i64), before the builder's instruction. */
static void count_add(struct mt_lowering *l, LLVMValueRef p, LLVMValueRef accesses, LLVMValueRef bytes,
                      uint32_t kind)
{
    uint32_t only = l->u->options->only;
    LLVMTypeRef type = LLVMFunctionType(l->none, (LLVMTypeRef[]){l->ptr, l->i64, l->i64, l->i32}, 4, 0);
    LLVMValueRef args[] = {count_generic(l, p), accesses, LLVMBuildIntCast2(l->builder, bytes, l->i64, 0, ""),
                           LLVMConstInt(l->i32, kind, 0)};
    if (!only || only >> kind & 1)
        LLVMBuildCall2(l->builder, type, mt_declare(l->module, "__mt_count", type), args, 4, "");
}

/* Counts a block of run-time length: no access if empty, several if no single record could hold it. */
static void count_add_block(struct mt_lowering *l, LLVMValueRef p, LLVMValueRef bytes, uint32_t kind)
{
    if (count_is_elsewhere(p))
        return;
    LLVMValueRef n = LLVMBuildIntCast2(l->builder, bytes, l->i64, 0, ""),
                 most = count_number(l, MT_RAW_MAX_SIZE);
    LLVMValueRef up = LLVMBuildAdd(l->builder, n, count_number(l, MT_RAW_MAX_SIZE - 1), "");
    count_add(l, p, LLVMBuildUDiv(l->builder, up, most, ""), n, kind);
}

struct passed {
    struct mt_lowering *l;
    LLVMValueRef base; /* i64 */
};

static void count_part(void *ctx, uint64_t offset, uint32_t size)
{
    struct passed *p = ctx;
    LLVMValueRef at = LLVMBuildAdd(p->l->builder, p->base, count_number(p->l, offset), "");
    count_add(p->l, LLVMBuildIntToPtr(p->l->builder, at, p->l->ptr, ""), count_number(p->l, 1),
              count_number(p->l, size), MT_LOAD);
}

/* Counts structs passed in memory. */
static void count_arguments(struct mt_lowering *l, LLVMValueRef call)
{
    for (unsigned i = 0; i < LLVMGetNumArgOperands(call); i++) {
        LLVMTypeRef type = mt_shim_byval_type(call, i);
        if (!type || count_is_elsewhere(OPERAND(call, i)))
            continue;
        LLVMValueRef base = LLVMBuildPtrToInt(l->builder, count_generic(l, OPERAND(call, i)), l->i64, "");
        struct passed p = {l, base};
        mt_argument_parts(l->u, type, mt_shim_param_align(call, i), 0, count_part, &p);
    }
}

/* Counts mtb_tensor(op, rank, map, coordinates, …): the part inside the tensor is known at run time. */
static void count_tensor(struct mt_lowering *l, LLVMValueRef call)
{
    uint64_t op = LLVMConstIntGetZExtValue(OPERAND(call, 0));
    uint32_t kind = op == MT_TENSOR_LOAD ? MT_LOAD : op == MT_TENSOR_STORE ? MT_STORE : MT_ATOMIC;
    LLVMTypeRef type = LLVMFunctionType(l->none, (LLVMTypeRef[]){l->ptr, l->i32, l->ptr, l->i32}, 4, 0);
    LLVMValueRef args[] = {OPERAND(call, 2), OPERAND(call, 1), OPERAND(call, 3),
                           LLVMConstInt(l->i32, kind, 0)};
    if (!l->u->options->only || l->u->options->only >> kind & 1)
        LLVMBuildCall2(l->builder, type, mt_declare(l->module, "__mt_count_tensor", type), args, 4, "");
}

static void count_call(struct mt_lowering *l, LLVMValueRef call)
{
    count_arguments(l, call);
    const char *name = mt_name(mt_callee(call));
    if (LLVMIsAMemCpyInst(call) || LLVMIsAMemMoveInst(call)) {
        count_add_block(l, OPERAND(call, 1), OPERAND(call, 2), MT_LOAD);
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (LLVMIsAMemSetInst(call)) {
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (mt_starts(name, "llvm.memcpy.element.") || mt_starts(name, "llvm.memmove.element.")) {
        count_add_block(l, OPERAND(call, 1), OPERAND(call, 2), MT_LOAD);
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (mt_starts(name, "llvm.memset.element.")) {
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (!strcmp(name, "mtb_tensor")) {
        count_tensor(l, call);
    }
}

/* ---- single instructions ---- */

static void count_plain(struct mt_lowering *l, LLVMValueRef p, LLVMTypeRef type, uint32_t kind)
{
    uint64_t size = LLVMStoreSizeOfType(l->u->layout, type);
    if (size && !count_is_elsewhere(p))
        count_add(l, p, count_number(l, 1), count_number(l, size), kind);
}

/* Reads the lowering's mark of inline asm: { kind, bytes }; 0 bytes: counted with another instruction. */
static int count_marked(struct mt_lowering *l, LLVMValueRef inst)
{
    LLVMValueRef node = LLVMGetMetadata(inst, mt_mark_kind(l->u->context)), value[2];
    if (!node || LLVMGetMDNodeNumOperands(node) != 2)
        return 0;
    LLVMGetMDNodeOperands(node, value);
    uint32_t kind = (uint32_t)LLVMConstIntGetZExtValue(value[0]);
    uint64_t bytes = LLVMConstIntGetZExtValue(value[1]);
    if (LLVMIsAGetElementPtrInst(inst)) /* an end of a block: base and length */
        count_add_block(l, OPERAND(inst, 0), OPERAND(inst, 1), kind);
    else if (bytes)
        count_add(l, OPERAND(inst, LLVMIsAStoreInst(inst) ? 1 : 0), count_number(l, 1),
                  count_number(l, bytes), kind);
    return 1;
}

static void count_run(struct mt_lowering *l, LLVMValueRef inst)
{
    if (count_marked(l, inst))
        return;
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        count_plain(l, OPERAND(inst, 0), LLVMTypeOf(inst), MT_LOAD);
        break;
    case LLVMStore:
        count_plain(l, OPERAND(inst, 1), LLVMTypeOf(OPERAND(inst, 0)), MT_STORE);
        break;
    case LLVMAtomicRMW:
        count_plain(l, OPERAND(inst, 0), LLVMTypeOf(inst), MT_ATOMIC);
        break;
    case LLVMAtomicCmpXchg:
        count_plain(l, OPERAND(inst, 0), LLVMTypeOf(OPERAND(inst, 1)), MT_ATOMIC);
        break;
    case LLVMCall:
        count_call(l, inst);
        break;
    default:
        break;
    }
}

/* Returns 1 for a load other than of a stack slot, in any address space. */
static int count_is_kept(LLVMValueRef load)
{
    LLVMValueRef p = OPERAND(load, 0);
    while (LLVMIsAAddrSpaceCastInst(p) || LLVMIsAGetElementPtrInst(p) || LLVMIsABitCastInst(p))
        p = OPERAND(p, 0);
    return !LLVMGetVolatile(load) && !count_is_elsewhere(p);
}

/* Keeps passes from dropping loads with unused values until mt_ptx_release_accesses, since the
 * GPU's code has them. */
static void count_keep(struct mt_lowering *l)
{
    unsigned n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        LLVMValueRef *list =
            LLVMIsDeclaration(f) || mt_pass_counting == MT_COUNT_OFF ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++)
            if (LLVMIsALoadInst(list[i]) && count_is_kept(list[i]))
                mt_ptx_keep_access(list[i], "");
        free(list);
    }
}

static int count_touches_memory(LLVMValueRef inst)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
    case LLVMStore:
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
    case LLVMGetElementPtr: /* a mark of the lowering */
        return 1;
    case LLVMCall:
        return !LLVMIsAInlineAsm(LLVMGetCalledValue(inst));
    default:
        return 0;
    }
}

static void count_drop_records(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        if (!mt_starts(mt_name(f), "__mt_access_"))
            continue;
        for (LLVMUseRef use; (use = LLVMGetFirstUse(f));)
            LLVMInstructionEraseFromParent(LLVMGetUser(use));
        LLVMDeleteFunction(f);
    }
}

static void lower_counts(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            if (!count_touches_memory(list[i]) || !mt_unit_wanted(l->u, list[i]))
                continue;
            LLVMPositionBuilderBefore(l->builder, list[i]);
            LLVMSetCurrentDebugLocation2(l->builder, LLVMInstructionGetDebugLoc(list[i]));
            count_run(l, list[i]);
        }
        free(list);
    }
    if (mt_pass_counting == MT_COUNT_ONLY)
        count_drop_records(l);
}

/* Turns shared variables into offsets from the CTA's shared memory: static ones first, `extern __shared__`
 * after them. With -fgpu-rdc the images of a program have consecutive parts of it, at offsets known when
 * they are loaded (struct mt_image_shared). */

static uint64_t shared_round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

/* A shared variable that is being replaced. */
struct shared {
    LLVMValueRef global;
    uint64_t offset; /* offset in this module's static shared memory; dynamic: its size */
    LLVMValueRef
        place; /* -fgpu-rdc, a variable known to other files: {u64 offset, struct mt_image_shared *} */
};

static int shared_is_dynamic(struct mt_lowering *l, LLVMValueRef global)
{
    return LLVMIsDeclaration(global) &&
           (!l->shared || !LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(global)));
}

/* Reads word `at` that the loader wrote before the first launch and that never changes while code runs. */
static LLVMValueRef lower_load_fixed(struct mt_lowering *l, LLVMTypeRef type, LLVMValueRef from, unsigned at)
{
    LLVMValueRef index = LLVMConstInt(l->i64, at, 0);
    LLVMValueRef p = LLVMBuildInBoundsGEP2(l->builder, l->i64, from, &index, 1, "");
    LLVMValueRef load = LLVMBuildLoad2(l->builder, type, p, "");
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(l->u->context, "invariant.load", 14),
                    LLVMMetadataAsValue(l->u->context, LLVMMDNodeInContext2(l->u->context, NULL, 0)));
    return load;
}

/* Returns the offset from the start of the CTA's shared memory. */
static LLVMValueRef shared_offset(struct mt_lowering *l, const struct shared *s)
{
    if (!l->shared)
        return LLVMConstInt(l->i64, s->offset, 0);
    if (shared_is_dynamic(l, s->global))
        return lower_load_fixed(l, l->i64, l->shared, 1);
    LLVMValueRef home = s->place ? lower_load_fixed(l, l->ptr, s->place, 1) : l->shared;
    LLVMValueRef offset =
        s->place ? lower_load_fixed(l, l->i64, s->place, 0) : LLVMConstInt(l->i64, s->offset, 0);
    return LLVMBuildAdd(l->builder, lower_load_fixed(l, l->i64, home, 0), offset, "");
}

/* Returns the first instruction that is no alloca. */
static LLVMValueRef lower_entry(LLVMValueRef function)
{
    LLVMValueRef at = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function));
    while (LLVMIsAAllocaInst(at))
        at = LLVMGetNextInstruction(at);
    return at;
}

/* Returns the variable's address in this function, computed once, in its entry block. */
static LLVMValueRef shared_base(struct mt_lowering *l, LLVMValueRef function, void *shared)
{
    const struct shared *s = shared;
    LLVMTypeRef base_type;
    LLVMValueRef base = mt_builtin(l, "mtb_shared_base", &base_type);
    LLVMPositionBuilderBefore(l->builder, lower_entry(function));
    LLVMSetCurrentDebugLocation2(l->builder, NULL);
    LLVMValueRef p = LLVMBuildCall2(l->builder, base_type, base, NULL, 0, "shared");
    LLVMValueRef index = shared_offset(l, s);
    p = LLVMBuildInBoundsGEP2(l->builder, l->i8, p, &index, 1, "");
    return LLVMBuildAddrSpaceCast(l->builder, p, LLVMTypeOf(s->global), "");
}

/* For a global that is placed elsewhere: replaces its uses in instructions by address(l,
 * function, ctx), called once per function with the builder before lower_entry. */
static void lower_replace(struct mt_lowering *l, LLVMValueRef global,
                          LLVMValueRef (*address)(struct mt_lowering *l, LLVMValueRef function, void *ctx),
                          void *ctx)
{
    unsigned n = 0, count = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(global); use; use = LLVMGetNextUse(use))
        n++;
    LLVMValueRef *users = malloc((n + 1) * sizeof *users);
    for (LLVMUseRef use = LLVMGetFirstUse(global); users && use; use = LLVMGetNextUse(use))
        if (LLVMIsAInstruction(LLVMGetUser(use)))
            users[count++] = LLVMGetUser(use);
    LLVMValueRef home = NULL, value = NULL;
    for (unsigned u = 0; u < count; u++) {
        LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(users[u]));
        if (function != home) {
            home = function;
            value = address(l, home, ctx);
        }
        for (int i = 0, ops = LLVMGetNumOperands(users[u]); i < ops; i++)
            if (LLVMGetOperand(users[u], (unsigned)i) == global)
                LLVMSetOperand(users[u], (unsigned)i, value);
    }
    free(users);
}

/* Computes the static shared memory reachable by each kernel, for cudaFuncGetAttributes and limits. */
static void shared_count(struct mt_lowering *l, struct shared *list, unsigned n)
{
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        struct mt_reach reach = {0};
        uint64_t bytes = 0;
        mt_reach_from(l, l->traced.kernels[k], &reach);
        for (unsigned i = 0; i < n; i++) {
            LLVMValueRef g = list[i].global;
            int hit = 0;
            for (LLVMUseRef use = LLVMGetFirstUse(g); use && !hit; use = LLVMGetNextUse(use)) {
                LLVMValueRef user = LLVMIsAInstruction(LLVMGetUser(use));
                hit = user && mt_reach_has(&reach, LLVMGetBasicBlockParent(LLVMGetInstructionParent(user)));
            }
            if (hit && !shared_is_dynamic(l, g)) {
                unsigned align = LLVMGetAlignment(g);
                bytes = shared_round_up(bytes, align ? align : 1) +
                        LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(g));
            }
        }
        l->u->kernels[k].shared_static = (uint32_t)bytes;
        mt_reach_free(&reach);
    }
}

/* Places static variables one after the other. Returns the aligned offset of dynamic ones. */
static uint64_t shared_lay_out(struct mt_lowering *l, struct shared *list, unsigned n)
{
    uint64_t end = 0, dynamic = 128;
    for (unsigned i = 0; i < n; i++) {
        unsigned align = LLVMGetAlignment(list[i].global);
        if (LLVMIsDeclaration(list[i].global)) {
            dynamic = align > dynamic ? align : dynamic;
            continue;
        }
        end = shared_round_up(end, align > 16 ? align : 16);
        list[i].offset = end;
        end += LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(list[i].global));
    }
    return shared_round_up(end, dynamic);
}

/* Makes the struct mt_image_shared of this image: as if alone, until the loader changes it. */
static LLVMValueRef shared_add_image(struct mt_lowering *l)
{
    LLVMValueRef words[] = {LLVMConstInt(l->i64, 0, 0), LLVMConstInt(l->i64, l->u->shared_size, 0)};
    _Static_assert(sizeof(struct mt_image_shared) == sizeof(uint64_t[2]), "as written here");
    LLVMValueRef g = LLVMAddGlobal(l->module, LLVMArrayType2(l->i64, 2), "mt.shared");
    LLVMSetInitializer(g, LLVMConstArray2(l->i64, words, 2));
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetExternallyInitialized(g, 1);
    return g;
}

/* Makes the place of a variable that has one in the whole program, in whichever image defines it. */
static LLVMValueRef shared_add_place(struct mt_lowering *l, const struct shared *s)
{
    LLVMLinkage linkage = LLVMGetLinkage(s->global);
    if (linkage == LLVMInternalLinkage || linkage == LLVMPrivateLinkage || shared_is_dynamic(l, s->global))
        return NULL;
    char name[4200];
    snprintf(name, sizeof name, MT_SHARED_PREFIX "%s", mt_name(s->global));
    LLVMValueRef words[] = {LLVMConstInt(l->i64, s->offset, 0), l->shared};
    LLVMValueRef value = LLVMConstStructInContext(l->u->context, words, 2, 0);
    LLVMValueRef g = LLVMAddGlobal(l->module, LLVMTypeOf(value), name);
    if (!LLVMIsDeclaration(s->global)) {
        LLVMSetInitializer(g, value);
        LLVMSetLinkage(g, linkage == LLVMExternalLinkage ? linkage : LLVMWeakODRLinkage);
    }
    return g;
}

/* Notes where the variable is, for the table of variables. */
static void shared_tell(struct mt_lowering *l, const struct shared *s)
{
    struct mt_bounds *o = mt_unit_object_named(l->u, mt_name(s->global));
    if (!o)
        return;
    o->offset = s->offset;
    o->dynamic = (uint32_t)shared_is_dynamic(l, s->global);
    o->place = s->place;
}

static void lower_shared(struct mt_lowering *l)
{
    unsigned n = 0, i = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        n += LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3;
    struct shared *list = calloc(n + 1, sizeof *list);
    LLVMValueRef *globals = calloc(n + 1, sizeof *globals);
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); list && globals && g; g = LLVMGetNextGlobal(g))
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3)
            globals[i] = list[i].global = g, i++;
    if (!list || !globals)
        goto out;
    mt_shim_expand_constant_users(globals, n);
    l->u->shared_size = shared_lay_out(l, list, n);
    for (i = 0; i < n; i++)
        if (LLVMIsDeclaration(list[i].global))
            list[i].offset = l->u->shared_size;
    if (l->u->options->rdc)
        l->shared = shared_add_image(l);
    shared_count(l, list, n);
    for (i = 0; i < n; i++) {
        LLVMValueRef g = list[i].global;
        list[i].place = l->shared ? shared_add_place(l, &list[i]) : NULL;
        shared_tell(l, &list[i]);
        lower_replace(l, g, shared_base, &list[i]);
        mt_shim_drop_dead_users(g);
        if (!LLVMGetFirstUse(g))
            LLVMDeleteGlobal(g);
    }
out:
    free(list);
    free(globals);
}

/* __managed__ variables of clang's code: the host's variable is the only one, unchanged in the program.
 * The device module's holds only the initial value. Code asks a pointer for the variable's place: the
 * runtime stores the host's address in it, and copies the initial value there, before the program's first
 * constructor. */

struct managed {
    LLVMValueRef global, place;
};

/* Loads the place once in each function that uses it. */
static LLVMValueRef managed_address(struct mt_lowering *l, LLVMValueRef function, void *managed)
{
    const struct managed *m = managed;
    LLVMPositionBuilderBefore(l->builder, lower_entry(function));
    LLVMSetCurrentDebugLocation2(l->builder, NULL);
    LLVMValueRef p = lower_load_fixed(l, l->ptr, m->place, 0);
    return LLVMBuildAddrSpaceCast(l->builder, p, LLVMTypeOf(m->global), "");
}

/* Rejects initial values of other variables that contain its address, which is known late. */
static int managed_in_constants(struct mt_lowering *l, LLVMValueRef global)
{
    for (LLVMUseRef use = LLVMGetFirstUse(global); use; use = LLVMGetNextUse(use))
        if (!LLVMIsAInstruction(LLVMGetUser(use))) {
            mt_diag(
                l->u, NULL, MT_DIAG_ERROR,
                "%s: the address of a __managed__ variable is not a constant: it cannot be the first value "
                "of another device variable",
                mt_name(global));
            return 1;
        }
    return 0;
}

static void managed_name(LLVMValueRef global, const char *prefix, const char *name)
{
    char *whole = NULL;
    int n = asprintf(&whole, "%s%s", prefix, name);
    if (n >= 0)
        LLVMSetValueName2(global, whole, (size_t)n);
    free(whole);
}

static void managed_move(struct mt_lowering *l, LLVMValueRef global)
{
    LLVMValueRef place = LLVMAddGlobal(l->module, l->ptr, "");
    LLVMSetSection(global, "");
    managed_name(place, MT_MANAGED_PREFIX, mt_name(global));
    LLVMSetLinkage(place, LLVMGetLinkage(global));
    if (!managed_in_constants(l, global))
        lower_replace(l, global, managed_address, &(struct managed){global, place});
    if (LLVMIsDeclaration(global)) {
        LLVMDeleteGlobal(global);
        return;
    }
    LLVMSetInitializer(place, LLVMConstAddrSpaceCast(global, l->ptr));
    LLVMSetLinkage(global, LLVMInternalLinkage);
    managed_name(global, "mt.", mt_name(place)); /* not a variable of the program */
}

static void lower_managed(struct mt_lowering *l)
{
    unsigned n = 0, i = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        n++;
    LLVMValueRef *list = calloc(n + 1, sizeof *list);
    for (LLVMValueRef g = list ? LLVMGetFirstGlobal(l->module) : NULL; g; g = LLVMGetNextGlobal(g)) {
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            list[i++] = g;
    }
    mt_shim_expand_constant_users(list, i);
    for (n = i, i = 0; i < n; i++) {
        mt_shim_drop_dead_users(list[i]);
        managed_move(l, list[i]);
    }
    free(list);
}

/* Relocatable device code (-fgpu-rdc): functions and variables known to other files keep their names,
 * after a prefix, and the images of all files are bound to each other when the program is loaded
 * (runtime/cpu/image.c). The same holds for parts of a module with images of their own; if none of its
 * functions is called by pointer, they share variables only. */

/* Returns 1 for symbols between the pass, the builtins and libmemtrace.so. */
static int rdc_is_own(const char *name)
{
    return mt_starts(name, "llvm.") || mt_starts(name, "mt_cpu_") || mt_starts(name, "mtb_") ||
           mt_starts(name, "__mt_") || mt_starts(name, "mt.") || mt_starts(name, MT_SHARED_PREFIX);
}

/* Renames it with the name as the symbol's end, so that a message of the dynamic linker still shows what
 * is missing. */
static void rdc_share(LLVMValueRef global)
{
    const char *old = mt_name(global);
    char *name = malloc(strlen(MT_DEVICE_PREFIX) + strlen(old) + 1);
    if (!name)
        return;
    strcpy(name, MT_DEVICE_PREFIX);
    strcat(name, old);
    LLVMSetValueName2(global, name, strlen(name));
    mt_shim_set_dso_local(global, 0);
    LLVMSetVisibility(global, LLVMDefaultVisibility);
    free(name);
}

static int rdc_is_local(LLVMValueRef global)
{
    LLVMLinkage linkage = LLVMGetLinkage(global);
    return linkage == LLVMInternalLinkage || linkage == LLVMPrivateLinkage;
}

static int rdc_is_kernel(struct mt_lowering *l, LLVMValueRef function)
{
    for (unsigned i = 0; i < l->u->nkernels; i++)
        if (l->traced.kernels[i] == function)
            return 1;
    return 0;
}

/* Returns 1 for a declaration of CUDA's headers whose definition the CPU device does not need. */
static int is_index_variable(const char *name)
{
    static const char *const names[] = {"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return 1;
    return 0;
}

static void lower_exports(struct mt_lowering *l)
{
    for (LLVMValueRef f = l->u->options->rdc ? LLVMGetFirstFunction(l->module) : NULL; f;
         f = LLVMGetNextFunction(f))
        if (!mt_is_shared_name(f) && !rdc_is_local(f) && !rdc_is_own(mt_name(f)) && !rdc_is_kernel(l, f) &&
            (!LLVMIsDeclaration(f) || LLVMGetFirstUse(f)))
            rdc_share(f);
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        if (!rdc_is_local(g) && !rdc_is_own(mt_name(g)) &&
            !(LLVMIsDeclaration(g) && is_index_variable(mt_name(g))) &&
            (!LLVMIsDeclaration(g) || LLVMGetFirstUse(g))) {
            rdc_share(g);
            LLVMSetExternallyInitialized(g, 0);
        }
}

/* Makes functions and variables those of an x86-64 module: linkage, attributes, values, and linked
 * builtins. */

/* Removes metadata and lists of kept names, which the image does not need. */
static void symbols_strip(LLVMModuleRef m)
{
    static const char *const lists[] = {"llvm.used", "llvm.compiler.used", MT_CLANG_USED};
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
        LLVMValueRef g = LLVMGetNamedGlobal(m, lists[i]);
        if (g)
            LLVMDeleteGlobal(g);
    }
    mt_shim_drop_named_metadata(m);
}

static void symbols_target(struct mt_unit *u, LLVMValueRef f)
{
    static const char *const drop[] = {"target-cpu", "target-features", "tune-cpu", "frame-pointer",
                                       "stack-protector-buffer-size"};
    for (unsigned i = 0; i < sizeof drop / sizeof *drop; i++)
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, drop[i], (unsigned)strlen(drop[i]));
    if (LLVMIsDeclaration(f))
        return;
    mt_set_image_cpu(u, f);
    /* Frames larger than a page are touched page by page: an overflow faults in the guard page, not in
     * another stack. */
    mt_set_text(u, f, "probe-stack", "inline-asm");
}

/* Makes everything but the image's one symbol internal; calling conventions and target attributes become
 * x86-64's. "Reads no memory", "does not synchronise" and the like were true of special registers and warp
 * operations in NVPTX; here they would let the optimiser move reads of threadIdx from one thread to
 * another. */
static void lower_attributes(struct mt_lowering *l)
{
    LLVMContextRef c = l->u->context;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        int intrinsic = LLVMGetIntrinsicID(f) != 0;
        LLVMSetFunctionCallConv(f, LLVMCCallConv);
        symbols_target(l->u, f);
        mt_shim_drop_comdat(f);
        if (!intrinsic)
            mt_shim_make_impure(f);
        if (LLVMIsDeclaration(f)) {
            if (!intrinsic) {
                LLVMSetVisibility(f, LLVMDefaultVisibility);
                mt_shim_set_dso_local(f, 0);
            }
            continue;
        }
        LLVMSetVisibility(f, LLVMDefaultVisibility);
        if (!mt_is_shared_name(f))
            LLVMSetLinkage(f, LLVMInternalLinkage);
        LLVMAddAttributeAtIndex(
            f, LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(c, LLVMGetEnumAttributeKindForName("nounwind", 8), 0));
        unsigned n;
        LLVMValueRef *list = mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++)
            if (LLVMIsACallInst(list[i]) && !LLVMIsAInlineAsm(LLVMGetCalledValue(list[i]))) {
                LLVMValueRef callee = mt_callee(list[i]);
                LLVMSetInstructionCallConv(list[i], LLVMCCallConv);
                if (!callee || !LLVMGetIntrinsicID(callee))
                    mt_shim_make_impure(list[i]);
            }
        free(list);
    }
}

/* Handles variables: constants can be written by the host; the empty objects behind threadIdx and co. get
 * a body. */
static void lower_globals(struct mt_lowering *l)
{
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module), next; g; g = next) {
        next = LLVMGetNextGlobal(g);
        LLVMTypeRef type = LLVMGlobalGetValueType(g);
        if (mt_starts(mt_name(g), "llvm."))
            continue;
        mt_shim_drop_comdat(g);
        if (LLVMIsDeclaration(g)) {
            const char *name = mt_name(g);
            if (!LLVMGetFirstUse(g)) {
                LLVMDeleteGlobal(g);
                continue;
            }
            if (mt_is_shared_name(g))
                continue;
            if (!is_index_variable(name)) {
                mt_diag(
                    l->u, NULL, MT_DIAG_WARNING,
                    "device variable %s is defined in another file: the CPU device gives this file its own, "
                    "zeroed one",
                    name);
            }
            LLVMSetInitializer(g, LLVMConstNull(type));
            LLVMSetExternallyInitialized(g, 0);
        }
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 4) {
            LLVMSetGlobalConstant(g, 0);
        }
        LLVMValueRef init = LLVMGetInitializer(g);
        if (init && LLVMIsUndef(init))
            LLVMSetInitializer(g, LLVMConstNull(type));
        LLVMSetVisibility(g, LLVMDefaultVisibility);
        if (!mt_is_shared_name(g))
            LLVMSetLinkage(g, LLVMInternalLinkage);
    }
}

/* lowering.c */
static void lower_metadata(struct mt_lowering *l)
{
    LLVMStripModuleDebugInfo(l->module);
    symbols_strip(l->module);
}

/* Numbers the sites of one image from 0, which suffices if its kernels run no other image's functions. */
static void lower_site_base(struct mt_lowering *l)
{
    LLVMValueRef g = LLVMAddGlobal(l->module, l->i32, "__mt_site_base");
    LLVMSetInitializer(g, LLVMConstInt(l->i32, 0, 0));
    if (l->u->options->rdc)
        l->site_base = g;
    else
        LLVMSetGlobalConstant(g, 1);
}

#define PRESERVE_ALL 15 /* llvm::CallingConv::PreserveAll, MT_KEPT in C */

/* Makes such a function preserve vectors: LLVM 19 saves the caller's, but clears their upper halves on
 * return. */
static void symbols_keep(struct mt_unit *u, LLVMValueRef f)
{
    const char *features = u->options->cpu_features;
    char text[4096];
    if (LLVMIsDeclaration(f) || LLVMGetFunctionCallConv(f) != PRESERVE_ALL)
        return;
    snprintf(text, sizeof text, "%s%s-vzeroupper", features ? features : "", features ? "," : "");
    mt_set_image_cpu(u, f);
    mt_set_text(u, f, "target-features", text);
}

/* Links the builtins in use; their own functions become internal, too. */
void mt_lower_builtins(struct mt_lowering *l)
{
    LLVMModuleRef b = l->builtins;
    l->builtins = NULL;
    LLVMSetTarget(b, LLVMGetTarget(l->module));
    LLVMSetDataLayout(b, LLVMGetDataLayoutStr(l->module));
    symbols_strip(b);
    if (mt_shim_link_needed(l->module, b)) {
        mt_diag(l->u, NULL, MT_DIAG_ERROR, "cannot link the CPU builtins");
        l->failed = 1;
        return;
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        if (!LLVMIsDeclaration(g) && !mt_starts(mt_name(g), "llvm.") && !mt_is_shared_name(g)) {
            LLVMSetVisibility(g, LLVMDefaultVisibility);
            LLVMSetLinkage(g, LLVMInternalLinkage);
        }
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f) && LLVMGetLinkage(f) != LLVMInternalLinkage && !mt_is_shared_name(f)) {
            LLVMSetVisibility(f, LLVMDefaultVisibility);
            LLVMSetLinkage(f, LLVMInternalLinkage);
            mt_shim_drop_comdat(f);
            symbols_target(l->u, f);
        }
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        symbols_keep(l->u, f);
}

/* Keeps frame pointers: a function that is not inlined and asks for the lanes beside it may be called from
 * several branches, which the CPU device distinguishes by the chain of callers. */
static void lower_frames(struct mt_lowering *l)
{
    int any = 0;
    for (unsigned k = 0; k < l->u->nkernels; k++)
        any |= l->u->kernels[k].frames;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); any && f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            mt_set_text(l->u, f, "frame-pointer", "all");
}

/* Makes a second version of each kernel that can reach a record call, without these, for launches that are
 * not traced. */

static void lower_plain(struct mt_lowering *l)
{
    struct mt_plain p;
    mt_plain_find(&p, l->module);
    mt_plain_make(&p, MT_PLAIN_SUFFIX);
    for (unsigned k = 0; k < l->u->nkernels; k++)
        l->plain.kernels[k] = mt_plain_copy(&p, l->traced.kernels[k]);
    mt_plain_free(&p);
}

/* Turns calls of the device world into calls of C builtins, plain loads and atomics, or a clear
 * diagnostic. */

static void lower_calls_replace(LLVMValueRef old, LLVMValueRef new)
{
    if (new)
        LLVMReplaceAllUsesWith(old, new);
    LLVMInstructionEraseFromParent(old);
}

/* Returns the bits of a first-class scalar or vector type. */
static unsigned lower_calls_bits(struct mt_lowering *l, LLVMTypeRef t)
{
    return (unsigned)LLVMSizeOfTypeInBits(l->u->layout, t);
}

/* Converts a value to a type: pointers plain, same-width values bit-cast, integers extended or truncated. */
static LLVMValueRef lower_calls_fit(struct mt_lowering *l, LLVMValueRef v, LLVMTypeRef want)
{
    LLVMTypeRef have = LLVMTypeOf(v);
    if (have == want)
        return v;
    LLVMTypeKind hk = LLVMGetTypeKind(have), wk = LLVMGetTypeKind(want);
    if (hk == LLVMPointerTypeKind && wk == LLVMPointerTypeKind)
        return LLVMBuildAddrSpaceCast(l->builder, v, want, "");
    if (hk == LLVMPointerTypeKind)
        return LLVMBuildPtrToInt(l->builder, v, want, "");
    if (wk == LLVMPointerTypeKind)
        return LLVMBuildIntToPtr(l->builder, v, want, "");
    if (lower_calls_bits(l, have) == lower_calls_bits(l, want))
        return LLVMBuildBitCast(l->builder, v, want, "");
    if (hk != LLVMIntegerTypeKind)
        v = LLVMBuildBitCast(l->builder, v, mt_type_int(l->u, lower_calls_bits(l, have)), "");
    if (wk == LLVMIntegerTypeKind)
        return LLVMBuildIntCast2(l->builder, v, want, 0, "");
    v = LLVMBuildIntCast2(l->builder, v, mt_type_int(l->u, lower_calls_bits(l, want)), 0, "");
    return LLVMBuildBitCast(l->builder, v, want, "");
}

/* Replaces a call by a call of `builtin` with converted arguments. Returns 0, or -1 if the shapes
 * disagree. */
static int lower_calls_builtin(struct mt_lowering *l, LLVMValueRef call, LLVMValueRef builtin,
                               LLVMTypeRef type)
{
    LLVMTypeRef result = LLVMTypeOf(call);
    unsigned have = LLVMGetNumArgOperands(call);
    LLVMTypeRef params[64];
    LLVMValueRef args[64];
    if (LLVMCountParamTypes(type) != have || have > 64 || LLVMGetTypeKind(result) == LLVMStructTypeKind)
        return -1;
    LLVMGetParamTypes(type, params);
    for (unsigned i = 0; i < have; i++)
        args[i] = lower_calls_fit(l, LLVMGetOperand(call, i), params[i]);
    LLVMValueRef made = LLVMBuildCall2(l->builder, type, builtin, args, have, "");
    lower_calls_replace(call, LLVMGetTypeKind(result) != LLVMVoidTypeKind ? lower_calls_fit(l, made, result)
                                                                          : NULL);
    return 0;
}

static int lower_calls_by_name(struct mt_lowering *l, LLVMValueRef call, const char *prefix, const char *name)
{
    char mapped[256];
    LLVMTypeRef type;
    int n = snprintf(mapped, sizeof mapped, "%s%s", prefix, name);
    if (n < 0 || n >= (int)sizeof mapped)
        return -1;
    for (char *c = mapped; *c; c++)
        if (*c == '.' || *c == ':')
            *c = '_';
    LLVMValueRef builtin = mt_builtin(l, mapped, &type);
    return builtin ? lower_calls_builtin(l, call, builtin, type) : -1;
}

/* ---- unsupported calls --------------------------------------------------------------------------------- */

/* Warns, and makes the launch fail with the same text if the code is ever executed. */
static void lower_calls_unsupported(struct mt_lowering *l, LLVMValueRef call, const char *what)
{
    struct mt_unit *u = l->u;
    struct mt_source_location place;
    mt_shim_location(call, &place);
    mt_diag(u, call, MT_DIAG_WARNING,
            "the CPU device cannot run this: %s (the launch fails if it is reached)", what);
    mt_unit_add_note(u, call, MT_NOTE_UNSUPPORTED, what);
    LLVMTypeRef type = LLVMFunctionType(l->none, (LLVMTypeRef[]){l->ptr, l->ptr, l->i32}, 3, 0);
    LLVMValueRef f = mt_declare(l->module, "mt_cpu_unsupported", type);
    LLVMValueRef args[] = {LLVMBuildGlobalStringPtr(l->builder, what, "mt.what"),
                           LLVMBuildGlobalStringPtr(l->builder, place.file, "mt.file"),
                           LLVMConstInt(l->i32, place.line, 0)};
    LLVMBuildCall2(l->builder, type, f, args, 3, "");
    LLVMTypeRef result = LLVMTypeOf(call);
    lower_calls_replace(call, LLVMGetTypeKind(result) == LLVMVoidTypeKind ? NULL : LLVMConstNull(result));
}

/* ---- inline asm ---------------------------------------------------------------------------------------- */

static LLVMValueRef lower_calls_look_up(void *ctx, const char *name, LLVMTypeRef *type)
{
    return mt_builtin(ctx, name, type);
}

static void lower_calls_lower_asm(struct mt_lowering *l, LLVMValueRef call)
{
    struct mt_asm_builtins b = {.lookup = lower_calls_look_up, .ctx = l};
    struct mt_asm_error error = {0};
    if (!mt_asm_lower(l->module, call, &b, &error))
        return;
    char what[400];
    snprintf(what, sizeof what, "inline asm: %s", error.message);
    LLVMPositionBuilderBefore(l->builder, call);
    lower_calls_unsupported(l, call, what);
}

/* Returns the text of an inline asm; NULL: another instruction. */
static const char *lower_calls_asm(LLVMValueRef v)
{
    size_t length;
    if (!LLVMIsACallInst(v) || !LLVMIsAInlineAsm(LLVMGetCalledValue(v)))
        return NULL;
    return LLVMGetInlineAsmAsmString(LLVMGetCalledValue(v), &length);
}

static double lower_calls_float(LLVMValueRef v)
{
    float f = -1;
    uint32_t bits = LLVMIsAConstantInt(v) ? (uint32_t)LLVMConstIntGetZExtValue(v) : 0xbf800000;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Matches the addition of 1.5 * 2^23, rounding down, by which CUDA's expf and its relatives take the integer
 * part of 252 times a number between 0 and 1. General rounding down takes ten times as long. */
static int lower_calls_adds_down(struct mt_lowering *l, LLVMValueRef call)
{
    const char *text = lower_calls_asm(call), *number = NULL;
    if (text && mt_starts(text, "fma.rm.") && strstr(text, "f32 $0, $1, $2, $3;"))
        number = lower_calls_asm(LLVMGetOperand(call, 0));
    if (!number || !mt_starts(number, "cvt.") || !strstr(number, "sat.f32.f32") || LLVMTypeOf(call) != l->i32)
        return 0;
    double by = lower_calls_float(LLVMGetOperand(call, 1)), to = lower_calls_float(LLVMGetOperand(call, 2));
    return by >= 0 && by <= 4096 && to >= 10e6 && to <= 14e6;
}

/* Returns its replacement. */
static LLVMValueRef lower_calls_add_down(struct mt_lowering *l, LLVMValueRef call)
{
    LLVMTypeRef type;
    LLVMValueRef f = mt_builtin(l, "mtb_fma_down_to_whole", &type), args[3];
    if (!f)
        return call;
    LLVMPositionBuilderBefore(l->builder, call);
    LLVMSetCurrentDebugLocation2(l->builder, LLVMInstructionGetDebugLoc(call));
    for (unsigned i = 0; i < 3; i++)
        args[i] =
            LLVMBuildBitCast(l->builder, LLVMGetOperand(call, i), LLVMFloatTypeInContext(l->u->context), "");
    LLVMValueRef sum = LLVMBuildCall2(l->builder, type, f, args, 3, "");
    lower_calls_replace(call, LLVMBuildBitCast(l->builder, sum, l->i32, ""));
    return sum;
}

static void lower_calls_lower(struct mt_lowering *l, LLVMValueRef call)
{
    LLVMPositionBuilderBefore(l->builder, call);
    LLVMSetCurrentDebugLocation2(l->builder, LLVMInstructionGetDebugLoc(call));
    if (LLVMIsAInlineAsm(LLVMGetCalledValue(call))) {
        lower_calls_lower_asm(l, call);
        return;
    }
    LLVMValueRef callee = mt_callee(call);
    if (!callee || !LLVMIsDeclaration(callee))
        return;
    const char *name = mt_name(callee);
    if (mt_starts(name, "__mt_") || mt_starts(name, "mtb_") || mt_starts(name, "mt_cpu_"))
        return;
    if (mt_starts(name, "llvm.nvvm.")) {
        const char *k = name + strlen("llvm.nvvm.");
        if (lower_calls_by_name(l, call, "mtb_nvvm_", k))
            lower_calls_unsupported(l, call, name);
        return;
    }
    if (LLVMGetIntrinsicID(callee))
        return;
    if (lower_calls_by_name(l, call, "mtb_", name)) {
        if (l->u->options->part ? mt_is_shared_name(callee) /* another image's */
                                : l->u->options->rdc && !mt_starts(name, "cuda"))
            return; /* another file's; the device's own API is in no file */
        char what[300];
        snprintf(what, sizeof what, "call of %s, which this file does not define", name);
        lower_calls_unsupported(l, call, what);
    }
}

/* Returns the space from which a generic pointer was made, 0: unknown. */
static unsigned lower_calls_space(LLVMValueRef p)
{
    for (int depth = 0; depth < 20; depth++) {
        unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
        LLVMOpcode op = LLVMIsAConstantExpr(p)  ? LLVMGetConstOpcode(p)
                        : LLVMIsAInstruction(p) ? LLVMGetInstructionOpcode(p)
                                                : LLVMRet;
        if (space || (op != LLVMAddrSpaceCast && op != LLVMGetElementPtr))
            return space;
        p = LLVMGetOperand(p, 0);
    }
    return 0;
}

/* Folds queries for the space of a declared variable, so that only one of the program's code paths
 * remains. */
static void lower_calls_fold_space(struct mt_lowering *l, LLVMValueRef call)
{
    static const struct {
        const char *name;
        unsigned space;
    } asked[] = {{"global", 1}, {"shared", 3}, {"shared_cluster", 3}, {"local", 5}};
    const char *name = LLVMIsACallInst(call) && mt_callee(call) ? mt_name(mt_callee(call)) : "",
               prefix[] = "mtb_nvvm_isspacep_";
    if (!mt_starts(name, prefix))
        return;
    unsigned space = lower_calls_space(LLVMGetOperand(call, 0));
    for (unsigned i = 0; space && i < sizeof asked / sizeof *asked; i++)
        if (!strcmp(name + strlen(prefix), asked[i].name)) {
            lower_calls_replace(call, LLVMConstInt(l->i1, asked[i].space == space, 0));
            return;
        }
}

static void lower_calls_lower_all(struct mt_lowering *l, LLVMValueRef function)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++)
        if (lower_calls_adds_down(l, list[i])) /* while the number can be seen to be saturated */
            list[i] = lower_calls_add_down(l, list[i]);
    for (unsigned i = 0; list && i < n; i++)
        if (LLVMGetInstructionOpcode(list[i]) == LLVMCall)
            lower_calls_lower(l, list[i]);
    free(list);
    list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++)
        lower_calls_fold_space(l, list[i]);
    free(list);
}

static void lower_calls(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            lower_calls_lower_all(l, f);
}

/* ---- The order of the steps ---- */

/* Options on which steps depend. */
enum { LOWER_COUNT = 1, LOWER_SHARED_NAMES = 2, LOWER_VECTORS = 4 };

struct lower_step {
    void (*take)(struct mt_lowering *l);
    unsigned with;
};

static void lower_checks(struct mt_lowering *l)
{
    if (l->u->options->spaces & MT_SPACES_SHARED && l->u->options->only != MT_ONLY_NOTHING)
        mt_unit_add_checks(l->u, l->module);
}

/* From NVPTX's code to x86-64 code. */
static const struct lower_step lower_steps[] = {
    /* While lines of instructions are known, and each load is one of the PTX. */
    {.take = lower_checks},
    /* As ptxas does it, within blocks: before code moves between them. */
    {.take = lower_contraction},
    {.take = lower_simplify},
    /* While lines of instructions are known, for warnings. */
    {.take = lower_calls},
    /* After asm is lowered, which also needs it. */
    {.take = lower_ranges},
    {.take = lower_divisions},
    {.take = lower_exactness},
    /* After exactness, which makes zeros. */
    {.take = lower_extremes},
    /* On the very loads and stores that run, while lines are known. */
    {.take = lower_counts, .with = LOWER_COUNT},
    {.take = mt_lower_spins},
    /* When lines are no longer needed, and before lists name values removed here. */
    {.take = lower_metadata},
    /* Variables placed elsewhere: before all others get a value and a linkage. */
    {.take = lower_shared},
    {.take = lower_managed},
    /* Before names not meant for other files become internal. */
    {.take = lower_exports, .with = LOWER_SHARED_NAMES},
    {.take = lower_globals},
    {.take = lower_attributes},
    /* Variables of the program: before the builtins' are linked in. */
    {.take = mt_image_variables},
    {.take = lower_plain},
    /* Recording code: after the copies without record calls are made. */
    {.take = mt_lower_ways, .with = LOWER_VECTORS},
    {.take = mt_lower_records},
    /* Needed by builtins. */
    {.take = lower_site_base},
    /* Only declared builtins are linked, including those that vectors will call. */
    {.take = mt_declare_registers, .with = LOWER_VECTORS},
    {.take = mt_lower_builtins},
    /* Whether a kernel waits shows in the builtins' code, which vectors may inline. */
    {.take = kernels_wait},
    {.take = mt_vector_kernels, .with = LOWER_VECTORS},
    /* For launches that vectors do not take. */
    {.take = lower_kernels},
    /* Kernels that need their caller are known now; tables name everything made before. */
    {.take = lower_frames},
    {.take = mt_image_tables},
};

int mt_lower_device(struct mt_unit *u, LLVMModuleRef module, int vectors)
{
    struct mt_lowering l;
    unsigned has = (mt_pass_counting != MT_COUNT_OFF ? LOWER_COUNT : 0) |
                   (u->options->rdc || u->options->part ? LOWER_SHARED_NAMES : 0) |
                   (vectors ? LOWER_VECTORS : 0);
    int failed = mt_lowering_begin(&l, u, module);
    for (size_t i = 0; !failed && i < sizeof lower_steps / sizeof *lower_steps; i++)
        if (!(lower_steps[i].with & ~has)) {
            lower_steps[i].take(&l);
            failed = l.failed;
        }
    mt_lowering_end(&l);
    return failed ? -1 : 0;
}
