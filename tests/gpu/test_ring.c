/* Packets as runtime/device/packet.h describes them, built by hand, against the ring's reader and the
 * expansion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "gpu/ring.h"

#define SLOTS 64

struct rig {
    struct mt_slot slots[SLOTS];
    uint64_t tail;
    struct mt_ring ring;
};

static void setup(struct rig *rig, uint64_t at)
{
    memset(rig, 0, sizeof *rig);
    rig->ring = (struct mt_ring){rig->slots, &rig->tail, SLOTS - 1, at, 0};
    rig->tail = at;
}

/* Writes words from position `at` on; the first one last. */
static void put(struct mt_slot *slots, uint64_t at, const uint64_t *words, unsigned n)
{
    for (unsigned i = n; i-- > 0;) {
        struct mt_slot *s = &slots[(at + i / 2) % SLOTS];
        __atomic_store_n(i % 2 ? &s->b : &s->a, words[i], __ATOMIC_RELEASE);
    }
}

static void check_record(const struct mt_raw_record *r, unsigned smid, unsigned type, uint64_t size,
                         uint64_t address, uint64_t cta)
{
    assert_int_equal(r->w[0] >> 32, smid);
    assert_int_equal(r->w[0] >> 28 & 15, type);
    assert_int_equal(r->w[0] & 0xfffffff, size);
    assert_true(r->w[1] == address);
    assert_true(r->w[2] == cta);
}

static void regular(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[40];
    setup(&rig, SLOTS - 1); /* wraps */
    assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
    /* lanes 0, 3, 31 store 8 bytes each at 0x1000, 0xff8, 0xff0: going down by 8 */
    uint64_t words[] = {5ull << 32 | 77 << 16 | 3 << 8 | 1,
                        (1ull << 28 | 8) << 32 | 0x80000009,
                        0x123456789abc0def,
                        3ull << 32 | 42,
                        0x1000,
                        (uint64_t)-8};
    put(rig.slots, SLOTS - 1, words, 6);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
    assert_int_equal(p.context, 5);
    assert_int_equal(p.site, 42);
    assert_int_equal(p.warp, 3);
    assert_int_equal(mt_packet_count(&p), 3);
    assert_int_equal(mt_packet_expand(&p, 0, r, 40), 3);
    for (unsigned i = 0; i < 3; i++)
        check_record(&r[i], 77, MT_STORE, 8, 0x1000 - 8 * i, 0x123456789abc0def);
    assert_int_equal(mt_packet_expand(&p, 2, r, 40), 1);
    check_record(&r[0], 77, MT_STORE, 8, 0xff0, 0x123456789abc0def);
    assert_int_equal(rig.tail, SLOTS - 1);
    mt_ring_publish(&rig.ring);
    assert_int_equal(rig.tail, SLOTS + 2);
    for (unsigned i = 0; i < SLOTS; i++)
        assert_true(rig.slots[i].a == 0);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 0);
}

static void lanes(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[40];
    setup(&rig, 62);
    /* three lanes load 4 bytes at unrelated places; the last half slot is void */
    uint64_t words[] = {
        9ull << 32 | 1 << 16 | 4 << 8 | 2, 4ull << 32 | 0x00000070, 7, 8, 0xaaa0, 0xbbb0, 0xccc0, 0xdead};
    put(rig.slots, 62, words, 8);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
    assert_int_equal(mt_packet_expand(&p, 0, r, 2), 2);
    check_record(&r[0], 1, MT_LOAD, 4, 0xaaa0, 7);
    check_record(&r[1], 1, MT_LOAD, 4, 0xbbb0, 7);
    assert_int_equal(mt_packet_expand(&p, 2, r, 2), 1);
    check_record(&r[0], 1, MT_LOAD, 4, 0xccc0, 7);
}

static void blocks(void **state)
{
    struct rig rig;
    struct mt_packet p;
    struct mt_raw_record r[40];
    uint64_t most = (1u << 28) - 1;
    setup(&rig, 0);
    uint64_t words[] = {4 << 8 | 3, (uint64_t)1 << 28 << 32 | 3, 7, 8, 0x1000, 2 * most + 5, 0x2000, most};
    put(rig.slots, 0, words, 8);
    assert_int_equal(mt_ring_take(&rig.ring, &p), 1);
    assert_int_equal(mt_packet_count(&p), 4);
    assert_int_equal(mt_packet_expand(&p, 0, r, 40), 4);
    check_record(&r[0], 0, MT_STORE, most, 0x1000, 7);
    check_record(&r[1], 0, MT_STORE, most, 0x1000 + most, 7);
    check_record(&r[2], 0, MT_STORE, 5, 0x1000 + 2 * most, 7);
    check_record(&r[3], 0, MT_STORE, most, 0x2000, 7);
    for (unsigned from = 0; from < 4; from++) { /* one by one gives the same */
        struct mt_raw_record one;
        assert_int_equal(mt_packet_expand(&p, from, &one, 1), 1);
        assert_memory_equal(&one, &r[from], sizeof one);
    }
}

static void damaged(void **state)
{
    static const uint64_t firsts[] = {3 << 8 | 9, 4 << 8 | 1, 3 << 8 | 2, 0xffffffffffffffff, 200 << 8 | 3};
    for (unsigned i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        struct rig rig;
        struct mt_packet p;
        setup(&rig, 0);
        rig.slots[0] = (struct mt_slot){firsts[i], 0xffffffff};
        assert_int_equal(mt_ring_take(&rig.ring, &p), -1);
        rig.slots[0] = (struct mt_slot){0, 0};
        assert_int_equal(mt_ring_take(&rig.ring, &p), -1);
    }
    struct rig rig;
    struct mt_packet p;
    setup(&rig, 0);
    rig.slots[0] = (struct mt_slot){3 << 8 | 1, 0}; /* nobody active */
    assert_int_equal(mt_ring_take(&rig.ring, &p), -1);
}

/* ---- many writers, a small ring ----------------------------------------------------------------- */

#define WRITERS 4
#define PACKETS 20000
static struct rig shared;
static _Atomic uint64_t head;

static void *writer(void *data)
{
    uint64_t id = (uint64_t)(uintptr_t)data;
    for (uint64_t i = 0; i < PACKETS; i++) {
        unsigned n = 1 + (unsigned)((i * 7 + id) % 32); /* active lanes */
        unsigned slots = 2 + (n + 1) / 2;
        uint64_t words[68] = {id << 32 | slots << 8 | 2, 4ull << 32 | (n == 32 ? ~0u : (1u << n) - 1), id, i};
        for (unsigned k = 0; k < n; k++)
            words[4 + k] = id << 48 | i << 8 | k;
        uint64_t at = head;
        while (!__atomic_compare_exchange_n(&head, &at, at + slots, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        while (at + slots - __atomic_load_n(&shared.tail, __ATOMIC_ACQUIRE) > SLOTS)
            sched_yield();
        put(shared.slots, at, words, 2 * slots);
    }
    return NULL;
}

static void concurrent(void **state)
{
    pthread_t threads[WRITERS];
    uint64_t next[WRITERS] = {0}, taken = 0;
    setup(&shared, 0);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, writer, (void *)i);
    while (taken < (uint64_t)WRITERS * PACKETS) {
        struct mt_packet p;
        struct mt_raw_record r[32];
        int got = mt_ring_take(&shared.ring, &p);
        assert_true(got >= 0);
        if (!got) {
            mt_ring_publish(&shared.ring);
            sched_yield();
            continue;
        }
        assert_true(p.context < WRITERS && p.cta == p.context);
        uint64_t i = next[p.context]++;
        unsigned n = 1 + (unsigned)((i * 7 + p.context) % 32);
        assert_int_equal(mt_packet_expand(&p, 0, r, 32), n);
        for (unsigned k = 0; k < n; k++)
            assert_true(r[k].w[1] == ((uint64_t)p.context << 48 | i << 8 | k));
        if (++taken % 3 == 0)
            mt_ring_publish(&shared.ring);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(regular), cmocka_unit_test(lanes),
                                       cmocka_unit_test(blocks), cmocka_unit_test(damaged),
                                       cmocka_unit_test(concurrent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
