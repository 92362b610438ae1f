/* Record calls of tensor copies: see tensor.h. */
#include "tensor.h"
#include "trace.h"
#include <string.h>

#define MOST_ARGUMENTS 9
#define RECORD "__mt_access_tensor"

static void tensor_call(struct mt_unit *u, LLVMBuilderRef b, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef types[MOST_ARGUMENTS];
    for (unsigned i = 0; i < n; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), types, n, 0);
    LLVMBuildCall2(b, type, mt_declare(u->module, name, type), args, n, "");
}

static LLVMValueRef tensor_number(struct mt_unit *u, uint32_t n)
{
    return LLVMConstInt(mt_type_int(u, 32), n, 0);
}

static LLVMValueRef tensor_site(struct mt_unit *u, LLVMValueRef call, uint32_t type,
                                const struct mt_asm_warp_access *a)
{
    return tensor_number(u, mt_unit_add_site(u, call, type, 0, 0, mt_variable_of(a->address)));
}

static int tensor_is_wanted(const struct mt_unit *u, enum mt_access_type op)
{
    return !u->options->only || u->options->only >> op & 1;
}

void mt_record_tensor(struct mt_unit *u, LLVMBuilderRef b, LLVMValueRef call,
                      const struct mt_asm_warp_access *a)
{
    LLVMValueRef map = LLVMBuildIntToPtr(b, a->address, mt_type_ptr(u), "");
    enum mt_access_type op = a->op == MT_LOAD ? MT_STORE : MT_LOAD; /* operation on shared memory */
    if (u->options->spaces & MT_SPACES_SHARED && tensor_is_wanted(u, op)) {
        uint32_t type = mt_rec_type_in(op, MT_IN_SHARED);
        LLVMValueRef shared = LLVMBuildIntToPtr(b, a->shared, mt_type_ptr(u), "");
        LLVMValueRef args[] = {map,     tensor_number(u, a->rank), shared,
                               a->ctas, tensor_number(u, type),    tensor_site(u, call, type, a)};
        tensor_call(u, b, RECORD "_shared", args, 6);
    }
    if (tensor_is_wanted(u, a->op)) {
        LLVMValueRef args[] = {map,
                               tensor_number(u, a->rank),
                               tensor_number(u, a->op),
                               a->at[0],
                               a->at[1],
                               a->at[2],
                               a->at[3],
                               a->at[4],
                               tensor_site(u, call, a->op, a)};
        tensor_call(u, b, RECORD, args, 9);
    }
}

void mt_unit_untrace_tensors(struct mt_unit *u)
{
    static const char *const names[] = {RECORD, RECORD "_shared"};
    LLVMTypeRef i32 = mt_type_int(u, 32);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(u->context), &i32, 1, 0);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(u->context);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        LLVMValueRef f = LLVMGetNamedFunction(u->module, names[i]), zero = tensor_number(u, 0);
        for (LLVMUseRef use; f && (use = LLVMGetFirstUse(f));) {
            LLVMValueRef call = LLVMGetUser(use);
            LLVMPositionBuilderBefore(b, call);
            LLVMBuildCall2(b, type, mt_declare(u->module, "__mt_untraced", type), &zero, 1, "");
            LLVMInstructionEraseFromParent(call);
        }
        if (f)
            LLVMDeleteFunction(f);
    }
    LLVMDisposeBuilder(b);
}
