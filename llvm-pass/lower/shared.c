/* Turns shared variables into offsets from the CTA's shared memory: static ones first, `extern __shared__`
 * after them. With -fgpu-rdc the images of a program have consecutive parts of it, at offsets known when
 * they are loaded (struct mt_image_shared). */
#include "lower.h"
#include "lowering.h"
#include "format/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t shared_round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

/* A shared variable that is being replaced. */
struct shared {
    LLVMValueRef global;
    uint64_t offset; /* offset in this module's static shared memory; dynamic: its size */
    LLVMValueRef
        place; /* -fgpu-rdc, a variable known to other files: {u64 offset, struct mt_image_shared *} */
};

static int shared_is_dynamic(struct mt_lowering *l, LLVMValueRef global)
{
    return LLVMIsDeclaration(global) &&
           (!l->shared || !LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(global)));
}

LLVMValueRef mt_lower_load_fixed(struct mt_lowering *l, LLVMTypeRef type, LLVMValueRef from, unsigned at)
{
    LLVMValueRef index = LLVMConstInt(l->i64, at, 0);
    LLVMValueRef p = LLVMBuildInBoundsGEP2(l->builder, l->i64, from, &index, 1, "");
    LLVMValueRef load = LLVMBuildLoad2(l->builder, type, p, "");
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(l->u->context, "invariant.load", 14),
                    LLVMMetadataAsValue(l->u->context, LLVMMDNodeInContext2(l->u->context, NULL, 0)));
    return load;
}

/* Returns the offset from the start of the CTA's shared memory. */
static LLVMValueRef shared_offset(struct mt_lowering *l, const struct shared *s)
{
    if (!l->shared)
        return LLVMConstInt(l->i64, s->offset, 0);
    if (shared_is_dynamic(l, s->global))
        return mt_lower_load_fixed(l, l->i64, l->shared, 1);
    LLVMValueRef home = s->place ? mt_lower_load_fixed(l, l->ptr, s->place, 1) : l->shared;
    LLVMValueRef offset =
        s->place ? mt_lower_load_fixed(l, l->i64, s->place, 0) : LLVMConstInt(l->i64, s->offset, 0);
    return LLVMBuildAdd(l->builder, mt_lower_load_fixed(l, l->i64, home, 0), offset, "");
}

LLVMValueRef mt_lower_entry(LLVMValueRef function)
{
    LLVMValueRef at = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function));
    while (LLVMIsAAllocaInst(at))
        at = LLVMGetNextInstruction(at);
    return at;
}

/* Returns the variable's address in this function, computed once, in its entry block. */
static LLVMValueRef shared_base(struct mt_lowering *l, LLVMValueRef function, void *shared)
{
    const struct shared *s = shared;
    LLVMTypeRef base_type;
    LLVMValueRef base = mt_builtin(l, "mtb_shared_base", &base_type);
    LLVMPositionBuilderBefore(l->builder, mt_lower_entry(function));
    LLVMSetCurrentDebugLocation2(l->builder, NULL);
    LLVMValueRef p = LLVMBuildCall2(l->builder, base_type, base, NULL, 0, "shared");
    LLVMValueRef index = shared_offset(l, s);
    p = LLVMBuildInBoundsGEP2(l->builder, l->i8, p, &index, 1, "");
    return LLVMBuildAddrSpaceCast(l->builder, p, LLVMTypeOf(s->global), "");
}

void mt_lower_replace(struct mt_lowering *l, LLVMValueRef global,
                      LLVMValueRef (*address)(struct mt_lowering *l, LLVMValueRef function, void *ctx),
                      void *ctx)
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
            value = address(l, home, ctx);
        }
        for (int i = 0, ops = LLVMGetNumOperands(users[u]); i < ops; i++)
            if (LLVMGetOperand(users[u], (unsigned)i) == global)
                LLVMSetOperand(users[u], (unsigned)i, value);
    }
    free(users);
}

/* Computes the static shared memory reachable by each kernel, for cudaFuncGetAttributes and limits. */
static void shared_count(struct mt_lowering *l, struct shared *list, unsigned n)
{
    for (unsigned k = 0; k < l->u->nkernels; k++) {
        struct mt_reach reach = {0};
        uint64_t bytes = 0;
        mt_reach_from(l, l->traced.kernels[k], &reach);
        for (unsigned i = 0; i < n; i++) {
            LLVMValueRef g = list[i].global;
            int hit = 0;
            for (LLVMUseRef use = LLVMGetFirstUse(g); use && !hit; use = LLVMGetNextUse(use)) {
                LLVMValueRef user = LLVMIsAInstruction(LLVMGetUser(use));
                hit = user && mt_reach_has(&reach, LLVMGetBasicBlockParent(LLVMGetInstructionParent(user)));
            }
            if (hit && !shared_is_dynamic(l, g)) {
                unsigned align = LLVMGetAlignment(g);
                bytes = shared_round_up(bytes, align ? align : 1) +
                        LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(g));
            }
        }
        l->u->kernels[k].shared_static = (uint32_t)bytes;
        mt_reach_free(&reach);
    }
}

/* Places static variables one after the other. Returns the aligned offset of dynamic ones. */
static uint64_t shared_lay_out(struct mt_lowering *l, struct shared *list, unsigned n)
{
    uint64_t end = 0, dynamic = 128;
    for (unsigned i = 0; i < n; i++) {
        unsigned align = LLVMGetAlignment(list[i].global);
        if (LLVMIsDeclaration(list[i].global)) {
            dynamic = align > dynamic ? align : dynamic;
            continue;
        }
        end = shared_round_up(end, align > 16 ? align : 16);
        list[i].offset = end;
        end += LLVMABISizeOfType(l->u->layout, LLVMGlobalGetValueType(list[i].global));
    }
    return shared_round_up(end, dynamic);
}

/* Makes the struct mt_image_shared of this image: as if alone, until the loader changes it. */
static LLVMValueRef shared_add_image(struct mt_lowering *l)
{
    LLVMValueRef words[] = {LLVMConstInt(l->i64, 0, 0), LLVMConstInt(l->i64, l->u->shared_size, 0)};
    _Static_assert(sizeof(struct mt_image_shared) == sizeof(uint64_t[2]), "as written here");
    LLVMValueRef g = LLVMAddGlobal(l->module, LLVMArrayType2(l->i64, 2), "mt.shared");
    LLVMSetInitializer(g, LLVMConstArray2(l->i64, words, 2));
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetExternallyInitialized(g, 1);
    return g;
}

/* Makes the place of a variable that has one in the whole program, in whichever image defines it. */
static LLVMValueRef shared_add_place(struct mt_lowering *l, const struct shared *s)
{
    LLVMLinkage linkage = LLVMGetLinkage(s->global);
    if (linkage == LLVMInternalLinkage || linkage == LLVMPrivateLinkage || shared_is_dynamic(l, s->global))
        return NULL;
    char name[4200];
    snprintf(name, sizeof name, MT_SHARED_PREFIX "%s", mt_name(s->global));
    LLVMValueRef words[] = {LLVMConstInt(l->i64, s->offset, 0), l->shared};
    LLVMValueRef value = LLVMConstStructInContext(l->u->context, words, 2, 0);
    LLVMValueRef g = LLVMAddGlobal(l->module, LLVMTypeOf(value), name);
    if (!LLVMIsDeclaration(s->global)) {
        LLVMSetInitializer(g, value);
        LLVMSetLinkage(g, linkage == LLVMExternalLinkage ? linkage : LLVMWeakODRLinkage);
    }
    return g;
}

void mt_lower_shared(struct mt_lowering *l)
{
    unsigned n = 0, i = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); g; g = LLVMGetNextGlobal(g))
        n += LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3;
    struct shared *list = calloc(n + 1, sizeof *list);
    LLVMValueRef *globals = calloc(n + 1, sizeof *globals);
    for (LLVMValueRef g = LLVMGetFirstGlobal(l->module); list && globals && g; g = LLVMGetNextGlobal(g))
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3)
            globals[i] = list[i].global = g, i++;
    if (!list || !globals)
        goto out;
    mt_shim_expand_constant_users(globals, n);
    l->u->shared_size = shared_lay_out(l, list, n);
    for (i = 0; i < n; i++)
        if (LLVMIsDeclaration(list[i].global))
            list[i].offset = l->u->shared_size;
    if (l->u->options->rdc)
        l->shared = shared_add_image(l);
    shared_count(l, list, n);
    for (i = 0; i < n; i++) {
        LLVMValueRef g = list[i].global;
        list[i].place = l->shared ? shared_add_place(l, &list[i]) : NULL;
        mt_lower_replace(l, g, shared_base, &list[i]);
        mt_shim_drop_dead_users(g);
        if (!LLVMGetFirstUse(g))
            LLVMDeleteGlobal(g);
    }
out:
    free(list);
    free(globals);
}
