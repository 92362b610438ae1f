/* Host side: reports the source location before each CUDA call (docs/design/pass.md). */
#include "host.h"
#include "host_register.h"
#include "unit/pass.h"
#include "format/site.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/DebugInfo.h>

/* Matches "cudaMalloc", or the C++ wrapper templates of cuda_runtime.h:
 * "_ZL10cudaMallocIfE9cudaErrorPPT_m". */
int mt_host_is_cuda_call(const char *name)
{
    if (mt_starts(name, "_Z")) {
        name += 2;
        if (*name == 'L')
            name++;
        while (isdigit((unsigned char)*name))
            name++;
    }
    static const char *const begin[] = {"cuda", "cublas", "cufft", "curand", "cusparse", "cusolver", "nccl"};
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (mt_starts(name, begin[i]) && isupper((unsigned char)name[strlen(begin[i])]))
            return 1;
    return 0;
}

static int is_stub(const char *name)
{
    return strstr(name, "__device_stub__") != NULL;
}

struct host {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef builder;
    LLVMTypeRef ptr, i32, hook_type;
    LLVMValueRef hook;
};

/* Makes `hook(site)`, which calls __mt_host_site if the runtime is linked in. One linkonce copy per
 * program. */
static LLVMValueRef make_hook(struct host *h)
{
    LLVMTypeRef type = h->hook_type;
    LLVMValueRef target = LLVMAddFunction(h->module, "__mt_host_site", type);
    LLVMSetLinkage(target, LLVMExternalWeakLinkage);
    LLVMValueRef f = LLVMAddFunction(h->module, "__mt_host_site_if_linked", type);
    LLVMSetLinkage(f, LLVMLinkOnceODRLinkage);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(h->context, f, "");
    LLVMBasicBlockRef call = LLVMAppendBasicBlockInContext(h->context, f, "");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(h->context, f, "");
    LLVMPositionBuilderAtEnd(h->builder, entry);
    LLVMBuildCondBr(h->builder, LLVMBuildIsNull(h->builder, target, ""), done, call);
    LLVMPositionBuilderAtEnd(h->builder, call);
    LLVMValueRef site = LLVMGetParam(f, 0);
    LLVMBuildCall2(h->builder, type, target, &site, 1, "");
    LLVMBuildBr(h->builder, done);
    LLVMPositionBuilderAtEnd(h->builder, done);
    LLVMBuildRetVoid(h->builder);
    return f;
}

/* Returns struct mt_host_site as a constant. */
static LLVMValueRef make_site(struct host *h, LLVMValueRef call, const char *callee)
{
    struct mt_source_location place;
    mt_shim_location(call, &place);
    char *function = mt_shim_demangle(place.function, 0);
    LLVMValueRef field[] = {mt_private_text(h->module, place.file, ""),
                            mt_private_text(h->module, function ? function : "", ""),
                            mt_private_text(h->module, callee, ""), LLVMConstInt(h->i32, place.line, 0),
                            LLVMConstInt(h->i32, place.column, 0)};
    free(function);
    _Static_assert(sizeof(struct mt_host_site) == 3 * sizeof(char *) + 2 * sizeof(uint32_t),
                   "as written here");
    return mt_private_constant(h->module, LLVMConstStructInContext(h->context, field, 5, 0), "");
}

static int mark_calls(struct host *h, LLVMValueRef function)
{
    unsigned n;
    int marked = 0;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        LLVMOpcode op = LLVMGetInstructionOpcode(list[i]);
        LLVMValueRef callee = op == LLVMCall || op == LLVMInvoke ? mt_callee(list[i]) : NULL;
        const char *name = callee ? mt_name(callee) : "";
        if (!mt_host_is_cuda_call(name) && !is_stub(name))
            continue;
        if (!h->hook)
            h->hook = make_hook(h);
        LLVMPositionBuilderBefore(h->builder, list[i]);
        LLVMSetCurrentDebugLocation2(h->builder, LLVMInstructionGetDebugLoc(list[i]));
        LLVMValueRef site = make_site(h, list[i], name);
        LLVMBuildCall2(h->builder, h->hook_type, h->hook, &site, 1, "");
        LLVMSetCurrentDebugLocation2(h->builder, NULL);
        marked = 1;
    }
    free(list);
    return marked;
}

/* Makes each stub differ. A linker or pass that folds equal code (--icf=all) would give kernels of one
 * signature one stub and one address, by which the runtime knows them. So each stub mentions a variable of
 * its own, as nvcc's do. It is never read, so nothing is traced. A template's variable is in no group that
 * the linker may drop: stubs are inlined into code that stays. */
static void host_keep_stub(struct host *h, LLVMValueRef stub)
{
    LLVMValueRef own = LLVMAddGlobal(h->module, LLVMInt8TypeInContext(h->context), "__mt_stub");
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(h->context), &h->ptr, 1, 0);
    LLVMSetInitializer(own, LLVMConstNull(LLVMGlobalGetValueType(own)));
    LLVMSetLinkage(own, LLVMInternalLinkage);
    LLVMPositionBuilderBefore(h->builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(stub)));
    LLVMSetCurrentDebugLocation2(h->builder, NULL);
    LLVMValueRef mention = LLVMGetInlineAsm(type, "", 0, "r", 1, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMBuildCall2(h->builder, type, mention, &own, 1, "");
}

int mt_pass_host(LLVMModuleRef module)
{
    if (mt_shim_is_nvptx(module))
        return 0;
    struct host h = {.module = module, .context = LLVMGetModuleContext(module)};
    int changed = mt_host_names(module);
    h.builder = LLVMCreateBuilderInContext(h.context);
    h.ptr = LLVMPointerTypeInContext(h.context, 0);
    h.i32 = LLVMInt32TypeInContext(h.context);
    h.hook_type = LLVMFunctionType(LLVMVoidTypeInContext(h.context), &h.ptr, 1, 0);
    for (LLVMValueRef f = LLVMGetFirstFunction(module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        /* Stubs and header wrappers pass a call on: their caller's location counts. */
        if (LLVMIsDeclaration(f))
            continue;
        if (is_stub(mt_name(f))) {
            host_keep_stub(&h, f);
            changed = 1;
        } else if (!mt_host_is_cuda_call(mt_name(f))) {
            changed |= mark_calls(&h, f);
        }
    }
    LLVMDisposeBuilder(h.builder);
    changed |= mt_host_registration(module);
    if (mt_pass_options.host) {
        mt_host_name_values(module);
        return 1; /* mt_pass_host_trace still needs the line tables */
    }
    if (mt_pass_options.strip_debug)
        LLVMStripModuleDebugInfo(module);
    return changed || mt_pass_options.strip_debug;
}
