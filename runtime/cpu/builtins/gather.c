/* Loads and stores of a warp's lanes whose addresses are not side by side, for processors without registers
 * for masks: one call is a tenth of the code, and of the time to compile it, of 32 loads that each ask for
 * their lane. Lanes that are not here get zeros. The last of several lanes that store to one place stays. */
#include "builtin.h"

#define LANES 32
struct sixteen {
    uint64_t word[2];
};

#define EACH(type, size)                                                                                     \
    typedef type lane_##size __attribute__((aligned(1), may_alias));                                         \
    MT_BUILTIN MT_KEPT void mtb_gather_##size(void *const *at, uint32_t mask, void *to)                      \
    {                                                                                                        \
        lane_##size *out = to;                                                                               \
        if (mask == ~0u) {                                                                                   \
            _Pragma("clang loop unroll_count(8) vectorize(disable)") for (int i = 0; i < LANES; i++)         \
                out[i] = *(const lane_##size *)at[i];                                                        \
            return;                                                                                          \
        }                                                                                                    \
        __builtin_memset(to, 0, LANES *size);                                                                \
        for (; mask; mask &= mask - 1) {                                                                     \
            int i = __builtin_ctz(mask);                                                                     \
            out[i] = *(const lane_##size *)at[i];                                                            \
        }                                                                                                    \
    }                                                                                                        \
    MT_BUILTIN MT_KEPT void mtb_scatter_##size(void *const *at, uint32_t mask, void *from)                   \
    {                                                                                                        \
        const lane_##size *in = from;                                                                        \
        for (; mask; mask &= mask - 1) {                                                                     \
            int i = __builtin_ctz(mask);                                                                     \
            *(lane_##size *)at[i] = in[i];                                                                   \
        }                                                                                                    \
    }
EACH(uint8_t, 1)
EACH(uint16_t, 2)
EACH(uint32_t, 4)
EACH(uint64_t, 8)
EACH(struct sixteen, 16)

static MT_INLINE uint64_t gather_at(uint64_t base, uint64_t base1, int64_t stride, uint32_t i)
{
    return i < LANES / 2 ? base + i * (uint64_t)stride : base1 + (i - LANES / 2) * (uint64_t)stride;
}

/* Some lanes of two rows of 16. Nobody waits for it: it is for accesses of which others are bad. */
MT_BUILTIN MT_KEPT void mtb_load_rows(uint64_t base, uint64_t base1, int64_t stride, uint32_t mask,
                                      uint32_t size, char *to)
{
    __builtin_memset(to, 0, LANES * (uint64_t)size);
    for (; mask; mask &= mask - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(mask);
        const char *at = (const char *)gather_at(base, base1, stride, i);
        for (uint32_t k = 0; k < size; k++)
            to[i * size + k] = at[k];
    }
}

MT_BUILTIN MT_KEPT void mtb_store_rows(uint64_t base, uint64_t base1, int64_t stride, uint32_t mask,
                                       uint32_t size, const char *from)
{
    for (; mask; mask &= mask - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(mask);
        char *at = (char *)gather_at(base, base1, stride, i);
        for (uint32_t k = 0; k < size; k++)
            at[k] = from[i * size + k];
    }
}
