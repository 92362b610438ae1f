/* Memory accesses of host instructions. */
#include "host.h"
#include <stdlib.h>
#include <string.h>

#define ARG(i) LLVMGetOperand(inst, i)

static const struct {
    const char *name, *ops;
    int after;
} libc[] = {
#define MT_HOST_LIBC(symbol, shape, ops, after) {#symbol, ops, after},
#include "format/host_libc.def"
};

static uint64_t size_of(struct mt_unit *u, LLVMTypeRef type)
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
    a->size = size_of(u, LLVMGetElementType(type));
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
    uint64_t a = LLVMGetTypeKind(type) == LLVMVoidTypeKind ? 0 : size_of(u, type);
    uint64_t b = LLVMGetNumArgOperands(inst) > 1 ? size_of(u, LLVMTypeOf(ARG(1))) : 0;
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

enum mt_host_kind mt_host_access_of(struct mt_unit *u, LLVMValueRef inst, struct mt_host_touch *a)
{
    memset(a, 0, sizeof *a);
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        return host_access_fixed(a, MT_HOST_LOAD, ARG(0), size_of(u, LLVMTypeOf(inst)));
    case LLVMStore:
        return host_access_fixed(a, MT_HOST_STORE, ARG(1), size_of(u, LLVMTypeOf(ARG(0))));
    case LLVMAtomicRMW:
        return host_access_fixed(a, MT_HOST_ATOMIC, ARG(0), size_of(u, LLVMTypeOf(inst)));
    case LLVMAtomicCmpXchg:
        if (host_access_fixed(a, MT_HOST_CAS, ARG(0), size_of(u, LLVMTypeOf(ARG(1)))) == MT_HOST_FIXED)
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

int mt_host_allocates(const char *callee)
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

int mt_host_leaves(LLVMValueRef inst)
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
