/* Shared base of the lowering's steps: its state, builtins by name, the image's processor. */
#include "lowering.h"
#include "lower.h"
#include "trace/plain.h"
#include "trace/trace.h"
#include "ptx/asm/asm.h"
#include "format/image.h"
#include "memtrace/grow.h"

#include <llvm-c/DebugInfo.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void set_text(const struct mt_unit *u, LLVMValueRef function, const char *key, const char *value);

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
    set_text(u, f, "probe-stack", "inline-asm");
}

/* Makes everything but the image's one symbol internal; calling conventions and target attributes become
 * x86-64's. "Reads no memory", "does not synchronise" and the like were true of special registers and warp
 * operations in NVPTX; here they would let the optimiser move reads of threadIdx from one thread to
 * another. */
void mt_lower_attributes(struct mt_lowering *l)
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
void mt_lower_globals(struct mt_lowering *l)
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
            if (!mt_is_index_variable(name)) {
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

void mt_lower_metadata(struct mt_lowering *l)
{
    LLVMStripModuleDebugInfo(l->module);
    symbols_strip(l->module);
}

/* Numbers the sites of one image from 0, which suffices if its kernels run no other image's functions. */
void mt_lower_site_base(struct mt_lowering *l)
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
    set_text(u, f, "target-features", text);
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
void mt_lower_frames(struct mt_lowering *l)
{
    int any = 0;
    for (unsigned k = 0; k < l->u->nkernels; k++)
        any |= l->u->kernels[k].frames;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); any && f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            set_text(l->u, f, "frame-pointer", "all");
}

/* Makes a second version of each kernel that can reach a record call, without these, for launches that are
 * not traced. */

void mt_lower_plain(struct mt_lowering *l)
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

void mt_lower_calls(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            lower_calls_lower_all(l, f);
}

/* ---- Functions reachable through calls: see lowering.h ---- */

/* libmemtrace's functions in which a device thread waits for others: a kernel that reaches one runs as
 * fibers. */
const char *const mt_waiting_functions[] = {
    "mt_cpu_barrier",   "mt_cpu_cluster_arrive", "mt_cpu_cluster_wait", "mt_cpu_barrier_arrive",
    "mt_cpu_syncwarp",  "mt_cpu_shfl",           "mt_cpu_vote",         "mt_cpu_match_any",
    "mt_cpu_match_all", "mt_cpu_redux",          "mt_cpu_activemask",   "mt_cpu_yield",
    "mt_cpu_nanosleep", "mt_cpu_exit_thread",    "mt_cpu_matrix",       NULL};

static int reach_is_waiting(const char *name)
{
    for (unsigned i = 0; mt_waiting_functions[i]; i++)
        if (!strcmp(name, mt_waiting_functions[i]))
            return 1;
    return 0;
}

int mt_reach_has(const struct mt_reach *r, LLVMValueRef function)
{
    for (unsigned i = 0; i < r->count; i++)
        if (r->functions[i] == function)
            return 1;
    return 0;
}

static void reach_push(struct mt_reach *r, LLVMValueRef function)
{
    if (mt_reach_has(r, function))
        return;
    if (mt_grow(&r->functions, &r->cap, r->count + 1, sizeof *r->functions))
        return;
    r->functions[r->count++] = function;
}

int mt_is_address_taken(LLVMValueRef function)
{
    for (LLVMUseRef use = LLVMGetFirstUse(function); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (!LLVMIsACallInst(user) || LLVMGetCalledValue(user) != function)
            return 1;
        for (unsigned i = 0, n = LLVMGetNumArgOperands(user); i < n; i++)
            if (LLVMGetOperand(user, i) == function)
                return 1;
    }
    return 0;
}

void mt_reach_from(struct mt_lowering *l, LLVMValueRef function, struct mt_reach *r)
{
    int indirect = 0;
    reach_push(r, function);
    for (unsigned at = 0; at < r->count; at++) {
        LLVMValueRef f = r->functions[at];
        if (LLVMIsDeclaration(f)) {
            if (reach_is_waiting(mt_name(f)) || mt_is_shared_name(f)) /* a function of another file may do
                                                                       * anything */
                r->waits = 1;
            r->gathers |= !strcmp(mt_name(f), "mt_cpu_activemask");
            continue;
        }
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
                if (!LLVMIsACallInst(i) || LLVMIsAInlineAsm(LLVMGetCalledValue(i)))
                    continue;
                LLVMValueRef callee = mt_callee(i);
                if (callee) {
                    if (!LLVMGetIntrinsicID(callee))
                        reach_push(r, callee);
                } else if (!indirect) {
                    indirect = 1;
                    if (l->u->options->rdc)
                        r->waits = 1;
                    for (LLVMValueRef g = LLVMGetFirstFunction(l->module); g; g = LLVMGetNextFunction(g))
                        if (!LLVMIsDeclaration(g) && mt_is_address_taken(g))
                            reach_push(r, g);
                }
            }
    }
}

void mt_reach_free(struct mt_reach *r)
{
    free(r->functions);
    memset(r, 0, sizeof *r);
}

LLVMValueRef mt_builtin(struct mt_lowering *l, const char *name, LLVMTypeRef *type)
{
    LLVMModuleRef home = l->builtins ? l->builtins : l->module;
    LLVMValueRef f = LLVMGetNamedFunction(home, name);
    if (!f)
        return NULL;
    *type = LLVMGlobalGetValueType(f);
    return mt_declare(l->module, name, *type);
}

LLVMValueRef mt_splat(LLVMTypeRef shape, LLVMValueRef constant)
{
    if (LLVMGetTypeKind(shape) != LLVMVectorTypeKind)
        return constant;
    unsigned n = LLVMGetVectorSize(shape);
    LLVMValueRef elements[n];
    for (unsigned i = 0; i < n; i++)
        elements[i] = constant;
    return LLVMConstVector(elements, n);
}

LLVMValueRef mt_build_call(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef *args, unsigned n)
{
    LLVMValueRef call = LLVMBuildCall2(l->builder, LLVMGlobalGetValueType(function), function, args, n, "");
    LLVMSetInstructionCallConv(call,
                               LLVMGetFunctionCallConv(function)); /* some builtins preserve all registers */
    return call;
}

int mt_is_shared_name(LLVMValueRef global)
{
    return mt_starts(mt_name(global), MT_DEVICE_PREFIX) || mt_starts(mt_name(global), MT_SHARED_PREFIX);
}

int mt_is_index_variable(const char *name)
{
    static const char *const names[] = {"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return 1;
    return 0;
}

/* Sets a text attribute. */
static void set_text(const struct mt_unit *u, LLVMValueRef function, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(
        function, LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(u->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

void mt_set_image_cpu(const struct mt_unit *u, LLVMValueRef function)
{
    set_text(u, function, "target-cpu", mt_image_cpu(u));
    if (u->options->cpu_features)
        set_text(u, function, "target-features", u->options->cpu_features);
}

const char *mt_image_cpu(const struct mt_unit *u)
{
    return u->options->cpu ? u->options->cpu : "x86-64-v3";
}

int mt_run_passes(struct mt_unit *u, LLVMModuleRef m, const char *passes, LLVMTargetMachineRef machine)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(o, 1);
    LLVMPassBuilderOptionsSetSLPVectorization(o, 1);
    LLVMPassBuilderOptionsSetLoopUnrolling(o, 1);
    LLVMErrorRef e = LLVMRunPasses(m, passes, machine, o);
    LLVMDisposePassBuilderOptions(o);
    if (!e)
        return 0;
    char *text = LLVMGetErrorMessage(e);
    mt_diag(u, NULL, MT_DIAG_ERROR, "CPU image: %s", text);
    LLVMDisposeErrorMessage(text);
    return -1;
}

static int lowering_versions(const struct mt_unit *u, struct mt_versions *v)
{
    v->kernels = calloc(u->nkernels + 1, sizeof *v->kernels);
    v->entries = calloc(u->nkernels + 1, sizeof *v->entries);
    return v->kernels && v->entries ? 0 : -1;
}

static void lowering_free(struct mt_versions *v)
{
    free(v->kernels);
    free(v->entries);
}

int mt_lowering_begin(struct mt_lowering *l, struct mt_unit *u, LLVMModuleRef clone)
{
    *l = (struct mt_lowering){.u = u, .module = clone, .builder = LLVMCreateBuilderInContext(u->context)};
    l->ptr = mt_type_ptr(u);
    l->i1 = mt_type_int(u, 1);
    l->i8 = mt_type_int(u, 8);
    l->i32 = mt_type_int(u, 32);
    l->i64 = mt_type_int(u, 64);
    l->none = LLVMVoidTypeInContext(u->context);
    l->builtins = mt_load_bitcode(u, "cpu-builtins.bc");
    l->vector = calloc(u->nkernels + 1, sizeof *l->vector);
    if (!l->builtins || !l->vector || lowering_versions(u, &l->traced) || lowering_versions(u, &l->plain))
        return -1;
    for (unsigned i = 0; i < u->nkernels; i++)
        l->traced.kernels[i] = LLVMGetNamedFunction(clone, u->kernels[i].name);
    return 0;
}

void mt_lowering_end(struct mt_lowering *l)
{
    if (l->builtins)
        LLVMDisposeModule(l->builtins);
    LLVMDisposeBuilder(l->builder);
    lowering_free(&l->traced);
    lowering_free(&l->plain);
    free(l->vars);
    free(l->vector);
}
