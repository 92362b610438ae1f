/* Jumps by an index into a list of labels: brx.idx. LLVM's work on a switch, and on a block with several
 * ways from one switch, is quadratic, and a list may have as many entries as the text is long. So all
 * jumps by a list go through one block, a large list is a tree of small switches, and in it a label has
 * one way from each of them. */
#include "module_parts.h"
#include <string.h>

enum { WAYS_BITS = 8, WAYS = 1 << WAYS_BITS }; /* limits of one switch */

struct jump_target {
    LLVMBasicBlockRef label, way; /* way: block that the current switch uses for the label; NULL: none yet */
    unsigned entries;             /* number of its entries in that switch */
};

struct jump {
    struct mt_ptx_body *b;
    struct jump_target **entry; /* label of each list entry */
    unsigned n;
    LLVMValueRef index;
};

/* Finds the label of each entry. Returns 0 or -1. */
static int jump_find_targets(struct jump *j, const struct mt_ptx_targets *t)
{
    struct mt_ptx_map map = {0};
    int failed = 0;
    j->n = t->n;
    j->entry = mt_parse_alloc(&j->b->p, t->n * sizeof *j->entry);
    for (unsigned i = 0; j->entry && i < t->n && !failed; i++) {
        struct jump_target *one = mt_ptx_map_get(&map, t->names[i]);
        if (!one && (one = mt_parse_alloc(&j->b->p, sizeof *one)))
            failed = mt_ptx_map_put(&map, t->names[i], one) ||
                     !(one->label = mt_ptx_label(j->b, t->scope, t->names[i]));
        j->entry[i] = one;
        failed |= !one;
    }
    mt_ptx_map_free(&map);
    return j->entry && !failed ? 0 : mt_asm_fail(&j->b->l, "out of memory");
}

/* Makes a block between several entries and their label; the empty asm keeps it. */
static LLVMBasicBlockRef jump_between(struct mt_asm_body *l, LLVMBasicBlockRef label)
{
    LLVMTypeRef type = LLVMFunctionType(l->none, NULL, 0, 0);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b), between = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, between);
    LLVMBuildCall2(l->b, type, LLVMGetInlineAsm(type, "", 0, "", 0, 1, 0, LLVMInlineAsmDialectATT, 0), NULL,
                   0, "");
    LLVMBuildBr(l->b, label);
    LLVMPositionBuilderAtEnd(l->b, here);
    return between;
}

/* Emits a switch over the entries from `first` on. The most frequent label is the default: an index beyond
 * the list is undefined. */
static void jump_leaf(struct jump *j, unsigned first)
{
    struct mt_asm_body *l = &j->b->l;
    unsigned end = j->n - first < WAYS ? j->n : first + WAYS;
    struct jump_target *most = j->entry[end - 1];
    for (unsigned i = first; i < end; i++)
        *j->entry[i] = (struct jump_target){.label = j->entry[i]->label};
    for (unsigned i = first; i < end; i++)
        if (++j->entry[i]->entries > most->entries)
            most = j->entry[i];
    LLVMValueRef jump = LLVMBuildSwitch(l->b, j->index, most->label, end - first);
    for (unsigned i = first; i < end; i++) {
        struct jump_target *t = j->entry[i];
        if (!t->way)
            t->way = t->entries > 1 && j->n > WAYS ? jump_between(l, t->label) : t->label;
        if (t != most)
            LLVMAddCase(jump, mt_asm_const(l, 32, i), t->way);
    }
}

/* Emits a tree over the entries selected by `bits` more bits of the index. */
static void jump_tree(struct jump *j, unsigned first, unsigned bits)
{
    struct mt_asm_body *l = &j->b->l;
    if (!bits) {
        jump_leaf(j, first);
        return;
    }
    unsigned step = 1u << bits, end = j->n - first > (uint64_t)step * WAYS ? first + step * WAYS : j->n;
    LLVMValueRef high = LLVMBuildLShr(l->b, j->index, mt_asm_const(l, 32, bits), ""), jump = NULL;
    for (unsigned at = first; at<end; at = end - at> step ? at + step : end) {
        LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b), below = mt_asm_block(l);
        if (!jump)
            jump = LLVMBuildSwitch(l->b, high, below, WAYS);
        else
            LLVMAddCase(jump, mt_asm_const(l, 32, at >> bits), below);
        LLVMPositionBuilderAtEnd(l->b, below);
        jump_tree(j, at, bits - WAYS_BITS);
        LLVMPositionBuilderAtEnd(l->b, here);
    }
}

/* Makes the block for all jumps by the list, which leave the index in the slot. Returns 0 or -1. */
static int jump_dispatch(struct mt_ptx_body *b, struct mt_ptx_targets *t)
{
    struct mt_asm_body *l = &b->l;
    struct jump j = {.b = b};
    unsigned bits = 0;
    if (jump_find_targets(&j, t))
        return -1;
    while ((uint64_t)WAYS << bits < t->n)
        bits += WAYS_BITS;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    t->slot = mt_asm_slot(l, l->i32, "");
    t->dispatch = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, t->dispatch);
    j.index = LLVMBuildLoad2(l->b, l->i32, t->slot, "");
    jump_tree(&j, 0, bits);
    LLVMPositionBuilderAtEnd(l->b, here);
    return 0;
}

int mt_ptx_jump(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_operand *o = l->s->operands;
    struct mt_ptx_targets *t =
        l->s->noperands == 2 && o[1].kind == MT_ASM_NAME ? mt_ptx_map_get(&b->targets, o[1].name) : NULL;
    if (!t)
        return mt_asm_fail(l, "%s without its .branchtargets", l->s->opcode);
    LLVMValueRef index = mt_asm_in(l, &o[0], 32);
    if (!index || (!t->dispatch && jump_dispatch(b, t)))
        return -1;
    LLVMBuildStore(l->b, index, t->slot);
    LLVMBuildBr(l->b, t->dispatch);
    return 1;
}
