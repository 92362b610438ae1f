/* Detection of CTAs that the program itself orders. */
#include "order.h"
#include "analysis/base/runs.h"
#include "memtrace/order.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 64, MOST_WORDS = 1 << 20 }; /* maximum per launch; maximum in total */
/* State of a word and a side, as numbers of runs of its launch, 0: none. before: latest load or update before
 * the side's first access to the byte; after: first update after its last access. */
struct times {
    uint32_t before, after;
};

static struct times order_times(uint64_t value)
{
    return (struct times){(uint32_t)(value >> 32), (uint32_t)value};
}

static uint64_t order_value(struct times t)
{
    return (uint64_t)t.before << 32 | t.after;
}

MT_ORDER_2(order_by_launch, struct mt_check_pair, step, conflict)

static int order_several_workers(const struct mt_source *s)
{
    for (size_t i = 0; i < mt_source_inputs(s); i++) {
        const struct mt_companion *c = mt_source_companion(s, i);
        if (c && c->workers > 1)
            return 1;
    }
    return 0;
}

static int order_init(void *self, const struct mt_run_options *options)
{
    struct mt_check_order *o = self;
    const struct mt_conflicts *x = o->of;
    *o = (struct mt_check_order){.of = x, .loose = order_several_workers(options->source)};
    o->pairs = calloc(x->count + 1, sizeof *o->pairs);
    if (!o->pairs)
        return -1;
    for (size_t i = 0; i < x->count; i++)
        o->pairs[i] = (struct mt_check_pair){.step = x->list[i].superstep,
                                             .address = x->list[i].address,
                                             .cta = {x->list[i].cta[0], x->list[i].cta[1]},
                                             .conflict = i};
    o->count = x->count;
    qsort(o->pairs, o->count, sizeof *o->pairs, order_by_launch);
    return 0;
}

static uint64_t order_key(const struct mt_check_order *o, size_t pair, int side)
{
    return (uint64_t)(pair - o->first) << 1 | (unsigned)side;
}

static uint64_t *order_word(struct mt_check_order *o, uint64_t word, size_t pair, int side)
{
    static uint64_t none;
    if (o->words.count >= MOST_WORDS)
        return &none;
    return mt_pairmap_get(&o->words, word, order_key(o, pair, side), 0);
}

static uint64_t order_known(const struct mt_check_order *o, uint64_t word, size_t pair, int side)
{
    const uint64_t *at = mt_pairmap_find(&o->words, word, order_key(o, pair, side));
    return at ? *at : 0;
}

/* ---- the end of a launch ---- */

/* Marks a pair as ordered if one side updated the word after its last access, and the other one afterwards
 * before its first access. */
static void order_word_ends(void *arg, uint64_t word, uint64_t key, uint64_t value)
{
    struct mt_check_order *o = arg;
    size_t pair = o->first + (size_t)(key >> 1);
    struct times mine = order_times(value), others = order_times(order_known(o, word, pair, !(key & 1)));
    if (mine.after && others.before && (o->loose || others.before > mine.after))
        o->pairs[pair].ordered = 1;
}

static void order_launch_ends(struct mt_check_order *o)
{
    mt_pairmap_each(&o->words, order_word_ends, o);
    mt_pairmap_clear(&o->words);
    o->now = 0;
}

static void order_launch(struct mt_check_order *o, uint64_t step)
{
    order_launch_ends(o);
    o->first = o->end;
    while (o->first < o->count && o->pairs[o->first].step < step)
        o->first++;
    o->end = o->first;
    while (o->end < o->count && o->pairs[o->end].step == step)
        o->end++;
}

/* ---- accesses ---- */

static int order_touches(const struct mt_access_run *r, uint64_t address)
{
    uint32_t size = mt_run_size(r);
    for (uint32_t i = 0; i < r->count; i++)
        if (address - mt_run_address(r, i) < size)
            return 1;
    return 0;
}

/* Handles a further access to the byte: updates after the previous access now come before this one. */
static void order_again(struct mt_check_order *o, size_t pair, int side)
{
    uint64_t key = order_key(o, pair, side);
    for (size_t i = 0; o->words.slot && i < (size_t)1 << o->words.bits; i++)
        if (o->words.slot[i].epoch == o->words.epoch && o->words.slot[i].b == key)
            o->words.slot[i].value &= ~(uint64_t)UINT32_MAX;
}

/* Handles an update of the byte's own word, such as a ticket that the last CTA resets: it precedes the side's
 * next access to the byte and follows its previous ones. */
static int order_own(struct mt_check_order *o, size_t pair, int side)
{
    struct mt_check_pair *p = &o->pairs[pair];
    uint64_t *value = order_word(o, p->address / 4, pair, side);
    if (!value)
        return -1;
    struct times t = order_times(*value);
    t.before = !t.before ? o->now : t.before;
    t.after = o->now;
    *value = order_value(t);
    return 0;
}

static int order_run(struct mt_check_order *o, const struct mt_access_run *r, size_t pair, int side)
{
    struct mt_check_pair *p = &o->pairs[pair];
    uint32_t type = mt_run_type(r);
    if (order_touches(r, p->address)) {
        if (p->seen[side])
            order_again(o, pair, side);
        p->seen[side] = 1;
        return type == MT_ATOMIC ? order_own(o, pair, side) : 0;
    }
    if (type == MT_STORE || (type == MT_LOAD && p->seen[side]))
        return 0;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t *value = order_word(o, mt_run_address(r, i) / 4, pair, side);
        if (!value)
            return -1;
        struct times t = order_times(*value);
        if (!p->seen[side])
            t.before = o->now;
        else
            t.after = t.after ? t.after : o->now;
        *value = order_value(t);
    }
    return 0;
}

static int order_begin(void *self, const struct mt_run_launch *l)
{
    order_launch(self, l->superstep);
    return 0;
}

static int order_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_check_order *o = self;
    size_t end = o->end - o->first > MOST_PAIRS ? o->first + MOST_PAIRS : o->end;
    for (size_t i = 0; i < n && o->first < end; i++) {
        const struct mt_access_run *r = &runs[i];
        o->now++;
        if (mt_rec_space(mt_run_type(r)) != MT_IN_GLOBAL)
            continue;
        for (size_t k = o->first; k < end; k++)
            for (int side = 0; side < 2; side++)
                if (r->cta == o->pairs[k].cta[side] && order_run(o, r, k, side) != 0)
                    return -1;
    }
    return 0;
}

const struct mt_analysis mt_check_order_analysis = {
    .init = order_init, .launch = order_begin, .runs = order_runs};

size_t mt_check_order_finish(struct mt_check_order *o, struct mt_conflicts *x)
{
    size_t n = 0, taken;
    char *gone = calloc(x->count + 1, 1);
    order_launch_ends(o);
    for (size_t i = 0; gone && i < o->count; i++)
        gone[o->pairs[i].conflict] = (char)o->pairs[i].ordered;
    for (size_t i = 0; gone && i < x->count; i++)
        if (!gone[i])
            x->list[n++] = x->list[i];
    taken = gone ? x->count - n : 0;
    x->count -= taken;
    free(gone);
    free(o->pairs);
    mt_pairmap_free(&o->words);
    memset(o, 0, sizeof *o);
    return taken;
}
