/* What inline assembly does to global memory: the side of the asm parser that instrumentation uses.
 *
 * An address is followed through the body from its last definition that certainly ran (cvta, mov, add of a
 * constant) back to an operand of the call; anything else is "made in the asm". */
#include "asm.h"
#include "asm_lower.h"
#include <stdlib.h>
#include <string.h>

/* What is known of a register at this point of the body. */
struct known {
    int argument;   /* operand of the call, or -1 */
    int64_t offset; /* to add */
    int global;     /* went through cvta.to.global */
    int other;      /* went through cvta.to.shared and the like */
    int nonzero_of; /* predicate registers: set iff this operand of the call is (not) zero; -1 unknown */
    int inverted;
};

struct scan {
    const struct mt_asm *a;
    const struct mt_asm_ties *t;
    LLVMValueRef call;
    struct known *regs;                /* per register of the body, then per output of the call */
    struct mt_asm_barrier *barrier;    /* barriers are asked for: what was found, */
    const struct mt_asm_operand *over; /* and what says whether a wait is over */
    int barriers;
    int shared; /* accesses of shared memory are asked for, else of global memory */
    struct mt_asm_access *out;
    int count, max;
};

static const struct known nothing = {.argument = -1, .nonzero_of = -1};

static struct known *asm_access_slot(struct scan *s, const struct mt_asm_operand *o)
{
    if (o->kind == MT_ASM_REG)
        return &s->regs[o->index];
    if (o->kind == MT_ASM_ARG && o->index < s->t->noutputs)
        return &s->regs[s->a->nregs + o->index];
    return NULL;
}

static struct known value_of(struct scan *s, const struct mt_asm_operand *o)
{
    struct known k = nothing, *at = asm_access_slot(s, o);
    if (at)
        return *at;
    if (o->kind == MT_ASM_ARG && o->index < s->t->noperands)
        k.argument = s->t->operands[o->index].argument;
    return k;
}

static int constant_of(struct scan *s, const struct mt_asm_operand *o, int64_t *value)
{
    if (o->kind == MT_ASM_INT) {
        *value = (int64_t)o->bits;
        return 1;
    }
    struct known k = value_of(s, o);
    if (k.argument < 0 || k.offset)
        return 0;
    LLVMValueRef v = LLVMGetOperand(s->call, (unsigned)k.argument);
    if (!LLVMIsAConstantInt(v) || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64)
        return 0;
    *value = LLVMConstIntGetSExtValue(v);
    return 1;
}

/* ---- following registers ------------------------------------------------------------------------ */

static void asm_access_forget(struct scan *s, const struct mt_asm_operand *o)
{
    struct known *at = asm_access_slot(s, o);
    if (at)
        *at = nothing;
    for (unsigned i = 0; o->kind == MT_ASM_VECTOR && i < o->nitems; i++)
        asm_access_forget(s, &o->items[i]);
    if (o->second)
        asm_access_forget(s, o->second);
}

static void asm_access_follow(struct scan *s, const struct mt_asm_statement *st)
{
    if (!st->noperands || st->operands[0].kind == MT_ASM_MEMORY)
        return;
    const struct mt_asm_operand *d = &st->operands[0];
    struct known *at = asm_access_slot(s, d), k = nothing;
    int64_t c;
    if (!at || d->second || st->predicate) {
        asm_access_forget(s, d);
        return;
    }
    if (st->noperands == 2 && (!strcmp(st->parts[0], "mov") || !strcmp(st->parts[0], "cvta"))) {
        k = value_of(s, &st->operands[1]);
        if (!strcmp(st->parts[0], "cvta") && k.argument >= 0) {
            k.global = mt_asm_has(st, "to") && mt_asm_has(st, "global");
            k.other = mt_asm_has(st, "to") && !k.global;
        }
    } else if (st->noperands == 3 && (!strcmp(st->parts[0], "add") || !strcmp(st->parts[0], "sub")) &&
               constant_of(s, &st->operands[2], &c)) {
        k = value_of(s, &st->operands[1]);
        k.offset += *st->parts[0] == 'a' ? c : -c;
        k.nonzero_of = -1;
    } else if (st->noperands == 3 && !strcmp(st->parts[0], "setp") && st->nparts == 3 &&
               constant_of(s, &st->operands[2], &c) && !c && strchr("bsu", *st->parts[2]) &&
               (!strcmp(st->parts[1], "ne") || !strcmp(st->parts[1], "eq"))) {
        struct known from = value_of(s, &st->operands[1]);
        if (!from.offset)
            k.nonzero_of = from.argument;
        k.inverted = !strcmp(st->parts[1], "eq");
    }
    *at = k;
}

/* ---- accesses ----------------------------------------------------------------------------------- */

static int asm_access_is_flag(const struct scan *s, int argument)
{
    LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(s->call, (unsigned)argument));
    return LLVMGetTypeKind(type) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(type) == 1;
}

/* cp.async [dst], [src], size, ignore-src where the predicate comes from outside the asm. 0 or -1. */
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

/* Adds what a statement touches, as values outside the asm. 0 or -1. */
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
    struct known k = value_of(s, &m->items[0]);
    if (k.other && !s->shared)
        return 0;
    if (k.global)
        x.generic = 0;
    if (t->ignore)
        return -1;
    if (t->length && constant_of(s, t->length, &c)) {
        if (c <= 0)
            return 0;
        if ((uint64_t)c > UINT32_MAX)
            return -1;
        x.size = (uint32_t)c;
    } else if (t->length) {
        struct known n = value_of(s, t->length);
        if (n.argument < 0 || n.offset)
            return -1;
        if (!asm_access_is_flag(s, n.argument)) {
            x.size = 0;
            x.size_argument = n.argument;
        } else if (asm_access_ignored(s, st, n.argument, &x)) {
            return -1;
        }
    }
    x.argument = k.argument;
    x.offset = k.offset + m->offset;
    if (m->second && constant_of(s, m->second, &c))
        x.offset += c;
    else if (m->second)
        x.argument = -1;
    if (st->predicate) {
        struct known p = value_of(s, st->predicate);
        x.predicated = 1;
        x.only_if = p.nonzero_of;
        x.only_if_inverted = p.inverted ^ st->predicate->inverted;
    }
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

/* Does control flow inside the body make "in order, each once" wrong? */
int mt_asm_has_branches(const struct mt_asm *a)
{
    for (unsigned i = 0; i < a->nstatements; i++)
        if (a->statements[i].nparts &&
            (!strcmp(a->statements[i].parts[0], "bra") || !strcmp(a->statements[i].parts[0], "brx") ||
             !strcmp(a->statements[i].parts[0], "exit") || !strcmp(a->statements[i].parts[0], "ret")))
            return 1;
    return 0;
}

/* What `each` says of the statements, with what is known of registers before each. It goes on while it is 0;
 * -1 also if the text is not understood. *branches: see above. */
static int asm_access_scan(struct scan *s, int (*each)(struct scan *, const struct mt_asm_statement *),
                           int *branches)
{
    struct mt_asm_error error;
    struct mt_asm_ties ties;
    size_t length;
    int result = -1;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(s->call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, &error);
    s->a = a;
    s->t = &ties;
    if (!a || mt_asm_ties_read(s->call, &ties, &error))
        goto out;
    s->regs = malloc((a->nregs + ties.noutputs + 1) * sizeof *s->regs);
    if (!s->regs)
        goto out;
    for (unsigned i = 0; i < a->nregs + ties.noutputs; i++)
        s->regs[i] = nothing;
    for (unsigned i = 0; i < ties.noutputs; i++) /* "+r": the output starts as an input */
        s->regs[a->nregs + i].argument = ties.operands[i].argument;
    result = 0;
    for (unsigned i = 0; i < a->nstatements && !result; i++) {
        if (a->statements[i].label)
            continue;
        if (!(result = each(s, &a->statements[i])))
            asm_access_follow(s, &a->statements[i]);
    }
    *branches = mt_asm_has_branches(a);
out:
    free(s->regs);
    mt_asm_free(a);
    return result;
}

static int asm_access_list(LLVMValueRef call, struct mt_asm_access *out, int max, int shared)
{
    struct scan s = {.call = call, .out = out, .max = max, .shared = shared};
    int branches = 0;
    if (asm_access_scan(&s, asm_access_access, &branches))
        return -1;
    return s.count && branches ? -1 : s.count;
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

/* Which operand of the call a statement's operand is, or which constant. 0, or -1: not known. */
static int barrier_operand(struct scan *s, const struct mt_asm_operand *o, int *argument, int64_t *value)
{
    *argument = -1;
    if (constant_of(s, o, value))
        return 0;
    struct known k = value_of(s, o);
    *argument = k.offset ? -1 : k.argument;
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

/* The object of mbarrier.…, cp.async.mbarrier.arrive. 0, or -1: it is not known, another CTA's, or there is a
 * predicate. */
static int barrier_object(struct scan *s, const struct mt_asm_statement *st)
{
    const struct mt_asm_operand *m = NULL;
    for (unsigned i = 0; i < st->noperands && !m; i++)
        if (st->operands[i].kind == MT_ASM_MEMORY)
            m = &st->operands[i];
    if (!m || m->nitems != 1 || m->second || st->predicate || strstr(st->opcode, "shared::cluster"))
        return -1;
    struct known k = value_of(s, &m->items[0]);
    s->barrier->object = 1;
    s->barrier->argument = k.argument;
    s->barrier->offset = k.offset + m->offset;
    return k.argument < 0 ? -1 : 0;
}

/* What a wait says: an output itself, or a register that may become one. */
static void barrier_says(struct scan *s, const struct mt_asm_operand *o)
{
    if (o->kind == MT_ASM_ARG && o->index < s->t->noutputs)
        s->barrier->result = s->t->operands[o->index].output;
    else if (o->kind == MT_ASM_REG)
        s->over = o;
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
    barrier_says(s, &st->operands[0]);
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
    if (!strcmp(st->parts[0], "mbarrier"))
        return mt_asm_has(st, "init") || mt_asm_has(st, "arrive") || mt_asm_has(st, "arrive_drop") ||
               mt_asm_has(st, "test_wait") || mt_asm_has(st, "try_wait");
    return !strcmp(st->parts[0], "cp") && mt_asm_has(st, "mbarrier") && mt_asm_has(st, "arrive");
}

/* Tiles of several warps (cooperative_groups/details/sync.h) meet at a word in shared memory, with a bit for
 * each warp; several tiles share one. */
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
 * mbarrier.init, .arrive, .test_wait, .try_wait; cp.async.mbarrier.arrive */
static int asm_access_barrier(struct scan *s, const struct mt_asm_statement *st)
{
    int memory = is_in_memory(st), cta = !strcmp(st->parts[0], "bar") || !strcmp(st->parts[0], "barrier");
    int groups = is_of_groups(st);
    int64_t yes, no;
    if (s->over && !strcmp(st->parts[0], "selp") && st->noperands == 4 &&
        st->operands[3].kind == MT_ASM_REG && st->operands[3].index == s->over->index &&
        st->operands[0].kind == MT_ASM_ARG && st->operands[0].index < s->t->noutputs &&
        constant_of(s, &st->operands[1], &yes) && yes && constant_of(s, &st->operands[2], &no) && !no)
        s->barrier->result = s->t->operands[st->operands[0].index].output;
    if (!memory && !cta && !groups)
        return 0;
    barrier_unknown(s->barrier);
    s->barrier->word = groups;
    if (s->barriers++) /* one record cannot say both */
        return 1;
    if (groups)
        return 0;
    if (memory)
        barrier_in_memory(s, st);
    else
        barrier_of_cta(s, st);
    return 0;
}

int mt_asm_barrier_of(LLVMValueRef call, struct mt_asm_barrier *out)
{
    struct scan s = {.call = call, .barrier = out};
    int branches = 0, loops = 0;
    int rc = asm_access_scan(&s, asm_access_barrier, &branches);
    if (rc < 0 || !s.barriers)
        return 0;
    loops = branches && LLVMGetTypeKind(LLVMTypeOf(call)) == LLVMVoidTypeKind;
    if (out->object && out->kind == MT_SYNC_BARRIER && out->result < 0 && !loops)
        barrier_unknown(out);
    if (out->object && branches && out->result >= 0)
        barrier_unknown(out);
    return 1;
}
