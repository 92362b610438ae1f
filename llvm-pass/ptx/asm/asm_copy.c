/* Asynchronous copies of PTX, completed at once, and the barriers that count them. */
#include "asm_lower.h"
#include <string.h>

/* cp.async [dst], [src], size{, src-size | ignore-src}{, policy}: copies at once and zeroes the rest. */
static int cp_async(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    unsigned hint = strstr(s->opcode, "::cache_hint") != NULL;
    if (mt_asm_count(l, 3, 5))
        return -1;
    LLVMValueRef n = mt_asm_in(l, &s->operands[2], 64);
    LLVMValueRef dst = mt_asm_address(l, &s->operands[0], 1);
    if (!n || !dst)
        return -1;
    if (s->noperands - hint == 4) {
        const struct mt_asm_operand *o = &s->operands[3];
        LLVMBuildMemSet(l->b, dst, mt_asm_const(l, 8, 0), n, 1);
        LLVMValueRef less;
        if (mt_asm_width(l, o) == 1) {
            LLVMValueRef ignore = mt_asm_in(l, o, 1);
            less = ignore ? LLVMBuildSelect(l->b, ignore, mt_asm_const(l, 64, 0), n, "") : NULL;
        } else {
            less = mt_asm_in(l, o, 64);
        }
        if (!less)
            return -1;
        LLVMValueRef args[] = {n, less};
        n = mt_asm_intrinsic(l, "llvm.umin", l->i64, args, 2);
    }
    LLVMValueRef src = mt_asm_address(l, &s->operands[1], 0);
    if (!src)
        return -1;
    LLVMBuildMemCpy(l->b, dst, 1, src, 1, n);
    return 0;
}

/* cp.reduce.async.bulk.global.shared::cta.bulk_group.op.type [dst], [src], size: one atomic per element. */
static int bulk_reduce(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    struct mt_asm_type t;
    if (s->nparts < 8 || strcmp(s->parts[4], "global") || strncmp(s->parts[5], "shared", 6))
        return mt_asm_fallback(l);
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 3, 4))
        return -1;
    LLVMTypeRef type = mt_asm_int(l, t.bits * t.lanes);
    LLVMValueRef n = mt_asm_in(l, &s->operands[2], 64), at = mt_asm_slot(l, l->i64, "");
    LLVMValueRef dst = mt_asm_address(l, &s->operands[0], 0), src = mt_asm_address(l, &s->operands[1], 1);
    if (!n || !at || !dst || !src)
        return -1;
    mt_asm_mark(l, LLVMBuildGEP2(l->b, l->i8, dst, &n, 1, ""), MT_ATOMIC, 0); /* one access in all */
    LLVMBasicBlockRef test = mt_asm_block(l), body = mt_asm_block(l), done = mt_asm_block(l);
    n = LLVMBuildUDiv(l->b, n, mt_asm_const(l, 64, t.bits * t.lanes / 8), "");
    LLVMBuildStore(l->b, mt_asm_const(l, 64, 0), at);
    LLVMBuildBr(l->b, test);
    LLVMPositionBuilderAtEnd(l->b, test);
    LLVMValueRef i = LLVMBuildLoad2(l->b, l->i64, at, "");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, i, n, ""), body, done);
    LLVMPositionBuilderAtEnd(l->b, body);
    LLVMValueRef v = LLVMBuildLoad2(l->b, type, LLVMBuildGEP2(l->b, type, src, &i, 1, ""), "");
    if (!mt_asm_atomic(l, LLVMBuildGEP2(l->b, type, dst, &i, 1, ""), v, t, 0))
        return -1;
    LLVMBuildStore(l->b, LLVMBuildAdd(l->b, i, mt_asm_const(l, 64, 1), ""), at);
    LLVMBuildBr(l->b, test);
    LLVMPositionBuilderAtEnd(l->b, done);
    return 0;
}

/* Marks a copy by a builtin, whose accesses the second count cannot see. */
static void mark_copy(struct mt_asm_body *l)
{
    struct mt_asm_touch t;
    if (mt_asm_touches(l->a, l->s, &t) != 1 || !t.length || t.ignore)
        return;
    LLVMValueRef p = mt_asm_address(l, t.memory, 0), n = mt_asm_in(l, t.length, 64);
    if (p && n)
        mt_asm_mark(l, LLVMBuildGEP2(l->b, l->i8, p, &n, 1, ""), t.op, 0);
}

/* Calls the builtin without the optional cache policy at the end. */
static int copy_by_builtin(struct mt_asm_body *l, LLVMValueRef builtin, LLVMTypeRef type)
{
    const struct mt_asm_statement *whole = l->s;
    struct mt_asm_statement s = *whole;
    s.noperands -= s.noperands && mt_asm_has(&s, "L2::cache_hint");
    mark_copy(l);
    l->s = &s;
    int failed = mt_asm_call_builtin(l, builtin, type);
    l->s = whole;
    return failed;
}

int mt_asm_copy_cp(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    static const char *const done[] = {"commit_group", "wait_group", "wait_all", "prefetch"};
    LLVMTypeRef type;
    if (mt_asm_has(s, "tensor") && !mt_asm_has(s, "prefetch"))
        return mt_asm_tensor(l);
    LLVMValueRef builtin = mt_asm_find_builtin(l, &type);
    if (builtin)
        return copy_by_builtin(l, builtin, type);
    for (unsigned i = 0; i < sizeof done / sizeof *done; i++)
        if (mt_asm_has(s, done[i]))
            return 0; /* copies complete when issued */
    if (mt_asm_has(s, "mbarrier"))
        return mt_asm_fallback(l);
    if (mt_asm_has(s, "reduce"))
        return bulk_reduce(l);
    if (!mt_asm_has(s, "bulk"))
        return cp_async(l);
    if (s->nparts < 5 || strcmp(s->parts[3], "global") || mt_asm_has(s, "cp_mask"))
        return mt_asm_fallback(l);
    if (mt_asm_count(l, 3, 4))
        return -1;
    /* to global memory: [dst], [src], size */
    LLVMValueRef n = mt_asm_in(l, &s->operands[2], 64);
    LLVMValueRef dst = mt_asm_address(l, &s->operands[0], 0), src = mt_asm_address(l, &s->operands[1], 1);
    if (!n || !dst || !src)
        return -1;
    LLVMBuildMemCpy(l->b, dst, 1, src, 1, n);
    return 0;
}

/* ---- mbarrier ---- */

/* Calls the builtin for mbarrier.arrive without a count, which is then 1. */
static int arrive_once(struct mt_asm_body *l)
{
    const struct mt_asm_statement *whole = l->s;
    struct mt_asm_statement s = *whole;
    struct mt_asm_operand operands[3];
    LLVMTypeRef type;
    LLVMValueRef builtin = mt_asm_find_builtin(l, &type);
    if (!builtin || LLVMCountParamTypes(type) != 2)
        return mt_asm_fallback(l);
    operands[0] = whole->operands[0];
    operands[1] = whole->operands[1];
    operands[2] = (struct mt_asm_operand){.kind = MT_ASM_INT, .bits = 1};
    s.operands = operands;
    s.noperands = 3;
    l->s = &s;
    int failed = mt_asm_call_builtin(l, builtin, type);
    l->s = whole;
    return failed;
}

/* Lowers mbarrier operations. mbarrier.arrive{.drop} with a count has a builtin of its own; the time limit
 * of try_wait is only a hint. */
int mt_asm_copy_mbarrier(struct mt_asm_body *l)
{
    const struct mt_asm_statement *whole = l->s;
    struct mt_asm_statement s = *whole;
    int wait = mt_asm_has(whole, "try_wait"),
        plain = mt_asm_has(whole, "arrive") && !mt_asm_has(whole, "expect_tx");
    if (plain && s.noperands == 2 && !mt_asm_has(whole, "noComplete"))
        return arrive_once(l);
    if (wait && s.noperands > 3)
        s.noperands = 3;
    if (plain && s.noperands == 3 && !mt_asm_has(whole, "noComplete")) {
        s.nparts = 0;
        for (unsigned i = 0; i < whole->nparts; i++) {
            const char *part = whole->parts[i];
            int last_word = !strcmp(part, mt_asm_has(whole, "drop") ? "drop" : "arrive");
            if (i < 3 || !strncmp(part, "shared", 6) || i + 1 == whole->nparts)
                if (strcmp(part, "release") && strcmp(part, "relaxed") && s.nparts + 2 < MT_ASM_MAX_PARTS)
                    s.parts[s.nparts++] =
                        strncmp(part, "shared", 6) ? part : "shared::cta"; /* a CTA is its own cluster */
            if (last_word)
                s.parts[s.nparts++] = "noComplete";
        }
    }
    l->s = &s;
    int failed = mt_asm_fallback(l);
    l->s = whole;
    return failed;
}
