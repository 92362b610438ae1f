/* Works around kernel parameters that LLVM 19 reads wrongly: 16 bits for each element of a vector of two
 * bytes, and a byte for each element of a vector of bools, where the host passes bytes and bits. Before
 * that they become integers of the same bytes. */
#include "trace.h"
#include <stdlib.h>
#include <string.h>

static int narrow_is_misread(LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind ||
        LLVMGetTypeKind(LLVMGetElementType(type)) != LLVMIntegerTypeKind)
        return 0;
    unsigned bits = LLVMGetIntTypeWidth(LLVMGetElementType(type));
    return bits < 8 || (bits == 8 && LLVMGetVectorSize(type) == 2);
}

static unsigned narrow_bits(LLVMTypeRef type)
{
    return LLVMGetIntTypeWidth(LLVMGetElementType(type)) * LLVMGetVectorSize(type);
}

/* Returns the integer type as passed. */
static LLVMTypeRef narrow_integer(LLVMTypeRef type)
{
    unsigned all = 8;
    while (all < narrow_bits(type))
        all *= 2;
    return LLVMIntTypeInContext(LLVMGetTypeContext(type), all);
}

static LLVMTypeRef narrow_type(LLVMValueRef kernel)
{
    unsigned n = LLVMCountParams(kernel), i = 0, found = 0;
    LLVMTypeRef *types = malloc((n + 1) * sizeof *types), made = NULL;
    for (LLVMValueRef p = LLVMGetFirstParam(kernel); types && p; p = LLVMGetNextParam(p), i++) {
        int misread = narrow_is_misread(LLVMTypeOf(p));
        found |= misread;
        types[i] = misread ? narrow_integer(LLVMTypeOf(p)) : LLVMTypeOf(p);
    }
    if (found)
        made = LLVMFunctionType(LLVMGetReturnType(LLVMGlobalGetValueType(kernel)), types, n, 0);
    free(types);
    return made;
}

static LLVMValueRef narrow_value(LLVMBuilderRef b, LLVMValueRef integer, LLVMTypeRef type)
{
    LLVMTypeRef all = LLVMIntTypeInContext(LLVMGetTypeContext(type), narrow_bits(type));
    return LLVMBuildBitCast(b, LLVMBuildTrunc(b, integer, all, ""), type, "");
}

static void narrow_take_params(LLVMValueRef kernel, LLVMValueRef old)
{
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetTypeContext(LLVMTypeOf(kernel)));
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(kernel)));
    LLVMValueRef to = LLVMGetFirstParam(kernel);
    for (LLVMValueRef p = LLVMGetFirstParam(old); p; p = LLVMGetNextParam(p), to = LLVMGetNextParam(to)) {
        size_t length;
        const char *name = LLVMGetValueName2(p, &length);
        LLVMSetValueName2(to, name, length);
        int same = LLVMTypeOf(p) == LLVMTypeOf(to);
        LLVMReplaceAllUsesWith(p, same ? to : narrow_value(b, to, LLVMTypeOf(p)));
    }
    LLVMDisposeBuilder(b);
}

static int narrow_kernel(LLVMModuleRef module, LLVMValueRef old)
{
    LLVMTypeRef type = LLVMIsDeclaration(old) ? NULL : narrow_type(old);
    if (!type)
        return 0;
    char *name = strdup(mt_name(old));
    LLVMValueRef kernel = LLVMAddFunction(module, "", type);
    mt_move_function(kernel, old);
    narrow_take_params(kernel, old);
    LLVMReplaceAllUsesWith(old, kernel);
    mt_shim_detach_function(old); /* for the reason in instrument.c */
    LLVMSetValueName2(kernel, name, strlen(name));
    free(name);
    return 1;
}

int mt_narrow_params(LLVMModuleRef module)
{
    static const char name[] = "nvvm.annotations";
    unsigned n = LLVMGetNamedMetadataNumOperands(module, name), length;
    LLVMValueRef *nodes = malloc((n + 1) * sizeof *nodes), op[3];
    int changed = 0;
    if (nodes)
        LLVMGetNamedMetadataOperands(module, name, nodes);
    for (unsigned i = 0; nodes && i < n; i++) {
        if (LLVMGetMDNodeNumOperands(nodes[i]) != 3)
            continue;
        LLVMGetMDNodeOperands(nodes[i], op);
        const char *key = LLVMGetMDString(op[1], &length);
        if (op[0] && LLVMIsAFunction(op[0]) && key && length == 6 && !memcmp(key, "kernel", 6))
            changed |= narrow_kernel(module, op[0]);
    }
    free(nodes);
    return changed;
}
