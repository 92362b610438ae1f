/* Parts of an image beyond cpu.h: constant memory and the arguments of launches. Thread-safe. */
#ifndef MT_CPU_IMAGE_H
#define MT_CPU_IMAGE_H
#include <stdint.h>
#include "cpu.h"

/* Computes the smallest range that holds all __constant__ variables of all images; bytes = 0 if there are
 * none. */
void mt_image_constant_hull(uint64_t *base, uint64_t *bytes);
/* Copies a launch's arguments into the local range: nparams + 1 pointers and the values they point to (the
 * last one, to the hidden context, is kept). *workspace gets MT_WORKSPACE zero bytes. Returns NULL without
 * memory. */
#define MT_WORKSPACE 64
void **mt_image_args_copy(const struct mt_cpu_launch *launch, void **workspace);
void mt_image_args_free(void **args);
/* Finds the read-only part of an image that holds `address`, such as a string literal of device code,
 * which no table lists. Returns 1, or 0. */
int mt_image_literal(uint64_t address, uint64_t *base, uint64_t *bytes);
void mt_image_args_reset(void); /* for a forked child: marks everything free */
#endif
