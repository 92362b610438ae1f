/* Lowers an inline-asm call: builds the body into new blocks, which then replace the call. */
#include "asm_lower.h"
#include "format/image.h"
#include "memtrace/grow.h"

#include <ctype.h>
#include <llvm-c/DebugInfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operands of inline assembly as LLVM values: registers are stack slots, and everything is an integer of
 * its width. */

LLVMTypeRef mt_asm_int(struct mt_asm_body *l, unsigned bits)
{
    return LLVMIntTypeInContext(l->c, bits);
}

LLVMValueRef mt_asm_const(struct mt_asm_body *l, unsigned bits, uint64_t value)
{
    return LLVMConstInt(mt_asm_int(l, bits), value, 0);
}

LLVMValueRef mt_asm_slot(struct mt_asm_body *l, LLVMTypeRef type, const char *name)
{
    if (mt_grow(&l->allocas, &l->allocas_cap, l->nallocas + 1, sizeof *l->allocas)) {
        mt_asm_fail(l, "out of memory");
        return NULL;
    }
    LLVMBuilderRef b = LLVMCreateBuilderInContext(l->c);
    LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(l->function)));
    LLVMValueRef slot = LLVMBuildAlloca(b, type, name);
    LLVMDisposeBuilder(b);
    return l->allocas[l->nallocas++] = slot;
}

LLVMValueRef mt_asm_bits_of(struct mt_asm_body *l, LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    switch (LLVMGetTypeKind(type)) {
    case LLVMIntegerTypeKind:
        return value;
    case LLVMPointerTypeKind:
        if (LLVMGetPointerAddressSpace(type)) /* NVPTX: 64-bit pointers in every space */
            value = LLVMBuildAddrSpaceCast(l->b, value, l->ptr, "");
        return LLVMBuildPtrToInt(l->b, value, l->i64, "");
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind:
    case LLVMFloatTypeKind:
    case LLVMDoubleTypeKind:
    case LLVMVectorTypeKind:
        return LLVMBuildBitCast(l->b, value, mt_asm_int(l, (unsigned)LLVMSizeOfTypeInBits(l->layout, type)),
                                "");
    default:
        mt_asm_fail(l, "operand type not supported");
        return NULL;
    }
}

LLVMValueRef mt_asm_float_of(struct mt_asm_body *l, LLVMValueRef bits)
{
    unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(bits));
    LLVMTypeRef type = width == 64   ? LLVMDoubleTypeInContext(l->c)
                       : width == 32 ? LLVMFloatTypeInContext(l->c)
                                     : LLVMHalfTypeInContext(l->c);
    return LLVMBuildBitCast(l->b, bits, type, "");
}

static LLVMValueRef asm_value_resize(struct mt_asm_body *l, LLVMValueRef v, unsigned bits, int is_signed)
{
    return LLVMBuildIntCast2(l->b, v, mt_asm_int(l, bits), is_signed, "");
}

static LLVMValueRef asm_lower_slot_of(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned *bits)
{
    if (o->kind == MT_ASM_REG && l->a->regs[o->index].type != 'm') {
        LLVMValueRef *slot = &l->regs[o->index];
        *bits = l->a->regs[o->index].bits;
        return *slot ? *slot : (*slot = mt_asm_slot(l, mt_asm_int(l, *bits), ""));
    }
    if (o->kind == MT_ASM_ARG && o->index < l->ties->noutputs) {
        *bits = l->output_bits[o->index];
        return l->outputs[o->index];
    }
    return NULL;
}

unsigned mt_asm_width(struct mt_asm_body *l, const struct mt_asm_operand *o)
{
    unsigned bits;
    if (asm_lower_slot_of(l, o, &bits))
        return bits;
    if (o->kind != MT_ASM_ARG || o->index >= l->ties->noperands)
        return 0;
    LLVMValueRef v = LLVMGetOperand(l->call, (unsigned)l->ties->operands[o->index].argument);
    return (unsigned)LLVMSizeOfTypeInBits(l->layout, LLVMTypeOf(v));
}

static LLVMValueRef read_plain(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits)
{
    unsigned have;
    LLVMValueRef slot = asm_lower_slot_of(l, o, &have), v;
    if (slot)
        return LLVMBuildLoad2(l->b, mt_asm_int(l, have), slot, "");
    if (l->symbol && (o->kind == MT_ASM_REG || o->kind == MT_ASM_SREG || o->kind == MT_ASM_NAME) &&
        (v = l->symbol(l, o)))
        return v;
    switch (o->kind) {
    case MT_ASM_ARG:
        if (o->index >= l->ties->noperands)
            break;
        v = LLVMGetOperand(l->call, (unsigned)l->ties->operands[o->index].argument);
        return mt_asm_bits_of(l, v);
    case MT_ASM_INT:
        if (bits <= 64)
            return mt_asm_const(l, bits, o->bits);
        return LLVMConstInt(mt_asm_int(l, bits), o->bits, 1);
    case MT_ASM_F32:
        return mt_asm_const(l, 32, o->bits);
    case MT_ASM_F64:
        return mt_asm_const(l, 64, o->bits);
    case MT_ASM_SREG:
        return mt_asm_special(l, o->name);
    case MT_ASM_NAME:
        if (!strcmp(o->name, "WARP_SZ"))
            return mt_asm_const(l, bits, 32);
        mt_asm_fail(l, "%s: name '%.60s' is not known", l->s->opcode, o->name);
        return NULL;
    default:
        break;
    }
    mt_asm_fail(l, "%s: operand not understood", l->s->opcode);
    return NULL;
}

/* Packs {a, b}: the first element in the low bits. */
static LLVMValueRef asm_value_pack(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits)
{
    if (!o->nitems || bits % o->nitems) {
        mt_asm_fail(l, "%s: vector does not fit", l->s->opcode);
        return NULL;
    }
    unsigned part = bits / o->nitems;
    LLVMValueRef whole = mt_asm_const(l, bits, 0);
    for (unsigned i = 0; i < o->nitems; i++) {
        LLVMValueRef v = mt_asm_in(l, &o->items[i], part);
        if (!v)
            return NULL;
        v = LLVMBuildShl(l->b, asm_value_resize(l, v, bits, 0), mt_asm_const(l, bits, i * part), "");
        whole = LLVMBuildOr(l->b, whole, v, "");
    }
    return whole;
}

LLVMValueRef mt_asm_in(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits)
{
    if (*o->part) {
        mt_asm_fail(l, "%s of a part of a register", l->s->opcode);
        return NULL;
    }
    LLVMValueRef v = o->kind == MT_ASM_VECTOR ? asm_value_pack(l, o, bits) : read_plain(l, o, bits);
    if (!v)
        return NULL;
    v = asm_value_resize(l, v, bits, 0);
    if (o->inverted)
        v = bits == 1 ? LLVMBuildNot(l->b, v, "") : LLVMBuildNeg(l->b, v, "");
    return v;
}

LLVMValueRef mt_asm_in_float(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits)
{
    if (o->kind == MT_ASM_F64 && bits == 32) { /* decimal literals are doubles */
        double d;
        memcpy(&d, &o->bits, sizeof d);
        return LLVMConstReal(LLVMFloatTypeInContext(l->c), d);
    }
    LLVMValueRef v = mt_asm_in(l, o, bits);
    return v ? mt_asm_float_of(l, v) : NULL;
}

static int asm_value_unpack(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef value)
{
    unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(value));
    if (!o->nitems || bits % o->nitems)
        return mt_asm_fail(l, "%s: vector does not fit", l->s->opcode);
    unsigned part = bits / o->nitems;
    for (unsigned i = 0; i < o->nitems; i++) {
        LLVMValueRef v = LLVMBuildLShr(l->b, value, mt_asm_const(l, bits, i * part), "");
        if (mt_asm_out(l, &o->items[i], asm_value_resize(l, v, part, 0), 0))
            return -1;
    }
    return 0;
}

int mt_asm_out(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef value, int is_signed)
{
    unsigned bits;
    if (o->kind == MT_ASM_SINK)
        return 0;
    if (o->kind == MT_ASM_VECTOR)
        return asm_value_unpack(l, o, value);
    LLVMValueRef slot = *o->part ? NULL : asm_lower_slot_of(l, o, &bits);
    if (!slot)
        return mt_asm_fail(l, "%s: destination not understood", l->s->opcode);
    value = asm_value_resize(l, value, bits, is_signed);
    if (l->guard) {
        LLVMValueRef old = LLVMBuildLoad2(l->b, mt_asm_int(l, bits), slot, "");
        value = LLVMBuildSelect(l->b, l->guard, value, old, "");
    }
    LLVMBuildStore(l->b, value, slot);
    return 0;
}

LLVMValueRef mt_asm_intrinsic(struct mt_asm_body *l, const char *name, LLVMTypeRef overload,
                              LLVMValueRef *args, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, &overload, overload != NULL);
    return LLVMBuildCall2(l->b, LLVMIntrinsicGetType(l->c, id, &overload, overload != NULL), f, args, n, "");
}

/* ---- addresses ---------------------------------------------------------------------------------- */

/* Completes a shared address, of which only 32 bits count. They are the low half of the full pointer, into
 * the CTA's own memory or its cluster's, or an offset from the CTA's shared base (made by PTX only); the
 * former if they are near the base's low half. A full pointer elsewhere is wrong, and stays unchanged. */
LLVMValueRef mt_asm_shared_address(struct mt_asm_body *l, LLVMValueRef address)
{
    unsigned width = LLVMGetIntTypeWidth(LLVMTypeOf(address));
    LLVMValueRef base = mt_asm_call_by_name(l, "mtb_shared_base", l->ptr, NULL, 0);
    if (!base)
        return NULL;
    base = LLVMBuildPtrToInt(l->b, base, l->i64, "");
    LLVMValueRef low = asm_value_resize(l, address, 32, 0);
    LLVMValueRef delta = LLVMBuildSub(l->b, low, asm_value_resize(l, base, 32, 0), "");
    LLVMValueRef moved = LLVMBuildAdd(l->b, delta, mt_asm_const(l, 32, MT_SHARED_WINDOW), "");
    LLVMValueRef cut = LLVMBuildICmp(l->b, LLVMIntULT, moved, mt_asm_const(l, 32, 2 * MT_SHARED_WINDOW), "");
    LLVMValueRef near = LLVMBuildAdd(l->b, base, asm_value_resize(l, delta, 64, 1), "");
    LLVMValueRef other = LLVMBuildAdd(l->b, base, asm_value_resize(l, low, 64, 0), "");
    if (width > 32) {
        LLVMValueRef small = LLVMBuildICmp(l->b, LLVMIntULT, address, mt_asm_const(l, width, 1ull << 32), "");
        other = LLVMBuildSelect(l->b, small, other, address, "");
    }
    return LLVMBuildSelect(l->b, cut, near, other, "");
}

LLVMValueRef mt_asm_address(struct mt_asm_body *l, const struct mt_asm_operand *o, int shared)
{
    if (o->kind != MT_ASM_MEMORY || o->nitems != 1) {
        mt_asm_fail(l, "%s: address form not supported", l->s->opcode);
        return NULL;
    }
    unsigned width = mt_asm_width(l, &o->items[0]);
    width = width == 32 && shared ? 32 : 64;
    LLVMValueRef v = mt_asm_in(l, &o->items[0], width);
    if (v && o->second) {
        LLVMValueRef more = mt_asm_in(l, o->second, width);
        v = more ? LLVMBuildAdd(l->b, v, more, "") : NULL;
    }
    if (!v)
        return NULL;
    if (o->offset)
        v = LLVMBuildAdd(l->b, v, mt_asm_const(l, width, (uint64_t)o->offset), "");
    if (shared)
        v = mt_asm_shared_address(l, v);
    return v ? LLVMBuildIntToPtr(l->b, v, l->ptr, "") : NULL;
}

/* Calls made for inline assembly: builtins by name, special registers, and functions of the CPU device. */

static LLVMValueRef asm_call_lookup(struct mt_asm_body *l, const char *name, LLVMTypeRef *type)
{
    return l->builtins->lookup ? l->builtins->lookup(l->builtins->ctx, name, type) : NULL;
}

/* Converts an integer to the type that a callee needs; NULL if impossible. */
static LLVMValueRef asm_call_fit(struct mt_asm_body *l, LLVMValueRef v, LLVMTypeRef want)
{
    LLVMTypeKind kind = LLVMGetTypeKind(want);
    v = mt_asm_bits_of(l, v);
    if (!v)
        return NULL;
    if (kind == LLVMPointerTypeKind) {
        v = LLVMBuildIntCast2(l->b, v, l->i64, 0, "");
        return LLVMBuildIntToPtr(l->b, v, want, "");
    }
    if (kind == LLVMIntegerTypeKind)
        return LLVMBuildIntCast2(l->b, v, want, 0, "");
    unsigned bits = (unsigned)LLVMSizeOfTypeInBits(l->layout, want);
    v = LLVMBuildIntCast2(l->b, v, mt_asm_int(l, bits), 0, "");
    return LLVMBuildBitCast(l->b, v, want, "");
}

LLVMValueRef mt_asm_call_by_name(struct mt_asm_body *l, const char *name, LLVMTypeRef result,
                                 LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef type, types[8], params[8];
    LLVMValueRef fitted[8], f = asm_call_lookup(l, name, &type);
    if (n > 8)
        return NULL;
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    if (!f && (f = LLVMGetNamedFunction(l->m, name)))
        type = LLVMGlobalGetValueType(f);
    if (!f) {
        type = LLVMFunctionType(result, types, n, 0);
        f = LLVMAddFunction(l->m, name, type);
    }
    if (LLVMCountParamTypes(type) != n) {
        mt_asm_fail(l, "%s has %u parameters, not %u", name, LLVMCountParamTypes(type), n);
        return NULL;
    }
    LLVMGetParamTypes(type, params);
    for (unsigned i = 0; i < n; i++)
        if (!(fitted[i] = asm_call_fit(l, args[i], params[i])))
            return NULL;
    return LLVMBuildCall2(l->b, type, f, fitted, n, "");
}

LLVMValueRef mt_asm_special(struct mt_asm_body *l, const char *name)
{
    static const char *const prefixes[] = {"mtb_ptx_sreg_", "mtb_nvvm_read_ptx_sreg_"};
    for (unsigned i = 0; i < 2; i++) {
        char full[160];
        LLVMTypeRef type;
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        for (char *c = full; *c; c++)
            if (*c == '.')
                *c = '_';
        LLVMValueRef f = asm_call_lookup(l, full, &type);
        if (f && !LLVMCountParamTypes(type))
            return mt_asm_bits_of(l, LLVMBuildCall2(l->b, type, f, NULL, 0, ""));
    }
    mt_asm_fail(l, "special register %%%.60s", name);
    return NULL;
}

int mt_asm_is_shared(const struct mt_asm_statement *s)
{
    for (unsigned i = 1; i < s->nparts; i++)
        if (!strncmp(s->parts[i], "shared", 6))
            return 1;
    return mt_asm_is(s, MT_ASM_SHARED);
}

/* ---- builtins for the whole statement ----------------------------------------------------------- */

static int asm_call_is_optional(const char *part)
{
    return !strcmp(part, "sync") || !strcmp(part, "aligned") || !strncmp(part, "L1::", 4) ||
           !strncmp(part, "L2::", 4);
}

static LLVMValueRef asm_call_find(struct mt_asm_body *l, int short_form, LLVMTypeRef *type)
{
    char name[400] = "mtb_ptx";
    size_t n = strlen(name);
    for (unsigned i = 0; i < l->s->nparts; i++) {
        if (short_form && i && asm_call_is_optional(l->s->parts[i]))
            continue;
        int more = snprintf(name + n, sizeof name - n, "_%s", l->s->parts[i]);
        if (more < 0 || (size_t)more >= sizeof name - n)
            return NULL;
        n += (size_t)more;
    }
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    return asm_call_lookup(l, name, type);
}

LLVMValueRef mt_asm_find_builtin(struct mt_asm_body *l, LLVMTypeRef *type)
{
    LLVMValueRef f = asm_call_find(l, 0, type);
    return f ? f : asm_call_find(l, 1, type);
}

int mt_asm_has_destination(const struct mt_asm_statement *s)
{
    if (!s->noperands || s->operands[0].kind == MT_ASM_MEMORY)
        return 0;
    if (mt_asm_has(s, "red") && (!strcmp(s->parts[0], "bar") || !strcmp(s->parts[0], "barrier")))
        return 1;
    return !mt_asm_is(s, MT_ASM_NO_RESULT);
}

#define MAX_ARGS 80
struct args {
    LLVMTypeRef params[MAX_ARGS];
    LLVMValueRef values[MAX_ARGS];
    unsigned n, want;
};

/* Returns 1 for a shared address; in copies between both memories a 64-bit address may be global. */
static int asm_call_is_shared(struct mt_asm_body *l, const struct mt_asm_operand *o)
{
    int wide = o->nitems && mt_asm_width(l, &o->items[0]) == 64;
    return mt_asm_is_shared(l->s) && !(wide && mt_asm_has(l->s, "global"));
}

static int asm_call_add(struct mt_asm_body *l, struct args *args, const struct mt_asm_operand *o)
{
    if (o->kind == MT_ASM_VECTOR) {
        for (unsigned i = 0; i < o->nitems; i++)
            if (asm_call_add(l, args, &o->items[i]))
                return -1;
        return 0;
    }
    if (args->n >= args->want)
        return mt_asm_fail(l, "%s: more operands than its builtin takes", l->s->opcode);
    LLVMTypeRef want = args->params[args->n];
    unsigned bits = (unsigned)LLVMSizeOfTypeInBits(l->layout, want);
    LLVMValueRef v;
    if (o->kind == MT_ASM_MEMORY) {
        struct mt_asm_operand plain = *o;
        plain.nitems = o->nitems ? 1 : 0;
        if (bits == 64)
            v = mt_asm_address(l, &plain, asm_call_is_shared(l, o));
        else
            v = o->nitems ? mt_asm_in(l, &o->items[0], bits) : NULL;
    } else if (LLVMGetTypeKind(want) == LLVMFloatTypeKind) {
        v = mt_asm_in_float(l, o, 32);
    } else {
        v = mt_asm_in(l, o, bits);
    }
    if (v)
        v = asm_call_fit(l, v, want);
    if (!v)
        return mt_asm_fail(l, "%s: operand not understood", l->s->opcode);
    args->values[args->n++] = v;
    if (o->kind == MT_ASM_MEMORY)
        for (unsigned i = 1; i < o->nitems; i++)
            if (asm_call_add(l, args, &o->items[i]))
                return -1;
    return 0;
}

/* Reads several results, written by a void builtin to out[0…]. */
static int asm_call_take(struct mt_asm_body *l, LLVMValueRef slots, const struct mt_asm_operand *d)
{
    unsigned n = d->kind == MT_ASM_VECTOR ? d->nitems : 1;
    for (unsigned i = 0; i < n + (d->second != NULL); i++) {
        const struct mt_asm_operand *to = i == n ? d->second : d->kind == MT_ASM_VECTOR ? &d->items[i] : d;
        LLVMValueRef index = mt_asm_const(l, 64, i);
        LLVMValueRef p = LLVMBuildGEP2(l->b, l->i64, slots, &index, 1, "");
        if (mt_asm_out(l, to, LLVMBuildLoad2(l->b, l->i64, p, ""), 0))
            return -1;
    }
    return 0;
}

int mt_asm_call_builtin(struct mt_asm_body *l, LLVMValueRef function, LLVMTypeRef type)
{
    const struct mt_asm_statement *s = l->s;
    struct args args = {.want = LLVMCountParamTypes(type)};
    int dest = mt_asm_has_destination(s), several = 0;
    LLVMValueRef slots = NULL;
    const struct mt_asm_operand *d = NULL;
    if (args.want > MAX_ARGS)
        return mt_asm_fail(l, "%s: too many operands", s->opcode);
    LLVMGetParamTypes(type, args.params);
    if (dest) {
        d = &s->operands[0];
        several = d->second || (d->kind == MT_ASM_VECTOR && d->nitems != 1);
    }
    for (unsigned i = (unsigned)dest; i < s->noperands; i++)
        if (asm_call_add(l, &args, &s->operands[i]))
            return -1;
    if (!strcmp(s->parts[0], "mbarrier") && mt_asm_has(s, "b64") && args.n + 1 == args.want && !several &&
        s->nparts > 1 && !strncmp(s->parts[1], "arrive", 6))
        args.values[args.n++] = mt_asm_const(l, 32, 1); /* the count is optional */
    if (several) {
        unsigned n = (d->kind == MT_ASM_VECTOR ? d->nitems : 1) + (d->second != NULL);
        slots = mt_asm_slot(l, LLVMArrayType2(l->i64, n), "");
        if (!slots)
            return -1;
        if (args.n < args.want)
            args.values[args.n] = slots;
        args.n++;
    }
    if (args.n != args.want)
        return mt_asm_fail(l, "%s: its builtin takes %u operands, not %u", s->opcode, args.want, args.n);
    LLVMValueRef result = LLVMBuildCall2(l->b, type, function, args.values, args.n, "");
    if (several)
        return asm_call_take(l, slots, d);
    if (!dest)
        return 0;
    if (LLVMGetTypeKind(LLVMTypeOf(result)) == LLVMVoidTypeKind)
        return mt_asm_fail(l, "%s: its builtin gives no result", s->opcode);
    struct mt_asm_type t = {0};
    for (unsigned i = 1; i < s->nparts && !mt_asm_type(s->parts[i], &t); i++)
        ;
    result = mt_asm_bits_of(l, result);
    return result ? mt_asm_out(l, d->kind == MT_ASM_VECTOR ? &d->items[0] : d, result, t.kind == 's') : -1;
}

int mt_asm_fail(struct mt_asm_body *l, const char *format, ...)
{
    va_list list;
    if (l->error->message[0])
        return -1; /* the first error counts */
    va_start(list, format);
    vsnprintf(l->error->message, sizeof l->error->message, format, list);
    va_end(list);
    l->error->offset = l->s ? l->s->offset : 0;
    return -1;
}

LLVMBasicBlockRef mt_asm_block(struct mt_asm_body *l)
{
    return LLVMAppendBasicBlockInContext(l->c, l->function, "asm");
}

/* ---- statements --------------------------------------------------------------------------------- */

/* Returns 1 for words that the host's floating point cannot do directly: builtins then come first. */
static int wants_builtin(const struct mt_asm_statement *s)
{
    struct mt_asm_type t;
    for (unsigned i = 1; i < s->nparts; i++)
        if (mt_asm_type(s->parts[i], &t) && (strchr("fgt", t.kind) || t.lanes > 1))
            return !mt_asm_is(s, MT_ASM_BITS);
    return 0;
}

static int asm_lower_run(struct mt_asm_body *l, mt_asm_lowering *lower, LLVMValueRef builtin,
                         LLVMTypeRef type)
{
    return builtin ? mt_asm_call_builtin(l, builtin, type) : lower(l);
}

/* Runs a guarded statement with side effects in blocks of its own. */
static int run_in_branch(struct mt_asm_body *l, mt_asm_lowering *lower, LLVMValueRef builtin,
                         LLVMTypeRef type)
{
    LLVMBasicBlockRef then = mt_asm_block(l), after = mt_asm_block(l);
    LLVMBuildCondBr(l->b, l->guard, then, after);
    LLVMPositionBuilderAtEnd(l->b, then);
    l->guard = NULL;
    int failed = asm_lower_run(l, lower, builtin, type);
    LLVMBuildBr(l->b, after);
    LLVMPositionBuilderAtEnd(l->b, after);
    return failed;
}

static struct mt_asm_label *find_label(struct mt_asm_body *l, const char *name)
{
    for (unsigned i = 0; i < l->nlabels; i++)
        if (!strcmp(l->labels[i].name, name))
            return &l->labels[i];
    return NULL;
}

static int asm_lower_branch(struct mt_asm_body *l)
{
    const struct mt_asm_operand *to = l->s->noperands == 1 ? &l->s->operands[0] : NULL;
    struct mt_asm_label *label = to && to->kind == MT_ASM_NAME ? find_label(l, to->name) : NULL;
    if (!label)
        return mt_asm_fail(l, "%s to an unknown label", l->s->opcode);
    LLVMBasicBlockRef next = mt_asm_block(l), taken = label->block;
    if (label->passed) { /* a loop, usually one that waits: others must run */
        LLVMBasicBlockRef again = mt_asm_block(l), from = LLVMGetInsertBlock(l->b);
        LLVMPositionBuilderAtEnd(l->b, again);
        if (!mt_asm_call_by_name(l, "mt_cpu_yield", l->none, NULL, 0))
            return -1;
        LLVMBuildBr(l->b, taken);
        LLVMPositionBuilderAtEnd(l->b, from);
        taken = again;
    }
    if (l->guard)
        LLVMBuildCondBr(l->b, l->guard, taken, next);
    else
        LLVMBuildBr(l->b, taken);
    LLVMPositionBuilderAtEnd(l->b, next);
    return 0;
}

int mt_asm_statement(struct mt_asm_body *l)
{
    const struct mt_asm_statement *s = l->s;
    l->guard = NULL;
    if (s->label) {
        struct mt_asm_label *label = find_label(l, s->label);
        label->passed = 1;
        LLVMBuildBr(l->b, label->block);
        LLVMPositionBuilderAtEnd(l->b, label->block);
        return 0;
    }
    if (s->predicate && !(l->guard = mt_asm_in(l, s->predicate, 1)))
        return -1;
    if (!strcmp(s->parts[0], "bra"))
        return asm_lower_branch(l);
    mt_asm_lowering *lower = mt_asm_find_lowering(s);
    LLVMTypeRef type = NULL;
    LLVMValueRef builtin = !lower || wants_builtin(s) ? mt_asm_find_builtin(l, &type) : NULL;
    if (!lower && !builtin)
        return mt_asm_fail(l, "%s", s->opcode);
    if (l->guard && (builtin || !mt_asm_is(s, MT_ASM_SELECTS)))
        return run_in_branch(l, lower, builtin, type);
    return asm_lower_run(l, lower, builtin, type);
}

/* ---- setup, replacing the call, undoing --------------------------------------------------------- */

static LLVMTypeRef result_type(struct mt_asm_body *l, unsigned i)
{
    LLVMTypeRef type = LLVMTypeOf(l->call);
    return LLVMGetTypeKind(type) == LLVMStructTypeKind ? LLVMStructGetTypeAtIndex(type, i) : type;
}

static int make_slots(struct mt_asm_body *l)
{
    unsigned nout = l->ties->noutputs, have = 0;
    LLVMTypeRef type = LLVMTypeOf(l->call);
    if (LLVMGetTypeKind(type) == LLVMStructTypeKind)
        have = LLVMCountStructElementTypes(type);
    else if (LLVMGetTypeKind(type) != LLVMVoidTypeKind)
        have = 1;
    if (have != nout)
        return mt_asm_fail(l, "outputs and constraints disagree");
    l->regs = calloc(l->a->nregs + 1, sizeof *l->regs);
    l->outputs = calloc(nout + 1, sizeof *l->outputs);
    l->output_bits = calloc(nout + 1, sizeof *l->output_bits);
    if (!l->regs || !l->outputs || !l->output_bits)
        return mt_asm_fail(l, "out of memory");
    for (unsigned i = 0; i < nout; i++) {
        l->output_bits[i] = (unsigned)LLVMSizeOfTypeInBits(l->layout, result_type(l, i));
        LLVMTypeRef bits = mt_asm_int(l, l->output_bits[i]);
        if (!(l->outputs[i] = mt_asm_slot(l, bits, "")))
            return -1;
        if (l->ties->operands[i].argument >= 0) {
            LLVMValueRef v = LLVMGetOperand(l->call, (unsigned)l->ties->operands[i].argument);
            if (!(v = mt_asm_bits_of(l, v)))
                return -1;
            LLVMBuildStore(l->b, LLVMBuildIntCast2(l->b, v, bits, 0, ""), l->outputs[i]);
        }
    }
    return 0;
}

static int make_labels(struct mt_asm_body *l)
{
    l->labels = calloc(l->a->nstatements + 1, sizeof *l->labels);
    if (!l->labels)
        return mt_asm_fail(l, "out of memory");
    for (unsigned i = 0; i < l->a->nstatements; i++) {
        const char *name = l->a->statements[i].label;
        if (!name)
            continue;
        if (find_label(l, name))
            return mt_asm_fail(l, "label %.60s is defined twice", name);
        l->labels[l->nlabels++] = (struct mt_asm_label){name, mt_asm_block(l), 0};
    }
    return 0;
}

/* Returns the call's value from the output slots; NULL for a void call. */
static LLVMValueRef asm_lower_gather(struct mt_asm_body *l)
{
    LLVMTypeRef type = LLVMTypeOf(l->call);
    int is_struct = LLVMGetTypeKind(type) == LLVMStructTypeKind;
    LLVMValueRef whole = is_struct ? LLVMGetUndef(type) : NULL;
    for (unsigned i = 0; i < l->ties->noutputs; i++) {
        LLVMTypeRef want = result_type(l, i);
        LLVMValueRef v = LLVMBuildLoad2(l->b, mt_asm_int(l, l->output_bits[i]), l->outputs[i], "");
        if (LLVMGetTypeKind(want) == LLVMPointerTypeKind)
            v = LLVMBuildIntToPtr(l->b, v, want, "");
        else
            v = LLVMBuildBitCast(l->b, v, want, "");
        whole = is_struct ? LLVMBuildInsertValue(l->b, whole, v, i, "") : v;
    }
    return whole;
}

/* Moves the instructions from `first` up to (not including) `end` to the builder's place. */
static void asm_lower_move(struct mt_asm_body *l, LLVMValueRef first, LLVMValueRef end)
{
    LLVMSetCurrentDebugLocation2(l->b, NULL); /* each keeps its own */
    for (LLVMValueRef i = first, next; i && i != end; i = next) {
        LLVMMetadataRef place = LLVMInstructionGetDebugLoc(i);
        next = LLVMGetNextInstruction(i);
        LLVMInstructionRemoveFromParent(i);
        size_t length;
        LLVMInsertIntoBuilderWithName(l->b, i, LLVMGetValueName2(i, &length));
        LLVMInstructionSetDebugLoc(i, place);
    }
}

/* Moves the code before the call to a new block in front of the call's block, which keeps its terminator,
 * so that its successors' phis stay valid. All jumps to the block now go to the new one. */
static void split_at_call(struct mt_asm_body *l)
{
    LLVMBasicBlockRef tail = LLVMGetInstructionParent(l->call);
    LLVMBasicBlockRef head = LLVMInsertBasicBlockInContext(l->c, tail, "");
    LLVMValueRef old = LLVMBasicBlockAsValue(tail), new = LLVMBasicBlockAsValue(head);
    for (LLVMUseRef use = LLVMGetFirstUse(old), next; use; use = next) {
        LLVMValueRef user = LLVMGetUser(use);
        next = LLVMGetNextUse(use);
        if (!LLVMIsAInstruction(user))
            continue;
        for (int i = 0, n = LLVMGetNumOperands(user); i < n; i++)
            if (LLVMGetOperand(user, (unsigned)i) == old) {
                LLVMSetOperand(user, (unsigned)i, new);
                next = LLVMGetFirstUse(old); /* the list has changed */
                break;
            }
    }
    LLVMBuildBr(l->b, tail); /* the builder is at the end of the asm's last block */
    LLVMPositionBuilderAtEnd(l->b, head);
    asm_lower_move(l, LLVMGetFirstInstruction(tail), l->call);
    LLVMBuildBr(l->b, l->first);
    LLVMBasicBlockRef after = head;
    for (LLVMBasicBlockRef b = l->first, next; b; b = next) {
        next = LLVMGetNextBasicBlock(b);
        LLVMMoveBasicBlockAfter(b, after);
        after = b;
    }
}

static void asm_insert_before(struct mt_asm_body *l)
{
    if (LLVMGetNextBasicBlock(l->first)) {
        split_at_call(l);
    } else {
        LLVMPositionBuilderBefore(l->b, l->call);
        asm_lower_move(l, LLVMGetFirstInstruction(l->first), NULL);
        LLVMDeleteBasicBlock(l->first);
    }
}

static void take_place(struct mt_asm_body *l, LLVMValueRef value)
{
    asm_insert_before(l);
    if (value)
        LLVMReplaceAllUsesWith(l->call, value);
    LLVMInstructionEraseFromParent(l->call);
}

static void asm_undo(struct mt_asm_body *l)
{
    for (LLVMBasicBlockRef b = l->first; b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i; (i = LLVMGetLastInstruction(b));) {
            if (LLVMGetTypeKind(LLVMTypeOf(i)) != LLVMVoidTypeKind)
                LLVMReplaceAllUsesWith(i, LLVMGetUndef(LLVMTypeOf(i)));
            LLVMInstructionEraseFromParent(i);
        }
    for (LLVMBasicBlockRef b = l->first, next; b; b = next) {
        next = LLVMGetNextBasicBlock(b);
        LLVMDeleteBasicBlock(b);
    }
    for (unsigned i = 0; i < l->nallocas; i++)
        LLVMInstructionEraseFromParent(l->allocas[i]);
}

static void asm_lower_init(struct mt_asm_body *l)
{
    l->c = LLVMGetModuleContext(l->m);
    l->layout = LLVMGetModuleDataLayout(l->m);
    l->function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(l->call));
    l->i1 = mt_asm_int(l, 1);
    l->i8 = mt_asm_int(l, 8);
    l->i16 = mt_asm_int(l, 16);
    l->i32 = mt_asm_int(l, 32);
    l->i64 = mt_asm_int(l, 64);
    l->ptr = LLVMPointerTypeInContext(l->c, 0);
    l->none = LLVMVoidTypeInContext(l->c);
    l->b = LLVMCreateBuilderInContext(l->c);
    l->first = mt_asm_block(l);
    LLVMPositionBuilderAtEnd(l->b, l->first);
    LLVMSetCurrentDebugLocation2(l->b, LLVMInstructionGetDebugLoc(l->call));
}

static int asm_begin(struct mt_asm_body *l)
{
    asm_lower_init(l);
    return make_slots(l) || make_labels(l) ? -1 : 0;
}

void mt_asm_end(struct mt_asm_body *l)
{
    LLVMDisposeBuilder(l->b);
    free(l->regs);
    free(l->outputs);
    free(l->output_bits);
    free(l->labels);
    free(l->allocas);
}

static int asm_lower_lower(struct mt_asm_body *l)
{
    if (asm_begin(l))
        return -1;
    for (unsigned i = 0; i < l->a->nstatements; i++) {
        l->s = &l->a->statements[i];
        if (mt_asm_statement(l))
            return -1;
    }
    return 0;
}

int mt_asm_lower(LLVMModuleRef m, LLVMValueRef call, const struct mt_asm_builtins *b,
                 struct mt_asm_error *error)
{
    struct mt_asm_ties ties;
    struct mt_asm_body l = {.m = m, .call = call, .ties = &ties, .builtins = b, .error = error};
    size_t length;
    int failed = -1;
    *error = (struct mt_asm_error){0};
    if (!LLVMIsACallInst(call)) {
        snprintf(error->message, sizeof error->message, "asm goto");
        return -1;
    }
    const char *text = LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &length);
    struct mt_asm *a = mt_asm_parse(text, length, error);
    if (!a || mt_asm_ties_read(call, &ties, error))
        goto out;
    l.a = a;
    failed = asm_lower_lower(&l);
    if (failed)
        asm_undo(&l);
    else
        take_place(&l, asm_lower_gather(&l));
    mt_asm_end(&l);
out:
    mt_asm_free(a);
    return failed;
}
