/* Matrix operations of a warp as intrinsics: their registers in words of the stack,
 * and a call of mtb_matrix. */
#include <string.h>
#include "lower.h"
#include "ptx/asm_matrix.h"

#define MAX_WORDS 24

static int read_name(const char *name, struct mt_matrix_op *op, int *strided)
{
    char text[128], *save = NULL;
    const char *words[MAX_WORDS];
    unsigned n = 0;
    if (strlen(name) >= sizeof text)
        return -1;
    strcpy(text, name);
    for (char *word = strtok_r(text, ".", &save); word && n < MAX_WORDS; word = strtok_r(NULL, ".", &save)) {
        *strided |= !strcmp(word, "stride");
        words[n++] = word;
    }
    return mt_matrix_read(words, n, op);
}

int mt_lower_matrix(struct mt_lowering *l, LLVMValueRef call, const char *name)
{
    struct mt_matrix_op op;
    LLVMTypeRef type, result = LLVMTypeOf(call);
    int strided = 0, is_struct = LLVMGetTypeKind(result) == LLVMStructTypeKind;
    if (read_name(name, &op, &strided))
        return -1;
    unsigned have = LLVMGetNumArgOperands(call), at = 0;
    int moves = op.kind != MT_MATRIX_MULTIPLY && op.kind != MT_MATRIX_MOVMATRIX;
    unsigned results =
        is_struct ? LLVMCountStructElementTypes(result) : LLVMGetTypeKind(result) != LLVMVoidTypeKind;
    LLVMValueRef f = mt_builtin(l, "mtb_matrix", &type), p = LLVMConstNull(l->ptr);
    if (!f || have != op.nin + (unsigned)moves + (unsigned)strided || results != op.nout)
        return -1;
    unsigned nin = op.nin ? op.nin : 1, nout = op.nout ? op.nout : 1;
    LLVMValueRef in = mt_lower_slots(l, call, nin), out = mt_lower_slots(l, call, nout),
                 stride = LLVMConstInt(l->i64, op.kind <= MT_MATRIX_STORE ? mt_matrix_dense(&op) : 0, 0);
    if (moves) {
        if (op.kind <= MT_MATRIX_STORE)
            mt_matrix_count(l->builder, l->u->context, &op, LLVMGetOperand(call, 0));
        p = mt_lower_fit(l, LLVMGetOperand(call, at++), l->ptr);
    }
    for (unsigned i = 0; i < op.nin; i++) {
        LLVMValueRef index = LLVMConstInt(l->i64, i, 0),
                     word = mt_lower_fit(l, LLVMGetOperand(call, at++), l->i64);
        LLVMBuildStore(l->builder, word, LLVMBuildGEP2(l->builder, l->i64, in, &index, 1, ""));
    }
    if (strided)
        stride = LLVMBuildZExt(l->builder, LLVMGetOperand(call, at), l->i64, "");
    LLVMValueRef args[] = {mt_matrix_constant(l->module, &op), p, stride, in, out}, value = NULL;
    LLVMBuildCall2(l->builder, type, f, args, 5, "");
    if (is_struct)
        value = mt_lower_gather(l, out, result);
    else if (op.nout)
        value = mt_lower_fit(l, LLVMBuildLoad2(l->builder, l->i64, out, ""), result);
    mt_lower_slots_end(l, in, nin);
    mt_lower_slots_end(l, out, nout);
    if (value)
        LLVMReplaceAllUsesWith(call, value);
    LLVMInstructionEraseFromParent(call);
    return 0;
}
