/* Memory accesses of an NVPTX IR instruction, with their address space. Address spaces of NVPTX: 0
 * generic, 1 global, 3 shared, 4 constant, 5 local, 101 parameter. A generic pointer is traced to its
 * base; unproven cases are tested at run time. A kernel's pointer parameters, and pointers loaded from its
 * by-value parameters, are global: the CUDA ABI says so, and LLVM's own NVPTXLowerArgs relies on it. */
#include "trace.h"
#include "ptx/asm/asm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

struct walk {
    struct mt_unit *u;
    LLVMValueRef seen[MAX_DEPTH];
    unsigned nseen;
};

static enum mt_space of_address_space(unsigned as)
{
    static const enum mt_space known[] = {MT_SPACE_GENERIC, MT_SPACE_GLOBAL, MT_SPACE_OTHER,
                                          MT_SPACE_SHARED,  MT_SPACE_OTHER,  MT_SPACE_LOCAL};
    return as < sizeof known / sizeof *known ? known[as] : MT_SPACE_OTHER;
}

/* Joins two paths: NONE (no information: undef, null, a cycle) yields to the other. */
static enum mt_space access_join(enum mt_space a, enum mt_space b)
{
    if (a == MT_SPACE_NONE)
        return b;
    if (b == MT_SPACE_NONE || a == b)
        return a;
    if (!mt_space_may_be_global(a) && !mt_space_may_be_global(b))
        return MT_SPACE_ON_CHIP;
    return MT_SPACE_GENERIC;
}

static int is_kernel_argument(struct mt_unit *u, LLVMValueRef argument, int *byval)
{
    LLVMValueRef f = LLVMGetParamParent(argument);
    unsigned i = 0;
    for (LLVMValueRef a = LLVMGetFirstParam(f); a && a != argument; a = LLVMGetNextParam(a))
        i++;
    *byval = mt_shim_byval_type(f, i) != NULL;
    return mt_unit_kernel(u, f) != NULL;
}

static enum mt_space access_walk(struct walk *w, LLVMValueRef v);

/* Handles a phi or select, one of several values. */
static enum mt_space access_walk_joined(struct walk *w, LLVMValueRef v)
{
    enum mt_space s = MT_SPACE_NONE;
    for (unsigned i = 0, n = LLVMIsAPHINode(v) ? LLVMCountIncoming(v) : 2; i < n; i++)
        s = access_join(
            s, access_walk(w, LLVMIsAPHINode(v) ? LLVMGetIncomingValue(v, i) : LLVMGetOperand(v, i + 1)));
    return s;
}

/* Handles an address as a number: an offset from an address in a known space is in the same space. */
static enum mt_space access_walk_number(struct walk *w, LLVMValueRef v)
{
    enum mt_space a, b;
    switch (mt_opcode(v)) {
    case LLVMPtrToInt:
        return access_walk(w, LLVMGetOperand(v, 0));
    case LLVMAdd:
    case LLVMOr:
        a = access_walk(w, LLVMGetOperand(v, 0));
        b = access_walk(w, LLVMGetOperand(v, 1));
        return a == MT_SPACE_GENERIC ? b : b == MT_SPACE_GENERIC ? a : access_join(a, b);
    case LLVMPHI:
    case LLVMSelect:
        return access_walk_joined(w, v);
    default:
        return LLVMIsNull(v) ? MT_SPACE_NONE : MT_SPACE_GENERIC;
    }
}

static enum mt_space access_walk(struct walk *w, LLVMValueRef v)
{
    int number = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind;
    if (!number && LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMPointerTypeKind)
        return MT_SPACE_GENERIC;
    unsigned as = number ? 0 : LLVMGetPointerAddressSpace(LLVMTypeOf(v));
    if (as)
        return of_address_space(as);
    for (unsigned i = 0; i < w->nseen; i++)
        if (w->seen[i] == v)
            return MT_SPACE_NONE;
    if (w->nseen == MAX_DEPTH)
        return MT_SPACE_GENERIC;
    w->seen[w->nseen++] = v;
    if (number)
        return access_walk_number(w, v);

    if (LLVMIsAGlobalVariable(v))
        return MT_SPACE_GLOBAL; /* generic variables (string and table constants) live in .global */
    if (LLVMIsAFunction(v))
        return MT_SPACE_OTHER;
    if (LLVMIsUndef(v) || LLVMIsNull(v) || LLVMIsPoison(v))
        return MT_SPACE_NONE;
    if (LLVMIsAArgument(v)) {
        int byval, kernel = is_kernel_argument(w->u, v, &byval);
        return byval ? MT_SPACE_OTHER : kernel ? MT_SPACE_GLOBAL : MT_SPACE_GENERIC;
    }
    switch (mt_opcode(v)) {
    case LLVMAlloca:
        return MT_SPACE_LOCAL;
    case LLVMGetElementPtr:
    case LLVMBitCast:
    case LLVMAddrSpaceCast:
    case LLVMFreeze:
    case LLVMIntToPtr:
        return access_walk(w, LLVMGetOperand(v, 0));
    case LLVMSelect:
    case LLVMPHI:
        return access_walk_joined(w, v);
    case LLVMLoad: { /* a pointer from a kernel's by-value parameter */
        LLVMValueRef base = mt_base_of(LLVMGetOperand(v, 0));
        int byval;
        if (LLVMIsAArgument(base) && is_kernel_argument(w->u, base, &byval) && byval)
            return MT_SPACE_GLOBAL;
        return MT_SPACE_GENERIC;
    }
    case LLVMCall: {
        const char *name = mt_name(mt_callee(v));
        if (!strcmp(name, "malloc"))
            return MT_SPACE_GLOBAL;
        return MT_SPACE_GENERIC;
    }
    default:
        return MT_SPACE_GENERIC;
    }
}

enum mt_space mt_space_of(struct mt_unit *u, LLVMValueRef pointer)
{
    struct walk w = {.u = u};
    enum mt_space s = access_walk(&w, pointer);
    return s == MT_SPACE_NONE ? MT_SPACE_GENERIC : s;
}

static uint32_t size_of(struct mt_unit *u, LLVMTypeRef type)
{
    return (uint32_t)LLVMStoreSizeOfType(u->layout, type);
}

static int access_one(struct mt_unit *u, struct mt_access *a, enum mt_access_type op, LLVMValueRef pointer,
                      uint32_t size)
{
    *a = (struct mt_access){.op = op, .pointer = pointer, .size = size, .space = mt_space_of(u, pointer)};
    return mt_space_is_recorded(u, a->space) && size != 0;
}

/* Returns a name for messages. Textures and surfaces have no addresses; the instructions come from the
 * toolchain's headers. */
static const char *kind_of_asm(const char *body)
{
    return strstr(body, "tex.") || strstr(body, "tld4.") ? "texture read"
           : strstr(body, "suld.")                       ? "surface read"
           : strstr(body, "sust.")                       ? "surface write"
                                                         : "inline asm";
}

static int of_asm(struct mt_unit *u, LLVMValueRef call, struct mt_access out[MT_MAX_ACCESSES],
                  const char **what)
{
    static char text[160];
    struct mt_asm_access raw[MT_MAX_ACCESSES];
    struct mt_asm_barrier barrier;
    int found = mt_asm_accesses(call, raw, MT_MAX_ACCESSES), n = 0;
    int word = u->options->spaces && mt_asm_barrier_of(call, &barrier) && barrier.word;
    if (found < 0) {
        size_t length;
        const char *body = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
        snprintf(text, sizeof text, "%s: %.120s", kind_of_asm(body), body);
        for (char *c = text; *c; c++)
            if (*c == '\n' || *c == '\t')
                *c = ' ';
        *what = text;
        return -1;
    }
    for (int i = 0; i < found; i++) {
        struct mt_access *a = &out[n];
        if (raw[i].argument < 0) { /* address computed inside the asm: no value to record */
            *what = "inline asm with an address computed inside it";
            return -1;
        }
        LLVMValueRef pointer = LLVMGetOperand(call, (unsigned)raw[i].argument);
        *a = (struct mt_access){.op = raw[i].op,
                                .pointer = pointer,
                                .offset = raw[i].offset,
                                .size = raw[i].size,
                                .space = raw[i].generic ? MT_SPACE_GENERIC : MT_SPACE_GLOBAL,
                                .global_only = word};
        if (raw[i].generic)
            a->space = mt_space_of(u, pointer);
        if (raw[i].size_argument >= 0)
            a->bytes = LLVMGetOperand(call, (unsigned)raw[i].size_argument);
        if (raw[i].predicated && raw[i].only_if < 0) {
            *what = "inline asm under a predicate of its own";
            return -1;
        }
        if (raw[i].predicated) {
            a->only_if = LLVMGetOperand(call, (unsigned)raw[i].only_if);
            a->only_if_not = raw[i].only_if_inverted;
        }
        n += word ? mt_space_may_be_global(a->space) : mt_space_is_recorded(u, a->space);
    }
    return n;
}

/* Lists the shared memory accesses of inline asm, as of_asm. */
int mt_shared_accesses_of_asm(struct mt_unit *u, LLVMValueRef call, struct mt_access out[MT_MAX_ACCESSES])
{
    struct mt_asm_access raw[MT_MAX_ACCESSES];
    int n = mt_asm_shared_accesses(call, raw, MT_MAX_ACCESSES);
    for (int i = 0; i < n; i++) {
        if (raw[i].argument < 0 || raw[i].predicated)
            return -1;
        out[i] = (struct mt_access){.op = raw[i].op,
                                    .pointer = LLVMGetOperand(call, (unsigned)raw[i].argument),
                                    .offset = raw[i].offset,
                                    .size = raw[i].size,
                                    .lanes = raw[i].lanes,
                                    .space = MT_SPACE_SHARED};
        if (raw[i].size_argument >= 0)
            out[i].bytes = LLVMGetOperand(call, (unsigned)raw[i].size_argument);
    }
    return n;
}

int mt_access_of(struct mt_unit *u, LLVMValueRef inst, struct mt_access out[MT_MAX_ACCESSES],
                 const char **what)
{
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad:
        return access_one(u, &out[0], MT_LOAD, LLVMGetOperand(inst, 0), size_of(u, LLVMTypeOf(inst)));
    case LLVMStore:
        return access_one(u, &out[0], MT_STORE, LLVMGetOperand(inst, 1),
                          size_of(u, LLVMTypeOf(LLVMGetOperand(inst, 0))));
    case LLVMAtomicRMW:
        return access_one(u, &out[0], MT_ATOMIC, LLVMGetOperand(inst, 0), size_of(u, LLVMTypeOf(inst)));
    case LLVMAtomicCmpXchg:
        return access_one(u, &out[0], MT_ATOMIC, LLVMGetOperand(inst, 0),
                          size_of(u, LLVMTypeOf(LLVMGetOperand(inst, 1))));
    case LLVMCall:
        return LLVMIsAInlineAsm(LLVMGetCalledValue(inst)) ? of_asm(u, inst, out, what) : 0;
    default:
        return 0;
    }
}
