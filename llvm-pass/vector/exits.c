/* Warps as vectors: blocks behind a loop that are part of it. */
#include "order.h"
#include <stdlib.h>
#include <string.h>

/* Returns 1 if the loop is `around` or inside of it. */
static int exits_is_in(const struct vec_order *o, unsigned loop, unsigned around)
{
    while (loop && loop != around)
        loop = o->parents[loop - 1];
    return loop == around;
}

/* Returns the loop that begins at block b; 0: none. */
static unsigned exits_begins(const struct vec_order *o, unsigned b)
{
    unsigned l = o->loop[b];
    return l && o->header[l] == b ? l : 0;
}

/* Returns 1 if the block, or the loop that begins there, is directly in `outside`. */
static int exits_is_free(const struct vec_order *o, unsigned b, unsigned outside)
{
    unsigned l = exits_begins(o, b);
    return o->loop[b] == outside ? !l : l && o->parents[l - 1] == outside;
}

static void exits_put(struct vec_order *o, unsigned b, unsigned loop)
{
    unsigned l = exits_begins(o, b);
    if (l)
        o->parents[l - 1] = loop;
    else
        o->loop[b] = loop;
}

/* Returns 1 if the block's values leave the loop through phis only. Others are kept for the lanes of the
 * last round. */
static int exits_keeps_its(const struct vec_order *o, unsigned b, unsigned loop)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(o->block[b]); i; i = LLVMGetNextInstruction(i))
        for (LLVMUseRef use = LLVMGetFirstUse(i); use; use = LLVMGetNextUse(use)) {
            LLVMValueRef user = LLVMGetUser(use);
            unsigned at = vec_order_index(o, LLVMGetInstructionParent(user));
            if (exits_is_in(o, o->loop[at], loop))
                continue;
            for (unsigned n = 0; LLVMIsAPHINode(user) && n < LLVMCountIncoming(user); n++)
                if (LLVMGetIncomingValue(user, n) == i &&
                    !exits_is_in(o, o->loop[vec_order_index(o, LLVMGetIncomingBlock(user, n))], loop))
                    return 0;
            if (!LLVMIsAPHINode(user))
                return 0;
        }
    return 1;
}

/* Returns the same for the block or the loop that begins there. */
static int exits_keeps_values(const struct vec_order *o, unsigned b, unsigned loop)
{
    unsigned own = exits_begins(o, b);
    int keeps = exits_keeps_its(o, b, loop);
    for (unsigned i = 0; own && keeps && i < o->n; i++)
        keeps = !exits_is_in(o, o->loop[i], own) || exits_keeps_its(o, i, loop);
    return keeps;
}

/* Returns 1 if the block, or the loop that begins there, is reached from the loop only. */
static int exits_is_behind(const struct vec_order *o, unsigned b, unsigned loop)
{
    unsigned ways = 0, own = exits_begins(o, b);
    LLVMValueRef block = LLVMBasicBlockAsValue(o->block[b]);
    for (LLVMUseRef use = LLVMGetFirstUse(block); use; use = LLVMGetNextUse(use), ways++) {
        unsigned from = o->loop[vec_order_index(o, LLVMGetInstructionParent(LLVMGetUser(use)))];
        if (!exits_is_in(o, from, loop) && !(own && exits_is_in(o, from, own)))
            return 0;
    }
    return ways != 0;
}

LLVMValueRef vec_touched(LLVMValueRef inst, int *writes)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    int load =
        op == LLVMLoad && (LLVMGetVolatile(inst) || LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic);
    if (!load && op != LLVMStore && op != LLVMAtomicRMW && op != LLVMAtomicCmpXchg)
        return NULL;
    LLVMValueRef p = LLVMGetOperand(inst, op == LLVMStore);
    while (LLVMIsACastInst(p))
        p = LLVMGetOperand(p, 0);
    *writes = !load;
    return p;
}

/* Returns 1 if this block releases a lock that the loop takes. */
static int exits_release(const struct vec_order *o, unsigned loop, LLVMBasicBlockRef block)
{
    int writes;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        LLVMValueRef p = vec_touched(i, &writes);
        for (unsigned b = 0; p && writes && b < o->n; b++)
            for (LLVMValueRef j = exits_is_in(o, o->loop[b], loop) ? LLVMGetFirstInstruction(o->block[b])
                                                                   : NULL;
                 j; j = LLVMGetNextInstruction(j))
                if (LLVMIsAAtomicCmpXchgInst(j) && vec_touched(j, &writes) == p)
                    return 1;
    }
    return 0;
}

static int exits_yields(const struct vec_order *o, unsigned loop)
{
    for (unsigned b = 0; b < o->n; b++)
        if (exits_is_in(o, o->loop[b], loop))
            for (LLVMValueRef i = LLVMGetFirstInstruction(o->block[b]); i; i = LLVMGetNextInstruction(i))
                if (vec_calls(i, "mt_cpu_yield"))
                    return 1;
    return 0;
}

/* Returns the block after the release of a lock that the loop takes, or the meeting place: a lane with the
 * lock continues up to it while other lanes are in the loop. */
static LLVMBasicBlockRef exits_after_lock(const struct vec_order *o, unsigned loop, LLVMBasicBlockRef meet,
                                          const LLVMBasicBlockRef *next)
{
    LLVMBasicBlockRef at = exits_yields(o, loop) ? meet : NULL;
    for (; at && !exits_release(o, loop, at);)
        at = next[vec_order_index(o, at)];
    return at ? next[vec_order_index(o, at)] : meet;
}

void vec_take_exits(struct vec_order *o, const struct mt_loop_shape *shape, const LLVMBasicBlockRef *next,
                    unsigned char *taken)
{
    for (unsigned loop = 1; loop <= o->nloops; loop++) { /* outer ones first, if a lane leaves two */
        unsigned outside = o->parents[loop - 1], changed = 1, at = shape->loop[loop - 1].meeting;
        LLVMBasicBlockRef meet =
            exits_after_lock(o, loop, at < shape->nblocks ? shape->block[at].block : NULL, next);
        memset(taken, 0, o->n);
        while (changed) {
            changed = 0;
            for (unsigned b = 0; b < o->n; b++)
                if (exits_is_free(o, b, outside) && o->block[b] != meet && exits_is_behind(o, b, loop)) {
                    exits_put(o, b, loop);
                    changed = taken[b] = 1;
                }
        }
        for (changed = 1; changed;) {
            changed = 0;
            for (unsigned b = 0; b < o->n; b++)
                if (taken[b] && !(exits_is_behind(o, b, loop) && exits_keeps_values(o, b, loop))) {
                    exits_put(o, b, outside);
                    changed = 1;
                    taken[b] = 0;
                }
        }
    }
}
