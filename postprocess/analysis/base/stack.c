/* Uses of lines in order, and for each how many other lines were used since the last use of the same one:
 * the position in a list by last use ("LRU stack"). */
#include "stack.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 30 };

static size_t slot_of(const struct mt_use_stack *s, uint64_t line)
{
    size_t mask = ((size_t)1 << s->bits) - 1;
    size_t i = mt_use_stack_place(s, line);
    while (s->slot[i].time && s->slot[i].line != line)
        i = (i + 1) & mask;
    return i;
}

struct mt_use_stack_entry *mt_use_stack_find(const struct mt_use_stack *s, uint64_t line)
{
    if (!s->slot)
        return NULL;
    struct mt_use_stack_entry *e = &s->slot[slot_of(s, line)];
    return e->time ? e : NULL;
}

/* ---- times ---- */

/* Sums have levels: a counter for each word of `alive`, one for 16 of them, and so on until 16 are left. A
 * level is filled up to whole groups of 16, which are added up at once. */
static uint32_t whole_groups(uint32_t n)
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

static void tree_add(struct mt_use_stack *s, uint32_t time, uint32_t d)
{
    uint32_t *c = s->tree, w = time / 64;
    for (uint32_t n = whole_groups(s->cap / 64 + 1);; n = whole_groups(n >> 4), w >>= 4) {
        c[w] += d;
        if (n == 16)
            break;
        c += n;
    }
}

/* The first k of a group; without branches, k being anything. */
static inline uint32_t sum_of(const uint32_t *group, uint32_t k)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 16; i++)
        sum += i < k ? group[i] : 0;
    return sum;
}

static void stack_bear(struct mt_use_stack *s, uint32_t time)
{
    s->alive[time / 64] |= 1ull << time % 64;
    tree_add(s, time, 1);
}

static void stack_end(struct mt_use_stack *s, uint32_t time)
{
    s->alive[time / 64] &= ~(1ull << time % 64);
    tree_add(s, time, (uint32_t)-1);
}

/* Lines used last at this time or before. */
static uint32_t rank_of(const struct mt_use_stack *s, uint32_t time)
{
    uint32_t n = (uint32_t)__builtin_popcountll(s->alive[time / 64] & ~0ull >> (63 - time % 64));
    const uint32_t *c = s->tree;
    uint32_t w = time / 64;
    for (uint32_t size = whole_groups(s->cap / 64 + 1);; size = whole_groups(size >> 4), w >>= 4) {
        n += sum_of(c + (w & ~15u), w & 15);
        if (size == 16)
            break;
        c += size;
    }
    return n;
}

/* Makes room for times: those that are not a last use any more are removed,
 * and the list gets room for twice its lines. */
static int stack_compact(struct mt_use_stack *s)
{
    if (s->lines > MOST)
        return -1;
    struct mt_use_stack t = *s;
    t.cap = s->lines < 16 ? 63 : (s->lines / 32 + 1) * 64 - 1;
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
    uint64_t line;
    for (uint32_t time = 0; mt_use_stack_next(s, &time, &line);) {
        t.at[++t.now] = line;
        t.alive[t.now / 64] |= 1ull << t.now % 64;
        t.slot[slot_of(&t, line)].time = t.now;
    }
    for (uint32_t w = 0; w <= t.cap / 64; w++)
        if (t.alive[w])
            tree_add(&t, w * 64, (uint32_t)__builtin_popcountll(t.alive[w]));
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
    t.bits = s->slot ? s->bits + 1 : 4;
    t.slot = calloc((size_t)1 << t.bits, sizeof *t.slot);
    if (!t.slot)
        return -1;
    for (size_t i = 0; s->slot && i < (size_t)1 << s->bits; i++)
        if (s->slot[i].time)
            t.slot[slot_of(&t, s->slot[i].line)] = s->slot[i];
    free(s->slot);
    *s = t;
    return 0;
}

uint64_t mt_use_stack_use(struct mt_use_stack *s, uint64_t line)
{
    if (s->lines && s->at[s->now] == line)
        return 0;
    if ((!s->slot || ((size_t)s->lines + 1) * 2 > (size_t)1 << s->bits) && stack_grow(s) != 0)
        return MT_STACK_FAILED;
    if ((!s->at || s->now == s->cap) && stack_compact(s) != 0)
        return MT_STACK_FAILED;
    struct mt_use_stack_entry *e = &s->slot[slot_of(s, line)];
    uint64_t distance = MT_STACK_COLD;
    if (e->time) {
        distance = s->lines - rank_of(s, e->time);
        stack_end(s, e->time);
    } else {
        *e = (struct mt_use_stack_entry){.line = line};
        s->lines++;
    }
    e->time = ++s->now;
    s->at[s->now] = line;
    stack_bear(s, s->now);
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
    *line = s->at[*time];
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
