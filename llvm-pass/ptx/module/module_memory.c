/* Plain loads, stores and atomics of PTX, and conversions of addresses between spaces, as plain IR.
 * Instructions with an order, a scope or a cache operator are kept as instructions. */
#include "module_parts.h"
#include <string.h>

#define ANY (-1) /* a space that plain IR cannot express */

/* Returns the address space of a word; 0 with *found = 0 if it names none. Parameters and local memory are
 * the stack. */
static int memory_space(const char *word, int *found)
{
    static const struct {
        const char *word;
        int space;
    } table[] = {{"global", 1},       {"shared", 3},      {"shared::cta", 3},
                 {"const", 4},        {"local", 0},       {"param", 0},
                 {"param::entry", 0}, {"param::func", 0}, {"shared::cluster", ANY}};
    *found = 1;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return table[i].space;
    *found = 0;
    return 0;
}

struct memory_form {
    int space, is_volatile, invariant, on_stack;
    unsigned lanes;
    struct mt_asm_type type;
};

/* Returns 1 for a plain load or store. */
static int memory_is_plain(const struct mt_asm_statement *s, struct memory_form *f)
{
    *f = (struct memory_form){.lanes = 1};
    if (s->nparts < 2 || !mt_asm_type(s->parts[s->nparts - 1], &f->type) || s->noperands != 2)
        return 0;
    for (unsigned i = 1; i + 1 < s->nparts; i++) {
        const char *word = s->parts[i];
        int found, space = memory_space(word, &found);
        if (found && space == ANY)
            return 0;
        if (found) {
            f->space = space;
            f->on_stack = word[0] == 'p' || (word[0] == 'l');
        } else if (!strcmp(word, "volatile"))
            f->is_volatile = 1;
        else if (!strcmp(word, "nc"))
            f->invariant = 1;
        else if (!strcmp(word, "v2") || !strcmp(word, "v4"))
            f->lanes = (unsigned)(word[1] - '0');
        else if (strcmp(word, "weak"))
            return 0;
    }
    return f->lanes * f->type.bits * f->type.lanes <= 128;
}

static LLVMTypeRef memory_pointer_type(struct mt_asm_body *l, int space)
{
    return LLVMPointerTypeInContext(l->c, (unsigned)space);
}

/* Returns the variable or parameter that an operand names, as a pointer in that space; NULL: none. */
static LLVMValueRef memory_named(struct mt_ptx_body *b, const struct mt_asm_operand *o, int space)
{
    LLVMValueRef v = NULL;
    if (o->kind == MT_ASM_REG && b->l.a->regs[o->index].memory)
        v = mt_ptx_memory(b, o);
    else if (o->kind == MT_ASM_NAME)
        v = LLVMGetNamedGlobal(b->x->m, o->name);
    return v && LLVMGetPointerAddressSpace(LLVMTypeOf(v)) == (unsigned)space ? v : NULL;
}

static LLVMValueRef memory_address(struct mt_ptx_body *b, const struct mt_asm_operand *o, int space)
{
    struct mt_asm_body *l = &b->l;
    if (o->kind != MT_ASM_MEMORY || o->nitems != 1 || o->second) {
        mt_asm_fail(l, "%s: address form not supported", l->s->opcode);
        return NULL;
    }
    const struct mt_asm_operand *base = &o->items[0];
    LLVMValueRef p = memory_named(b, base, space);
    if (p) {
        LLVMValueRef by = mt_asm_const(l, 64, (uint64_t)(o->offset + base->offset));
        return o->offset + base->offset ? LLVMBuildGEP2(l->b, l->i8, p, &by, 1, "") : p;
    }
    unsigned width = base->kind == MT_ASM_REG && mt_asm_width(l, base) == 32 ? 32 : 64;
    LLVMValueRef v = mt_asm_in(l, base, width);
    if (!v)
        return NULL;
    if (o->offset)
        v = LLVMBuildAdd(l->b, v, mt_asm_const(l, width, (uint64_t)o->offset), "");
    return LLVMBuildIntToPtr(l->b, v, memory_pointer_type(l, space), "");
}

static LLVMTypeRef memory_type(struct mt_asm_body *l, const struct memory_form *f)
{
    LLVMTypeRef one = mt_asm_int(l, f->type.bits * f->type.lanes);
    return f->lanes > 1 ? LLVMVectorType(one, f->lanes) : one;
}

static const char memory_kept[] = "memtrace.kept";

static unsigned memory_kept_kind(LLVMValueRef inst)
{
    return LLVMGetMDKindIDInContext(LLVMGetTypeContext(LLVMTypeOf(inst)), memory_kept,
                                    sizeof memory_kept - 1);
}

void mt_ptx_keep_word(LLVMValueRef inst, const char *opcode)
{
    LLVMContextRef c = LLVMGetTypeContext(LLVMTypeOf(inst));
    LLVMMetadataRef word = LLVMMDStringInContext2(c, opcode, strlen(opcode));
    LLVMSetMetadata(inst, memory_kept_kind(inst), LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, &word, 1)));
}

void mt_ptx_keep_access(LLVMValueRef inst, const char *opcode)
{
    if (LLVMGetVolatile(inst))
        return;
    LLVMSetVolatile(inst, 1);
    mt_ptx_keep_word(inst, opcode);
}

const char *mt_ptx_kept_as(LLVMValueRef inst)
{
    LLVMValueRef data = LLVMGetMetadata(inst, memory_kept_kind(inst)), word;
    unsigned n;
    if (!data || LLVMGetMDNodeNumOperands(data) != 1)
        return NULL;
    LLVMGetMDNodeOperands(data, &word);
    return LLVMGetMDString(word, &n);
}

void mt_ptx_release_access(LLVMValueRef inst)
{
    LLVMSetVolatile(inst, 0);
    LLVMSetMetadata(inst, memory_kept_kind(inst), NULL);
}

void mt_ptx_release_accesses(LLVMModuleRef module)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                if ((LLVMIsALoadInst(i) || LLVMIsAStoreInst(i)) && mt_ptx_kept_as(i))
                    mt_ptx_release_access(i);
}

static void memory_qualify(struct mt_ptx_body *b, LLVMValueRef access, const struct memory_form *f)
{
    struct mt_asm_body *l = &b->l;
    LLVMSetAlignment(access, f->lanes * f->type.bits * f->type.lanes / 8);
    if (f->is_volatile)
        LLVMSetVolatile(access, 1);
    if (f->invariant)
        LLVMSetMetadata(access, LLVMGetMDKindIDInContext(l->c, "invariant.load", 14),
                        LLVMMetadataAsValue(l->c, LLVMMDNodeInContext2(l->c, NULL, 0)));
    if ((b->x->is_debug || !f->on_stack) && f->space <= 1)
        mt_ptx_keep_access(access, l->s->opcode);
}

/* Returns element i of a register operand; NULL on failure. */
static const struct mt_asm_operand *memory_lane(struct mt_asm_body *l, const struct mt_asm_operand *o,
                                                unsigned lanes, unsigned i)
{
    if (o->kind == MT_ASM_VECTOR && o->nitems == lanes)
        return &o->items[i];
    if (lanes == 1 && o->kind != MT_ASM_VECTOR)
        return o;
    mt_asm_fail(l, "%s: %u registers are expected", l->s->opcode, lanes);
    return NULL;
}

static int memory_load(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    struct memory_form f;
    if (!memory_is_plain(l->s, &f))
        return 0;
    LLVMValueRef p = memory_address(b, &l->s->operands[1], f.space);
    if (!p)
        return -1;
    LLVMValueRef all = LLVMBuildLoad2(l->b, memory_type(l, &f), p, "");
    memory_qualify(b, all, &f);
    for (unsigned i = 0; i < f.lanes; i++) {
        const struct mt_asm_operand *to = memory_lane(l, &l->s->operands[0], f.lanes, i);
        LLVMValueRef one = f.lanes > 1 ? LLVMBuildExtractElement(l->b, all, mt_asm_const(l, 32, i), "") : all;
        if (!to || mt_asm_out(l, to, one, f.type.kind == 's'))
            return -1;
    }
    return 1;
}

static LLVMValueRef memory_value(struct mt_asm_body *l, const struct mt_asm_operand *o, struct mt_asm_type t)
{
    if (o->kind == MT_ASM_F64 && t.kind == 'f' && t.bits == 32)
        return mt_asm_bits_of(l, mt_asm_in_float(l, o, 32));
    return mt_asm_in(l, o, t.bits * t.lanes);
}

static int memory_store(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    struct memory_form f;
    if (!memory_is_plain(l->s, &f))
        return 0;
    LLVMValueRef p = memory_address(b, &l->s->operands[0], f.space), all = NULL;
    if (!p)
        return -1;
    if (f.lanes > 1)
        all = LLVMGetUndef(memory_type(l, &f));
    for (unsigned i = 0; i < f.lanes; i++) {
        const struct mt_asm_operand *from = memory_lane(l, &l->s->operands[1], f.lanes, i);
        LLVMValueRef one = from ? memory_value(l, from, f.type) : NULL;
        if (!one)
            return -1;
        all = f.lanes > 1 ? LLVMBuildInsertElement(l->b, all, one, mt_asm_const(l, 32, i), "") : one;
    }
    memory_qualify(b, LLVMBuildStore(l->b, all, p), &f);
    return 1;
}

/* Returns the integer operation of plain IR; -1: none. */
static int memory_rmw(const char *word, char kind)
{
    static const struct {
        const char *word;
        int is_signed, other; /* min and max: first for s32 and s64, second for u32 and u64 */
    } table[] = {{"add", LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpAdd},
                 {"and", LLVMAtomicRMWBinOpAnd, LLVMAtomicRMWBinOpAnd},
                 {"or", LLVMAtomicRMWBinOpOr, LLVMAtomicRMWBinOpOr},
                 {"xor", LLVMAtomicRMWBinOpXor, LLVMAtomicRMWBinOpXor},
                 {"exch", LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg},
                 {"min", LLVMAtomicRMWBinOpMin, LLVMAtomicRMWBinOpUMin},
                 {"max", LLVMAtomicRMWBinOpMax, LLVMAtomicRMWBinOpUMax}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(word, table[i].word))
            return kind == 's' ? table[i].is_signed : table[i].other;
    return -1;
}

/* atom.global.op.type d, [a], b and red, as in clang's CUDA code: without order or scope, of 32 and 64
 * bits. */
static int memory_atomic(struct mt_ptx_body *b, int has_result)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    struct mt_asm_type type;
    if (s->nparts != 4 || s->noperands != 2u + (unsigned)has_result || strcmp(s->parts[1], "global") != 0 ||
        !mt_asm_type(s->parts[3], &type) || type.kind == 'f' || type.lanes != 1 ||
        (type.bits != 32 && type.bits != 64))
        return 0;
    int op = memory_rmw(s->parts[2], type.kind);
    if (op < 0)
        return 0;
    LLVMValueRef p = memory_address(b, &s->operands[has_result], 1);
    LLVMValueRef v = p ? mt_asm_in(l, &s->operands[1 + has_result], type.bits) : NULL;
    if (!v)
        return -1;
    LLVMValueRef old =
        LLVMBuildAtomicRMW(l->b, (LLVMAtomicRMWBinOp)op, p, v, LLVMAtomicOrderingSequentiallyConsistent, 0);
    return has_result && mt_asm_out(l, &s->operands[0], old, type.kind == 's') ? -1 : 1;
}

/* cvta{.to}.space.u64 d, a */
static int memory_convert(struct mt_ptx_body *b)
{
    struct mt_asm_body *l = &b->l;
    const struct mt_asm_statement *s = l->s;
    int to = s->nparts == 4 && !strcmp(s->parts[1], "to"), found;
    if (s->nparts != 3u + (unsigned)to || s->noperands != 2 || strcmp(s->parts[s->nparts - 1], "u64"))
        return 0;
    int space = memory_space(s->parts[1 + to], &found);
    if (!found || space == ANY)
        return 0;
    const struct mt_asm_operand *from = &s->operands[1];
    LLVMValueRef v = mt_asm_in(l, from, 64);
    if (!v)
        return -1;
    if (space) {
        LLVMTypeRef generic = l->ptr, own = memory_pointer_type(l, space);
        v = LLVMBuildIntToPtr(l->b, v, to ? generic : own, "");
        v = LLVMBuildAddrSpaceCast(l->b, v, to ? own : generic, "");
        v = LLVMBuildPtrToInt(l->b, v, l->i64, "");
    }
    return mt_asm_out(l, &s->operands[0], v, 0) ? -1 : 1;
}

int mt_ptx_move(struct mt_ptx_body *b)
{
    const char *op = b->l.s->parts[0];
    if (!strcmp(op, "ld"))
        return memory_load(b);
    if (!strcmp(op, "st"))
        return memory_store(b);
    if (!strcmp(op, "atom") || !strcmp(op, "red"))
        return memory_atomic(b, op[0] == 'a');
    return !strcmp(op, "cvta") ? memory_convert(b) : 0;
}
