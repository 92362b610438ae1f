/* Warps as vectors: loops without an end. Where a loop would leave an array before its condition ends it,
 * LLVM removes the condition: the remaining code has no way out and is never reached, as C++ code must
 * make progress. But lanes in such a loop would never meet the others again, so that no barrier after it
 * could be for whole warps. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>

struct endless {
    LLVMBasicBlockRef *block;
    unsigned char *ends; /* 1: the function's end is reachable */
    unsigned n;
};

static unsigned endless_index(const struct endless *e, LLVMBasicBlockRef block)
{
    unsigned i = 0;
    while (e->block[i] != block)
        i++;
    return i;
}

static void endless_find(struct endless *e)
{
    for (unsigned i = 0; i < e->n; i++)
        e->ends[i] = LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(e->block[i])) == 0;
    for (int more = 1; more;) {
        more = 0;
        for (unsigned i = e->n; i--;) {
            LLVMValueRef last = LLVMGetBasicBlockTerminator(e->block[i]);
            for (unsigned s = 0; !e->ends[i] && s < LLVMGetNumSuccessors(last); s++)
                if (e->ends[endless_index(e, LLVMGetSuccessor(last, s))])
                    more = e->ends[i] = 1;
        }
    }
}

/* Returns 1 if the block has no visible effect and no wait, so that a loop of it makes no progress. */
static int endless_is_silent(LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        if (LLVMIsAAtomicRMWInst(i) || LLVMIsAAtomicCmpXchgInst(i) || LLVMIsAFenceInst(i) ||
            (LLVMIsACallInst(i) && !mt_starts(vec_callee(i), "llvm.") &&
             !mt_starts(vec_callee(i), "__mt_access_")))
            return 0;
        if ((LLVMIsALoadInst(i) || LLVMIsAStoreInst(i)) &&
            (LLVMGetVolatile(i) || LLVMGetOrdering(i) != LLVMAtomicOrderingNotAtomic))
            return 0;
    }
    return 1;
}

/* Returns 1 if the language requires each loop to end or to have a visible effect, and the endless ones
 * have none. */
static int endless_may_go(LLVMValueRef f, const struct endless *e)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("mustprogress", strlen("mustprogress"));
    if (!LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, kind))
        return 0;
    for (unsigned i = 0; i < e->n; i++)
        if (!e->ends[i] && !endless_is_silent(e->block[i]))
            return 0;
    return 1;
}

/* Replaces ways into endless loops by unreachable code. */
static void endless_cut(LLVMValueRef f, const struct endless *e)
{
    LLVMContextRef context = LLVMGetTypeContext(LLVMTypeOf(f));
    LLVMBasicBlockRef never = LLVMAppendBasicBlockInContext(context, f, "never");
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    LLVMPositionBuilderAtEnd(b, never);
    LLVMBuildUnreachable(b);
    LLVMDisposeBuilder(b);
    for (unsigned i = 0; i < e->n; i++) {
        LLVMValueRef last = LLVMGetBasicBlockTerminator(e->block[i]);
        for (unsigned s = 0; e->ends[i] && s < LLVMGetNumSuccessors(last); s++)
            if (!e->ends[endless_index(e, LLVMGetSuccessor(last, s))])
                LLVMSetSuccessor(last, s, never);
    }
    mt_shim_run_passes(f, "simplifycfg");
}

void vec_cut_endless(LLVMValueRef f)
{
    struct endless e = {.n = LLVMCountBasicBlocks(f)};
    e.block = malloc(e.n * sizeof *e.block);
    e.ends = calloc(e.n, 1);
    if (e.block && e.ends) {
        LLVMGetBasicBlocks(f, e.block);
        endless_find(&e);
        if (e.ends[0] && memchr(e.ends, 0, e.n) && endless_may_go(f, &e))
            endless_cut(f, &e);
    }
    free(e.block);
    free(e.ends);
}
