/* Warps as vectors: what may not be code for a whole warp, because lanes would wait for each other, or
 * because there is no form for it. */
#include "vector.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "../../runtime/cpu/abi.h"

#define MOST_LANES 2500u /* instructions on vectors */
#define MOST_FRAME                                                                                           \
    8192u /* bytes of local variables of a thread: a warp's are half of the stack that it has */

void vec_refuse(struct vec *v, const char *format, ...)
{
    va_list list;
    if (v->why)
        return;
    va_start(list, format);
    vsnprintf(v->why_text, sizeof v->why_text, format, list);
    va_end(list);
    v->why = v->why_text;
}

/* What a thread does in a block that another thread may see, or wait for. */
static int accept_is_idle(LLVMBasicBlockRef block)
{
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsAStoreInst(i) || LLVMIsAAtomicRMWInst(i) || LLVMIsAAtomicCmpXchgInst(i) ||
            LLVMIsAFenceInst(i) || (LLVMIsACallInst(i) && !vec_is_plain_call(i) && !vec_is_record(i)))
            return 0;
    return 1;
}

/* A barrier where only some lanes are: all right when the others do nothing any more. */
static int accept_barrier(const struct vec *v, int block)
{
    if (v->called) /* who else? */
        return 0;
    for (unsigned d = 0; d < v->nbranches; d++) {
        const struct vec_branch *b = &v->branch[d];
        int in[2] = {b->reach[0][block], b->reach[1][block]};
        if (!in[0] && !in[1])
            continue;
        if (in[0] && in[1])
            return 0;
        int meet = v->block[b->block].meet;
        if (meet >= 0 && (v->block[meet].nsucc || !accept_is_idle(v->block[meet].from)))
            return 0;
        for (unsigned i = 0; i < v->nblocks; i++)
            if (b->reach[in[0]][i] && !accept_is_idle(v->block[i].from))
                return 0;
    }
    return 1;
}

/* Collectives on both ways of a branch may belong together: then lanes of the one wait for those of the
 * other. */
static int accept_collectives(const struct vec *v, const unsigned char *together)
{
    for (unsigned d = 0; d < v->nbranches; d++) {
        int on[2] = {0, 0};
        for (unsigned i = 0; i < v->nblocks; i++)
            if (together[i])
                for (int s = 0; s < 2; s++)
                    on[s] |= v->branch[d].reach[s][i] && !v->branch[d].reach[!s][i];
        if (on[0] && on[1])
            return 0;
    }
    return 1;
}

/* A sum of parts of threadIdx, none of which is negative. */
static int accept_adds_threads(LLVMValueRef sum)
{
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef o = LLVMGetOperand(sum, i);
        int reg = vec_register(vec_callee(o));
        if ((reg < VEC_TID_X || reg > VEC_TID_Z) &&
            !(LLVMIsABinaryOperator(o) && LLVMGetInstructionOpcode(o) == LLVMAdd && accept_adds_threads(o)))
            return 0;
    }
    return 1;
}

/* What is 0 where the value is: 1 for threadIdx.x, 2 for y, 4 for z, 8 for something that no two lanes of a
 * warp have in common. */
static unsigned accept_zeros(const struct vec *v, LLVMValueRef value, unsigned depth)
{
    const struct vec_value *x = vec_find(v, value);
    int reg = vec_register(vec_callee(value));
    unsigned self = 0;
    if (!x || x->block < 0 || depth > 8)
        return 0;
    if (reg >= VEC_TID_X && reg <= VEC_TID_Z)
        self = 1u << reg;
    if (vec_lanes_differ(v, value))
        self |= 8;
    LLVMOpcode op = LLVMGetInstructionOpcode(value);
    if (op == LLVMAdd && accept_adds_threads(value))
        return self | ((accept_zeros(v, LLVMGetOperand(value, 0), depth + 1) |
                        accept_zeros(v, LLVMGetOperand(value, 1), depth + 1)) &
                       7);
    if (op == LLVMOr)
        return self | accept_zeros(v, LLVMGetOperand(value, 0), depth + 1) |
               accept_zeros(v, LLVMGetOperand(value, 1), depth + 1);
    return op == LLVMZExt ? self | accept_zeros(v, LLVMGetOperand(value, 0), depth + 1) : self;
}

/* Is the condition (its contrary: !wanted) true in one lane of a warp at most? */
static int accept_picks_one(const struct vec *v, LLVMValueRef condition, int wanted, unsigned depth)
{
    if (!LLVMIsAInstruction(condition) || depth > 6)
        return 0;
    LLVMOpcode op = LLVMGetInstructionOpcode(condition);
    LLVMValueRef a = LLVMGetOperand(condition, 0), b;
    if (op == LLVMICmp) {
        b = LLVMGetOperand(condition, 1);
        if (LLVMGetICmpPredicate(condition) != (wanted ? LLVMIntEQ : LLVMIntNE) ||
            vec_shape_of(v, b).kind != VEC_UNIFORM)
            return 0;
        if (vec_lanes_differ(v, a))
            return 1;
        unsigned zeros = LLVMIsConstant(b) && LLVMIsNull(b) ? accept_zeros(v, a, 0) : 0;
        return zeros & 8 || (zeros & 7) == 7;
    }
    if (op == (wanted ? LLVMAnd : LLVMOr))
        return accept_picks_one(v, a, wanted, depth + 1) ||
               accept_picks_one(v, LLVMGetOperand(condition, 1), wanted, depth + 1);
    return 0;
}

/* Does one lane of a warp at most come to the block? */
static int accept_is_single(const struct vec *v, int block)
{
    for (unsigned d = 0; d < v->nbranches; d++) {
        const struct vec_branch *b = &v->branch[d];
        LLVMValueRef end = LLVMGetBasicBlockTerminator(v->block[b->block].from);
        if (b->reach[0][block] != b->reach[1][block] &&
            accept_picks_one(v, LLVMGetCondition(end), b->reach[0][block], 0))
            return 1;
    }
    return 0;
}

static int accept_is_in_loop(const struct vec *v, int block, unsigned loop)
{
    return loop && block >= v->loop[loop].first && block <= v->loop[loop].last;
}

/* Is all that the loop polls also written in it elsewhere? So is a lock that who gets it gives back before
 * the loop is left. */
static int accept_releases(const struct vec *v, unsigned loop)
{
    LLVMValueRef list[64];
    unsigned n = 0, polls = 0;
    int writes;
    for (int b = v->loop[loop].first; b <= v->loop[loop].last; b++)
        for (LLVMValueRef i = LLVMGetFirstInstruction(v->block[b].from); i; i = LLVMGetNextInstruction(i))
            if (vec_touched(i, &writes)) {
                if (n == 64)
                    return 0;
                list[n++] = i;
            }
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef p = vec_touched(list[i], &writes);
        int released = LLVMIsAStoreInst(list[i]) != NULL;
        polls += !released && LLVMGetFirstUse(list[i]);
        for (unsigned j = 0; j < n && !released; j++)
            released = j != i && vec_touched(list[j], &writes) == p && writes;
        if (!released && LLVMGetFirstUse(list[i]))
            return 0;
    }
    return polls != 0;
}

/* Where lanes wait for other threads, those may not be lanes of their warp that wait for them: lanes that
 * have parted from them before, and lanes that have left the loop (together: all leave it at once), do
 * nothing that others see. */
static int accept_wait(const struct vec *v, int block, int together)
{
    if (v->called)
        return 0;
    unsigned loop = v->block[block].loop;
    together = together || !loop || accept_is_single(v, block) || accept_releases(v, loop);
    for (unsigned d = 0; d < v->nbranches && !together; d++) {
        const struct vec_branch *b = &v->branch[d];
        if (accept_is_in_loop(v, b->block, loop) && (b->reach[0][block] || b->reach[1][block]))
            return 0;
    }
    for (unsigned d = 0; d < v->nbranches; d++) {
        const struct vec_branch *b = &v->branch[d];
        if (b->reach[0][block] == b->reach[1][block] || accept_is_in_loop(v, b->block, loop))
            continue;
        for (unsigned i = 0; i < v->nblocks; i++)
            if (b->reach[b->reach[0][block]][i] && !accept_is_idle(v->block[i].from))
                return 0;
    }
    return 1;
}

/* Waits that are no warp collectives: once for the warp (barriers), or for each lane. */
static void accept_waits(struct vec *v, LLVMValueRef call, int block, const char *name)
{
    if (!vec_is_wait(name))
        return;
    v->waits = 1;
    /* The phase of an mbarrier ends for all lanes at once. */
    int object = mt_starts(name, "mtb_");
    if (!strcmp(name, "mt_cpu_yield") || (object && v->block[block].loop)) {
        if (!accept_wait(v, block, object))
            vec_refuse(v, "lanes that may wait for others of their warp");
        return;
    }
    if (!strcmp(name, "mt_cpu_nanosleep") || object) /* what is no poll need not yield */
        return;
    /* Aligned ones are for whole warps, wherever they stand. */
    LLVMValueRef kind = LLVMGetNumArgOperands(call) ? LLVMIsAConstantInt(LLVMGetOperand(call, 0)) : NULL;
    int aligned =
        !strcmp(name, "mt_cpu_barrier_arrive")
            ? LLVMConstIntGetZExtValue(LLVMGetOperand(call, 2)) != 0
            : !strcmp(name, "mt_cpu_barrier") && kind && !(LLVMConstIntGetZExtValue(kind) & MT_BARRIER_SOME);
    if (!strcmp(name, "mt_cpu_barrier") && !kind)
        vec_refuse(v, "a barrier of an unknown kind");
    if (!aligned && !accept_barrier(v, block))
        vec_refuse(v, "a barrier that not all lanes come to");
}

static void accept_call(struct vec *v, LLVMValueRef call, int block, unsigned char *together)
{
    const char *name = vec_callee(call);
    accept_waits(v, call, block, name);
    if (vec_is_called(call)) {
        together[block] |= v->meets;
        if (v->meets && (mt_callee(call) || vec_shape_of(v, LLVMGetCalledValue(call)).kind != VEC_UNIFORM))
            vec_refuse(v, "warp collectives in what is called");
        return;
    }
    if (!vec_is_lockstep_call(name))
        return;
    together[block] = 1;
    int members = LLVMGetNumArgOperands(call) ? vec_shape_of(v, LLVMGetOperand(call, 0)).kind : VEC_UNIFORM;
    if (!strcmp(name, "mt_cpu_matrix") && members != VEC_UNIFORM)
        vec_refuse(v, "matrices of several kinds at once");
    unsigned mode = !strcmp(name, "mt_cpu_shfl")                                    ? 4
                    : !strcmp(name, "mt_cpu_vote") || !strcmp(name, "mt_cpu_redux") ? 2
                                                                                    : 0;
    if (mode && !LLVMIsAConstantInt(LLVMGetOperand(call, mode)))
        vec_refuse(v, "%s of an unknown kind", name);
}

static void accept_alloca(struct vec *v, LLVMValueRef alloca)
{
    LLVMValueRef count = LLVMIsAConstantInt(LLVMGetOperand(alloca, 0));
    if (!count || LLVMConstIntGetZExtValue(count) != 1 || vec_find(v, alloca)->block != 0)
        vec_refuse(v, "local memory of a size that is known late");
    v->frame += (uint64_t)vec_alloca_step(v, alloca);
    if (v->frame > MOST_FRAME)
        vec_refuse(v, "%llu bytes of local variables", (unsigned long long)v->frame);
}

static void accept_access(struct vec *v, LLVMValueRef inst)
{
    LLVMTypeRef type = LLVMIsAStoreInst(inst) ? LLVMTypeOf(LLVMGetOperand(inst, 0)) : LLVMTypeOf(inst);
    LLVMTypeRef element = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    LLVMTypeKind kind = LLVMGetTypeKind(element);
    if (kind == LLVMStructTypeKind || kind == LLVMArrayTypeKind ||
        (kind == LLVMIntegerTypeKind &&
         (LLVMGetIntTypeWidth(element) < 8 || LLVMGetIntTypeWidth(element) > 64 ||
          (LLVMGetIntTypeWidth(element) & (LLVMGetIntTypeWidth(element) - 1)))))
        vec_refuse(v, "an access of an odd type");
}

int vec_accept(struct vec *v)
{
    unsigned char together[2048] = {0};
    unsigned lanes = 0;
    for (unsigned i = 0; i < v->nvalues && !v->why; i++) {
        LLVMValueRef inst = v->value[i].from;
        lanes += v->value[i].shape.kind == VEC_LANES;
        if (v->value[i].block < 0 || !vec_plain_ok(v, inst))
            continue;
        if (LLVMIsACallInst(inst))
            accept_call(v, inst, v->value[i].block, together);
        else if (LLVMIsAAllocaInst(inst))
            accept_alloca(v, inst);
        else if (LLVMIsALoadInst(inst) || LLVMIsAStoreInst(inst))
            accept_access(v, inst);
    }
    if (lanes > MOST_LANES)
        vec_refuse(v, "its %u instructions on vectors", lanes);
    if (!v->why && !accept_collectives(v, together))
        vec_refuse(v, "warp collectives on both ways of a branch");
    return v->why ? -1 : 0;
}
