/* The table of address ranges: a run of requests in an order that a generator gives, against an array with
 * one cell for each address; and so many ranges that a table which moves all of them would not end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <stdint.h>
#include "trace/ranges.h"

enum { SPACE = 1 << 16, MANY = 1 << 19 };

static uint64_t ranges_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return *seed >> 33;
}

/* The cells of a range have its beginning + 1. */
static uint32_t cell[SPACE];

static void ranges_put(struct mt_ranges *t, uint32_t base, uint32_t bytes)
{
    int free = 1;
    for (uint32_t i = base; i < base + bytes; i++)
        free = free && !cell[i];
    assert_int_equal(mt_ranges_add(t, base, bytes, &cell[base]), free ? 0 : EEXIST);
    for (uint32_t i = base; free && i < base + bytes; i++)
        cell[i] = base + 1;
}

static void ranges_drop(struct mt_ranges *t, uint32_t base)
{
    struct mt_range r;
    int there = cell[base] == base + 1;
    assert_int_equal(mt_ranges_take(t, base, &r), there);
    for (uint32_t i = base; there && i < SPACE && cell[i] == base + 1; i++)
        cell[i] = 0;
}

static void ranges_look(struct mt_ranges *t, uint32_t at)
{
    struct mt_range r, below, above;
    uint32_t low = at, high = at + 1;
    assert_int_equal(mt_ranges_find(t, at, &r), cell[at] != 0);
    if (cell[at])
        assert_true(r.base + 1 == cell[at] && r.data == &cell[r.base]);
    while (low && !cell[low])
        low--;
    while (high < SPACE && (!cell[high] || cell[high] == cell[at]))
        high++;
    mt_ranges_around(t, at, &below, &above);
    assert_true(cell[low] ? below.base + 1 == cell[low] : !below.bytes);
    assert_true(high < SPACE ? above.base == high : !above.bytes);
}

static void random_ranges(void **state)
{
    struct mt_ranges t = MT_RANGES_INIT;
    struct mt_range r;
    uint64_t seed = 3, last = UINT64_MAX;
    (void)state;
    for (int i = 0; i < 60000; i++) {
        uint32_t at = (uint32_t)ranges_next(&seed) % (SPACE - 8);
        if (ranges_next(&seed) % 3)
            ranges_put(&t, at, 1 + (uint32_t)ranges_next(&seed) % 8);
        else
            ranges_drop(&t, cell[at] ? cell[at] - 1 : at);
        ranges_look(&t, (uint32_t)ranges_next(&seed) % SPACE);
    }
    for (; mt_ranges_pop(&t, &r); last = r.base) {
        assert_true(r.base < last && cell[r.base] == r.base + 1);
        for (uint64_t i = r.base; i < r.base + r.bytes; i++)
            cell[i] = 0;
    }
    for (int i = 0; i < SPACE; i++)
        assert_int_equal(cell[i], 0);
}

/* In an order that is neither up nor down: an odd factor gives each number once. */
static void many_ranges(void **state)
{
    struct mt_ranges t = MT_RANGES_INIT;
    struct mt_range r;
    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(mt_ranges_add(&t, i * 40503u % MANY * 16, 16, NULL), 0);
    assert_true(mt_ranges_find(&t, 16 * MANY - 1, &r) && r.base == 16 * (MANY - 1));
    for (uint32_t i = 0; i < MANY; i++)
        assert_true(mt_ranges_take(&t, i * 9973u % MANY * 16, &r));
    assert_false(mt_ranges_pop(&t, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_ranges), cmocka_unit_test(many_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
