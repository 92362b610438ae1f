/* Rows that take turns (analysis/mpi/turns.c): what is found is what was there, record by record, and rows
 * that are said to lie apart give the same readers and writers in whichever order they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "analysis/mpi/turns.h"

enum { BITS = 10, REGION = 1 << BITS, RECORDS = 400, MEMORY = 1 << 14 };
static const uint64_t origin = 0x7f0000000000;
static uint64_t seed = 88172645463325252ull;

static unsigned turns_below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

/* A pattern of a few places, now and then another one, now and then nonsense between. */
static void turns_make(struct mt_raw_record *r)
{
    for (size_t i = 0; i < RECORDS;) {
        unsigned period = 1 + turns_below(9), turns = 1 + turns_below(40);
        uint64_t base[9], size[9], type[9], cta = turns_below(3);
        int64_t stride[9];
        for (unsigned p = 0; p < period; p++) {
            base[p] = origin + 8192 + turns_below(1024);
            size[p] = 1u << turns_below(4);
            type[p] = turns_below(4);
            stride[p] = (int64_t[]){(int64_t)size[p], 0, -(int64_t)size[p], 24, 3}[turns_below(5)];
        }
        for (unsigned t = 0; t < turns; t++)
            for (unsigned p = 0; p < period && i < RECORDS; p++)
                r[i++] = mt_rec_pack(cta & 1, (uint32_t)type[p], (uint32_t)size[p],
                                     base[p] + t * (uint64_t)stride[p], cta);
        if (i < RECORDS && turns_below(2))
            r[i++] = mt_rec_pack(1, turns_below(3), 4, origin + 8192 + turns_below(4096), turns_below(2));
    }
}

/* Accesses k of row p, as the rows say. */
static struct mt_raw_record turns_expected(const struct mt_turns *t, const struct mt_raw_record *first,
                                           unsigned p, uint32_t k)
{
    struct mt_raw_record r = first[p];
    r.w[1] += k * (uint64_t)t->stride[p];
    return r;
}

static void check_rows(const struct mt_turns *t, const struct mt_raw_record *r, size_t length, size_t left)
{
    assert_true(length <= left && t->period >= 1 && t->period <= MT_TURNS_PERIOD && t->count % t->block == 0);
    assert_int_equal(length, (size_t)t->period * t->count);
    for (size_t i = 0; i < length; i++) {
        struct mt_raw_record want =
            turns_expected(t, r, (unsigned)(i % t->period), (uint32_t)(i / t->period));
        uint64_t size = r[i].w[0] & MT_RAW_MAX_SIZE;
        assert_memory_equal(&r[i], &want, sizeof want);
        assert_int_equal(r[i].w[1] >> BITS, r[i % t->period].w[1] >> BITS);
        assert_int_equal(r[i].w[1] >> BITS, (r[i].w[1] + size - 1) >> BITS);
        assert_true(r[i].w[2] == r[0].w[2] && r[i].w[0] >> 32 == r[0].w[0] >> 32);
    }
}

/* Who reads from whom: rows are writers, memory remembers the last one of each byte. */
struct seen {
    unsigned char writer[MEMORY];
    unsigned read[MT_TURNS_PERIOD][MT_TURNS_PERIOD + 1]; /* bytes, by reader and writer + 1 */
};

static void turns_touch(struct seen *s, const struct mt_access_run *rows, unsigned p, uint32_t k)
{
    uint64_t at = rows[p].base + k * (uint64_t)rows[p].stride - origin;
    uint32_t type = rows[p].meta >> 28, size = rows[p].meta & MT_RAW_MAX_SIZE;
    for (uint32_t i = 0; i < size; i++) {
        if (type == MT_LOAD || type == MT_ATOMIC)
            s->read[p][s->writer[at + i]]++;
        if (type == MT_STORE || type == MT_ATOMIC)
            s->writer[at + i] = (unsigned char)(p + 1);
    }
}

static int check_apart(const struct mt_turns *t, const struct mt_raw_record *r)
{
    static struct seen turns, rows;
    struct mt_access_run run[MT_TURNS_PERIOD];
    for (unsigned p = 0; p < t->period; p++)
        run[p] = (struct mt_access_run){
            .base = r[p].w[1], .stride = t->stride[p], .meta = (uint32_t)r[p].w[0], .count = t->count};
    if (!mt_turns_apart(run, t->period))
        return 0;
    memset(&turns, 0, sizeof turns);
    memset(&rows, 0, sizeof rows);
    for (uint32_t k = 0; k < t->count; k++)
        for (unsigned p = 0; p < t->period; p++)
            turns_touch(&turns, run, p, k);
    for (unsigned p = 0; p < t->period; p++)
        for (uint32_t k = 0; k < t->count; k++)
            turns_touch(&rows, run, p, k);
    assert_memory_equal(&turns, &rows, sizeof rows);
    return 1;
}

static void turns_records(void **state)
{
    static struct mt_raw_record r[RECORDS];
    struct mt_turns_hint hint = {0};
    struct mt_turns t;
    size_t found = 0, apart = 0, tied = 0;
    for (unsigned round = 0; round < 2000; round++) {
        turns_make(r);
        for (size_t i = 0, length; i < RECORDS; i += length) {
            length = mt_turns_records(&hint, &t, r + i, RECORDS - i, BITS);
            if (length) {
                check_rows(&t, r + i, length, RECORDS - i);
                *(check_apart(&t, r + i) ? &apart : &tied) += 1;
                found += length;
            } else {
                length = 1;
            }
        }
    }
    assert_true(found > 2000 * RECORDS / 4 && apart > 1000 && tied > 1000);
}

/* The same of runs: they are taken apart into records again. */
static void turns_runs(void **state)
{
    static struct mt_access_run r[RECORDS];
    struct mt_turns_hint hint = {0};
    struct mt_turns t;
    size_t found = 0;
    for (unsigned round = 0; round < 500; round++) {
        for (size_t i = 0; i < RECORDS;) {
            unsigned period = 1 + turns_below(9), turns = 1 + turns_below(8), lanes = 1 + turns_below(32);
            uint64_t base = origin + 8192 + turns_below(1024);
            for (unsigned k = 0; k < period * turns && i < RECORDS; k++)
                r[i++] = (struct mt_access_run){.base = base + 64 * (k % period) + k / period * lanes * 4,
                                                .stride = 4,
                                                .meta = (k % period ? MT_STORE : MT_LOAD) << 28 | 4u,
                                                .count = lanes,
                                                .addresses = turns_below(100) ? NULL : &seed,
                                                .cta = turns_below(60) ? 5 : 6};
        }
        for (size_t i = 0, length; i < RECORDS; i += length) {
            length = mt_turns_runs(&hint, &t, r + i, RECORDS - i, BITS);
            found += length;
            for (size_t k = 0; k < length; k++) {
                const struct mt_access_run *first = &r[i + k % t.period], *one = &r[i + k];
                uint64_t done = k / t.period * t.block, last = one->base + (one->count - 1) * 4;
                assert_true(length <= RECORDS - i && !one->addresses && one->cta == r[i].cta &&
                            one->meta == first->meta);
                assert_true(one->count == t.block && one->stride == t.stride[k % t.period] && done < t.count);
                assert_int_equal(one->base, first->base + done * (uint64_t)one->stride);
                assert_int_equal(first->base >> BITS, (last + 3) >> BITS);
            }
            length += length == 0;
        }
    }
    assert_true(found > 500 * RECORDS / 4);
}

/* At the end of the address space nothing goes around it. */
static void turns_borders(void **state)
{
    struct mt_raw_record r[64];
    struct mt_turns_hint hint = {0};
    struct mt_turns t;
    for (unsigned i = 0; i < 64; i++)
        r[i] = mt_rec_pack(0, MT_STORE, 8, (uint64_t)0 - 256 + 8 * i, 1);
    assert_int_equal(mt_turns_records(&hint, &t, r, 64, BITS), 32);
    struct mt_access_run rows[2] = {
        {.base = (uint64_t)0 - 256, .stride = 8, .meta = MT_STORE << 28 | 8u, .count = 32},
        {.base = (uint64_t)0 - 128, .stride = 8, .meta = MT_LOAD << 28 | 8u, .count = 16}};
    assert_false(mt_turns_apart(rows, 2));
    rows[1].base = (uint64_t)0 - 512;
    assert_true(mt_turns_apart(rows, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(turns_records), cmocka_unit_test(turns_runs),
                                       cmocka_unit_test(turns_borders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
