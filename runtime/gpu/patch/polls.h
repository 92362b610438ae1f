/* Repeats: a warp that waits for another thread makes the same access again and again. Accesses of a warp
 * that are alike (packet by packet: place, kind, size, lanes, addresses) and follow each other are recorded
 * the first and the last time; those between are counted. The last one is recorded when a lane of the
 * warp that made it comes with something else, or ends.
 *
 * A warp in flight keeps its last access in a struct mt_poll that it shares with nobody: the owner's number
 * (context, CTA and warp) is part of the state. Where another warp has the place, all accesses are recorded.
 * Lanes that have diverged may be here at the same time, in any order, so all changes are made by replacing
 * the state that was read; who fails records his access and keeps nothing. Nobody waits.
 *
 * The state: owner 33..63 (0: free) | pending 32: a repeat is not recorded yet | busy 31: the key is being
 * written | empty 30: there is no key | number of changes 0..29 */
#ifndef MT_PATCH_POLLS_H
#define MT_PATCH_POLLS_H
#include "device/write.h"

#define POLL_OWNER (~0ull << 33)
#define POLL_USED (1ull << 63)
#define POLL_PENDING (1ull << 32)
#define POLL_BUSY (1ull << 31)
#define POLL_EMPTY (1ull << 30)

MT_DEVICE_INLINE uint64_t poll_next(uint64_t state)
{
    return (state + 1) & (POLL_EMPTY - 1);
}

/* Returns the place of this warp and sets its owner's number, or NULL if the grid has too many warps. */
MT_DEVICE_INLINE struct mt_poll *poll_of(const struct mt_gpu_context *c, uint32_t id, uint64_t *owner)
{
    uint64_t cta = mt_cta_x() + (uint64_t)mt_grid_x() * (mt_cta_y() + (uint64_t)mt_grid_y() * mt_cta_z());
    uint64_t number = cta * ((mt_cta_threads() + 31) / 32) + mt_warp();
    *owner = POLL_USED | ((uint64_t)(id & 0xfff) << (32 - MT_POLL_BITS) | number >> MT_POLL_BITS) << 33;
    uint32_t place = ((uint32_t)number ^ id * 0x9e37u) & (MT_POLLS - 1);
    return number >> 32 ? 0 : (struct mt_poll *)c->polls + place;
}

/* Writes the pending access of a key, by this lane alone, at a place reserved for it. */
MT_DEVICE_INLINE void poll_record(const struct write_ring *r, const uint64_t key[3], uint32_t at)
{
    const struct write_head h = {(uint32_t)(key[1] >> 32), (uint32_t)key[1], (uint32_t)key[0],
                                 (uint32_t)(key[0] >> 32), key[2]};
    mt_count(r->counter, mt_bits(h.mask));
    write_half(r, &h, at, 0);
    write_half(r, &h, at, 1);
}

/* Fills a place that is not needed after all. */
MT_DEVICE_INLINE void poll_skip(const struct write_ring *r, uint32_t at)
{
    const struct write_head h = write_head_of(r, 1, 0, MT_PACKET_NOTHING, 0, 0, 0);
    write_half(r, &h, at, 0);
    write_half(r, &h, at, 1);
}

/* Replaces the state. A pending access gets its place in the ring before, so that whoever finds the state
 * changed comes behind it. */
MT_DEVICE_INLINE int poll_take(const struct write_ring *r, struct mt_poll *p, uint64_t state, uint64_t to,
                               const uint64_t key[3])
{
    uint32_t at = state & POLL_PENDING ? write_place(r, 1u << mt_lane(), 1, 0) : 0;
    int taken = to & POLL_USED ? mt_replace(&p->state, state, to) : mt_replace_ordered(&p->state, state, to);
    mt_fence_near();
    if (state & POLL_PENDING && taken)
        poll_record(r, key, at);
    else if (state & POLL_PENDING)
        poll_skip(r, at);
    return taken;
}

/* Ends what this warp's place holds for lanes of the mask, before they do something else or (`ends`) end.
 * One lane. */
MT_DEVICE_INLINE void poll_over(struct mt_gpu_context *c, const struct write_ring *r, uint32_t mask, int ends)
{
    uint64_t owner, key[3];
    struct mt_poll *p = poll_of(c, r->id, &owner);
    if (!p)
        return;
    uint64_t state = mt_load(&p->state);
    if ((state & POLL_OWNER) != owner || state & POLL_BUSY || (state & POLL_EMPTY && !ends))
        return;
    mt_fence_near();
    for (uint32_t i = 0; i < 3; i++)
        key[i] = mt_load(&p->key[i]);
    if (state & POLL_EMPTY || (uint32_t)(key[1] >> 32) & mask) /* else it is other lanes' */
        poll_take(r, p, state, poll_next(state) | (ends ? 0 : owner | POLL_EMPTY), key);
}

MT_DEVICE_INLINE void poll_keep(struct mt_poll *p, uint64_t owner, const uint64_t key[3])
{
    for (uint32_t i = 0; i < 3; i++)
        mt_store(&p->key[i], key[i]);
    mt_fence_near();
    mt_store(&p->state, owner | poll_next(mt_load(&p->state))); /* busy: nobody else has changed it */
}

/* Returns whether the access repeats the warp's last one and is counted; else it is to be recorded, and is
 * the last one now. One lane. */
MT_DEVICE_INLINE int poll_repeats(struct mt_gpu_context *c, const struct write_ring *r,
                                  const struct write_head *h)
{
    const uint64_t mine[3] = {(uint64_t)h->high << 32 | h->low, (uint64_t)h->mask << 32 | h->site, h->y};
    uint64_t owner, key[3];
    struct mt_poll *p = poll_of(c, r->id, &owner);
    if (!p)
        return 0;
    uint64_t state = mt_load(&p->state);
    if ((state & POLL_OWNER) != owner) {
        if (!(state & POLL_USED) &&
            mt_replace_ordered(&p->state, state, owner | POLL_BUSY | poll_next(state)))
            poll_keep(p, owner, mine);
        return 0;
    }
    mt_fence_near();
    for (uint32_t i = 0; i < 3; i++)
        key[i] = mt_load(&p->key[i]);
    if (state & POLL_BUSY)
        return 0;
    if (!(state & POLL_EMPTY) && key[0] == mine[0] && key[1] == mine[1] && key[2] == mine[2] &&
        mt_replace(&p->state, state, owner | POLL_PENDING | poll_next(state))) {
        if (state & POLL_PENDING)
            mt_count(&c->repeated, mt_bits(h->mask));
        return 1;
    }
    if (state & POLL_PENDING && !((uint32_t)(key[1] >> 32) & h->mask)) /* of other lanes, which may go on */
        return 0;
    if (poll_take(r, p, state, owner | POLL_BUSY | poll_next(state), key))
        poll_keep(p, owner, mine);
    return 0;
}
#endif
