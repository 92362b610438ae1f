/* The rule that selects the CTAs of a launch to trace: MEMTRACE_CTAS and MEMTRACE_SAMPLE. There is one per
 * process, evaluated by the CPU device before each CTA and by a GPU at the entry of each kernel. */
#ifndef MT_DEVICE_CTAS_H
#define MT_DEVICE_CTAS_H
#include <stdint.h>
#include "packet.h"

#define MT_CTA_TERMS 8u

/* CTAs whose linear number (x + grid x * (y + grid y * z)) and whose x, y and z are in these ranges
 * (inclusive). */
struct mt_cta_term {
    uint64_t first, last;
    uint32_t low[3], high[3];
};

struct mt_cta_rule {
    uint32_t terms; /* number of terms; a CTA is chosen if any matches; 0: all are */
    uint32_t every; /* at least 1; chosen CTAs are traced if their linear number is a multiple */
    struct mt_cta_term term[MT_CTA_TERMS];
};

MT_DEVICE_INLINE int mt_cta_in_term(const struct mt_cta_term *t, uint64_t linear, const uint32_t at[3])
{
    return linear >= t->first && linear <= t->last && at[0] >= t->low[0] && at[0] <= t->high[0] &&
           at[1] >= t->low[1] && at[1] <= t->high[1] && at[2] >= t->low[2] && at[2] <= t->high[2];
}

/* Returns n % d. On a GPU a 64-bit division is a function of its own that needs many registers, and any
 * division takes some twenty instructions. */
MT_DEVICE_INLINE uint32_t mt_cta_rest(uint64_t n, uint32_t d)
{
    uint64_t rest = 0;
    if (!(d & (d - 1)))
        return (uint32_t)n & (d - 1);
    if (!(n >> 32))
        return (uint32_t)n % d;
#ifdef __CUDACC__ /* without the pragma nvcc makes some 300 instructions, in each patch */
#pragma unroll 1
#endif
    for (uint32_t bit = 64; bit--;) {
        rest = rest << 1 | (n >> bit & 1);
        rest -= rest >= d ? d : 0;
    }
    return (uint32_t)rest;
}

MT_DEVICE_INLINE int mt_cta_is_traced(const struct mt_cta_rule *r, uint64_t linear, const uint32_t at[3])
{
    if (mt_cta_rest(linear, r->every))
        return 0;
    uint32_t i = 0;
    while (i < r->terms && !mt_cta_in_term(&r->term[i], linear, at))
        i++;
    return !r->terms || i < r->terms;
}
#endif
