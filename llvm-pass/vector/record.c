/* Warps as vectors: records. An access of a warp is one entry: the first lane's address and the distance
 * between lanes, or all addresses, with the mask (runtime/cpu/builtins/access.c). */
#include "vector.h"
#include <stdlib.h>
#include <string.h>
#include "format/image.h"
#include "trace/trace.h"

#define RECORD "__mt_access_"
#define RECORD_PHASE "mt.record.each.phase" /* reads the object */
#define RECORD_GLOBAL 1                     /* address space of global memory */
/* llvm::MemoryEffects: two bits each for the arguments' memory and inaccessible memory. */
#define RECORD_READS_ARGUMENTS 1
#define RECORD_TOUCHES_NOTHING_ELSE (3 << 2)

/* Declares calls that read nothing but their arguments, so that LLVM may keep its knowledge of memory. */
static LLVMValueRef record_declare(struct mt_lowering *l, const char *name, LLVMTypeRef type)
{
    LLVMValueRef f = LLVMGetNamedFunction(l->module, name);
    if (f)
        return f;
    f = LLVMAddFunction(l->module, name, type);
    if (!strcmp(name, RECORD_PHASE))
        return f;
    static const struct {
        const char *name;
        uint64_t value;
    } attributes[] = {{"memory", RECORD_TOUCHES_NOTHING_ELSE}, {"nounwind", 0}, {"willreturn", 0}};
    for (unsigned i = 0; i < sizeof attributes / sizeof *attributes; i++)
        LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(l->u->context,
                                                        LLVMGetEnumAttributeKindForName(
                                                            attributes[i].name, strlen(attributes[i].name)),
                                                        attributes[i].value));
    return f;
}

/* Returns a global pointer from before it was made generic, as its shape is better known. */
static LLVMValueRef record_pointer(LLVMValueRef p)
{
    LLVMValueRef from = LLVMIsAAddrSpaceCastInst(p) ? LLVMGetOperand(p, 0) : p;
    return LLVMGetPointerAddressSpace(LLVMTypeOf(from)) == RECORD_GLOBAL ? from : p;
}

/* Returns the kind of "__mt_access_KIND", "…_to" and "…_n"; -1: none. */
static int record_kind(const char *name)
{
    static const char *const kinds[] = {
        [MT_RECORD_GLOBAL] = "global", [MT_RECORD_GENERIC] = "generic",  [MT_RECORD_SHARED] = "shared",
        [MT_RECORD_NUMBER] = "number", [MT_RECORD_ANY] = "any",          [MT_RECORD_MBARRIER] = "mbarrier",
        [MT_RECORD_PHASE] = "phase",   [MT_RECORD_CONSTANT] = "constant"};
    const char *kind = name + strlen(RECORD);
    for (int i = 0; mt_starts(name, RECORD) && i < (int)(sizeof kinds / sizeof *kinds); i++)
        if (mt_starts(kind, kinds[i]) && (kind[strlen(kinds[i])] == '_' || !kind[strlen(kinds[i])]))
            return i;
    return -1;
}

/* Moves the access back to its original pointer, without casts: bad lanes of vectors are skipped by mask
 * (memory.c). */
static void record_unmoved(LLVMValueRef call, LLVMValueRef p)
{
    LLVMValueRef from = LLVMIsAAddrSpaceCastInst(p) ? LLVMGetOperand(p, 0) : p;
    for (LLVMUseRef u = LLVMGetFirstUse(call), next; u; u = next) {
        LLVMValueRef user = LLVMGetUser(u);
        next = LLVMGetNextUse(u);
        if (LLVMIsAAddrSpaceCastInst(user) && LLVMTypeOf(user) == LLVMTypeOf(from))
            LLVMReplaceAllUsesWith(user, from);
    }
    LLVMReplaceAllUsesWith(call, p);
}

/* Turns a record of known size that is, or may be, of global memory into "mt.record.global" or
 * "mt.record.generic" (p, meta, site); any other into "mt.record.each" (kind, p, bytes, meta, site, local),
 * where meta is the type, bytes are given for a size known only at run time, and `local` is the pointer of an
 * access to local memory. */
static void record_prepare(struct mt_lowering *l, LLVMValueRef call, const char *name)
{
    LLVMValueRef args[] = {LLVMGetOperand(call, 0), LLVMGetOperand(call, 1), LLVMGetOperand(call, 2)};
    int kind = record_kind(name), late = 0, sized = mt_ends(name, "_n");
    if (sized) {
        LLVMValueRef bytes = args[1], type = args[2];
        args[2] = LLVMGetOperand(call, 3);
        late = !LLVMIsAConstantInt(bytes) || LLVMConstIntGetZExtValue(bytes) > MT_RAW_MAX_SIZE;
        args[1] =
            late ? type
                 : LLVMConstInt(l->i32,
                                LLVMConstIntGetZExtValue(type) << 28 | LLVMConstIntGetZExtValue(bytes), 0);
    }
    LLVMPositionBuilderBefore(l->builder, call);
    LLVMValueRef local =
        kind == MT_RECORD_NUMBER && mt_ends(name, "_to") ? LLVMGetOperand(call, 3) : LLVMGetPoison(l->ptr);
    int plain = !late && (kind == MT_RECORD_GLOBAL || kind == MT_RECORD_GENERIC),
        generic = kind == MT_RECORD_GENERIC;
    if (kind == MT_RECORD_GLOBAL)
        args[0] = record_pointer(args[0]);
    int global = LLVMGetPointerAddressSpace(LLVMTypeOf(args[0])) == RECORD_GLOBAL;
    if (LLVMTypeOf(args[0]) != l->ptr && (!plain || generic || !global))
        args[0] = LLVMBuildAddrSpaceCast(l->builder, args[0], l->ptr, "");
    LLVMTypeRef types[] = {LLVMTypeOf(args[0]), l->i32, l->i32},
                each[] = {l->i32, l->ptr, l->i64, l->i32, l->i32, l->ptr};
    if (!plain) {
        LLVMValueRef more[] = {LLVMConstInt(l->i32, (unsigned)kind, 0),
                               args[0],
                               late ? LLVMGetOperand(call, 1) : LLVMGetPoison(l->i64),
                               args[1],
                               args[2],
                               local};
        LLVMTypeRef type = LLVMFunctionType(l->none, each, 6, 0);
        LLVMBuildCall2(l->builder, type,
                       record_declare(l, kind == MT_RECORD_PHASE ? RECORD_PHASE : "mt.record.each", type),
                       more, 6, "");
    } else if (!sized || LLVMConstIntGetZExtValue(args[1]) & MT_RAW_MAX_SIZE) {
        LLVMTypeRef type = LLVMFunctionType(l->none, types, 3, 0);
        const char *to = generic ? "mt.record.generic" : global ? "mt.record.global.1" : "mt.record.global";
        LLVMBuildCall2(l->builder, type, record_declare(l, to, type), args, 3, "");
    }
    if (mt_ends(name, "_to"))
        record_unmoved(call, LLVMGetOperand(call, kind == MT_RECORD_NUMBER ? 3 : 0));
    LLVMInstructionEraseFromParent(call);
}

const char *vec_prepare_records(struct mt_lowering *l, LLVMValueRef f)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(f, &n);
    const char *why = list ? NULL : "no memory";
    for (unsigned i = 0; list && !why && i < n; i++) {
        const char *name = vec_callee(list[i]);
        if (mt_starts(name, RECORD "tensor")) {
            why = "records of tensor copies";
        } else if (record_kind(name) >= 0) {
            record_prepare(l, list[i], name);
        }
    }
    free(list);
    return why;
}

int vec_is_record(LLVMValueRef inst)
{
    const char *name = vec_callee(inst);
    return mt_starts(name, "mt.record.") || mt_starts(name, RECORD) || mt_starts(name, "__mt_count") ||
           !strcmp(name, "__mt_untraced");
}

static LLVMValueRef record_call(struct vec *v, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef type;
    return mt_build_call(v->l, mt_builtin(v->l, name, &type), args, n);
}

/* Makes a call that reads the given addresses and no other memory visible to other code, so that LLVM may
 * keep its knowledge. */
static LLVMValueRef record_append(struct vec *v, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMValueRef call = record_call(v, name, args, n);
    LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(v->context, LLVMGetEnumAttributeKindForName("memory", 6),
                                                     RECORD_READS_ARGUMENTS | RECORD_TOUCHES_NOTHING_ELSE));
    return call;
}

static LLVMValueRef record_mask(struct vec *v)
{
    return vec_mask_bits(v, vec_mask(v));
}

/* Returns type, bytes and site as one number. */
static LLVMValueRef record_of(struct vec *v, LLVMValueRef call, unsigned meta)
{
    LLVMValueRef low = LLVMBuildZExt(v->b, LLVMGetOperand(call, meta), v->l->i64, ""),
                 high = LLVMBuildZExt(v->b, LLVMGetOperand(call, meta + 1), v->l->i64, "");
    return LLVMBuildOr(v->b, LLVMBuildShl(v->b, high, LLVMConstInt(v->l->i64, 32, 0), ""), low, "");
}

static LLVMValueRef record_warp(struct vec *v)
{
    return LLVMBuildLShr(v->b, v->linear, vec_number(v, 5), "");
}

/* This function and the next two return the lanes with a bad access as an i32. Evenly spaced: `base` is
 * lane 0's. */
static LLVMValueRef record_even(struct vec *v, LLVMValueRef call, int generic, LLVMValueRef base,
                                int64_t stride)
{
    LLVMValueRef args[] = {base, LLVMConstInt(v->l->i64, (uint64_t)stride, 1), record_mask(v),
                           record_of(v, call, 1), record_warp(v)};
    return record_append(v, generic ? "__mt_warp_generic" : "__mt_warp_global", args, 5);
}

static LLVMValueRef record_lanes(struct vec *v, LLVMValueRef call, int generic, const struct vec_rep *at)
{
    v->recorded = vec_spill_addresses(v, at, LLVMTypeOf(LLVMGetOperand(call, 0)));
    LLVMValueRef args[] = {v->recorded, record_mask(v), record_of(v, call, 1), record_warp(v)};
    return record_append(v, generic ? "__mt_warp_generic_lanes" : "__mt_warp_global_lanes", args, 4);
}

/* Returns the condition under which one call can describe the addresses as rows; NULL: always. */
static LLVMValueRef record_condition(struct vec *v, const struct vec_rep *at)
{
    LLVMValueRef is = at->source ? vec_is_row(v, at) : NULL, all;
    if (v->rows == 1 || !v->mask)
        return is;
    all = LLVMBuildICmp(v->b, LLVMIntEQ, record_mask(v), vec_number(v, ~0u), "");
    return is ? LLVMBuildAnd(v->b, is, all, "") : all;
}

static LLVMValueRef record_rows(struct vec *v, LLVMValueRef call, int generic, const struct vec_rep *at)
{
    LLVMBasicBlockRef way[3];
    LLVMValueRef condition = record_condition(v, at), base[VEC_ROWS_MAX], bad[2], both;
    for (unsigned i = 0; i < 3 && condition; i++)
        way[i] = LLVMAppendBasicBlockInContext(v->context, v->to, "");
    if (condition) {
        LLVMBuildCondBr(v->b, condition, way[0], way[1]);
        LLVMPositionBuilderAtEnd(v->b, way[1]);
        bad[1] = record_lanes(v, call, generic, at);
        LLVMBuildBr(v->b, way[2]);
        LLVMPositionBuilderAtEnd(v->b, way[0]);
    }
    for (unsigned r = 0; r < v->rows; r++)
        base[r] = LLVMBuildPtrToInt(v->b, at->part[r], v->l->i64, "");
    if (v->rows == 1) {
        bad[0] = record_even(v, call, generic, base[0], at->stride);
    } else { /* two rows of all lanes; the builtin knows whether they form one */
        LLVMValueRef args[] = {base[0], base[1], LLVMConstInt(v->l->i64, (uint64_t)at->stride, 1),
                               record_of(v, call, 1), record_warp(v)};
        bad[0] = record_append(v, generic ? "__mt_warp_generic_rows" : "__mt_warp_global_rows", args, 5);
    }
    if (!condition)
        return bad[0];
    LLVMBuildBr(v->b, way[2]);
    LLVMPositionBuilderAtEnd(v->b, way[2]);
    both = LLVMBuildPhi(v->b, v->l->i32, "");
    LLVMAddIncoming(both, bad, way, 2);
    return both;
}

static LLVMValueRef record_each(struct vec *v, LLVMValueRef call)
{
    LLVMTypeRef wide = LLVMVectorType(v->l->i64, VEC_WIDTH);
    LLVMValueRef at = LLVMBuildPtrToInt(v->b, vec_lanes(v, LLVMGetOperand(call, 1)), wide, ""),
                 bytes = LLVMGetOperand(call, 2);
    LLVMValueRef args[] = {LLVMGetOperand(call, 0),
                           vec_spill(v, at),
                           LLVMIsPoison(bytes) ? LLVMConstNull(v->l->ptr) : vec_spill(v, vec_lanes(v, bytes)),
                           record_mask(v),
                           record_of(v, call, 3),
                           record_warp(v)};
    return record_call(v, "__mt_warp_each", args, 6);
}

LLVMValueRef vec_record_one(struct vec *v, LLVMValueRef call, const struct vec_rep *at)
{
    int generic = !strcmp(vec_callee(call), "mt.record.generic");
    if (at->kind == VEC_UNIFORM)
        return record_even(v, call, generic, LLVMBuildPtrToInt(v->b, at->part[0], v->l->i64, ""), 0);
    if (at->kind == VEC_ROWS)
        return record_rows(v, call, generic, at);
    return record_lanes(v, call, generic, at);
}

int vec_emit_record(struct vec *v, LLVMValueRef call)
{
    const char *name = vec_callee(call);
    LLVMValueRef place = LLVMGetOperand(call, 0);
    if (!strcmp(name, MT_CHECK_PLACE_CALL)) {
        record_call(v, name, &place, 1);
        return 1;
    }
    if (!mt_starts(name, "mt.record."))
        return 0;
    int each = mt_starts(name, "mt.record.each");
    struct vec_rep at = vec_get_row(v, LLVMGetOperand(call, each));
    v->recorder = !each && at.kind == VEC_LANES ? call : NULL;
    if (each)
        v->bad = record_each(v, call);
    else if (!vec_region_record(v, call, &at))
        v->bad = vec_record_one(v, call, &at);
    LLVMValueRef p = LLVMGetOperand(call, each), local = each ? LLVMGetOperand(call, 5) : NULL;
    int any = !each || LLVMConstIntGetZExtValue(LLVMGetOperand(call, 0)) == MT_RECORD_ANY;
    if (local && !LLVMIsPoison(local))
        p = local;
    v->recorded_as = mt_recorded_access(call, p);
    v->bad_for = any || p == local ? v->recorded_as : NULL;
    if (!v->bad_for) /* not one that can skip lanes */
        record_call(v, "__mt_warp_end", &v->bad, 1);
    return 1;
}
