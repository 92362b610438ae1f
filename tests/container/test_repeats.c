/* mt_mtc_shorten: what is encoded from shortened entries is, byte by byte, what is encoded from all of them.
 * Loops of any period and stride, with jumps, other accesses and events between them, shortened in pieces as
 * they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "format/container/writer.h"

enum { MOST = 1 << 16, MAX_PERIOD = 20 };

static struct mt_host_entry whole[MOST], shortened[MOST];
static uint32_t state;

static uint32_t below(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

static size_t put(size_t n, uint64_t address, uint32_t site, uint32_t size)
{
    if (n < MOST)
        whole[n] = (struct mt_host_entry){address, site, size};
    return n < MOST ? n + 1 : n;
}

/* A loop around a loop: its accesses step by strides of their own, and jump after each round. */
static size_t put_loop(size_t n)
{
    uint32_t period = 1 + below(below(3) ? 8 : MAX_PERIOD), rounds = 1 + below(6),
             turns = below(4) ? 1 + below(600) : below(20);
    uint32_t size = below(3) * 8, first = 1 + below(40), twice = below(4) == 0;
    uint64_t at[MAX_PERIOD], stride[MAX_PERIOD], same = 8 * below(4);
    for (uint32_t k = 0; k < period; k++) {
        at[k] = ((uint64_t)below(1u << 24) << 16) + below(4096);
        stride[k] = below(2) ? same : below(8) ? 8 * (uint64_t)below(64) : 0 - (uint64_t)below(1u << 20);
    }
    for (uint32_t r = 0; r < rounds; r++)
        for (uint32_t t = 0; t < turns + (r == 1); t++)
            for (uint32_t k = 0; k < period; k++) {
                uint32_t site = 4 * (first + (twice && k == 2 ? 0 : k));
                n = put(n, at[k], site, size);
                at[k] += stride[k] + (t + 1 == turns ? 4096 : 0);
            }
    return n;
}

static size_t put_other(size_t n)
{
    for (uint32_t i = below(50); i; i--)
        n = put(n, (uint64_t)below(1u << 30) * 8, 4 * (1 + below(60)), below(2) * 4);
    if (below(2) && n + 2 < MOST) {
        n = put(n, 1000 + below(100), 0, MT_HOST_EV_SEQ);
    } else if (n + 6 < MOST) {
        n = put(n, 7, 0, MT_HOST_EV_CALL);
        for (uint32_t i = 0; i < 4; i++)
            n = put(n, 16 * i, 0, 0);
    }
    return n;
}

/* As mat mode does it: appended piece by piece. */
static size_t shorten(size_t n, uint64_t *left_out)
{
    struct mt_mtc_repeats r = {0};
    struct mt_host_entry *end = shortened;
    for (size_t i = 0; i < n;) {
        size_t piece = 1 + below(below(2) ? 4096 : 300);
        piece = n - i < piece ? n - i : piece;
        memcpy(end, whole + i, piece * sizeof *end);
        end = mt_mtc_shorten(&r, shortened, end, end + piece);
        i += piece;
    }
    *left_out = r.left_out;
    return (size_t)(end - shortened);
}

static void same(size_t (*encode)(struct mt_mtc_encoder *, const struct mt_host_entry *, size_t, uint64_t *,
                                  uint64_t *, const void **),
                 size_t n, size_t few)
{
    uint64_t items[2], seq[2] = {5, 5};
    const void *payload[2];
    struct mt_mtc_encoder *one = mt_mtc_encoder_new(), *two = mt_mtc_encoder_new();
    size_t bytes = encode(one, whole, n, &items[0], &seq[0], &payload[0]);
    assert_int_equal(encode(two, shortened, few, &items[1], &seq[1], &payload[1]), bytes);
    assert_true(bytes != 0 && items[0] == items[1] && seq[0] == seq[1]);
    assert_memory_equal(payload[0], payload[1], bytes);
    mt_mtc_encoder_free(one);
    mt_mtc_encoder_free(two);
}

static void test_same_bytes(void **unused)
{
    (void)unused;
    uint64_t all = 0, out = 0;
    for (uint32_t seed = 1; seed <= 400; seed++) {
        size_t n = 0, most = 1000 + (state = seed, below(MOST - 1000));
        uint64_t left_out;
        while (n < most)
            n = below(5) ? put_loop(n) : put_other(n);
        size_t few = shorten(n, &left_out);
        all += n;
        out += left_out;
        assert_true(few + left_out >= n);
        same(mt_mtc_encode, n, few);
        same(mt_mtc_encode_counted, n, few);
    }
    assert_true(out > all / 5); /* else little was tested */
}

/* By hand: a loop of two accesses, 1,000 times. */
static void test_by_hand(void **unused)
{
    (void)unused;
    uint64_t left_out;
    size_t n = 0;
    state = 3;
    for (uint64_t i = 0; i < 1000; i++) {
        n = put(n, 4096 + 8 * i, 4, 0);
        n = put(n, 1u << 20, 8, 0);
    }
    struct mt_mtc_repeats r = {0};
    memcpy(shortened, whole, n * sizeof *whole);
    size_t few = (size_t)(mt_mtc_shorten(&r, shortened, shortened, shortened + n) - shortened);
    left_out = r.left_out;
    assert_int_equal(few + left_out, n + 1);
    assert_int_equal(few, 16 + 1 + 4); /* the first look is behind 16; two periods after what is left out */
    assert_true(shortened[16].site == 0 && shortened[16].size == (MT_MTC_REPEAT | 2 << 6) &&
                shortened[16].address == left_out);
    same(mt_mtc_encode, n, few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand), cmocka_unit_test(test_same_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
