/* What images know beyond cpu.h: constant memory and the arguments of launches. Thread-safe. */
#ifndef MT_CPU_IMAGE_H
#define MT_CPU_IMAGE_H
#include <stdint.h>
#include "cpu.h"

/* Smallest range that holds all __constant__ variables of all images; bytes = 0 when there is none. */
void mt_image_constant_hull(uint64_t *base, uint64_t *bytes);
/* Copies a launch's arguments into the local range: nparams + 1 pointers and what they point to (the last
 * pointer, the hidden context, as it is). *workspace gets MT_WORKSPACE zero bytes beside them. NULL when
 * memory is exhausted. */
#define MT_WORKSPACE 64
void **mt_image_args_copy(const struct mt_cpu_launch *launch, void **workspace);
void mt_image_args_free(void **args);
/* String literals of device code and the like, which no table lists: the read-only part of an image that
 * holds `address`. 1, or 0. */
int mt_image_literal(uint64_t address, uint64_t *base, uint64_t *bytes);
void mt_image_args_reset(void); /* in a forked child: nothing is in use */
#endif
