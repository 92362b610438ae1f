/* Lines of JSON beside jansson: what is JSON and what is not, and the values of members and of lists, of
 * objects by chance and of such with a few bytes changed. */
#include "postprocess/reader/base/flat.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CASES = 250000, LONGEST = 4096 };

static uint64_t seed = 1;

static unsigned flat_chance(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

/* ---- texts ---- */

static char text[LONGEST * 2];
static size_t n;

static void flat_put(const char *s)
{
    size_t length = strlen(s);
    if (n + length < LONGEST) {
        memcpy(text + n, s, length);
        n += length;
    }
}

static void flat_blanks(void)
{
    static const char *const some[] = {"", "", "", " ", "\t ", "\r\n"};
    flat_put(some[flat_chance(sizeof some / sizeof *some)]);
}

static void flat_some_text(void)
{
    static const char *const parts[] = {"a",
                                        "kernel",
                                        "\\n",
                                        "\\\"",
                                        "\\\\",
                                        "\\/",
                                        "\\u0041",
                                        "\\u00e9",
                                        "\\u20AC",
                                        "\\ud83d\\ude00",
                                        "\xc3\xa9",
                                        "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "0x7f12",
                                        " ",
                                        "{",
                                        "]",
                                        "\\u0000",
                                        "\x7f"};
    flat_put("\"");
    for (unsigned i = flat_chance(5); i; i--)
        flat_put(parts[flat_chance(sizeof parts / sizeof *parts)]);
    flat_put("\"");
}

static void flat_some_number(void)
{
    static const char *const numbers[] = {"0",
                                          "-0",
                                          "7",
                                          "-12",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "9223372036854775808",
                                          "18446744073709551616",
                                          "1.5",
                                          "-0.25e-3",
                                          "1E+2",
                                          "0e0",
                                          "01",
                                          "-",
                                          "1."};
    char digits[24];
    snprintf(digits, sizeof digits, "%d", (int)flat_chance(100000) - 50000);
    flat_put(flat_chance(2) ? digits : numbers[flat_chance(12 + (flat_chance(20) == 0) * 3)]);
}

static void flat_some_value(int depth);

static void flat_some_list(int depth)
{
    flat_put("[");
    for (unsigned i = flat_chance(4); i; i--) {
        flat_blanks();
        flat_some_value(depth + 1);
        flat_put(i > 1 ? "," : "");
    }
    flat_blanks();
    flat_put("]");
}

static void flat_some_object(int depth)
{
    static const char *const keys[] = {"ev",           "file", "line",      "begin_ns", "begin_ns2",
                                       "beginning_of", "",     "k\\u0065y", "\xc3\xa9", "a"};
    unsigned first = flat_chance(10);
    flat_blanks();
    flat_put("{");
    for (unsigned i = flat_chance(6), k = 0; k < i; k++) {
        flat_blanks();
        flat_put("\"");
        flat_put(keys[(first + k) % 10]);
        flat_put("\"");
        flat_blanks();
        flat_put(":");
        flat_some_value(depth + 1);
        flat_blanks();
        flat_put(k + 1 < i ? "," : "");
    }
    flat_put("}");
    flat_blanks();
}

static void flat_some_value(int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    flat_blanks();
    switch (flat_chance(depth < 4 ? 8 : 5)) {
    case 0:
    case 1:
        flat_some_number();
        break;
    case 2:
    case 3:
        flat_some_text();
        break;
    case 4:
        flat_put(words[flat_chance(3)]);
        break;
    case 5:
    case 6:
        flat_some_list(depth);
        break;
    default:
        flat_some_object(depth);
    }
}

/* Changes, removes, or doubles a few bytes. */
static void flat_damage(void)
{
    static const char bytes[] = "\"\\{}[],:0-.eu\x01\xff\xc3\xe9 t";
    for (unsigned i = 1 + flat_chance(3); i && n > 1; i--) {
        size_t at = flat_chance((unsigned)n);
        switch (flat_chance(3)) {
        case 0:
            text[at] = bytes[flat_chance(sizeof bytes - 1)]; /* jansson passes over some NULs */
            break;
        case 1:
            memmove(text + at, text + at + 1, --n - at);
            break;
        default:
            memmove(text + at + 1, text + at, n++ - at);
        }
    }
}

/* ---- comparison ---- */

static void flat_compare(const struct mt_flat *l, const struct mt_flat_value *v, const json_t *j, int depth)
{
    static const enum mt_flat_kind kinds[] = {
        [JSON_OBJECT] = MT_FLAT_OBJECT,   [JSON_ARRAY] = MT_FLAT_LIST, [JSON_STRING] = MT_FLAT_TEXT,
        [JSON_INTEGER] = MT_FLAT_INTEGER, [JSON_REAL] = MT_FLAT_REAL,  [JSON_TRUE] = MT_FLAT_BOOL,
        [JSON_FALSE] = MT_FLAT_BOOL,      [JSON_NULL] = MT_FLAT_NULL};
    assert_int_equal(v->kind, kinds[json_typeof(j)]);
    if (json_is_integer(j))
        assert_true(v->number == json_integer_value(j));
    if (json_is_boolean(j))
        assert_int_equal(v->number, json_is_true(j));
    if (json_is_string(j)) {
        assert_int_equal(v->bytes, json_string_length(j));
        assert_memory_equal(v->text, json_string_value(j), v->bytes);
    }
    if (!json_is_array(j) || depth)
        return;
    assert_int_equal(v->bytes, json_array_size(j));
    assert_int_equal(mt_flat_element(l, v, v->bytes)->kind, MT_FLAT_ABSENT);
    for (size_t i = 0; i < v->bytes; i++)
        flat_compare(l, mt_flat_element(l, v, i), json_array_get(j, i), 1);
}

/* Returns 1 for what only jansson refuses. */
static int flat_only_theirs(const json_error_t *e)
{
    return strstr(e->text, "NUL byte in object key") || strstr(e->text, "real number overflow");
}

static void flat_check(struct mt_flat *l, unsigned *good, unsigned *bad)
{
    json_error_t e;
    char *exact = malloc(n + 1); /* so that a sanitizer sees what is read behind the end */
    memcpy(exact, text, n);
    json_t *j = json_loadb(exact, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &e);
    int rc = mt_flat_read(l, exact, n);
    const char *key;
    json_t *value;
    text[n] = 0;
    if (!j && (flat_only_theirs(&e) || strstr(e.text, "duplicate object key"))) {
        free(exact);
        return;
    }
    if ((rc != 0) != (!j || !json_is_object(j)))
        fail_msg("\"%s\" at %zu of %zu, and jansson says \"%s\": %s", rc ? l->why : "fine", l->at, n,
                 j ? "fine" : e.text, text);
    if (rc != 0) {
        assert_true(*l->why && l->at <= n);
        ++*bad;
    } else {
        assert_int_equal(l->count, json_object_size(j));
        json_object_foreach(j, key, value) flat_compare(l, mt_flat_get(l, key), value, 0);
        for (const char *const *k = (const char *const[]){"no", "begin_n", "beginning_on", NULL}; *k; k++)
            assert_int_equal(mt_flat_get(l, *k)->kind != MT_FLAT_ABSENT, json_object_get(j, *k) != NULL);
        ++*good;
    }
    json_decref(j);
    free(exact);
}

static void flat_like_jansson(void **state)
{
    struct mt_flat l = {0};
    unsigned good = 0, bad = 0;
    for (unsigned i = 0; i < CASES; i++) {
        n = 0;
        flat_some_object(0);
        if (i % 2)
            flat_damage();
        flat_check(&l, &good, &bad);
    }
    assert_true(good > CASES / 3 && bad > CASES / 5);
    mt_flat_free(&l);
    (void)state;
}

static void flat_deep(void **state)
{
    struct mt_flat l = {0};
    size_t most = 1 << 20;
    char *s = malloc(most);
    memcpy(s, "{\"a\":", 5);
    memset(s + 5, '[', most - 5);
    assert_int_equal(mt_flat_read(&l, s, most), 1);
    assert_non_null(strstr(l.why, "within each other"));
    assert_int_equal(mt_flat_read(&l, "[1]", 3), 1);
    assert_int_equal(mt_flat_read(&l, "", 0), 1);
    assert_int_equal(mt_flat_read(&l, "{\"ev\":\"x\"} y", 12), 1);
    assert_int_equal(l.at, 11);
    assert_int_equal(mt_flat_get(NULL, "ev")->kind, MT_FLAT_ABSENT);
    free(s);
    mt_flat_free(&l);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flat_like_jansson), cmocka_unit_test(flat_deep)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
