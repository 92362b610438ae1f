/* Shared and local memory, and operations that order accesses there (option spaces). CPU device:
 * runtime/cpu/builtins/access.c; GPU: llvm-pass/gpu/spaces.c. */
#include "trace.h"
#include "ptx/asm/asm.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

int mt_space_is_recorded(const struct mt_unit *u, enum mt_space s)
{
    uint32_t spaces = u->options->spaces;
    return mt_space_may_be_global(s) || (s == MT_SPACE_SHARED && spaces & MT_SPACES_SHARED) ||
           (s == MT_SPACE_LOCAL && spaces & MT_SPACES_LOCAL) || (s == MT_SPACE_ON_CHIP && spaces);
}

const char *mt_space_word(const struct mt_unit *u, enum mt_space s)
{
    switch (s) {
    case MT_SPACE_GLOBAL:
        return "global";
    case MT_SPACE_SHARED:
        return "shared";
    case MT_SPACE_LOCAL:
        return "number";
    default:
        return u->options->spaces ? "any" : "generic";
    }
}

uint32_t mt_space_type(const struct mt_unit *u, const struct mt_access *a)
{
    switch (a->space) {
    case MT_SPACE_GLOBAL:
        return a->op;
    case MT_SPACE_SHARED:
        return mt_rec_type_in(a->op, MT_IN_SHARED);
    case MT_SPACE_LOCAL:
        return mt_rec_type_in(a->op, MT_IN_LOCAL);
    default: /* wanted spaces, for the record function */
        return a->op | u->options->spaces << 2;
    }
}

static int by_variable(const void *a, const void *b)
{
    const struct mt_local *x = a, *y = b;
    return x->variable < y->variable ? -1 : x->variable > y->variable;
}

static void spaces_add_local(struct mt_unit *u, LLVMValueRef variable, uint64_t *at)
{
    uint64_t align = LLVMGetAlignment(variable) ? LLVMGetAlignment(variable) : 1;
    LLVMValueRef count = LLVMGetOperand(variable, 0);
    *at = (*at + align - 1) / align * align;
    if (mt_grow(&u->locals, &u->locals_cap, u->nlocals + 1, sizeof *u->locals) != 0)
        return;
    u->locals[u->nlocals++] = (struct mt_local){variable, *at};
    *at += LLVMABISizeOfType(u->layout, LLVMGetAllocatedType(variable)) *
           (LLVMIsAConstantInt(count) ? LLVMConstIntGetZExtValue(count) : 1);
}

/* Returns the offset of a variable: those of all functions are consecutive, as each has its own place on
 * the stack. */
static uint64_t spaces_offset(struct mt_unit *u, LLVMValueRef variable)
{
    uint64_t at = 0;
    struct mt_local key = {.variable = variable}, *found;
    if (!u->locals) {
        for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f))
            for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
                for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                    if (LLVMIsAAllocaInst(i))
                        spaces_add_local(u, i, &at);
        if (u->nlocals)
            qsort(u->locals, u->nlocals, sizeof *u->locals, by_variable);
    }
    found = bsearch(&key, u->locals, u->nlocals, sizeof key, by_variable);
    return found ? found->at : 0;
}

LLVMValueRef mt_local_number(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef pointer)
{
    LLVMTypeRef i64 = mt_type_int(u, 64);
    LLVMValueRef base = mt_base_of(pointer), at = LLVMBuildPtrToInt(b, pointer, i64, "");
    if (LLVMIsAAllocaInst(base)) {
        at = LLVMBuildSub(b, at, LLVMBuildPtrToInt(b, base, i64, ""), "");
        at = LLVMBuildAdd(b, at, LLVMConstInt(i64, spaces_offset(u, base), 0), "");
    } else { /* one of several */
        at = LLVMBuildAnd(b, at, LLVMConstInt(i64, 0xffffff, 0), "");
    }
    return LLVMBuildIntToPtr(b, at, mt_type_ptr(u), "");
}

/* ---- barriers ---- */

static int spaces_sync_of_asm(struct mt_unit *u, LLVMValueRef inst, struct mt_sync *out)
{
    LLVMTypeRef i64 = mt_type_int(u, 64);
    struct mt_asm_barrier found;
    if (!mt_asm_barrier_of(inst, &found))
        return 0;
    out->kind = found.kind;
    out->what = found.argument < 0 ? LLVMConstInt(i64, found.number, 0)
                                   : LLVMGetOperand(inst, (unsigned)found.argument);
    out->size = found.copy                   ? found.copy
                : found.object               ? MT_SYNC_OF_OBJECT
                : found.kind != MT_SYNC_WARP ? MT_SYNC_OF_NUMBER
                                             : MT_SYNC_OF_LANES;
    if (found.kind == MT_SYNC_WARP && found.argument < 0 && found.number == MT_BARRIER_UNKNOWN)
        out->size = MT_SYNC_OF_NUMBER; /* the mask is computed in the asm */
    out->object = found.object;
    if (!found.object)
        return 1;
    out->offset = found.offset;
    out->init = found.init;
    if (found.phase >= 0)
        out->parity = LLVMGetOperand(inst, (unsigned)found.phase);
    else if (found.parity >= 0)
        out->parity = LLVMConstInt(i64, (uint64_t)found.parity, 0);
    out->output = found.result;
    return 1;
}

int mt_sync_of(struct mt_unit *u, LLVMValueRef inst, struct mt_sync *out)
{
    *out = (struct mt_sync){.size = MT_SYNC_OF_NUMBER, .output = -1};
    return u->options->spaces & MT_SPACES_SHARED && LLVMIsACallInst(inst) &&
           LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) && spaces_sync_of_asm(u, inst, out);
}
