/* Calls of the device world become calls of C builtins, plain loads and atomics, or a clear diagnostic. */
#include "lower.h"
#include "ptx/asm.h"
#include "../../runtime/cpu/abi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void lower_calls_replace(LLVMValueRef old, LLVMValueRef new)
{
    if (new)
        LLVMReplaceAllUsesWith(old, new);
    LLVMInstructionEraseFromParent(old);
}

/* Bits of a first-class scalar or vector type. */
static unsigned bits_of(struct mt_lowering *l, LLVMTypeRef t)
{
    return (unsigned)LLVMSizeOfTypeInBits(l->u->layout, t);
}

/* Makes a value fit a type: pointers plain, same-width values bit-cast, integers widened or cut. */
LLVMValueRef mt_lower_fit(struct mt_lowering *l, LLVMValueRef v, LLVMTypeRef want)
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
    if (bits_of(l, have) == bits_of(l, want))
        return LLVMBuildBitCast(l->builder, v, want, "");
    if (hk != LLVMIntegerTypeKind)
        v = LLVMBuildBitCast(l->builder, v, mt_type_int(l->u, bits_of(l, have)), "");
    if (wk == LLVMIntegerTypeKind)
        return LLVMBuildIntCast2(l->builder, v, want, 0, "");
    v = LLVMBuildIntCast2(l->builder, v, mt_type_int(l->u, bits_of(l, want)), 0, "");
    return LLVMBuildBitCast(l->builder, v, want, "");
}

/* The struct that a builtin with a trailing `uint64_t *out` stands for. */
LLVMValueRef mt_lower_gather(struct mt_lowering *l, LLVMValueRef slots, LLVMTypeRef type)
{
    LLVMValueRef whole = LLVMGetUndef(type);
    for (unsigned i = 0, n = LLVMCountStructElementTypes(type); i < n; i++) {
        LLVMValueRef index = LLVMConstInt(l->i64, i, 0);
        LLVMValueRef p = LLVMBuildGEP2(l->builder, l->i64, slots, &index, 1, "");
        LLVMValueRef v =
            mt_lower_fit(l, LLVMBuildLoad2(l->builder, l->i64, p, ""), LLVMStructGetTypeAtIndex(type, i));
        whole = LLVMBuildInsertValue(l->builder, whole, v, i, "");
    }
    return whole;
}

static void mark_slots(struct mt_lowering *l, const char *intrinsic, LLVMValueRef slots, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->module, id, &l->ptr, 1);
    LLVMValueRef args[] = {LLVMConstInt(l->i64, 8ull * n, 0), slots};
    mt_build_call(l, f, args, 2);
}

LLVMValueRef mt_lower_slots(struct mt_lowering *l, LLVMValueRef call, unsigned n)
{
    LLVMValueRef home = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
    LLVMBuilderRef b = LLVMCreateBuilderInContext(l->u->context);
    LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(home));
    LLVMPositionBuilderBefore(b, first);
    LLVMValueRef slot = LLVMBuildAlloca(b, LLVMArrayType2(l->i64, n), "");
    LLVMDisposeBuilder(b);
    mark_slots(l, "llvm.lifetime.start", slot, n);
    return slot;
}

void mt_lower_slots_end(struct mt_lowering *l, LLVMValueRef slots, unsigned n)
{
    mark_slots(l, "llvm.lifetime.end", slots, n);
}

/* Replaces a call by a call of `builtin`, arguments fitted. 0, or -1 when the shapes do not agree. */
static int call_builtin(struct mt_lowering *l, LLVMValueRef call, LLVMValueRef builtin, LLVMTypeRef type)
{
    LLVMTypeRef result = LLVMTypeOf(call);
    int has_out = LLVMGetTypeKind(result) == LLVMStructTypeKind;
    unsigned have = LLVMGetNumArgOperands(call), want = LLVMCountParamTypes(type);
    LLVMTypeRef params[64];
    LLVMValueRef args[64];
    if (want != have + (unsigned)has_out || want > 64)
        return -1;
    LLVMGetParamTypes(type, params);
    for (unsigned i = 0; i < have; i++) {
        if (LLVMGetTypeKind(LLVMTypeOf(LLVMGetOperand(call, i))) == LLVMMetadataTypeKind)
            return -1;
        args[i] = mt_lower_fit(l, LLVMGetOperand(call, i), params[i]);
    }
    LLVMValueRef slots = NULL, value = NULL;
    if (has_out)
        args[have] = slots = mt_lower_slots(l, call, LLVMCountStructElementTypes(result));
    LLVMValueRef made = LLVMBuildCall2(l->builder, type, builtin, args, want, "");
    if (has_out) {
        value = mt_lower_gather(l, slots, result);
        mt_lower_slots_end(l, slots, LLVMCountStructElementTypes(result));
    } else if (LLVMGetTypeKind(result) != LLVMVoidTypeKind)
        value = mt_lower_fit(l, made, result);
    lower_calls_replace(call, value);
    return 0;
}

static int by_name(struct mt_lowering *l, LLVMValueRef call, const char *prefix, const char *name)
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
    return builtin ? call_builtin(l, call, builtin, type) : -1;
}

/* ---- memory intrinsics of NVPTX ------------------------------------------------------------------------ */

static LLVMAtomicRMWBinOp atomic_op(const char *op, int is_float)
{
    static const struct {
        const char *name;
        LLVMAtomicRMWBinOp integer, real;
    } table[] = {{"add.", LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpFAdd},
                 {"inc.", LLVMAtomicRMWBinOpUIncWrap, LLVMAtomicRMWBinOpUIncWrap},
                 {"dec.", LLVMAtomicRMWBinOpUDecWrap, LLVMAtomicRMWBinOpUDecWrap},
                 {"exch.", LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg},
                 {"and.", LLVMAtomicRMWBinOpAnd, LLVMAtomicRMWBinOpAnd},
                 {"or.", LLVMAtomicRMWBinOpOr, LLVMAtomicRMWBinOpOr},
                 {"xor.", LLVMAtomicRMWBinOpXor, LLVMAtomicRMWBinOpXor},
                 {"max.", LLVMAtomicRMWBinOpMax, LLVMAtomicRMWBinOpFMax},
                 {"min.", LLVMAtomicRMWBinOpMin, LLVMAtomicRMWBinOpFMin}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (mt_starts(op, table[i].name))
            return is_float ? table[i].real : table[i].integer;
    return (LLVMAtomicRMWBinOp)-1;
}

static int lower_atomic(struct mt_lowering *l, LLVMValueRef call, const char *k)
{
    LLVMTypeRef type = LLVMTypeOf(call);
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    LLVMValueRef p = LLVMGetOperand(call, 0), v = LLVMGetOperand(call, 1);
    const char *op = k + strlen("atomic.");
    if (mt_starts(op, "load.inc.32"))
        op = "inc.";
    else if (mt_starts(op, "load.dec.32"))
        op = "dec.";
    if (mt_starts(op, "cas.")) {
        LLVMValueRef pair = LLVMBuildAtomicCmpXchg(l->builder, p, v, LLVMGetOperand(call, 2),
                                                   LLVMAtomicOrderingSequentiallyConsistent,
                                                   LLVMAtomicOrderingSequentiallyConsistent, 0);
        lower_calls_replace(call, LLVMBuildExtractValue(l->builder, pair, 0, ""));
        return 0;
    }
    int real = kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind || kind == LLVMHalfTypeKind ||
               kind == LLVMBFloatTypeKind;
    LLVMAtomicRMWBinOp rmw = atomic_op(op, real);
    if ((int)rmw == -1)
        return -1;
    lower_calls_replace(
        call, LLVMBuildAtomicRMW(l->builder, rmw, p, v, LLVMAtomicOrderingSequentiallyConsistent, 0));
    return 0;
}

static int lower_cp_async(struct mt_lowering *l, LLVMValueRef call, const char *k)
{
    unsigned size = (unsigned)atoi(k + strlen("cp.async.ca.shared.global."));
    LLVMValueRef dst = mt_lower_fit(l, LLVMGetOperand(call, 0), l->ptr),
                 src = mt_lower_fit(l, LLVMGetOperand(call, 1), l->ptr);
    LLVMValueRef whole = LLVMConstInt(l->i64, size, 0), n = whole;
    if (mt_ends(k, ".s")) { /* the rest is filled with zeros */
        LLVMBuildMemSet(l->builder, dst, LLVMConstInt(l->i8, 0, 0), whole, 1);
        n = LLVMBuildZExt(l->builder, LLVMGetOperand(call, 2), l->i64, "");
    }
    LLVMBuildMemCpy(l->builder, dst, 1, src, 1, n);
    lower_calls_replace(call, NULL);
    return 0;
}

static int lower_memory(struct mt_lowering *l, LLVMValueRef call, const char *k)
{
    LLVMTypeRef type = LLVMTypeOf(call);
    if (mt_starts(k, "ldg.global.") || mt_starts(k, "ldu.global.")) {
        LLVMValueRef load = LLVMBuildLoad2(l->builder, type, LLVMGetOperand(call, 0), "");
        if (LLVMGetNumArgOperands(call) > 1 && LLVMIsAConstantInt(LLVMGetOperand(call, 1)))
            LLVMSetAlignment(load, (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(call, 1)));
        lower_calls_replace(call, load);
        return 0;
    }
    if (mt_starts(k, "ptr.") || !strcmp(k, "move.ptr") || mt_starts(k, "move.ptr.")) {
        lower_calls_replace(call, mt_lower_fit(l, LLVMGetOperand(call, 0), type));
        return 0;
    }
    if (mt_starts(k, "atomic."))
        return lower_atomic(l, call, k);
    if (mt_starts(k, "cp.async.ca.shared.global.") || mt_starts(k, "cp.async.cg.shared.global."))
        return lower_cp_async(l, call, k);
    if (mt_starts(k, "cp.async.commit.group") || mt_starts(k, "cp.async.wait.group") ||
        mt_starts(k, "cp.async.wait.all")) { /* copies are done when they are issued */
        lower_calls_replace(call, NULL);
        return 0;
    }
    return -1;
}

/* ---- what cannot be run -------------------------------------------------------------------------------- */

/* Warns now, and ends the launch with the same words if the code is ever executed. */
static void lower_calls_unsupported(struct mt_lowering *l, LLVMValueRef call, const char *what)
{
    struct mt_unit *u = l->u;
    struct mt_source_place place;
    mt_shim_place(call, &place);
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

static LLVMValueRef asm_builtin(void *ctx, const char *name, LLVMTypeRef *type)
{
    return mt_builtin(ctx, name, type);
}

static void lower_asm(struct mt_lowering *l, LLVMValueRef call)
{
    struct mt_asm_builtins b = {.lookup = asm_builtin, .ctx = l};
    struct mt_asm_error error = {0};
    if (!mt_asm_lower(l->module, call, &b, &error))
        return;
    char what[400];
    snprintf(what, sizeof what, "inline asm: %s", error.message);
    LLVMPositionBuilderBefore(l->builder, call);
    lower_calls_unsupported(l, call, what);
}

/* What an instruction of one statement is, as text; NULL: no asm. */
static const char *calls_asm(LLVMValueRef v)
{
    size_t length;
    if (!LLVMIsACallInst(v) || !LLVMIsAInlineAsm(LLVMGetCalledValue(v)))
        return NULL;
    return LLVMGetInlineAsmAsmString(LLVMGetCalledValue(v), &length);
}

static double calls_float(LLVMValueRef v)
{
    float f = -1;
    uint32_t bits = LLVMIsAConstantInt(v) ? (uint32_t)LLVMConstIntGetZExtValue(v) : 0xbf800000;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* CUDA's expf and its relatives take the whole part of a number between 0 and 1 times 252 by adding 1.5 *
 * 2^23 with rounding towards minus infinity. In general that takes ten times as long as there. */
static int calls_adds_down(struct mt_lowering *l, LLVMValueRef call)
{
    const char *text = calls_asm(call), *number = NULL;
    if (text && mt_starts(text, "fma.rm.") && strstr(text, "f32 $0, $1, $2, $3;"))
        number = calls_asm(LLVMGetOperand(call, 0));
    if (!number || !mt_starts(number, "cvt.") || !strstr(number, "sat.f32.f32") || LLVMTypeOf(call) != l->i32)
        return 0;
    double by = calls_float(LLVMGetOperand(call, 1)), to = calls_float(LLVMGetOperand(call, 2));
    return by >= 0 && by <= 4096 && to >= 10e6 && to <= 14e6;
}

/* What stands there then. */
static LLVMValueRef calls_add_down(struct mt_lowering *l, LLVMValueRef call)
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

static void lower_call(struct mt_lowering *l, LLVMValueRef call)
{
    LLVMPositionBuilderBefore(l->builder, call);
    LLVMSetCurrentDebugLocation2(l->builder, LLVMInstructionGetDebugLoc(call));
    if (LLVMIsAInlineAsm(LLVMGetCalledValue(call))) {
        lower_asm(l, call);
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
        if (lower_memory(l, call, k) && mt_lower_matrix(l, call, k) && by_name(l, call, "mtb_nvvm_", k))
            lower_calls_unsupported(l, call, name);
        return;
    }
    if (LLVMGetIntrinsicID(callee))
        return;
    if (by_name(l, call, "mtb_", name)) {
        if (l->u->options->part ? mt_is_shared_name(callee) /* another image's */
                                : l->u->options->rdc && !mt_starts(name, "cuda"))
            return; /* another file's; the device's own API is nobody's */
        char what[300];
        snprintf(what, sizeof what, "call of %s, which this file does not define", name);
        lower_calls_unsupported(l, call, what);
    }
}

void mt_lower_calls(struct mt_lowering *l, LLVMValueRef function)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++)
        if (calls_adds_down(l, list[i])) /* while the number is seen to be saturated */
            list[i] = calls_add_down(l, list[i]);
    for (unsigned i = 0; list && i < n; i++)
        if (LLVMGetInstructionOpcode(list[i]) == LLVMCall)
            lower_call(l, list[i]);
    free(list);
}
