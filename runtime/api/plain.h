/* Kernels without record calls, for launches on a GPU that are not traced (plain.c). */
#ifndef MT_API_PLAIN_H
#define MT_API_PLAIN_H
#include "module.h"

/* Registers the second version of f with the real runtime, if the GPU's code has one; f's module is loaded.
 */
void mt_plain_register(void **real, struct mt_function *f);
/* What to launch instead of the program's function; NULL: there is no second version. */
const void *mt_plain_of(const struct mt_function *f);
cudaKernel_t mt_plain_handle(struct mt_function *f); /* the same for launches by handle */
#endif
