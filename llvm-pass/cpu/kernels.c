/* Functions that the CPU device calls, per kernel: those for whole warps (vector/) and, if these do not
 * take all launches, entry(void **args), which runs one thread with its coordinates in thread-local state. */
#include "cpu.h"
#include "lower/lowering.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
                                         "__mt_warp_apart",
                                         "__mt_warp_undefined",
                                         "__mt_warp_turn",
                                         "__mt_warp_matrix",
                                         "__mt_warp_each",
                                         "mtb_load_rows",
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

void mt_kernels_wait(struct mt_lowering *l)
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

void mt_lower_kernels(struct mt_lowering *l)
{
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        kernels_tell_vector(l, k);
        kernels_build(l, k);
    }
}
