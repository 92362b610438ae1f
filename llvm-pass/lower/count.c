/* A second count of accesses to global memory, to check the records against (option count). It counts where
 * no records are made: in the CPU module, after inline asm and intrinsics have become plain loads, stores,
 * atomics and copies, the very instructions that run. It shares nothing with instrument.c and asm_access.c:
 * each of these instructions counts, and whether its address is global is always tested at run time. A GPU
 * instruction that became several here has metadata from the lowering (mt_asm_mark). */
#include "lower.h"
#include "trace/trace.h"
#include "unit/modes.h"
#include "ptx/asm/asm.h"
#include "ptx/module/module.h"
#include "format/image.h"
#include <stdlib.h>
#include <string.h>

#define OPERAND(inst, i) LLVMGetOperand(inst, i)

static LLVMValueRef count_number(struct mt_lowering *l, uint64_t n)
{
    return LLVMConstInt(l->i64, n, 0);
}

/* Returns 1 for address spaces that are never global (shared, constant, local, parameters), and for plain
 * stack slots. */
static int count_is_elsewhere(LLVMValueRef p)
{
    unsigned as = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    if (as)
        return as != 1;
    while (LLVMIsAGetElementPtrInst(p) || LLVMIsABitCastInst(p))
        p = OPERAND(p, 0);
    return LLVMIsAAllocaInst(p) != NULL;
}

static LLVMValueRef count_generic(struct mt_lowering *l, LLVMValueRef p)
{
    return LLVMGetPointerAddressSpace(LLVMTypeOf(p)) ? LLVMBuildAddrSpaceCast(l->builder, p, l->ptr, "") : p;
}

/* Counts `accesses` with a total of `bytes` at p (both i64), before the builder's instruction. */
static void count_add(struct mt_lowering *l, LLVMValueRef p, LLVMValueRef accesses, LLVMValueRef bytes,
                      uint32_t kind)
{
    uint32_t only = l->u->options->only;
    LLVMTypeRef type = LLVMFunctionType(l->none, (LLVMTypeRef[]){l->ptr, l->i64, l->i64, l->i32}, 4, 0);
    LLVMValueRef args[] = {count_generic(l, p), accesses, LLVMBuildIntCast2(l->builder, bytes, l->i64, 0, ""),
                           LLVMConstInt(l->i32, kind, 0)};
    if (!only || only >> kind & 1)
        LLVMBuildCall2(l->builder, type, mt_declare(l->module, "__mt_count", type), args, 4, "");
}

/* Counts a block of run-time length: no access if empty, several if no single record could hold it. */
static void count_add_block(struct mt_lowering *l, LLVMValueRef p, LLVMValueRef bytes, uint32_t kind)
{
    if (count_is_elsewhere(p))
        return;
    LLVMValueRef n = LLVMBuildIntCast2(l->builder, bytes, l->i64, 0, ""),
                 most = count_number(l, MT_RAW_MAX_SIZE);
    LLVMValueRef up = LLVMBuildAdd(l->builder, n, count_number(l, MT_RAW_MAX_SIZE - 1), "");
    count_add(l, p, LLVMBuildUDiv(l->builder, up, most, ""), n, kind);
}

struct passed {
    struct mt_lowering *l;
    LLVMValueRef base; /* i64 */
};

static void count_part(void *ctx, uint64_t offset, uint32_t size)
{
    struct passed *p = ctx;
    LLVMValueRef at = LLVMBuildAdd(p->l->builder, p->base, count_number(p->l, offset), "");
    count_add(p->l, LLVMBuildIntToPtr(p->l->builder, at, p->l->ptr, ""), count_number(p->l, 1),
              count_number(p->l, size), MT_LOAD);
}

/* Counts structs passed in memory. */
static void count_arguments(struct mt_lowering *l, LLVMValueRef call)
{
    for (unsigned i = 0; i < LLVMGetNumArgOperands(call); i++) {
        LLVMTypeRef type = mt_shim_byval_type(call, i);
        if (!type || count_is_elsewhere(OPERAND(call, i)))
            continue;
        LLVMValueRef base = LLVMBuildPtrToInt(l->builder, count_generic(l, OPERAND(call, i)), l->i64, "");
        struct passed p = {l, base};
        mt_argument_parts(l->u, type, mt_shim_param_align(call, i), 0, count_part, &p);
    }
}

/* Counts mtb_tensor(op, rank, map, coordinates, …): the part inside the tensor is known at run time. */
static void count_tensor(struct mt_lowering *l, LLVMValueRef call)
{
    uint64_t op = LLVMConstIntGetZExtValue(OPERAND(call, 0));
    uint32_t kind = op == MT_TENSOR_LOAD ? MT_LOAD : op == MT_TENSOR_STORE ? MT_STORE : MT_ATOMIC;
    LLVMTypeRef type = LLVMFunctionType(l->none, (LLVMTypeRef[]){l->ptr, l->i32, l->ptr, l->i32}, 4, 0);
    LLVMValueRef args[] = {OPERAND(call, 2), OPERAND(call, 1), OPERAND(call, 3),
                           LLVMConstInt(l->i32, kind, 0)};
    if (!l->u->options->only || l->u->options->only >> kind & 1)
        LLVMBuildCall2(l->builder, type, mt_declare(l->module, "__mt_count_tensor", type), args, 4, "");
}

static void count_call(struct mt_lowering *l, LLVMValueRef call)
{
    count_arguments(l, call);
    const char *name = mt_name(mt_callee(call));
    if (LLVMIsAMemCpyInst(call) || LLVMIsAMemMoveInst(call)) {
        count_add_block(l, OPERAND(call, 1), OPERAND(call, 2), MT_LOAD);
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (LLVMIsAMemSetInst(call)) {
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (mt_starts(name, "llvm.memcpy.element.") || mt_starts(name, "llvm.memmove.element.")) {
        count_add_block(l, OPERAND(call, 1), OPERAND(call, 2), MT_LOAD);
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (mt_starts(name, "llvm.memset.element.")) {
        count_add_block(l, OPERAND(call, 0), OPERAND(call, 2), MT_STORE);
    } else if (!strcmp(name, "mtb_tensor")) {
        count_tensor(l, call);
    }
}

/* ---- single instructions ---- */

static void count_plain(struct mt_lowering *l, LLVMValueRef p, LLVMTypeRef type, uint32_t kind)
{
    uint64_t size = LLVMStoreSizeOfType(l->u->layout, type);
    if (size && !count_is_elsewhere(p))
        count_add(l, p, count_number(l, 1), count_number(l, size), kind);
}

/* Reads the lowering's mark of inline asm: { kind, bytes }; 0 bytes: counted with another instruction. */
static int count_marked(struct mt_lowering *l, LLVMValueRef inst)
{
    LLVMValueRef node = LLVMGetMetadata(inst, mt_mark_kind(l->u->context)), value[2];
    if (!node || LLVMGetMDNodeNumOperands(node) != 2)
        return 0;
    LLVMGetMDNodeOperands(node, value);
    uint32_t kind = (uint32_t)LLVMConstIntGetZExtValue(value[0]);
    uint64_t bytes = LLVMConstIntGetZExtValue(value[1]);
    if (LLVMIsAGetElementPtrInst(inst)) /* an end of a block: base and length */
        count_add_block(l, OPERAND(inst, 0), OPERAND(inst, 1), kind);
    else if (bytes)
        count_add(l, OPERAND(inst, LLVMIsAStoreInst(inst) ? 1 : 0), count_number(l, 1),
                  count_number(l, bytes), kind);
    return 1;
}

static void count_run(struct mt_lowering *l, LLVMValueRef inst)
{
    if (count_marked(l, inst))
        return;
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        count_plain(l, OPERAND(inst, 0), LLVMTypeOf(inst), MT_LOAD);
        break;
    case LLVMStore:
        count_plain(l, OPERAND(inst, 1), LLVMTypeOf(OPERAND(inst, 0)), MT_STORE);
        break;
    case LLVMAtomicRMW:
        count_plain(l, OPERAND(inst, 0), LLVMTypeOf(inst), MT_ATOMIC);
        break;
    case LLVMAtomicCmpXchg:
        count_plain(l, OPERAND(inst, 0), LLVMTypeOf(OPERAND(inst, 1)), MT_ATOMIC);
        break;
    case LLVMCall:
        count_call(l, inst);
        break;
    default:
        break;
    }
}

/* Returns 1 for a load other than of a stack slot, in any address space. */
static int count_is_kept(LLVMValueRef load)
{
    LLVMValueRef p = OPERAND(load, 0);
    while (LLVMIsAAddrSpaceCastInst(p) || LLVMIsAGetElementPtrInst(p) || LLVMIsABitCastInst(p))
        p = OPERAND(p, 0);
    return !LLVMGetVolatile(load) && !count_is_elsewhere(p);
}

void mt_count_keep(struct mt_lowering *l)
{
    unsigned n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        LLVMValueRef *list =
            LLVMIsDeclaration(f) || mt_pass_counting == MT_COUNT_OFF ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++)
            if (LLVMIsALoadInst(list[i]) && count_is_kept(list[i]))
                mt_ptx_keep_access(list[i], "");
        free(list);
    }
}

static int count_touches_memory(LLVMValueRef inst)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
    case LLVMStore:
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
    case LLVMGetElementPtr: /* a mark of the lowering */
        return 1;
    case LLVMCall:
        return !LLVMIsAInlineAsm(LLVMGetCalledValue(inst));
    default:
        return 0;
    }
}

static void count_drop_records(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        if (!mt_starts(mt_name(f), "__mt_access_"))
            continue;
        for (LLVMUseRef use; (use = LLVMGetFirstUse(f));)
            LLVMInstructionEraseFromParent(LLVMGetUser(use));
        LLVMDeleteFunction(f);
    }
}

void mt_lower_counts(struct mt_lowering *l)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(l->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            if (!count_touches_memory(list[i]) || !mt_unit_wanted(l->u, list[i]))
                continue;
            LLVMPositionBuilderBefore(l->builder, list[i]);
            LLVMSetCurrentDebugLocation2(l->builder, LLVMInstructionGetDebugLoc(list[i]));
            count_run(l, list[i]);
        }
        free(list);
    }
    if (mt_pass_counting == MT_COUNT_ONLY)
        count_drop_records(l);
}
