/* Turns calls of the device world into calls of C builtins, plain loads and atomics, or a clear
 * diagnostic. */
#include "lower.h"
#include "trace/trace.h"
#include "ptx/asm/asm.h"
#include "format/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the text of an inline asm of one statement; NULL: no asm. */
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

/* Matches the addition of 1.5 * 2^23, rounding down, by which CUDA's expf and its relatives take the
 * integer part of a number between 0 and 1, times 252. General rounding down takes ten times as long. */
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

void mt_lower_calls(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            lower_calls_lower_all(l, f);
}
