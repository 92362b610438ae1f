/* Small blocks of device memory: a run of requests in an order that a generator gives, against a list of what
 * is out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <string.h>
#include "api/tables/arena.h"

#define MOST 300
struct out {
    unsigned char *p, mark;
    size_t bytes;
    struct mt_segment *from;
};

static uint64_t arena_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return *seed >> 33;
}

static void arena_put(struct out *o)
{
    for (size_t i = 0; i < o->bytes; i += 97) /* nobody else wrote here */
        assert_int_equal(o->p[i], o->mark);
    assert_int_equal(o->p[o->bytes - 1], o->mark);
    mt_arena_put(o->from, o->p, o->bytes);
    o->p = NULL;
}

static void arena_get(struct out *o, uint64_t *seed)
{
    static const size_t aligns[] = {512, 512, 512, 4096, 65536};
    size_t align = aligns[arena_next(seed) % 5];
    o->bytes = arena_next(seed) % 4 ? 1 + arena_next(seed) % 3000 : 1 + arena_next(seed) % MT_ARENA_MOST;
    o->mark = (unsigned char)arena_next(seed);
    o->p = mt_arena_get(o->bytes, align, &o->from);
    assert_non_null(o->p);
    assert_int_equal((uintptr_t)o->p % align, 0);
    memset(o->p, o->mark, o->bytes);
}

static void random_requests(void **state)
{
    static struct out out[MOST];
    uint64_t seed = 7;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct out *o = &out[arena_next(&seed) % MOST];
        if (o->p)
            arena_put(o);
        else
            arena_get(o, &seed);
    }
    for (int i = 0; i < MOST; i++)
        if (out[i].p)
            arena_put(&out[i]);
    assert_true(mt_arena_segments() <= 1);
}

/* What was given back is given out again, and blocks fill a segment to its end. */
static void arena_space(void **state)
{
    enum { N = MT_ARENA_SEGMENT / 8192 };
    struct out o[N], one;
    (void)state;
    for (int i = 0; i < N; i++)
        o[i].p = mt_arena_get(8192, 512, &o[i].from);
    assert_int_equal(mt_arena_segments(), 1);
    one.p = mt_arena_get(1, 512, &one.from);
    assert_int_equal(mt_arena_segments(), 2);
    mt_arena_put(o[5].from, o[5].p, 8192);
    unsigned char *again = mt_arena_get(8192, 512, &o[5].from);
    assert_true(again == o[5].p || o[5].from == one.from);
    o[5].p = again;
    for (int i = 0; i < N; i++)
        mt_arena_put(o[i].from, o[i].p, 8192);
    mt_arena_put(one.from, one.p, 1);
    assert_true(mt_arena_segments() <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_requests), cmocka_unit_test(arena_space)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
