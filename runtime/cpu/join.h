/* Puts together what the lanes of a warp did, each by itself (warps.c), to accesses of the warp: those that
 * are furthest back go first. */
#ifndef MT_CPU_JOIN_H
#define MT_CPU_JOIN_H
#include "warps.h"

#define MT_LANES 32u
#define MT_JOINED_ADDRESSES (MT_WARPS_RUNS * 8u) /* room for those of uneven runs */

struct mt_warp_keys; /* which lanes come to which access: join.c */
void mt_keys_free(struct mt_warp_keys *k);

/* Where accesses of warps go. */
struct mt_joined {
    mt_warps_take take;
    void *ctx;
    uint64_t cta;
    uint32_t smid, site_base;
    struct mt_warp_keys *keys; /* NULL: not needed so far */
    size_t runs, addresses;
    uint64_t accesses;
    struct mt_access_run run[MT_WARPS_RUNS];
    uint64_t address[MT_JOINED_ADDRESSES];
};

/* What the lanes of a warp did. */
struct mt_warp_phase {
    uint32_t warp, mask, lanes;
    const uint64_t *at[MT_LANES]; /* by active lane: its entries */
    size_t count[MT_LANES];
    const uint32_t *when; /* by entry, from at[0] on: when it was made; NULL: lane after lane */
};

static inline uint64_t mt_entry_place(const uint64_t *entry)
{
    return entry[2] >> MT_ENTRY_PLACE_AT;
}

/* The lanes did the same. */
void mt_join_alike(struct mt_joined *j, const struct mt_warp_phase *p);
/* They did not. Lanes of the mask `later` may have more to come than is in the phase: it goes as far as is
 * known without, and what is left stays in the phase. Places must rise then. */
void mt_join_different(struct mt_joined *j, struct mt_warp_phase *p, uint32_t later);
/* Do places rise in each lane's sequence? Not where code calls itself, or loops go on for very long. */
int mt_join_is_rising(const struct mt_warp_phase *p);
/* Hands on what is there. */
void mt_join_hand_on(struct mt_joined *j);
#endif
