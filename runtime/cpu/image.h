/* Parts of an image beyond cpu.h: constant memory and literals. Thread-safe. */
#ifndef MT_CPU_IMAGE_H
#define MT_CPU_IMAGE_H
#include <stdint.h>
#include "cpu.h"

/* Computes the smallest range that holds all __constant__ variables of all images; bytes = 0 if there are
 * none. */
void mt_image_constant_hull(uint64_t *base, uint64_t *bytes);
/* Finds the read-only part of an image that holds `address`, such as a string literal of device code,
 * which no table lists. Returns 1, or 0. */
int mt_image_literal(uint64_t address, uint64_t *base, uint64_t *bytes);
void mt_image_forked(void); /* in a forked child */
#endif
