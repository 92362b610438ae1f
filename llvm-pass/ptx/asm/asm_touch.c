/* Memory accesses of one PTX instruction, by the TOUCH rows of opcodes.def. */
#include "asm_lower.h"
#include <string.h>

typedef int touch_function(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t);

/* ---- families with records ------------------------------------------------------------------------ */

/* Returns the bytes of the last element type in an opcode, times its vector length; 0 if there is none. */
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

/* Returns 1 if the opcode names a space that is not recorded. Generic if it names none. */
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

/* ---- shared memory -------------------------------------------------------------------------------- */

static int touch_is_shared(const char *part)
{
    return part && !strncmp(part, "shared", 6);
}

/* ldmatrix.sync.aligned.SHAPE.xN…, stmatrix: 8 * N lanes have the address of 16 bytes each. */
static int touch_matrix(const struct mt_asm_statement *st, enum mt_access_type op, struct mt_asm_touch *t)
{
    int found = touch_set(t, op, touch_memory(st, 0), 16, 0);
    t->lanes = mt_asm_has(st, "x4") ? 0 : mt_asm_has(st, "x2") ? 16 : 8;
    return mt_asm_has(st, "m8n8") ? found : -1;
}

/* Finds the shared memory side of copies. */
static int touch_shared_copy(const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    static const char *const none[] = {"mbarrier",   "prefetch", "commit_group",
                                       "wait_group", "wait_all", NULL};
    int reduce = !strcmp(st->parts[1], "reduce"), bulk = mt_asm_has(st, "bulk"), found = 0;
    unsigned at = bulk ? (reduce ? 4 : 3) : 3; /* cp.async.ca.shared.global */
    struct mt_asm_tensor tensor;
    for (unsigned i = 0; none[i]; i++)
        if (mt_asm_has(st, none[i]))
            return 0;
    if (!mt_asm_tensor_read(st, &tensor)) /* recorded with its global memory side */
        return 0;
    if (mt_asm_has(st, "tensor") || mt_asm_has(st, "cp_mask") || st->nparts < at + 2 || st->noperands < 3)
        return -1;
    if ((touch_is_shared(st->parts[at]) && touch_is_shared(st->parts[at + 1])) ||
        mt_asm_has(st, "multicast::cluster"))
        return -1; /* both sides, or several CTAs */
    if (touch_is_shared(st->parts[at]))
        found = touch_set(t, reduce ? MT_ATOMIC : MT_STORE, touch_memory(st, 0), 0, 0);
    else if (touch_is_shared(st->parts[at + 1]))
        found = touch_set(t, MT_LOAD, touch_memory(st, 1), 0, 0);
    t->length = &st->operands[2];
    return found;
}

int mt_asm_touches_shared(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    const char *op = st->parts[0];
    int shared = 0;
    for (unsigned i = 1; i < st->nparts; i++)
        shared |= touch_is_shared(st->parts[i]);
    if (!strcmp(op, "ldmatrix") || !strcmp(op, "stmatrix"))
        return touch_matrix(st, *op == 'l' ? MT_LOAD : MT_STORE, t);
    if (!strcmp(op, "wgmma") || !strncmp(op, "tcgen05", 7))
        return -1;
    if (!shared || !touch_memory(st, 0) || !strcmp(op, "mbarrier"))
        return 0;
    if (!strcmp(op, "cp"))
        return touch_shared_copy(st, t);
    if (mt_asm_has(st, "mbarrier::complete_tx::bytes")) /* st.async, red.async: to other CTAs */
        return 0;
    if (strcmp(op, "ld") && strcmp(op, "st") && strcmp(op, "atom") && strcmp(op, "red"))
        return -1;
    int found = touch_set(t,
                          *op == 'l'   ? MT_LOAD
                          : *op == 's' ? MT_STORE
                                       : MT_ATOMIC,
                          touch_memory(st, 0), touch_bytes(st), 0);
    return t->size ? found : -1;
}

/* ---- families that are counted -------------------------------------------------------------------- */

static int touch_unknown(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    return -1;
}

/* If no other space is named. */
static int touch_opaque(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t)
{
    return touch_is_elsewhere(st) ? 0 : -1;
}

/* ---- selection ---------------------------------------------------------------------------------------- */

struct touch_family {
    const char *op, *word;
    enum mt_asm_effect effect;
    touch_function *record; /* function that records; or NULL */
};

#define touch_NONE NULL
#define NOTHING MT_ASM_NOTHING
#define READS MT_ASM_READS
#define ACTS MT_ASM_ACTS
#define OPCODE(word, function, flags)
#define TYPED(word, integers, floats, flags)
#define INTEGERS(word, function, flags)
#define FLOATS(word, function, flags)
#define BUILTIN(word, flags)
#define TOUCH(op, word, effect, record) {op, word, effect, touch_##record},
static const struct touch_family families[] = {
#include "opcodes.def"
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
