/* MEMTRACE_CTAS and MEMTRACE_SAMPLE: texts, counts against a walk over all CTAs, and what a kernel does with
 * its hidden parameter, compiled for the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trace/selection.h"
#include "host_warp.h"

_Thread_local struct host_thread host_thread;
struct mt_gpu_context *__mt_gpu_begin(struct mt_gpu_context *parameter);

static struct mt_cta_rule rule_of(const char *text)
{
    struct mt_cta_rule r = {.every = 1};
    char why[200] = "";
    if (mt_ctas_parse(&r, text, why, sizeof why))
        fail_msg("%s: %s", text, why);
    return r;
}

/* Is a CTA chosen by numbers a to b, or by this box? Written out once more, term by term. */
static int ctas_in(uint64_t n, uint64_t a, uint64_t b)
{
    return a <= n && n <= b;
}

static void ctas_texts(void **state)
{
    uint32_t at[3];
    const uint32_t grid[3] = {6, 5, 4};
    struct mt_cta_rule numbers = rule_of("7+20:33+118:"), box = rule_of("2:3,*,1:"), plane = rule_of(":1,4"),
                       both = rule_of("5+*,*,2");
    for (uint64_t n = 0; n < 120; n++) {
        at[0] = n % grid[0];
        at[1] = n / grid[0] % grid[1];
        at[2] = (uint32_t)(n / grid[0] / grid[1]);
        assert_int_equal(mt_cta_is_traced(&numbers, n, at), n == 7 || ctas_in(n, 20, 33) || n >= 118);
        assert_int_equal(mt_cta_is_traced(&box, n, at), ctas_in(at[0], 2, 3) && at[2] >= 1);
        assert_int_equal(mt_cta_is_traced(&plane, n, at), at[0] <= 1 && at[1] == 4);
        assert_int_equal(mt_cta_is_traced(&both, n, at), n == 5 || at[2] == 2);
        numbers.every = 3;
        assert_int_equal(mt_cta_is_traced(&numbers, n, at),
                         n % 3 == 0 && (n == 7 || ctas_in(n, 20, 33) || n >= 118));
        numbers.every = 1;
    }
}

static void bad_texts(void **state)
{
    static const char *const ctas[] = {"",
                                       "+",
                                       "a",
                                       "1:2:3",
                                       "3:2",
                                       "1,",
                                       ",1",
                                       "1,2,3,4",
                                       "1 ",
                                       ":",
                                       ",",
                                       "-1",
                                       "0x1",
                                       "1+2++",
                                       "1**",
                                       "1,2:",
                                       "99999999999999999999",
                                       NULL};
    static const char *const samples[] = {
        "",       "0",      "cta", "cta:", "cta:0", "1,2", "launch:1,cta:0", "launch:4294967296",
        "cta:1,", "grid:2", NULL};
    struct mt_cta_rule r = {.every = 1, .terms = 0};
    uint32_t a = 17, b = 18;
    char why[200];
    for (unsigned i = 0; ctas[i]; i++) {
        if (!strcmp(ctas[i], "1,2:"))
            continue; /* good: x is 1, y is 2 or more */
        if (!mt_ctas_parse(&r, ctas[i], why, sizeof why))
            fail_msg("'%s' is taken", ctas[i]);
        assert_int_equal(r.terms, 0);
    }
    for (unsigned i = 0; samples[i]; i++)
        if (!mt_sample_parse(&a, &b, samples[i], why, sizeof why))
            fail_msg("'%s' is taken", samples[i]);
    assert_true(a == 17 && b == 18);
    assert_int_equal(mt_sample_parse(&a, &b, "launch:5", why, sizeof why), 0);
    assert_true(a == 1 && b == 5);
    assert_int_equal(mt_sample_parse(&a, &b, "launch:5,cta:7", why, sizeof why), 0);
    assert_true(a == 7 && b == 5);
    assert_int_equal(mt_sample_parse(&a, &b, "12", why, sizeof why), 0);
    assert_true(a == 12 && b == 1);
}

static uint32_t ctas_below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

static void ctas_rest(void **state)
{
    srand(12);
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t n = ((uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand()) >> ctas_below(64);
        uint32_t d = ctas_below(2) ? 1u << ctas_below(32) : 1 + ctas_below(1u << (1 + ctas_below(30)));
        assert_int_equal(mt_cta_rest(n, d), n % d);
    }
}

/* Random rules with overlapping terms. */
static void ctas_counts(void **state)
{
    srand(11);
    for (unsigned round = 0; round < 3000; round++) {
        const uint32_t grid[3] = {1 + ctas_below(9), 1 + ctas_below(7), 1 + ctas_below(5)};
        struct mt_cta_rule r = {.terms = ctas_below(MT_CTA_TERMS + 1), .every = 1 + ctas_below(5)};
        for (uint32_t i = 0; i < r.terms; i++) {
            struct mt_cta_term *t = &r.term[i];
            int numbers = ctas_below(2);
            *t = (struct mt_cta_term){0, UINT64_MAX, {0, 0, 0}, {UINT32_MAX, UINT32_MAX, UINT32_MAX}};
            if (numbers) {
                t->first = ctas_below(320);
                t->last = ctas_below(4) ? t->first + ctas_below(60) : UINT64_MAX;
            }
            for (unsigned k = 0; k < 3 && !numbers; k++) {
                t->low[k] = ctas_below(9);
                t->high[k] = ctas_below(3) ? t->low[k] + ctas_below(4) : UINT32_MAX;
            }
        }
        uint64_t want = 0, n = 0;
        for (uint32_t z = 0; z < grid[2]; z++)
            for (uint32_t y = 0; y < grid[1]; y++)
                for (uint32_t x = 0; x < grid[0]; x++, n++)
                    want += (uint64_t)mt_cta_is_traced(&r, n, (const uint32_t[]){x, y, z});
        assert_int_equal(mt_ctas_count(&r, r.every, grid), want);
    }
    const uint32_t huge[3] = {2147483647, 65535, 65535}; /* numbers need no walk */
    struct mt_cta_rule r = rule_of("5:");
    uint64_t all = (uint64_t)huge[0] * huge[1] * huge[2];
    assert_true(mt_ctas_count(&r, 1, huge) == all - 5);
    assert_true(mt_ctas_count(&(struct mt_cta_rule){.every = 1}, 10, huge) == (all + 9) / 10);
}

static void hidden_parameter(void **state)
{
    struct mt_cta_rule r = rule_of("2,1,*+3");
    _Alignas(256) struct mt_gpu_context c = {.ctas = (uint64_t)(uintptr_t)&r};
    struct mt_gpu_context *in_parts = (struct mt_gpu_context *)((char *)&c + MT_CONTEXT_IN_PARTS);
    host_thread = (struct host_thread){.grid = {4, 3}};
    for (uint32_t z = 0; z < 2; z++)
        for (uint32_t y = 0; y < 3; y++)
            for (uint32_t x = 0; x < 4; x++) {
                int traced = (x == 2 && y == 1) || (x == 3 && y == 0 && z == 0);
                host_thread.cta[0] = x;
                host_thread.cta[1] = y;
                host_thread.cta[2] = z;
                assert_ptr_equal(__mt_gpu_begin(in_parts), traced ? &c : NULL);
                assert_ptr_equal(__mt_gpu_begin(&c), &c);
                assert_null(__mt_gpu_begin(NULL));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ctas_texts), cmocka_unit_test(bad_texts),
                                       cmocka_unit_test(ctas_rest), cmocka_unit_test(ctas_counts),
                                       cmocka_unit_test(hidden_parameter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
