/* Host side: registration of a file's device code. It comes before the program's own constructors, so that
 * these may launch kernels, even of other files. A file with relocatable device code (-fgpu-rdc) calls
 * __cudaRegisterLinkedBinary__nv_ID, made by the device linker. It gets a weak definition here, so that
 * programs also link without that step; the device linker's is strong and wins. A reference to
 * __mt_device_linker, defined by mt-cc's device link or by libmemtrace.so, pulls the device linker's
 * object from an archive. */
#include "unit/unit.h"
#include "host_register.h"
#include <stdlib.h>
#include <string.h>

#define FIRST 101 /* first of the program's priorities: lower ones belong to the implementation */

/* Calls `to` (of type `type`) with the arguments of `f`, if the runtime is linked in. */
static void call_if_linked(LLVMModuleRef module, LLVMValueRef f, const char *to, LLVMTypeRef type)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    LLVMValueRef target = mt_declare(module, to, type), args[8];
    LLVMSetLinkage(target, LLVMExternalWeakLinkage);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(context, f, "");
    LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(context, f, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(context, f, "");
    LLVMPositionBuilderAtEnd(b, entry);
    LLVMBuildCondBr(b, LLVMBuildIsNull(b, target, ""), done, call);
    LLVMPositionBuilderAtEnd(b, call);
    unsigned n = LLVMCountParams(f);
    for (unsigned i = 0; i < n && i < 8; i++)
        args[i] = LLVMGetParam(f, i);
    LLVMBuildCall2(b, type, target, args, n, "");
    LLVMBuildBr(b, done);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
}

static void define_weakly(LLVMModuleRef module, LLVMValueRef f)
{
    LLVMSetLinkage(f, LLVMWeakAnyLinkage);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    call_if_linked(module, f, "__mt_register_linked_binary", LLVMGlobalGetValueType(f));
}

/* Refers to it from the constructor's own code, so that it counts as used. */
static void refer_to_linker(LLVMModuleRef module, LLVMValueRef done)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    LLVMTypeRef byte = LLVMInt8TypeInContext(context);
    LLVMValueRef linker = LLVMAddGlobal(module, byte, "__mt_device_linker");
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(done)));
    LLVMValueRef load = LLVMBuildLoad2(b, byte, linker, "");
    LLVMSetVolatile(load, 1);
    LLVMDisposeBuilder(b);
}

/* Adds a constructor that runs once all files of the program or library are registered. */
static LLVMValueRef add_done(LLVMModuleRef module)
{
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(LLVMGetModuleContext(module)), NULL, 0, 0);
    LLVMValueRef f = LLVMAddFunction(module, "__mt_linked_binaries_ctor", type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    call_if_linked(module, f, "__mt_linked_binaries_done", type);
    refer_to_linker(module, f);
    return f;
}

static LLVMValueRef with_priority(LLVMValueRef entry, LLVMValueRef function, unsigned priority)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(function));
    LLVMValueRef field[] = {LLVMConstInt(LLVMInt32TypeInContext(context), priority, 0), function,
                            LLVMGetOperand(entry, 2)};
    return LLVMConstStructInContext(context, field, 3, 0);
}

/* Rewrites the list of constructors: CUDA's first, then `done` (or NULL) and the check of the runtime. */
static int move_constructors(LLVMModuleRef module, LLVMValueRef done)
{
    LLVMValueRef old = LLVMGetNamedGlobal(module, "llvm.global_ctors");
    LLVMValueRef list = old ? LLVMGetInitializer(old) : NULL, ours = NULL;
    int n = list && LLVMIsAConstantArray(list) ? LLVMGetNumOperands(list) : 0, out = 0;
    LLVMValueRef *entries = malloc(((size_t)n + 2) * sizeof *entries);
    for (int i = 0; entries && i < n; i++) {
        LLVMValueRef entry = LLVMGetOperand(list, (unsigned)i), f = LLVMGetOperand(entry, 1);
        if (!strcmp(mt_name(f), "__cuda_module_ctor"))
            entry = ours = with_priority(entry, f, FIRST);
        entries[out++] = entry;
    }
    if (ours) {
        if (done)
            entries[out++] = with_priority(ours, done, FIRST + 1);
        entries[out++] = with_priority(ours, mt_host_add_check(module), FIRST + 2);
        LLVMValueRef value = LLVMConstArray2(LLVMTypeOf(entries[0]), entries, (uint64_t)out);
        LLVMValueRef new = LLVMAddGlobal(module, LLVMTypeOf(value), "");
        LLVMSetInitializer(new, value);
        LLVMSetLinkage(new, LLVMAppendingLinkage);
        LLVMDeleteGlobal(old);
        LLVMSetValueName2(new, "llvm.global_ctors", strlen("llvm.global_ctors"));
    }
    free(entries);
    return ours != NULL;
}

/* Makes the fatbins' names local: they depend on the file only, and a program and a library may both
 * contain it, compiled in two ways. */
static void hide_fatbins(LLVMModuleRef module)
{
    for (LLVMValueRef a = LLVMGetFirstGlobalAlias(module); a; a = LLVMGetNextGlobalAlias(a))
        if (mt_starts(mt_name(a), "__fatbinwrap__nv_"))
            LLVMSetVisibility(a, LLVMHiddenVisibility);
}

/* Registers a __managed__ variable with our runtime's own function: NVIDIA's runtime would take it for one
 * of the device alone. */
static void register_managed(LLVMModuleRef module, LLVMValueRef call)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMTypeRef ptr = LLVMPointerTypeInContext(context, 0), word = LLVMInt64TypeInContext(context);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(context), (LLVMTypeRef[]){ptr, ptr, ptr, word}, 4, 0);
    LLVMValueRef args[] = {LLVMGetOperand(call, 0), LLVMGetOperand(call, 1), LLVMGetOperand(call, 3),
                           LLVMGetOperand(call, 5)};
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    LLVMPositionBuilderBefore(b, call);
    LLVMBuildCall2(b, type, mt_declare(module, "__mt_register_managed", type), args, 4, "");
    LLVMInstructionEraseFromParent(call);
    LLVMDisposeBuilder(b);
}

static void find_managed(LLVMModuleRef module)
{
    LLVMValueRef f = LLVMGetNamedFunction(module, "__cudaRegisterVar");
    for (LLVMUseRef use = f ? LLVMGetFirstUse(f) : NULL, next; use; use = next) {
        LLVMValueRef call = LLVMGetUser(use);
        next = LLVMGetNextUse(use);
        LLVMValueRef variable = LLVMIsACallInst(call) ? LLVMIsAGlobalVariable(LLVMGetOperand(call, 1)) : NULL;
        const char *section = variable ? LLVMGetSection(variable) : NULL;
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            register_managed(module, call);
    }
    for (LLVMValueRef g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g)) {
        const char *section = LLVMGetSection(g);
        if (section && !strcmp(section, MT_MANAGED_SECTION))
            LLVMSetSection(g, "");
    }
}

int mt_host_registration(LLVMModuleRef module)
{
    find_managed(module);
    LLVMValueRef done = NULL;
    hide_fatbins(module);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (LLVMIsDeclaration(f) && mt_starts(mt_name(f), "__cudaRegisterLinkedBinary__nv_")) {
            define_weakly(module, f);
            done = done ? done : add_done(module);
        }
    return move_constructors(module, done);
}
