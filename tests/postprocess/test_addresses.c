/* Operations by address with any budget, from records and from runs, against a scan of all pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "../../postprocess/analysis/comm/addresses.h"
#include "memtrace/trace.h"

enum { RECORDS = 3000, KEYS = 400 };
static struct mt_raw_record records[RECORDS];

static int addresses_touches(const struct mt_raw_record *r, uint64_t address)
{
    return address - mt_rec_address(r) < mt_rec_size(r);
}

static int addresses_ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The visit, checked as it comes: all records in order that touch the key. */
struct check {
    const struct mt_addresses *a;
    const uint64_t *keys;
    size_t nkeys, at; /* keys seen */
    int next;         /* the record from which on the next operation is to be looked for */
    int stop_at;      /* key at which to stop, or -1 */
    size_t pieces;
};

static int superstep_of(int record)
{
    return record / 100;
}

static void nothing_left(const struct check *c)
{
    for (int i = c->next; c->at > 0 && i < RECORDS; i++)
        assert_false(addresses_touches(&records[i], c->keys[c->at - 1]));
}

static int see_key(void *arg, uint64_t key)
{
    struct check *c = arg;
    nothing_left(c);
    assert_true(c->at < c->nkeys);
    assert_int_equal(key, c->keys[c->at++]);
    c->next = 0;
    return (int)c->at == c->stop_at ? 7 : 0;
}

static int see_operations(void *arg, uint64_t key, const struct mt_operation *op, size_t n)
{
    struct check *c = arg;
    c->pieces++;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < op[i].count; k++) {
            while (c->next < RECORDS && !addresses_touches(&records[c->next], key))
                c->next++;
            assert_true(c->next < RECORDS);
            const struct mt_raw_record *r = &records[c->next];
            const struct mt_operator *who = &c->a->who[op[i].who];
            const struct mt_operation_kind *what = &c->a->what[op[i].what];
            assert_int_equal(who->cta, r->w[2]);
            assert_int_equal(who->smid, mt_rec_smid(r));
            assert_int_equal(who->superstep, superstep_of(c->next));
            assert_int_equal(what->meta, (uint32_t)r->w[0]);
            assert_int_equal(key - what->before, mt_rec_address(r));
            c->next++;
        }
    return 0;
}

static void make_records(void)
{
    unsigned seed = 7;
    for (int i = 0; i < RECORDS; i++) {
        uint64_t base = i % 5 ? 0x7f0000000f00 : 0xffffffffffffffc0; /* some wrap around */
        records[i] = mt_rec_pack((uint32_t)i / 7 % 3, (uint32_t)i % 4, 1 + (uint32_t)rand_r(&seed) % 150,
                                 base + (uint64_t)rand_r(&seed) % 600, mt_rec_cta((uint32_t)i / 20, 0, 0));
        if (i % 3 == 1) /* the same once more, or a neighbour */
            records[i] = records[i - 1];
        if (i % 21 == 1)
            records[i].w[1] += 4;
    }
    records[RECORDS - 1] = mt_rec_pack(0, MT_LOAD, 9000, 0x7f0000000800, 0); /* pages */
}

static size_t make_keys(struct mt_keyset *set, uint64_t *keys)
{
    unsigned seed = 9;
    size_t n = 0;
    for (int i = 0; i < KEYS; i++)
        keys[i] = mt_rec_address(&records[(unsigned)rand_r(&seed) % RECORDS]);
    keys[0] = 0;
    keys[1] = UINT64_MAX;
    keys[2] = 0x7f0000001000;
    qsort(keys, KEYS, sizeof *keys, addresses_ascending);
    for (int i = 0; i < KEYS; i++) {
        assert_int_equal(mt_keyset_add(set, keys[i]), 0);
        if (i == 0 || keys[i] != keys[n - 1])
            keys[n++] = keys[i];
    }
    assert_int_equal(mt_keyset_index(set), 0);
    assert_int_equal(set->count, n);
    return n;
}

/* A launch's records in batches or as runs. */
static void addresses_feed(struct mt_addresses *a, int as_runs)
{
    static struct mt_access_run runs[RECORDS];
    static uint64_t gathered[2];
    for (int i = 0; i < RECORDS; i += 20) {
        size_t taken, n = 20;
        if (!as_runs) {
            assert_int_equal(mt_addresses_records(a, records + i, n, (uint64_t)superstep_of(i)), 0);
            continue;
        }
        size_t nruns = mt_runs_from_records(records + i, n, runs, n, &taken);
        for (size_t k = 0; k < nruns; k++)
            if (runs[k].count == 2) { /* with a list of addresses */
                gathered[0] = runs[k].base;
                gathered[1] = runs[k].base + (uint64_t)runs[k].stride;
                runs[k].addresses = gathered;
                runs[k].stride = 12345;
                assert_int_equal(mt_addresses_runs(a, runs, k + 1, (uint64_t)superstep_of(i)), 0);
                nruns -= k + 1;
                for (size_t m = 0; m < nruns; m++)
                    runs[m] = runs[m + k + 1];
                k = (size_t)-1;
            }
        assert_int_equal(mt_addresses_runs(a, runs, nruns, (uint64_t)superstep_of(i)), 0);
    }
}

static void addresses_budgets(void **state)
{
    (void)state;
    static uint64_t keys[KEYS];
    static const uint64_t budget[] = {1, 20000, 1 << 26};
    struct mt_keyset set = {0};
    make_records();
    size_t n = make_keys(&set, keys), segments[3];
    for (int b = 0; b < 6; b++) {
        struct mt_addresses a;
        assert_int_equal(mt_addresses_init(&a, &set, budget[b / 2]), 0);
        addresses_feed(&a, b % 2);
        assert_int_equal(a.records, RECORDS);
        segments[b / 2] = a.nsegments;
        static const struct mt_addresses_visitor visitor = {see_key, see_operations};
        struct check c = {.a = &a, .keys = keys, .nkeys = n, .stop_at = -1};
        assert_int_equal(mt_addresses_visit(&a, &visitor, &c), 0);
        nothing_left(&c);
        assert_int_equal(c.at, n);
        c = (struct check){.a = &a, .keys = keys, .nkeys = n, .stop_at = 5};
        assert_int_equal(mt_addresses_visit(&a, &visitor, &c), 7);
        mt_addresses_free(&a);
    }
    assert_true(segments[0] > segments[1] && segments[1] > 1); /* spilled often, a few times, never */
    assert_int_equal(segments[2], 0);
    mt_keyset_free(&set);
}

/* Sets of addresses: in order, each once, with its rank; merging two. */
static void addresses_sets(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint64_t all[2 * N];
    struct mt_keyset a = {0}, b = {0};
    unsigned seed = 3;
    for (int i = 0; i < 2 * N; i++) {
        all[i] =
            (uint64_t)rand_r(&seed) % 300 * 4096 * (i % 7 ? 1 : 1ull << 40) + (uint64_t)rand_r(&seed) % 4096;
        assert_int_equal(mt_keyset_add(i < N ? &a : &b, all[i]), 0);
    }
    assert_int_equal(mt_keyset_merge(&a, &b), 0);
    assert_int_equal(mt_keyset_index(&a), 0);
    qsort(all, 2 * N, sizeof *all, addresses_ascending);
    uint64_t rank = 0;
    for (int i = 0; i < 2 * N; i++) {
        if (i > 0 && all[i] == all[i - 1])
            continue;
        const struct mt_keypage *p = mt_keyset_find(&a, all[i] >> MT_KEY_BITS);
        assert_non_null(p);
        assert_true(p->bits[all[i] >> 6 & 63] >> (all[i] & 63) & 1);
        assert_int_equal(mt_keyset_rank(p, all[i] & 4095), rank++);
    }
    assert_int_equal(a.count, rank);
    assert_null(mt_keyset_find(&a, 0x123456789));
    mt_keyset_free(&a);
    mt_keyset_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(addresses_budgets), cmocka_unit_test(addresses_sets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
