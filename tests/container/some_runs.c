#include "some_runs.h"
#include <string.h>

uint64_t some_seed;

uint32_t some_draw(uint32_t below)
{
    some_seed = some_seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(some_seed >> 33) % below;
}

void some_run(struct mt_access_run *r, uint64_t *lanes, uint32_t tame)
{
    static const uint32_t masks[] = {UINT32_MAX, 1, 0x80000000, 0x0000ffff, 0x55555555};
    static const uint64_t bases[] = {0, 0x7f0000000000, UINT64_MAX - 64, UINT64_C(1) << 63, 4096};
    memset(r, 0, sizeof *r);
    r->site = some_draw(tame) ? some_draw(4) : some_draw(UINT32_MAX);
    r->meta = some_draw(4) << 28 | (some_draw(tame) ? 1u << some_draw(5) : 1 + some_draw((1u << 28) - 1));
    r->cta = some_draw(tame) ? (uint64_t)some_draw(3) << 32
                             : (uint64_t)some_draw(UINT32_MAX) << 32 | some_draw(UINT32_MAX);
    r->warp = some_draw(tame) ? some_draw(4) : some_draw(2) ? MT_RUN_NO_WARP : some_draw(UINT32_MAX);
    r->smid = some_draw(tame) ? some_draw(2) : some_draw(UINT32_MAX);
    r->base = bases[some_draw(5)] + some_draw(tame) * 64;
    r->stride = some_draw(tame)
                    ? 4 * (int64_t)some_draw(3)
                    : (int64_t)((uint64_t)some_draw(UINT32_MAX) << some_draw(33)) * (some_draw(2) ? 1 : -1);
    r->mask = some_draw(5) ? masks[some_draw(5)] : some_draw(UINT32_MAX);
    r->count = (uint32_t)__builtin_popcount(r->mask);
    if (!some_draw(4) || !r->count) {
        r->mask = 0;
        r->count = 1 + some_draw(some_draw(40) ? 5 : 1000);
    }
    if (some_draw(3) || r->count > SOME_LANES)
        return;
    unsigned spread = some_draw(64), shift = some_draw(4);
    for (uint32_t i = 0; i < r->count; i++)
        lanes[i] =
            r->base + ((((uint64_t)some_draw(UINT32_MAX) << 32 | some_draw(UINT32_MAX)) >> spread) << shift);
    r->addresses = lanes;
    r->base = lanes[0];
}
