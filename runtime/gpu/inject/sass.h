/* What a function's machine code can do that the patches may not see: instructions of a GPU by their opcodes.
 * Each instruction has 16 bytes and its opcode in the lowest 12 bits, on all architectures from sm_75 on. */
#ifndef MT_INJECT_SASS_H
#define MT_INJECT_SASS_H
#include <stddef.h>
#include <stdint.h>

/* Facts about a function, as bits: first the kinds of sass.def, then: */
#define MT_SASS_KINDS 24u
#define MT_SASS_CALLS (1u << 24) /* it calls functions of other sections */
#define MT_SASS_POLLS                                                                                        \
    (1u << 25) /* it has strong loads or atomics, with which it may wait for other threads */
#define MT_SASS_CANCELS (1u << 26) /* it takes over the work of CTAs that then never run */
#define MT_SASS_UNREAD (1u << 27)  /* its code is not where the file says, or larger than the file */

/* Returns the facts about the instructions in `bytes` of code. */
uint32_t mt_sass_scan(const uint8_t *code, uint64_t bytes);
/* Returns the kinds that NVIDIA's library reports to no patch: those without a row in patch.def, and those
 * with a row that was refused. Bit i of `refused`: the i-th row. */
uint32_t mt_sass_unseen(uint64_t refused);
/* Writes the names of these kinds, separated by commas. Returns `out`. */
const char *mt_sass_names(uint32_t kinds, char *out, size_t size);
/* Returns the first API version (major * 100 + minor) that reports all of these kinds, or 0 if none does. */
int mt_sass_since(uint32_t kinds);
#endif
