/* Makes functions and variables those of an x86-64 module: linkage, attributes, values, and linked
 * builtins. */
#include "lower.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Linker.h>

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
void mt_lower_frames(struct mt_lowering *l)
{
    int any = 0;
    for (unsigned k = 0; k < l->u->nkernels; k++)
        any |= l->u->kernels[k].frames;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); any && f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            mt_set_text(l->u, f, "frame-pointer", "all");
}
