/* Shared base of the lowering's steps: its state, builtins by name, the image's processor. */
#include "lowering.h"
#include "format/image.h"
#include <stdlib.h>
#include <string.h>
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

void mt_set_text(const struct mt_unit *u, LLVMValueRef function, const char *key, const char *value)
{
    LLVMAddAttributeAtIndex(
        function, LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(u->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

void mt_set_image_cpu(const struct mt_unit *u, LLVMValueRef function)
{
    mt_set_text(u, function, "target-cpu", mt_image_cpu(u));
    if (u->options->cpu_features)
        mt_set_text(u, function, "target-features", u->options->cpu_features);
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
