/* Shared variables become offsets from the CTA's shared memory: static ones first, `extern __shared__` behind
 * them. */
#include "lower.h"
#include <stdlib.h>

static uint64_t round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

/* The CTA's shared base in this function, asked for once, in its entry block. */
static LLVMValueRef base_in(struct mt_lowering *l, LLVMValueRef function, uint64_t offset, LLVMTypeRef type)
{
    LLVMTypeRef base_type;
    LLVMValueRef base = mt_builtin(l, "mtb_shared_base", &base_type);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(function);
    LLVMValueRef at = LLVMGetFirstInstruction(entry);
    while (LLVMIsAAllocaInst(at))
        at = LLVMGetNextInstruction(at);
    LLVMPositionBuilderBefore(l->builder, at);
    LLVMSetCurrentDebugLocation2(l->builder, NULL);
    LLVMValueRef p = LLVMBuildCall2(l->builder, base_type, base, NULL, 0, "shared");
    LLVMValueRef index = LLVMConstInt(l->i64, offset, 0);
    p = LLVMBuildInBoundsGEP2(l->builder, l->i8, p, &index, 1, "");
    return LLVMBuildAddrSpaceCast(l->builder, p, type, "");
}

static void replace_uses(struct mt_lowering *l, LLVMValueRef global, uint64_t offset)
{
    unsigned n = 0, count = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(global); use; use = LLVMGetNextUse(use))
        n++;
    LLVMValueRef *users = malloc((n + 1) * sizeof *users);
    for (LLVMUseRef use = LLVMGetFirstUse(global); users && use; use = LLVMGetNextUse(use))
        if (LLVMIsAInstruction(LLVMGetUser(use)))
            users[count++] = LLVMGetUser(use);
    LLVMValueRef home = NULL, value = NULL;
    for (unsigned u = 0; u < count; u++) {
        LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(users[u]));
        if (function != home) {
            home = function;
            value = base_in(l, home, offset, LLVMTypeOf(global));
        }
        for (int i = 0, ops = LLVMGetNumOperands(users[u]); i < ops; i++)
            if (LLVMGetOperand(users[u], (unsigned)i) == global)
                LLVMSetOperand(users[u], (unsigned)i, value);
    }
    free(users);
}

/* Static shared memory that each kernel can reach: what cudaFuncGetAttributes says and limits are checked
 * with. */
static void count_per_kernel(struct mt_lowering *l, LLVMValueRef *list, unsigned n)
{
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        struct mt_reach reach = {0};
        uint64_t bytes = 0;
        mt_reach_from(l, l->traced.kernels[k], &reach);
        for (unsigned i = 0; i < n; i++) {
            int hit = 0;
            for (LLVMUseRef use = LLVMGetFirstUse(list[i]); use && !hit; use = LLVMGetNextUse(use)) {
                LLVMValueRef user = LLVMIsAInstruction(LLVMGetUser(use));
                hit = user && mt_reach_has(&reach, LLVMGetBasicBlockParent(LLVMGetInstructionParent(user)));
            }
            if (hit && !LLVMIsDeclaration(list[i])) {
                unsigned align = LLVMGetAlignment(list[i]);
                bytes = round_up(bytes, align ? align : 1) +
                        LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(list[i]));
            }
        }
        l->u->kernels[k].shared_static = (uint32_t)bytes;
        mt_reach_free(&reach);
    }
}

void mt_lower_shared(struct mt_lowering *l)
{
    unsigned n = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        n += LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3;
    LLVMValueRef *list = malloc((n + 1) * sizeof *list);
    uint64_t *offsets = malloc((n + 1) * sizeof *offsets), end = 0;
    unsigned i = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); list && offsets && g; g = LLVMGetNextGlobal(g))
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3)
            list[i++] = g;
    if (!list || !offsets)
        goto out;
    mt_shim_expand_constant_users(list, n);
    for (i = 0; i < n; i++) {
        if (LLVMIsDeclaration(list[i]))
            continue;
        unsigned align = LLVMGetAlignment(list[i]);
        end = round_up(end, align > 16 ? align : 16);
        offsets[i] = end;
        end += LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(list[i]));
    }
    l->u->shared_size = end = round_up(end, 128);
    for (i = 0; i < n; i++)
        if (LLVMIsDeclaration(list[i]))
            offsets[i] = end;
    count_per_kernel(l, list, n);
    for (i = 0; i < n; i++) {
        replace_uses(l, list[i], offsets[i]);
        mt_shim_drop_dead_users(list[i]);
        if (!LLVMGetFirstUse(list[i]))
            LLVMDeleteGlobal(list[i]);
    }
out:
    free(list);
    free(offsets);
}
