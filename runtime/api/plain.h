/* Kernels without record calls, for launches on a GPU that are not traced (plain.c). */
#ifndef MT_API_PLAIN_H
#define MT_API_PLAIN_H
#include "launch.h"

/* Registers the second version of f with the real runtime, if the GPU's code has one; f's module is loaded.
 */
void mt_plain_register(void **real, struct mt_function *f);
/* What to launch instead of the program's function; NULL: there is no second version. */
const void *mt_plain_of(const struct mt_function *f);
/* Why the current device cannot run it with record calls in this configuration, though it can without:
 * cudaErrorLaunchOutOfResources or cudaErrorCooperativeLaunchTooLarge; cudaSuccess: it can, or nothing is
 * known.
 */
cudaError_t mt_plain_must(const struct mt_function *f, const struct mt_launch_config *c);
/* For that reason it runs without although it was to be traced: says so, once per kernel. */
void mt_plain_tell(struct mt_function *f, const struct mt_launch_config *c, cudaError_t why);
cudaKernel_t mt_plain_handle(struct mt_function *f); /* the same for launches by handle */
#endif
