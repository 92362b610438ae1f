/* Accesses recorded by calls of the runtime: those with an extent known only at run time, those inside the
 * C library, and all of host=atomic. The runtime's functions: host/llvm/entry.h. */
#include "host.h"
#include "memtrace/hash.h"

static LLVMValueRef site_number(struct mt_host_recorder *r, uint32_t site)
{
    LLVMValueRef base = LLVMBuildLoad2(r->builder, r->i32, r->table->base, "");
    LLVMSetAlignment(base, 4);
    return LLVMBuildAdd(r->builder, base, LLVMConstInt(r->i32, site, 0), "");
}

static LLVMValueRef host_call_number(struct mt_host_recorder *r, uint64_t n)
{
    return LLVMConstInt(r->i64, n, 0);
}

/* Converts any integer or pointer to i64; others give 0. */
static LLVMValueRef as_i64(struct mt_host_recorder *r, LLVMValueRef v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (LLVMGetTypeKind(type) == LLVMPointerTypeKind && !LLVMGetPointerAddressSpace(type))
        return LLVMBuildPtrToInt(r->builder, v, r->i64, "");
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind)
        return LLVMBuildIntCast2(r->builder, v, r->i64, 0, "");
    return host_call_number(r, 0);
}

static uint32_t add_rows(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
                         uint64_t size)
{
    uint32_t site = mt_host_table_instruction(r->table);
    for (unsigned i = 0; i < a->operands; i++) {
        LLVMValueRef p = a->pointer[i];
        mt_host_table_row(r->table, inst, site + i, a->op[i], size,
                          p && LLVMGetTypeKind(LLVMTypeOf(p)) == LLVMPointerTypeKind ? p : NULL);
    }
    return site;
}

static int host_call_wanted(const struct mt_host_recorder *r, enum mt_host_op op)
{
    return !r->u->options->only || r->u->options->only >> (op == MT_HOST_STORE) & 1;
}

static void host_call_block(struct mt_host_recorder *r, LLVMValueRef pointer, LLVMValueRef bytes,
                            uint32_t site)
{
    LLVMValueRef args[] = {as_i64(r, pointer), bytes, site_number(r, site)};
    mt_host_call(r, "__mt_host_block", args, 3);
}

/* Called before the copy is recorded, with the store's site, the second row. */
void mt_host_call_copied(struct mt_host_recorder *r, const struct mt_host_touch *a, uint32_t site)
{
    if (a->kind != MT_HOST_COPY || (a->size && a->size < MT_COPY_LEAST) ||
        !host_call_wanted(r, MT_HOST_STORE))
        return;
    LLVMValueRef args[] = {site_number(r, site + 1), as_i64(r, a->pointer[0]), as_i64(r, a->pointer[1]),
                           a->size ? host_call_number(r, a->size) : as_i64(r, a->bytes)};
    mt_host_call(r, "__mt_host_copied", args, 4);
}

/* Returns the mask as an i64 with lane 0 in bit 0. */
static LLVMValueRef mask_bits(struct mt_host_recorder *r, const struct mt_host_touch *a)
{
    LLVMValueRef bits = a->mask;
    LLVMTypeRef type = LLVMTypeOf(bits);
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) {
        unsigned lanes = LLVMGetVectorSize(type);
        uint64_t width = LLVMSizeOfTypeInBits(r->u->layout, LLVMGetElementType(type));
        LLVMTypeRef as = LLVMVectorType(mt_type_int(r->u, (unsigned)width), lanes);
        bits = LLVMBuildBitCast(r->builder, bits, as, "");
        if (width > 1)
            bits = LLVMBuildICmp(r->builder, LLVMIntSLT, bits, LLVMConstNull(as), "");
        bits = LLVMBuildBitCast(r->builder, bits, mt_type_int(r->u, lanes), "");
    }
    bits = LLVMBuildIntCast2(r->builder, bits, r->i64, 0, "");
    return LLVMBuildAnd(r->builder, bits, host_call_number(r, ~0ull >> (64 - a->lanes)), "");
}

static void host_call_masked(struct mt_host_recorder *r, const struct mt_host_touch *a, uint32_t site)
{
    LLVMValueRef args[] = {as_i64(r, a->pointer[0]), mask_bits(r, a), host_call_number(r, a->size),
                           site_number(r, site)};
    mt_host_call(r, r->atomic ? "__mt_host_begin_masked" : "__mt_host_masked", args, 4);
}

/* Returns space for the addresses of a vector, one per function. */
static LLVMValueRef room_for_lanes(struct mt_host_recorder *r, LLVMValueRef inst)
{
    LLVMBasicBlockRef here = LLVMGetInstructionParent(inst);
    if (!r->lanes) {
        LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here));
        LLVMMetadataRef place = LLVMGetCurrentDebugLocation2(r->builder);
        LLVMPositionBuilderBefore(r->builder, LLVMGetFirstInstruction(entry));
        r->lanes = LLVMBuildAlloca(r->builder, LLVMArrayType2(r->i64, 64), "");
        LLVMPositionBuilderBefore(r->builder, inst);
        LLVMSetCurrentDebugLocation2(r->builder, place);
    }
    return r->lanes;
}

/* Returns the addresses of a gather or scatter as integers. */
static LLVMValueRef host_call_addresses(struct mt_host_recorder *r, const struct mt_host_touch *a)
{
    unsigned lanes = LLVMGetVectorSize(LLVMTypeOf(a->index ? a->index : a->pointer[0]));
    LLVMTypeRef type = LLVMVectorType(r->i64, lanes);
    if (!a->index)
        return LLVMBuildPtrToInt(r->builder, a->pointer[0], type, "");
    LLVMValueRef base = as_i64(r, a->pointer[0]), scales[64], bases = LLVMGetPoison(type);
    for (unsigned i = 0; i < lanes; i++) {
        scales[i] = host_call_number(r, a->scale);
        bases = LLVMBuildInsertElement(r->builder, bases, base, LLVMConstInt(r->i32, i, 0), "");
    }
    LLVMValueRef steps = LLVMBuildSExtOrBitCast(r->builder, a->index, type, "");
    steps = LLVMBuildMul(r->builder, steps, LLVMConstVector(scales, lanes), "");
    return LLVMBuildAdd(r->builder, bases, steps, "");
}

static void host_call_lanes(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
                            uint32_t site)
{
    LLVMValueRef room = room_for_lanes(r, inst);
    LLVMSetAlignment(LLVMBuildStore(r->builder, host_call_addresses(r, a), room), 8);
    LLVMValueRef args[] = {room, mask_bits(r, a), host_call_number(r, a->size), site_number(r, site)};
    mt_host_call(r, r->atomic ? "__mt_host_begin_lanes" : "__mt_host_lanes", args, 4);
}

static void host_call_packed(struct mt_host_recorder *r, const struct mt_host_touch *a, uint32_t site)
{
    LLVMTypeRef type = LLVMFunctionType(r->i64, &r->i64, 1, 0);
    LLVMValueRef popcount = mt_declare(r->u->module, "llvm.ctpop.i64", type), bits = mask_bits(r, a);
    LLVMValueRef n = LLVMBuildCall2(r->builder, type, popcount, &bits, 1, "");
    LLVMValueRef bytes = LLVMBuildMul(r->builder, n, host_call_number(r, a->size), "");
    LLVMValueRef args[] = {site_number(r, site), as_i64(r, a->pointer[0]), bytes};
    if (r->atomic)
        mt_host_call_kept(r, "__mt_host_begin", args, 3);
    else
        host_call_block(r, a->pointer[0], bytes, site);
}

/* Ends an access of host=atomic before `next`. */
static void host_call_end(struct mt_host_recorder *r, LLVMValueRef next, LLVMMetadataRef place)
{
    LLVMValueRef fine = LLVMConstInt(r->i32, 0, 0);
    if (!r->atomic)
        return;
    LLVMPositionBuilderBefore(r->builder, next);
    LLVMSetCurrentDebugLocation2(r->builder, place);
    mt_host_call_kept(r, "__mt_host_end", &fine, 1);
}

/* Returns the place after a call, or NULL. */
static LLVMValueRef host_call_behind(LLVMValueRef inst)
{
    if (LLVMIsAInvokeInst(inst))
        return mt_shim_behind_invoke(inst);
    if (!LLVMIsACallInst(inst) || LLVMGetTailCallKind(inst) == LLVMTailCallKindMustTail)
        return NULL;
    return LLVMGetNextInstruction(inst);
}

/* Returns 1 if this place was warned about: code inlined in several places has one warning. */
static int said_before(struct mt_host_recorder *r, LLVMValueRef inst)
{
    struct mt_source_location place;
    mt_shim_location(inst, &place);
    uint64_t hash = mt_hash_text(place.file) ^ place.line ^ (uint64_t)place.column << 32;
    if (!place.line)
        return 0;
    unsigned n = sizeof r->said / sizeof *r->said;
    for (unsigned i = 0; i < r->nsaid && i < n; i++)
        if (r->said[i] == hash)
            return 1;
    r->said[r->nsaid++ % n] = hash;
    return 0;
}

static void host_call_blind(struct mt_host_recorder *r, LLVMValueRef inst, const char *what)
{
    if (!said_before(r, inst))
        mt_diag(r->u, inst, MT_DIAG_WARNING, "memory access without a record (counted at run time): %s",
                what);
    mt_host_call(r, "__mt_host_untraced", NULL, 0);
}

/* Records a call of a function in format/host_libc.def. */
static void host_call_libc(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a)
{
    LLVMValueRef next = a->lanes || r->atomic ? host_call_behind(inst) : NULL, args[7];
    unsigned given = LLVMGetNumArgOperands(inst);
    int after = (int)a->lanes, typed = 0;
    if (after && !next) {
        host_call_blind(r, inst, "a call of the C library whose result is not seen");
        return;
    }
    LLVMMetadataRef place = LLVMInstructionGetDebugLoc(inst);
    if (after)
        LLVMPositionBuilderBefore(r->builder, after == 2 ? inst : next);
    LLVMSetCurrentDebugLocation2(r->builder, place);
    args[0] = LLVMConstInt(r->i32, a->libc, 0);
    args[1] = site_number(r, add_rows(r, inst, a, 0));
    for (unsigned i = 0; i < 4; i++)
        args[2 + i] = i < given ? as_i64(r, LLVMGetOperand(inst, i)) : host_call_number(r, 0);
    args[6] = after == 1 ? as_i64(r, inst) : host_call_number(r, 0);
    /* A user's function with the same name takes other types. */
    for (unsigned i = 0; i < given; i++)
        typed |= LLVMGetTypeKind(LLVMTypeOf(LLVMGetOperand(inst, i))) == LLVMPointerTypeKind;
    if (!typed)
        return;
    if (after == 2) { /* recorded before the call begins: it may wait for another thread */
        mt_host_call(r, r->atomic ? "__mt_host_begin_libc" : "__mt_host_libc", args, 7);
        host_call_end(r, inst, place);
        LLVMPositionBuilderBefore(r->builder, next);
        LLVMSetCurrentDebugLocation2(r->builder, place);
    }
    mt_host_call(r, r->atomic ? "__mt_host_begin_libc" : "__mt_host_libc", args, 7);
    host_call_end(r, next ? next : inst, place); /* without a place after it, the call is not inside */
}

void mt_host_record_by_call(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a)
{
    uint32_t site;
    LLVMMetadataRef place = LLVMInstructionGetDebugLoc(inst);
    switch (a->kind) {
    case MT_HOST_COPY:
    case MT_HOST_FILL:
        if (r->atomic) {
            mt_host_record_atomic(r, inst, a);
            break;
        }
        site = add_rows(r, inst, a, 0);
        mt_host_call_copied(r, a, site);
        for (unsigned i = 0; i < a->operands; i++)
            if (host_call_wanted(r, a->op[i]))
                host_call_block(r, a->pointer[i], as_i64(r, a->bytes), site + i);
        break;
    case MT_HOST_MASKED:
        host_call_masked(r, a, add_rows(r, inst, a, 0));
        host_call_end(r, LLVMGetNextInstruction(inst), place);
        break;
    case MT_HOST_LANES:
        host_call_lanes(r, inst, a, add_rows(r, inst, a, a->size));
        host_call_end(r, LLVMGetNextInstruction(inst), place);
        break;
    case MT_HOST_PACKED:
        host_call_packed(r, a, add_rows(r, inst, a, 0));
        host_call_end(r, LLVMGetNextInstruction(inst), place);
        break;
    case MT_HOST_LIBC:
        host_call_libc(r, inst, a);
        break;
    case MT_HOST_BLIND:
        host_call_blind(r, inst, a->what);
        break;
    default:
        break;
    }
}

/* Brackets the access with begin and end: between the two no other thread touches its memory. */
void mt_host_record_atomic(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a)
{
    uint32_t site = add_rows(r, inst, a, a->size);
    LLVMMetadataRef place = LLVMInstructionGetDebugLoc(inst);
    LLVMValueRef bytes = a->size ? host_call_number(r, a->size) : as_i64(r, a->bytes);
    LLVMValueRef failed = LLVMConstInt(r->i32, 0, 0);
    mt_host_call_copied(r, a, site);
    if (a->operands == 2) {
        LLVMValueRef args[] = {site_number(r, site), as_i64(r, a->pointer[0]), as_i64(r, a->pointer[1]),
                               bytes};
        mt_host_call(r, "__mt_host_begin_copy", args, 4);
    } else {
        LLVMValueRef args[] = {site_number(r, site), as_i64(r, a->pointer[0]), bytes};
        if (a->kind == MT_HOST_FIXED && a->operands == 1) {
            mt_host_record_marked(r, inst, a, site, args);
            return;
        }
        mt_host_call_kept(r, "__mt_host_begin", args, 3);
    }
    LLVMPositionBuilderBefore(r->builder, LLVMGetNextInstruction(inst));
    LLVMSetCurrentDebugLocation2(r->builder, place);
    if (a->kind == MT_HOST_SWAP) {
        LLVMValueRef wrote = LLVMBuildExtractValue(r->builder, inst, 1, "");
        failed = LLVMBuildZExt(r->builder, LLVMBuildNot(r->builder, wrote, ""), r->i32, "");
        mt_host_table_row(r->table, inst, mt_host_table_instruction(r->table), MT_HOST_CAS_FAILED, a->size,
                          a->pointer[0]);
    }
    mt_host_call_kept(r, "__mt_host_end", &failed, 1);
}
