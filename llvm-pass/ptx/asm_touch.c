/* What one PTX instruction does to memory. Each family of opcodes that may have a memory operand is in a
 * table: whether it is recorded, or counted as untraced, or why it is neither. An opcode
 * that has a memory operand and is not in the table is counted: what is not known may touch global memory. */
#include "asm_lower.h"
#include <string.h>

typedef int touch_function(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t);

/* ---- families with records ------------------------------------------------------------------------ */

/* Bytes of the last element type that an opcode names, times its vector length; 0 when there is none. */
static unsigned touch_bytes(const struct mt_asm_statement *st)
{
    unsigned bits = 0, n = 1;
    for (unsigned i = st->nparts; i-- > 1 && !bits;)
        bits = mt_asm_type_bits(st->parts[i]);
    if (mt_asm_has(st, "v2"))
        n = 2;
    else if (mt_asm_has(st, "v4"))
        n = 4;
    else if (mt_asm_has(st, "v8"))
        n = 8;
    return bits / 8 * n;
}

static const struct mt_asm_operand *touch_memory(const struct mt_asm_statement *st, unsigned nth)
{
    for (unsigned i = 0; i < st->noperands; i++)
        if (st->operands[i].kind == MT_ASM_MEMORY && !nth--)
            return &st->operands[i];
    return NULL;
}

/* Is the space that the opcode names one that we do not record? Generic when it names none. */
static int touch_is_elsewhere(const struct mt_asm_statement *st)
{
    for (unsigned i = 1; i < st->nparts; i++)
        if (!strncmp(st->parts[i], "shared", 6) || !strncmp(st->parts[i], "local", 5) ||
            !strncmp(st->parts[i], "const", 5) || !strncmp(st->parts[i], "param", 5))
            return 1;
    return 0;
}

static int touch_set(struct mt_asm_touch *t, enum mt_access_type op, const struct mt_asm_operand *m,
                     unsigned size, int generic)
{
    *t = (struct mt_asm_touch){.op = op, .memory = m, .size = size, .generic = generic};
    return m && m->nitems == 1 ? 1 : -1;
}

/* ld, st, atom, red: one value or vector at one address. */
static int touch_value(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    enum mt_access_type op = *st->parts[0] == 'l' ? MT_LOAD : *st->parts[0] == 's' ? MT_STORE : MT_ATOMIC;
    if (touch_is_elsewhere(st))
        return 0;
    int found = touch_set(t, op, touch_memory(st, 0), touch_bytes(st), !mt_asm_has(st, "global"));
    return t->size ? found : -1;
}

/* cp.async.ca.shared.global [dst], [src], cp-size{, src-size}{, cache-policy}; ignore-src is a predicate */
static int touch_copy(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    int hint = mt_asm_has(st, "cache_hint") || strstr(st->opcode, "::cache_hint") != NULL;
    if (st->noperands < 3)
        return -1;
    int found = touch_set(t, MT_LOAD, touch_memory(st, 1), 0, 0);
    const struct mt_asm_operand *last = &st->operands[3];
    t->length = &st->operands[2];
    if (st->noperands - (unsigned)hint != 4)
        return found;
    if (last->kind == MT_ASM_REG && a->regs[last->index].type == 'p')
        t->ignore = last;
    else
        t->length = last;
    return found;
}

/* cp.async.bulk.DST.SRC… [dst], [src], size, … ; cp.reduce.async.bulk.DST.SRC… the same */
static int touch_bulk(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    int reduce = !strcmp(st->parts[1], "reduce"), found = 0; /* shared to shared */
    unsigned at = reduce ? 4 : 3;
    if (st->nparts < at + 2 || st->noperands < 3)
        return -1;
    if (!strcmp(st->parts[at], "global"))
        found = touch_set(t, reduce ? MT_ATOMIC : MT_STORE, touch_memory(st, 0), 0, 0);
    else if (!strcmp(st->parts[at + 1], "global"))
        found = touch_set(t, MT_LOAD, touch_memory(st, 1), 0, 0);
    t->length = &st->operands[2];
    return found;
}

/* ---- families that are counted -------------------------------------------------------------------- */

static int touch_unknown(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    return -1;
}

/* wmma, which has its records from asm_ahead.c, and tensormap.replace. */
static int touch_opaque(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    return touch_is_elsewhere(st) ? 0 : -1;
}

/* ---- the table ------------------------------------------------------------------------------------ */

struct touch_family {
    const char *op, *word;     /* first word of the opcode, and another that it has, or NULL: any */
    enum mt_asm_effect effect; /* on memory of any space */
    touch_function *record; /* NULL: touches no global memory, or is not recorded, for the reason above it */
};

#define NOTHING MT_ASM_NOTHING
#define READS MT_ASM_READS
#define ACTS MT_ASM_ACTS
/* The first row that fits counts. */
static const struct touch_family families[] = {
    /* Within a CTA's or cluster's shared memory. */
    {"st", "bulk", ACTS, NULL},
    {"st", "mbarrier::complete_tx::bytes", ACTS, NULL},
    {"red", "mbarrier::complete_tx::bytes", ACTS, NULL},
    {"cp", "mbarrier", ACTS, NULL},
    {"mbarrier", NULL, ACTS, NULL},
    {"ldmatrix", NULL, READS, NULL},
    {"stmatrix", NULL, ACTS, NULL},
    {"wgmma", NULL, ACTS, NULL},
    {"clusterlaunchcontrol", "try_cancel", ACTS, NULL},
    /* Between shared memory, tensor memory and registers. */
    {"tcgen05", NULL, ACTS, NULL},
    /* Bytes go into a cache, and nobody gets them. */
    {"cp", "prefetch", NOTHING, NULL},
    {"prefetch", NULL, NOTHING, NULL},
    {"prefetchu", NULL, NOTHING, NULL},
    /* How long a cache keeps lines. */
    {"applypriority", NULL, NOTHING, NULL},
    {"createpolicy", NULL, NOTHING, NULL},
    /* Gives bytes up: none are moved, and what is read there before the next store is undefined. */
    {"discard", NULL, ACTS, NULL},
    /* Sizes of a texture or surface, not its contents. */
    {"txq", NULL, NOTHING, NULL},
    {"suq", NULL, NOTHING, NULL},
    /* Order or await accesses that have records of their own. */
    {"cp", "commit_group", ACTS, NULL},
    {"cp", "wait_group", ACTS, NULL},
    {"cp", "wait_all", ACTS, NULL},
    {"fence", NULL, ACTS, NULL},
    {"membar", NULL, ACTS, NULL},
    {"bar", NULL, ACTS, NULL},
    {"barrier", NULL, ACTS, NULL},
    {"griddepcontrol", NULL, ACTS, NULL},

    /* Recorded. nc: nobody writes there while the kernel runs; strong loads: others do. */
    {"ld", "nc", NOTHING, touch_value},
    {"ld", "volatile", ACTS, touch_value},
    {"ld", "relaxed", ACTS, touch_value},
    {"ld", "acquire", ACTS, touch_value},
    {"ld", NULL, READS, touch_value},
    {"ldu", NULL, READS, touch_value},
    {"st", NULL, ACTS, touch_value},
    {"red", NULL, ACTS, touch_value},
    {"atom", NULL, ACTS, touch_value},
    {"wmma", "load", READS, touch_opaque},
    {"wmma", "store", ACTS, touch_opaque},

    /* Counted as untraced: opaque objects in place of addresses, some bytes of a block, several memories,
     * another function's code. */
    {"cp", "tensor", ACTS, touch_unknown},
    {"cp", "cp_mask", ACTS, touch_unknown},
    {"tensormap", "replace", ACTS, touch_opaque},
    {"tensormap", NULL, ACTS, touch_unknown},
    {"tex", NULL, NOTHING, touch_unknown},
    {"tld4", NULL, NOTHING, touch_unknown},
    {"suld", NULL, READS, touch_unknown},
    {"sust", NULL, ACTS, touch_unknown},
    {"sured", NULL, ACTS, touch_unknown},
    {"multimem", NULL, ACTS, touch_unknown},
    {"call", NULL, ACTS, touch_unknown},

    /* Recorded: what is left of cp. */
    {"cp", "bulk", ACTS, touch_bulk},
    {"cp", "async", ACTS, touch_copy},
};

static const struct touch_family *touch_find(const struct mt_asm_statement *st)
{
    for (const struct touch_family *f = families; f < families + sizeof families / sizeof *families; f++)
        if (!strcmp(f->op, st->parts[0]) && (!f->word || mt_asm_has(st, f->word)))
            return f;
    return NULL;
}

int mt_asm_touches(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    const struct touch_family *f = touch_find(st);
    if (!f)
        return touch_memory(st, 0) ? -1 : 0;
    return f->record ? f->record(a, st, t) : 0;
}

static enum mt_asm_effect touch_effect(const struct mt_asm_statement *st)
{
    const struct touch_family *f = touch_find(st);
    if (f)
        return f->effect;
    return touch_memory(st, 0) ? MT_ASM_ACTS : MT_ASM_NOTHING;
}

enum mt_asm_effect mt_asm_effect_of(const struct mt_asm *a)
{
    enum mt_asm_effect most = MT_ASM_NOTHING;
    for (unsigned i = 0; i < a->nstatements; i++) {
        enum mt_asm_effect e = a->statements[i].label ? MT_ASM_NOTHING : touch_effect(&a->statements[i]);
        most = e > most ? e : most;
    }
    return most;
}
