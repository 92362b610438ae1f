/* Numba's names, as its compiler made them, against those of the Python source. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/source_name.h"

#define FLAGS "[abi:cw51cXTLSUwv1sDUaKthqaNgoKmjgMVuW1AiA8rAEg2UjxRKtuAI0FEA2gSVRE8cSMKQdI]"

static const struct {
    const char *given, *wanted; /* NULL: stays */
} rows[] = {
    {"__main__::add[abi:v1]" FLAGS, "add"},
    {"__main__::add[abi:v1]" FLAGS "(Array<float, 1, C, mutable, aligned>)",
     "add(Array<float, 1, C, mutable, aligned>)"},
    {"cudapy::__main__::add[abi:v12]" FLAGS, "add"},
    {"physics::force::pull[abi:v2]" FLAGS, "physics.force.pull"},
    {"__main__::make::_3clocals_3e::k[abi:v3]" FLAGS, "make.<locals>.k"},
    {"__main__::_3clambda_3e[abi:v3]" FLAGS, "<lambda>"},
    {"x[abi:v1][abi:c]", "x"},
    {"std::sort[abi:cxx11]", NULL},
    {"ns::k<ns::t>", NULL},
    {"k[abi:v][abi:cw]", NULL},
    {"k[abi:v1]", NULL},
    {"", NULL},
};

static void names_rows(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        strcpy(text, rows[i].given);
        assert_int_equal(mt_python_name(text), rows[i].wanted != NULL);
        assert_string_equal(text, rows[i].wanted ? rows[i].wanted : rows[i].given);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
