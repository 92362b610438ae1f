/* Small blocks of device memory: a run of requests in an order that a generator gives, against a list of what
 * is out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
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

/* Of blocks that were given back, those whose memory is still there lie in one segment. */
static void one_stays(unsigned char *const *p, int n)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < n; i++) {
        uintptr_t page = (uintptr_t)p[i] & ~(uintptr_t)4095;
        unsigned char there;
        if (mincore((void *)page, 1, &there))
            continue;
        low = page < low ? page : low;
        high = page > high ? page : high;
    }
    assert_true(low > high || high - low < MT_ARENA_SEGMENT);
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
    unsigned char *was[MOST];
    int n = 0;
    for (int i = 0; i < MOST; i++)
        if (out[i].p) {
            was[n++] = out[i].p;
            arena_put(&out[i]);
        }
    one_stays(was, n);
}

/* What was given back is given out again, and blocks fill a segment to its end. */
static void arena_space(void **state)
{
    enum { N = MT_ARENA_SEGMENT / 8192 };
    struct out o[N], one;
    (void)state;
    for (int i = 0; i < N; i++)
        o[i].p = mt_arena_get(8192, 512, &o[i].from);
    for (int i = 1; i < N; i++)
        assert_ptr_equal(o[i].from, o[0].from);
    one.p = mt_arena_get(1, 512, &one.from);
    assert_ptr_not_equal(one.from, o[0].from);
    mt_arena_put(o[5].from, o[5].p, 8192);
    unsigned char *again = mt_arena_get(8192, 512, &o[5].from);
    assert_true(again == o[5].p || o[5].from == one.from);
    o[5].p = again;
    for (int i = 0; i < N; i++)
        mt_arena_put(o[i].from, o[i].p, 8192);
    mt_arena_put(one.from, one.p, 1);
    one_stays((unsigned char *[]){o[0].p, one.p}, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_requests), cmocka_unit_test(arena_space)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
