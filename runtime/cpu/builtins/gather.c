/* Loads and stores of a warp's lanes whose addresses are not side by side, for processors without registers
 * for masks: one call is a tenth of the code, and of the time to compile it, of 32 loads that each ask for
 * their lane. The last of several lanes that store to one place stays. */
#include "builtin.h"

#define LANES 32
struct sixteen {
    uint64_t word[2];
};

#define EACH(type, size)                                                                                     \
    typedef type lane_##size __attribute__((aligned(1), may_alias));                                         \
    MT_BUILTIN __attribute__((noinline)) void mtb_gather_##size(void *const *at, uint32_t mask, void *to)    \
    {                                                                                                        \
        lane_##size *out = to;                                                                               \
        if (mask == ~0u) {                                                                                   \
            _Pragma("clang loop unroll_count(8) vectorize(disable)") for (int i = 0; i < LANES; i++)         \
                out[i] = *(const lane_##size *)at[i];                                                        \
            return;                                                                                          \
        }                                                                                                    \
        for (; mask; mask &= mask - 1) {                                                                     \
            int i = __builtin_ctz(mask);                                                                     \
            out[i] = *(const lane_##size *)at[i];                                                            \
        }                                                                                                    \
    }                                                                                                        \
    MT_BUILTIN __attribute__((noinline)) void mtb_scatter_##size(void *const *at, uint32_t mask, void *from) \
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
