/* What a byte has seen of one launch, as a number: equal for all bytes that saw the same. */
#include "byte_states.h"
#include "memtrace/grow.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDES = 4096 }; /* of one byte: lines of one program */

static uint64_t byte_states_mixed(uint64_t h, uint64_t n)
{
    h = mt_hash_number(h ^ n);
    return h ^ h >> 29;
}

static uint64_t byte_states_hash(const struct mt_byte_side *sides, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = byte_states_mixed(byte_states_mixed(byte_states_mixed(h, sides[i].side), sides[i].cta[0]),
                              sides[i].cta[1]);
    return h;
}

static int byte_states_equal(const struct mt_byte_side *a, const struct mt_byte_side *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].side != b[i].side || a[i].cta[0] != b[i].cta[0] || a[i].cta[1] != b[i].cta[1])
            return 0;
    return 1;
}

static int make_room(struct mt_byte_states *s, size_t sides)
{
    if (mt_grow(&s->sides, &s->sides_room, s->nsides + sides, sizeof *s->sides) != 0 ||
        mt_grow(&s->states, &s->states_room, s->nstates + 1, sizeof *s->states) != 0)
        return -1;
    return s->nstates < MT_STATE_FAILED ? 0 : -1;
}

uint32_t mt_byte_states_intern(struct mt_byte_states *s, const struct mt_byte_side *sides, size_t n)
{
    uint64_t known, key = byte_states_hash(sides, n);
    for (; (known = mt_hash_find(&s->numbers, key)); key++) {
        const struct mt_byte_state *t = &s->states[known];
        if (t->count == n && byte_states_equal(s->sides + t->first, sides, n))
            return (uint32_t)known;
    }
    if (make_room(s, n) != 0 || mt_hash_put(&s->numbers, key, s->nstates) != 0)
        return MT_STATE_FAILED;
    s->states[s->nstates] = (struct mt_byte_state){s->nsides, n};
    memcpy(s->sides + s->nsides, sides, n * sizeof *sides);
    s->nsides += n;
    return (uint32_t)s->nstates++;
}

int mt_byte_states_init(struct mt_byte_states *s)
{
    memset(s, 0, sizeof *s);
    if (make_room(s, 0) != 0) {
        mt_byte_states_free(s);
        return -1;
    }
    s->states[s->nstates++] = (struct mt_byte_state){0};
    return 0;
}

static void add_cta(struct mt_byte_side *b, uint64_t cta)
{
    if (cta < b->cta[0]) {
        b->cta[1] = b->cta[0];
        b->cta[0] = cta;
    } else if (cta != b->cta[0] && (b->cta[1] == b->cta[0] || cta < b->cta[1])) {
        b->cta[1] = cta;
    }
}

static uint32_t byte_states_step(struct mt_byte_states *s, uint32_t state, uint32_t side, uint64_t cta)
{
    struct mt_byte_side sides[MOST_SIDES + 1];
    size_t n = s->states[state].count, i = 0;
    if (n)
        memcpy(sides, s->sides + s->states[state].first, n * sizeof *sides);
    while (i < n && sides[i].side < side)
        i++;
    if (i == n || sides[i].side != side) {
        if (n == MOST_SIDES)
            return MT_STATE_FAILED;
        memmove(sides + i + 1, sides + i, (n - i) * sizeof *sides);
        memset(&sides[i], 0, sizeof *sides);
        sides[i] = (struct mt_byte_side){{cta, cta}, side};
        n++;
    } else {
        add_cta(&sides[i], cta);
    }
    return mt_byte_states_intern(s, sides, n);
}

uint32_t mt_byte_states_step(struct mt_byte_states *s, uint32_t state, uint32_t side, uint64_t cta)
{
    uint64_t *known = mt_pairmap_get(&s->steps, (uint64_t)state << 32 | side, cta, MT_STATE_FAILED);
    if (!known)
        return MT_STATE_FAILED;
    if (*known == MT_STATE_FAILED)
        *known = byte_states_step(s, state, side, cta);
    return (uint32_t)*known;
}

void mt_byte_states_free(struct mt_byte_states *s)
{
    free(s->sides);
    free(s->states);
    mt_hash_free(&s->numbers);
    mt_pairmap_free(&s->steps);
    memset(s, 0, sizeof *s);
}
