/* Bit operations. */
#ifndef MT_BITS_H
#define MT_BITS_H
#include "builtin.h"

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
