/* What the front end makes of all inline assembly of a module.
 *   corpus lower BUILTINS.bc MODULE.ll…   lowers it with the real builtins: one line per reason why
 *                                         something could not be lowered, with a count, and how many could
 *   corpus accesses MODULE.ll…            for each call: function, then op, size (or "n") and space of each
 *                                         access
 * Exit code 1 when a lowered module is not valid, else 0. */
#include "ptx/asm/asm.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/IRReader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct builtins {
    LLVMModuleRef library, module;
};

static LLVMValueRef corpus_lookup(void *ctx, const char *name, LLVMTypeRef *type)
{
    struct builtins *b = ctx;
    LLVMValueRef f = LLVMGetNamedFunction(b->library, name);
    if (!f)
        return NULL;
    *type = LLVMGlobalGetValueType(f);
    LLVMValueRef here = LLVMGetNamedFunction(b->module, name);
    return here ? here : LLVMAddFunction(b->module, name, *type);
}

static LLVMModuleRef corpus_load(LLVMContextRef c, const char *path)
{
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef m;
    char *message;
    if (LLVMCreateMemoryBufferWithContentsOfFile(path, &buffer, &message) ||
        LLVMParseIRInContext(c, buffer, &m, &message)) {
        fprintf(stderr, "%s: %s\n", path, message);
        exit(2);
    }
    return m;
}

struct reason {
    char text[240];
    unsigned count;
};
static struct reason *reasons;
static unsigned nreasons;

static void corpus_note(const char *text)
{
    for (unsigned i = 0; i < nreasons; i++)
        if (!strcmp(reasons[i].text, text)) {
            reasons[i].count++;
            return;
        }
    reasons = realloc(reasons, (nreasons + 1) * sizeof *reasons);
    if (!reasons)
        exit(2);
    snprintf(reasons[nreasons].text, sizeof reasons->text, "%s", text);
    reasons[nreasons++].count = 1;
}

/* The calls of inline assembly in a function; free() the result. */
static LLVMValueRef *calls_of(LLVMValueRef f, unsigned *count)
{
    unsigned n = 0, cap = 0;
    LLVMValueRef *calls = NULL;
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(f); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
            if (!LLVMIsACallInst(i) || !LLVMIsAInlineAsm(LLVMGetCalledValue(i)))
                continue;
            if (n == cap && !(calls = realloc(calls, (cap = cap ? 2 * cap : 64) * sizeof *calls)))
                exit(2);
            calls[n++] = i;
        }
    *count = n;
    return calls;
}

static unsigned lower_function(LLVMModuleRef m, LLVMValueRef f, const struct mt_asm_builtins *b,
                               unsigned *total)
{
    unsigned done = 0, n;
    LLVMValueRef *calls = calls_of(f, &n);
    for (unsigned i = 0; i < n; i++) {
        struct mt_asm_error error;
        if (mt_asm_lower(m, calls[i], b, &error))
            corpus_note(error.message);
        else
            done++;
    }
    *total += n;
    free(calls);
    return done;
}

static void print_accesses(LLVMValueRef f)
{
    static const char *const ops[] = {"load", "store", "atomic", "unknown"};
    size_t length;
    unsigned n;
    LLVMValueRef *calls = calls_of(f, &n);
    for (unsigned i = 0; i < n; i++) {
        struct mt_asm_access a[8];
        int found = mt_asm_accesses(calls[i], a, 8);
        printf("%s", LLVMGetValueName2(f, &length));
        if (found < 0)
            printf(" ?");
        for (int k = 0; k < found; k++) {
            printf(" %s ", ops[a[k].op]);
            if (a[k].size_argument >= 0)
                printf("n");
            else
                printf("%u", a[k].size);
            printf(" %s%s", a[k].generic ? "generic" : "global", a[k].argument < 0 ? " inside" : "");
        }
        printf("\n");
    }
    free(calls);
}

static int corpus_accesses(LLVMContextRef c, int n, char **paths)
{
    for (int i = 0; i < n; i++) {
        LLVMModuleRef m = corpus_load(c, paths[i]);
        for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
            print_accesses(f);
        LLVMDisposeModule(m);
    }
    return 0;
}

static int corpus_lower(LLVMContextRef c, const char *library, int n, char **paths)
{
    struct builtins names = {.library = corpus_load(c, library)};
    struct mt_asm_builtins b = {corpus_lookup, &names};
    unsigned total = 0, done = 0;
    int bad = 0;
    for (int i = 0; i < n; i++) {
        char *message = NULL;
        LLVMModuleRef m = names.module = corpus_load(c, paths[i]);
        for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
            done += lower_function(m, f, &b, &total);
        if (LLVMVerifyModule(m, LLVMReturnStatusAction, &message)) {
            fprintf(stderr, "%s: %s\n", paths[i], message);
            bad = 1;
        }
        LLVMDisposeMessage(message);
        LLVMDisposeModule(m);
    }
    for (unsigned i = 0; i < nreasons; i++)
        printf("%u %s\n", reasons[i].count, reasons[i].text);
    printf("lowered %u of %u\n", done, total);
    LLVMDisposeModule(names.library);
    free(reasons);
    return bad;
}

int main(int argc, char **argv)
{
    int lowering = argc > 3 && !strcmp(argv[1], "lower");
    if (!lowering && (argc < 3 || strcmp(argv[1], "accesses"))) {
        fprintf(stderr, "usage: corpus lower BUILTINS.bc MODULE.ll... | corpus accesses MODULE.ll...\n");
        return 2;
    }
    LLVMContextRef c = LLVMContextCreate();
    int code =
        lowering ? corpus_lower(c, argv[2], argc - 3, argv + 3) : corpus_accesses(c, argc - 2, argv + 2);
    LLVMContextDispose(c);
    return code;
}
