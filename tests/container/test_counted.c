/* Entries with implied times give the same payload as the same accesses with their times written down: random
 * loops, instructions with several operands, events, jumps of the clock both ways. */
#include "format/container/writer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROOM = 40000, STREAMS = 60 };

static uint32_t state;
static uint32_t counted_pick(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state * n >> 32);
}

struct both {
    struct mt_host_timed_entry timed[ROOM];
    struct mt_host_entry counted[2 * ROOM];
    size_t ntimed, ncounted;
    uint64_t now;     /* of the last item */
    uint64_t running; /* what the counted entries imply */
};

static void counted_later(struct both *b, uint64_t time)
{
    if (time != b->running) {
        uint64_t left = time - b->running;
        if (counted_pick(4) == 0) { /* in two steps */
            b->counted[b->ncounted++] = (struct mt_host_entry){7, 0, MT_MTC_SHIFT};
            left -= 7;
        }
        b->counted[b->ncounted++] = (struct mt_host_entry){left, 0, MT_MTC_SHIFT};
    }
    b->running = time;
}

static void counted_entry(struct both *b, uint64_t address, uint32_t site, uint32_t size)
{
    b->timed[b->ntimed++] = (struct mt_host_timed_entry){address, b->now, site, size};
    b->counted[b->ncounted++] = (struct mt_host_entry){address, site, size};
    b->running = b->now;
}

static void counted_access(struct both *b, uint64_t address, uint32_t site, uint32_t size)
{
    int first = !MT_HOST_OPERAND(site);
    b->now += first;
    counted_later(b, b->now - (uint64_t)first);
    counted_entry(b, address, site, size);
}

static void counted_event(struct both *b)
{
    b->now += counted_pick(3);
    counted_later(b, b->now);
    counted_entry(b, 40 + counted_pick(5), 0, 3); /* a call with five arguments */
    for (unsigned i = 1; i < 5; i++)
        counted_entry(b, counted_pick(1000), 0, 0);
}

static void counted_fill(struct both *b, uint32_t seed)
{
    *b = (struct both){.now = 0};
    state = seed;
    while (b->ntimed < ROOM - 1000) {
        unsigned sites = 1 + counted_pick(6), rounds = counted_pick(8) ? counted_pick(20) : counted_pick(150);
        uint64_t base[6], step[6];
        uint32_t operands[6];
        for (unsigned i = 0; i < sites; i++) {
            base[i] = 0x10000 * (1 + counted_pick(20));
            step[i] = counted_pick(3) * 8;
            operands[i] = 1 + (counted_pick(4) == 0) * counted_pick(3);
        }
        for (unsigned k = 0; k < rounds && b->ntimed < ROOM - 100; k++)
            for (unsigned i = 0; i < sites; i++)
                for (unsigned o = 0; o < operands[i]; o++)
                    counted_access(b, base[i] + k * step[i] + 64 * o + (counted_pick(200) == 0),
                                   4 * (1 + 10 * sites + i) + o, counted_pick(300) ? 0 : counted_pick(9));
        if (counted_pick(3) == 0)
            counted_event(b);
        if (counted_pick(2))
            b->now += counted_pick(2) ? counted_pick(100) : (uint64_t)counted_pick(100000) << 20;
        else if (counted_pick(4) == 0)
            b->now -= counted_pick(50); /* modulo 2^64 */
    }
}

static void counted_same(void **unused)
{
    struct both *b = malloc(sizeof *b);
    struct mt_mtc_encoder *one = mt_mtc_encoder_new(), *other = mt_mtc_encoder_new();
    (void)unused;
    assert_true(b && one && other);
    for (uint32_t seed = 1; seed <= STREAMS; seed++) {
        const void *p, *q;
        uint64_t items, items2, seq = 5, seq2 = 5;
        counted_fill(b, seed);
        size_t n = mt_mtc_encode_timed(one, b->timed, b->ntimed, &items, &seq, &p);
        size_t m = mt_mtc_encode_counted(other, b->counted, b->ncounted, &items2, &seq2, &q);
        assert_int_equal(n, m);
        assert_int_equal(items, items2);
        assert_true(n > 0 && items < b->ntimed);
        assert_memory_equal(p, q, n);
    }
    mt_mtc_encoder_free(one);
    mt_mtc_encoder_free(other);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counted_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
