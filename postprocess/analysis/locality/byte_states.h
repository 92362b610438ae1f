/* What a byte has seen of one launch, as a number: equal for all bytes that saw the same. A state lists the
 * sides that touched the byte, and of each side the two first CTAs (in z-major order; there may be more). */
#ifndef MT_ANALYSIS_BYTE_STATES_H
#define MT_ANALYSIS_BYTE_STATES_H
#include <stddef.h>
#include <stdint.h>
#include "analysis/base/pairmap.h"
#include "memtrace/hash.h"

#define MT_STATE_FAILED UINT32_MAX

struct mt_byte_side {
    uint64_t cta[2]; /* ascending z-major numbers; equal if there is one only */
    uint32_t side;
};

struct mt_byte_states {
    struct mt_byte_side *sides; /* of all states; of a state together, ascending side */
    struct mt_byte_state {
        size_t first, count; /* in sides */
    } *states;               /* states[0] is that of an untouched byte */
    size_t nsides, nstates, sides_room, states_room;
    struct mt_hash numbers;  /* of states, by hashes of their sides */
    struct mt_pairmap steps; /* (state << 32 | side, CTA) -> state */
};

/* 0, or -1 without memory. */
int mt_byte_states_init(struct mt_byte_states *s);
/* The state of a byte in `state` after this CTA (z-major number) touched it; FAILED without memory. */
uint32_t mt_byte_states_step(struct mt_byte_states *s, uint32_t state, uint32_t side, uint64_t cta);
/* The state with these sides, ascending; new states are numbered as they come. FAILED without memory. */
uint32_t mt_byte_states_intern(struct mt_byte_states *s, const struct mt_byte_side *sides, size_t n);
void mt_byte_states_free(struct mt_byte_states *s);
#endif
