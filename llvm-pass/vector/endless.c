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

/* The way back of a loop that the language wants to come to an end. */
static int endless_is_way_back(LLVMBasicBlockRef block)
{
    unsigned kind = LLVMGetMDKindID("llvm.loop", strlen("llvm.loop")), length;
    LLVMValueRef node = LLVMGetMetadata(LLVMGetBasicBlockTerminator(block), kind), part[16], word;
    unsigned n = node ? (unsigned)LLVMGetMDNodeNumOperands(node) : 0;
    if (!n || n > 16)
        return 0;
    LLVMGetMDNodeOperands(node, part);
    for (unsigned i = 1; i < n; i++) {
        if (!LLVMIsAMDNode(part[i]) || LLVMGetMDNodeNumOperands(part[i]) != 1)
            continue;
        LLVMGetMDNodeOperands(part[i], &word);
        const char *text = LLVMIsAMDString(word) ? LLVMGetMDString(word, &length) : NULL;
        if (text && length == strlen("llvm.loop.mustprogress") && mt_starts(text, "llvm.loop.mustprogress"))
            return 1;
    }
    return 0;
}

/* Do all rounds of what has no end go through such ways back, silently? */
static int endless_may_go(struct endless *e)
{
    unsigned char *done = calloc(e->n, 1);
    int all = done != NULL;
    for (unsigned i = 0; i < e->n && all; i++) {
        done[i] = e->ends[i] || endless_is_way_back(e->block[i]);
        all = e->ends[i] || endless_is_silent(e->block[i]);
    }
    for (int more = all; more;) {
        more = 0;
        for (unsigned i = e->n; i--;) {
            LLVMValueRef last = LLVMGetBasicBlockTerminator(e->block[i]);
            unsigned left = done[i] ? 0 : LLVMGetNumSuccessors(last);
            for (unsigned s = LLVMGetNumSuccessors(last); left && s--;)
                left -= done[endless_index(e, LLVMGetSuccessor(last, s))];
            if (!done[i] && !left)
                more = done[i] = 1;
        }
    }
    all = all && !memchr(done, 0, e->n);
    free(done);
    return all;
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
        if (e.ends[0] && memchr(e.ends, 0, e.n) && endless_may_go(&e))
            endless_cut(f, &e);
    }
    free(e.block);
    free(e.ends);
}
