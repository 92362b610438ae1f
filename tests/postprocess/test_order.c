/* MT_FIRST beside a walk from the beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "memtrace/order.h"

/* All lists of up to 40 numbers of which some are equal, and all places in and around them. */
static void first(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 40; n++) {
        uint64_t list[40];
        for (size_t k = 0; k < n; k++)
            list[k] = 2 * (k - k % 3);
        for (uint64_t x = 0; x <= 2 * n + 1; x++) {
            size_t at = 0, behind = 0, asked = 0;
            while (at < n && list[at] < x)
                at++;
            while (behind < n && list[behind] <= x)
                behind++;
            assert_int_equal(MT_FIRST(i, n, (asked++, list[i] >= x)), at);
            assert_int_equal(MT_FIRST(i, n, list[i] > x), behind);
            assert_true(asked <= 6); /* 2 to the sixth is above 40 */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
