/* Memory instructions of PTX as plain loads, stores, atomics and copies: every space is ordinary memory
 * here. */
#include "asm_lower.h"
#include <string.h>

static unsigned lanes_of(const struct mt_asm_statement *s)
{
    return mt_asm_has(s, "v2") ? 2 : mt_asm_has(s, "v4") ? 4 : mt_asm_has(s, "v8") ? 8 : 1;
}

/* Returns the order of .relaxed, .acquire and so on; not atomic without one. .volatile is relaxed with
 * volatile. */
static LLVMAtomicOrdering ordering_of(const struct mt_asm_statement *s, LLVMAtomicOrdering otherwise)
{
    static const struct {
        const char *word;
        LLVMAtomicOrdering ordering;
    } table[] = {{"relaxed", LLVMAtomicOrderingMonotonic},
                 {"acquire", LLVMAtomicOrderingAcquire},
                 {"release", LLVMAtomicOrderingRelease},
                 {"acq_rel", LLVMAtomicOrderingAcquireRelease},
                 {"sc", LLVMAtomicOrderingSequentiallyConsistent},
                 {"volatile", LLVMAtomicOrderingMonotonic},
                 {"mmio", LLVMAtomicOrderingMonotonic}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (mt_asm_has(s, table[i].word))
            return table[i].ordering;
    return otherwise;
}

static LLVMValueRef asm_memory_element(struct mt_asm_body *l, LLVMValueRef p, LLVMTypeRef type, unsigned i)
{
    LLVMValueRef index = mt_asm_const(l, 64, i);
    return i ? LLVMBuildGEP2(l->b, type, p, &index, 1, "") : p;
}

static void asm_memory_qualify(struct mt_asm_body *l, LLVMValueRef access, unsigned bytes)
{
    LLVMAtomicOrdering ordering = ordering_of(l->s, LLVMAtomicOrderingNotAtomic);
    LLVMSetAlignment(access, bytes);
    if (ordering != LLVMAtomicOrderingNotAtomic)
        LLVMSetOrdering(access, ordering);
    if (mt_asm_has(l->s, "volatile"))
        LLVMSetVolatile(access, 1);
}

/* Returns 1 if the vector must be one access. A GPU moves up to 16 aligned bytes at once, and code that
 * publishes a value beside its flag relies on it (CUB's look-back). */
static int is_whole(const struct mt_asm_body *l, unsigned n, unsigned bits)
{
    return n > 1 && n * bits <= 128 &&
           (ordering_of(l->s, LLVMAtomicOrderingNotAtomic) != LLVMAtomicOrderingNotAtomic ||
            mt_asm_has(l->s, "cg") || mt_asm_has(l->s, "cv") || mt_asm_has(l->s, "wt"));
}

static void qualify_whole(struct mt_asm_body *l, LLVMValueRef access, unsigned bytes)
{
    asm_memory_qualify(l, access, bytes);
    if (LLVMGetOrdering(access) == LLVMAtomicOrderingNotAtomic)
        LLVMSetOrdering(access, LLVMAtomicOrderingMonotonic);
}

static void load_whole(struct mt_asm_body *l, LLVMValueRef p, unsigned n, unsigned bits, LLVMValueRef *parts)
{
    LLVMValueRef all = LLVMBuildLoad2(l->b, mt_asm_int(l, n * bits), p, "");
    qualify_whole(l, all, n * bits / 8);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef shifted = LLVMBuildLShr(l->b, all, mt_asm_const(l, n * bits, i * bits), "");
        parts[i] = LLVMBuildTrunc(l->b, shifted, mt_asm_int(l, bits), "");
    }
}

static void store_whole(struct mt_asm_body *l, LLVMValueRef p, unsigned n, unsigned bits, LLVMValueRef *parts)
{
    LLVMTypeRef type = mt_asm_int(l, n * bits);
    LLVMValueRef all = LLVMConstNull(type);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef wide = LLVMBuildZExt(l->b, parts[i], type, "");
        wide = LLVMBuildShl(l->b, wide, mt_asm_const(l, n * bits, i * bits), "");
        all = LLVMBuildOr(l->b, all, wide, "");
    }
    qualify_whole(l, LLVMBuildStore(l->b, all, p), n * bits / 8);
}

/* Returns element i of a vector operand, or the operand itself if there is one lane. */
static const struct mt_asm_operand *asm_memory_lane(struct mt_asm_body *l, const struct mt_asm_operand *o,
                                                    unsigned lanes, unsigned i)
{
    if (o->kind == MT_ASM_VECTOR && o->nitems == lanes)
        return &o->items[i];
    if (lanes == 1 && o->kind != MT_ASM_VECTOR)
        return o;
    mt_asm_fail(l, "%s: vector operand expected", l->s->opcode);
    return NULL;
}

int mt_asm_memory_ld(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    unsigned n = lanes_of(l->s);
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 2, 3))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[1], mt_asm_is_shared(l->s));
    LLVMTypeRef type = mt_asm_int(l, t.bits * t.lanes);
    LLVMValueRef loaded[8];
    if (!p)
        return -1;
    int whole = is_whole(l, n, t.bits * t.lanes);
    if (whole)
        load_whole(l, p, n, t.bits * t.lanes, loaded);
    for (unsigned i = 0; !whole && i < n; i++) {
        loaded[i] = LLVMBuildLoad2(l->b, type, asm_memory_element(l, p, type, i), "");
        asm_memory_qualify(l, loaded[i], t.bits * t.lanes / 8);
        if (n > 1)
            mt_asm_mark(l, loaded[i], MT_LOAD, i ? 0 : n * t.bits * t.lanes / 8);
    }
    for (unsigned i = 0; i < n; i++) { /* after all loads: the address may also be a destination */
        const struct mt_asm_operand *d = asm_memory_lane(l, &l->s->operands[0], n, i);
        if (!d || mt_asm_out(l, d, loaded[i], t.kind == 's'))
            return -1;
    }
    return 0;
}

/* st.bulk [a], size, 0 */
static int st_bulk(struct mt_asm_body *l)
{
    if (mt_asm_count(l, 3, 3))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[0], mt_asm_is_shared(l->s));
    LLVMValueRef n = mt_asm_in(l, &l->s->operands[1], 64), v = mt_asm_in(l, &l->s->operands[2], 8);
    if (!p || !n || !v)
        return -1;
    LLVMBuildMemSet(l->b, p, v, n, 1);
    return 0;
}

/* Returns 1 for st.async and red.async within a cluster, counted by an mbarrier; those to global memory
 * complete at once. */
static int is_counted(const struct mt_asm_statement *s)
{
    return mt_asm_has(s, "mbarrier::complete_tx::bytes");
}

int mt_asm_memory_st(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    unsigned n = lanes_of(l->s);
    if (mt_asm_has(l->s, "bulk"))
        return st_bulk(l);
    if (is_counted(l->s))
        return mt_asm_fallback(l);
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, 2, 3))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[0], mt_asm_is_shared(l->s));
    unsigned bits = t.bits * t.lanes;
    LLVMValueRef parts[8];
    int whole = is_whole(l, n, bits);
    for (unsigned i = 0; p && i < n; i++) {
        const struct mt_asm_operand *from = asm_memory_lane(l, &l->s->operands[1], n, i);
        LLVMValueRef v = NULL;
        if (from && from->kind == MT_ASM_F64 && t.kind == 'f') {
            v = mt_asm_in_float(l, from, bits);
            v = v ? mt_asm_bits_of(l, v) : NULL;
        } else if (from) {
            v = mt_asm_in(l, from, bits);
        }
        if (!v)
            return -1;
        parts[i] = v;
        if (whole)
            continue;
        LLVMValueRef store = LLVMBuildStore(l->b, v, asm_memory_element(l, p, LLVMTypeOf(v), i));
        asm_memory_qualify(l, store, bits / 8);
        if (n > 1)
            mt_asm_mark(l, store, MT_STORE, i ? 0 : n * bits / 8);
    }
    if (p && whole)
        store_whole(l, p, n, bits, parts);
    return p ? 0 : -1;
}

/* ---- atomics ------------------------------------------------------------------------------------ */

struct atomic_op {
    const char *word;
    LLVMAtomicRMWBinOp is_unsigned, is_signed, is_float;
};
#define NO_FLOAT LLVMAtomicRMWBinOpXchg
static const struct atomic_op atomic_ops[] = {
    {"add", LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpFAdd},
    {"min", LLVMAtomicRMWBinOpUMin, LLVMAtomicRMWBinOpMin, LLVMAtomicRMWBinOpFMin},
    {"max", LLVMAtomicRMWBinOpUMax, LLVMAtomicRMWBinOpMax, LLVMAtomicRMWBinOpFMax},
    {"inc", LLVMAtomicRMWBinOpUIncWrap, LLVMAtomicRMWBinOpUIncWrap, NO_FLOAT},
    {"dec", LLVMAtomicRMWBinOpUDecWrap, LLVMAtomicRMWBinOpUDecWrap, NO_FLOAT},
    {"and", LLVMAtomicRMWBinOpAnd, LLVMAtomicRMWBinOpAnd, NO_FLOAT},
    {"or", LLVMAtomicRMWBinOpOr, LLVMAtomicRMWBinOpOr, NO_FLOAT},
    {"xor", LLVMAtomicRMWBinOpXor, LLVMAtomicRMWBinOpXor, NO_FLOAT},
    {"exch", LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg, NO_FLOAT},
};

/* Widens half or bfloat bits to float. */
static LLVMValueRef asm_memory_widen16(struct mt_asm_body *l, LLVMValueRef bits, char kind)
{
    LLVMTypeRef single = LLVMFloatTypeInContext(l->c);
    if (kind == 'f')
        return LLVMBuildFPExt(l->b, mt_asm_float_of(l, bits), single, "");
    LLVMValueRef wide =
        LLVMBuildShl(l->b, LLVMBuildZExt(l->b, bits, l->i32, ""), mt_asm_const(l, 32, 16), "");
    return LLVMBuildBitCast(l->b, wide, single, "");
}

/* Narrows a float to half or bfloat bits, rounded to nearest even. */
static LLVMValueRef asm_memory_narrow16(struct mt_asm_body *l, LLVMValueRef value, char kind)
{
    if (kind == 'f')
        return mt_asm_bits_of(l, LLVMBuildFPTrunc(l->b, value, LLVMHalfTypeInContext(l->c), ""));
    LLVMValueRef u = mt_asm_bits_of(l, value), sixteen = mt_asm_const(l, 32, 16);
    LLVMValueRef odd = LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, u, sixteen, ""), mt_asm_const(l, 32, 1), "");
    LLVMValueRef up = LLVMBuildAdd(l->b, LLVMBuildAdd(l->b, u, mt_asm_const(l, 32, 0x7fff), ""), odd, "");
    LLVMValueRef nan = LLVMBuildFCmp(l->b, LLVMRealUNO, value, value, "");
    up = LLVMBuildSelect(l->b, nan, mt_asm_const(l, 32, 0x7fff0000), up, "");
    return LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, up, sixteen, ""), l->i16, "");
}

static LLVMValueRef asm_memory_combine16(struct mt_asm_body *l, LLVMValueRef a, LLVMValueRef b,
                                         const struct atomic_op *op, struct mt_asm_type t)
{
    LLVMValueRef x = asm_memory_widen16(l, a, t.kind), y = asm_memory_widen16(l, b, t.kind), args[] = {x, y};
    LLVMTypeRef single = LLVMFloatTypeInContext(l->c);
    LLVMValueRef r = op->is_float == LLVMAtomicRMWBinOpFAdd ? LLVMBuildFAdd(l->b, x, y, "")
                     : op->is_float == LLVMAtomicRMWBinOpFMin
                         ? mt_asm_intrinsic(l, "llvm.minnum", single, args, 2)
                         : mt_asm_intrinsic(l, "llvm.maxnum", single, args, 2);
    return asm_memory_narrow16(l, r, t.kind);
}

/* Emits a compare-and-swap loop for one word of 16-bit floats (one or two). Returns the old word. */
static LLVMValueRef asm_memory_loop16(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v,
                                      const struct atomic_op *op, struct mt_asm_type t, unsigned counts)
{
    unsigned bits = t.bits * t.lanes;
    LLVMTypeRef word = mt_asm_int(l, bits);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b), loop = mt_asm_block(l), done = mt_asm_block(l);
    LLVMValueRef seen = LLVMBuildLoad2(l->b, word, p, ""), fresh = mt_asm_const(l, bits, 0);
    LLVMSetAlignment(seen, bits / 8);
    LLVMSetOrdering(seen, LLVMAtomicOrderingMonotonic);
    mt_asm_mark(l, seen, MT_ATOMIC, counts); /* counted once, for any number of attempts */
    LLVMBuildBr(l->b, loop);
    LLVMPositionBuilderAtEnd(l->b, loop);
    LLVMValueRef old = LLVMBuildPhi(l->b, word, "");
    for (unsigned i = 0; i < t.lanes; i++) {
        LLVMValueRef by = mt_asm_const(l, bits, 16 * i);
        LLVMValueRef a = LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, old, by, ""), l->i16, "");
        LLVMValueRef b = LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, v, by, ""), l->i16, "");
        LLVMValueRef r = LLVMBuildZExt(l->b, asm_memory_combine16(l, a, b, op, t), word, "");
        fresh = LLVMBuildOr(l->b, fresh, LLVMBuildShl(l->b, r, by, ""), "");
    }
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(l->b, p, old, fresh, LLVMAtomicOrderingAcquireRelease,
                                               LLVMAtomicOrderingMonotonic, 0);
    mt_asm_mark(l, pair, MT_ATOMIC, 0);
    LLVMValueRef values[] = {seen, LLVMBuildExtractValue(l->b, pair, 0, "")};
    LLVMBuildCondBr(l->b, LLVMBuildExtractValue(l->b, pair, 1, ""), done, loop);
    LLVMAddIncoming(old, values, (LLVMBasicBlockRef[]){from, loop}, 2);
    LLVMPositionBuilderAtEnd(l->b, done);
    return old;
}

static const struct atomic_op *atomic_op_of(const struct mt_asm_statement *s)
{
    for (unsigned i = 0; i < sizeof atomic_ops / sizeof *atomic_ops; i++)
        if (mt_asm_has(s, atomic_ops[i].word))
            return &atomic_ops[i];
    return NULL;
}

LLVMValueRef mt_asm_atomic(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v, struct mt_asm_type t,
                           unsigned counts)
{
    const struct atomic_op *op = atomic_op_of(l->s);
    LLVMAtomicOrdering ordering = ordering_of(l->s, LLVMAtomicOrderingMonotonic);
    int real = t.kind == 'f' || t.kind == 'g';
    if (!op || (real && op->is_float == NO_FLOAT && strcmp(op->word, "exch"))) {
        mt_asm_fail(l, "%s", l->s->opcode);
        return NULL;
    }
    if (real && t.bits == 16 && strcmp(op->word, "exch"))
        return asm_memory_loop16(l, p, v, op, t, counts);
    LLVMValueRef old = NULL;
    if (!strcmp(op->word, "exch"))
        old = LLVMBuildAtomicRMW(l->b, LLVMAtomicRMWBinOpXchg, p, v, ordering, 0);
    else if (t.lanes > 1) {
        mt_asm_fail(l, "%s", l->s->opcode);
        return NULL;
    } else if (real)
        old = LLVMBuildAtomicRMW(l->b, op->is_float, p, mt_asm_float_of(l, v), ordering, 0);
    else
        old = LLVMBuildAtomicRMW(l->b, t.kind == 's' ? op->is_signed : op->is_unsigned, p, v, ordering, 0);
    mt_asm_mark(l, old, MT_ATOMIC, counts);
    return mt_asm_bits_of(l, old);
}

static int lower_cas(struct mt_asm_body *l, LLVMValueRef p, struct mt_asm_type t)
{
    LLVMAtomicOrdering ordering = ordering_of(l->s, LLVMAtomicOrderingMonotonic);
    LLVMAtomicOrdering failure = ordering == LLVMAtomicOrderingAcquireRelease ? LLVMAtomicOrderingAcquire
                                 : ordering == LLVMAtomicOrderingRelease      ? LLVMAtomicOrderingMonotonic
                                                                              : ordering;
    LLVMValueRef expected = mt_asm_in(l, &l->s->operands[2], t.bits);
    LLVMValueRef desired = mt_asm_in(l, &l->s->operands[3], t.bits);
    if (!expected || !desired)
        return -1;
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(l->b, p, expected, desired, ordering, failure, 0);
    return mt_asm_out(l, &l->s->operands[0], LLVMBuildExtractValue(l->b, pair, 0, ""), t.kind == 's');
}

int mt_asm_memory_atom(struct mt_asm_body *l)
{
    struct mt_asm_type t;
    int returns = !strcmp(l->s->parts[0], "atom"), cas = mt_asm_has(l->s, "cas");
    unsigned n = lanes_of(l->s), bits, at = (unsigned)returns;
    LLVMValueRef old[8];
    if (is_counted(l->s))
        return mt_asm_fallback(l);
    if (mt_asm_last_type(l, &t) || mt_asm_count(l, at + 2 + (unsigned)cas, at + 3 + (unsigned)cas))
        return -1;
    LLVMValueRef p = mt_asm_address(l, &l->s->operands[at], mt_asm_is_shared(l->s));
    bits = t.bits * t.lanes;
    if (!p)
        return -1;
    if (cas && returns)
        return lower_cas(l, p, t);
    for (unsigned i = 0; i < n; i++) {
        const struct mt_asm_operand *from = &l->s->operands[at + 1];
        if ((n > 1 && !(from = asm_memory_lane(l, from, n, i))))
            return -1;
        LLVMValueRef v = mt_asm_in(l, from, bits);
        if (!v || !(old[i] = mt_asm_atomic(l, asm_memory_element(l, p, mt_asm_int(l, bits), i), v, t,
                                           i ? 0 : n * bits / 8)))
            return -1;
    }
    for (unsigned i = 0; returns && i < n; i++) {
        const struct mt_asm_operand *d = &l->s->operands[0];
        if (n > 1 && d->kind != MT_ASM_SINK && !(d = asm_memory_lane(l, d, n, i)))
            return -1;
        if (mt_asm_out(l, d, old[i], t.kind == 's'))
            return -1;
    }
    return 0;
}

/* ---- fences, hints ------------------------------------------------------------------------------ */

int mt_asm_memory_fence(struct mt_asm_body *l)
{
    int light = mt_asm_has(l->s, "acq_rel") || mt_asm_has(l->s, "acquire") || mt_asm_has(l->s, "release");
    LLVMBuildFence(l->b, light ? LLVMAtomicOrderingAcquireRelease : LLVMAtomicOrderingSequentiallyConsistent,
                   0, "");
    return 0;
}

int mt_asm_nothing(struct mt_asm_body *l)
{
    (void)l;
    return 0;
}

int mt_asm_memory_createpolicy(struct mt_asm_body *l)
{
    return mt_asm_count(l, 1, 5) ? -1 : mt_asm_out(l, &l->s->operands[0], mt_asm_const(l, 64, 0), 0);
}
