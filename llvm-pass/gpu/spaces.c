/* Record calls of shared and local memory in the GPU's code (option spaces): turns addresses into numbers
 * in their space, which the type names. */
#include "unit/unit.h"
#include "spaces.h"
#include <string.h>

#define SHARED_SPACE 3
#define LOCAL_SPACE 5

static LLVMValueRef spaces_is(struct mt_unit *u, LLVMBuilderRef b, const char *name, LLVMValueRef pointer)
{
    LLVMValueRef f =
        LLVMGetIntrinsicDeclaration(u->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
    return LLVMBuildCall2(b, LLVMGlobalGetValueType(f), f, &pointer, 1, "");
}

/* Returns a pointer's address in a space, as a pointer that is not dereferenced. Needed where the pointer
 * may be to another space, for which LLVM has no cast. */
static LLVMValueRef spaces_number(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef pointer, unsigned space)
{
    const char *text = space == SHARED_SPACE ? "cvta.to.shared.u64 $0, $1;" : "cvta.to.local.u64 $0, $1;";
    LLVMTypeRef i64 = mt_type_int(u, 64), type = LLVMFunctionType(i64, &i64, 1, 0);
    LLVMValueRef cast =
        LLVMGetInlineAsm(type, text, strlen(text), "=l,l", 4, 0, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef address = LLVMBuildPtrToInt(b, pointer, i64, "");
    LLVMValueRef number = LLVMBuildCall2(b, type, cast, &address, 1, "");
    number = LLVMBuildAnd(b, number, LLVMConstInt(i64, 0xffffffff, 0), "");
    return LLVMBuildIntToPtr(b, number, mt_type_ptr(u), "");
}

/* Handles any space: the type is the last argument but one, alone or with the size; it holds the operation
 * and the wanted spaces. */
static LLVMValueRef spaces_any(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call, unsigned at)
{
    LLVMValueRef p = LLVMGetOperand(call, 0), what = LLVMGetOperand(call, at);
    uint32_t value = (uint32_t)LLVMConstIntGetZExtValue(what), shift = at == 1 ? 28 : 0;
    uint32_t wanted = value >> (shift + 2), plain = value & ~(3u << (shift + 2));
    LLVMTypeRef type = LLVMTypeOf(what);
    LLVMValueRef is_global = spaces_is(u, b, "llvm.nvvm.isspacep.global", p), here = is_global;
    LLVMValueRef address = p, kind = LLVMConstInt(type, plain, 0);
    static const struct {
        uint32_t bit;
        const char *test;
        unsigned space;
        enum mt_access_space code;
    } others[] = {{MT_SPACES_SHARED, "llvm.nvvm.isspacep.shared", SHARED_SPACE, MT_IN_SHARED},
                  {MT_SPACES_LOCAL, "llvm.nvvm.isspacep.local", LOCAL_SPACE, MT_IN_LOCAL}};
    for (unsigned i = 0; i < 2; i++) {
        if (!(wanted & others[i].bit))
            continue;
        LLVMValueRef is = spaces_is(u, b, others[i].test, p);
        LLVMValueRef code = LLVMConstInt(type, plain | (uint32_t)others[i].code << (shift + 2), 0);
        address = LLVMBuildSelect(b, is, spaces_number(u, b, p, others[i].space), address, "");
        kind = LLVMBuildSelect(b, is, code, kind, "");
        here = LLVMBuildOr(b, here, is, "");
    }
    LLVMSetOperand(call, 0, address);
    LLVMSetOperand(call, at, kind);
    return LLVMBuildNot(b, here, "");
}

/* Returns an mbarrier's number with the parity of its phase as the lowest bit; after a wait, that of the
 * phase before. */
static LLVMValueRef spaces_phase(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef number, int before)
{
    static const char text[] = "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [$1], $2; "
                               "selp.u32 $0, 1, 0, p; }",
                      ties[] = "=r,r,n,~{memory}";
    LLVMTypeRef i32 = mt_type_int(u, 32), i64 = mt_type_int(u, 64);
    LLVMTypeRef type = LLVMFunctionType(i32, (LLVMTypeRef[]){i32, i32}, 2, 0);
    LLVMValueRef ask = LLVMGetInlineAsm(type, text, sizeof text - 1, ties, sizeof ties - 1, 1, 0,
                                        LLVMInlineAsmDialectATT, 0);
    LLVMValueRef at = LLVMBuildPtrToInt(b, number, i64, "");
    /* parity 0 is over: the phase is odd */
    LLVMValueRef args[] = {LLVMBuildTrunc(b, at, i32, ""), LLVMConstInt(i32, (unsigned)before, 0)};
    LLVMValueRef odd = LLVMBuildZExt(b, LLVMBuildCall2(b, type, ask, args, 2, ""), i64, "");
    return LLVMBuildIntToPtr(b, LLVMBuildOr(b, at, odd, ""), mt_type_ptr(u), "");
}

LLVMValueRef mt_gpu_narrow_space(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call)
{
    const char *name = mt_name(mt_callee(call));
    LLVMPositionBuilderBefore(b, call);
    if (mt_starts(name, "__mt_access_any"))
        return spaces_any(u, b, call, mt_ends(name, "_n") ? 2 : 1);
    int phase = mt_starts(name, "__mt_access_phase");
    if (phase || mt_starts(name, "__mt_access_mbarrier") || mt_starts(name, "__mt_access_shared"))
        LLVMSetOperand(call, 0, spaces_number(u, b, LLVMGetOperand(call, 0), SHARED_SPACE));
    if (phase) {
        uint64_t what = LLVMConstIntGetZExtValue(LLVMGetOperand(call, mt_ends(name, "_n") ? 2 : 1));
        uint64_t kind = mt_ends(name, "_n") ? what : what >> 28;
        LLVMSetOperand(call, 0, spaces_phase(u, b, LLVMGetOperand(call, 0), kind == MT_SYNC_BARRIER));
    }
    return NULL;
}
