/* See mt_ways_apart in loops.h. A *way* is an edge into the code between leaving a loop and the place
 * where all leaving lanes meet: out of the loop, or past it, as where LLVM has removed the loop's first
 * test. NVIDIA's ptxas makes lanes meet at the block where the ways of a branch join (BSYNC), but not at
 * those reached from inside a loop: lanes that come there by different ways, or in different rounds, run
 * it apart. */
#include "loops.h"
#include "reach.h"
#include <stdlib.h>
#include <string.h>

#define MOST_COPIED 600u /* maximum instructions in copies, per function */
#define MOST_ROUNDS 32u
#define DEEP 4u /* maximum depth of calls examined */

struct way {
    LLVMBasicBlockRef from;
    unsigned to;
};

struct ways {
    struct mt_lowering *l;
    LLVMValueRef function;
    struct mt_loop_shape shape;
    unsigned char *region, *mine, *taken; /* per block: on a way out; on this way; on an earlier one */
    struct way *way;
    unsigned nways, copied, ntogether; /* the first `ntogether` ways use the original code */
    int kernel, left;                  /* left: number of ways without code of their own */
};

/* ---- properties of code ---- */

static int ways_is_record(const char *name)
{
    return mt_starts(name, "__mt_access_");
}

/* Returns 1 if the instruction visibly accesses memory with a record. */
static int ways_accesses(LLVMValueRef inst)
{
    if (!LLVMIsACallInst(inst) || LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return 0;
    LLVMValueRef callee = mt_callee(inst);
    return !callee || ways_is_record(mt_name(callee)) ||
           !(LLVMGetIntrinsicID(callee) || mt_starts(mt_name(callee), "mt"));
}

/* Returns 1 if this call may be copied, as lanes do not wait for one another in it. */
static int ways_may_copy_call(LLVMValueRef inst, unsigned depth)
{
    static const char *const waits[] = {"bar",     "shfl",   "vote",  "match", "redux", "sync",
                                        "mma",     "matrix", "elect", "wait",  "sleep", "exit",
                                        "cluster", "mask",   "yield", NULL};
    LLVMValueRef callee = mt_callee(inst);
    if (!callee || depth > DEEP)
        return 0;
    if (LLVMGetIntrinsicID(callee) || ways_is_record(mt_name(callee)))
        return 1;
    for (unsigned i = 0; mt_starts(mt_name(callee), "mt") && waits[i]; i++)
        if (strstr(mt_name(callee), waits[i]))
            return 0;
    if (LLVMIsDeclaration(callee))
        return mt_starts(mt_name(callee), "mt");
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(callee); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (LLVMIsACallInst(i) && !LLVMIsAInlineAsm(LLVMGetCalledValue(i)) &&
                !ways_may_copy_call(i, depth + 1))
                return 0;
    return 1;
}

static int ways_may_copy(LLVMValueRef inst)
{
    LLVMOpcode op = LLVMGetInstructionOpcode(inst);
    if (op == LLVMCall)
        return LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) || ways_may_copy_call(inst, 0);
    return op != LLVMAlloca && op != LLVMInvoke && op != LLVMCallBr && op != LLVMIndirectBr;
}

/* Returns 1 if the value is surely the same in all lanes of a warp. */
static int ways_is_uniform(const struct ways *w, LLVMValueRef value, unsigned depth)
{
    if (LLVMIsAConstant(value) || (w->kernel && LLVMIsAArgument(value)))
        return 1;
    if (!LLVMIsAInstruction(value) || depth > 8)
        return 0;
    int reads = LLVMIsACallInst(value) && mt_callee(value) &&
                strstr(mt_name(mt_callee(value)), "read_ptx_sreg_") &&
                (strstr(mt_name(mt_callee(value)), "ctaid") || strstr(mt_name(mt_callee(value)), "ntid"));
    if (reads || !(LLVMIsABinaryOperator(value) || LLVMIsACastInst(value) || LLVMIsACmpInst(value) ||
                   LLVMIsASelectInst(value)))
        return reads;
    for (int i = 0; i < LLVMGetNumOperands(value); i++)
        if (!ways_is_uniform(w, LLVMGetOperand(value, (unsigned)i), depth + 1))
            return 0;
    return 1;
}

/* Returns 1 if all lanes go past loop l here, or none does, as where it has no iteration. */
static int ways_go_together(const struct ways *w, unsigned l, unsigned b)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(w->shape.block[b].block);
    return !mt_shape_within(&w->shape, b, l) && LLVMGetNumSuccessors(end) > 1 &&
           ways_is_uniform(w, LLVMGetOperand(end, 0), 0);
}

/* ---- ways ---- */

static unsigned ways_successor(const struct ways *w, unsigned b, unsigned k)
{
    return mt_shape_number(&w->shape,
                           LLVMGetSuccessor(LLVMGetBasicBlockTerminator(w->shape.block[b].block), k));
}

static unsigned ways_successors(const struct ways *w, unsigned b)
{
    return LLVMGetNumSuccessors(LLVMGetBasicBlockTerminator(w->shape.block[b].block));
}

/* Fills in w->way, the edges into the region, once each; first those that all lanes take or none. */
static void ways_find_some(struct ways *w, unsigned l, int together)
{
    for (unsigned b = 0; b < w->shape.nblocks; b++) {
        if (w->region[b] || ways_go_together(w, l, b) != together)
            continue;
        for (unsigned k = 0, n = ways_successors(w, b), first = w->nways; k < n; k++) {
            unsigned to = ways_successor(w, b, k), i = first;
            while (i < w->nways && w->way[i].to != to)
                i++;
            if (to < w->shape.nblocks && w->region[to] && i == w->nways)
                w->way[w->nways++] = (struct way){w->shape.block[b].block, to};
        }
    }
}

static void ways_find(struct ways *w, unsigned l)
{
    w->nways = 0;
    ways_find_some(w, l, 1);
    w->ntogether = w->nways;
    ways_find_some(w, l, 0);
}

/* Marks in w->mine the region's blocks reachable from `to`. */
static void ways_reach(struct ways *w, unsigned to)
{
    memset(w->mine, 0, w->shape.nblocks);
    w->mine[to] = 1;
    for (int changed = 1; changed;) {
        changed = 0;
        for (unsigned b = 0; b < w->shape.nblocks; b++)
            for (unsigned k = 0, n = w->mine[b] ? ways_successors(w, b) : 0; k < n; k++) {
                unsigned s = ways_successor(w, b, k);
                if (s < w->shape.nblocks && w->region[s] && !w->mine[s])
                    changed = w->mine[s] = 1;
            }
    }
}

/* Returns 1 if this way reaches accesses that an earlier one reaches. */
static int ways_shares(const struct ways *w)
{
    for (unsigned b = 0; b < w->shape.nblocks; b++)
        for (LLVMValueRef i = w->mine[b] && w->taken[b] ? LLVMGetFirstInstruction(w->shape.block[b].block)
                                                        : NULL;
             i; i = LLVMGetNextInstruction(i))
            if (ways_accesses(i))
                return 1;
    return 0;
}

static int ways_is_mine(const struct ways *w, LLVMBasicBlockRef block)
{
    unsigned b = mt_shape_number(&w->shape, block);
    return b < w->shape.nblocks && w->mine[b];
}

/* Returns 1 if the value is used in these blocks only, or by phis after them. */
static int ways_is_closed(const struct ways *w, LLVMValueRef value)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (ways_is_mine(w, LLVMGetInstructionParent(user)))
            continue;
        for (unsigned i = 0; LLVMIsAPHINode(user) && i < LLVMCountIncoming(user); i++)
            if (LLVMGetIncomingValue(user, i) == value && !ways_is_mine(w, LLVMGetIncomingBlock(user, i)))
                return 0;
        if (!LLVMIsAPHINode(user))
            return 0;
    }
    return 1;
}

/* Returns the number of instructions of a copy; 0: impossible. */
static unsigned ways_size(const struct ways *w)
{
    unsigned n = 0;
    for (unsigned b = 0; b < w->shape.nblocks; b++)
        for (LLVMValueRef i = w->mine[b] ? LLVMGetFirstInstruction(w->shape.block[b].block) : NULL; i;
             i = LLVMGetNextInstruction(i), n++)
            if (!ways_may_copy(i) || !ways_is_closed(w, i))
                return 0;
    return n;
}

/* ---- copies ---- */

struct copy {
    LLVMValueRef *old, *made; /* instructions and blocks, and their copies */
    unsigned n;
};

static LLVMValueRef copy_of(const struct copy *c, LLVMValueRef old)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->old[i] == old)
            return c->made[i];
    return old;
}

static LLVMBasicBlockRef copy_of_block(const struct copy *c, LLVMBasicBlockRef old)
{
    return LLVMValueAsBasicBlock(copy_of(c, LLVMBasicBlockAsValue(old)));
}

static void copy_add(struct copy *c, LLVMValueRef old, LLVMValueRef made)
{
    c->old[c->n] = old;
    c->made[c->n++] = made;
}

/* Copies the instructions, with phis without values. */
static void ways_copy_block(struct ways *w, struct copy *c, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderAtEnd(w->l->builder, copy_of_block(c, block));
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        LLVMValueRef made;
        if (LLVMIsAPHINode(i)) {
            made = LLVMBuildPhi(w->l->builder, LLVMTypeOf(i), "");
        } else {
            made = LLVMInstructionClone(i);
            LLVMInsertIntoBuilder(w->l->builder, made);
        }
        copy_add(c, i, made);
    }
}

/* Replaces values and blocks by their copies. */
static void ways_copy_operands(struct ways *w, const struct copy *c, LLVMBasicBlockRef block,
                               const struct way *way)
{
    int first = block == w->shape.block[way->to].block;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        LLVMValueRef made = copy_of(c, i);
        if (!LLVMIsAPHINode(i)) {
            for (unsigned k = 0; k < (unsigned)LLVMGetNumOperands(made); k++)
                LLVMSetOperand(made, k, copy_of(c, LLVMGetOperand(made, k)));
            continue;
        }
        for (unsigned k = 0; k < LLVMCountIncoming(i); k++) {
            LLVMBasicBlockRef from = LLVMGetIncomingBlock(i, k);
            LLVMValueRef value = copy_of(c, LLVMGetIncomingValue(i, k));
            if (ways_is_mine(w, from)) {
                from = copy_of_block(c, from);
                LLVMAddIncoming(made, &value, &from, 1);
            } else if (first && from == way->from) {
                LLVMAddIncoming(made, &value, &from, 1);
            }
        }
    }
}

/* Updates phis after these blocks. */
static void ways_copy_leave(const struct ways *w, const struct copy *c, LLVMBasicBlockRef block)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(block);
    LLVMBasicBlockRef made = copy_of_block(c, block);
    for (unsigned k = 0, n = LLVMGetNumSuccessors(end); k < n; k++) {
        LLVMBasicBlockRef to = LLVMGetSuccessor(end, k);
        for (LLVMValueRef i = LLVMGetFirstInstruction(to); !ways_is_mine(w, to) && LLVMIsAPHINode(i);
             i = LLVMGetNextInstruction(i))
            for (unsigned in = 0; in < LLVMCountIncoming(i); in++)
                if (LLVMGetIncomingBlock(i, in) == block) {
                    LLVMValueRef value = copy_of(c, LLVMGetIncomingValue(i, in));
                    LLVMAddIncoming(i, &value, &made, 1);
                    break;
                }
    }
}

/* Removes this block's value from the phi. */
static void ways_forget(struct ways *w, LLVMValueRef phi, LLVMBasicBlockRef from)
{
    LLVMPositionBuilderBefore(w->l->builder, phi);
    LLVMValueRef made = LLVMBuildPhi(w->l->builder, LLVMTypeOf(phi), "");
    for (unsigned k = 0; k < LLVMCountIncoming(phi); k++) {
        LLVMBasicBlockRef block = LLVMGetIncomingBlock(phi, k);
        LLVMValueRef value = LLVMGetIncomingValue(phi, k);
        if (block != from)
            LLVMAddIncoming(made, &value, &block, 1);
    }
    LLVMReplaceAllUsesWith(phi, made);
    LLVMInstructionEraseFromParent(phi);
}

/* Redirects the way to the copy. */
static void ways_turn(struct ways *w, const struct copy *c, const struct way *way)
{
    LLVMBasicBlockRef old = w->shape.block[way->to].block;
    LLVMValueRef end = LLVMGetBasicBlockTerminator(way->from);
    for (unsigned k = 0, n = LLVMGetNumSuccessors(end); k < n; k++)
        if (LLVMGetSuccessor(end, k) == old)
            LLVMSetSuccessor(end, k, copy_of_block(c, old));
    for (LLVMValueRef i = LLVMGetFirstInstruction(old), next; LLVMIsAPHINode(i); i = next) {
        next = LLVMGetNextInstruction(i);
        ways_forget(w, i, way->from);
    }
}

/* Returns 0, or -1 without memory. */
static int ways_copy(struct ways *w, const struct way *way, unsigned size)
{
    struct copy c = {0};
    c.old = calloc(size + w->shape.nblocks, sizeof(LLVMValueRef));
    c.made = calloc(size + w->shape.nblocks, sizeof(LLVMValueRef));
    int rc = c.old && c.made ? 0 : -1;
    for (int step = 0; step < 4 && !rc; step++)
        for (unsigned b = 0; b < w->shape.nblocks; b++) {
            LLVMBasicBlockRef block = w->shape.block[b].block;
            if (!w->mine[b])
                continue;
            if (step == 0)
                copy_add(
                    &c, LLVMBasicBlockAsValue(block),
                    LLVMBasicBlockAsValue(LLVMAppendBasicBlockInContext(w->l->u->context, w->function, "")));
            else if (step == 1)
                ways_copy_block(w, &c, block);
            else if (step == 2)
                ways_copy_operands(w, &c, block, way);
            else
                ways_copy_leave(w, &c, block);
        }
    if (!rc)
        ways_turn(w, &c, way);
    free(c.old);
    free(c.made);
    return rc;
}

/* Handles ways out of a loop, and past it. Returns the number of copies made. */
static unsigned ways_of_loop(struct ways *w, unsigned loop)
{
    unsigned made = 0;
    if (mt_shape_ways_out(&w->shape, loop, w->region))
        return 0;
    ways_find(w, loop);
    memset(w->taken, 0, w->shape.nblocks);
    for (unsigned i = 0; i < w->nways; i++) {
        ways_reach(w, w->way[i].to);
        if (i >= w->ntogether && ways_shares(w)) {
            unsigned size = ways_size(w);
            w->left |= !size || w->copied + size > MOST_COPIED;
            if (size && w->copied + size <= MOST_COPIED && !ways_copy(w, &w->way[i], size)) {
                w->copied += size;
                made++;
            }
        }
        for (unsigned b = 0; b < w->shape.nblocks; b++)
            w->taken[b] |= w->mine[b];
    }
    return made;
}

/* Handles all ways of the present code. Returns the number of copies made. */
static unsigned ways_round(struct ways *w)
{
    unsigned made = 0, edges = 1;
    if (mt_shape_of(&w->shape, w->function))
        return 0;
    for (unsigned b = 0; b < w->shape.nblocks; b++)
        edges += ways_successors(w, b);
    w->region = malloc(3 * (size_t)w->shape.nblocks);
    w->way = malloc(edges * sizeof *w->way);
    if (w->region && w->way) {
        w->mine = w->region + w->shape.nblocks;
        w->taken = w->mine + w->shape.nblocks;
        for (unsigned l = 1; l <= w->shape.nloops && !made; l++)
            made = ways_of_loop(w, l);
    }
    free(w->region);
    free(w->way);
    mt_shape_free(&w->shape);
    return made;
}

/* Returns 1 if code reachable from the function records. */
static int ways_records(struct mt_lowering *l, LLVMValueRef function)
{
    struct mt_reach reach = {0};
    int found = 0;
    mt_reach_from(l, function, &reach);
    for (unsigned i = 0; i < reach.count && !found; i++)
        found = ways_is_record(mt_name(reach.functions[i])) || mt_is_shared_name(reach.functions[i]);
    mt_reach_free(&reach);
    return found;
}

/* Marks kernels that call a function in which some lanes cannot be told apart. */
static void ways_part(struct mt_lowering *l, LLVMValueRef function)
{
    for (unsigned k = 0; k < l->u->nkernels && ways_records(l, function); k++) {
        struct mt_reach reach = {0};
        mt_reach_from(l, l->traced.kernels[k], &reach);
        l->u->kernels[k].parted |= mt_reach_has(&reach, function);
        mt_reach_free(&reach);
    }
}

void mt_ways_apart(struct mt_lowering *l, LLVMValueRef function, LLVMValueRef of, int kernel)
{
    struct ways w = {.l = l, .function = function, .kernel = kernel};
    int accesses = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i && !accesses; i = LLVMGetNextInstruction(i))
            accesses = ways_accesses(i);
    unsigned rounds = 0;
    while (accesses && rounds < MOST_ROUNDS && ways_round(&w))
        rounds++;
    if (w.left || rounds == MOST_ROUNDS)
        ways_part(l, of);
}

static int ways_is_kernel(const struct mt_lowering *l, LLVMValueRef f)
{
    for (unsigned k = 0; k < l->u->nkernels; k++)
        if (l->traced.kernels[k] == f)
            return 1;
    return 0;
}

/* Runs before LLVM merges equal code of its own. */
void mt_lower_ways(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f) && !mt_ends(mt_name(f), MT_PLAIN_SUFFIX))
            mt_ways_apart(l, f, f, ways_is_kernel(l, f));
}
