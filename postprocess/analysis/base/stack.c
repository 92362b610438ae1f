/* Uses of lines in order, and for each how many other lines were used since the last use of the same one:
 * the position in a list by last use ("LRU stack"). */
#include "stack.h"
#include "counting.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 };

MT_ALWAYS_INLINE size_t slot_of(const struct mt_use_stack *s, uint64_t line)
{
    size_t mask = ((size_t)1 << s->bits) - 1;
    size_t i = mt_use_stack_place(s, line);
    while (s->slot[i].time && s->slot[i].line != line)
        i = (i + 1) & mask;
    return i;
}

/* ---- times ---- */

/* Sums have levels: a counter for each word of `alive`, one for 16 of them, and so on until 16 are left. A
 * level is filled up to whole groups of 16, which are added up at once. The word of the last use is not in
 * them yet: most uses come and go there. */
MT_ALWAYS_INLINE uint32_t whole_groups(uint32_t n)
{
    return (n + 15) & ~15u;
}

static size_t stack_counters(uint32_t words)
{
    uint32_t n = whole_groups(words);
    size_t all = n;
    while (n > 16)
        all += n = whole_groups(n >> 4);
    return all;
}

MT_ALWAYS_INLINE void tree_add(struct mt_use_stack *s, uint32_t w, uint32_t d)
{
    uint32_t *c = s->tree;
    for (uint32_t n = whole_groups(s->cap / 64 + 1);; n = whole_groups(n >> 4), w >>= 4) {
        c[w] += d;
        if (n == 16)
            break;
        c += n;
    }
}

/* The first k of a group; without branches, k being anything. */
MT_ALWAYS_INLINE uint32_t sum_of(const uint32_t *group, uint32_t k)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 16; i++)
        sum += i < k ? group[i] : 0;
    return sum;
}

/* Takes one from word w; how many there are in the words before it. */
MT_ALWAYS_INLINE uint32_t tree_take(struct mt_use_stack *s, uint32_t w)
{
    uint32_t *c = s->tree, before = 0;
    for (uint32_t n = whole_groups(s->cap / 64 + 1);; n = whole_groups(n >> 4), w >>= 4) {
        before += sum_of(c + (w & ~15u), w & 15);
        c[w]--;
        if (n == 16)
            break;
        c += n;
    }
    return before;
}

/* The line used last at `time` is used again: how many others since. */
MT_ALWAYS_INLINE uint32_t stack_again(struct mt_use_stack *s, uint32_t time)
{
    const uint32_t w = time / 64;
    const uint64_t bit = 1ull << time % 64;
    const uint32_t since = (uint32_t)__builtin_popcountll(s->alive[w] & ~(bit | (bit - 1)));
    const uint32_t in_word = w == s->now / 64 ? 0 : (uint32_t)__builtin_popcountll(s->alive[w]);
    s->alive[w] &= ~bit;
    return w == s->now / 64 ? since : s->lines - tree_take(s, w) - in_word + since;
}

/* The next time is the last use of a line. */
MT_ALWAYS_INLINE void stack_bear(struct mt_use_stack *s)
{
    const uint32_t w = s->now / 64;
    if ((++s->now & 63) == 0 && s->alive[w])
        tree_add(s, w, (uint32_t)__builtin_popcountll(s->alive[w]));
    s->alive[s->now / 64] |= 1ull << s->now % 64;
}

/* Makes room for times: those that are not a last use any more are removed, and the list gets room for four
 * times its lines. */
static int stack_compact(struct mt_use_stack *s)
{
    struct mt_use_stack t = *s;
    if (s->lines > MOST)
        return -1;
    t.cap = s->lines < 16 ? 63 : (s->lines / (s->lines < MOST / 4 ? 16 : 32) + 1) * 64 - 1;
    t.at = malloc(((size_t)t.cap + 1) * sizeof *t.at);
    t.alive = calloc(t.cap / 64 + 1, sizeof *t.alive);
    t.tree = calloc(stack_counters(t.cap / 64 + 1), sizeof *t.tree);
    if (!t.at || !t.alive || !t.tree) {
        free(t.at);
        free(t.alive);
        free(t.tree);
        return -1;
    }
    t.now = 0;
    for (uint32_t w = 0; s->at && w <= s->now / 64; w++)
        for (uint64_t bits = s->alive[w]; bits; bits &= bits - 1) {
            const uint32_t slot = s->at[w * 64 + (uint32_t)__builtin_ctzll(bits)];
            stack_bear(&t);
            t.at[t.now] = slot;
            t.slot[slot].time = t.now;
        }
    free(s->at);
    free(s->alive);
    free(s->tree);
    *s = t;
    return 0;
}

/* ---- lines ---- */

static int stack_grow(struct mt_use_stack *s)
{
    struct mt_use_stack t = *s;
    t.bits =
        !s->slot ? 4 : s->bits + (s->bits < 12 ? 2 : 1); /* there are many small ones, which grow often */
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
    free(s->at);
    free(s->alive);
    free(s->tree);
    memset(s, 0, sizeof *s);
}
