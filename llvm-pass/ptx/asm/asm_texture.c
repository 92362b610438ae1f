/* Texture and surface instructions: passes their operands as an array of words to mt_cpu_tex and the like
 * (format/image.h). */
#include "asm_lower.h"
#include "format/image.h"
#include <stdlib.h>
#include <string.h>

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
