#include "harness.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/ExecutionEngine.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static LLVMTargetMachineRef machine;

LLVMContextRef asm_context(void)
{
    static LLVMContextRef context;
    if (!context)
        context = LLVMContextCreate();
    return context;
}

static LLVMTypeRef type_of(char c)
{
    LLVMContextRef x = asm_context();
    switch (c) {
    case 'b':
        return LLVMInt1TypeInContext(x);
    case 'c':
        return LLVMInt8TypeInContext(x);
    case 'h':
        return LLVMInt16TypeInContext(x);
    case 'r':
        return LLVMInt32TypeInContext(x);
    case 'l':
        return LLVMInt64TypeInContext(x);
    case 'f':
        return LLVMFloatTypeInContext(x);
    case 'd':
        return LLVMDoubleTypeInContext(x);
    case 'p':
        return LLVMPointerTypeInContext(x, 0);
    default:
        return LLVMVoidTypeInContext(x);
    }
}

static void start_llvm(void)
{
    if (machine)
        return;
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMLinkInMCJIT();
    char *triple = LLVMGetDefaultTargetTriple(), *message = NULL;
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    LLVMTargetRef target;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        fprintf(stderr, "%s\n", message);
        exit(1);
    }
    machine = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                      LLVMCodeModelJITDefault);
    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
}

static LLVMValueRef harness_slot(LLVMBuilderRef b, LLVMValueRef base, unsigned i)
{
    LLVMValueRef index = LLVMConstInt(type_of('l'), i, 0);
    return LLVMBuildGEP2(b, type_of('l'), base, &index, 1, "");
}

static LLVMValueRef asm_call(LLVMBuilderRef b, const struct asm_shape *s, LLVMValueRef out, LLVMValueRef in)
{
    LLVMTypeRef params[32], results[32], result;
    LLVMValueRef args[32];
    unsigned nin = (unsigned)strlen(s->ins), nout = (unsigned)strlen(s->outs);
    for (unsigned i = 0; i < nin; i++) {
        params[i] = type_of(s->ins[i]);
        args[i] = LLVMBuildLoad2(b, params[i], harness_slot(b, in, i), "");
    }
    for (unsigned i = 0; i < nout; i++)
        results[i] = type_of(s->outs[i]);
    result = nout > 1 ? LLVMStructTypeInContext(asm_context(), results, nout, 0)
             : nout   ? results[0]
                      : type_of('v');
    LLVMTypeRef type = LLVMFunctionType(result, params, nin, 0);
    LLVMValueRef f = LLVMGetInlineAsm(type, s->text, strlen(s->text), s->constraints, strlen(s->constraints),
                                      1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = LLVMBuildCall2(b, type, f, args, nin, "");
    for (unsigned i = 0; i < nout; i++) {
        LLVMValueRef v = nout > 1 ? LLVMBuildExtractValue(b, call, i, "") : call;
        LLVMBuildStore(b, LLVMConstInt(type_of('l'), 0, 0), harness_slot(b, out, i));
        LLVMBuildStore(b, v, harness_slot(b, out, i));
    }
    return call;
}

void asm_host(LLVMModuleRef m)
{
    start_llvm();
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(m, layout);
    LLVMDisposeTargetData(layout);
    char *triple = LLVMGetTargetMachineTriple(machine);
    LLVMSetTarget(m, triple);
    LLVMDisposeMessage(triple);
}

static LLVMModuleRef module_of(const struct asm_shape *shapes, unsigned n, LLVMValueRef *calls)
{
    LLVMModuleRef m = LLVMModuleCreateWithNameInContext("asm", asm_context());
    asm_host(m);
    LLVMTypeRef params[] = {type_of('p'), type_of('p')};
    LLVMValueRef f = LLVMAddFunction(m, "run", LLVMFunctionType(type_of('v'), params, 2, 0));
    LLVMBuilderRef b = LLVMCreateBuilderInContext(asm_context());
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(asm_context(), f, "entry"));
    for (unsigned i = 0; i < n; i++)
        calls[i] = asm_call(b, &shapes[i], harness_slot(b, LLVMGetParam(f, 0), 16 * i),
                            harness_slot(b, LLVMGetParam(f, 1), 16 * i));
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
    return m;
}

LLVMModuleRef asm_module(const struct asm_shape *shape, LLVMValueRef *call)
{
    return module_of(shape, 1, call);
}

static LLVMValueRef harness_lookup(void *ctx, const char *name, LLVMTypeRef *type)
{
    for (const struct asm_symbol *s = asm_symbols; s->name; s++) {
        if (strcmp(s->name, name))
            continue;
        LLVMTypeRef params[16];
        unsigned n = 0;
        for (; s->type[n + 1]; n++)
            params[n] = type_of(s->type[n + 1]);
        *type = LLVMFunctionType(type_of(*s->type), params, n, 0);
        LLVMValueRef f = LLVMGetNamedFunction(ctx, name);
        return f ? f : LLVMAddFunction(ctx, name, *type);
    }
    return NULL;
}

/* Everything compiled lives until the process ends. */
static LLVMExecutionEngineRef *engines;
static unsigned nengines;
static void stop_llvm(void)
{
    for (unsigned i = 0; i < nengines; i++)
        LLVMDisposeExecutionEngine(engines[i]);
    free(engines);
    LLVMDisposeTargetMachine(machine);
    LLVMContextDispose(asm_context());
}

static void harness_keep(LLVMExecutionEngineRef engine)
{
    if (!engines)
        atexit(stop_llvm);
    LLVMExecutionEngineRef *more = realloc(engines, (nengines + 1) * sizeof *more);
    if (!more)
        exit(1);
    engines = more;
    engines[nengines++] = engine;
}

void *asm_jit(LLVMModuleRef m, const char *name, struct mt_asm_error *error)
{
    LLVMExecutionEngineRef engine;
    struct LLVMMCJITCompilerOptions options;
    char *message = NULL;
    if (LLVMVerifyModule(m, LLVMReturnStatusAction, &message)) {
        LLVMDumpModule(m);
        snprintf(error->message, sizeof error->message, "verifier: %s", message);
        return NULL;
    }
    LLVMDisposeMessage(message);
    LLVMInitializeMCJITCompilerOptions(&options, sizeof options);
    options.OptLevel = 1;
    if (LLVMCreateMCJITCompilerForModule(&engine, m, &options, sizeof options, &message)) {
        snprintf(error->message, sizeof error->message, "jit: %s", message);
        return NULL;
    }
    harness_keep(engine);
    for (const struct asm_symbol *s = asm_symbols; s->name; s++) {
        LLVMValueRef f = LLVMGetNamedFunction(m, s->name);
        if (f)
            LLVMAddGlobalMapping(engine, f, s->address);
    }
    return (void *)LLVMGetFunctionAddress(engine, name);
}

asm_function *asm_compile_many(const struct asm_shape *shapes, unsigned n, int optimise,
                               struct mt_asm_error *error)
{
    LLVMValueRef calls[64];
    LLVMModuleRef m = module_of(shapes, n, calls);
    struct mt_asm_builtins b = {harness_lookup, m};
    for (unsigned i = 0; i < n; i++)
        if (mt_asm_lower(m, calls[i], &b, error)) {
            LLVMDisposeModule(m);
            return NULL;
        }
    if (optimise) {
        LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
        LLVMRunPasses(m, "default<O2>", machine, o);
        LLVMDisposePassBuilderOptions(o);
    }
    return (asm_function *)asm_jit(m, "run", error);
}

asm_function *asm_compile(const struct asm_shape *shape, int optimise, struct mt_asm_error *error)
{
    return asm_compile_many(shape, 1, optimise, error);
}
