/* Memory accesses of inline assembly, as operands of its call: the part of the asm parser used by
 * instrumentation. In PTX that was read, each call is one instruction with the call's operands or
 * constants. */
#include "asm.h"
#include "asm_lower.h"
#include <stdlib.h>
#include <string.h>

struct scan {
    const struct mt_asm *a;
    const struct mt_asm_ties *t;
    LLVMValueRef call;
    struct mt_asm_barrier *barrier; /* set to search for barriers: the result */
    int barriers;
    int shared; /* 1: search for accesses to shared memory; 0: global */
    struct mt_asm_access *out;
    int count, max;
};

/* Returns the operand of the call; -1: none. */
static int argument_of(const struct scan *s, const struct mt_asm_operand *o)
{
    return o->kind == MT_ASM_ARG && o->index < s->t->noperands ? s->t->operands[o->index].argument : -1;
}

static int constant_of(struct scan *s, const struct mt_asm_operand *o, int64_t *value)
{
    int argument = argument_of(s, o);
    if (o->kind == MT_ASM_INT)
        *value = (int64_t)o->bits;
    if (o->kind == MT_ASM_INT || argument < 0)
        return o->kind == MT_ASM_INT;
    LLVMValueRef v = LLVMGetOperand(s->call, (unsigned)argument);
    if (!LLVMIsAConstantInt(v) || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64)
        return 0;
    *value = LLVMConstIntGetSExtValue(v);
    return 1;
}

/* ---- accesses ----------------------------------------------------------------------------------- */

static int asm_access_is_flag(const struct scan *s, int argument)
{
    LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(s->call, (unsigned)argument));
    return LLVMGetTypeKind(type) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(type) == 1;
}

/* Handles cp.async [dst], [src], size, ignore-src with a predicate from outside the asm. Returns 0 or -1. */
static int asm_access_ignored(struct scan *s, const struct mt_asm_statement *st, int argument,
                              struct mt_asm_access *x)
{
    int64_t size;
    if (st->predicate || !constant_of(s, &st->operands[2], &size) || size <= 0 || size > UINT32_MAX)
        return -1;
    x->size = (uint32_t)size;
    x->predicated = 1;
    x->only_if = argument;
    x->only_if_inverted = 1;
    return 0;
}

/* Adds the accesses of a statement, as values outside the asm. Returns 0 or -1. */
static int asm_access_add(struct scan *s, const struct mt_asm_statement *st, const struct mt_asm_touch *t)
{
    struct mt_asm_access x = {.op = t->op,
                              .size = t->size,
                              .size_argument = -1,
                              .generic = t->generic,
                              .lanes = t->lanes,
                              .only_if = -1};
    const struct mt_asm_operand *m = t->memory;
    int64_t c;
    if (t->ignore)
        return -1;
    if (t->length && constant_of(s, t->length, &c)) {
        if (c <= 0)
            return 0;
        if ((uint64_t)c > UINT32_MAX)
            return -1;
        x.size = (uint32_t)c;
    } else if (t->length) {
        int argument = argument_of(s, t->length);
        if (argument < 0)
            return -1;
        if (!asm_access_is_flag(s, argument)) {
            x.size = 0;
            x.size_argument = argument;
        } else if (asm_access_ignored(s, st, argument, &x)) {
            return -1;
        }
    }
    x.argument = argument_of(s, &m->items[0]);
    x.offset = m->offset;
    if (m->second && constant_of(s, m->second, &c))
        x.offset += c;
    else if (m->second)
        x.argument = -1;
    if (st->predicate)
        x.predicated = 1;
    if (s->count == s->max)
        return -1;
    s->out[s->count++] = x;
    return 0;
}

static int asm_access_access(struct scan *s, const struct mt_asm_statement *st)
{
    struct mt_asm_touch t;
    int found = (s->shared ? mt_asm_touches_shared : mt_asm_touches)(s->a, st, &t);
    return found > 0 ? asm_access_add(s, st, &t) : found;
}

/* Calls `each` for the statements while it returns 0. Returns its last result, or -1 if the text is not
 * understood, or jumps. */
static int asm_access_scan(struct scan *s, int (*each)(struct scan *, const struct mt_asm_statement *))
{
    struct mt_asm_error error;
    struct mt_asm_ties ties;
    size_t length;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(s->call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, &error);
    int result = a && !mt_asm_ties_read(s->call, &ties, &error) ? 0 : -1;
    s->a = a;
    s->t = &ties;
    for (unsigned i = 0; !result && i < a->nstatements; i++)
        result = a->statements[i].label ? -1 : each(s, &a->statements[i]);
    mt_asm_free(a);
    return result;
}

static int asm_access_list(LLVMValueRef call, struct mt_asm_access *out, int max, int shared)
{
    struct scan s = {.call = call, .out = out, .max = max, .shared = shared};
    return asm_access_scan(&s, asm_access_access) ? -1 : s.count;
}

int mt_asm_accesses(LLVMValueRef call, struct mt_asm_access *out, int max)
{
    return asm_access_list(call, out, max, 0);
}

int mt_asm_shared_accesses(LLVMValueRef call, struct mt_asm_access *out, int max)
{
    return asm_access_list(call, out, max, 1);
}

/* ---- barriers ----------------------------------------------------------------------------------- */

/* Finds the call's operand or constant for a statement's operand. Returns 0, or -1 if unknown. */
static int barrier_operand(struct scan *s, const struct mt_asm_operand *o, int *argument, int64_t *value)
{
    *argument = -1;
    if (constant_of(s, o, value))
        return 0;
    *argument = argument_of(s, o);
    return *argument < 0 ? -1 : 0;
}

static void barrier_unknown(struct mt_asm_barrier *out)
{
    *out = (struct mt_asm_barrier){.kind = MT_SYNC_BARRIER,
                                   .argument = -1,
                                   .number = MT_BARRIER_UNKNOWN,
                                   .phase = -1,
                                   .parity = -1,
                                   .result = -1};
}

/* Finds the object: the last memory operand. Returns 0, or -1 if it is unknown or another CTA's, or there
 * is a predicate. */
static int barrier_object(struct scan *s, const struct mt_asm_statement *st)
{
    const struct mt_asm_operand *m = NULL;
    for (unsigned i = 0; i < st->noperands; i++)
        if (st->operands[i].kind == MT_ASM_MEMORY)
            m = &st->operands[i];
    if (!m || m->nitems != 1 || m->second || st->predicate ||
        (s->barrier->kind != MT_SYNC_COPY && strstr(st->opcode, "shared::cluster")))
        return -1;
    s->barrier->object = 1;
    s->barrier->argument = argument_of(s, &m->items[0]);
    s->barrier->offset = m->offset;
    return s->barrier->argument < 0 ? -1 : 0;
}

static void barrier_in_memory(struct scan *s, const struct mt_asm_statement *st)
{
    struct mt_asm_barrier *out = s->barrier;
    int wait = mt_asm_has(st, "test_wait") || mt_asm_has(st, "try_wait");
    out->kind = wait ? MT_SYNC_BARRIER : MT_SYNC_ARRIVE;
    out->init = mt_asm_has(st, "init");
    if (barrier_object(s, st) != 0) {
        out->object = out->init = 0;
        out->argument = -1;
        out->number = MT_BARRIER_UNKNOWN;
        return;
    }
    if (!wait)
        return;
    if (st->operands[0].kind == MT_ASM_ARG && st->operands[0].index < s->t->noutputs)
        out->result = s->t->operands[st->operands[0].index].output;
    if (mt_asm_has(st, "parity") && st->noperands > 2 &&
        barrier_operand(s, &st->operands[2], &out->phase, &out->parity) != 0)
        out->parity = -1;
}

static void barrier_of_cta(struct scan *s, const struct mt_asm_statement *st)
{
    struct mt_asm_barrier *out = s->barrier;
    const struct mt_asm_operand *number = st->noperands ? &st->operands[mt_asm_has(st, "red")] : NULL;
    int64_t c;
    if (mt_asm_has(st, "warp"))
        out->kind = MT_SYNC_WARP;
    else if (mt_asm_has(st, "arrive"))
        out->kind = MT_SYNC_ARRIVE;
    if (mt_asm_has(st, "cluster"))
        out->number = MT_BARRIER_CLUSTER;
    else if (number && barrier_operand(s, number, &out->argument, &c) == 0 && out->argument < 0)
        out->number = (uint64_t)c;
}

static int is_in_memory(const struct mt_asm_statement *st)
{
    return !strcmp(st->parts[0], "mbarrier") &&
           (mt_asm_has(st, "init") || mt_asm_has(st, "arrive") || mt_asm_has(st, "arrive_drop") ||
            mt_asm_has(st, "test_wait") || mt_asm_has(st, "try_wait"));
}

/* ---- asynchronous copies ---- */

/* Returns 1, but not for copies from shared to shared memory, whose accesses are not recorded there. */
static int is_of_copies(const struct mt_asm_statement *st)
{
    unsigned shared = 0;
    for (unsigned i = 0; i < st->nparts; i++)
        shared += !strncmp(st->parts[i], "shared", 6);
    return !strcmp(st->parts[0], "cp") && mt_asm_has(st, "async") && !mt_asm_has(st, "prefetch") &&
           shared < 2;
}

/* Handles cp.async.mbarrier.arrive, or a copy that ends with an object's phase. */
static void barrier_of_object_copy(struct scan *s, const struct mt_asm_statement *st)
{
    struct mt_asm_barrier *out = s->barrier;
    int arrives = mt_asm_has(st, "arrive");
    out->copy = arrives ? MT_COPY_ARRIVES : 0;
    if (barrier_object(s, st) == 0)
        return;
    out->object = 0;
    out->argument = -1;
    out->kind = arrives ? MT_SYNC_ARRIVE : MT_SYNC_COPY;
    out->copy = arrives ? 0 : MT_COPY_BEGINS;
}

/* Handles cp.async…, .commit_group, .wait_group, .wait_all. */
static void barrier_of_copies(struct scan *s, const struct mt_asm_statement *st)
{
    struct mt_asm_barrier *out = s->barrier;
    int64_t left = 0;
    out->kind = MT_SYNC_COPY;
    out->number = mt_asm_has(st, "bulk") ? MT_COPY_BULK : 0;
    out->copy = MT_COPY_BEGINS;
    if (mt_asm_has(st, "mbarrier") || mt_asm_has(st, "mbarrier::complete_tx::bytes")) {
        out->number = MT_BARRIER_UNKNOWN;
        barrier_of_object_copy(s, st);
    } else if (mt_asm_has(st, "commit_group")) {
        out->copy = MT_COPY_COMMITS;
    } else if (mt_asm_has(st, "wait_all")) {
        out->copy = MT_COPY_WAITS;
        out->number |= MT_COPY_ALL;
    } else if (mt_asm_has(st, "wait_group")) {
        out->copy = MT_COPY_WAITS;
        if (st->noperands && constant_of(s, &st->operands[0], &left))
            out->number |= MT_COPY_WAIT(left);
    }
}

/* Tiles of several warps (cooperative_groups/details/sync.h) meet at a word in shared memory with a bit
 * per warp, which several tiles share. */
static int is_of_groups(const struct mt_asm_statement *st)
{
    static const char *const opcodes[] = {"atom.or.acq_rel.cta.b32", "red.or.release.cta.b32",
                                          "red.and.release.cta.b32", "red.and.relaxed.cta.b32",
                                          "ld.acquire.cta.u32"};
    for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        if (!strcmp(st->opcode, opcodes[i]))
            return 1;
    return 0;
}

/* bar.sync, bar.arrive, bar.red, the same as barrier.cta.…; bar.warp.sync; barrier.cluster.arrive, .wait;
 * mbarrier.init, .arrive, .test_wait, .try_wait; cp.async… */
static int asm_access_barrier(struct scan *s, const struct mt_asm_statement *st)
{
    int memory = is_in_memory(st), cta = !strcmp(st->parts[0], "bar") || !strcmp(st->parts[0], "barrier");
    int groups = is_of_groups(st), copies = is_of_copies(st);
    if (!memory && !cta && !groups && !copies)
        return 0;
    barrier_unknown(s->barrier);
    s->barrier->word = groups;
    if (s->barriers++) /* one record cannot hold both */
        return 1;
    if (groups)
        return 0;
    if (memory)
        barrier_in_memory(s, st);
    else if (copies)
        barrier_of_copies(s, st);
    else
        barrier_of_cta(s, st);
    return 0;
}

int mt_asm_barrier_of(LLVMValueRef call, struct mt_asm_barrier *out)
{
    struct scan s = {.call = call, .barrier = out};
    if (asm_access_scan(&s, asm_access_barrier) < 0 || !s.barriers)
        return 0;
    if (out->object && out->kind == MT_SYNC_BARRIER && out->result < 0)
        barrier_unknown(out);
    return 1;
}
