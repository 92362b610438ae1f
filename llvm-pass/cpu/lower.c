/* Device module to CPU module: the order of the steps. See docs/internals.md,
 * "The pass and what it emits". */
#include "lower.h"
#include "pass.h"
#include "ptx/module.h"
#include <stdlib.h>
#include <string.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Linker.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

LLVMValueRef mt_builtin(struct mt_lowering *l, const char *name, LLVMTypeRef *type)
{
    LLVMModuleRef home = l->builtins ? l->builtins : l->module;
    LLVMValueRef f = LLVMGetNamedFunction(home, name);
    if (!f)
        return NULL;
    *type = LLVMGlobalGetValueType(f);
    return mt_declare(l->module, name, *type);
}

LLVMValueRef mt_build_call(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef *args, unsigned n)
{
    return LLVMBuildCall2(l->builder, LLVMGlobalGetValueType(function), function, args, n, "");
}

static void drop_global(LLVMModuleRef m, const char *name)
{
    LLVMValueRef g = LLVMGetNamedGlobal(m, name);
    if (g)
        LLVMDeleteGlobal(g);
}

static void set_string_attribute(LLVMContextRef c, LLVMValueRef f, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(
        f, LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(c, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

static void remove_enum_attribute(LLVMValueRef f, const char *name)
{
    LLVMRemoveEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                   LLVMGetEnumAttributeKindForName(name, strlen(name)));
}

static int has_enum_attribute(LLVMValueRef f, const char *name)
{
    return LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                       LLVMGetEnumAttributeKindForName(name, strlen(name))) != NULL;
}

static void set_target(struct mt_unit *u, LLVMValueRef f)
{
    static const char *const drop[] = {"target-cpu", "target-features", "tune-cpu", "frame-pointer",
                                       "stack-protector-buffer-size"};
    for (unsigned i = 0; i < sizeof drop / sizeof *drop; i++)
        LLVMRemoveStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, drop[i], (unsigned)strlen(drop[i]));
    if (LLVMIsDeclaration(f))
        return;
    mt_set_image_cpu(u, f);
    /* Frames larger than a page are touched page by page: what is too large for the stack faults in its guard
     * page and not in another's memory. */
    set_string_attribute(u->context, f, "probe-stack", "inline-asm");
}

void mt_set_image_cpu(const struct mt_unit *u, LLVMValueRef function)
{
    set_string_attribute(u->context, function, "target-cpu", mt_image_cpu(u));
    if (u->options->cpu_features)
        set_string_attribute(u->context, function, "target-features", u->options->cpu_features);
}

const char *mt_image_cpu(const struct mt_unit *u)
{
    return u->options->cpu ? u->options->cpu : "x86-64-v3";
}

/* A function that is not inlined and asks for the lanes beside it may be called from several branches; the
 * CPU device distinguishes those by the chain of callers, which frame pointers make readable. */
static void keep_frames(struct mt_lowering *l)
{
    int any = 0;
    for (unsigned k = 0; k < l->u->nkernels; k++)
        any |= l->u->kernels[k].frames;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); any && f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            set_string_attribute(l->u->context, f, "frame-pointer", "all");
}

/* Everything but the image's one symbol is internal to it; calling conventions and target attributes are
 * x86-64's. "Reads no memory", "does not synchronise" and the like were true of special registers and warp
 * operations as NVPTX sees them; here they would let the optimiser move reads of threadIdx
 * from one thread to another. */
void mt_lower_attributes(struct mt_lowering *l)
{
    LLVMContextRef c = l->u->context;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        int intrinsic = LLVMGetIntrinsicID(f) != 0;
        LLVMSetFunctionCallConv(f, LLVMCCallConv);
        set_target(l->u, f);
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

/* Variables: constants can be written by the host; the empty objects behind threadIdx and co. get a body. */
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

/* Code that nobody has optimised keeps thread numbers and pointers in stack slots, and asks for them through
 * functions: what follows wants to see them. (The image is optimised at the end in any case.) */
static int lower_simplify(struct mt_lowering *l)
{
    int any = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f) || !has_enum_attribute(f, "optnone"))
            continue;
        remove_enum_attribute(f, "optnone");
        remove_enum_attribute(f, "noinline");
        any = 1;
    }
    if (!any)
        return 0;
    mt_count_keep(l);
    int rc = mt_run_passes(l->u, l->module, "cgscc(inline),function(sroa,early-cse)", NULL);
    mt_ptx_release_accesses(l->module);
    return rc;
}

/* Links those builtins in that are used; what came with them is internal, too. */
static int link_builtins(struct mt_lowering *l)
{
    LLVMModuleRef b = l->builtins;
    mt_declare_registers(l);
    l->builtins = NULL;
    LLVMSetTarget(b, LLVMGetTarget(l->module));
    LLVMSetDataLayout(b, LLVMGetDataLayoutStr(l->module));
    drop_global(b, "llvm.used");
    drop_global(b, "llvm.compiler.used");
    mt_shim_drop_named_metadata(b);
    if (mt_shim_link_needed(l->module, b)) {
        mt_diag(l->u, NULL, MT_DIAG_ERROR, "cannot link the CPU builtins");
        return -1;
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
            set_target(l->u, f);
        }
    return 0;
}

/* Sites of one image are numbered from 0, which is all that is needed where its kernels
 * run no other image's functions. */
static void add_site_base(struct mt_lowering *l)
{
    LLVMValueRef g = LLVMAddGlobal(l->module, l->i32, "__mt_site_base");
    LLVMSetInitializer(g, LLVMConstInt(l->i32, 0, 0));
    if (l->u->options->rdc)
        l->site_base = g;
    else
        LLVMSetGlobalConstant(g, 1);
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

static int new_versions(const struct mt_unit *u, struct mt_versions *v)
{
    v->kernels = calloc(u->nkernels + 1, sizeof *v->kernels);
    v->entries = calloc(u->nkernels + 1, sizeof *v->entries);
    return v->kernels && v->entries ? 0 : -1;
}

static void free_versions(struct mt_versions *v)
{
    free(v->kernels);
    free(v->entries);
}

int mt_unit_lower(struct mt_unit *u, LLVMModuleRef clone)
{
    struct mt_lowering l = {.u = u, .module = clone, .builder = LLVMCreateBuilderInContext(u->context)};
    int rc = -1;
    l.ptr = mt_type_ptr(u);
    l.i1 = mt_type_int(u, 1);
    l.i8 = mt_type_int(u, 8);
    l.i32 = mt_type_int(u, 32);
    l.i64 = mt_type_int(u, 64);
    l.none = LLVMVoidTypeInContext(u->context);
    l.builtins = mt_load_bitcode(u, "cpu-builtins.bc");
    l.vector = calloc(u->nkernels + 1, sizeof *l.vector);
    if (!l.builtins || !l.vector || new_versions(u, &l.traced) || new_versions(u, &l.plain))
        goto out;
    mt_lower_contraction(&l);
    if (lower_simplify(&l))
        goto out;
    for (unsigned i = 0; i < u->nkernels; i++)
        l.traced.kernels[i] = LLVMGetNamedFunction(clone, u->kernels[i].name);

    for (LLVMValueRef f = LLVMGetFirstFunction(clone); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            mt_lower_calls(&l, f);
    mt_lower_ranges(&l);
    mt_lower_divisions(&l);
    mt_lower_exactness(&l);
    mt_lower_extremes(&l);
    mt_lower_counts(&l);
    mt_lower_spins(&l);
    LLVMStripModuleDebugInfo(clone);
    mt_shim_drop_named_metadata(clone);
    drop_global(clone, "llvm.used");
    drop_global(clone, "llvm.compiler.used");
    drop_global(clone, MT_CLANG_USED);
    mt_lower_shared(&l);
    mt_lower_managed(&l);
    if (u->options->rdc || u->options->part)
        mt_lower_exports(&l);
    lower_globals(&l);
    mt_lower_attributes(&l);
    mt_image_variables(&l);
    mt_lower_plain(&l);
    mt_lower_places(&l);
    add_site_base(&l);
    if (link_builtins(&l))
        goto out;
    mt_lower_kernels(&l);
    keep_frames(&l);
    mt_image_tables(&l);
    rc = 0;
out:
    if (l.builtins)
        LLVMDisposeModule(l.builtins);
    LLVMDisposeBuilder(l.builder);
    free_versions(&l.traced);
    free_versions(&l.plain);
    free(l.vars);
    free(l.vector);
    return rc;
}

int mt_pass_lower_only(LLVMModuleRef module)
{
    struct mt_unit u;
    mt_unit_init(&u, module);
    mt_unit_read_facts(&u);
    mt_unit_instrument(&u);
    mt_set_cpu_target(&u, module);
    mt_unit_lower(&u, module);
    mt_unit_free(&u);
    return 1;
}
