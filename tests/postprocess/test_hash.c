/* mt_hash beside a plain list that is searched from its beginning. The hash of texts is FNV-1a as its authors
 * give it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "memtrace/hash.h"

enum { KEYS = 3000 };

static uint64_t list_key[KEYS], list_sum[KEYS];
static size_t list_count;

static uint64_t *list_at(uint64_t key)
{
    size_t i = 0;
    while (i < list_count && list_key[i] != key)
        i++;
    if (i == list_count)
        list_key[list_count++] = key;
    return &list_sum[i];
}

/* Small keys in a row, 0 too; large ones that differ in their upper bits only. */
static uint64_t key_of(uint64_t i)
{
    uint64_t n = i * 7919 % (KEYS / 2);
    return i % 2 ? n : n << 48;
}

static void sums(void **state)
{
    struct mt_hash t = {0};
    (void)state;
    assert_int_equal(mt_hash_find(&t, 0), 0);
    assert_null(mt_hash_soon(&t, 0));
    for (uint64_t i = 0; i < 2 * KEYS; i++) {
        *list_at(key_of(i)) += i + 1;
        assert_int_equal(mt_hash_add(&t, key_of(i), i + 1), 0);
    }
    assert_int_equal(t.count, list_count);
    for (size_t i = 0; i < list_count; i++)
        assert_int_equal(mt_hash_find(&t, list_key[i]), list_sum[i]);
    assert_int_equal(mt_hash_find(&t, KEYS), 0);
    size_t met = 0;
    const struct mt_hash_slot *s;
    for (size_t i = 0; (s = mt_hash_next(&t, &i)); met++)
        assert_int_equal(s->value, *list_at(s->key));
    assert_int_equal(met, list_count);
    mt_hash_clear(&t);
    assert_int_equal(mt_hash_find(&t, list_key[0]), 0);
    assert_int_equal(mt_hash_put(&t, 5, 6), 0);
    assert_int_equal(mt_hash_put(&t, 5, 7), 0);
    assert_int_equal(mt_hash_find(&t, 5), 7);
    assert_int_equal(t.count, 1);
    mt_hash_free(&t);
}

static void texts(void **state)
{
    (void)state;
    assert_true(mt_hash_text("") == 0xcbf29ce484222325u);
    assert_true(mt_hash_text("a") == 0xaf63dc4c8601ec8cu);
    assert_true(mt_hash_text("foobar") == 0x85944171f73967e8u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
