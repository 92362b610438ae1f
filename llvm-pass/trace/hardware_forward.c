/* What copies and stores make needless within a block of optimised code. The optimiser takes copies of
 * structs as a whole; instruction selection takes them apart and then sees that a load reads what was just
 * stored or loaded, that a store puts back what is there, or that another one overwrites it (LLVM 19,
 * DAGCombiner::visitLOAD and visitSTORE). It knows addresses as a base and a distance, and nothing of
 * `restrict` or types: accesses of two bases may meet. */
#include "base/unit.h"
#include <stdlib.h>

enum { FORWARD_REACH = 18 }; /* accesses that are looked past: as many as GatherAllAliases does */

struct forward_access {
    LLVMValueRef inst; /* NULL: gone */
    LLVMValueRef base; /* NULL: reads, who knows where */
    int64_t at;        /* bytes after the base */
    uint64_t bytes;
    LLVMTypeRef type;
    int is_store;
    int is_kept; /* assembly hangs on the store: nothing that overwrites it is the next */
};

struct forward {
    struct mt_unit *u;
    LLVMBuilderRef b;
    struct forward_access *list; /* of the block so far, since memory was last ordered */
    unsigned n;
};

static int forward_is_simple(LLVMValueRef inst)
{
    return (LLVMIsALoadInst(inst) || LLVMIsAStoreInst(inst)) && !LLVMGetVolatile(inst) &&
           LLVMGetOrdering(inst) == LLVMAtomicOrderingNotAtomic;
}

static struct forward_access forward_access_of(const struct forward *f, LLVMValueRef inst)
{
    struct forward_access a = {.inst = inst, .is_store = LLVMIsAStoreInst(inst) != NULL};
    a.type = LLVMTypeOf(a.is_store ? LLVMGetOperand(inst, 0) : inst);
    a.bytes = LLVMStoreSizeOfType(f->u->layout, a.type);
    a.base = mt_shim_base(LLVMGetOperand(inst, a.is_store ? 1 : 0), &a.at);
    return a;
}

static int forward_is_object(LLVMValueRef base)
{
    return LLVMIsAAllocaInst(base) || LLVMIsAGlobalVariable(base);
}

static int forward_never_changes(const struct forward *f, const struct forward_access *a)
{
    static const char name[] = "invariant.load";
    return !a->is_store && a->inst &&
           LLVMGetMetadata(a->inst, LLVMGetMDKindIDInContext(f->u->context, name, sizeof name - 1));
}

/* May the two touch the same byte, one of them storing? */
static int forward_may_meet(const struct forward *f, const struct forward_access *a,
                            const struct forward_access *b)
{
    if ((!a->is_store && !b->is_store) || forward_never_changes(f, a) || forward_never_changes(f, b))
        return 0;
    if (!a->base || !b->base)
        return 1;
    if (a->base == b->base)
        return a->at < b->at + (int64_t)b->bytes && b->at < a->at + (int64_t)a->bytes;
    return !(forward_is_object(a->base) && forward_is_object(b->base));
}

/* Pointers are integers to instruction selection. */
static int forward_same_type(const struct forward_access *a, const struct forward_access *b)
{
    LLVMTypeKind k = LLVMGetTypeKind(a->type), l = LLVMGetTypeKind(b->type);
    int words = (k == LLVMPointerTypeKind || k == LLVMIntegerTypeKind) &&
                (l == LLVMPointerTypeKind || l == LLVMIntegerTypeKind);
    return a->type == b->type || (words && a->bytes == 8 && b->bytes == 8 && k != l);
}

static int forward_same_place(const struct forward_access *a, const struct forward_access *b)
{
    return a->base && a->base == b->base && a->at == b->at && forward_same_type(a, b);
}

static int forward_is_recorded(const struct forward *f, const struct forward_access *a)
{
    LLVMValueRef pointer = LLVMGetOperand(a->inst, a->is_store ? 1 : 0);
    return mt_space_is_recorded(f->u, mt_space_of(f->u, pointer));
}

static int forward_has_mark(const struct forward *f, const struct forward_access *a, const char *mark)
{
    return LLVMGetMetadata(a->inst, mt_unit_mark(f->u, mark)) != NULL;
}

/* The value that a load gets from an earlier store or load of the same; NULL: it must be loaded. There are no
 * registers of 8 bits to take a lower byte from, nor, once accesses are taken apart,
 * any byte that is stored. */
static LLVMValueRef forward_value(const struct forward *f, const struct forward_access *load,
                                  const struct forward_access *from)
{
    LLVMValueRef value = from->is_store ? LLVMGetOperand(from->inst, 0) : from->inst;
    if (forward_same_place(load, from)) {
        if (from->is_store && load->bytes == 1 &&
            (forward_has_mark(f, load, MT_MARK_PART) || forward_has_mark(f, from, MT_MARK_PART)))
            return NULL;
        if (LLVMTypeOf(value) == load->type)
            return value;
        return LLVMGetTypeKind(load->type) == LLVMPointerTypeKind
                   ? LLVMBuildIntToPtr(f->b, value, load->type, "")
                   : LLVMBuildPtrToInt(f->b, value, load->type, "");
    }
    int narrower = from->is_store && from->base == load->base && from->at == load->at &&
                   LLVMGetTypeKind(from->type) == LLVMIntegerTypeKind &&
                   LLVMGetTypeKind(load->type) == LLVMIntegerTypeKind && load->bytes < from->bytes &&
                   (LLVMGetIntTypeWidth(load->type) == 16 || LLVMGetIntTypeWidth(load->type) == 32);
    return narrower ? LLVMBuildTrunc(f->b, value, load->type, "") : NULL;
}

/* 1: the load is gone. */
static int forward_load(struct forward *f, const struct forward_access *load)
{
    int past = 0, stores = 0;
    if (!load->base || !forward_is_recorded(f, load))
        return 0;
    for (unsigned i = f->n; i-- > 0;) {
        const struct forward_access *a = &f->list[i];
        if (!a->inst)
            continue;
        stores += a->is_store;
        if (!(forward_may_meet(f, load, a) || (!a->is_store && forward_same_place(load, a)))) {
            if ((stores && ++past > FORWARD_REACH) || (a->is_store && forward_has_mark(f, a, MT_MARK_WALL)))
                return 0;
            continue;
        }
        LLVMValueRef value = forward_value(f, load, a);
        if (!value)
            return 0;
        LLVMReplaceAllUsesWith(load->inst, value);
        LLVMInstructionEraseFromParent(load->inst);
        return 1;
    }
    return 0;
}

static int forward_is_piece(const struct forward *f, const struct forward_access *a)
{
    return forward_has_mark(f, a, MT_MARK_PIECE) || forward_has_mark(f, a, MT_MARK_WALL);
}

/* Does `a` overwrite `b`? The pieces of a copy or fill hang together: they stay, and see nothing of what is
 * before them but together. */
static int forward_covers(const struct forward *f, const struct forward_access *a,
                          const struct forward_access *b)
{
    return !forward_is_piece(f, a) && !forward_is_piece(f, b) && a->base == b->base && a->at <= b->at &&
           a->at + (int64_t)a->bytes >= b->at + (int64_t)b->bytes;
}

/* Parts of one access are not ordered among themselves: one of them can be the last
 * before the store, several cannot. */
static int forward_is_last(const struct forward *f, const struct forward_access *store,
                           const struct forward_access *before)
{
    unsigned parts = 0;
    if (!forward_has_mark(f, before, MT_MARK_PART))
        return !before->is_kept;
    for (unsigned i = 0; i < f->n; i++)
        parts += f->list[i].inst && f->list[i].is_store && forward_has_mark(f, &f->list[i], MT_MARK_PART) &&
                 forward_may_meet(f, store, &f->list[i]);
    return parts == 1;
}

/* 1: the store is gone. Those that it overwrites go. */
static int forward_store(struct forward *f, const struct forward_access *store)
{
    LLVMValueRef value = LLVMGetOperand(store->inst, 0);
    int is_read = 0; /* by a load in between, perhaps */
    int past = 0;
    if (!store->base || !forward_is_recorded(f, store))
        return 0;
    for (unsigned i = f->n; i-- > 0;) {
        struct forward_access *a = &f->list[i];
        if (!a->inst)
            continue;
        if (!forward_may_meet(f, store, a)) {
            if (++past > FORWARD_REACH || forward_has_mark(f, a, MT_MARK_WALL))
                return 0;
            continue;
        }
        LLVMValueRef there = a->is_store ? LLVMGetOperand(a->inst, 0) : a->inst;
        if (there == value && forward_same_place(store, a) && !(a->is_store && is_read)) {
            LLVMInstructionEraseFromParent(store->inst);
            return 1;
        }
        if (a->is_store && (is_read || !forward_is_last(f, store, a) || !forward_covers(f, store, a)))
            return 0;
        if (a->is_store) {
            LLVMInstructionEraseFromParent(a->inst);
            a->inst = NULL;
        } else
            is_read = 1;
    }
    return 0;
}

static int forward_is_asm(LLVMValueRef inst)
{
    return LLVMIsACallInst(inst) && LLVMIsAInlineAsm(LLVMGetCalledValue(inst));
}

/* Assembly comes after the stores before it, whether or not it touches memory. */
static void forward_keep_stores(struct forward *f)
{
    for (unsigned i = 0; i < f->n; i++)
        f->list[i].is_kept = 1;
}

static void forward_block(struct forward *f, LLVMBasicBlockRef block)
{
    f->n = 0;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block), next; i; i = next) {
        next = LLVMGetNextInstruction(i);
        if (forward_is_simple(i)) {
            struct forward_access a = forward_access_of(f, i);
            LLVMPositionBuilderBefore(f->b, i);
            LLVMSetCurrentDebugLocation2(f->b, LLVMInstructionGetDebugLoc(i));
            if (!(a.is_store ? forward_store(f, &a) : forward_load(f, &a)))
                f->list[f->n++] = a;
        } else if (mt_shim_orders_memory(i))
            f->n = 0;
        else if (forward_is_asm(i))
            forward_keep_stores(f);
        else if (mt_shim_reads_memory(i))
            f->list[f->n++] = (struct forward_access){.inst = i};
    }
}

/* Loads that are left without a use, from the last to the first. */
static void forward_sweep(LLVMValueRef function)
{
    unsigned n = 0;
    LLVMValueRef *list = mt_instructions(function, &n);
    while (list && n--)
        if (!forward_is_asm(list[n]) && mt_shim_is_dead(list[n]))
            LLVMInstructionEraseFromParent(list[n]);
    free(list);
}

void mt_unit_forward_stores(struct mt_unit *u)
{
    struct forward f = {.u = u, .b = LLVMCreateBuilderInContext(u->context)};
    for (LLVMValueRef g = u->options->level ? LLVMGetFirstFunction(u->module) : NULL; g;
         g = LLVMGetNextFunction(g)) {
        unsigned n = 0;
        free(LLVMIsDeclaration(g) ? NULL : mt_instructions(g, &n));
        f.list = n ? malloc(n * sizeof *f.list) : NULL;
        for (LLVMBasicBlockRef b = f.list ? LLVMGetFirstBasicBlock(g) : NULL; b; b = LLVMGetNextBasicBlock(b))
            forward_block(&f, b);
        if (f.list)
            forward_sweep(g);
        free(f.list);
    }
    LLVMDisposeBuilder(f.b);
}
