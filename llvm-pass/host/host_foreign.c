/* Host side: a program linked to NVIDIA's runtime by mistake reports so at its start, in one line, and
 * continues. A constructor after the registration of the file's device code asks memtrace's runtime
 * whether it knows the handle. */
#include "unit/unit.h"
#include "host_register.h"
#include <string.h>

static const char words[] = "memtrace: this program's kernels are registered with another CUDA runtime than "
                            "memtrace's, and nothing of them is traced: "
                            "link with mt-cc, or with the cuda-overlay's lib64 in front of NVIDIA's\n";

struct foreign {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef b;
    LLVMTypeRef ptr, i8, i32, i64, none;
};

/* Makes void __mt_foreign_runtime(void), which reports it the first time. */
static LLVMValueRef foreign_add_teller(struct foreign *f)
{
    LLVMTypeRef type = LLVMFunctionType(f->none, NULL, 0, 0), write_args[] = {f->i32, f->ptr, f->i64};
    LLVMTypeRef write_type = LLVMFunctionType(f->i64, write_args, 3, 0);
    LLVMValueRef teller = LLVMAddFunction(f->module, "__mt_foreign_runtime", type);
    LLVMSetLinkage(teller, LLVMLinkOnceODRLinkage);
    LLVMSetVisibility(teller, LLVMHiddenVisibility);
    LLVMValueRef said = LLVMAddGlobal(f->module, f->i8, "__mt_foreign_runtime_said");
    LLVMSetInitializer(said, LLVMConstNull(f->i8));
    LLVMSetLinkage(said, LLVMLinkOnceODRLinkage);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(f->context, teller, "");
    LLVMBasicBlockRef say = LLVMAppendBasicBlockInContext(f->context, teller, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(f->context, teller, "");
    LLVMPositionBuilderAtEnd(f->b, entry);
    LLVMValueRef before = LLVMBuildLoad2(f->b, f->i8, said, "");
    LLVMBuildStore(f->b, LLVMConstInt(f->i8, 1, 0), said);
    LLVMBuildCondBr(f->b, LLVMBuildIsNull(f->b, before, ""), say, done);
    LLVMPositionBuilderAtEnd(f->b, say);
    LLVMValueRef args[] = {LLVMConstInt(f->i32, 2, 0), LLVMBuildGlobalStringPtr(f->b, words, ""),
                           LLVMConstInt(f->i64, sizeof words - 1, 0)};
    LLVMBuildCall2(f->b, write_type, mt_declare(f->module, "write", write_type), args, 3, "");
    LLVMBuildBr(f->b, done);
    LLVMPositionBuilderAtEnd(f->b, done);
    LLVMBuildRetVoid(f->b);
    return teller;
}

/* Returns the result of the registration; with relocatable device code another file has it. */
static LLVMValueRef foreign_handle(struct foreign *f)
{
    LLVMValueRef handle = LLVMGetNamedGlobal(f->module, "__cuda_gpubin_handle");
    return handle ? LLVMBuildLoad2(f->b, f->ptr, handle, "") : LLVMConstNull(f->ptr);
}

LLVMValueRef mt_host_add_check(LLVMModuleRef module)
{
    LLVMContextRef c = LLVMGetModuleContext(module);
    struct foreign f = {module,
                        c,
                        LLVMCreateBuilderInContext(c),
                        LLVMPointerTypeInContext(c, 0),
                        LLVMInt8TypeInContext(c),
                        LLVMInt32TypeInContext(c),
                        LLVMInt64TypeInContext(c),
                        LLVMVoidTypeInContext(c)};
    LLVMTypeRef type = LLVMFunctionType(f.none, NULL, 0, 0), ask_type = LLVMFunctionType(f.i32, &f.ptr, 1, 0);
    LLVMValueRef teller = foreign_add_teller(&f), ask = mt_declare(module, "__mt_is_registered", ask_type);
    LLVMSetLinkage(ask, LLVMExternalWeakLinkage);
    LLVMValueRef check = LLVMAddFunction(module, "__mt_check_runtime_ctor", type);
    LLVMSetLinkage(check, LLVMInternalLinkage);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMBasicBlockRef there = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMBasicBlockRef foreign = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(c, check, "");
    LLVMPositionBuilderAtEnd(f.b, entry);
    LLVMBuildCondBr(f.b, LLVMBuildIsNull(f.b, ask, ""), foreign, there);
    LLVMPositionBuilderAtEnd(f.b, there);
    LLVMValueRef handle = foreign_handle(&f);
    LLVMValueRef known = LLVMBuildCall2(f.b, ask_type, ask, &handle, 1, "");
    LLVMBuildCondBr(f.b, LLVMBuildIsNull(f.b, known, ""), foreign, done);
    LLVMPositionBuilderAtEnd(f.b, foreign);
    LLVMBuildCall2(f.b, type, teller, NULL, 0, "");
    LLVMBuildBr(f.b, done);
    LLVMPositionBuilderAtEnd(f.b, done);
    LLVMBuildRetVoid(f.b);
    LLVMDisposeBuilder(f.b);
    return check;
}
