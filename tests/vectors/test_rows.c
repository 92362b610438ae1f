/* The rules by which a row of lanes stays a row, on kernels made by chance (rows.c). A kernel becomes code
 * for whole warps, as rows of 32, of 16, or for CTAs of any shape; that runs through LLVM's JIT, and each
 * number that it stores is the generator's.
 *
 *   test_vectors_rows [FIRST [KERNELS]]     seeds FIRST and on; exits with 1 when a number is wrong, after
 * the kernel's code */
#include "rows.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/ExecutionEngine.h>
#include <llvm-c/Support.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 40u /* kernels of a module */

static const char *const rows_form[] = {"32", "16", "any"};

/* One has no rows: it shows that the generator and the rest are right, and a few kernels do for that. */
static int rows_is_run(const struct rows_kernel *k, unsigned i, unsigned form)
{
    return form == 2 ? i % 8 == 0 : form == (unsigned)k->tiles;
}

typedef void rows_warp(uint64_t *out, const int32_t *table, uint32_t u, uint32_t rounds, uint32_t nx,
                       uint32_t ny, uint32_t nz, uint32_t cx, uint32_t cy, uint32_t cz, uint32_t gx,
                       uint32_t gy, uint32_t gz, uint32_t linear, uint32_t x0, uint32_t y0, uint32_t z0,
                       uint32_t x1, uint32_t y1, uint32_t z1);

static int rows_wrong(const struct rows_kernel *k, const uint64_t *out, const char *form, unsigned number)
{
    for (unsigned i = 0; i < k->nstores * THREADS; i++) {
        unsigned s = i / THREADS, t = i % THREADS;
        uint64_t want = k->stored[s][t] == 8    ? (uint64_t)(int8_t)out[i - THREADS]
                        : k->stored[s][t] == 16 ? (uint64_t)(int16_t)out[i - THREADS]
                                                : k->want[s][t];
        if (!k->stored[s][t] || out[i] == want)
            continue;
        printf("kernel %u, %s, CTA %u of %s threads, parameter 0x%x: number %u of thread %u is %llx, not "
               "%llx\n%s\n",
               number, form, k->cta, k->tiles ? "16 x 4" : "64", k->u, s, t, (unsigned long long)out[i],
               (unsigned long long)want, k->text);
        return 1;
    }
    return 0;
}

/* 1: wrong; -1: there is no such form. */
static int rows_run(LLVMExecutionEngineRef jit, const struct rows_kernel *k, const char *form, unsigned i,
                    unsigned number)
{
    static int32_t table[TABLE];
    static uint64_t out[STORES * THREADS];
    char name[64];
    snprintf(name, sizeof name, "mt.warp.k%u.%s", i, form);
    rows_warp *run = (rows_warp *)LLVMGetFunctionAddress(jit, name); /* NOLINT: the JIT's */
    if (!run)
        return -1;
    for (unsigned n = 0; n < TABLE; n++)
        table[n] = (int32_t)n;
    memset(out, 0x5a, sizeof out);
    uint32_t nx = k->tiles ? 16 : THREADS, ny = k->tiles ? 4 : 1;
    for (uint32_t w = 0; w < THREADS / 32; w++) {
        uint32_t x = k->tiles ? 0 : 32 * w, y = k->tiles ? 2 * w : 0;
        run(out, table + TABLE / 2, k->u, 3, nx, ny, 1, k->cta, 0, 0, 1, 1, 1, 32 * w, x, y, 0, 0, y + 1, 0);
    }
    return rows_wrong(k, out, form, number);
}

/* Who is not run is not compiled. */
static void rows_keep(LLVMModuleRef module, const struct rows_kernel *k)
{
    char name[64];
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            LLVMSetLinkage(f, LLVMInternalLinkage);
    for (unsigned i = 0; i < BATCH; i++)
        for (unsigned form = 0; form < 3; form++) {
            snprintf(name, sizeof name, "mt.warp.k%u.%s", i, rows_form[form]);
            LLVMValueRef f = LLVMGetNamedFunction(module, name);
            if (f && rows_is_run(&k[i], i, form))
                LLVMSetLinkage(f, LLVMExternalLinkage);
        }
}

/* The JIT has no variables of threads: their address becomes that of some memory of ours, all zero. */
static void rows_no_threads(LLVMModuleRef module)
{
    static _Alignas(64) char memory[1 << 16];
    LLVMTypeRef number = LLVMInt64TypeInContext(LLVMGetModuleContext(module)),
                pointer = LLVMPointerTypeInContext(LLVMGetModuleContext(module), 0);
    LLVMValueRef at = LLVMConstIntToPtr(LLVMConstInt(number, (uint64_t)(uintptr_t)memory, 0), pointer);
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
                size_t n = 0;
                const char *name = LLVMIsACallInst(i) ? LLVMGetValueName2(LLVMGetCalledValue(i), &n) : "";
                if (strncmp(name, "llvm.threadlocal.address", 24) == 0)
                    LLVMReplaceAllUsesWith(i, at);
            }
}

static LLVMExecutionEngineRef rows_compile(struct mt_lowering *l, LLVMTargetMachineRef machine)
{
    LLVMExecutionEngineRef jit = NULL;
    struct LLVMMCJITCompilerOptions options;
    char *why = NULL;
    if (LLVMVerifyModule(l->module, LLVMReturnStatusAction, &why) ||
        mt_run_passes(l->u, l->module,
                      "globaldce,function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)",
                      machine)) {
        fprintf(stderr, "%s\n", why ? why : "");
        return NULL;
    }
    rows_no_threads(l->module);
    LLVMInitializeMCJITCompilerOptions(&options, sizeof options);
    options.OptLevel = 0;
    if (LLVMCreateMCJITCompilerForModule(&jit, l->module, &options, sizeof options, &why))
        fprintf(stderr, "%s\n", why);
    return jit;
}

/* Returns 1 if the value cannot be poison: sums and products of parameters and constants. */
static int rows_is_certain(LLVMValueRef value, unsigned depth)
{
    LLVMOpcode op = LLVMIsAInstruction(value) ? LLVMGetInstructionOpcode(value) : (LLVMOpcode)0;
    if (LLVMIsAArgument(value) || LLVMIsAConstantInt(value))
        return 1;
    return depth && (op == LLVMAdd || op == LLVMSub || op == LLVMMul) && !LLVMGetNSW(value) &&
           !LLVMGetNUW(value) && rows_is_certain(LLVMGetOperand(value, 0), depth - 1) &&
           rows_is_certain(LLVMGetOperand(value, 1), depth - 1);
}

/* Returns 1 for a freeze of the vectors' own, before a row is extended; those of kernels (rows.c) are
 * extended twice. */
static int rows_is_freeze(LLVMValueRef inst)
{
    LLVMUseRef use = LLVMGetInstructionOpcode(inst) == LLVMFreeze ? LLVMGetFirstUse(inst) : NULL;
    return use && !LLVMGetNextUse(use) &&
           (LLVMIsASExtInst(LLVMGetUser(use)) || LLVMIsAZExtInst(LLVMGetUser(use)));
}

/* Returns the number of freezes that LLVM would only remove after a walk over all blocks before them. */
static unsigned rows_needless(LLVMModuleRef module)
{
    unsigned n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if (strncmp(mt_name(f), "mt.warp.", 8) == 0 && rows_is_freeze(i))
                    n += (unsigned)rows_is_certain(LLVMGetOperand(i, 0), 4);
    return n;
}

/* Kernels `first` and on. Returns how many are wrong; *ran counts warps' forms. */
static unsigned rows_batch(uint64_t first, unsigned *ran)
{
    static struct rows_kernel kernel[BATCH];
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("rows", context);
    struct mt_unit u;
    struct mt_lowering l;
    unsigned wrong = 0;
    mt_unit_init(&u, module);
    LLVMTargetMachineRef machine = mt_set_cpu_target(&u, module);
    u.kernels = calloc(BATCH, sizeof *u.kernels);
    u.nkernels = BATCH;
    for (unsigned i = 0; u.kernels && i < BATCH; i++)
        u.kernels[i].name = strdup("k");
    if (!machine || !u.kernels || mt_lowering_begin(&l, &u, module))
        exit(2);
    mt_declare_registers(&l);
    struct rows_make m = {.l = &l, .b = LLVMCreateBuilderInContext(context)};
    memset(kernel, 0, sizeof kernel);
    for (unsigned i = 0; i < BATCH; i++) {
        kernel[i].seed = (first + i) * 0x2545f4914f6cdd1du;
        m.k = &kernel[i];
        mt_rows_kernel(&m, i);
        l.traced.kernels[i] = m.f;
    }
    mt_lower_builtins(&l);
    mt_vector_kernels(&l);
    unsigned needless = rows_needless(module);
    if (needless)
        printf("kernels %llu and on: %u needless freezes\n", (unsigned long long)first, needless);
    wrong += needless;
    rows_keep(module, kernel);
    LLVMExecutionEngineRef jit = rows_compile(&l, machine);
    for (unsigned i = 0; i < BATCH && jit; i++) {
        for (unsigned form = 0; form < 3; form++) {
            if (!rows_is_run(&kernel[i], i, form))
                continue;
            int result = rows_run(jit, &kernel[i], rows_form[form], i, (unsigned)first + i);
            if (result < 0)
                printf("kernel %u: not as vectors: %s\n%s\n", (unsigned)first + i, l.vector[i].why,
                       kernel[i].text);
            wrong += result != 0;
            ++*ran;
        }
        LLVMDisposeMessage(kernel[i].text);
    }
    if (!jit)
        exit(2);
    LLVMDisposeExecutionEngine(jit);
    LLVMDisposeBuilder(m.b);
    LLVMDisposeTargetMachine(machine);
    mt_lowering_end(&l);
    mt_unit_free(&u);
    LLVMContextDispose(context);
    return wrong;
}

/* What the runtime does for memtrace check --strict: not looked at here. */
static void rows_same_word(void *const *at, uint32_t mask, const void *from, uint32_t size)
{
    (void)at, (void)mask, (void)from, (void)size;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
             n = argc > 2 ? strtoull(argv[2], NULL, 10) : 15 * BATCH;
    unsigned wrong = 0, ran = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    LLVMLinkInMCJIT();
    LLVMAddSymbol("mt_cpu_same_word", (void *)rows_same_word);
    for (uint64_t i = 0; i < n && wrong < 5; i += BATCH)
        wrong += rows_batch(first + i, &ran);
    printf("rows: kernels %llu to %llu, %u forms, %u wrong\n", (unsigned long long)first,
           (unsigned long long)(first + n - 1), ran, wrong);
    return wrong != 0;
}
