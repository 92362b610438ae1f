/* The ends of a raw trace's launches, found from any place in the file, against where they were written; a
 * source that hands out places instead of records. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "memtrace/trace.h"

enum { LAUNCHES = 40 };
static char path[] = "/tmp/mt-ends-XXXXXX";
static uint64_t ends[LAUNCHES], counts[LAUNCHES], size;

/* Records with many zero bytes: CTA 0, SM 0, small addresses. */
static void write_trace(unsigned seed)
{
    static const char *const names[] = {"k\n", "\n", "a rather long name<of, several>::words(int)\n", "x\n"};
    static const struct mt_raw_record eot;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputc(MT_RAW_RECORD_SIZE, f);
    for (int i = 0; i < LAUNCHES; i++) {
        fputs(names[rand_r(&seed) % 4], f);
        counts[i] = rand_r(&seed) % 3 ? (uint64_t)rand_r(&seed) % 8 : (uint64_t)rand_r(&seed) % 3000;
        for (uint64_t k = 0; k < counts[i]; k++) {
            struct mt_raw_record r = mt_rec_pack(
                (uint32_t)rand_r(&seed) % 2, (uint32_t)rand_r(&seed) % 4, 1u << rand_r(&seed) % 28,
                1 + ((uint64_t)rand_r(&seed) << rand_r(&seed) % 40), (uint64_t)(rand_r(&seed) % 2) << 32);
            fwrite(&r, sizeof r, 1, f);
        }
        fwrite(&eot, sizeof eot, 1, f);
        ends[i] = (uint64_t)ftell(f);
    }
    size = (uint64_t)ftell(f);
    assert_int_equal(fclose(f), 0);
}

static void ends_parts(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 30; seed++) {
        write_trace(seed);
        unsigned pieces = seed < 4 ? seed : (unsigned)(rand_r(&(unsigned){seed}) % 300 + 1), found = 0;
        for (unsigned p = 0; p < pieces; p++) {
            struct mt_error err;
            uint64_t *part;
            size_t n;
            assert_int_equal(mt_raw_ends(path, size * p / pieces, size * (p + 1) / pieces, &part, &n, &err),
                             0);
            for (size_t i = 0; i < n; i++) {
                assert_true(found < LAUNCHES);
                assert_int_equal(part[i], ends[found++]);
            }
            free(part);
        }
        assert_int_equal(found, LAUNCHES);
        assert_int_equal(mt_raw_ends_fit(path, size, ends, LAUNCHES, 0, 1), 1);
        /* One that is not there, one too few, another size. */
        assert_int_equal(mt_raw_ends_fit(path, size, ends, LAUNCHES - 1, 0, 1), 0);
        assert_int_equal(mt_raw_ends_fit(path, size + 1, ends, LAUNCHES, 0, 1), 0);
        ends[7]++;
        assert_int_equal(mt_raw_ends_fit(path, size, ends, LAUNCHES, 0, 1), 0);
        assert_int_equal(mt_raw_ends_fit(path, size, ends, LAUNCHES, 7, LAUNCHES),
                         0); /* who looks at it, sees it */
        assert_int_equal(mt_raw_ends_fit(path, size, ends, LAUNCHES, 5, LAUNCHES), 1);
        ends[7]--;
    }
    struct mt_error err;
    uint64_t *part;
    size_t n;
    assert_int_equal(mt_raw_ends("/nowhere/at/all", 0, 1, &part, &n, &err), -1);
    assert_int_equal(err.code, MT_E_INPUT);
}

static void ends_places(void **state)
{
    (void)state;
    write_trace(77);
    const struct mt_launch_ends given = {.ends = ends, .count = LAUNCHES};
    struct mt_source_options o = {.flags = MT_SOURCE_REWIND, .ends = &given};
    struct mt_error err;
    struct mt_item item;
    struct mt_source *s = mt_source_open((const char *const[]){path}, 1, &o, &err);
    assert_non_null(s);
    for (size_t i = 0; i < LAUNCHES; i++) {
        assert_int_equal(mt_source_next(s, &item, &err), 1);
        assert_int_equal(item.kind, MT_ITEM_BATCH);
        assert_null(item.records);
        assert_int_equal(item.flags, MT_BATCH_BEGIN | MT_BATCH_END);
        assert_int_equal(item.superstep, i);
        assert_int_equal(item.count, counts[i]);
        assert_int_equal(item.offset, ends[i] - 24 * (counts[i] + 1));
    }
    assert_int_equal(mt_source_next(s, &item, &err), 0);
    /* After a rewind it reads. */
    assert_int_equal(mt_source_rewind(s, &err), 0);
    uint64_t records = 0, expected = 0;
    while (mt_source_next(s, &item, &err) > 0) {
        assert_true(item.count == 0 || item.records != NULL);
        records += item.count;
    }
    for (size_t i = 0; i < LAUNCHES; i++)
        expected += counts[i];
    assert_int_equal(records, expected);
    size_t n;
    mt_source_problems(s, &n);
    assert_int_equal(n, 0);
    mt_source_close(s);
}

static int ends_make(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_it(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends_parts), cmocka_unit_test(ends_places)};
    return cmocka_run_group_tests(tests, ends_make, remove_it);
}
