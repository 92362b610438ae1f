/* Operations by address in windows of any size, against a scan of all pairs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "../../postprocess/analysis/addresses.h"
#include "../../postprocess/analysis/u64set.h"

enum { RECORDS = 3000, KEYS = 400 };
static struct mt_raw_record records[RECORDS];

static int touches(const struct mt_raw_record *r, uint64_t address)
{
    return address - mt_rec_address(r) < mt_rec_size(r);
}

static void windows(void **state)
{
    (void)state;
    unsigned seed = 7;
    struct mt_u64set set = {0};
    for (int i = 0; i < RECORDS; i++) {
        uint64_t base = i % 5 ? 0x7f0000000f00 : 0xffffffffffffffc0; /* some wrap around */
        records[i] = mt_rec_pack(0, MT_LOAD, 1 + (uint32_t)rand_r(&seed) % 70,
                                 base + (uint64_t)rand_r(&seed) % 600, mt_rec_cta((uint32_t)i, 0, 0));
    }
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(mt_u64set_add(&set, mt_rec_address(&records[(unsigned)rand_r(&seed) % RECORDS])), 0);
    assert_int_equal(mt_u64set_add(&set, 0), 0);
    uint64_t *keys = mt_u64set_sorted(&set);
    for (size_t i = 1; i < set.count; i++)
        assert_true(keys[i - 1] < keys[i]);

    static const uint64_t budgets[] = {1, 100, 1000, 1 << 20};
    size_t passes[4];
    for (size_t b = 0; b < 4; b++) {
        struct mt_addresses a;
        size_t done = 0;
        passes[b] = 0;
        assert_int_equal(mt_addresses_init(&a, keys, set.count, budgets[b]), 0);
        for (size_t i = 0; i < RECORDS; i += 7) /* in batches, as they come */
            mt_addresses_count(&a, records + i, RECORDS - i < 7 ? RECORDS - i : 7);
        while (mt_addresses_window(&a) > 0) {
            passes[b]++;
            assert_int_equal(a.first, done);
            for (int i = 0; i < RECORDS; i++)
                mt_addresses_collect(&a, records + i, 1, (uint64_t)i / 100);
            assert_true(mt_addresses_full(&a));
            for (size_t k = a.first; k < a.end; k++, done++) {
                uint64_t n = 0;
                for (int i = 0; i < RECORDS; i++) {
                    if (!touches(&records[i], keys[k]))
                        continue;
                    const struct mt_operation *op = &a.operations[a.place[k] + n++];
                    assert_memory_equal(&op->record, &records[i], sizeof op->record);
                    assert_int_equal(op->superstep, i / 100);
                }
                assert_int_equal(a.count[k], n);
            }
        }
        assert_int_equal(done, set.count);
        /* An input that changed between the passes is noticed. */
        assert_false(mt_addresses_full(&(struct mt_addresses){
            .count = (uint64_t[]){2}, .filled = (uint64_t[]){1}, .first = 0, .end = 1}));
        mt_addresses_free(&a);
    }
    assert_int_equal(passes[0], set.count); /* a key at a time */
    assert_true(passes[1] > passes[2] && passes[2] > 1);
    assert_int_equal(passes[3], 1);
    free(keys);
    mt_u64set_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
