/* Warp matrix operations: turns the words of an opcode or of an intrinsic's name into the CPU device's
 * description. */
#ifndef MT_PASS_MATRIX_H
#define MT_PASS_MATRIX_H

#include <llvm-c/Core.h>
#include "format/image.h"

/* Fills *op. Returns 0, or -1 if it is no such operation, has an unknown word, or a shape that PTX lacks. */
int mt_matrix_read(const char *const *words, unsigned n, struct mt_matrix_op *op);

#endif
