/* Reuse distances and working sets of CTAs, SMs and the device. */
#include "reuse.h"
#include "memtrace/order.h"
#include "memtrace/grow.h"
#include "analysis/base/counting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* LRU stack: for each use of a line, the number of other lines used since its previous use. */

enum { MOST = 1 << 30 };

MT_ALWAYS_INLINE size_t reuse_slot_of(const struct mt_use_stack *s, uint64_t line)
{
    size_t mask = ((size_t)1 << s->bits) - 1;
    size_t i = mt_use_stack_slot(s, line);
    while (s->slot[i].time && s->slot[i].line != line)
        i = (i + 1) & mask;
    return i;
}

/* ---- times ---- */

/* Levels of sums. The lowest level has a sum for each word of `alive`, in groups of 16: the number of bits in
 * the words before it in its group. The next level has a sum for each group: the number in the groups before
 * it in a group of groups; and so on up to a single group. So a query adds one sum of each level, and a
 * change of a word updates the sums behind it in each group at once. The word of the latest use is not
 * included yet: most uses come and go there. */
MT_ALWAYS_INLINE uint32_t stack_groups(uint32_t sums)
{
    return (sums + 15) >> 4;
}

static size_t stack_all_groups(uint32_t words)
{
    uint32_t n = stack_groups(words);
    size_t all = n;
    while (n > 1)
        all += n = stack_groups(n);
    return all;
}

/* Adds d to the sums after word k of a group. */
MT_ALWAYS_INLINE void group_add(struct mt_use_stack_group *g, uint32_t k, uint32_t d)
{
    static const uint32_t behind[32] = {[16] = ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
                                        ~0u,        ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
    for (uint32_t i = 0; i < 16; i++)
        g->sum[i] += behind[15 - k + i] & d;
}

MT_ALWAYS_INLINE void tree_add(struct mt_use_stack *s, uint32_t w, uint32_t d)
{
    struct mt_use_stack_group *level = s->tree;
    for (uint32_t n = stack_groups(s->cap / 64 + 1);; n = stack_groups(n)) {
        group_add(&level[w >> 4], w & 15, d);
        if (n == 1)
            break;
        level += n;
        w >>= 4;
    }
}

/* Removes one bit of word w; returns the number of bits in the words before it. */
MT_ALWAYS_INLINE uint32_t tree_take(struct mt_use_stack *s, uint32_t w)
{
    struct mt_use_stack_group *level = s->tree;
    uint32_t before = 0;
    for (uint32_t n = stack_groups(s->cap / 64 + 1);; n = stack_groups(n)) {
        before += level[w >> 4].sum[w & 15];
        group_add(&level[w >> 4], w & 15, ~0u);
        if (n == 1)
            break;
        level += n;
        w >>= 4;
    }
    return before;
}

/* Uses the line last used at `time` again; returns the number of lines used since. */
MT_ALWAYS_INLINE uint32_t stack_again(struct mt_use_stack *s, uint32_t time)
{
    const uint32_t w = time / 64;
    const uint64_t bit = 1ull << time % 64;
    const uint32_t since = (uint32_t)__builtin_popcountll(s->alive[w] & ~(bit | (bit - 1)));
    const uint32_t in_word = w == s->now / 64 ? 0 : (uint32_t)__builtin_popcountll(s->alive[w]);
    s->alive[w] &= ~bit;
    return w == s->now / 64 ? since : s->lines - tree_take(s, w) - in_word + since;
}

/* Marks the next time as the last use of a line. */
MT_ALWAYS_INLINE void stack_bear(struct mt_use_stack *s)
{
    const uint32_t w = s->now / 64;
    if ((++s->now & 63) == 0 && s->alive[w])
        tree_add(s, w, (uint32_t)__builtin_popcountll(s->alive[w]));
    s->alive[s->now / 64] |= 1ull << s->now % 64;
}

/* Allocates memory for unused times: four for each line. */
static int stack_times(struct mt_use_stack *s, uint32_t lines)
{
    s->cap = lines < 16 ? 63 : (lines / (lines < MOST / 4 ? 16 : 32) + 1) * 64 - 1;
    s->now = 0;
    const size_t words = s->cap / 64 + 1, groups = stack_all_groups((uint32_t)words),
                 zero = groups * sizeof *s->tree + words * sizeof *s->alive,
                 all = zero + 64 * words * sizeof *s->at;
    s->tree = aligned_alloc(sizeof *s->tree, (all + sizeof *s->tree - 1) & ~(sizeof *s->tree - 1));
    if (!s->tree)
        return -1;
    s->alive = (uint64_t *)(s->tree + groups);
    s->at = (uint32_t *)(s->alive + words);
    memset(s->tree, 0, zero);
    return 0;
}

/* Makes room for times by removing those that are no longer a last use. */
static int stack_compact(struct mt_use_stack *s)
{
    struct mt_use_stack t = *s;
    if (s->lines > MOST || stack_times(&t, s->lines) != 0)
        return -1;
    for (uint32_t w = 0; s->at && w <= s->now / 64; w++)
        for (uint64_t bits = s->alive[w]; bits; bits &= bits - 1) {
            const uint32_t slot = s->at[w * 64 + (uint32_t)__builtin_ctzll(bits)];
            stack_bear(&t);
            t.at[t.now] = slot;
            t.slot[slot].time = t.now;
        }
    free(s->tree);
    *s = t;
    return 0;
}

/* ---- lines ---- */

static int stack_grow(struct mt_use_stack *s)
{
    struct mt_use_stack t = *s;
    t.bits =
        !s->slot ? 4 : s->bits + (s->bits < 12 ? 2 : 1); /* there are many small stacks, which grow often */
    t.slot = calloc((size_t)1 << t.bits, sizeof *t.slot);
    if (!t.slot)
        return -1;
    for (size_t i = 0; s->slot && i < (size_t)1 << s->bits; i++)
        if (s->slot[i].time) {
            const size_t to = reuse_slot_of(&t, s->slot[i].line);
            t.slot[to] = s->slot[i];
            t.at[s->slot[i].time] = (uint32_t)to;
        }
    free(s->slot);
    *s = t;
    return 0;
}

/* Reserves room in an empty stack for about `lines` lines. Returns 0, or -1 without memory. */
static int use_stack_expect(struct mt_use_stack *s, uint32_t lines)
{
    if (s->slot || lines < 8 || lines > MOST / 4)
        return 0;
    s->bits = 32 - (unsigned)__builtin_clz(2 * lines);
    s->slot = calloc((size_t)1 << s->bits, sizeof *s->slot);
    return s->slot ? stack_times(s, lines) : -1;
}

/* Uses a line. Returns the distance, COLD for a first use, or FAILED (no memory, or more than 2^30 lines).
 * Zero-initialised is empty. */
static MT_WITH_COUNTING uint64_t use_stack_use(struct mt_use_stack *s, uint64_t line)
{
    if (s->lines && s->slot[s->at[s->now]].line == line)
        return 0;
    if ((!s->slot || ((size_t)s->lines + 1) * 2 > (size_t)1 << s->bits) && stack_grow(s) != 0)
        return MT_STACK_FAILED;
    if ((!s->at || s->now == s->cap) && stack_compact(s) != 0)
        return MT_STACK_FAILED;
    const size_t slot = reuse_slot_of(s, line);
    struct mt_use_stack_entry *e = &s->slot[slot];
    uint64_t distance = MT_STACK_COLD;
    if (e->time) {
        distance = stack_again(s, e->time);
    } else {
        e->line = line;
        s->lines++;
    }
    stack_bear(s);
    e->time = s->now;
    s->at[s->now] = (uint32_t)slot;
    return distance;
}

/* Returns the next line in order of last use, earliest first; *time starts at 0. Returns 0 at the end. */
static int use_stack_next(const struct mt_use_stack *s, uint32_t *time, uint64_t *line)
{
    uint32_t t = *time + 1;
    if (!s->at || t > s->now)
        return 0;
    uint32_t word = t / 64;
    uint64_t bits = s->alive[word] & ~0ull << t % 64;
    while (!bits) {
        if (++word > s->now / 64)
            return 0;
        bits = s->alive[word];
    }
    *time = word * 64 + (uint32_t)__builtin_ctzll(bits);
    *line = s->slot[s->at[*time]].line;
    return 1;
}

static void use_stack_free(struct mt_use_stack *s)
{
    free(s->slot);
    free(s->tree);
    memset(s, 0, sizeof *s);
}

/* ---- results of a launch: packing, and final adjustment ---- */

static void reuse_pack_map(struct mt_parcel *p, const struct mt_hash *m)
{
    mt_parcel_u64(p, m->count);
    const struct mt_hash_slot *s;
    for (size_t i = 0; (s = mt_hash_next(m, &i));)
        mt_parcel_bytes(p, s, sizeof *s);
}

/* Makes the histogram `buckets` long. Returns 0, or -1 without memory. */
static int reuse_lengthen(struct mt_reuse_counts *c, unsigned buckets)
{
    enum { FEW = sizeof c->few / sizeof *c->few };
    const unsigned had = c->buckets;
    if (buckets > FEW) {
        uint64_t *longer = realloc(had > FEW ? c->many : NULL, buckets * sizeof *longer);
        if (!longer)
            return -1;
        if (had <= FEW)
            memcpy(longer, c->few, had * sizeof *longer);
        c->many = longer;
    }
    c->buckets = buckets;
    memset(mt_reuse_histogram(c) + had, 0, (buckets - had) * sizeof *c->few);
    return 0;
}

/* Adds uses to a bucket. Most launches use few of them, so histograms are as long as they need to be. */
static int reuse_add(struct mt_reuse_counts *c, unsigned bucket, uint64_t uses)
{
    if (!uses)
        return 0;
    if (bucket >= c->buckets && reuse_lengthen(c, bucket + 1) != 0)
        return -1;
    mt_reuse_histogram(c)[bucket] += uses;
    return 0;
}

/* Packs the counts; most buckets are empty. */
static void reuse_pack_counts(struct mt_parcel *p, const struct mt_reuse_counts *c)
{
    uint64_t used = 0;
    for (unsigned b = 0; b < c->buckets; b++)
        used |= (uint64_t)(mt_reuse_bucket(c, b) != 0) << b;
    mt_parcel_u64(p, used);
    for (unsigned b = 0; b < c->buckets; b++)
        if (mt_reuse_bucket(c, b))
            mt_parcel_u64(p, mt_reuse_bucket(c, b));
    const uint64_t rest[] = {c->cold, c->contexts, c->lines, c->largest};
    mt_parcel_bytes(p, rest, sizeof rest);
}

static void reuse_unpack_map(struct mt_unpack *u, struct mt_hash *m)
{
    for (size_t n = mt_unpack_count(u, 2 * sizeof(uint64_t)); n > 0 && !u->failed; n--) {
        uint64_t key = mt_unpack_u64(u), count = mt_unpack_u64(u);
        u->failed |= count == 0 || mt_hash_add(m, key, count) != 0;
    }
}

static void reuse_unpack_counts(struct mt_unpack *u, struct mt_reuse_counts *c)
{
    uint64_t used = mt_unpack_u64(u);
    for (unsigned b = 0; b < MT_REUSE_BUCKETS; b++)
        if (used >> b & 1)
            u->failed |= reuse_add(c, b, mt_unpack_u64(u)) != 0;
    c->cold = mt_unpack_u64(u);
    c->contexts = mt_unpack_u64(u);
    c->lines = mt_unpack_u64(u);
    c->largest = mt_unpack_u64(u);
}

static void reuse_launch_pack(struct mt_parcel *p, const struct mt_reuse_launch *l)
{
    mt_parcel_u64(p, l->superstep);
    mt_parcel_u64(p, l->uses);
    mt_parcel_bytes(p, l->sample_bits, sizeof l->sample_bits);
    mt_parcel_bytes(p, l->context_bits, sizeof l->context_bits);
    mt_parcel_bytes(p, l->context_squares, sizeof l->context_squares);
    mt_parcel_u64(p, l->squares);
    for (int level = 0; level < MT_REUSE_LEVELS; level++)
        reuse_pack_counts(p, &l->level[level]);
}

static void reuse_launch_unpack(struct mt_unpack *u, struct mt_reuse_launch *l)
{
    l->superstep = mt_unpack_u64(u);
    l->kernel = mt_unpack_kernel_of(u, l->superstep);
    l->selected = !u->failed && u->launches[l->superstep].selected;
    l->uses = mt_unpack_u64(u);
    mt_unpack_bytes(u, l->sample_bits, sizeof l->sample_bits);
    mt_unpack_bytes(u, l->context_bits, sizeof l->context_bits);
    mt_unpack_bytes(u, l->context_squares, sizeof l->context_squares);
    l->squares = mt_unpack_u64(u);
    for (int level = 0; level < MT_REUSE_LEVELS; level++) {
        u->failed |= l->sample_bits[level] > MT_REUSE_MOST_BITS;
        u->failed |= level < 2 && l->context_bits[level] > MT_REUSE_MOST_BITS;
        reuse_unpack_counts(u, &l->level[level]);
    }
}

static uint64_t reuse_counted(const struct mt_reuse_counts *c)
{
    uint64_t n = c->cold;
    for (unsigned b = 0; b < c->buckets; b++)
        n += mt_reuse_bucket(c, b);
    return n;
}

/* Adjusts the counts to the known number of uses. A sample's error is in the most used lines, which are
 * reused at short distances. */
static int reuse_settle(struct mt_reuse_counts *c, uint64_t uses, int contexts)
{
    uint64_t counted = reuse_counted(c);
    if (contexts && counted) { /* the other contexts are assumed to be like the tracked ones */
        const double part = (double)uses / (double)counted;
        c->cold = (uint64_t)((double)c->cold * part);
        for (unsigned b = 0; b < c->buckets; b++)
            mt_reuse_histogram(c)[b] = (uint64_t)((double)mt_reuse_bucket(c, b) * part);
        counted = reuse_counted(c);
    }
    if (counted < uses && reuse_add(c, 0, uses - counted) != 0)
        return -1;
    for (unsigned b = 0; counted > uses; b++) {
        uint64_t *n = b < c->buckets ? &mt_reuse_histogram(c)[b] : &c->cold;
        const uint64_t less = *n < counted - uses ? *n : counted - uses;
        *n -= less;
        counted -= less;
    }
    return 0;
}

/* Returns the launch with that superstep, which exists. */
static struct mt_reuse_launch *reuse_launch_of(struct mt_reuse *x, uint64_t superstep)
{
    size_t n = MT_FIRST(i, x->count, x->launches[i].superstep > superstep);
    return &x->launches[n ? n - 1 : 0];
}

/* Adjusts the counts to add up to `uses`, after all parts were merged. */
static int reuse_launch_settle(struct mt_reuse_launch *l)
{
    int rc = reuse_settle(&l->level[MT_REUSE_DEVICE], l->uses, 0);
    for (int level = 0; level < 2 && l->selected && rc == 0; level++)
        rc = reuse_settle(&l->level[level], l->uses, l->context_bits[level] != 0);
    return rc;
}

void mt_reuse_launch_free(struct mt_reuse_launch *l)
{
    for (int level = 0; level < MT_REUSE_LEVELS; level++)
        if (mt_reuse_histogram(&l->level[level]) != l->level[level].few)
            free(l->level[level].many);
}

/* FEW: with more contexts than this some are dropped, else lines; WIDE: lines that exceed the caches. */
enum { LANES_AHEAD = 8, FEW = 64, EXACT_BITS = 2, WIDE = 1 << 14 };

/* State of a CTA or SM in a launch. */
struct context {
    struct mt_use_stack stack;
    uint64_t *firsts; /* lines by first use, if the launch began in an earlier part */
    size_t nfirsts, room;
    uint64_t uses;
    int dropped; /* 1: the context is no longer tracked */
};

struct state {
    struct mt_launch_window_state w;
    struct context *contexts[2]; /* by level */
    size_t count[2], room[2];
    struct mt_pairmap index;               /* map from (CTA or SM, level) to index */
    struct mt_hash uses;                   /* uses of the lines that the device tracks */
    unsigned sample_bits[MT_REUSE_LEVELS]; /* sampling of lines; for the device: of `uses` */
    unsigned context_bits[2];              /* sampling of CTAs and SMs */
    uint64_t lines[2], followed[2];        /* lines of tracked contexts; number of these contexts */
    uint64_t last[2];                      /* CTA and SM of the contexts last_index */
    size_t last_index[2];
};

static void reuse_drop(struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    for (int level = 0; level < 2; level++) {
        for (size_t i = 0; i < s->count[level]; i++) {
            use_stack_free(&s->contexts[level][i].stack);
            free(s->contexts[level][i].firsts);
        }
        free(s->contexts[level]);
    }
    mt_pairmap_free(&s->index);
    mt_hash_free(&s->uses);
    free(s);
}

/* Returns the context; a new one reserves as many lines as the previous one has. */
static struct context *reuse_context_of(struct state *s, int level, uint64_t id)
{
    const size_t n = s->count[level];
    if (n && s->last[level] == id)
        return &s->contexts[level][s->last_index[level]];
    uint64_t *i = mt_pairmap_get(&s->index, id, (uint64_t)level, UINT64_MAX);
    if (!i)
        return NULL;
    if (*i == UINT64_MAX) {
        if (mt_grow(&s->contexts[level], &s->room[level], n + 1, sizeof *s->contexts[level]) != 0)
            return NULL;
        struct context *c = &s->contexts[level][n];
        *c = (struct context){0};
        *i = s->count[level]++;
        c->dropped = mt_reuse_zeros(id) < s->context_bits[level];
        s->followed[level] += !c->dropped;
        if (n && !c->dropped && use_stack_expect(&c->stack, c[-1].stack.lines) != 0)
            return NULL;
    }
    s->last[level] = id;
    s->last_index[level] = *i;
    return &s->contexts[level][*i];
}

static int add_first(struct context *c, uint64_t line)
{
    if (mt_grow(&c->firsts, &c->room, c->nfirsts + 1, sizeof *c->firsts) != 0)
        return -1;
    c->firsts[c->nfirsts++] = line;
    return 0;
}

static int add_device_first(struct mt_reuse *x, uint64_t line, size_t launch)
{
    if (x->whole)
        return 0;
    if (mt_grow(&x->firsts, &x->firsts_room, x->nfirsts + 1, sizeof *x->firsts) != 0)
        return -1;
    x->firsts[x->nfirsts++] = (struct mt_reuse_first){line, launch};
    return 0;
}

/* ---- reduction of the tracked lines ---- */

static unsigned reuse_weight(const struct state *s, int level)
{
    return s->sample_bits[level] + s->context_bits[level];
}

static void reuse_tally(struct state *s, int level)
{
    s->lines[level] = s->followed[level] = 0;
    for (size_t i = 0; i < s->count[level]; i++) {
        s->lines[level] += s->contexts[level][i].stack.lines;
        s->followed[level] += !s->contexts[level][i].dropped;
    }
}

struct dropping {
    struct state *s;
    int level;
};

static void reuse_drop_context(void *arg, uint64_t id, uint64_t level, uint64_t index)
{
    const struct dropping *d = arg;
    struct context *c = &d->s->contexts[level][index];
    if ((int)level != d->level || mt_reuse_zeros(id) >= d->s->context_bits[level])
        return;
    use_stack_free(&c->stack);
    free(c->firsts);
    *c = (struct context){.dropped = 1};
}

/* Keeps only lines for which `of` is at least `least`, in their order. Returns 0, or -1 without memory. */
static int reuse_stack_keep(struct mt_use_stack *s, unsigned (*of)(uint64_t line), unsigned least)
{
    struct mt_use_stack some = {0};
    uint64_t line;
    for (uint32_t time = 0; use_stack_next(s, &time, &line);)
        if (of(line) >= least && use_stack_use(&some, line) == MT_STACK_FAILED) {
            use_stack_free(&some);
            return -1;
        }
    use_stack_free(s);
    *s = some;
    return 0;
}

/* Changes the weight of first uses from 2^from to 2^to, and to zero for lines no longer tracked. */
static int reuse_raise_level(struct mt_reuse *x, struct state *s, int level, unsigned lines,
                             unsigned contexts)
{
    uint64_t *cold = &reuse_launch_of(x, s->w.launch.superstep)->level[level].cold;
    const unsigned from = reuse_weight(s, level);
    for (size_t i = 0; i < s->count[level]; i++)
        *cold -= s->contexts[level][i].nfirsts << from;
    if (contexts > s->context_bits[level]) {
        s->context_bits[level] = contexts;
        mt_pairmap_each(&s->index, reuse_drop_context, &(struct dropping){s, level});
    }
    for (size_t i = 0; i < s->count[level] && lines > s->sample_bits[level]; i++) {
        struct context *c = &s->contexts[level][i];
        size_t kept = 0;
        for (size_t k = 0; k < c->nfirsts; k++)
            if (mt_reuse_zeros(c->firsts[k]) >= lines)
                c->firsts[kept++] = c->firsts[k];
        c->nfirsts = kept;
        if (reuse_stack_keep(&c->stack, mt_reuse_zeros, lines) != 0)
            return -1;
    }
    s->sample_bits[level] = lines > s->sample_bits[level] ? lines : s->sample_bits[level];
    for (size_t i = 0; i < s->count[level]; i++)
        *cold += s->contexts[level][i].nfirsts << reuse_weight(s, level);
    reuse_tally(s, level);
    return 0;
}

/* Returns 1 if a level must be reduced. In short runs all lines are tracked. Up to four times as many lines
 * stay exact, also those of CTAs: whole CTAs are better than parts of them. */
static int reuse_is_full(const struct mt_reuse *x, int level, uint64_t lines, unsigned weight)
{
    const unsigned bits = weight && level != MT_REUSE_CTA ? 0 : EXACT_BITS;
    return x->options.sample_lines && lines > (uint64_t)x->options.sample_lines << bits &&
           x->uses > x->options.sample_uses;
}

static int reuse_fit_level(struct mt_reuse *x, struct state *s, int level)
{
    int rc = 0;
    while (rc == 0 && reuse_is_full(x, level, s->lines[level], reuse_weight(s, level)) &&
           s->sample_bits[level] < MT_REUSE_MOST_BITS) {
        const unsigned fewer = s->followed[level] > FEW && s->context_bits[level] < MT_REUSE_MOST_BITS;
        rc = reuse_raise_level(x, s, level, s->sample_bits[level] + !fewer, s->context_bits[level] + fewer);
    }
    return rc;
}

static int reuse_raise_uses(struct state *s, unsigned bits)
{
    if (!s || bits <= s->sample_bits[MT_REUSE_DEVICE])
        return 0;
    s->sample_bits[MT_REUSE_DEVICE] = bits;
    struct mt_hash all = s->uses;
    const struct mt_hash_slot *line;
    int failed = 0;
    s->uses = (struct mt_hash){0};
    for (size_t i = 0; !failed && (line = mt_hash_next(&all, &i));)
        failed = mt_reuse_zeros(line->key) >= bits && mt_hash_add(&s->uses, line->key, line->value) != 0;
    mt_hash_free(&all);
    return failed ? -1 : 0;
}

static int reuse_raise_device(struct mt_reuse *x, unsigned bits)
{
    size_t kept = 0;
    for (size_t i = 0; i < x->nfirsts && bits > x->sample_bits; i++) {
        const struct mt_reuse_first f = x->firsts[i];
        const int keep = mt_reuse_zeros(f.line) >= bits;
        x->launches[f.launch].level[MT_REUSE_DEVICE].cold +=
            (keep ? 1ull << bits : 0) - (1ull << x->sample_bits);
        if (keep)
            x->firsts[kept++] = f;
    }
    if (bits > x->sample_bits) {
        x->nfirsts = kept;
        x->sample_bits = bits;
        if (reuse_stack_keep(&x->device, mt_reuse_zeros, bits) != 0)
            return -1;
    }
    return reuse_raise_uses((struct state *)x->window.tail, x->sample_bits);
}

static int reuse_fit_device(struct mt_reuse *x)
{
    int rc = 0;
    while (rc == 0 && reuse_is_full(x, MT_REUSE_DEVICE, x->device.lines, x->sample_bits) &&
           x->sample_bits < MT_REUSE_MOST_BITS)
        rc = reuse_raise_device(x, x->sample_bits + 1);
    return rc;
}

/* ---- uses ---- */

/* Counts a use, and `again` more at once; each has weight 2^weight. */
static int reuse_count(struct mt_reuse_counts *c, uint64_t distance, unsigned bits, unsigned weight,
                       uint64_t again)
{
    if (distance == MT_STACK_FAILED)
        return -1;
    if (distance == MT_STACK_COLD)
        c->cold += 1ull << weight;
    else if (reuse_add(c, distance ? 64 - (unsigned)__builtin_clzll(distance << bits) : 0, 1ull << weight) !=
             0)
        return -1;
    return reuse_add(c, 0, again << weight);
}

static int reuse_use_level(struct mt_reuse *x, struct state *s, int level, struct context *c, uint64_t line,
                           uint64_t again)
{
    uint64_t distance = use_stack_use(&c->stack, line);
    c->uses += (again + 1) << s->sample_bits[level];
    if (reuse_count(&x->launches[x->count - 1].level[level], distance, s->sample_bits[level],
                    reuse_weight(s, level), again) != 0)
        return -1;
    if (distance != MT_STACK_COLD)
        return 0;
    s->lines[level]++;
    if (!s->w.launch.begins && add_first(c, line) != 0)
        return -1;
    return reuse_fit_level(x, s, level);
}

/* Adds uses by this CTA and SM; NULL: not counted. */
static int reuse_use(struct mt_reuse *x, struct context *const by[2], uint64_t line, uint64_t uses)
{
    struct state *s = (struct state *)x->window.tail;
    struct mt_reuse_launch *l = &x->launches[x->count - 1];
    const unsigned zeros = x->sample_bits | s->sample_bits[0] | s->sample_bits[1] ? mt_reuse_zeros(line) : 64;
    l->uses += uses;
    x->uses += uses;
    for (int level = 0; level < 2 && by[level]; level++)
        if (zeros >= s->sample_bits[level] && !by[level]->dropped &&
            reuse_use_level(x, s, level, by[level], line, uses - 1) != 0)
            return -1;
    if (zeros < x->sample_bits)
        return 0;
    uint64_t distance = use_stack_use(&x->device, line);
    if (mt_hash_add(&s->uses, line, uses) != 0 ||
        reuse_count(&l->level[MT_REUSE_DEVICE], distance, x->sample_bits, x->sample_bits, uses - 1) != 0)
        return -1;
    if (distance != MT_STACK_COLD)
        return 0;
    return add_device_first(x, line, x->count - 1) != 0 ? -1 : reuse_fit_device(x);
}

/* Prefetches lines of irregular lanes, which are not in the caches. Inlined, or gcc drops it. */
MT_ALWAYS_INLINE void reuse_soon(const struct mt_reuse *x, const struct mt_access_run *r, uint32_t from,
                                 uint32_t count)
{
    const struct state *s = (const struct state *)x->window.tail;
    const struct context *sm = s->count[MT_REUSE_SM] && s->last[MT_REUSE_SM] == r->smid
                                   ? &s->contexts[MT_REUSE_SM][s->last_index[MT_REUSE_SM]]
                                   : NULL; /* not created here, because the context may have no tracked use */
    for (uint32_t k = from; k < count; k++) {
        uint64_t line = mt_run_address(r, k) >> x->options.line_bits;
        mt_hash_soon(&s->uses, line);
        mt_use_stack_soon(&x->device, line);
        if (sm)
            mt_use_stack_soon(&sm->stack, line);
    }
}

struct pending { /* a line and its pending uses */
    uint64_t line, uses;
};

/* Adds uses; consecutive uses of one line are joined. */
static int reuse_next(struct mt_reuse *x, struct context *const by[2], struct pending *p, uint64_t line,
                      uint64_t uses)
{
    if (p->uses && p->line == line) {
        p->uses += uses;
        return 0;
    }
    int rc = p->uses ? reuse_use(x, by, p->line, p->uses) : 0;
    *p = (struct pending){line, uses};
    return rc;
}

/* Adds consecutive accesses, line by line. */
static int reuse_row(struct mt_reuse *x, const struct mt_access_run *r, struct context *const by[2],
                     const struct mt_piece *piece, struct pending *p)
{
    const uint64_t size = mt_run_size(r);
    const unsigned bits = x->options.line_bits;
    for (uint64_t at = 0, n; at < piece->bytes; at += n) {
        const uint64_t address = piece->address + at,
                       left = (1ull << bits) - (address & ((1ull << bits) - 1));
        n = piece->bytes - at < left ? piece->bytes - at : left;
        if (reuse_next(x, by, p, address >> bits,
                       piece->accesses == 1 ? 1 : (at + n - 1) / size - at / size + 1) != 0)
            return -1;
    }
    return 0;
}

static int reuse_run(struct mt_reuse *x, const struct mt_access_run *r)
{
    struct pending p = {0, 0};
    struct mt_piece piece;
    struct context *by[2] = {NULL, NULL};
    struct state *s = (struct state *)x->window.tail;
    for (int level = 0; level < 2 && s->w.launch.selected; level++)
        if (!(by[level] = reuse_context_of(s, level, level == MT_REUSE_CTA ? r->cta : r->smid)))
            return -1;
    for (uint32_t at = 0; mt_run_piece(r, &at, &piece);) {
        if (r->addresses && x->device.lines > WIDE && at + LANES_AHEAD <= r->count)
            reuse_soon(x, r, at + LANES_AHEAD - 1, at + LANES_AHEAD);
        if (reuse_row(x, r, by, &piece, &p) != 0)
            return -1;
    }
    return reuse_use(x, by, p.line, p.uses);
}

static int reuse_runs(void *self, const struct mt_access_run *runs, size_t n)
{
    struct mt_reuse *x = self;
    for (size_t i = 0; i < n; i++) {
        const struct mt_access_run *r = &runs[i];
        if (x->device.lines > WIDE) {
            if (i + MT_RUNS_AHEAD < n)
                reuse_soon(x, r + MT_RUNS_AHEAD, 0, 1);
            if (r->addresses)
                reuse_soon(x, r, 0, r->count < LANES_AHEAD ? r->count : LANES_AHEAD);
        }
        if (reuse_run(x, r) != 0)
            return -1;
    }
    return 0;
}

/* ---- launches ---- */

static struct mt_launch_window_state *reuse_make(const struct mt_run_launch *launch)
{
    return mt_launch_window_new(sizeof(struct state), launch);
}

static struct mt_reuse_launch *new_launch(struct mt_reuse *x)
{
    if (mt_grow(&x->launches, &x->room, x->count + 1, sizeof *x->launches) != 0)
        return NULL;
    return memset(&x->launches[x->count++], 0, sizeof *x->launches);
}

static int reuse_launch(void *self, const struct mt_run_launch *launch)
{
    struct mt_reuse *x = self;
    struct mt_launch_window_state *s = reuse_make(launch);
    if (!s || mt_launch_window_next(&x->window, x, s) != 0)
        return -1;
    for (int level = 0; level < MT_REUSE_LEVELS; level++)
        ((struct state *)s)->sample_bits[level] =
            level == MT_REUSE_DEVICE ? x->sample_bits : x->options.sample_bits;
    if (x->count == 0)
        x->whole = launch->superstep == 0 && launch->begins;
    struct mt_reuse_launch *l = new_launch(x);
    if (!l)
        return -1;
    l->superstep = launch->superstep;
    l->kernel = launch->kernel;
    l->selected = launch->selected;
    return reuse_fit_device(x); /* the run may have been short until now */
}

/* ---- launches that are added up ---- */

/* Returns the index of the launch that l is added to, `fresh` if it is the first. NULL without memory. */
static const uint64_t *reuse_row_of(struct mt_reuse *x, const struct mt_reuse_launch *l, uint64_t fresh)
{
    return mt_pairmap_get(&x->rows, (uintptr_t)l->kernel,
                          x->options.by_kernel ? 0 : l->superstep >> x->row_bits, fresh);
}

/* Makes rows of twice as many supersteps until there are few enough. */
static int reuse_coarsen(struct mt_reuse *x)
{
    int rc = 0;
    do {
        size_t n = 0;
        x->row_bits++;
        mt_pairmap_clear(&x->rows);
        for (size_t i = 0; i < x->count && rc == 0; i++) {
            const uint64_t *row = reuse_row_of(x, &x->launches[i], n);
            if (row && *row == n)
                x->launches[n++] = x->launches[i];
            else
                rc = row ? mt_reuse_launch_join(&x->launches[*row], &x->launches[i]) : -1;
        }
        x->count = n;
    } while (rc == 0 && x->count > x->options.rows_most && x->row_bits < 32);
    return rc;
}

/* Adds the launch that ended, which is the last one, to that of its row. */
static int reuse_add_up(struct mt_reuse *x)
{
    struct mt_reuse_launch *l = &x->launches[x->count - 1];
    const int neighbours = !x->options.by_kernel;
    if (!l->selected) {
        mt_reuse_launch_free(l);
        x->count--;
        return 0;
    }
    if (reuse_launch_settle(l) != 0)
        return -1;
    if (neighbours && ++x->closed <= x->options.rows_from + 1)
        return x->closed > x->options.rows_from ? reuse_coarsen(x) : 0;
    const uint64_t *row = reuse_row_of(x, l, x->count - 1);
    if (!row)
        return -1;
    if (*row == x->count - 1)
        return neighbours && x->count > x->options.rows_most ? reuse_coarsen(x) : 0;
    x->count--;
    return mt_reuse_launch_join(&x->launches[*row], l);
}

static int reuse_close_launch(void *arg, struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    struct mt_reuse_launch *l = reuse_launch_of(arg, w->launch.superstep);
    for (int level = 0; level < 2; level++) {
        struct mt_reuse_counts *c = &l->level[level];
        c->contexts = s->count[level];
        for (size_t i = 0; i < s->count[level]; i++) {
            const struct context *one = &s->contexts[level][i];
            uint64_t lines = (uint64_t)one->stack.lines << s->sample_bits[level];
            c->lines += lines << s->context_bits[level];
            l->context_squares[level] += one->uses * one->uses << s->context_bits[level];
            c->largest = lines > c->largest ? lines : c->largest;
        }
    }
    struct mt_reuse_counts *c = &l->level[MT_REUSE_DEVICE];
    c->contexts = 1;
    c->lines = c->largest = (uint64_t)s->uses.count << s->sample_bits[MT_REUSE_DEVICE];
    memcpy(l->sample_bits, s->sample_bits, sizeof l->sample_bits);
    memcpy(l->context_bits, s->context_bits, sizeof l->context_bits);
    const struct mt_hash_slot *line;
    for (size_t i = 0; (line = mt_hash_next(&s->uses, &i));)
        l->squares += line->value * line->value;
    const struct mt_run_options *o = &((struct mt_reuse *)arg)->options;
    return o->by_kernel || o->rows_most ? reuse_add_up(arg) : 0;
}

/* ---- merging ---- */

/* Recounts a cold use of the later part whose line the earlier part may know. */
static int reuse_recount(struct mt_use_stack *stack, uint64_t line, struct mt_reuse_counts *c, unsigned bits,
                         unsigned weight)
{
    uint64_t distance = use_stack_use(stack, line);
    if (distance == MT_STACK_COLD)
        return 1;
    c->cold -= 1ull << weight;
    return reuse_count(c, distance, bits, weight, 0);
}

/* Applies the order of last uses; first uses were handled before. */
static int reuse_replay(struct mt_use_stack *into, const struct mt_use_stack *from)
{
    uint64_t line;
    for (uint32_t time = 0; use_stack_next(from, &time, &line);)
        if (use_stack_use(into, line) == MT_STACK_FAILED)
            return -1;
    return 0;
}

static int merge_context(struct mt_reuse *x, struct state *a, int level, uint64_t id, struct context *from)
{
    struct context *c = reuse_context_of(a, level, id);
    struct mt_reuse_launch *l = reuse_launch_of(x, a->w.launch.superstep);
    if (!c || c->dropped)
        return c ? 0 : -1;
    c->uses += from->uses;
    for (size_t i = 0; i < from->nfirsts; i++) {
        int cold = reuse_recount(&c->stack, from->firsts[i], &l->level[level], a->sample_bits[level],
                                 reuse_weight(a, level));
        if (cold < 0 || (cold && !a->w.launch.begins && add_first(c, from->firsts[i]) != 0))
            return -1;
    }
    return reuse_replay(&c->stack, &from->stack);
}

static unsigned reuse_more(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Reduces both states to the coarser sampling of the two. */
static int reuse_even_level(struct mt_reuse *x, struct state *a, struct state *b, int level)
{
    const unsigned lines = reuse_more(a->sample_bits[level], b->sample_bits[level]),
                   contexts = reuse_more(a->context_bits[level], b->context_bits[level]);
    int rc = reuse_raise_level(x, a, level, lines, contexts);
    return rc ? rc : reuse_raise_level(x, b, level, lines, contexts);
}

struct merging {
    struct mt_reuse *x;
    struct state *into, *from;
    int failed;
};

static void merge_one(void *arg, uint64_t id, uint64_t level, uint64_t index)
{
    struct merging *m = arg;
    if (merge_context(m->x, m->into, (int)level, id, &m->from->contexts[level][index]) != 0)
        m->failed = 1;
}

static int reuse_merge_launch(void *arg, struct mt_launch_window_state *into,
                              struct mt_launch_window_state *from)
{
    struct merging m = {arg, (struct state *)into, (struct state *)from, 0};
    if (reuse_even_level(m.x, m.into, m.from, MT_REUSE_CTA) != 0 ||
        reuse_even_level(m.x, m.into, m.from, MT_REUSE_SM) != 0 ||
        reuse_raise_uses(m.into, m.from->sample_bits[MT_REUSE_DEVICE]) != 0 ||
        reuse_raise_uses(m.from, m.into->sample_bits[MT_REUSE_DEVICE]) != 0)
        return -1;
    mt_pairmap_each(&m.from->index, merge_one, &m);
    const struct mt_hash_slot *line;
    for (size_t i = 0; (line = mt_hash_next(&m.from->uses, &i));)
        m.failed |= mt_hash_add(&m.into->uses, line->key, line->value) != 0;
    for (int level = 0; level < 2; level++) {
        reuse_tally(m.into, level);
        m.failed |= reuse_fit_level(m.x, m.into, level) != 0;
    }
    return m.failed ? -1 : 0;
}

static int add_counts(struct mt_reuse_launch *into, const struct mt_reuse_launch *from)
{
    int rc = 0;
    into->uses += from->uses;
    for (int level = 0; level < MT_REUSE_LEVELS; level++) {
        const struct mt_reuse_counts *c = &from->level[level];
        for (unsigned b = 0; b < c->buckets && rc == 0; b++)
            rc = reuse_add(&into->level[level], b, mt_reuse_bucket(c, b));
        into->level[level].cold += c->cold;
    }
    return rc;
}

int mt_reuse_launch_join(struct mt_reuse_launch *into, struct mt_reuse_launch *from)
{
    int rc = add_counts(into, from);
    into->squares += from->squares;
    for (int i = 0; i < 2; i++) {
        into->context_squares[i] += from->context_squares[i];
        into->context_bits[i] = reuse_more(into->context_bits[i], from->context_bits[i]);
    }
    for (int i = 0; i < MT_REUSE_LEVELS; i++) {
        struct mt_reuse_counts *to = &into->level[i], *c = &from->level[i];
        into->sample_bits[i] = reuse_more(into->sample_bits[i], from->sample_bits[i]);
        to->contexts += c->contexts;
        to->lines += c->lines;
        to->largest = c->largest > to->largest ? c->largest : to->largest;
    }
    mt_reuse_launch_free(from);
    return rc;
}

/* Moves the launches of `from` to the end of those of `into`; *first is the index of the first one. */
static int append_launches(struct mt_reuse *into, struct mt_reuse *from, size_t *first)
{
    size_t i = 0;
    int rc = 0;
    *first = into->count;
    if (into->count && from->launches[0].superstep == into->launches[into->count - 1].superstep) {
        --*first;
        rc = add_counts(&into->launches[*first], &from->launches[0]);
        mt_reuse_launch_free(&from->launches[0]);
        i = 1;
    }
    for (; i < from->count && rc == 0; i++) {
        struct mt_reuse_launch *l = new_launch(into);
        rc = l ? 0 : -1;
        if (l)
            *l = from->launches[i];
    }
    for (; i < from->count; i++)
        mt_reuse_launch_free(&from->launches[i]);
    from->count = 0;
    return rc;
}

static int reuse_merge(void *self, void *other)
{
    struct mt_reuse *into = self, *from = other;
    size_t first;
    if (from->count == 0)
        return 0;
    if (into->count == 0)
        into->whole = from->whole;
    into->uses += from->uses;
    const unsigned bits = reuse_more(into->sample_bits, from->sample_bits);
    if (reuse_raise_device(into, bits) != 0 || reuse_raise_device(from, bits) != 0 ||
        append_launches(into, from, &first) != 0)
        return -1;
    for (size_t i = 0; i < from->nfirsts; i++) {
        const struct mt_reuse_first *f = &from->firsts[i];
        int cold = reuse_recount(&into->device, f->line,
                                 &into->launches[first + f->launch].level[MT_REUSE_DEVICE], bits, bits);
        if (cold < 0 || (cold && add_device_first(into, f->line, first + f->launch) != 0))
            return -1;
    }
    if (reuse_replay(&into->device, &from->device) != 0)
        return -1;
    /* The states refer to their launches by superstep; the window closes launches that are whole. */
    return mt_launch_window_merge(&into->window, into, &from->window) != 0 ||
                   reuse_raise_device(into, into->sample_bits) != 0
               ? -1
               : reuse_fit_device(into);
}

/* ---- packing ---- */

struct packing {
    struct mt_parcel *p;
    const struct state *s;
};

static void reuse_pack_stack(struct mt_parcel *p, const struct mt_use_stack *s)
{
    uint64_t line;
    mt_parcel_u64(p, s->lines);
    for (uint32_t time = 0; use_stack_next(s, &time, &line);)
        mt_parcel_u64(p, line);
}

static void pack_context(void *arg, uint64_t id, uint64_t level, uint64_t index)
{
    const struct packing *k = arg;
    const struct context *c = &k->s->contexts[level][index];
    const uint64_t head[] = {id, level, c->uses, c->nfirsts};
    mt_parcel_bytes(k->p, head, sizeof head);
    mt_parcel_bytes(k->p, c->firsts, c->nfirsts * sizeof *c->firsts);
    reuse_pack_stack(k->p, &c->stack);
}

static void reuse_pack_state(struct mt_parcel *p, const struct mt_launch_window_state *w)
{
    const struct state *s = (const struct state *)w;
    mt_parcel_bytes(p, s->sample_bits, sizeof s->sample_bits);
    mt_parcel_bytes(p, s->context_bits, sizeof s->context_bits);
    mt_parcel_u64(p, s->index.count);
    mt_pairmap_each(&s->index, pack_context, &(struct packing){p, s});
    reuse_pack_map(p, &s->uses);
}

static void reuse_unpack_bits(struct mt_unpack *u, unsigned *bits, size_t n)
{
    mt_unpack_bytes(u, bits, n * sizeof *bits);
    for (size_t i = 0; i < n; i++)
        u->failed |= bits[i] > MT_REUSE_MOST_BITS;
}

static void reuse_unpack_stack(struct mt_unpack *u, struct mt_use_stack *s)
{
    for (size_t n = mt_unpack_count(u, sizeof(uint64_t)); n > 0 && !u->failed; n--)
        u->failed |= use_stack_use(s, mt_unpack_u64(u)) == MT_STACK_FAILED;
}

static void reuse_unpack_state(struct mt_unpack *u, struct mt_launch_window_state *w)
{
    struct state *s = (struct state *)w;
    reuse_unpack_bits(u, s->sample_bits, MT_REUSE_LEVELS);
    reuse_unpack_bits(u, s->context_bits, 2);
    for (size_t n = mt_unpack_count(u, 5 * sizeof(uint64_t)); n > 0 && !u->failed; n--) {
        uint64_t id = mt_unpack_u64(u), level = mt_unpack_u64(u), uses = mt_unpack_u64(u);
        size_t firsts = mt_unpack_count(u, sizeof(uint64_t));
        struct context *c = level < 2 ? reuse_context_of(s, (int)level, id) : NULL;
        if ((u->failed |= !c || c->firsts))
            break;
        c->uses = uses;
        c->firsts = mt_unpack_array(u, firsts, sizeof *c->firsts);
        c->nfirsts = c->room = firsts;
        reuse_unpack_stack(u, &c->stack);
    }
    reuse_unpack_map(u, &s->uses);
    reuse_tally(s, MT_REUSE_CTA);
    reuse_tally(s, MT_REUSE_SM);
}

static const struct mt_launch_window_ops ops = {reuse_merge_launch, reuse_close_launch, reuse_drop,
                                                reuse_pack_state,   reuse_make,         reuse_unpack_state};

static int reuse_init(void *self, const struct mt_run_options *o)
{
    struct mt_reuse *x = self;
    memset(x, 0, sizeof *x);
    x->options = *o;
    x->sample_bits = o->sample_bits;
    x->window.ops = &ops;
    return 0;
}

static void reuse_pack(struct mt_parcel *p, const void *self)
{
    const struct mt_reuse *x = self;
    mt_parcel_u64(p, x->count);
    for (size_t i = 0; i < x->count; i++)
        reuse_launch_pack(p, &x->launches[i]);
    mt_parcel_u64(p, (uint64_t)x->whole);
    mt_parcel_u64(p, x->uses);
    mt_parcel_bytes(p, &x->sample_bits, sizeof x->sample_bits);
    mt_parcel_u64(p, x->nfirsts);
    mt_parcel_bytes(p, x->firsts, x->nfirsts * sizeof *x->firsts);
    reuse_pack_stack(p, &x->device);
    mt_launch_window_pack(p, &x->window);
}

static void reuse_unpack(struct mt_unpack *u, void *self)
{
    struct mt_reuse *x = self;
    for (size_t n = mt_unpack_count(u, 3 * sizeof(uint64_t)); n > 0 && !u->failed; n--) {
        struct mt_reuse_launch *l = new_launch(x);
        if ((u->failed |= !l))
            break;
        reuse_launch_unpack(u, l);
    }
    x->whole = mt_unpack_u64(u) != 0;
    x->uses = mt_unpack_u64(u);
    reuse_unpack_bits(u, &x->sample_bits, 1);
    x->nfirsts = mt_unpack_count(u, sizeof *x->firsts);
    x->firsts = mt_unpack_array(u, x->nfirsts, sizeof *x->firsts);
    x->firsts_room = x->nfirsts;
    reuse_unpack_stack(u, &x->device);
    mt_launch_window_unpack(u, &x->window);
}

static int reuse_finish(void *self)
{
    struct mt_reuse *x = self;
    int rc = mt_launch_window_finish(&x->window, x);
    for (size_t i = 0; i < x->count && rc == 0; i++)
        rc = reuse_launch_settle(&x->launches[i]);
    return rc;
}

static void reuse_free(void *self)
{
    struct mt_reuse *x = self;
    mt_launch_window_free(&x->window);
    use_stack_free(&x->device);
    free(x->firsts);
    mt_pairmap_free(&x->rows);
    for (size_t i = 0; i < x->count; i++)
        mt_reuse_launch_free(&x->launches[i]);
    free(x->launches);
    memset(x, 0, sizeof *x);
}

const struct mt_analysis mt_reuse_analysis = {
    .init = reuse_init,
    .launch = reuse_launch,
    .runs = reuse_runs,
    .merge = reuse_merge,
    .finish = reuse_finish,
    .pack = reuse_pack,
    .unpack = reuse_unpack,
    .free = reuse_free,
};
