/* Bytes that xsave and xrstor touch: see xstate.h. */
#include "xstate.h"
#include <cpuid.h>

enum { LEAF = 13, FIRST = 2, LAST = 62, HEADER_END = 576, LINE = 64 };

uint64_t mt_xstate_asked(uint64_t mask)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return mask & ((uint64_t)high << 32 | low);
}

uint32_t mt_xstate_bytes(uint64_t touched, uint64_t layout)
{
    uint32_t end = HEADER_END, compact = HEADER_END, size, offset, flags, none;
    for (uint32_t i = FIRST; i <= LAST; i++) {
        if (!((touched | layout) >> i & 1) || !__get_cpuid_count(LEAF, i, &size, &offset, &flags, &none))
            continue;
        if (flags & 2) /* aligned to a cache line */
            compact = (compact + LINE - 1) / LINE * LINE;
        uint32_t here = (layout ? compact : offset) + size;
        compact += size;
        if (touched >> i & 1 && here > end)
            end = here;
    }
    return end;
}
