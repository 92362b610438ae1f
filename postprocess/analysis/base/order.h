/* Order of CTAs in all output: by z, then y, then x. */
#ifndef MT_ANALYSIS_ORDER_H
#define MT_ANALYSIS_ORDER_H
#include <stdint.h>

/* Converts word 2 of a record to a number that ascends in this order, and back. */
static inline uint64_t mt_cta_order(uint64_t word)
{
    return (word & 0xffff) << 48 | (word >> 16 & 0xffff) << 32 | word >> 32;
}
static inline uint64_t mt_cta_of_order(uint64_t order)
{
    return (order & 0xffffffff) << 32 | (order >> 32 & 0xffff) << 16 | order >> 48;
}
#endif
