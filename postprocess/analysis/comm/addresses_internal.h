/* Shared by addresses.c and addresses_out.c. */
#ifndef MT_ANALYSIS_ADDRESSES_INTERNAL_H
#define MT_ANALYSIS_ADDRESSES_INTERNAL_H
#include "addresses.h"

/* Operations of a block of a chain, the first of which is its head: {next block, operations, -}. Blocks
 * double up to this. */
enum { MT_BLOCK_MOST = 64 };

/* The operations on one key. */
struct mt_chain {
    struct mt_operation last; /* the last one, not yet in a block; none if its count is 0 */
    uint32_t head, tail;      /* blocks, as indices into the pool; 0: none */
    uint16_t used, room;      /* of the tail */
};

/* What was written out at one time: for each key that had operations, by rank, {rank, rank >> 32,
 * n} and n operations. */
struct mt_addresses_segment {
    uint64_t from, end; /* in the file, bytes */
};

int mt_addresses_fail(struct mt_addresses *a, const char *why, int sys);
/* Writes all chains to the file and empties them. 0, or -1. */
int mt_addresses_spill(struct mt_addresses *a);
#endif
