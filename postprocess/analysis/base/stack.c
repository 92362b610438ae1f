/* LRU stack: for each use of a line, the number of other lines used since its previous use. */
#include "stack.h"
#include "counting.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 };

MT_ALWAYS_INLINE size_t slot_of(const struct mt_use_stack *s, uint64_t line)
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
            const size_t to = slot_of(&t, s->slot[i].line);
            t.slot[to] = s->slot[i];
            t.at[s->slot[i].time] = (uint32_t)to;
        }
    free(s->slot);
    *s = t;
    return 0;
}

int mt_use_stack_expect(struct mt_use_stack *s, uint32_t lines)
{
    if (s->slot || lines < 8 || lines > MOST / 4)
        return 0;
    s->bits = 32 - (unsigned)__builtin_clz(2 * lines);
    s->slot = calloc((size_t)1 << s->bits, sizeof *s->slot);
    return s->slot ? stack_times(s, lines) : -1;
}

MT_WITH_COUNTING uint64_t mt_use_stack_use(struct mt_use_stack *s, uint64_t line)
{
    if (s->lines && s->slot[s->at[s->now]].line == line)
        return 0;
    if ((!s->slot || ((size_t)s->lines + 1) * 2 > (size_t)1 << s->bits) && stack_grow(s) != 0)
        return MT_STACK_FAILED;
    if ((!s->at || s->now == s->cap) && stack_compact(s) != 0)
        return MT_STACK_FAILED;
    const size_t slot = slot_of(s, line);
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

int mt_use_stack_next(const struct mt_use_stack *s, uint32_t *time, uint64_t *line)
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

void mt_use_stack_free(struct mt_use_stack *s)
{
    free(s->slot);
    free(s->tree);
    memset(s, 0, sizeof *s);
}
