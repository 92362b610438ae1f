/* Accesses of inline assembly whose addresses are computed inside it: see mt_asm_ahead in asm.h.
 *
 * The body is lowered like for the CPU image, but of its statements only plain arithmetic and jumps are made.
 * A register is *hidden* when its value cannot be known ahead. In a body without jumps that is followed
 * statement by statement; with jumps a register that is hidden anywhere is hidden everywhere. */
#include "asm.h"
#include "asm_lower.h"
#include <stdlib.h>
#include <string.h>

struct ahead {
    struct mt_asm_body l;
    const struct mt_asm_ahead *calls;
    unsigned char *hidden; /* per register of the body, then per output */
    int jumps;
};

static unsigned char *asm_ahead_slot(struct ahead *x, const struct mt_asm_operand *o)
{
    if (o->kind == MT_ASM_REG)
        return &x->hidden[o->index];
    if (o->kind == MT_ASM_ARG && o->index < x->l.ties->noutputs)
        return &x->hidden[x->l.a->nregs + o->index];
    return NULL;
}

static int is_hidden(struct ahead *x, const struct mt_asm_operand *o)
{
    unsigned char *at = asm_ahead_slot(x, o);
    if (at && *at)
        return 1;
    for (unsigned i = 0; (o->kind == MT_ASM_VECTOR || o->kind == MT_ASM_MEMORY) && i < o->nitems; i++)
        if (is_hidden(x, &o->items[i]))
            return 1;
    return o->second && is_hidden(x, o->second);
}

/* The registers that a statement writes are in its first operand. Returns whether anything changed. */
static int asm_ahead_set(struct ahead *x, const struct mt_asm_operand *o, int hidden)
{
    unsigned char *at = asm_ahead_slot(x, o);
    int changed = 0;
    if (o->kind == MT_ASM_MEMORY)
        return 0;
    if (at && *at != hidden) {
        *at = (unsigned char)hidden;
        changed = 1;
    }
    for (unsigned i = 0; o->kind == MT_ASM_VECTOR && i < o->nitems; i++)
        changed |= asm_ahead_set(x, &o->items[i], hidden);
    if (o->second)
        changed |= asm_ahead_set(x, o->second, hidden);
    return changed;
}

/* Integer arithmetic without carry flags, moves and comparisons. */
static int is_plain(const struct mt_asm_statement *s)
{
    struct mt_asm_type t;
    for (unsigned i = 1; i < s->nparts; i++)
        if (!strcmp(s->parts[i], "cc") ||
            (mt_asm_type(s->parts[i], &t) && (strchr("fgt", t.kind) || t.lanes > 1)))
            return 0;
    return mt_asm_is(s, MT_ASM_AHEAD) && (strcmp(s->parts[0], "cvta") || mt_asm_has(s, "global"));
}

static int reads_hidden(struct ahead *x, const struct mt_asm_statement *s)
{
    if (s->predicate && (is_hidden(x, s->predicate) || (s->noperands && is_hidden(x, &s->operands[0]))))
        return 1;
    for (unsigned i = 1; i < s->noperands; i++)
        if (is_hidden(x, &s->operands[i]))
            return 1;
    return 0;
}

static int is_jump(const struct mt_asm_statement *s)
{
    return !strcmp(s->parts[0], "bra");
}

/* With jumps, before anything is made. 0, or -1: where they lead is hidden. */
static int find_hidden(struct ahead *x)
{
    for (int changed = 1; changed;) {
        changed = 0;
        for (unsigned i = 0; i < x->l.a->nstatements; i++) {
            const struct mt_asm_statement *s = &x->l.a->statements[i];
            if (!s->label && s->noperands && !is_jump(s) && (!is_plain(s) || reads_hidden(x, s)))
                changed |= asm_ahead_set(x, &s->operands[0], 1);
        }
    }
    for (unsigned i = 0; i < x->l.a->nstatements; i++) {
        const struct mt_asm_statement *s = &x->l.a->statements[i];
        if (!s->label && is_jump(s) && s->predicate && is_hidden(x, s->predicate))
            return -1;
    }
    return 0;
}

/* ---- one statement ---- */

/* Blocks around what happens only if `condition` (i1) holds: the builder is inside;
 * returns the one after. */
static LLVMBasicBlockRef open_if(struct mt_asm_body *l, LLVMValueRef condition)
{
    LLVMBasicBlockRef then = mt_asm_block(l), after = mt_asm_block(l);
    LLVMBuildCondBr(l->b, condition, then, after);
    LLVMPositionBuilderAtEnd(l->b, then);
    return after;
}

static void close_if(struct mt_asm_body *l, LLVMBasicBlockRef after)
{
    if (!after)
        return;
    LLVMBuildBr(l->b, after);
    LLVMPositionBuilderAtEnd(l->b, after);
}

/* The access that `t` says, as values; 0, or -1 when they are hidden or not understood. */
static int values_of(struct ahead *x, const struct mt_asm_touch *t, struct mt_asm_ahead_access *out)
{
    struct mt_asm_body *l = &x->l;
    if (is_hidden(x, t->memory) || (t->length && is_hidden(x, t->length)) ||
        (t->ignore && is_hidden(x, t->ignore)))
        return -1;
    LLVMValueRef p = mt_asm_address(l, t->memory, 0);
    *out = (struct mt_asm_ahead_access){.op = t->op, .size = t->size, .generic = t->generic};
    if (!p)
        return -1;
    out->address = LLVMBuildPtrToInt(l->b, p, l->i64, "");
    if (t->length && !(out->bytes = mt_asm_in(l, t->length, 64)))
        return -1;
    if (t->ignore) {
        LLVMValueRef ignore = mt_asm_in(l, t->ignore, 1);
        if (!ignore)
            return -1;
        out->bytes = LLVMBuildSelect(l->b, ignore, mt_asm_const(l, 64, 0), out->bytes, "");
    }
    return 0;
}

/* wmma.load.… {registers}, [address]{, stride}; wmma.store.… [address], {registers}{, stride} */
static int wmma_of(struct ahead *x, const struct mt_asm_statement *s, struct mt_asm_ahead_access *out)
{
    struct mt_asm_body *l = &x->l;
    struct mt_wmma w;
    if (strcmp(s->parts[0], "wmma") || s->noperands < 2 || mt_wmma_read(s->parts, s->nparts, &w))
        return -1;
    const struct mt_asm_operand *m = &s->operands[w.op == MT_LOAD];
    const struct mt_asm_operand *stride = s->noperands > 2 ? &s->operands[2] : NULL;
    if (m->kind != MT_ASM_MEMORY || is_hidden(x, m) || (stride && is_hidden(x, stride)))
        return -1;
    LLVMValueRef p = mt_asm_address(l, m, 0), by = stride ? mt_asm_in(l, stride, 32) : NULL;
    if (!p || (stride && !by))
        return -1;
    LLVMValueRef base = LLVMBuildPtrToInt(l->b, p, l->i64, "");
    *out = (struct mt_asm_ahead_access){.op = w.op,
                                        .address = mt_wmma_address(l->m, l->b, &w, base, by),
                                        .size = w.size,
                                        .generic = !mt_asm_has(s, "global")};
    return 0;
}

/* A tensor copy; the shared address is as the asm has it. */
static int tensor_of(struct ahead *x, const struct mt_asm_statement *s, struct mt_asm_ahead_access *out)
{
    struct mt_asm_body *l = &x->l;
    struct mt_asm_tensor t;
    if (mt_asm_tensor_read(s, &t) || is_hidden(x, t.map) || is_hidden(x, t.shared) ||
        (t.ctas && is_hidden(x, t.ctas)))
        return -1;
    *out = (struct mt_asm_ahead_access){.op = mt_asm_tensor_type(&t), .rank = t.rank};
    for (unsigned i = 0; i < MT_TENSOR_RANK_MAX; i++) {
        if (i < t.rank && is_hidden(x, &t.at[i]))
            return -1;
        if (!(out->at[i] = i < t.rank ? mt_asm_in(l, &t.at[i], 32) : mt_asm_const(l, 32, 0)))
            return -1;
    }
    LLVMValueRef p = mt_asm_address(l, t.shared, 0);
    out->address = mt_asm_in(l, t.map, 64);
    out->ctas = t.ctas ? mt_asm_in(l, t.ctas, 16) : mt_asm_const(l, 16, 0);
    if (!p || !out->address || !out->ctas)
        return -1;
    out->shared = LLVMBuildPtrToInt(l->b, p, l->i64, "");
    out->ctas = LLVMBuildZExt(l->b, out->ctas, l->i32, "");
    return 0;
}

static int make_access(struct ahead *x, const struct mt_asm_statement *s, const struct mt_asm_touch *t,
                       int found)
{
    struct mt_asm_body *l = &x->l;
    struct mt_asm_ahead_access a;
    LLVMBasicBlockRef after = NULL;
    int guard_hidden = s->predicate && is_hidden(x, s->predicate); /* then it is counted */
    if (s->predicate && !guard_hidden) {
        LLVMValueRef guard = mt_asm_in(l, s->predicate, 1);
        if (!guard)
            return -1;
        after = open_if(l, guard);
    }
    if (!guard_hidden && !(found > 0 ? values_of(x, t, &a) : wmma_of(x, s, &a) && tensor_of(x, s, &a)))
        x->calls->access(x->calls->ctx, l->b, &a);
    else
        x->calls->untraced(x->calls->ctx, l->b, s->opcode);
    l->error->message[0] = 0;
    close_if(l, after);
    return 0;
}

static int asm_ahead_statement(struct ahead *x, const struct mt_asm_statement *s)
{
    struct mt_asm_body *l = &x->l;
    struct mt_asm_touch t;
    l->s = s;
    if (s->label)
        return mt_asm_statement(l);
    if (is_jump(s))
        return mt_asm_statement(l);
    if (!strcmp(s->parts[0], "brx") || !strcmp(s->parts[0], "exit") || !strcmp(s->parts[0], "ret"))
        return -1;
    int found = mt_asm_touches(l->a, s, &t);
    if (found && make_access(x, s, &t, found))
        return -1;
    int hidden = found || !is_plain(s) || reads_hidden(x, s);
    if (!hidden && mt_asm_statement(l)) {
        if (x->jumps)
            return -1; /* earlier statements counted on it */
        l->error->message[0] = 0;
        hidden = 1;
    }
    if (!x->jumps && s->noperands)
        asm_ahead_set(x, &s->operands[0], hidden);
    return 0;
}

static int asm_ahead_walk(struct ahead *x)
{
    if (mt_asm_begin(&x->l))
        return -1;
    x->jumps = mt_asm_has_branches(x->l.a);
    if (x->jumps && find_hidden(x))
        return -1;
    for (unsigned i = 0; i < x->l.a->nstatements; i++)
        if (asm_ahead_statement(x, &x->l.a->statements[i]))
            return -1;
    return 0;
}

int mt_asm_ahead(LLVMModuleRef m, LLVMValueRef call, const struct mt_asm_ahead *ahead)
{
    struct mt_asm_error error = {0};
    struct mt_asm_ties ties;
    struct mt_asm_builtins none = {0};
    size_t length;
    int failed = -1;
    if (!LLVMIsACallInst(call))
        return -1;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, &error);
    struct ahead x = {
        .l = {.m = m, .call = call, .a = a, .ties = &ties, .builtins = &none, .error = &error, .ahead = 1},
        .calls = ahead};
    if (!a || mt_asm_ties_read(call, &ties, &error))
        goto out;
    x.hidden = calloc(a->nregs + ties.noutputs + 1, 1);
    if (!x.hidden)
        goto out;
    failed = asm_ahead_walk(&x);
    if (failed)
        mt_asm_undo(&x.l);
    else
        mt_asm_insert_before(&x.l);
    mt_asm_end(&x.l);
out:
    free(x.hidden);
    mt_asm_free(a);
    return failed;
}
