/* Memory instructions of PTX as plain loads, stores, atomics and copies: every space is ordinary memory
 * here. */
#include "asm_lower.h"
#include "format/image.h"

#include <stdlib.h>
#include <string.h>

/* ---- Asynchronous copies of PTX, completed at once, and the barriers that count them ---- */

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

static LLVMValueRef asm_atomic(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v, struct mt_asm_type t,
                               unsigned counts);

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
    if (!asm_atomic(l, LLVMBuildGEP2(l->b, type, dst, &i, 1, ""), v, t, 0))
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

/* Texture and surface instructions: passes their operands as an array of words to mt_cpu_tex and the like
 * (format/image.h). */

static int word_in(const struct mt_asm_statement *s, const char *const *words, unsigned n)
{
    for (unsigned i = 1; i < s->nparts; i++)
        for (unsigned j = 0; j < n; j++)
            if (!strcmp(s->parts[i], words[j]))
                return (int)j;
    return -1;
}
#define WORD_IN(s, words) word_in((s), (words), sizeof(words) / sizeof *(words))

static const char *const geometries[] = {"1d", "2d", "3d", "a1d", "a2d", "cube", "acube"};
/* Number of coordinates in use, including the layer; PTX pads three to four. */
static const unsigned coordinates[] = {1, 2, 3, 2, 3, 3, 4};

static LLVMValueRef asm_texture_at(struct mt_asm_body *l, LLVMValueRef array, unsigned bits, unsigned i)
{
    LLVMValueRef index = mt_asm_const(l, 64, i);
    return LLVMBuildGEP2(l->b, mt_asm_int(l, bits), array, &index, 1, "");
}

/* Stores the words of a vector operand, or a single one, at array[from…]. Returns 0 or -1. */
static int asm_texture_put(struct mt_asm_body *l, LLVMValueRef array, unsigned from,
                           const struct mt_asm_operand *o, unsigned n)
{
    int vector = o->kind == MT_ASM_VECTOR;
    if ((vector ? o->nitems : 1) < n || (vector ? o->nitems : 1) > 4)
        return mt_asm_fail(l, "%s: operand not understood", l->s->opcode);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef v = mt_asm_in(l, vector ? &o->items[i] : o, 32);
        if (!v)
            return -1;
        LLVMBuildStore(l->b, v, asm_texture_at(l, array, 32, from + i));
    }
    return 0;
}

/* Copies results to the registers of operand 0; the p of d|p becomes "resident". */
static int asm_texture_take(struct mt_asm_body *l, LLVMValueRef array, unsigned n)
{
    const struct mt_asm_operand *d = &l->s->operands[0];
    int vector = d->kind == MT_ASM_VECTOR;
    if ((vector ? d->nitems : 1) != n)
        return mt_asm_fail(l, "%s: destination not understood", l->s->opcode);
    for (unsigned i = 0; i < n; i++)
        if (mt_asm_out(l, vector ? &d->items[i] : d,
                       LLVMBuildLoad2(l->b, l->i64, asm_texture_at(l, array, 64, i), ""), 0))
            return -1;
    return d->second ? mt_asm_out(l, d->second, mt_asm_const(l, 1, 1), 0) : 0;
}

/* Reads [object, {coordinates}]: returns the object, with the coordinates in the array; NULL on error. */
static LLVMValueRef object_and_place(struct mt_asm_body *l, const struct mt_asm_operand *o,
                                     LLVMValueRef array, unsigned n)
{
    if (o->kind != MT_ASM_MEMORY || o->nitems != 2 || o->offset || o->second) {
        mt_asm_fail(l, "%s: address not understood", l->s->opcode);
        return NULL;
    }
    if (asm_texture_put(l, array, 0, &o->items[1], n))
        return NULL;
    return mt_asm_in(l, &o->items[0], 64);
}

static int asm_texture_call(struct mt_asm_body *l, const char *name, LLVMValueRef object, unsigned what,
                            LLVMValueRef in, LLVMValueRef out)
{
    LLVMValueRef args[] = {object, mt_asm_const(l, 32, what), in, out};
    return mt_asm_call_by_name(l, name, l->none, args, 4) ? 0 : -1;
}

/* tex[.level|.grad].geom.v4.dtype.ctype d[|p], [obj, c]{, level | dx, dy};  tld4.comp.2d.v4.dtype.f32 */
int mt_asm_texture_tex(struct mt_asm_body *l)
{
    static const char *const components[] = {"r", "g", "b", "a"};
    const struct mt_asm_statement *s = l->s;
    int geometry = WORD_IN(s, geometries), gather = !strcmp(s->parts[0], "tld4");
    int level = mt_asm_has(s, "level"), grad = mt_asm_has(s, "grad");
    const char *dtype = s->nparts > 3 ? s->parts[s->nparts - 2] : "";
    const char *ctype = s->nparts > 3 ? s->parts[s->nparts - 1] : "";
    unsigned what = (unsigned)geometry, wanted = 2 + (level ? 1 : grad ? 2 : 0);
    if (geometry < 0 || !mt_asm_has(s, "v4") || s->noperands != wanted || mt_asm_has(s, "base") ||
        (strcmp(dtype, "f32") && strcmp(dtype, "s32") && strcmp(dtype, "u32")) ||
        (strcmp(ctype, "f32") && (strcmp(ctype, "s32") || level || grad || gather)))
        return mt_asm_fail(l, "%s", s->opcode);
    if (gather) {
        int component = WORD_IN(s, components);
        if (component < 0 || geometry != MT_TEX_2D)
            return mt_asm_fail(l, "%s", s->opcode);
        what |= MT_TEX_GATHER | (unsigned)component << MT_TEX_COMPONENT_AT;
    }
    what |= level ? MT_TEX_LEVEL : grad ? MT_TEX_GRAD : 0;
    what |= *ctype == 's' ? MT_TEX_INTEGER : 0;
    LLVMValueRef in = mt_asm_slot(l, LLVMArrayType2(l->i32, 12), "");
    LLVMValueRef out = mt_asm_slot(l, LLVMArrayType2(l->i64, 4), "");
    unsigned n = coordinates[geometry],
             slopes = geometry >= MT_TEX_A1D && geometry != MT_TEX_CUBE ? n - 1 : n;
    LLVMValueRef object = in && out ? object_and_place(l, &s->operands[1], in, n) : NULL;
    if (!object || (level && asm_texture_put(l, in, 4, &s->operands[2], 1)) ||
        (grad && (asm_texture_put(l, in, 4, &s->operands[2], slopes) ||
                  asm_texture_put(l, in, 8, &s->operands[3], slopes))))
        return -1;
    return asm_texture_call(l, "mt_cpu_tex", object, what, in, out) || asm_texture_take(l, out, 4) ? -1 : 0;
}

/* suld.b.geom{.cache}{.vec}.type.mode d, [obj, c];  sust.b.… [obj, c], v */
int mt_asm_texture_surface(struct mt_asm_body *l)
{
    static const char *const modes[] = {"trap", "clamp", "zero"}, *const vectors[] = {"v1", "v2", "v4"},
                             *const types[] = {"b8", "b16", "b32", "b64"};
    const struct mt_asm_statement *s = l->s;
    int geometry = WORD_IN(s, geometries), type = WORD_IN(s, types), mode = WORD_IN(s, modes);
    int vector = WORD_IN(s, vectors), store = !strcmp(s->parts[0], "sust");
    if (geometry < 0 || geometry > MT_TEX_A2D || type < 0 || mode < 0 || s->noperands != 2 ||
        strcmp(s->parts[1], "b"))
        return mt_asm_fail(l, "%s", s->opcode);
    unsigned n = 1u << (vector < 0 ? 0 : vector), bytes = 1u << type;
    unsigned what =
        (unsigned)geometry | (unsigned)mode << 3 | bytes << MT_SURF_BYTES_AT | n << MT_SURF_COUNT_AT;
    LLVMValueRef in = mt_asm_slot(l, LLVMArrayType2(l->i32, 4), "");
    LLVMValueRef data = mt_asm_slot(l, LLVMArrayType2(l->i64, 4), "");
    LLVMValueRef object =
        in && data ? object_and_place(l, &s->operands[!store], in, coordinates[geometry]) : NULL;
    if (!object)
        return -1;
    if (!store)
        return asm_texture_call(l, "mt_cpu_surf_load", object, what, in, data) || asm_texture_take(l, data, n)
                   ? -1
                   : 0;
    const struct mt_asm_operand *v = &s->operands[1];
    if ((v->kind == MT_ASM_VECTOR ? v->nitems : 1) != n)
        return mt_asm_fail(l, "%s: source not understood", s->opcode);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef x = mt_asm_in(l, v->kind == MT_ASM_VECTOR ? &v->items[i] : v, 8 * bytes);
        if (!x)
            return -1;
        LLVMBuildStore(l->b, LLVMBuildZExt(l->b, x, l->i64, ""), asm_texture_at(l, data, 64, i));
    }
    return asm_texture_call(l, "mt_cpu_surf_store", object, what, in, data);
}

/* txq.width.b32 d, [obj];  suq.… */
int mt_asm_texture_query(struct mt_asm_body *l)
{
    static const char *const sizes[] = {"width", "height", "depth", "array_size"};
    const struct mt_asm_statement *s = l->s;
    int size = WORD_IN(s, sizes);
    if (size < 0 || s->nparts != 3 || s->noperands != 2 || s->operands[1].kind != MT_ASM_MEMORY ||
        s->operands[1].nitems != 1)
        return mt_asm_fail(l, "%s", s->opcode);
    LLVMValueRef object = mt_asm_in(l, &s->operands[1].items[0], 64);
    if (!object)
        return -1;
    LLVMValueRef args[] = {object, mt_asm_const(l, 32, (unsigned)size)};
    LLVMValueRef v = mt_asm_call_by_name(l, "mt_cpu_tex_size", l->i32, args, 2);
    return v ? mt_asm_out(l, &s->operands[0], v, 0) : -1;
}

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

/* Returns 1 if the vector must be one access, as other threads are meant to see it. A GPU moves up to 16
 * aligned bytes at once, and code that publishes a value beside its flag relies on it (CUB's look-back). */
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

/* Builds one atomic read-modify-write of one element by the opcode. Returns the old bits, or
 * NULL on error. counts: bytes of its access in the second count, or 0. */
static LLVMValueRef asm_atomic(struct mt_asm_body *l, LLVMValueRef p, LLVMValueRef v, struct mt_asm_type t,
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
        if (!v || !(old[i] = asm_atomic(l, asm_memory_element(l, p, mt_asm_int(l, bits), i), v, t,
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
