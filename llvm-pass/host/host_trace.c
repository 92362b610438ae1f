/* Tracing of the host's own accesses (option host): selects and orders the functions. Runs after
 * optimisation, so that variables in registers are not traced, and each remaining access has one record. */
#include "host.h"
#include "memtrace/hash.h"
#include "trace/trace.h"
#include "memtrace/grow.h"
#include "unit/pass.h"

#include <llvm-c/Analysis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Accesses recorded by calls of the runtime: those with an extent known only at run time, those inside the
 * C library, and all of host=atomic. The runtime's functions: host/llvm/entry.h. */

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

static uint32_t host_table_instruction(struct mt_host_table *t);

static void host_table_row(struct mt_host_table *t, LLVMValueRef inst, uint32_t site, enum mt_host_op op,
                           uint64_t size, LLVMValueRef pointer);

static uint32_t add_rows(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
                         uint64_t size)
{
    uint32_t site = host_table_instruction(r->table);
    for (unsigned i = 0; i < a->operands; i++) {
        LLVMValueRef p = a->pointer[i];
        host_table_row(r->table, inst, site + i, a->op[i], size,
                       p && LLVMGetTypeKind(LLVMTypeOf(p)) == LLVMPointerTypeKind ? p : NULL);
    }
    return site;
}

static int host_call_wanted(const struct mt_host_recorder *r, enum mt_host_op op)
{
    return !r->u->options->only || r->u->options->only >> (op == MT_HOST_STORE) & 1;
}

static LLVMValueRef mt_host_call(struct mt_host_recorder *r, const char *name, LLVMValueRef *args,
                                 unsigned n);

static void host_call_block(struct mt_host_recorder *r, LLVMValueRef pointer, LLVMValueRef bytes,
                            uint32_t site)
{
    LLVMValueRef args[] = {as_i64(r, pointer), bytes, site_number(r, site)};
    mt_host_call(r, "__mt_host_block", args, 3);
}

/* Called before the copy is recorded, with the store's site, the second row. */
static void host_call_copied(struct mt_host_recorder *r, const struct mt_host_touch *a, uint32_t site)
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

static LLVMValueRef host_call_kept(struct mt_host_recorder *r, const char *name, LLVMValueRef *args,
                                   unsigned n);

static void host_call_packed(struct mt_host_recorder *r, const struct mt_host_touch *a, uint32_t site)
{
    LLVMTypeRef type = LLVMFunctionType(r->i64, &r->i64, 1, 0);
    LLVMValueRef popcount = mt_declare(r->u->module, "llvm.ctpop.i64", type), bits = mask_bits(r, a);
    LLVMValueRef n = LLVMBuildCall2(r->builder, type, popcount, &bits, 1, "");
    LLVMValueRef bytes = LLVMBuildMul(r->builder, n, host_call_number(r, a->size), "");
    LLVMValueRef args[] = {site_number(r, site), as_i64(r, a->pointer[0]), bytes};
    if (r->atomic)
        host_call_kept(r, "__mt_host_begin", args, 3);
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
    host_call_kept(r, "__mt_host_end", &fine, 1);
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

static void host_record_atomic(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a);

/* Records accesses by calls, and those of host=atomic. */
static void host_record_by_call(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a)
{
    uint32_t site;
    LLVMMetadataRef place = LLVMInstructionGetDebugLoc(inst);
    switch (a->kind) {
    case MT_HOST_COPY:
    case MT_HOST_FILL:
        if (r->atomic) {
            host_record_atomic(r, inst, a);
            break;
        }
        site = add_rows(r, inst, a, 0);
        host_call_copied(r, a, site);
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

static void host_record_marked(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
                               uint32_t site, LLVMValueRef *args);

/* Brackets the access with begin and end: between the two no other thread touches its memory. */
static void host_record_atomic(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a)
{
    uint32_t site = add_rows(r, inst, a, a->size);
    LLVMMetadataRef place = LLVMInstructionGetDebugLoc(inst);
    LLVMValueRef bytes = a->size ? host_call_number(r, a->size) : as_i64(r, a->bytes);
    LLVMValueRef failed = LLVMConstInt(r->i32, 0, 0);
    host_call_copied(r, a, site);
    if (a->operands == 2) {
        LLVMValueRef args[] = {site_number(r, site), as_i64(r, a->pointer[0]), as_i64(r, a->pointer[1]),
                               bytes};
        mt_host_call(r, "__mt_host_begin_copy", args, 4);
    } else {
        LLVMValueRef args[] = {site_number(r, site), as_i64(r, a->pointer[0]), bytes};
        if (a->kind == MT_HOST_FIXED && a->operands == 1) {
            host_record_marked(r, inst, a, site, args);
            return;
        }
        host_call_kept(r, "__mt_host_begin", args, 3);
    }
    LLVMPositionBuilderBefore(r->builder, LLVMGetNextInstruction(inst));
    LLVMSetCurrentDebugLocation2(r->builder, place);
    if (a->kind == MT_HOST_SWAP) {
        LLVMValueRef wrote = LLVMBuildExtractValue(r->builder, inst, 1, "");
        failed = LLVMBuildZExt(r->builder, LLVMBuildNot(r->builder, wrote, ""), r->i32, "");
        host_table_row(r->table, inst, host_table_instruction(r->table), MT_HOST_CAS_FAILED, a->size,
                       a->pointer[0]);
    }
    host_call_kept(r, "__mt_host_end", &failed, 1);
}

/* ---- Memory accesses of host instructions ---- */

#define ARG(i) LLVMGetOperand(inst, i)

static const struct {
    const char *name, *ops;
    int after;
} libc[] = {
#define MT_HOST_LIBC(symbol, shape, ops, after) {#symbol, ops, after},
#include "format/host_libc.def"
};

static uint64_t host_trace_size_of(struct mt_unit *u, LLVMTypeRef type)
{
    return LLVMStoreSizeOfType(u->layout, type);
}

static enum mt_host_kind host_access_fixed(struct mt_host_touch *a, enum mt_host_op op, LLVMValueRef pointer,
                                           uint64_t size)
{
    a->kind = size ? MT_HOST_FIXED : MT_HOST_NOTHING;
    a->op[0] = op;
    a->operands = 1;
    a->pointer[0] = pointer;
    a->size = size;
    if (LLVMGetPointerAddressSpace(LLVMTypeOf(pointer))) {
        a->kind = MT_HOST_BLIND; /* %fs: and %gs: segments: the linear address is unknown here */
        a->what = "an access through a segment register";
    }
    return a->kind;
}

/* Classifies memcpy, memmove (source: operand 1) and memset (source: NULL). */
static enum mt_host_kind host_access_block(struct mt_host_touch *a, LLVMValueRef source, LLVMValueRef target,
                                           LLVMValueRef bytes)
{
    unsigned n = 0;
    a->kind = source ? MT_HOST_COPY : MT_HOST_FILL;
    if (source) {
        a->op[n] = MT_HOST_LOAD;
        a->pointer[n++] = source;
    }
    a->op[n] = MT_HOST_STORE;
    a->pointer[n++] = target;
    a->operands = n;
    a->bytes = bytes;
    if (LLVMIsAConstantInt(bytes)) {
        a->size = LLVMConstIntGetZExtValue(bytes);
        if (!a->size)
            a->kind = MT_HOST_NOTHING;
        if (a->size > UINT32_MAX)
            a->size = 0;
    }
    return a->kind;
}

static enum mt_host_kind host_access_vector(struct mt_unit *u, struct mt_host_touch *a,
                                            enum mt_host_kind kind, enum mt_host_op op, LLVMValueRef pointer,
                                            LLVMValueRef mask, LLVMTypeRef type)
{
    a->kind = kind;
    a->op[0] = op;
    a->operands = 1;
    a->pointer[0] = pointer;
    a->mask = mask;
    a->lanes = LLVMGetVectorSize(type);
    a->size = host_trace_size_of(u, LLVMGetElementType(type));
    if (a->lanes > 64) {
        a->kind = MT_HOST_BLIND;
        a->what = "a masked access of more than 64 lanes";
    }
    return a->kind;
}

static enum mt_host_kind host_access_blind(struct mt_host_touch *a, const char *what)
{
    a->what = what;
    return a->kind = MT_HOST_BLIND;
}

/* Returns 1 if the call may access nameable memory: memory(argmem, other), or no such attribute. Without a
 * pointer it cannot. */
static int host_access_touches(LLVMValueRef inst)
{
    const uint64_t named = 0x33; /* LLVM's MemoryEffects: two bits each for argmem, inaccessiblemem, other */
    unsigned memory = LLVMGetEnumAttributeKindForName("memory", 6), pointers = 0;
    LLVMAttributeRef effects =
        LLVMGetEnumAttributeAtIndex(mt_callee(inst), (LLVMAttributeIndex)LLVMAttributeFunctionIndex, memory);
    for (unsigned i = 0; i < LLVMGetNumArgOperands(inst); i++) {
        LLVMTypeRef type = LLVMTypeOf(ARG(i));
        if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
            type = LLVMGetElementType(type);
        pointers += LLVMGetTypeKind(type) == LLVMPointerTypeKind;
    }
    return pointers && (!effects || LLVMGetEnumAttributeValue(effects) & named);
}

/* Returns 1 for intrinsics with a pointer that claim to touch memory, but move no data. */
static int host_access_harmless(const char *name)
{
    static const char *const starts[] = {
        "llvm.lifetime.",        "llvm.invariant.",   "llvm.prefetch",
        "llvm.va_end",           "llvm.stackrestore", "llvm.dbg.",
        "llvm.clear_cache",      "llvm.eh.return",    "llvm.coro.",
        "llvm.instrprof.",       "llvm.objc.",        "llvm.localescape",
        "llvm.x86.clflush",      "llvm.x86.clwb",     "llvm.x86.sse2.clflush",
        "llvm.x86.cldemote",     "llvm.x86.monitorx", "llvm.x86.umonitor",
        "llvm.x86.sse3.monitor",
    };
    for (unsigned i = 0; i < sizeof starts / sizeof *starts; i++)
        if (mt_starts(name, starts[i]))
            return 1;
    return 0;
}

/* Calls with one access at the first operand; bytes 0: the larger of the result and the second operand. */
static const struct {
    const char *name; /* prefix of the name */
    enum mt_host_op op;
    uint32_t bytes;
} host_access_plain[] = {
    {"llvm.x86.sse3.ldu.", MT_HOST_LOAD, 0},    {"llvm.x86.avx.ldu.", MT_HOST_LOAD, 0},
    {"llvm.x86.vbcstne", MT_HOST_LOAD, 2},      {"llvm.x86.vcvtne", MT_HOST_LOAD, 0},
    {"llvm.x86.sse.ldmxcsr", MT_HOST_LOAD, 4},  {"llvm.x86.sse.stmxcsr", MT_HOST_STORE, 4},
    {"llvm.x86.fxrstor", MT_HOST_LOAD, 512},    {"llvm.x86.fxsave", MT_HOST_STORE, 512},
    {"llvm.x86.ldtilecfg", MT_HOST_LOAD, 64},   {"llvm.x86.sttilecfg", MT_HOST_STORE, 64},
    {"llvm.x86.directstore", MT_HOST_STORE, 0}, {"llvm.x86.mmx.movnt.dq", MT_HOST_STORE, 8},
    {"llvm.x86.atomic.", MT_HOST_ATOMIC, 0},    {"llvm.x86.cmpccxadd", MT_HOST_ATOMIC, 0},
    {"llvm.x86.aadd", MT_HOST_ATOMIC, 0},       {"llvm.x86.aand", MT_HOST_ATOMIC, 0},
    {"llvm.x86.aor", MT_HOST_ATOMIC, 0},        {"llvm.x86.axor", MT_HOST_ATOMIC, 0},
};

static uint64_t host_access_larger(struct mt_unit *u, LLVMValueRef inst)
{
    LLVMTypeRef type = LLVMTypeOf(inst);
    uint64_t a = LLVMGetTypeKind(type) == LLVMVoidTypeKind ? 0 : host_trace_size_of(u, type);
    uint64_t b = LLVMGetNumArgOperands(inst) > 1 ? host_trace_size_of(u, LLVMTypeOf(ARG(1))) : 0;
    return a > b ? a : b;
}

/* Classifies a base with indices and a scale; elements of `type`, of which there may be more or fewer than
 * indices. */
static enum mt_host_kind host_access_indexed(struct mt_unit *u, LLVMValueRef inst, struct mt_host_touch *a,
                                             enum mt_host_op op, LLVMTypeRef type)
{
    unsigned load = op == MT_HOST_LOAD; /* the value for lanes left out comes before */
    host_access_vector(u, a, MT_HOST_LANES, op, ARG(load), ARG(load ? 3 : 1), type);
    a->index = ARG(2);
    a->scale = LLVMConstIntGetZExtValue(ARG(4));
    unsigned indices = LLVMGetVectorSize(LLVMTypeOf(a->index));
    a->lanes = indices < a->lanes ? indices : a->lanes;
    return a->kind;
}

/* llvm.x86.avx512.mask.pmov{s,us}.FROM TO.mem.BITS (pointer, vector, mask): truncated and stored
 * adjacently. */
static enum mt_host_kind host_access_narrowed(struct mt_unit *u, LLVMValueRef inst, const char *name,
                                              struct mt_host_touch *a)
{
    const char *to = strstr(name, ".mem.");
    host_access_vector(u, a, MT_HOST_MASKED, MT_HOST_STORE, ARG(0), ARG(2), LLVMTypeOf(ARG(1)));
    a->size = to[-1] == 'b' ? 1 : to[-1] == 'w' ? 2 : 4;
    return a->kind;
}

static enum mt_host_kind host_access_x86(struct mt_unit *u, LLVMValueRef inst, const char *name,
                                         struct mt_host_touch *a)
{
    for (unsigned i = 0; i < sizeof host_access_plain / sizeof *host_access_plain; i++)
        if (mt_starts(name, host_access_plain[i].name))
            return host_access_fixed(a, host_access_plain[i].op, ARG(0),
                                     host_access_plain[i].bytes ? host_access_plain[i].bytes
                                                                : host_access_larger(u, inst));
    if (strstr(name, ".gather"))
        return host_access_indexed(u, inst, a, MT_HOST_LOAD, LLVMTypeOf(inst));
    if (strstr(name, ".scatter"))
        return host_access_indexed(u, inst, a, MT_HOST_STORE, LLVMTypeOf(ARG(3)));
    if (strstr(name, ".maskload."))
        return host_access_vector(u, a, MT_HOST_MASKED, MT_HOST_LOAD, ARG(0), ARG(1), LLVMTypeOf(inst));
    if (strstr(name, ".maskstore."))
        return host_access_vector(u, a, MT_HOST_MASKED, MT_HOST_STORE, ARG(0), ARG(1), LLVMTypeOf(ARG(2)));
    if (!strcmp(name, "llvm.x86.sse2.maskmov.dqu"))
        return host_access_vector(u, a, MT_HOST_MASKED, MT_HOST_STORE, ARG(2), ARG(1), LLVMTypeOf(ARG(0)));
    if (mt_starts(name, "llvm.x86.avx512.mask.pmov") && strstr(name, ".mem."))
        return host_access_narrowed(u, inst, name, a);
    if (!strcmp(name, "llvm.x86.movdir64b"))
        return host_access_block(a, ARG(1), ARG(0), LLVMConstInt(mt_type_int(u, 64), 64, 0));
    return host_access_blind(a, name); /* their own moves are not recorded */
}

static enum mt_host_kind of_intrinsic(struct mt_unit *u, LLVMValueRef inst, const char *name,
                                      struct mt_host_touch *a)
{
    const uint64_t va_list_bytes = 24; /* System V ABI of x86-64 */
    LLVMTypeRef type = LLVMTypeOf(inst);
    if (mt_starts(name, "llvm.memcpy.") || mt_starts(name, "llvm.memmove."))
        return host_access_block(a, ARG(1), ARG(0), ARG(2));
    if (mt_starts(name, "llvm.memset."))
        return host_access_block(a, NULL, ARG(0), ARG(2));
    if (mt_starts(name, "llvm.masked.load."))
        return host_access_vector(u, a, MT_HOST_MASKED, MT_HOST_LOAD, ARG(0), ARG(2), type);
    if (mt_starts(name, "llvm.masked.store."))
        return host_access_vector(u, a, MT_HOST_MASKED, MT_HOST_STORE, ARG(1), ARG(3), LLVMTypeOf(ARG(0)));
    if (mt_starts(name, "llvm.masked.gather."))
        return host_access_vector(u, a, MT_HOST_LANES, MT_HOST_LOAD, ARG(0), ARG(2), type);
    if (mt_starts(name, "llvm.masked.scatter."))
        return host_access_vector(u, a, MT_HOST_LANES, MT_HOST_STORE, ARG(1), ARG(3), LLVMTypeOf(ARG(0)));
    if (mt_starts(name, "llvm.masked.expandload."))
        return host_access_vector(u, a, MT_HOST_PACKED, MT_HOST_LOAD, ARG(0), ARG(1), type);
    if (mt_starts(name, "llvm.masked.compressstore."))
        return host_access_vector(u, a, MT_HOST_PACKED, MT_HOST_STORE, ARG(1), ARG(2), LLVMTypeOf(ARG(0)));
    if (mt_starts(name, "llvm.va_start"))
        return host_access_fixed(a, MT_HOST_STORE, ARG(0), va_list_bytes);
    if (mt_starts(name, "llvm.va_copy"))
        return host_access_block(a, ARG(1), ARG(0),
                                 LLVMConstInt(LLVMInt64TypeInContext(u->context), va_list_bytes, 0));
    if (!host_access_touches(inst) || host_access_harmless(name))
        return MT_HOST_NOTHING;
    return mt_starts(name, "llvm.x86.") ? host_access_x86(u, inst, name, a) : host_access_blind(a, name);
}

static enum mt_host_kind of_libc(LLVMValueRef inst, const char *name, struct mt_host_touch *a)
{
    for (unsigned i = 0; i < MT_LIBC_COUNT; i++) {
        if (strcmp(name, libc[i].name))
            continue;
        if (LLVMGetNumArgOperands(inst) < 1 || LLVMGetNumArgOperands(inst) > 6)
            return MT_HOST_NOTHING; /* another function of that name */
        a->kind = MT_HOST_LIBC;
        a->libc = (enum mt_host_libc)i;
        a->operands = (unsigned)strlen(libc[i].ops);
        for (unsigned k = 0; k < a->operands; k++)
            a->op[k] = libc[i].ops[k] == 'L'   ? MT_HOST_LOAD
                       : libc[i].ops[k] == 'S' ? MT_HOST_STORE
                                               : MT_HOST_ATOMIC;
        a->lanes = (unsigned)libc[i].after; /* recorded after the call, or (2) also before */
        return a->kind;
    }
    return MT_HOST_NOTHING;
}

static enum mt_host_kind of_call(struct mt_unit *u, LLVMValueRef inst, struct mt_host_touch *a)
{
    if (LLVMIsAInlineAsm(LLVMGetCalledValue(inst)))
        return mt_shim_asm_memory(inst) ? host_access_blind(a, "inline asm with operands in memory")
                                        : MT_HOST_NOTHING;
    LLVMValueRef callee = mt_callee(inst);
    const char *name = mt_name(callee);
    if (!callee || !LLVMIsDeclaration(callee))
        return MT_HOST_NOTHING;
    if (LLVMGetIntrinsicID(callee))
        return of_intrinsic(u, inst, name, a);
    return of_libc(inst, name, a);
}

/* Fills *a and returns a->kind. */
static enum mt_host_kind host_access_of(struct mt_unit *u, LLVMValueRef inst, struct mt_host_touch *a)
{
    memset(a, 0, sizeof *a);
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        return host_access_fixed(a, MT_HOST_LOAD, ARG(0), host_trace_size_of(u, LLVMTypeOf(inst)));
    case LLVMStore:
        return host_access_fixed(a, MT_HOST_STORE, ARG(1), host_trace_size_of(u, LLVMTypeOf(ARG(0))));
    case LLVMAtomicRMW:
        return host_access_fixed(a, MT_HOST_ATOMIC, ARG(0), host_trace_size_of(u, LLVMTypeOf(inst)));
    case LLVMAtomicCmpXchg:
        if (host_access_fixed(a, MT_HOST_CAS, ARG(0), host_trace_size_of(u, LLVMTypeOf(ARG(1)))) ==
            MT_HOST_FIXED)
            a->kind = MT_HOST_SWAP;
        return a->kind;
    case LLVMCall:
    case LLVMInvoke:
    case LLVMCallBr:
        return of_call(u, inst, a);
    default:
        return MT_HOST_NOTHING;
    }
}

/* Returns 1 if a call of another function by this name allocates memory (malloc, operator new, mmap, …). */
static int host_allocates(const char *callee)
{
    static const char *const names[] = {
        "malloc", "calloc",  "realloc",  "reallocarray", "memalign", "aligned_alloc", "posix_memalign",
        "valloc", "pvalloc", "mmap",     "mmap64",       "mremap",   "sbrk",          "brk",
        "strdup", "strndup", "__strdup", "asprintf",     "getline",
    };
    if (mt_starts(callee, "_Znwm") || mt_starts(callee, "_Znam"))
        return 1;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(callee, names[i]))
            return 1;
    return 0;
}

/* Returns 1 for an atomic access visible to others, which ends a group before it: earlier records are
 * complete when others see it. */
static int host_access_orders(LLVMValueRef inst)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
    case LLVMFence:
        return 1;
    case LLVMStore:
        return LLVMGetOrdering(inst) > LLVMAtomicOrderingMonotonic;
    default:
        return 0;
    }
}

/* Returns 1 if other traced code can run, or this thread's state be read, before the instruction ends. */
static int host_leaves(LLVMValueRef inst)
{
    if (LLVMIsATerminatorInst(inst) || host_access_orders(inst))
        return 1;
    if (!LLVMIsACallInst(inst))
        return 0;
    LLVMValueRef callee = mt_callee(inst);
    const char *name = mt_name(callee);
    if (!callee || !LLVMIsDeclaration(callee) || !LLVMGetIntrinsicID(callee))
        return 1;
    return mt_starts(name, "llvm.eh.") || mt_starts(name, "llvm.trap") || mt_starts(name, "llvm.debugtrap") ||
           mt_starts(name, "llvm.ubsantrap") || mt_starts(name, "llvm.coro.");
}

/* Inserts records in front of the accesses of a host function. The accesses of a basic block between two
 * calls form a group: one comparison at the first ensures room for all (MT_CORE_SLACK), each then stores
 * its entry at a fixed distance, and the position moves once, after the last. Without room, a group of one
 * access is passed to the runtime; a larger one, whose addresses are not known yet, gets a scratch buffer
 * (__mt_host_slow) with limit NULL, and hands that over at its end (__mt_host_drain). Contract: struct
 * mt_core_thread begins with cur and limit. */

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

static void host_recorder_init(struct mt_host_recorder *r, struct mt_unit *u, struct mt_host_table *t)
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

/* Builds a call of a runtime function that keeps the registers (host/llvm/thunk.S). */
static LLVMValueRef host_call_kept(struct mt_host_recorder *r, const char *name, LLVMValueRef *args,
                                   unsigned n)
{
    return host_record_call(r, name, args, n, PRESERVE_MOST);
}

/* Builds a call of a function of the runtime. */
static LLVMValueRef mt_host_call(struct mt_host_recorder *r, const char *name, LLVMValueRef *args, unsigned n)
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
    host_call_kept(r, name, args, n);
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
    host_call_kept(r, name, args, n);
    LLVMBuildBr(r->builder, tail);
    LLVMPositionBuilderBefore(r->builder, before);
}

/* Appends an access of host=atomic, of operand 0 of `site`, with the `args` of begin. Where it cannot be
 * appended, it is put between begin and end. */
static void host_record_marked(struct mt_host_recorder *r, LLVMValueRef inst, const struct mt_host_touch *a,
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
    uint32_t site = host_table_instruction(r->table);
    for (unsigned i = 0; i < a->operands; i++) {
        host_table_row(r->table, inst, site + i, a->op[i], a->size, a->pointer[i]);
        if (wanted_op(r, a->op[i]))
            g->entry[g->count++] = (struct entry){inst, *a, site, i};
    }
    if (a->kind == MT_HOST_COPY) {
        LLVMPositionBuilderBefore(r->builder, inst);
        LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(inst));
        host_call_copied(r, a, site);
    }
    if (a->kind == MT_HOST_SWAP) /* the next instruction: the one that did not write */
        host_table_row(r->table, inst, host_table_instruction(r->table), MT_HOST_CAS_FAILED, a->size,
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
    if (a->kind == MT_HOST_SWAP || host_leaves(inst))
        host_record_flush(r, g, a->kind == MT_HOST_SWAP ? LLVMGetNextInstruction(inst) : inst);
}

/* Records the accesses of one function, except at unwanted places. */
static void host_record_function(struct mt_host_recorder *r, LLVMValueRef function)
{
    unsigned n;
    struct group g = {.count = 0};
    r->lanes = NULL;
    LLVMValueRef *list = mt_instructions(function, &n);
    for (unsigned i = 0; list && i < n; i++) {
        LLVMValueRef inst = list[i];
        struct mt_host_touch a;
        host_access_of(r->u, inst, &a);
        host_record_filter(r, inst, &a);
        if (goes_into_group(&a) && !r->atomic) {
            record_grouped(r, &g, inst, &a);
            continue;
        }
        if (a.kind != MT_HOST_NOTHING || host_leaves(inst))
            host_record_flush(r, &g, inst);
        if (a.kind == MT_HOST_NOTHING)
            continue;
        LLVMPositionBuilderBefore(r->builder, inst);
        LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(inst));
        if (r->atomic && goes_into_group(&a))
            host_record_atomic(r, inst, &a);
        else
            host_record_by_call(r, inst, &a);
    }
    free(list);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}

/* Entry and returns of functions traced by name (-f, --routine, the annotation library): a test of a word
 * per function that the runtime sets. Also the locations of calls that allocate. */

static LLVMValueRef id_of(struct mt_host_recorder *r, unsigned index)
{
    LLVMValueRef where[] = {LLVMConstInt(r->i64, index, 0)};
    LLVMValueRef p = LLVMConstGEP2(r->i32, r->table->ids, where, 1);
    LLVMValueRef id = LLVMBuildLoad2(r->builder, r->i32, p, "");
    LLVMSetAlignment(id, 4);
    return id;
}

/* Returns the stack pointer at the call of the function. */
static LLVMValueRef stack_pointer(struct mt_host_recorder *r)
{
    LLVMTypeRef type = LLVMFunctionType(r->ptr, NULL, 0, 0);
    LLVMValueRef f = mt_declare(r->u->module, "llvm.addressofreturnaddress.p0", type);
    return LLVMBuildPtrToInt(r->builder, LLVMBuildCall2(r->builder, type, f, NULL, 0, ""), r->i64, "");
}

/* Converts integers and pointers of up to 64 bits, which are passed in registers; others are no arguments
 * here. */
static LLVMValueRef host_function_plain(struct mt_host_recorder *r, LLVMValueRef v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (LLVMGetTypeKind(type) == LLVMPointerTypeKind && !LLVMGetPointerAddressSpace(type))
        return LLVMBuildPtrToInt(r->builder, v, r->i64, "");
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(type) <= 64)
        return LLVMBuildZExtOrBitCast(r->builder, v, r->i64, "");
    return NULL;
}

/* Makes `if (id) call` in front of an instruction, with the builder in the branch. */
static LLVMValueRef when_named(struct mt_host_recorder *r, unsigned index, LLVMValueRef before)
{
    LLVMBasicBlockRef head = LLVMGetInstructionParent(before), tail = mt_shim_split(before);
    LLVMBasicBlockRef named = LLVMAppendBasicBlockInContext(r->u->context, LLVMGetBasicBlockParent(tail), "");
    LLVMInstructionEraseFromParent(LLVMGetBasicBlockTerminator(head));
    LLVMPositionBuilderAtEnd(r->builder, head);
    LLVMValueRef id = id_of(r, index);
    LLVMBuildCondBr(r->builder, LLVMBuildIsNull(r->builder, id, ""), tail, named);
    LLVMPositionBuilderAtEnd(r->builder, named);
    LLVMPositionBuilderBefore(r->builder, LLVMBuildBr(r->builder, tail));
    return id;
}

static void at_entry(struct mt_host_recorder *r, LLVMValueRef f, unsigned index)
{
    LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(f));
    while (LLVMIsAAllocaInst(first)) /* slots stay in the entry block */
        first = LLVMGetNextInstruction(first);
    LLVMValueRef args[5] = {when_named(r, index, first)};
    args[1] = stack_pointer(r);
    unsigned n = 0, i = 0;
    for (LLVMValueRef p = LLVMGetFirstParam(f); p && n < 3; p = LLVMGetNextParam(p), i++) {
        LLVMValueRef v = mt_shim_byval_type(f, i) ? NULL : host_function_plain(r, p);
        if (v)
            args[2 + n++] = v;
    }
    while (n < 3)
        args[2 + n++] = LLVMConstInt(r->i64, 0, 0);
    mt_host_call(r, "__mt_host_enter", args, 5);
}

static void at_return(struct mt_host_recorder *r, LLVMValueRef ret, unsigned index)
{
    LLVMValueRef before = ret, last = LLVMGetPreviousInstruction(ret);
    LLVMValueRef value = LLVMGetNumOperands(ret) ? LLVMGetOperand(ret, 0) : NULL;
    if (last && LLVMIsACallInst(last) && LLVMGetTailCallKind(last) == LLVMTailCallKindMustTail) {
        before = last; /* nothing may come between: its value is not known yet */
        value = NULL;
    }
    LLVMValueRef args[3] = {when_named(r, index, before)};
    args[1] = stack_pointer(r);
    args[2] = value ? host_function_plain(r, value) : NULL;
    if (!args[2])
        args[2] = LLVMConstInt(r->i64, 0, 0);
    mt_host_call(r, "__mt_host_leave", args, 3);
}

/* Reports that an exception or longjmp has passed functions that did not return. */
static void at_landing(struct mt_host_recorder *r, LLVMValueRef pad)
{
    LLVMPositionBuilderBefore(r->builder, LLVMGetNextInstruction(pad));
    LLVMValueRef sp = stack_pointer(r);
    mt_host_call(r, "__mt_host_unwound", &sp, 1);
}

static unsigned host_table_function(struct mt_host_table *t, LLVMValueRef function);

/* Handles entry and returns of functions, locations of allocations, calls of the
 * annotation library. */
static void host_hook_function(struct mt_host_recorder *r, LLVMValueRef f)
{
    if (strstr(mt_name(f), ".cold"))
        return; /* a part that was moved out of its function */
    unsigned n, index = host_table_function(r->table, f);
    LLVMMetadataRef scope = LLVMGetSubprogram(f);
    LLVMValueRef *list = mt_instructions(f, &n);
    LLVMMetadataRef place =
        scope
            ? LLVMDIBuilderCreateDebugLocation(r->u->context, LLVMDISubprogramGetLine(scope), 0, scope, NULL)
            : NULL;
    LLVMSetCurrentDebugLocation2(r->builder, place);
    for (unsigned i = 0; list && i < n; i++)
        if (LLVMIsAReturnInst(list[i]))
            at_return(r, list[i], index);
        else if (LLVMIsALandingPadInst(list[i]) ||
                 (LLVMIsACallInst(list[i]) && strstr(mt_name(mt_callee(list[i])), "setjmp")))
            at_landing(r, list[i]);
    at_entry(r, f, index);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
    free(list);
}

/* Finds calls of the annotation library, whose functions do nothing: their calls count, wherever the
 * library is. */
static unsigned host_function_annotation(LLVMValueRef callee)
{
    static const char *const names[][3] = {
        {"atomic_trace::register_thread", "mt_register_thread", "atomic_trace_register_thread"},
        {"atomic_trace::start_roi", "mt_start_roi", "atomic_trace_start_roi"},
        {"atomic_trace::end_roi", "mt_end_roi", "atomic_trace_end_roi"},
    };
    char *name = callee && LLVMIsDeclaration(callee) ? mt_shim_demangle(mt_name(callee), 0) : NULL;
    unsigned found = 0;
    for (unsigned i = 0; name && i < 9; i++)
        if (!strcmp(name, names[i / 3][i % 3]))
            found = i / 3 + 1; /* MT_CORE_FN_* */
    free(name);
    return found;
}

/* Returns the callee's stack pointer: after its return address. */
static LLVMValueRef callee_stack_pointer(struct mt_host_recorder *r)
{
    LLVMTypeRef type = LLVMFunctionType(r->ptr, NULL, 0, 0);
    LLVMValueRef f = mt_declare(r->u->module, "llvm.stacksave.p0", type);
    LLVMValueRef now =
        LLVMBuildPtrToInt(r->builder, LLVMBuildCall2(r->builder, type, f, NULL, 0, ""), r->i64, "");
    return LLVMBuildSub(r->builder, now, LLVMConstInt(r->i64, 8, 0), "");
}

/* Returns the first instruction after a call; NULL after an invoke whose continuation has other
 * predecessors. */
static LLVMValueRef host_function_behind(LLVMValueRef call)
{
    if (LLVMIsACallInst(call))
        return LLVMGetNextInstruction(call);
    LLVMBasicBlockRef next = LLVMGetNormalDest(call);
    LLVMUseRef use = LLVMGetFirstUse(LLVMBasicBlockAsValue(next));
    LLVMValueRef first = LLVMGetFirstInstruction(next);
    return use && !LLVMGetNextUse(use) && !LLVMIsAPHINode(first) ? first : NULL;
}

static LLVMValueRef by_caller(struct mt_host_recorder *r, LLVMValueRef id)
{
    return LLVMBuildOr(r->builder, id, LLVMConstInt(r->i32, MT_HOST_CALLER, 0), "");
}

/* Reports special_malloc and special_free at their callers: the library itself is seldom compiled with our
 * pass. */
static void mark_special(struct mt_host_recorder *r, LLVMValueRef call)
{
    LLVMValueRef callee = mt_callee(call), zero = LLVMConstInt(r->i64, 0, 0),
                 after = host_function_behind(call);
    if (!LLVMIsDeclaration(callee))
        return;
    unsigned index = host_table_function(r->table, callee);
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(call));
    if (after) {
        LLVMValueRef left[3] = {when_named(r, index, after)};
        left[0] = by_caller(r, left[0]);
        left[1] = callee_stack_pointer(r);
        left[2] = host_function_plain(r, call);
        if (!left[2])
            left[2] = zero;
        mt_host_call(r, "__mt_host_leave", left, 3);
    }
    LLVMValueRef entered[5] = {when_named(r, index, call), NULL, NULL, zero, zero};
    entered[0] = by_caller(r, entered[0]);
    entered[1] = callee_stack_pointer(r);
    entered[2] = host_function_plain(r, LLVMGetOperand(call, 0));
    mt_host_call(r, "__mt_host_enter", entered, 5);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}

static void host_mark_annotation(struct mt_host_recorder *r, LLVMValueRef call)
{
    LLVMValueRef callee = mt_callee(call), args[2];
    const char *name = mt_name(callee);
    if (!strcmp(name, "_ZN12atomic_trace14special_mallocEm") ||
        !strcmp(name, "_ZN12atomic_trace12special_freeEPv")) {
        mark_special(r, call);
        return;
    }
    if (!strstr(name, "register_thread") && !strstr(name, "_roi"))
        return;
    unsigned function = host_function_annotation(callee);
    if (!function)
        return;
    LLVMPositionBuilderBefore(r->builder, call);
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(call));
    args[0] = LLVMConstInt(r->i32, function, 0);
    args[1] = LLVMGetNumArgOperands(call) ? host_function_plain(r, LLVMGetOperand(call, 0)) : NULL;
    if (!args[1])
        args[1] = LLVMConstInt(r->i64, 0, 0);
    mt_host_call(r, "__mt_host_annotation", args, 2);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}

static void host_mark_allocation(struct mt_host_recorder *r, LLVMValueRef call)
{
    struct mt_unit *u = r->u;
    struct mt_source_location place;
    mt_shim_location(call, &place);
    if (!place.line)
        return;
    char *function = mt_shim_demangle(place.function, 0), *into = mt_shim_inlined_into(call), *both = NULL;
    if (function && into && asprintf(&both, "%s%s", function, into) < 0)
        both = NULL;
    LLVMValueRef field[] = {mt_private_text(u->module, place.file, ""),
                            mt_private_text(u->module, both ? both : "", ""),
                            LLVMConstInt(r->i32, place.line, 0), LLVMConstInt(r->i32, place.column, 0)};
    free(function);
    free(into);
    free(both);
    _Static_assert(sizeof(struct mt_host_alloc_location) == 24, "as written here");
    LLVMValueRef g = mt_private_constant(u->module, LLVMConstStructInContext(u->context, field, 4, 0),
                                         "memtrace.host.place");
    LLVMValueRef slot = LLVMGetNamedGlobal(u->module, "__mt_host_place");
    if (!slot) {
        slot = LLVMAddGlobal(u->module, r->ptr, "__mt_host_place");
        LLVMSetThreadLocalMode(slot, LLVMInitialExecTLSModel);
    }
    LLVMPositionBuilderBefore(r->builder, call);
    LLVMSetCurrentDebugLocation2(r->builder, LLVMInstructionGetDebugLoc(call));
    LLVMSetAlignment(LLVMBuildStore(r->builder, g, slot), 8);
    LLVMSetCurrentDebugLocation2(r->builder, NULL);
}

/* Tables of an instrumented host module (format/host_module.h): collected while the code is changed,
 * written at the end with the constructor that registers them. */

/* Returns the string's offset in the blob, which has each string once. */
static uint32_t host_table_intern(struct mt_host_table *t, const char *s)
{
    size_t n = strlen(s) + 1, here = t->nstrings;
    uint64_t at, key = mt_hash_text(s);
    if (!s[0])
        return 0;
    for (; (at = mt_hash_find(&t->offsets, key)); key++)
        if (!strcmp(t->strings + at, s))
            return (uint32_t)at;
    if (here + n > UINT32_MAX || mt_grow(&t->strings, &t->strings_cap, here + n, 1) ||
        mt_hash_put(&t->offsets, key, here)) {
        t->failed = 1;
        return 0;
    }
    memcpy(t->strings + here, s, n);
    t->nstrings += n;
    return (uint32_t)here;
}

static LLVMValueRef add_global(struct mt_unit *u, LLVMTypeRef type, const char *name)
{
    LLVMValueRef g = LLVMAddGlobal(u->module, type, name);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    return g;
}

static void host_table_init(struct mt_host_table *t, struct mt_unit *u)
{
    memset(t, 0, sizeof *t);
    t->u = u;
    t->strings = calloc(1, 1); /* offset 0: "" */
    t->nstrings = t->strings_cap = t->strings ? 1 : 0;
    t->failed = !t->strings;
    t->base = add_global(u, mt_type_int(u, 32), "memtrace.host.base");
    LLVMSetInitializer(t->base, LLVMConstNull(mt_type_int(u, 32)));
    LLVMSetAlignment(t->base, 4);
    t->ids = add_global(u, LLVMArrayType2(mt_type_int(u, 32), 0), "memtrace.host.ids");
}

static void host_table_free(struct mt_host_table *t)
{
    free(t->rows);
    free(t->strings);
    mt_hash_free(&t->offsets);
    free(t->functions);
}

/* Adds an instruction with up to 4 operands. Returns its number, or 0 without memory. */
static uint32_t host_table_instruction(struct mt_host_table *t)
{
    return ++t->instructions * 4;
}

/* Returns 1 if threads may synchronise by it. */
static int host_table_strong(LLVMValueRef inst, enum mt_host_op op)
{
    if (LLVMIsALoadInst(inst) || LLVMIsAStoreInst(inst))
        return LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic;
    return LLVMIsAAtomicRMWInst(inst) || LLVMIsAAtomicCmpXchgInst(inst) ||
           (LLVMIsACallInst(inst) && op == MT_HOST_ATOMIC) ||
           (LLVMIsAInvokeInst(inst) && op == MT_HOST_ATOMIC);
}

static void host_table_row(struct mt_host_table *t, LLVMValueRef inst, uint32_t site, enum mt_host_op op,
                           uint64_t size, LLVMValueRef pointer)
{
    struct mt_source_location place;
    if (mt_grow(&t->rows, &t->rows_cap, t->nrows + 1, sizeof *t->rows)) {
        t->failed = 1;
        return;
    }
    mt_shim_location(inst, &place);
    if (!place.line)
        mt_shim_function_place(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst)), &place);
    const char *home = mt_name(LLVMGetBasicBlockParent(LLVMGetInstructionParent(inst)));
    char *function = mt_shim_demangle(*place.function ? place.function : home, 0);
    char *variable = pointer ? mt_host_variable(pointer) : NULL;
    t->rows[t->nrows++] = (struct mt_host_row){.site = site,
                                               .op = op | (host_table_strong(inst, op) ? MT_HOST_STRONG : 0),
                                               .size = size > UINT32_MAX ? 0 : (uint32_t)size,
                                               .line = place.line,
                                               .column = place.column,
                                               .file = host_table_intern(t, place.file),
                                               .function = host_table_intern(t, function ? function : ""),
                                               .variable = host_table_intern(t, variable ? variable : "")};
    free(function);
    free(variable);
}

/* Returns the index of the function's id, and adds its name. */
static unsigned host_table_function(struct mt_host_table *t, LLVMValueRef function)
{
    if (mt_grow(&t->functions, &t->functions_cap, t->nfunctions + 1, sizeof *t->functions)) {
        t->failed = 1;
        return 0;
    }
    char *name = mt_shim_demangle(mt_name(function), 0);
    t->functions[t->nfunctions] = host_table_intern(t, name ? name : "");
    free(name);
    return t->nfunctions++;
}

static LLVMValueRef constant_data(struct mt_unit *u, LLVMValueRef value, const char *name)
{
    LLVMValueRef g = add_global(u, LLVMTypeOf(value), name);
    LLVMSetInitializer(g, value);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetAlignment(g, 8);
    return g;
}

static LLVMValueRef host_table_words(struct mt_unit *u, const uint32_t *data, size_t n, const char *name)
{
    LLVMTypeRef i32 = mt_type_int(u, 32);
    LLVMValueRef *list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = LLVMConstInt(i32, data[i], 0);
    LLVMValueRef value = LLVMConstArray2(i32, list, list ? n : 0);
    free(list);
    return constant_data(u, value, name);
}

/* Returns struct mt_host_module as a constant. */
static LLVMValueRef module_record(struct mt_host_table *t)
{
    struct mt_unit *u = t->u;
    LLVMTypeRef i32 = mt_type_int(u, 32);
    _Static_assert(sizeof(struct mt_host_row) == 8 * sizeof(uint32_t) && sizeof(struct mt_host_module) == 64,
                   "as written here");
    LLVMValueRef ids = add_global(u, LLVMArrayType2(i32, t->nfunctions), "memtrace.host.ids");
    LLVMSetInitializer(ids, LLVMConstNull(LLVMArrayType2(i32, t->nfunctions)));
    LLVMReplaceAllUsesWith(t->ids, ids);
    LLVMDeleteGlobal(t->ids);
    t->ids = ids;
    uint32_t flags = u->options->host == MT_HOST_TRACE_ATOMIC ? MT_HOST_MODULE_ATOMIC : 0;
    LLVMValueRef field[] = {
        LLVMConstInt(i32, MT_HOST_ABI, 0),
        LLVMConstInt(i32, flags, 0),
        LLVMConstInt(i32, t->instructions + 1, 0), /* numbers begin at 1 */
        LLVMConstInt(i32, t->nrows, 0),
        LLVMConstInt(i32, t->nfunctions, 0),
        LLVMConstInt(i32, 0, 0),
        host_table_words(u, (const uint32_t *)t->rows, (size_t)t->nrows * 8, "memtrace.host.rows"),
        constant_data(u, LLVMConstStringInContext2(u->context, t->strings, t->nstrings, 1),
                      "memtrace.host.strings"),
        t->base,
        host_table_words(u, t->functions, t->nfunctions, "memtrace.host.names"),
        ids,
    };
    LLVMValueRef value = LLVMConstStructInContext(u->context, field, sizeof field / sizeof *field, 0);
    return constant_data(u, value, "memtrace.host.module");
}

/* Adds an entry of the first priority to llvm.global_ctors: before the module's own constructors. */
static void add_constructor(struct mt_unit *u, LLVMValueRef function)
{
    LLVMValueRef old = LLVMGetNamedGlobal(u->module, "llvm.global_ctors");
    LLVMValueRef init = old ? LLVMGetInitializer(old) : NULL;
    unsigned n = init ? (unsigned)LLVMGetNumOperands(init) : 0;
    LLVMValueRef *list = malloc((n + 1) * sizeof *list);
    if (!list)
        return;
    LLVMValueRef field[] = {LLVMConstInt(mt_type_int(u, 32), 0, 0), function, LLVMConstNull(mt_type_ptr(u))};
    LLVMValueRef entry = LLVMConstStructInContext(u->context, field, 3, 0);
    for (unsigned i = 0; i < n; i++)
        list[i] = LLVMGetOperand(init, i);
    list[n] = entry;
    LLVMValueRef value = LLVMConstArray2(LLVMTypeOf(entry), list, n + 1);
    free(list);
    if (old)
        LLVMDeleteGlobal(old);
    LLVMValueRef g = LLVMAddGlobal(u->module, LLVMTypeOf(value), "llvm.global_ctors");
    LLVMSetInitializer(g, value);
    LLVMSetLinkage(g, LLVMAppendingLinkage);
}

/* Writes the tables and the constructor. */
static void host_table_emit(struct mt_host_table *t)
{
    struct mt_unit *u = t->u;
    if (t->failed)
        mt_diag(u, NULL, MT_DIAG_ERROR, "no memory for the table of accesses");
    LLVMTypeRef none = LLVMVoidTypeInContext(u->context), ptr = mt_type_ptr(u);
    LLVMTypeRef hand_over = LLVMFunctionType(none, &ptr, 1, 0);
    LLVMValueRef module = module_record(t);
    LLVMValueRef f = LLVMAddFunction(u->module, "memtrace.host.register", LLVMFunctionType(none, NULL, 0, 0));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(u->context, f, ""));
    LLVMBuildCall2(b, hand_over, mt_declare(u->module, "__mt_host_register", hand_over), &module, 1, "");
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
    add_constructor(u, f);
}

static int has_attribute(LLVMValueRef f, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    return LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, kind) != NULL;
}

/* Returns 1 for resolvers, which run while the program is being relocated: no thread-local storage yet. */
static int is_resolver(LLVMModuleRef module, LLVMValueRef f)
{
    for (LLVMValueRef i = LLVMGetFirstGlobalIFunc(module); i; i = LLVMGetNextGlobalIFunc(i))
        if (LLVMGetGlobalIFuncResolver(i) == f)
            return 1;
    return 0;
}

/* Returns 1 for code that clang makes for CUDA to pack and register: not the user's. */
static int is_glue(const char *name)
{
    return strstr(name, "__device_stub__") || mt_starts(name, "__cuda_") || mt_starts(name, "memtrace.") ||
           mt_starts(name, "__mt_");
}

static int is_traced(struct mt_unit *u, LLVMValueRef f)
{
    if (LLVMIsDeclaration(f) || LLVMGetLinkage(f) == LLVMAvailableExternallyLinkage || is_glue(mt_name(f)) ||
        is_resolver(u->module, f) || mt_shim_from_toolchain(f))
        return 0;
    if (has_attribute(f, "naked")) {
        mt_diag(u, NULL, MT_DIAG_WARNING, "%s: a naked function's accesses have no record", mt_name(f));
        return 0;
    }
    return 1;
}

static void mark_calls(struct mt_host_recorder *r, LLVMValueRef f)
{
    unsigned n;
    LLVMValueRef *list = mt_instructions(f, &n);
    for (unsigned i = 0; list && i < n; i++) {
        if (!LLVMIsACallInst(list[i]) && !LLVMIsAInvokeInst(list[i]))
            continue;
        if (host_allocates(mt_name(mt_callee(list[i]))))
            host_mark_allocation(r, list[i]);
        host_mark_annotation(r, list[i]);
    }
    free(list);
}

static int host_trace_sanitized(LLVMValueRef f)
{
    return has_attribute(f, "sanitize_address") || has_attribute(f, "sanitize_thread") ||
           has_attribute(f, "sanitize_memory") || has_attribute(f, "sanitize_hwaddress");
}

static void trace_module(struct mt_unit *u)
{
    struct mt_host_table table;
    struct mt_host_recorder r;
    unsigned functions = 0;
    host_table_init(&table, u);
    host_recorder_init(&r, u, &table);
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        if (!is_traced(u, f))
            continue;
        if (host_trace_sanitized(f)) {
            mt_diag(u, NULL, MT_DIAG_ERROR,
                    "host tracing and a sanitizer do not go together; leave one of them out");
            break;
        }
        host_record_function(&r, f);
        mark_calls(&r, f);
        host_hook_function(&r, f);
        functions++;
    }
    host_table_emit(&table);
    if (u->options->verbose)
        fprintf(stderr, "memtrace: host: %u functions, %u accesses\n", functions, table.nrows);
    LLVMDisposeBuilder(r.builder);
    host_table_free(&table);
    mt_forget_purity(u->module);
}

int mt_pass_host_trace(LLVMModuleRef module)
{
    struct mt_unit u;
    if (mt_shim_is_nvptx(module) || !mt_pass_options.host)
        return 0;
    mt_unit_init(&u, module);
    mt_unit_read_facts(&u);
    trace_module(&u);
    mt_unit_free(&u);
    if (mt_pass_options.strip_debug)
        LLVMStripModuleDebugInfo(module);
    return 1;
}
