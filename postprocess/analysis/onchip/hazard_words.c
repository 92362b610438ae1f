/* Words by which atomics and strong accesses order threads (hazard_order.h). */
#include "hazard_order.h"
#include <stdlib.h>
#include <string.h>

enum { WORD = 4 };

static struct mt_hazard_word *words_find(const struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_word *w = NULL;
    HASH_FIND(hh, o->words, &key, sizeof key, w);
    return w;
}

static struct mt_hazard_word *words_new(struct mt_hazard_order *o)
{
    struct mt_hazard_word *w = calloc(1, sizeof *w);
    o->bytes += w ? sizeof *w : 0;
    return w;
}

static void words_free(struct mt_hazard_order *o, struct mt_hazard_word *w)
{
    o->bytes -= w ? sizeof *w : 0;
    free(w);
}

/* The one that was not used for longest becomes one of the others; the word itself, for another one. NULL: no
 * memory. */
static struct mt_hazard_word *words_oldest(struct mt_hazard_order *o)
{
    struct mt_hazard_word *w = o->words;
    if (!o->others && !(o->others = words_new(o)))
        return NULL;
    HASH_DELETE(hh, o->words, w);
    mt_hazard_join(o, o->others->clock, w->clock);
    return w;
}

/* A word that is not in the table, which may be one of the others. NULL: no memory. */
static struct mt_hazard_word *words_make(struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_word *w = HASH_COUNT(o->words) < MT_HAZARD_WORDS ? words_new(o) : words_oldest(o);
    if (!w)
        return NULL;
    if (o->others)
        memcpy(w->clock, o->others->clock, sizeof w->clock);
    w->key = key;
    return w;
}

/* It is the newest one from now on; NULL: no memory. */
static struct mt_hazard_word *words_get(struct mt_hazard_order *o, uint64_t key)
{
    struct mt_hazard_word *w = words_find(o, key);
    if (w)
        HASH_DELETE(hh, o->words, w);
    else if (!(w = words_make(o, key)))
        return NULL;
    HASH_ADD(hh, o->words, key, sizeof w->key, w);
    return w;
}

void mt_hazard_words_reset(struct mt_hazard_order *o)
{
    struct mt_hazard_word *w;
    while ((w = o->words)) {
        HASH_DELETE(hh, o->words, w);
        words_free(o, w);
    }
    words_free(o, o->others);
    o->others = NULL;
}

/* Lanes to which it says something new. */
static uint32_t words_news(const struct mt_hazard_order *o, uint32_t warp, uint32_t lanes,
                           const struct mt_hazard_word *w)
{
    uint32_t news = 0;
    for (const struct mt_hazard_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes && !mt_hazard_knows(o, g, w->clock))
            news |= g->lanes & lanes;
    return news;
}

static int words_acquire(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes,
                         const struct mt_hazard_word *w)
{
    if (!mt_hazard_group_of(o, warp, (uint32_t)__builtin_ctz(lanes)))
        return -1;
    lanes = words_news(o, warp, lanes, w);
    if (!lanes)
        return 0;
    if (mt_hazard_split(o, warp, lanes) != 0)
        return -1;
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes)
            mt_hazard_acquire(o, g, w->clock);
    return 0;
}

/* Those that read it, too, come one after the other, in an order that is not known: all know the same then.
 */
static int words_release(struct mt_hazard_order *o, uint32_t warp, uint32_t lanes, int reads,
                         struct mt_hazard_word *w)
{
    for (struct mt_hazard_group *g = o->warp[warp]; g; g = g->next)
        if (g->lanes & lanes)
            mt_hazard_release_lanes(o, g, lanes, w->clock);
    if (!reads || !(lanes & (lanes - 1)))
        return 0;
    if (words_acquire(o, warp, lanes, w) != 0)
        return -1;
    mt_hazard_merge(o, warp, lanes);
    return 0;
}

/* The lanes of `left` whose access begins in the word of the first of them; *key: that word. */
static uint32_t words_alike(const struct mt_access_run *r, uint32_t left, uint64_t *key)
{
    uint32_t alike = 0, i = 0;
    for (uint32_t m = r->mask; m && i < r->count; m &= m - 1, i++) {
        uint64_t word = (r->addresses ? r->addresses[i] : r->base + (uint64_t)r->stride * i) / WORD;
        if (!(m & -m & left))
            continue;
        *key = alike ? *key : word;
        alike |= word == *key ? m & -m : 0;
    }
    return alike;
}

int mt_hazard_words_before(struct mt_hazard_order *o, const struct mt_access_run *r, int reads)
{
    uint64_t key;
    uint32_t lanes;
    for (uint32_t left = reads && o->words ? r->mask : 0; left; left &= ~lanes) {
        if (!(lanes = words_alike(r, left, &key)))
            return 0;
        const struct mt_hazard_word *w = words_find(o, key);
        w = w ? w : o->others;
        if (w && words_acquire(o, r->warp, lanes, w) != 0)
            return -1;
    }
    return 0;
}

int mt_hazard_words_after(struct mt_hazard_order *o, const struct mt_access_run *r, int reads)
{
    uint64_t key;
    uint32_t lanes;
    for (uint32_t left = r->mask; left; left &= ~lanes) {
        if (!(lanes = words_alike(r, left, &key)))
            return 0;
        struct mt_hazard_word *w = words_get(o, key);
        if (!w || words_release(o, r->warp, lanes, reads, w) != 0)
            return -1;
    }
    return 0;
}
