/* Operands of inline assembly as LLVM values: registers are stack slots, and everything is an integer of
 * its width. */
#include "asm_lower.h"
#include "format/image.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

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

static LLVMValueRef slot_of(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned *bits)
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
    if (slot_of(l, o, &bits))
        return bits;
    if (o->kind != MT_ASM_ARG || o->index >= l->ties->noperands)
        return 0;
    LLVMValueRef v = LLVMGetOperand(l->call, (unsigned)l->ties->operands[o->index].argument);
    return (unsigned)LLVMSizeOfTypeInBits(l->layout, LLVMTypeOf(v));
}

static LLVMValueRef read_plain(struct mt_asm_body *l, const struct mt_asm_operand *o, unsigned bits)
{
    unsigned have;
    LLVMValueRef slot = slot_of(l, o, &have), v;
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
    LLVMValueRef slot = *o->part ? NULL : slot_of(l, o, &bits);
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

int mt_asm_out_float(struct mt_asm_body *l, const struct mt_asm_operand *o, LLVMValueRef value)
{
    return mt_asm_out(l, o, mt_asm_bits_of(l, value), 0);
}

LLVMValueRef mt_asm_intrinsic(struct mt_asm_body *l, const char *name, LLVMTypeRef overload,
                              LLVMValueRef *args, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, &overload, overload != NULL);
    return LLVMBuildCall2(l->b, LLVMIntrinsicGetType(l->c, id, &overload, overload != NULL), f, args, n, "");
}

void mt_asm_mark(struct mt_asm_body *l, LLVMValueRef inst, enum mt_access_type kind, uint64_t bytes)
{
    if (!LLVMIsAInstruction(inst))
        return;
    LLVMMetadataRef values[] = {LLVMValueAsMetadata(mt_asm_const(l, 32, kind)),
                                LLVMValueAsMetadata(mt_asm_const(l, 64, bytes))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(l->c, values, 2);
    LLVMSetMetadata(inst, mt_mark_kind(l->c), LLVMMetadataAsValue(l->c, node));
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
