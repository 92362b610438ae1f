/* Accesses that no single PTX instruction makes, taken apart as NVPTX's instruction selection would: values
 * of odd sizes, aggregates, vectors that are too long, whatever is not aligned as its size needs, and short
 * copies and fills. (PTX: up to 8 bytes, or a vector of 2 or 4 elements and up to 16 bytes, at a multiple of
 * its size.) */
#include "base/unit.h"
#include <stdlib.h>
#include <string.h>

struct split {
    struct mt_unit *u;
    LLVMBuilderRef b;
    LLVMValueRef from; /* a load, whose properties the parts have; NULL: none */
    LLVMValueRef pointer;
    uint64_t align; /* of the pointer */
    int is_volatile;
    uint64_t wanted;  /* of the bits of `from`, if it is an integer; else all */
    const char *mark; /* metadata of the parts */
};

static uint64_t split_store_size(const struct split *s, LLVMTypeRef type)
{
    return LLVMStoreSizeOfType(s->u->layout, type);
}

static uint64_t split_align(const struct split *s, uint64_t offset)
{
    uint64_t lowest = offset & -offset;
    return offset && lowest < s->align ? lowest : s->align;
}

static int split_is_scalar(LLVMTypeRef type)
{
    LLVMTypeKind k = LLVMGetTypeKind(type);
    return k == LLVMIntegerTypeKind || k == LLVMPointerTypeKind || k == LLVMHalfTypeKind ||
           k == LLVMBFloatTypeKind || k == LLVMFloatTypeKind || k == LLVMDoubleTypeKind;
}

/* Is an access of this type at this alignment one instruction? (Of <4 x bfloat> only a store is.) */
static int split_is_one(const struct split *s, LLVMTypeRef type, uint64_t align, int load)
{
    uint64_t bytes = split_store_size(s, type);
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) /* i1 to i8 are a byte */
        return split_is_scalar(type) && bytes <= 8 && !(bytes & (bytes - 1)) && align >= bytes;
    LLVMTypeRef element = LLVMGetElementType(type);
    unsigned n = LLVMGetVectorSize(type);
    uint64_t size = split_store_size(s, element), bits = LLVMSizeOfTypeInBits(s->u->layout, element);
    if (bits < 8)
        return 1; /* vectors of i1: left alone */
    if (align < n * size || (load && n == 4 && LLVMGetTypeKind(element) == LLVMBFloatTypeKind))
        return 0;
    if (n == 2 || n == 4)
        return n * size <= 16;
    return n * size == 16 && size <= 2; /* registers of 32 bits with two or four elements each */
}

static LLVMValueRef split_address(const struct split *s, uint64_t offset)
{
    LLVMValueRef at = LLVMConstInt(mt_type_int(s->u, 64), offset, 0);
    return offset ? LLVMBuildInBoundsGEP2(s->b, mt_type_int(s->u, 8), s->pointer, &at, 1, "") : s->pointer;
}

/* ---- one instruction each ------------------------------------------------------------------------ */

unsigned mt_unit_mark(struct mt_unit *u, const char *name)
{
    return LLVMGetMDKindIDInContext(u->context, name, (unsigned)strlen(name));
}

static void split_mark(const struct split *s, LLVMValueRef access)
{
    LLVMValueRef none = LLVMMetadataAsValue(s->u->context, LLVMMDNodeInContext2(s->u->context, NULL, 0));
    LLVMSetMetadata(access, mt_unit_mark(s->u, s->mark), none);
}

static LLVMValueRef split_load_one(const struct split *s, LLVMTypeRef type, uint64_t offset)
{
    LLVMValueRef load = LLVMBuildLoad2(s->b, type, split_address(s, offset), "");
    LLVMSetAlignment(load, (unsigned)split_align(s, offset));
    LLVMSetVolatile(load, s->is_volatile);
    if (s->from)
        mt_copy_load_metadata(s->u, s->from, load);
    split_mark(s, load);
    return load;
}

static void split_store_one(const struct split *s, LLVMValueRef value, uint64_t offset)
{
    LLVMValueRef store = LLVMBuildStore(s->b, value, split_address(s, offset));
    LLVMSetAlignment(store, (unsigned)split_align(s, offset));
    LLVMSetVolatile(store, s->is_volatile);
    split_mark(s, store);
}

/* ---- integers, in the largest parts that size and alignment allow ---------------------------------- */

static uint64_t split_part(const struct split *s, uint64_t offset, uint64_t left)
{
    uint64_t part = 8, align = split_align(s, offset);
    while (part > left || part > align)
        part /= 2;
    return part;
}

static uint64_t split_mask(uint64_t bits)
{
    return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

/* Does anybody want of these bytes of an integer? */
static int split_is_wanted(const struct split *s, uint64_t at, uint64_t bytes)
{
    return at >= 8 || (s->wanted >> 8 * at & (~0ull >> (64 - 8 * bytes)));
}

static LLVMValueRef split_load_bytes(const struct split *s, uint64_t bytes, uint64_t offset)
{
    LLVMTypeRef whole = mt_type_int(s->u, (unsigned)bytes * 8);
    LLVMValueRef value = NULL;
    for (uint64_t done = 0, part; done < bytes; done += part) {
        part = split_part(s, offset + done, bytes - done);
        if (!split_is_wanted(s, offset + done, part))
            continue;
        LLVMValueRef more = LLVMBuildZExt(
            s->b, split_load_one(s, mt_type_int(s->u, (unsigned)part * 8), offset + done), whole, "");
        if (done)
            more = LLVMBuildShl(s->b, more, LLVMConstInt(whole, done * 8, 0), "");
        value = value ? LLVMBuildOr(s->b, value, more, "") : more;
    }
    return value ? value : LLVMConstNull(whole);
}

/* The value that the bits at `at` of another one are, where it was put together of them; NULL: it was not. */
static LLVMValueRef split_origin(LLVMValueRef v, uint64_t at, uint64_t bits)
{
    uint64_t width = LLVMGetIntTypeWidth(LLVMTypeOf(v)), field = split_mask(bits) << at;
    if (!at && width == bits)
        return v;
    if (!LLVMIsAInstruction(v) || width > 64)
        return NULL;
    LLVMOpcode op = LLVMGetInstructionOpcode(v);
    LLVMValueRef x = LLVMGetNumOperands(v) ? LLVMGetOperand(v, 0) : NULL,
                 y = LLVMGetNumOperands(v) > 1 ? LLVMGetOperand(v, 1) : NULL;
    uint64_t n = y && LLVMIsAConstantInt(y) ? LLVMConstIntGetZExtValue(y) : ~0ull;
    if (op == LLVMOr && !(~mt_shim_zero_bits(y) & field))
        return split_origin(x, at, bits);
    if (op == LLVMOr && !(~mt_shim_zero_bits(x) & field))
        return split_origin(y, at, bits);
    if (op == LLVMAnd && LLVMIsAConstantInt(y) && (n & field) == field)
        return split_origin(x, at, bits);
    if (op == LLVMShl && at >= n)
        return split_origin(x, at - n, bits);
    if (op == LLVMLShr && n < width && at + n + bits <= width)
        return split_origin(x, at + n, bits);
    if (op == LLVMTrunc || (op == LLVMZExt && at + bits <= LLVMGetIntTypeWidth(LLVMTypeOf(x))))
        return LLVMGetIntTypeWidth(LLVMTypeOf(x)) <= 64 ? split_origin(x, at, bits) : NULL;
    return NULL;
}

static void split_store_bytes(const struct split *s, LLVMValueRef value, uint64_t bytes, uint64_t offset)
{
    LLVMTypeRef whole = mt_type_int(s->u, (unsigned)bytes * 8);
    for (uint64_t done = 0, part; done < bytes; done += part) {
        part = split_part(s, offset + done, bytes - done);
        LLVMValueRef origin = split_origin(value, 8 * done, 8 * part);
        if (origin) {
            split_store_one(s, origin, offset + done);
            continue;
        }
        LLVMValueRef low = done ? LLVMBuildLShr(s->b, value, LLVMConstInt(whole, done * 8, 0), "") : value;
        LLVMTypeRef type = mt_type_int(s->u, (unsigned)part * 8);
        split_store_one(s, part == bytes ? low : LLVMBuildTrunc(s->b, low, type, ""), offset + done);
    }
}

/* The same bits as an integer of as many bytes, and back. */
static LLVMValueRef split_to_bits(const struct split *s, LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value), bits = mt_type_int(s->u, (unsigned)split_store_size(s, type) * 8);
    if (LLVMGetTypeKind(type) == LLVMPointerTypeKind)
        return LLVMBuildPtrToInt(s->b, value, bits, "");
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind)
        return LLVMBuildZExtOrBitCast(s->b, value, bits, "");
    return LLVMBuildBitCast(s->b, value, bits, "");
}

static LLVMValueRef split_from_bits(const struct split *s, LLVMValueRef bits, LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) == LLVMPointerTypeKind)
        return LLVMBuildIntToPtr(s->b, bits, type, "");
    if (LLVMGetTypeKind(type) == LLVMIntegerTypeKind)
        return LLVMBuildTruncOrBitCast(s->b, bits, type, "");
    return LLVMBuildBitCast(s->b, bits, type, "");
}

/* ---- any type ------------------------------------------------------------------------------------- */

/* Is the vector moved as integers, whatever its elements are: one register of 32 bits, or fewer? */
static int split_is_packed(const struct split *s, LLVMTypeRef vector)
{
    return split_store_size(s, LLVMGetElementType(vector)) <= 2 && split_store_size(s, vector) == 4;
}

static LLVMValueRef split_lanes(const struct split *s, LLVMValueRef vector, unsigned first, unsigned n)
{
    LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(vector)), i32 = mt_type_int(s->u, 32);
    LLVMValueRef part = LLVMGetPoison(LLVMVectorType(element, n));
    for (unsigned i = 0; i < n; i++)
        part = LLVMBuildInsertElement(
            s->b, part, LLVMBuildExtractElement(s->b, vector, LLVMConstInt(i32, first + i, 0), ""),
            LLVMConstInt(i32, i, 0), "");
    return part;
}

/* Vectors of 3, 5, 6 or 7 elements are read as integers, also beyond the last element where the alignment
 * says that this harms nobody; but a last element that is alone, alone. */
static int split_is_odd(LLVMTypeRef vector)
{
    unsigned n = LLVMGetVectorSize(vector);
    return (n & (n - 1)) != 0;
}

static LLVMValueRef split_load_odd(const struct split *s, LLVMTypeRef type, uint64_t offset)
{
    LLVMTypeRef element = LLVMGetElementType(type);
    unsigned n = LLVMGetVectorSize(type), lanes = 1;
    uint64_t size = split_store_size(s, element), most = s->is_volatile ? 1 : s->align;
    while (lanes < n)
        lanes *= 2;
    LLVMTypeRef whole = mt_type_int(s->u, (unsigned)(lanes * size * 8));
    LLVMValueRef value = LLVMConstNull(whole);
    for (uint64_t done = 0, part; done < n * size; done += part) {
        uint64_t left = n * size - done, spare = left > size ? (lanes - n) * size : 0;
        for (part = 8; part > left && (part > most || part > left + spare);)
            part /= 2;
        LLVMValueRef more = LLVMBuildZExtOrBitCast(s->b, split_load_bytes(s, part, offset + done), whole, "");
        more = LLVMBuildShl(s->b, more, LLVMConstInt(whole, done * 8, 0), "");
        value = LLVMBuildOr(s->b, value, more, "");
    }
    value = split_from_bits(s, value, LLVMVectorType(element, lanes));
    return split_lanes(s, value, 0, n);
}

static LLVMValueRef split_load(const struct split *s, LLVMTypeRef type, uint64_t offset);

static LLVMValueRef split_load_vector(const struct split *s, LLVMTypeRef type, uint64_t offset)
{
    LLVMTypeRef element = LLVMGetElementType(type), i32 = mt_type_int(s->u, 32);
    unsigned n = LLVMGetVectorSize(type), most = 1;
    uint64_t size = split_store_size(s, element);
    LLVMValueRef value = LLVMGetPoison(type);
    if (split_is_packed(s, type))
        return split_from_bits(s, split_load_bytes(s, 4, offset), type);
    if (split_is_odd(type))
        return split_load_odd(s, type, offset);
    while (2 * most < n)
        most *= 2;
    for (unsigned first = 0, part; first < n; first += part) {
        for (part = most; part > n - first;)
            part /= 2;
        LLVMValueRef got =
            split_load(s, part > 1 ? LLVMVectorType(element, part) : element, offset + first * size);
        for (unsigned i = 0; i < part; i++) {
            LLVMValueRef one =
                part > 1 ? LLVMBuildExtractElement(s->b, got, LLVMConstInt(i32, i, 0), "") : got;
            value = LLVMBuildInsertElement(s->b, value, one, LLVMConstInt(i32, first + i, 0), "");
        }
    }
    return value;
}

static unsigned split_members(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMStructTypeKind ? LLVMCountStructElementTypes(type)
                                                       : (unsigned)LLVMGetArrayLength2(type);
}

static LLVMTypeRef split_member(const struct split *s, LLVMTypeRef type, unsigned i, uint64_t *offset)
{
    if (LLVMGetTypeKind(type) == LLVMStructTypeKind) {
        *offset += LLVMOffsetOfElement(s->u->layout, type, i);
        return LLVMStructGetTypeAtIndex(type, i);
    }
    *offset += i * LLVMABISizeOfType(s->u->layout, LLVMGetElementType(type));
    return LLVMGetElementType(type);
}

static LLVMValueRef split_load(const struct split *s, LLVMTypeRef type, uint64_t offset)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (split_is_one(s, type, split_align(s, offset), 1))
        return split_load_one(s, type, offset);
    if (kind == LLVMVectorTypeKind)
        return split_load_vector(s, type, offset);
    if (kind != LLVMStructTypeKind && kind != LLVMArrayTypeKind)
        return split_from_bits(s, split_load_bytes(s, split_store_size(s, type), offset), type);
    LLVMValueRef value = LLVMGetPoison(type);
    for (unsigned i = 0, n = split_members(type); i < n; i++) {
        uint64_t at = offset;
        LLVMTypeRef member = split_member(s, type, i, &at);
        value = LLVMBuildInsertValue(s->b, value, split_load(s, member, at), i, "");
    }
    return value;
}

static void split_store(const struct split *s, LLVMValueRef value, uint64_t offset)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (split_is_one(s, type, split_align(s, offset), 0)) {
        split_store_one(s, value, offset);
    } else if (kind == LLVMVectorTypeKind && !split_is_packed(s, type) && !split_is_odd(type)) {
        unsigned n = LLVMGetVectorSize(type), most = 1;
        uint64_t size = split_store_size(s, LLVMGetElementType(type));
        while (2 * most < n)
            most *= 2;
        for (unsigned first = 0, part; first < n; first += part) {
            for (part = most; part > n - first;)
                part /= 2;
            LLVMValueRef some =
                part > 1
                    ? split_lanes(s, value, first, part)
                    : LLVMBuildExtractElement(s->b, value, LLVMConstInt(mt_type_int(s->u, 32), first, 0), "");
            split_store(s, some, offset + first * size);
        }
    } else if (kind == LLVMStructTypeKind || kind == LLVMArrayTypeKind) {
        for (unsigned i = 0, n = split_members(type); i < n; i++) {
            uint64_t at = offset;
            split_member(s, type, i, &at);
            split_store(s, LLVMBuildExtractValue(s->b, value, i, ""), at);
        }
    } else {
        split_store_bytes(s, split_to_bits(s, value), split_store_size(s, type), offset);
    }
}

/* ---- short copies and fills ------------------------------------------------------------------------ */

enum { SPLIT_OPEN = 16 }; /* accesses of one copy or fill that instruction selection looks between */

/* What LLVM calls "operations" of a copy: of 8 bytes, or of what both sides are aligned to. A local variable
 * that is copied to gets the alignment that is wanted. */
static uint64_t split_operation(const struct split *to, const struct split *from)
{
    uint64_t align = from && from->align < to->align ? from->align : to->align;
    if (LLVMIsAAllocaInst(to->pointer))
        align = 8;
    return align < 8 ? align : 8;
}

static void split_copy(struct split *to, struct split *from, uint64_t bytes)
{
    uint64_t unit = split_operation(to, from), n = 0;
    LLVMValueRef *values = calloc(bytes + 1, sizeof *values);
    if (!values)
        return;
    for (uint64_t done = 0, part = unit; done < bytes;
         done += part) { /* all is read before anything is written */
        while (part > bytes - done)
            part /= 2;
        values[n++] = split_load_bytes(from, part, done);
    }
    n = 0;
    for (uint64_t done = 0, part = unit; done < bytes; done += part) {
        while (part > bytes - done)
            part /= 2;
        split_store_bytes(to, values[n++], part, done);
    }
    free(values);
}

static void split_fill(struct split *to, LLVMValueRef byte, uint64_t bytes)
{
    for (uint64_t done = 0, part = split_operation(to, NULL); done < bytes; done += part) {
        while (part > bytes - done)
            part /= 2;
        LLVMTypeRef type = mt_type_int(to->u, (unsigned)part * 8);
        LLVMValueRef ones = LLVMConstInt(type, 0x0101010101010101u, 0);
        split_store_bytes(to, LLVMBuildMul(to->b, LLVMBuildZExtOrBitCast(to->b, byte, type, ""), ones, ""),
                          part, done);
    }
}

static int split_is_recorded(struct mt_unit *u, LLVMValueRef pointer)
{
    return mt_space_is_recorded(u, mt_space_of(u, pointer));
}

/* 1: the call is taken apart. Long copies and those of unknown length are loops already. */
static int split_block(struct split *s, LLVMValueRef call)
{
    const char *name = mt_name(mt_callee(call));
    int fill = mt_starts(name, "llvm.memset.");
    if (!fill && !mt_starts(name, "llvm.memcpy.") && !mt_starts(name, "llvm.memmove."))
        return 0;
    LLVMValueRef length = LLVMGetOperand(call, 2), flag = LLVMGetOperand(call, 3);
    struct split to = *s, from = *s;
    to.pointer = LLVMGetOperand(call, 0);
    from.pointer = LLVMGetOperand(call, 1);
    if (!LLVMIsAConstantInt(length) || LLVMConstIntGetZExtValue(length) > 4096 ||
        (!split_is_recorded(s->u, to.pointer) && (fill || !split_is_recorded(s->u, from.pointer))))
        return 0;
    to.is_volatile = from.is_volatile = LLVMIsAConstantInt(flag) && LLVMConstIntGetZExtValue(flag);
    to.align = mt_shim_param_align(call, 0);
    from.align = fill ? 1 : mt_shim_param_align(call, 1);
    uint64_t pieces = LLVMConstIntGetZExtValue(length) / split_operation(&to, fill ? NULL : &from);
    to.mark = from.mark = pieces * (fill ? 1 : 2) > SPLIT_OPEN ? MT_MARK_WALL : MT_MARK_PIECE;
    if (fill)
        split_fill(&to, from.pointer, LLVMConstIntGetZExtValue(length));
    else
        split_copy(&to, &from, LLVMConstIntGetZExtValue(length));
    return 1;
}

/* 1: the instruction is taken apart and can go. */
static int split_instruction(struct split *s, LLVMValueRef inst)
{
    int store = LLVMIsAStoreInst(inst) != NULL;
    if (LLVMIsACallInst(inst))
        return split_block(s, inst);
    if ((!store && !LLVMIsALoadInst(inst)) || LLVMGetOrdering(inst) != LLVMAtomicOrderingNotAtomic)
        return 0;
    LLVMValueRef value = store ? LLVMGetOperand(inst, 0) : inst;
    s->pointer = LLVMGetOperand(inst, store ? 1 : 0);
    s->align = mt_alignment(inst);
    s->is_volatile = LLVMGetVolatile(inst);
    if (split_is_one(s, LLVMTypeOf(value), s->align, !store) || !split_is_recorded(s->u, s->pointer))
        return 0;
    s->mark = MT_MARK_PART;
    s->from = store ? NULL : inst;
    if (!store && !s->is_volatile && LLVMGetTypeKind(LLVMTypeOf(inst)) == LLVMIntegerTypeKind)
        s->wanted = mt_demanded_bits(inst);
    if (store)
        split_store(s, value, 0);
    else
        LLVMReplaceAllUsesWith(inst, split_load(s, LLVMTypeOf(inst), 0));
    s->from = NULL;
    s->wanted = ~0ull;
    return 1;
}

void mt_unit_split_accesses(struct mt_unit *u)
{
    struct split s = {.u = u, .b = LLVMCreateBuilderInContext(u->context), .wanted = ~0ull};
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        unsigned n = 0;
        LLVMValueRef *list = LLVMIsDeclaration(f) ? NULL : mt_instructions(f, &n);
        for (unsigned i = 0; list && i < n; i++) {
            LLVMPositionBuilderBefore(s.b, list[i]);
            LLVMSetCurrentDebugLocation2(s.b, LLVMInstructionGetDebugLoc(list[i]));
            if (split_instruction(&s, list[i]))
                LLVMInstructionEraseFromParent(list[i]);
        }
        free(list);
    }
    LLVMDisposeBuilder(s.b);
}
