/* Bit operations. */
#ifndef MT_BITS_H
#define MT_BITS_H
#include "builtin.h"

/* PTX prmt, default mode: four bytes picked out of {b, a}; bit 3 of a nibble replicates the byte's sign. */
static MT_INLINE uint32_t mt_prmt(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t pick = selector >> 4 * i & 15, byte = both >> 8 * (pick & 7) & 255;
        if (pick & 8)
            byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}

/* PTX fns: position of the offset-th set bit counted from `base` upwards (offset > 0) or downwards (< 0);
 * offset 0 asks for bit `base` itself. 0xffffffff when there is none. */
static MT_INLINE uint32_t mt_fns(uint32_t mask, uint32_t base, int32_t offset)
{
    if (offset == 0)
        return base < 32 && mask >> base & 1 ? base : ~0u;
    int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int32_t i = (int32_t)base; i >= 0 && i < 32; i += step)
        if ((mask >> i & 1) && --left == 0)
            return (uint32_t)i;
    return ~0u;
}
#endif
