/* Vector loads and stores under a mask (llvm.masked.*, llvm.vp.*): which lanes touch what. */
#include "unit.h"
#include <string.h>

/* Where the operands stand; 0 where there is none (operand 0 is never one of these). */
static const struct form {
    const char *prefix;
    int stored, packed;
    unsigned stride, mask, length;
} forms[] = {{"llvm.masked.load.", 0, 0, 0, 2, 0},
             {"llvm.masked.store.", 1, 0, 0, 3, 0},
             {"llvm.masked.gather.", 0, 0, 0, 2, 0},
             {"llvm.masked.scatter.", 1, 0, 0, 3, 0},
             {"llvm.masked.expandload.", 0, 1, 0, 1, 0},
             {"llvm.masked.compressstore.", 1, 1, 0, 2, 0},
             {"llvm.vp.load.", 0, 0, 0, 1, 2},
             {"llvm.vp.store.", 1, 0, 0, 2, 3},
             {"llvm.vp.gather.", 0, 0, 0, 1, 2},
             {"llvm.vp.scatter.", 1, 0, 0, 2, 3},
             {"llvm.experimental.vp.strided.load.", 0, 0, 1, 2, 3},
             {"llvm.experimental.vp.strided.store.", 1, 0, 2, 3, 4}};

int mt_masked_of(struct mt_unit *u, LLVMValueRef inst, struct mt_masked *m)
{
    const char *name = LLVMIsACallInst(inst) ? mt_name(mt_callee(inst)) : "";
    for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form *f = &forms[i];
        if (!mt_starts(name, f->prefix))
            continue;
        LLVMTypeRef vector = f->stored ? LLVMTypeOf(LLVMGetOperand(inst, 0)) : LLVMTypeOf(inst);
        if (LLVMGetTypeKind(vector) != LLVMVectorTypeKind)
            return 0;
        *m = (struct mt_masked){.op = f->stored ? MT_STORE : MT_LOAD,
                                .pointer = LLVMGetOperand(inst, f->stored ? 1 : 0),
                                .stride = f->stride ? LLVMGetOperand(inst, f->stride) : NULL,
                                .mask = LLVMGetOperand(inst, f->mask),
                                .length = f->length ? LLVMGetOperand(inst, f->length) : NULL,
                                .packed = f->packed,
                                .n = LLVMGetVectorSize(vector),
                                .size = (uint32_t)LLVMStoreSizeOfType(u->layout, LLVMGetElementType(vector))};
        return 1;
    }
    return 0;
}

static LLVMValueRef behind(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef p, LLVMValueRef bytes)
{
    return LLVMBuildGEP2(b, mt_type_int(u, 8), p, &bytes, 1, "");
}

void mt_masked_lanes(struct mt_unit *u, LLVMBuilderRef b, const struct mt_masked *m, struct mt_access *out)
{
    LLVMTypeRef i32 = mt_type_int(u, 32), i64 = mt_type_int(u, 64);
    int many = LLVMGetTypeKind(LLVMTypeOf(m->pointer)) == LLVMVectorTypeKind;
    LLVMValueRef before = LLVMConstInt(i64, 0, 0); /* active lanes so far */
    for (unsigned i = 0; i < m->n; i++) {
        LLVMValueRef at = LLVMConstInt(i32, i, 0), p = m->pointer;
        LLVMValueRef takes_part = LLVMBuildExtractElement(b, m->mask, at, "");
        if (m->length)
            takes_part = LLVMBuildAnd(b, takes_part, LLVMBuildICmp(b, LLVMIntULT, at, m->length, ""), "");
        if (many)
            p = LLVMBuildExtractElement(b, p, at, "");
        else if (m->packed)
            p = behind(u, b, p, LLVMBuildMul(b, before, LLVMConstInt(i64, m->size, 0), ""));
        else if (m->stride)
            p = behind(
                u, b, p,
                LLVMBuildMul(b, LLVMBuildIntCast2(b, m->stride, i64, 1, ""), LLVMConstInt(i64, i, 0), ""));
        if (m->packed)
            before = LLVMBuildAdd(b, before, LLVMBuildZExt(b, takes_part, i64, ""), "");
        out[i] = (struct mt_access){.op = m->op,
                                    .pointer = p,
                                    .offset = many || m->packed || m->stride ? 0 : (int64_t)i * m->size,
                                    .size = m->size,
                                    .only_if = takes_part,
                                    .space = mt_space_of(u, p)};
    }
}
