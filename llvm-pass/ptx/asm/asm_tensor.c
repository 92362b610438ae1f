/* Tensor copies, cp{.reduce}.async.bulk.tensor in tile mode: reads words and operands, and calls the
 * builtin. */
#include "asm_lower.h"
#include "format/image.h"
#include <string.h>

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

int mt_asm_tensor_read(const struct mt_asm_statement *s, struct mt_asm_tensor *t)
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

enum mt_access_type mt_asm_tensor_type(const struct mt_asm_tensor *t)
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
    if (mt_asm_tensor_read(l->s, &t))
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
