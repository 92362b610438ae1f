/* Inserts records in front of the accesses of a host function. The accesses of a basic block between two
 * calls form a group: one comparison at the first ensures room for all (MT_CORE_SLACK), each then stores
 * its entry at a fixed distance, and the position moves once, after the last. Without room, a group of one
 * access is passed to the runtime; a larger one, whose addresses are not known yet, gets a scratch buffer
 * (__mt_host_slow) with limit NULL, and hands that over at its end (__mt_host_drain). Contract: struct
 * mt_core_thread begins with cur and limit. */
#include "host.h"
#include "trace/trace.h"
#include <stdlib.h>
#include <string.h>

#define PRESERVE_MOST 14 /* llvm::CallingConv::PreserveMost */
#define OPEN 16          /* offset of `open` in struct mt_core_thread */

struct entry {
    LLVMValueRef inst;
    struct mt_host_touch access;
    uint32_t site;
    unsigned operand; /* operand of a copy */
};

struct group {
    struct entry entry[MT_CORE_SLACK];
    unsigned count;
};

void mt_host_recorder_init(struct mt_host_recorder *r, struct mt_unit *u, struct mt_host_table *t)
{
    _Static_assert(offsetof(struct mt_core_thread, cur) == 0 && offsetof(struct mt_core_thread, limit) == 8 &&
                       offsetof(struct mt_core_thread, open) == OPEN,
                   "as the code here has it");
    *r = (struct mt_host_recorder){.u = u, .table = t, .builder = LLVMCreateBuilderInContext(u->context)};
    r->none = LLVMVoidTypeInContext(u->context);
    r->ptr = mt_type_ptr(u);
    r->i8 = mt_type_int(u, 8);
    r->i32 = mt_type_int(u, 32);
    r->i64 = mt_type_int(u, 64);
    r->atomic = u->options->host == MT_HOST_TRACE_ATOMIC;
    r->current = LLVMAddGlobal(u->module, r->ptr, "__mt_host_current");
    LLVMSetThreadLocalMode(r->current, LLVMInitialExecTLSModel);
}

static void add_attribute(struct mt_host_recorder *r, LLVMValueRef f, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(r->u->context, kind, 0));
}

static LLVMValueRef runtime_function(struct mt_host_recorder *r, const char *name, LLVMTypeRef type,
                                     unsigned convention)
{
    LLVMValueRef f = LLVMGetNamedFunction(r->u->module, name);
    if (!f) {
        f = LLVMAddFunction(r->u->module, name, type);
        LLVMSetFunctionCallConv(f, convention);
        add_attribute(r, f, "nounwind");
        if (convention == PRESERVE_MOST)
            add_attribute(r, f, "nonlazybind"); /* the dynamic linker's resolver does not preserve r10 */
    }
    return f;
}

static LLVMValueRef host_record_call(struct mt_host_recorder *r, const char *name, LLVMValueRef *args,
                                     unsigned n, unsigned convention)
{
    LLVMTypeRef types[8];
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(r->none, types, n, 0);
    LLVMValueRef c =
        LLVMBuildCall2(r->builder, type, runtime_function(r, name, type, convention), args, n, "");
    LLVMSetInstructionCallConv(c, convention);
    return c;
}

LLVMValueRef mt_host_call_kept(struct mt_host_recorder *r, const char *name, LLVMValueRef *args, unsigned n)
{
    return host_record_call(r, name, args, n, PRESERVE_MOST);
}

LLVMValueRef mt_host_call(struct mt_host_recorder *r, const char *name, LLVMValueRef *args, unsigned n)
{
    return host_record_call(r, name, args, n, LLVMCCallConv);
}

static LLVMValueRef host_record_metadata(struct mt_host_recorder *r, LLVMMetadataRef *fields, size_t n)
{
    return LLVMMetadataAsValue(r->u->context, LLVMMDNodeInContext2(r->u->context, fields, n));
}

/* Makes a branch whose `then` hardly ever happens. */
static void host_record_unlikely(struct mt_host_recorder *r, LLVMValueRef condition, LLVMBasicBlockRef then,
                                 LLVMBasicBlockRef otherwise)
{
    LLVMContextRef c = r->u->context;
    LLVMValueRef br = LLVMBuildCondBr(r->builder, condition, then, otherwise);
    LLVMMetadataRef f[] = {LLVMMDStringInContext2(c, "branch_weights", 14),
                           LLVMValueAsMetadata(LLVMConstInt(r->i32, 1, 0)),
                           LLVMValueAsMetadata(LLVMConstInt(r->i32, 1u << 20, 0))};
    LLVMSetMetadata(br, LLVMGetMDKindIDInContext(c, "prof", 4), host_record_metadata(r, f, 3));
}

static LLVMValueRef host_record_load(struct mt_host_recorder *r, LLVMTypeRef type, LLVMValueRef from,
                                     unsigned align)
{
    LLVMValueRef v = LLVMBuildLoad2(r->builder, type, from, "");
    LLVMSetAlignment(v, align);
    return v;
}

static void host_record_store(struct mt_host_recorder *r, LLVMValueRef value, LLVMValueRef to)
{
    LLVMSetAlignment(LLVMBuildStore(r->builder, value, to), 8);
}

static LLVMValueRef host_record_at(struct mt_host_recorder *r, LLVMValueRef p, uint64_t bytes)
{
    LLVMValueRef offset = LLVMConstInt(r->i64, bytes, 0);
    return bytes ? LLVMBuildGEP2(r->builder, r->i8, p, &offset, 1, "") : p;
}

/* Returns the process-wide site of this module's table; the other half of the word is size 0, "the site's
 * size". */
static LLVMValueRef site_word(struct mt_host_recorder *r, const struct entry *e)
{
    LLVMValueRef base = host_record_load(r, r->i32, r->table->base, 4);
    LLVMSetMetadata(base, LLVMGetMDKindIDInContext(r->u->context, "invariant.load", 14),
                    host_record_metadata(r, NULL, 0));
    LLVMValueRef number = LLVMConstInt(r->i32, e->site + e->operand, 0);
    if (e->access.kind == MT_HOST_SWAP) { /* after it: did it write? */
        LLVMValueRef wrote = LLVMBuildExtractValue(r->builder, e->inst, 1, "");
        number = LLVMBuildSelect(r->builder, wrote, number, LLVMConstInt(r->i32, e->site + 4, 0), "");
    }
    return LLVMBuildZExt(r->builder, LLVMBuildAdd(r->builder, base, number, ""), r->i64, "");
}

static LLVMValueRef host_record_address(struct mt_host_recorder *r, const struct entry *e)
{
    return LLVMBuildPtrToInt(r->builder, e->access.pointer[e->operand], r->i64, "");
}

/* Moves the builder to the place of the record: before the access, or after it if its data is only known
 * then. */
static void go_to(struct mt_host_recorder *r, const struct entry *e)
{
    LLVMPositionBuilderBefore(r->builder,
                              e->access.kind == MT_HOST_SWAP ? LLVMGetNextInstruction(e->inst) : e->inst);
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(e->inst));
}

/* Cuts the block at `before`, the builder's place; the builder goes to the end of the first half. */
static LLVMBasicBlockRef host_record_cut(struct mt_host_recorder *r, LLVMValueRef before)
{
    LLVMBasicBlockRef head = LLVMGetInstructionParent(before), tail = mt_shim_split(before);
    LLVMInstructionEraseFromParent(LLVMGetBasicBlockTerminator(head));
    LLVMPositionBuilderAtEnd(r->builder, head);
    return tail;
}

static LLVMBasicBlockRef block_before(struct mt_host_recorder *r, LLVMBasicBlockRef next)
{
    return LLVMInsertBasicBlockInContext(r->u->context, next, "");
}

static LLVMValueRef no_room(struct mt_host_recorder *r, LLVMValueRef thread, LLVMValueRef cur)
{
    return LLVMBuildICmp(r->builder, LLVMIntUGE, cur,
                         host_record_load(r, r->ptr, host_record_at(r, thread, 8), 8), "");
}

/* Appends an entry in front of `before`, the builder's place; without room it calls `name`. */
static void append_or(struct mt_host_recorder *r, LLVMValueRef before, LLVMValueRef thread,
                      LLVMValueRef address, LLVMValueRef word, const char *name, LLVMValueRef *args,
                      unsigned n)
{
    LLVMMetadataRef place = LLVMGetCurrentDebugLocation2(r->builder);
    LLVMBasicBlockRef tail = host_record_cut(r, before), fast = block_before(r, tail);
    LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(r->u->context, LLVMGetBasicBlockParent(tail), "");
    LLVMSetCurrentDebugLocation2(r->builder, place);
    LLVMValueRef cur = host_record_load(r, r->ptr, thread, 8);
    host_record_unlikely(r, no_room(r, thread, cur), slow, fast);

    LLVMPositionBuilderAtEnd(r->builder, slow);
    mt_host_call_kept(r, name, args, n);
    LLVMBuildBr(r->builder, tail);

    LLVMPositionBuilderAtEnd(r->builder, fast);
    host_record_store(r, address, cur);
    host_record_store(r, word, host_record_at(r, cur, 8));
    host_record_store(r, host_record_at(r, cur, sizeof(struct mt_host_entry)), thread);
    LLVMBuildBr(r->builder, tail);
}

static void record_one(struct mt_host_recorder *r, const struct entry *e)
{
    go_to(r, e);
    LLVMValueRef before = e->access.kind == MT_HOST_SWAP ? LLVMGetNextInstruction(e->inst) : e->inst;
    LLVMValueRef args[] = {host_record_address(r, e), site_word(r, e)};
    LLVMValueRef thread = host_record_load(r, r->ptr, r->current, 8);
    append_or(r, before, thread, args[0], args[1], "__mt_host_record", args, 2);
}

/* Stores the thread's `open`, across which the compiler moves nothing: a signal handler and other threads
 * read it. */
static void host_record_mark(struct mt_host_recorder *r, LLVMValueRef thread, unsigned open)
{
    LLVMBuildFence(r->builder, LLVMAtomicOrderingSequentiallyConsistent, 1, "");
    host_record_store(r, LLVMConstInt(r->i64, open, 0), host_record_at(r, thread, OPEN));
    LLVMBuildFence(r->builder, LLVMAtomicOrderingSequentiallyConsistent, 1, "");
}

/* Calls `name` if `condition`, in front of `before`, the builder's place. */
static void call_if(struct mt_host_recorder *r, LLVMValueRef before, LLVMValueRef condition, const char *name,
                    LLVMValueRef *args, unsigned n)
{
    LLVMBasicBlockRef tail = host_record_cut(r, before);
    LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(r->u->context, LLVMGetBasicBlockParent(tail), "");
    host_record_unlikely(r, condition, slow, tail);
    LLVMPositionBuilderAtEnd(r->builder, slow);
    mt_host_call_kept(r, name, args, n);
    LLVMBuildBr(r->builder, tail);
    LLVMPositionBuilderBefore(r->builder, before);
}

void mt_host_record_marked(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
                           uint32_t site, LLVMValueRef *args)
{
    LLVMMetadataRef place = LLVMInstructionGetDebugLoc(inst);
    const struct entry e = {inst, *a, site, 0};
    LLVMValueRef none = LLVMConstInt(r->i32, 0, 0), next = LLVMGetNextInstruction(inst),
                 word = site_word(r, &e), thread = host_record_load(r, r->ptr, r->current, 8);
    host_record_mark(r, thread, 1);
    append_or(r, inst, thread, args[1], word, "__mt_host_begin", args, 3);
    LLVMPositionBuilderBefore(r->builder, next);
    LLVMSetCurrentDebugLocation2(r->builder, place);
    host_record_mark(r, thread, 0);
    LLVMValueRef limit = host_record_load(r, r->ptr, host_record_at(r, thread, 8), 8);
    call_if(r, next, LLVMBuildIsNull(r->builder, limit, ""), "__mt_host_end", &none, 1);
}

/* Makes room for a group: destination and owner of its entries. */
static LLVMValueRef open_group(struct mt_host_recorder *r, const struct entry *first, LLVMValueRef *thread)
{
    LLVMBasicBlockRef tail = host_record_cut(r, first->inst), head = LLVMGetPreviousBasicBlock(tail);
    LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(r->u->context, LLVMGetBasicBlockParent(tail), "");
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(first->inst));
    LLVMValueRef thread0 = host_record_load(r, r->ptr, r->current, 8),
                 cur0 = host_record_load(r, r->ptr, thread0, 8);
    host_record_unlikely(r, no_room(r, thread0, cur0), slow, tail);

    LLVMPositionBuilderAtEnd(r->builder, slow);
    host_record_call(r, "__mt_host_slow", NULL, 0, PRESERVE_MOST);
    LLVMValueRef thread1 = host_record_load(r, r->ptr, r->current, 8),
                 cur1 = host_record_load(r, r->ptr, thread1, 8);
    LLVMBuildBr(r->builder, tail);

    LLVMPositionBuilderBefore(r->builder, LLVMGetFirstInstruction(tail));
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
    LLVMBasicBlockRef from[] = {head, slow};
    LLVMValueRef cur = LLVMBuildPhi(r->builder, r->ptr, "");
    *thread = LLVMBuildPhi(r->builder, r->ptr, "");
    LLVMAddIncoming(cur, (LLVMValueRef[]){cur0, cur1}, from, 2);
    LLVMAddIncoming(*thread, (LLVMValueRef[]){thread0, thread1}, from, 2);
    return cur;
}

static void close_group(struct mt_host_recorder *r, LLVMValueRef end, LLVMMetadataRef place,
                        LLVMValueRef thread, LLVMValueRef cur)
{
    LLVMPositionBuilderBefore(r->builder, end);
    LLVMBasicBlockRef tail = host_record_cut(r, end);
    LLVMBasicBlockRef drain = LLVMAppendBasicBlockInContext(r->u->context, LLVMGetBasicBlockParent(tail), "");
    LLVMSetCurrentDebugLocation2(r->builder, place);
    host_record_store(r, cur, thread);
    LLVMValueRef limit = host_record_load(r, r->ptr, host_record_at(r, thread, 8), 8);
    host_record_unlikely(r, LLVMBuildIsNull(r->builder, limit, ""), drain, tail);
    LLVMPositionBuilderAtEnd(r->builder, drain);
    host_record_call(r, "__mt_host_drain", NULL, 0, PRESERVE_MOST);
    LLVMBuildBr(r->builder, tail);
}

/* `end`: the instruction before which the group must be complete. */
static void host_record_flush(struct mt_host_recorder *r, struct group *g, LLVMValueRef end)
{
    LLVMValueRef thread, cur;
    if (g->count == 1)
        record_one(r, &g->entry[0]);
    if (g->count > 1) {
        LLVMMetadataRef place = LLVMInstructionGetDebugLoc(g->entry[g->count - 1].inst);
        cur = open_group(r, &g->entry[0], &thread);
        for (unsigned i = 0; i < g->count; i++) {
            const struct entry *e = &g->entry[i];
            go_to(r, e);
            host_record_store(r, host_record_address(r, e),
                              host_record_at(r, cur, i * sizeof(struct mt_host_entry)));
            host_record_store(r, site_word(r, e),
                              host_record_at(r, cur, i * sizeof(struct mt_host_entry) + 8));
        }
        LLVMPositionBuilderBefore(r->builder, end);
        LLVMSetCurrentDebugLocation2(r->builder, place);
        cur = host_record_at(r, cur, g->count * sizeof(struct mt_host_entry));
        close_group(r, end, place, thread, cur);
    }
    g->count = 0;
}

static int wanted_op(const struct mt_host_recorder *r, enum mt_host_op op)
{
    unsigned bit = op == MT_HOST_LOAD ? 0 : op == MT_HOST_STORE ? 1 : 2;
    return !r->u->options->only || r->u->options->only >> bit & 1;
}

/* Drops accesses not to be traced: their kind becomes NOTHING. */
static void host_record_filter(struct mt_host_recorder *r, LLVMValueRef inst, struct mt_host_touch *a)
{
    unsigned kept = 0;
    if (a->kind == MT_HOST_NOTHING)
        return;
    for (unsigned i = 0; i < a->operands; i++) {
        kept += wanted_op(r, a->op[i]) != 0;
    }
    if ((a->operands && !kept) || !mt_unit_wanted(r->u, inst) ||
        (a->kind == MT_HOST_FIXED && !r->u->options->host_stack && mt_shim_private_slot(a->pointer[0])))
        a->kind = MT_HOST_NOTHING;
}

static void add_entries(struct mt_host_recorder *r, struct group *g, LLVMValueRef inst,
                        const struct mt_host_touch *a)
{
    uint32_t site = mt_host_table_instruction(r->table);
    for (unsigned i = 0; i < a->operands; i++) {
        mt_host_table_row(r->table, inst, site + i, a->op[i], a->size, a->pointer[i]);
        if (wanted_op(r, a->op[i]))
            g->entry[g->count++] = (struct entry){inst, *a, site, i};
    }
    if (a->kind == MT_HOST_COPY) {
        LLVMPositionBuilderBefore(r->builder, inst);
        LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(inst));
        mt_host_call_copied(r, a, site);
    }
    if (a->kind == MT_HOST_SWAP) /* the next instruction: the one that did not write */
        mt_host_table_row(r->table, inst, mt_host_table_instruction(r->table), MT_HOST_CAS_FAILED, a->size,
                          a->pointer[0]);
}

static int goes_into_group(const struct mt_host_touch *a)
{
    return a->kind == MT_HOST_FIXED || a->kind == MT_HOST_SWAP ||
           ((a->kind == MT_HOST_COPY || a->kind == MT_HOST_FILL) && a->size);
}

static void record_grouped(struct mt_host_recorder *r, struct group *g, LLVMValueRef inst,
                           const struct mt_host_touch *a)
{
    if (a->kind == MT_HOST_SWAP || g->count + a->operands > MT_CORE_SLACK)
        host_record_flush(r, g, inst);
    add_entries(r, g, inst, a);
    /* A swap is recorded after itself, in no group; an access that orders others needs complete records
     * before it. */
    if (a->kind == MT_HOST_SWAP || mt_host_leaves(inst))
        host_record_flush(r, g, a->kind == MT_HOST_SWAP ? LLVMGetNextInstruction(inst) : inst);
}

void mt_host_record_function(struct mt_host_recorder *r, LLVMValueRef function)
{
    unsigned n;
    struct group g = {.count = 0};
    r->lanes = NULL;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        LLVMValueRef inst = list[i];
        struct mt_host_touch a;
        mt_host_access_of(r->u, inst, &a);
        host_record_filter(r, inst, &a);
        if (goes_into_group(&a) && !r->atomic) {
            record_grouped(r, &g, inst, &a);
            continue;
        }
        if (a.kind != MT_HOST_NOTHING || mt_host_leaves(inst))
            host_record_flush(r, &g, inst);
        if (a.kind == MT_HOST_NOTHING)
            continue;
        LLVMPositionBuilderBefore(r->builder, inst);
        LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(inst));
        if (r->atomic && goes_into_group(&a))
            mt_host_record_atomic(r, inst, &a);
        else
            mt_host_record_by_call(r, inst, &a);
    }
    free(list);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}
