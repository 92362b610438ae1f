/* What the CPU device will not be able to run of a module that was read: found by lowering the instructions
 * of a copy, before any optimisation, so that the function can be named. */
#include <stdlib.h>
#include <string.h>
#include "llvm-pass/lower/lowering.h"
#include "ptx/asm/asm.h"
#include "mt-ptx.h"

static LLVMValueRef check_builtin(void *ctx, const char *name, LLVMTypeRef *type)
{
    return mt_builtin(ctx, name, type);
}

static int check_is_asm(LLVMValueRef i)
{
    return LLVMGetInstructionOpcode(i) == LLVMCall && LLVMIsAInlineAsm(LLVMGetCalledValue(i)) != NULL;
}

/* The function's calls of inline asm, malloc'ed: lowering splits blocks. */
static LLVMValueRef *check_list(LLVMValueRef f, unsigned *n)
{
    LLVMValueRef *list = NULL;
    *n = 0;
    for (int fill = 0; fill < 2; fill++) {
        unsigned k = 0;
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
                if (check_is_asm(i) && ++k && list) {
                    list[k - 1] = i;
                }
            }
        }
        if (!k || (!fill && !(list = calloc(k, sizeof *list)))) {
            return NULL;
        }
        *n = k;
    }
    return list;
}

/* 1 when one of them cannot be lowered, which is said once for the function. */
static int check_function(struct mt_lowering *l, LLVMValueRef f, FILE *said)
{
    struct mt_asm_builtins b = {.lookup = check_builtin, .ctx = l};
    unsigned n;
    int bad = 0;
    LLVMValueRef *list = check_list(f, &n);
    for (unsigned i = 0; i < n && !bad; i++) {
        struct mt_asm_error error = {0};
        struct mt_source_location place = {0};
        mt_shim_location(list[i], &place);
        bad = mt_asm_lower(l->module, list[i], &b, &error) != 0;
        if (bad && strcmp(error.message, "unreadable.ptx") != 0) { /* which was said when it was read */
            fprintf(said, "%s:%u: %.90s cannot run: %s\n", place.file, place.line, LLVMGetValueName(f),
                    error.message);
        } else if (bad) {
            bad = 0;
            break;
        }
    }
    free(list);
    return bad;
}

/* Most code has none. */
static int check_has_asm(LLVMModuleRef module)
{
    unsigned n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f && !n; f = LLVMGetNextFunction(f)) {
        free(check_list(f, &n));
    }
    return n != 0;
}

unsigned mt_ptxtool_check(LLVMModuleRef module, FILE *said)
{
    if (!check_has_asm(module)) {
        return 0;
    }
    struct mt_unit u = {.module = module, .context = LLVMGetModuleContext(module)};
    unsigned failed = 0;
    struct mt_lowering l = {.u = &u, .builtins = mt_load_bitcode(&u, "cpu-builtins.bc")};
    if (!l.builtins) {
        return 0;
    }
    l.module = LLVMCloneModule(module);
    for (LLVMValueRef f = LLVMGetFirstFunction(l.module); f; f = LLVMGetNextFunction(f)) {
        failed += (unsigned)check_function(&l, f, said);
    }
    LLVMDisposeModule(l.module);
    LLVMDisposeModule(l.builtins);
    return failed;
}
