/* Members of structs that a call passes in memory (byval), as NVPTX's calls read them. */
#include "unit.h"

void mt_argument_parts(struct mt_unit *u, LLVMTypeRef type, uint64_t align, uint64_t offset,
                       void (*part)(void *ctx, uint64_t offset, uint32_t size), void *ctx)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (kind == LLVMStructTypeKind) {
        for (unsigned i = 0; i < LLVMCountStructElementTypes(type); i++)
            mt_argument_parts(u, LLVMStructGetTypeAtIndex(type, i), align,
                              offset + LLVMOffsetOfElement(u->layout, type, i), part, ctx);
        return;
    }
    if (kind == LLVMArrayTypeKind || kind == LLVMVectorTypeKind) {
        LLVMTypeRef element = LLVMGetElementType(type);
        uint64_t n = kind == LLVMArrayTypeKind ? LLVMGetArrayLength2(type) : LLVMGetVectorSize(type);
        for (uint64_t i = 0; i < n; i++)
            mt_argument_parts(u, element, align, offset + i * LLVMABISizeOfType(u->layout, element), part,
                              ctx);
        return;
    }
    uint64_t size = LLVMStoreSizeOfType(u->layout, type), step = size < 8 ? size : 8;
    while (step > 1 && (offset | align) & (step - 1))
        step /= 2;
    for (uint64_t at = 0; at < size; at += step)
        part(ctx, offset + at, (uint32_t)step);
}
