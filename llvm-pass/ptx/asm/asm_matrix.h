/* Warp matrix operations: what the words of an opcode or of an intrinsic's name say,
 * as the CPU device wants it. */
#ifndef MT_PASS_MATRIX_H
#define MT_PASS_MATRIX_H
#include <llvm-c/Core.h>
#include "format/image.h"

/* Fills *op. 0, or -1 when the operation is not one of these, has a word that is not known, or a shape that
 * PTX lacks. */
int mt_matrix_read(const char *const *words, unsigned n, struct mt_matrix_op *op);
/* Elements from row to row (column to column) of a dense matrix:
 * the stride of a load or store that names none. */
unsigned mt_matrix_dense(const struct mt_matrix_op *op);
/* The registers of operand 'a', 'b', 'c' or 'd'. */
unsigned mt_matrix_registers(const struct mt_matrix_op *op, int matrix);
/* Constant data in the module. */
LLVMValueRef mt_matrix_constant(LLVMModuleRef module, const struct mt_matrix_op *op);
/* A lane's share of a wmma load or store, for the second count: marks what the builder makes of `p`. */
void mt_matrix_count(LLVMBuilderRef b, LLVMContextRef c, const struct mt_matrix_op *op, LLVMValueRef p);
#endif
