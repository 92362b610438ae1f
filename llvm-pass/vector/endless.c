/* Warps as vectors: loops without an end. Where a loop would leave an array before its condition does, LLVM
 * takes the condition away: what is left has no way out, and nobody comes there, as C++ code must make
 * progress. But lanes that come to such a loop would never meet the others again, so that no barrier after it
 * could be one for whole warps. */
#include "vector.h"
#include <stdlib.h>
#include <string.h>

struct endless {
    LLVMBasicBlockRef *block;
    unsigned char *ends; /* a way leads from it to the end of the function */
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

/* Nothing that others see, and no wait: so it would be no progress. */
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

/* Does the language want each loop to come to an end or to do something that others see, and do those without
 * an end do nothing? */
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

/* Ways to what has no end become ways to nowhere. */
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
