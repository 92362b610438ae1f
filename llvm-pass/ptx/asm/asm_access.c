/* Memory accesses of inline assembly, as operands of its call: the part of the asm parser used by
 * instrumentation. In PTX that was read, each call is one instruction with the call's operands or
 * constants. */
#include "asm_lower.h"
#include "format/image.h"
#include "asm.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Constraint strings of inline assembly ("=r,=&l,0,r,n,~{memory}") and PTX type words. */

static int asm_ties_fail(struct mt_asm_error *error, const char *what, const char *detail)
{
    snprintf(error->message, sizeof error->message, "%s '%.60s'", what, detail);
    return -1;
}

static int asm_ties_add(struct mt_asm_ties *t, const char *one, int *inputs, struct mt_asm_error *error)
{
    if (*one == '~' || *one == '!')
        return 0; /* clobber, label */
    if (t->noperands == MT_ASM_MAX_OPERANDS)
        return asm_ties_fail(error, "too many operands, at", one);
    struct mt_asm_tie *tie = &t->operands[t->noperands];
    if (strchr(one, '*'))
        return asm_ties_fail(error, "operand constraint not supported:", one);
    if (*one == '=') {
        *tie = (struct mt_asm_tie){.output = (int)t->noutputs++, .argument = -1};
    } else {
        *tie = (struct mt_asm_tie){.output = -1, .argument = (*inputs)++};
        if (isdigit((unsigned char)*one)) { /* an output's first value */
            unsigned long n = strtoul(one, NULL, 10);
            if (n >= t->noutputs)
                return asm_ties_fail(error, "operand constraint not understood:", one);
            t->operands[n].argument = tie->argument;
        }
    }
    t->noperands++;
    return 0;
}

int mt_asm_ties_read(LLVMValueRef call, struct mt_asm_ties *t, struct mt_asm_error *error)
{
    size_t length;
    int inputs = 0;
    const char *text = LLVMGetInlineAsmConstraintString(LLVMGetCalledValue(call), &length);
    t->noperands = t->noutputs = 0;
    for (size_t at = 0; at < length;) {
        char one[64];
        size_t n = 0;
        for (; at < length && text[at] != ','; at++)
            if (n < sizeof one - 1)
                one[n++] = text[at];
        one[n] = 0;
        at++;
        if (asm_ties_add(t, one, &inputs, error))
            return -1;
    }
    if ((unsigned)inputs > LLVMGetNumArgOperands(call))
        return asm_ties_fail(error, "constraints and operands disagree:", text);
    return 0;
}

int mt_asm_type(const char *word, struct mt_asm_type *t)
{
    static const struct {
        const char *word;
        struct mt_asm_type type;
    } odd[] = {{"pred", {'p', 1, 1}},    {"f16x2", {'f', 16, 2}}, {"bf16", {'g', 16, 1}},
               {"bf16x2", {'g', 16, 2}}, {"tf32", {'t', 32, 1}},  {"u16x2", {'u', 16, 2}},
               {"s16x2", {'s', 16, 2}},  {"f32x2", {'f', 32, 2}}};
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++)
        if (!strcmp(word, odd[i].word)) {
            *t = odd[i].type;
            return 1;
        }
    static const char *const widths[] = {"8", "16", "32", "64", "128"};
    if (*word && strchr("bsuf", *word))
        for (unsigned i = 0; i < 5; i++)
            if (!strcmp(word + 1, widths[i])) {
                *t = (struct mt_asm_type){*word, 8u << i, 1};
                return *word != 'f' || (i >= 1 && i <= 3);
            }
    return 0;
}

/* bits of all lanes; 0: no type */
static unsigned asm_type_bits(const char *word)
{
    struct mt_asm_type t;
    return mt_asm_type(word, &t) ? t.bits * t.lanes : 0;
}

/* Tensor copies, cp{.reduce}.async.bulk.tensor in tile mode: reads words and operands, and calls the
 * builtin. */

/* Returns the reduction of a word; MT_TENSOR_LOAD: none. */
static uint32_t tensor_reduction(const char *word)
{
    static const char *const words[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(word, words[i]))
            return MT_TENSOR_ADD + i;
    return MT_TENSOR_LOAD;
}

/* Reads words after the dimensions and spaces. Unsupported: im2col, tile::gather4, tile::scatter4, a
 * barrier in the memory of a CTA's partner. */
static int tensor_word(struct mt_asm_tensor *t, const char *word, unsigned *operands)
{
    uint32_t reduction = tensor_reduction(word);
    if (reduction != MT_TENSOR_LOAD && t->op != MT_TENSOR_LOAD) {
        t->op = reduction;
    } else if (!strcmp(word, "multicast::cluster") || !strcmp(word, "L2::cache_hint")) {
        ++*operands;
    } else if (strcmp(word, "tile") && strcmp(word, "cta_group::1") &&
               strcmp(word, t->op == MT_TENSOR_LOAD ? "mbarrier::complete_tx::bytes" : "bulk_group")) {
        return -1;
    }
    return 0;
}

static int tensor_operands(const struct mt_asm_statement *s, struct mt_asm_tensor *t)
{
    int load = t->op == MT_TENSOR_LOAD;
    const struct mt_asm_operand *map = &s->operands[load], *shared = &s->operands[!load];
    const struct mt_asm_operand *at = map->kind == MT_ASM_MEMORY && map->nitems == 2 ? &map->items[1] : NULL;
    if (!at || map->offset || map->second || shared->kind != MT_ASM_MEMORY || shared->nitems != 1)
        return -1;
    t->map = &map->items[0];
    t->shared = shared;
    t->at = at->kind == MT_ASM_VECTOR ? at->items : at;
    t->barrier = load ? &s->operands[2] : NULL;
    t->ctas = mt_asm_has(s, "multicast::cluster") ? &s->operands[3] : NULL;
    return (at->kind == MT_ASM_VECTOR ? at->nitems : 1) == t->rank ? 0 : -1;
}

/* Returns 0, or -1: not such a statement, or an unsupported form. */
static int asm_tensor_read(const struct mt_asm_statement *s, struct mt_asm_tensor *t)
{
    unsigned reduce = mt_asm_has(s, "reduce"), i = 3 + reduce, operands;
    *t = (struct mt_asm_tensor){.op = MT_TENSOR_LOAD};
    if (strcmp(s->parts[0], "cp") || s->nparts < i + 4 || strcmp(s->parts[i], "tensor") ||
        strcmp(s->parts[i + 1] + 1, "d"))
        return -1;
    t->rank = (unsigned)(s->parts[i + 1][0] - '0');
    if (!strcmp(s->parts[i + 2], "global") && !strcmp(s->parts[i + 3], "shared::cta"))
        t->op = MT_TENSOR_STORE;
    else if (reduce || strncmp(s->parts[i + 2], "shared::", 8) || strcmp(s->parts[i + 3], "global"))
        return -1;
    operands = t->op == MT_TENSOR_LOAD ? 3 : 2;
    for (i += 4; i < s->nparts; i++)
        if (tensor_word(t, s->parts[i], &operands))
            return -1;
    int as_said = s->noperands == operands && (t->op > MT_TENSOR_STORE) == (int)reduce;
    return as_said && t->rank - 1 < MT_TENSOR_RANK_MAX ? tensor_operands(s, t) : -1;
}

/* Returns its access type for global memory. */
static enum mt_access_type asm_tensor_type(const struct mt_asm_tensor *t)
{
    return t->op == MT_TENSOR_LOAD ? MT_LOAD : t->op == MT_TENSOR_STORE ? MT_STORE : MT_ATOMIC;
}

/* Stores coordinates as an array on the stack. */
static LLVMValueRef tensor_place(struct mt_asm_body *l, const struct mt_asm_tensor *t)
{
    LLVMValueRef place = mt_asm_slot(l, LLVMArrayType2(l->i32, MT_TENSOR_RANK_MAX), "");
    for (unsigned i = 0; place && i < t->rank; i++) {
        LLVMValueRef v = mt_asm_in(l, &t->at[i], 32), index = mt_asm_const(l, 64, i);
        if (!v)
            return NULL;
        LLVMBuildStore(l->b, v, LLVMBuildGEP2(l->b, l->i32, place, &index, 1, ""));
    }
    return place;
}

int mt_asm_tensor(struct mt_asm_body *l)
{
    struct mt_asm_tensor t;
    if (asm_tensor_read(l->s, &t))
        return mt_asm_fail(l, "%s", l->s->opcode);
    LLVMValueRef map = mt_asm_in(l, t.map, 64), place = map ? tensor_place(l, &t) : NULL;
    LLVMValueRef shared = place ? mt_asm_address(l, t.shared, 1) : NULL;
    LLVMValueRef barrier = t.barrier ? mt_asm_address(l, t.barrier, 1) : LLVMConstNull(l->ptr);
    LLVMValueRef ctas = t.ctas ? mt_asm_in(l, t.ctas, 16) : mt_asm_const(l, 16, 0);
    if (!shared || !barrier || !ctas)
        return -1;
    LLVMValueRef args[] = {mt_asm_const(l, 32, t.op),
                           mt_asm_const(l, 32, t.rank),
                           map,
                           place,
                           shared,
                           barrier,
                           LLVMBuildZExt(l->b, ctas, l->i32, "")};
    return mt_asm_call_by_name(l, "mtb_tensor", l->none, args, 7) ? 0 : -1;
}

/* ---- Memory accesses of one PTX instruction, by the TOUCH rows of opcodes.def ---- */

typedef int touch_function(const struct mt_asm *a, const struct mt_asm_statement *st, struct mt_asm_touch *t);

/* ---- families with records ------------------------------------------------------------------------ */

/* Returns the bytes of the last element type in an opcode, times its vector length; 0 if there is none. */
static unsigned touch_bytes(const struct mt_asm_statement *st)
{
    unsigned bits = 0, n = 1;
    for (unsigned i = st->nparts; i-- > 1 && !bits;)
        bits = asm_type_bits(st->parts[i]);
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
    if (!asm_tensor_read(st, &tensor)) /* recorded with its global memory side */
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

/* Finds accesses to shared memory in the same way, without t->generic. Barriers in shared memory are not
 * data. */
static int asm_touches_shared(const struct mt_asm *a, const struct mt_asm_statement *st,
                              struct mt_asm_touch *t)
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

/* Matrix loads and stores of a warp (wmma.load, wmma.store): the share of each lane. PTX does not define
 * which lane holds which element, and some GPUs load elements twice. Certain is only the memory that the
 * warp touches: the matrix. Its elements, in memory order, are assigned to the lanes in equal runs: lane i
 * of 32 has the i-th run. In every shape a run is within one row (column, if column-major), so that each
 * lane makes one access, and all lanes together touch each element once. */

static int element_bits(const char *word)
{
    static const struct {
        const char *word;
        int bits;
    } table[] = {{"f16", 16}, {"bf16", 16}, {"tf32", 32}, {"f32", 32}, {"f64", 64}, {"s8", 8},
                 {"u8", 8},   {"s32", 32},  {"s4", 4},    {"u4", 4},   {"b1", 1}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return table[i].bits;
    return 0;
}

/* Returns 0, or -1 if it is none, or unknown. */
static int wmma_read(const char *const *words, unsigned n, struct mt_wmma *out)
{
    unsigned m = 0, nn = 0, k = 0, lines, line;
    char matrix = 0;
    int rows = -1, bits = 0, is_store = 0, moves = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned a, b, c;
        if (sscanf(words[i], "m%un%uk%u", &a, &b, &c) == 3) {
            m = a;
            nn = b;
            k = c;
        } else if (!strcmp(words[i], "load") || !strcmp(words[i], "store")) {
            moves = 1;
            is_store = *words[i] == 's';
        } else if (strlen(words[i]) == 1 && *words[i] >= 'a' && *words[i] <= 'd') {
            matrix = *words[i];
        } else if (!strcmp(words[i], "row") || !strcmp(words[i], "col")) {
            rows = *words[i] == 'r';
        } else if (!bits) {
            bits = element_bits(words[i]);
        }
    }
    if (!moves || !m || !nn || !k || !matrix || rows < 0 || !bits)
        return -1;
    unsigned height = matrix == 'b' ? k : m, width = matrix == 'a' ? k : nn;
    lines = rows ? height : width;
    line = rows ? width : height;
    unsigned share = lines * line / 32;
    if (!share || line % share || share * (unsigned)bits % 8)
        return -1;
    *out = (struct mt_wmma){.op = is_store ? MT_STORE : MT_LOAD,
                            .share = share,
                            .line = line,
                            .bits = (unsigned)bits,
                            .size = share * (unsigned)bits / 8};
    return 0;
}

static LLVMValueRef asm_wmma_number(LLVMContextRef c, uint64_t n)
{
    return LLVMConstInt(LLVMInt64TypeInContext(c), n, 0);
}

/* Returns the i64 address of the running lane's share. base: i64; stride: elements from row to row
 * (integer), NULL: dense. */
static LLVMValueRef wmma_address(LLVMModuleRef module, LLVMBuilderRef b, const struct mt_wmma *w,
                                 LLVMValueRef base, LLVMValueRef stride)
{
    static const char name[] = "llvm.nvvm.read.ptx.sreg.laneid";
    LLVMContextRef c = LLVMGetModuleContext(module);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(c);
    unsigned id = LLVMLookupIntrinsicID(name, sizeof name - 1);
    LLVMValueRef lane = LLVMBuildCall2(b, LLVMIntrinsicGetType(c, id, NULL, 0),
                                       LLVMGetIntrinsicDeclaration(module, id, NULL, 0), NULL, 0, "");
    stride = stride ? LLVMBuildIntCast2(b, stride, i64, 0, "") : asm_wmma_number(c, w->line);
    LLVMValueRef first = LLVMBuildMul(b, LLVMBuildZExt(b, lane, i64, ""), asm_wmma_number(c, w->share), "");
    LLVMValueRef line = LLVMBuildUDiv(b, first, asm_wmma_number(c, w->line), "");
    LLVMValueRef within = LLVMBuildURem(b, first, asm_wmma_number(c, w->line), "");
    LLVMValueRef at = LLVMBuildAdd(b, LLVMBuildMul(b, line, stride, ""), within, "");
    at = LLVMBuildUDiv(b, LLVMBuildMul(b, at, asm_wmma_number(c, w->bits), ""), asm_wmma_number(c, 8), "");
    return LLVMBuildAdd(b, base, at, "");
}

/* Accesses with more than one address: matrices of a warp (wmma.load, wmma.store) and tensor copies. Their
 * calls are one instruction, with the call's operands or constants. */

struct made {
    LLVMModuleRef m;
    LLVMBuilderRef b;
    LLVMValueRef call;
    const struct mt_asm_ties *ties;
};

static LLVMTypeRef made_int(const struct made *w, unsigned bits)
{
    return LLVMIntTypeInContext(LLVMGetModuleContext(w->m), bits);
}

/* Returns NULL for anything but an integer or a pointer of the call, or a constant. */
static LLVMValueRef made_value(const struct made *w, const struct mt_asm_operand *o, unsigned bits)
{
    if (o->kind == MT_ASM_INT)
        return LLVMConstInt(made_int(w, bits), o->bits, 0);
    int argument =
        o->kind == MT_ASM_ARG && o->index < w->ties->noperands ? w->ties->operands[o->index].argument : -1;
    LLVMValueRef v = argument < 0 ? NULL : LLVMGetOperand(w->call, (unsigned)argument);
    if (v && LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMPointerTypeKind)
        v = LLVMBuildPtrToInt(w->b, v, made_int(w, 64), "");
    return v && LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind
               ? LLVMBuildIntCast2(w->b, v, made_int(w, bits), 0, "")
               : NULL;
}

static LLVMValueRef made_address(const struct made *w, const struct mt_asm_operand *o)
{
    LLVMValueRef v =
        o->kind == MT_ASM_MEMORY && o->nitems == 1 && !o->second ? made_value(w, &o->items[0], 64) : NULL;
    return v && o->offset ? LLVMBuildAdd(w->b, v, LLVMConstInt(made_int(w, 64), (uint64_t)o->offset, 1), "")
                          : v;
}

/* wmma.load.… {registers}, [address]{, stride}; wmma.store.… [address], {registers}{, stride} */
static int wmma_of(const struct made *x, const struct mt_asm_statement *s, struct mt_asm_warp_access *out)
{
    struct mt_wmma w;
    if (strcmp(s->parts[0], "wmma") || s->noperands < 2 || wmma_read(s->parts, s->nparts, &w))
        return -1;
    LLVMValueRef base = made_address(x, &s->operands[w.op == MT_LOAD]),
                 by = s->noperands > 2 ? made_value(x, &s->operands[2], 32) : NULL;
    if (!base || (s->noperands > 2 && !by))
        return -1;
    *out = (struct mt_asm_warp_access){.op = w.op,
                                       .address = wmma_address(x->m, x->b, &w, base, by),
                                       .size = w.size,
                                       .generic = !mt_asm_has(s, "global")};
    return 0;
}

/* Reads a tensor copy; the shared address stays as in the asm. */
static int tensor_of(const struct made *x, const struct mt_asm_statement *s, struct mt_asm_warp_access *out)
{
    struct mt_asm_tensor t;
    if (asm_tensor_read(s, &t))
        return -1;
    *out = (struct mt_asm_warp_access){.op = asm_tensor_type(&t), .rank = t.rank};
    for (unsigned i = 0; i < MT_TENSOR_RANK_MAX; i++)
        if (!(out->at[i] = i < t.rank ? made_value(x, &t.at[i], 32) : LLVMConstInt(made_int(x, 32), 0, 0)))
            return -1;
    out->address = made_value(x, t.map, 64);
    out->shared = made_address(x, t.shared);
    out->ctas = t.ctas ? made_value(x, t.ctas, 16) : LLVMConstInt(made_int(x, 16), 0, 0);
    if (!out->address || !out->shared || !out->ctas)
        return -1;
    out->ctas = LLVMBuildZExt(x->b, out->ctas, made_int(x, 32), "");
    return 0;
}

int mt_asm_warp_access(LLVMModuleRef m, LLVMBuilderRef b, LLVMValueRef call, struct mt_asm_warp_access *out)
{
    struct mt_asm_error error;
    struct mt_asm_ties ties;
    struct made w = {m, b, call, &ties};
    size_t length;
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, &error);
    const struct mt_asm_statement *s = a && a->nstatements == 1 ? a->statements : NULL;
    int failed = !s || s->label || s->predicate || mt_asm_ties_read(call, &ties, &error) ||
                 (wmma_of(&w, s, out) && tensor_of(&w, s, out));
    mt_asm_free(a);
    return failed ? -1 : 0;
}

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
    int found = (s->shared ? asm_touches_shared : mt_asm_touches)(s->a, st, &t);
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

/* ---- scope and order ---------------------------------------------------------------------------- */

/* Returns 1 for a fence of memory: not of proxies or of mbarrier.init alone. */
static int strength_is_fence(const struct mt_asm_statement *st)
{
    return st->nparts > 1 && (!strcmp(st->parts[0], "fence") || !strcmp(st->parts[0], "membar")) &&
           strncmp(st->parts[1], "proxy", 5) && strcmp(st->parts[1], "mbarrier_init");
}

static int strength_is_atomic(const struct mt_asm_statement *st)
{
    return !strcmp(st->parts[0], "atom") || !strcmp(st->parts[0], "red") ||
           (!strcmp(st->parts[0], "cp") && mt_asm_has(st, "reduce"));
}

/* Reads the words of an opcode that says a scope or an order. */
static void strength_words(const struct mt_asm_statement *st, struct mt_asm_strength *out)
{
    static const struct {
        const char *word;
        struct mt_asm_strength is;
    } table[] = {
        {"cta", {.scope = MT_SCOPE_CTA}},         {"cluster", {.scope = MT_SCOPE_CLUSTER}},
        {"gpu", {.scope = MT_SCOPE_GPU}},         {"gl", {.scope = MT_SCOPE_GPU}},
        {"sys", {.scope = MT_SCOPE_SYS}},         {"mmio", {.order = MT_ORDER_RELAXED}},
        {"relaxed", {.order = MT_ORDER_RELAXED}}, {"acquire", {.order = MT_ORDER_ACQUIRE}},
        {"release", {.order = MT_ORDER_RELEASE}}, {"acq_rel", {.order = MT_ORDER_ACQ_REL}},
        {"sc", {.order = MT_ORDER_SC}},           {"volatile", {MT_SCOPE_SYS, MT_ORDER_VOLATILE, 0}}};
    for (unsigned i = 1; i < st->nparts; i++) {
        out->exchanges |= !strcmp(st->parts[i], "exch");
        for (unsigned k = 0; k < sizeof table / sizeof *table; k++)
            if (!strcmp(st->parts[i], table[k].word)) {
                out->scope = table[k].is.scope ? table[k].is.scope : out->scope;
                out->order = table[k].is.order ? table[k].is.order : out->order;
            }
    }
}

static struct mt_asm_strength strength_of(const struct mt_asm_statement *st)
{
    struct mt_asm_strength is = {MT_SCOPE_NONE, MT_ORDER_WEAK, 0};
    int access = !strcmp(st->parts[0], "ld") || !strcmp(st->parts[0], "st");
    if (strength_is_fence(st))
        is.order = strcmp(st->parts[0], "membar") ? MT_ORDER_ACQ_REL : MT_ORDER_SC;
    else if (strength_is_atomic(st))
        is.order = MT_ORDER_RELAXED;
    else if (!access)
        return is;
    strength_words(st, &is);
    if (is.order && !is.scope)
        is.scope = MT_SCOPE_GPU;
    return is;
}

struct strength_scan {
    struct scan s; /* first member */
    struct mt_asm_strength found;
};

/* Takes the strength of the first statement that has one. */
static int strength_add(struct scan *s, const struct mt_asm_statement *st)
{
    struct mt_asm_strength *out = &((struct strength_scan *)s)->found;
    if (!out->order)
        *out = strength_of(st);
    return 0;
}

struct mt_asm_strength mt_asm_strength_of(LLVMValueRef call)
{
    struct strength_scan s = {.s = {.call = call}};
    asm_access_scan(&s.s, strength_add);
    return s.found;
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

/* An acquire or release fence (PTX 8.6), and one restricted to shared memory, counts as a whole one: so no
 * order that a program has is missed. */
static void barrier_of_fence(struct scan *s, const struct mt_asm_statement *st)
{
    s->barrier->kind = MT_SYNC_ARRIVE;
    s->barrier->number = MT_BARRIER_FENCE + (uint64_t)strength_of(st).scope;
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
 * mbarrier.init, .arrive, .test_wait, .try_wait; cp.async…; fence, membar */
static int asm_access_barrier(struct scan *s, const struct mt_asm_statement *st)
{
    int memory = is_in_memory(st), cta = !strcmp(st->parts[0], "bar") || !strcmp(st->parts[0], "barrier");
    int groups = is_of_groups(st), copies = is_of_copies(st), fence = strength_is_fence(st);
    if (!memory && !cta && !groups && !copies && !fence)
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
    else if (fence)
        barrier_of_fence(s, st);
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
