/* Warps as vectors: what may not be code for a whole warp, because lanes would wait for each other, or
 * because there is no form for it. */
#include "vector.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static void accept_call(struct vec *v, LLVMValueRef call, int block, unsigned char *together)
{
    const char *name = vec_callee(call);
    int barrier = !strcmp(name, "mt_cpu_barrier");
    if (barrier) {
        v->waits = 1;
        if (!LLVMIsAConstantInt(LLVMGetOperand(call, 0)) ||
            vec_shape_of(v, LLVMGetOperand(call, 1)).kind != VEC_UNIFORM ||
            vec_shape_of(v, LLVMGetOperand(call, 2)).kind != VEC_UNIFORM)
            vec_refuse(v, "a barrier that differs between lanes");
        if (!accept_barrier(v, block))
            vec_refuse(v, "a barrier that not all lanes come to");
    }
    if (!vec_is_lockstep_call(name))
        return;
    together[block] = 1;
    int members = vec_shape_of(v, LLVMGetOperand(call, 0)).kind;
    if ((!strcmp(name, "mt_cpu_match_all") || !strcmp(name, "mt_cpu_redux")) && members != VEC_UNIFORM)
        vec_refuse(v, "%s with members that differ between lanes", name);
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

/* A parameter that is a structure lies in memory that all threads share. */
static int accept_is_only_read(LLVMValueRef pointer, unsigned depth)
{
    for (LLVMUseRef use = LLVMGetFirstUse(pointer); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (LLVMIsALoadInst(user))
            continue;
        if (mt_starts(vec_callee(user), "llvm.memcpy") && LLVMGetOperand(user, 0) != pointer)
            continue;
        if (depth > 20 || !(LLVMIsAGetElementPtrInst(user) || LLVMIsAAddrSpaceCastInst(user)) ||
            !accept_is_only_read(user, depth + 1))
            return 0;
    }
    return 1;
}

int vec_accept(struct vec *v)
{
    unsigned char together[2048] = {0};
    unsigned lanes = 0;
    for (unsigned i = 0; i < LLVMCountParams(v->from); i++)
        if (mt_shim_byval_type(v->from, i) && !accept_is_only_read(LLVMGetParam(v->from, i), 0))
            vec_refuse(v, "a parameter that it writes to");
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
