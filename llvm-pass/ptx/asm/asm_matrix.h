/* Warp matrix operations: turns the words of an opcode or of an intrinsic's name into the CPU device's
 * description. */
#ifndef MT_PASS_MATRIX_H
#define MT_PASS_MATRIX_H
#include <llvm-c/Core.h>
#include "format/image.h"

/* Fills *op. Returns 0, or -1 if it is no such operation, has an unknown word, or a shape that PTX lacks. */
int mt_matrix_read(const char *const *words, unsigned n, struct mt_matrix_op *op);
/* Returns the elements from row to row (column to column) of a dense matrix: the stride of a load or store
 * that names none. */
unsigned mt_matrix_dense(const struct mt_matrix_op *op);
/* Returns the number of registers of operand 'a', 'b', 'c' or 'd'. */
unsigned mt_matrix_registers(const struct mt_matrix_op *op, int matrix);
/* Returns constant data in the module. */
LLVMValueRef mt_matrix_constant(LLVMModuleRef module, const struct mt_matrix_op *op);
/* Marks the instructions that the builder makes of `p`, a lane's share of a wmma load or store, for the
 * second count. */
void mt_matrix_count(LLVMBuilderRef b, LLVMContextRef c, const struct mt_matrix_op *op, LLVMValueRef p);
#endif
