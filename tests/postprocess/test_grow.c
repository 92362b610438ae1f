/* mt_grow: what is in the array stays, the room doubles, what cannot be allocated changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "memtrace/grow.h"

static void one_by_one(void **state)
{
    uint32_t *list = NULL;
    size_t room = 0, moves = 0;
    (void)state;
    for (uint32_t i = 0; i < 100000; i++) {
        size_t before = room;
        assert_int_equal(mt_grow(&list, &room, i + (size_t)1, sizeof *list), 0);
        assert_true(room > i);
        moves += room != before;
        list[i] = i * 3;
    }
    assert_int_equal(moves, 16); /* 4 << 15 is the first that holds 100000 */
    assert_int_equal(room, 4 << 15);
    for (uint32_t i = 0; i < 100000; i++)
        assert_int_equal(list[i], i * 3);
    free(list);
}

static void at_once(void **state)
{
    char *text = NULL;
    size_t room = 0;
    (void)state;
    assert_int_equal(mt_grow(&text, &room, 0, 1), 0);
    assert_null(text);
    assert_int_equal(mt_grow(&text, &room, 1000, 1), 0);
    assert_int_equal(room, 1000);
    assert_int_equal(mt_grow(&text, &room, 999, 1), 0);
    assert_int_equal(room, 1000);
    assert_int_equal(mt_grow(&text, &room, 1001, 1), 0);
    assert_int_equal(room, 2000);
    free(text);
}

static void too_much(void **state)
{
    uint64_t *list = NULL, *was;
    size_t room = 0;
    (void)state;
    assert_int_equal(mt_grow(&list, &room, 10, sizeof *list), 0);
    was = list;
    list[9] = 7;
    assert_int_equal(mt_grow(&list, &room, SIZE_MAX, sizeof *list), -1);
    assert_int_equal(mt_grow(&list, &room, SIZE_MAX / 8 + 1, sizeof *list), -1); /* in bytes: 2^64, or 0 */
    assert_int_equal(mt_grow(&list, &room, SIZE_MAX / 16, sizeof *list),
                     -1); /* 2^63 bytes: nobody has them */
    assert_ptr_equal(list, was);
    assert_int_equal(room, 10);
    assert_int_equal(list[9], 7);
    free(list);
    list = NULL;
    room = SIZE_MAX / 2 + 2; /* the double is not one */
    assert_int_equal(mt_grow(&list, &room, SIZE_MAX / 2 + 3, 1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_by_one), cmocka_unit_test(at_once),
                                       cmocka_unit_test(too_much)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
