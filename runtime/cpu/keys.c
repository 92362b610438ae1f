/* Which lanes of a warp come to which access, known before they are put together (warps.c). */
#include "keys.h"
#include <stdlib.h>
#include <string.h>
#include "warps.h"

struct key {
    uint64_t what, place, order;
    uint32_t nth;            /* of this lane's accesses of the same name, from 0 */
    uint32_t lanes, arrived; /* lanes: 0: the slot is free */
    uint32_t newest, times;  /* of the first: the lane that came last, and how often */
};

struct mt_warp_keys {
    struct key *slot;
    uint32_t *of; /* by entry: its slot */
    size_t room, entries, mask;
    const uint64_t *first;
};

struct mt_warp_keys *mt_keys_new(void)
{
    return calloc(1, sizeof(struct mt_warp_keys));
}

void mt_keys_free(struct mt_warp_keys *k)
{
    if (k) {
        free(k->slot);
        free(k->of);
    }
    free(k);
}

static int keys_make_room(struct mt_warp_keys *k, size_t entries)
{
    size_t slots = 64;
    while (slots < 2 * entries)
        slots *= 2;
    if (slots > k->room) {
        free(k->slot);
        k->slot = malloc(slots * sizeof *k->slot);
        k->room = k->slot ? slots : 0;
    }
    if (entries > k->entries) {
        free(k->of);
        k->of = malloc(entries * sizeof *k->of);
        k->entries = k->of ? entries : 0;
    }
    if (!k->slot || !k->of)
        return -1;
    memset(k->slot, 0, slots * sizeof *k->slot);
    k->mask = slots - 1;
    return 0;
}

static struct key *keys_find(struct mt_warp_keys *k, uint64_t what, uint64_t place, uint32_t nth)
{
    uint64_t h = (what ^ place * 0x9e3779b97f4a7c15u ^ nth) * 0xbf58476d1ce4e5b9u;
    for (size_t i = (h ^ h >> 32) & k->mask;; i = (i + 1) & k->mask) {
        struct key *s = &k->slot[i];
        if (!s->lanes)
            *s = (struct key){.what = what, .place = place, .order = place, .nth = nth, .newest = UINT32_MAX};
        else if (s->what != what || s->place != place || s->nth != nth)
            continue;
        return s;
    }
}

static size_t keys_number(const struct mt_warp_keys *k, const uint64_t *entry)
{
    return (size_t)(entry - k->first) / MT_ENTRY_WORDS;
}

int mt_keys_fill(struct mt_warp_keys *k, const uint64_t *const *at, const size_t *count, uint32_t lanes,
                 const uint32_t *when)
{
    size_t entries = 0;
    for (uint32_t i = 0; i < lanes; i++)
        entries += count[i];
    if (keys_make_room(k, entries))
        return -1;
    k->first = at[0];
    for (uint32_t i = 0; i < lanes; i++) {
        const uint64_t *e = at[i];
        for (size_t n = count[i]; n; n--, e += MT_ENTRY_WORDS) {
            struct key *s = keys_find(k, e[0], e[2] >> MT_ENTRY_PLACE_AT, 0);
            s->times = s->newest == i ? s->times + 1 : 0;
            s->newest = i;
            if (s->times)
                s = keys_find(k, e[0], e[2] >> MT_ENTRY_PLACE_AT, s->times);
            size_t number = keys_number(k, e);
            if (when && (!s->lanes || s->order < when[number]))
                s->order = when[number];
            s->lanes++;
            k->of[number] = (uint32_t)(s - k->slot);
        }
    }
    for (uint32_t i = 0; i < lanes; i++)
        mt_keys_arrive(k, at[i]);
    return 0;
}

void mt_keys_arrive(struct mt_warp_keys *k, const uint64_t *entry)
{
    k->slot[k->of[keys_number(k, entry)]].arrived++;
}

int mt_keys_complete(const struct mt_warp_keys *k, const uint64_t *entry)
{
    const struct key *s = &k->slot[k->of[keys_number(k, entry)]];
    return s->arrived == s->lanes;
}

uint64_t mt_keys_order(const struct mt_warp_keys *k, const uint64_t *entry)
{
    return k->slot[k->of[keys_number(k, entry)]].order;
}
