/* Barriers, warp collectives and control of the thread: calls of the CPU device (format/image.h). */
#include "asm_lower.h"
#include "format/image.h"
#include <stdlib.h>
#include <string.h>

static LLVMValueRef asm_warp_call(struct mt_asm_body *l, const char *name, LLVMTypeRef result,
                                  LLVMValueRef *args, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!args[i])
            return NULL;
    return mt_asm_call_by_name(l, name, result, args, n);
}

static LLVMValueRef asm_warp_u32(struct mt_asm_body *l, uint32_t value)
{
    return mt_asm_const(l, 32, value);
}

/* Returns a predicate operand as 0 or 1 in 32 bits. */
static LLVMValueRef asm_warp_predicate(struct mt_asm_body *l, const struct mt_asm_operand *o)
{
    LLVMValueRef p = mt_asm_in(l, o, 1);
    return p ? LLVMBuildZExt(l->b, p, l->i32, "") : NULL;
}

static LLVMValueRef asm_warp_nonzero(struct mt_asm_body *l, LLVMValueRef v)
{
    return LLVMBuildICmp(l->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

/* shfl{.sync}.mode.b32 d{|p}, a, lane, c{, mask} */
int mt_asm_warp_shfl(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    int sync = mt_asm_has(l->s, "sync");
    uint32_t mode = mt_asm_has(l->s, "up")     ? MT_SHFL_UP
                    : mt_asm_has(l->s, "down") ? MT_SHFL_DOWN
                    : mt_asm_has(l->s, "bfly") ? MT_SHFL_BFLY
                                               : MT_SHFL_IDX;
    if (mt_asm_count(l, sync ? 5 : 4, sync ? 5 : 4))
        return -1;
    LLVMValueRef mask =
        sync ? mt_asm_in(l, &o[4], 32) : asm_warp_call(l, "mt_cpu_activemask", l->i32, NULL, 0);
    LLVMValueRef args[] = {mask, mt_asm_in(l, &o[1], 32), mt_asm_in(l, &o[2], 32), mt_asm_in(l, &o[3], 32),
                           asm_warp_u32(l, mode)};
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_shfl", l->i64, args, 5);
    if (!r)
        return -1;
    if (mt_asm_out(l, &o[0], LLVMBuildTrunc(l->b, r, l->i32, ""), 0))
        return -1;
    if (!o[0].second)
        return 0;
    LLVMValueRef p = LLVMBuildLShr(l->b, r, mt_asm_const(l, 64, 32), "");
    return mt_asm_out(l, o[0].second, LLVMBuildTrunc(l->b, p, l->i1, ""), 0);
}

/* vote{.sync}.mode.type d, {!}p{, mask} */
int mt_asm_warp_vote(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    int sync = mt_asm_has(l->s, "sync"), ballot = mt_asm_has(l->s, "ballot");
    uint32_t mode = ballot                    ? MT_VOTE_BALLOT
                    : mt_asm_has(l->s, "all") ? MT_VOTE_ALL
                    : mt_asm_has(l->s, "any") ? MT_VOTE_ANY
                                              : MT_VOTE_UNI;
    if (mt_asm_count(l, sync ? 3 : 2, sync ? 3 : 2))
        return -1;
    LLVMValueRef mask =
        sync ? mt_asm_in(l, &o[2], 32) : asm_warp_call(l, "mt_cpu_activemask", l->i32, NULL, 0);
    LLVMValueRef args[] = {mask, asm_warp_predicate(l, &o[1]), asm_warp_u32(l, mode)};
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_vote", l->i32, args, 3);
    if (!r)
        return -1;
    return mt_asm_out(l, &o[0], ballot ? r : asm_warp_nonzero(l, r), 0);
}

/* match.any.sync.type d, a, mask; match.all.sync.type d{|p}, a, mask */
int mt_asm_warp_match(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    struct mt_asm_type t;
    if (mt_asm_count(l, 3, 3) || mt_asm_last_type(l, &t))
        return -1;
    LLVMValueRef v = mt_asm_in(l, &o[1], t.bits);
    LLVMValueRef args[] = {mt_asm_in(l, &o[2], 32), v ? LLVMBuildZExt(l->b, v, l->i64, "") : NULL};
    LLVMValueRef r =
        asm_warp_call(l, mt_asm_has(l->s, "all") ? "mt_cpu_match_all" : "mt_cpu_match_any", l->i32, args, 2);
    if (!r || mt_asm_out(l, &o[0], r, 0))
        return -1;
    return o[0].second ? mt_asm_out(l, o[0].second, asm_warp_nonzero(l, r), 0) : 0;
}

int mt_asm_warp_redux(struct mt_asm_body *l)
{
    static const struct {
        const char *word;
        uint32_t is_unsigned, is_signed;
    } table[] = {{"add", MT_REDUX_ADD, MT_REDUX_ADD},  {"min", MT_REDUX_UMIN, MT_REDUX_MIN},
                 {"max", MT_REDUX_UMAX, MT_REDUX_MAX}, {"and", MT_REDUX_AND, MT_REDUX_AND},
                 {"or", MT_REDUX_OR, MT_REDUX_OR},     {"xor", MT_REDUX_XOR, MT_REDUX_XOR}};
    const struct mt_asm_operand *o = l->s->operands;
    struct mt_asm_type t;
    if (mt_asm_count(l, 3, 3) || mt_asm_last_type(l, &t))
        return -1;
    for (unsigned i = 0; i < sizeof table / sizeof *table && t.kind != 'f'; i++) {
        if (!mt_asm_has(l->s, table[i].word))
            continue;
        LLVMValueRef args[] = {mt_asm_in(l, &o[2], 32), mt_asm_in(l, &o[1], 32),
                               asm_warp_u32(l, t.kind == 's' ? table[i].is_signed : table[i].is_unsigned)};
        LLVMValueRef r = asm_warp_call(l, "mt_cpu_redux", l->i32, args, 3);
        return r ? mt_asm_out(l, &o[0], r, 0) : -1;
    }
    return mt_asm_fallback(l);
}

int mt_asm_warp_activemask(struct mt_asm_body *l)
{
    if (mt_asm_count(l, 1, 1))
        return -1;
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_activemask", l->i32, NULL, 0);
    return r ? mt_asm_out(l, &l->s->operands[0], r, 0) : -1;
}

/* elect.sync d|p, mask: elects the lowest lane of the mask. */
int mt_asm_warp_elect(struct mt_asm_body *l)
{
    const struct mt_asm_operand *o = l->s->operands;
    if (mt_asm_count(l, 2, 2))
        return -1;
    LLVMValueRef mask = mt_asm_in(l, &o[1], 32), lane = mask ? mt_asm_special(l, "laneid") : NULL;
    if (!lane || !asm_warp_call(l, "mt_cpu_syncwarp", l->none, &mask, 1))
        return -1;
    LLVMValueRef args[] = {mask, mt_asm_const(l, 1, 0)};
    LLVMValueRef leader = mt_asm_intrinsic(l, "llvm.cttz", l->i32, args, 2);
    lane = LLVMBuildIntCast2(l->b, lane, l->i32, 0, "");
    if (o[0].second && mt_asm_out(l, o[0].second, LLVMBuildICmp(l->b, LLVMIntEQ, lane, leader, ""), 0))
        return -1;
    return mt_asm_out(l, &o[0], leader, 0);
}

/* bar{.cta}.sync a{, b}; bar.arrive a, b; bar.red.op.type d, a{, b}, {!}c; bar.warp.sync mask; barrier.… the
 * same */
int mt_asm_warp_bar(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    const struct mt_asm_operand *o = s->operands;
    if (mt_asm_has(s, "cluster")) {
        int arrives = mt_asm_has(s, "arrive");
        if (mt_asm_count(l, 0, 0) || arrives == mt_asm_has(s, "wait"))
            return -1;
        return asm_warp_call(l, arrives ? "mt_cpu_cluster_arrive" : "mt_cpu_cluster_wait", l->none, NULL, 0)
                   ? 0
                   : -1;
    }
    if (mt_asm_has(s, "warp")) {
        LLVMValueRef mask = mt_asm_count(l, 1, 1) ? NULL : mt_asm_in(l, o, 32);
        return asm_warp_call(l, "mt_cpu_syncwarp", l->none, &mask, 1) ? 0 : -1;
    }
    int red = mt_asm_has(s, "red"), arrive = mt_asm_has(s, "arrive");
    unsigned first = (unsigned)red;
    if (mt_asm_count(l, first + 1 + (unsigned)red, first + 2 + (unsigned)red))
        return -1;
    LLVMValueRef id = mt_asm_in(l, &o[first], 32);
    LLVMValueRef count =
        s->noperands == first + 2 + (unsigned)red ? mt_asm_in(l, &o[first + 1], 32) : asm_warp_u32(l, 0);
    /* bar is barrier.aligned: if one thread of a warp reaches it, all do. */
    int aligned = !strcmp(s->parts[0], "bar") || mt_asm_has(s, "aligned");
    if (arrive) {
        LLVMValueRef args[] = {id, count, asm_warp_u32(l, (uint32_t)aligned)};
        return asm_warp_call(l, "mt_cpu_barrier_arrive", l->none, args, 3) ? 0 : -1;
    }
    uint32_t kind = !red ? 0 : mt_asm_has(s, "popc") ? 1 : mt_asm_has(s, "and") ? 2 : 3;
    kind |= aligned ? 0 : MT_BARRIER_SOME;
    LLVMValueRef args[] = {asm_warp_u32(l, kind), id, count,
                           red ? asm_warp_predicate(l, &o[s->noperands - 1]) : asm_warp_u32(l, 0)};
    LLVMValueRef r = asm_warp_call(l, "mt_cpu_barrier", l->i32, args, 4);
    if (!r)
        return -1;
    return red ? mt_asm_out(l, &o[0], kind == 1 ? r : asm_warp_nonzero(l, r), 0) : 0;
}

int mt_asm_warp_nanosleep(struct mt_asm_body *l)
{
    LLVMValueRef ns = mt_asm_count(l, 1, 1) ? NULL : mt_asm_in(l, l->s->operands, 32);
    return asm_warp_call(l, "mt_cpu_nanosleep", l->none, &ns, 1) ? 0 : -1;
}

int mt_asm_warp_trap(struct mt_asm_body *l)
{
    return asm_warp_call(l, "mt_cpu_trap", l->none, NULL, 0) ? 0 : -1;
}

int mt_asm_warp_exit(struct mt_asm_body *l)
{
    return asm_warp_call(l, "mt_cpu_exit_thread", l->none, NULL, 0) ? 0 : -1;
}
