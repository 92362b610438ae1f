/* What is not PTX, or PTX that nobody can run: an error with its line, in time and within memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include "reader.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define KERNEL HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n.reg .b64 %x;\n"

/* The whole text is refused (0), or one function (1); what is said, and at which line. */
static const struct refused_row {
    const char *text;
    int one;
    unsigned line;
    const char *words;
} rows[] = {
    {HEAD ".globl .u32 x;\n", 0, 4, ".globl"},
    {".version 8.0\n.target sm_80\n.address_size 32\n", 0, 3, "32"},
    {HEAD ".visible .entry k(\n", 0, 5, "expected"},
    {HEAD ".visible .entry k() {\nret;\n", 0, 6, "'}' missing"},
    {HEAD ".visible .entry k() {\nret;\n}\n.visible .entry k() { ret; }\n", 0, 7, "defined twice"},
    {HEAD ".local .align 4 .b8 a[8];\n", 0, 4, "belong into a function"},
    {HEAD ".global .u32 a[2] = {1, 2, 3};\n", 0, 4, "more values"},
    {HEAD ".global .u64 a = nobody;\n", 0, 4, "nobody"},
    {HEAD ".global .u32 x;\n.global .u32 x;\n", 1, 5, "defined twice"},
    {HEAD ".global .texref t;\n", 1, 4, "texture"},
    {HEAD ".global .u32 g[100000000] = {1,2,3};\n", 0, 4,
     "g asks for 399999988 bytes that its text does not have; --limit=382M"},
    {HEAD ".global .u32 g[2][100000000] = {{1},{2}};\n", 0, 4, "--limit=382M"},
    {HEAD ".func (.param .b8 r[100000000]) f();\n", 0, 4, "r asks for 12800000000 bytes"},
    {KERNEL ".reg .b32 %q<1000000000>;\nret;\n}\n", 1, 8,
     "%q asks for 256000000000 bytes that its text does not have; --limit=244141M"},
    {HEAD ".global .u32 a[4294967296][4294967296];\n", 0, 4, "too large"},
    {HEAD ".global .align 3 .u32 a;\n", 0, 4, "power of two"},
    {KERNEL "add.s32 %r1, %r9, 1;\nret;\n}\n", 1, 8, "%r9"},
    {KERNEL "bra NOWHERE;\nret;\n}\n", 1, 8, "NOWHERE"},
    {KERNEL "L: ret;\nL: ret;\n}\n", 1, 9, "is defined twice"},
    {KERNEL "call nobody, ();\nret;\n}\n", 1, 8, "nobody"},
    {KERNEL ".unknown 5;\nret;\n}\n", 1, 8, ".unknown"},
    {KERNEL "ld.param.u32 %r1, [q];\nret;\n}\n", 1, 8, "q"},
    {KERNEL "ld.global.v4.u32 {%r1, %r2}, [%x];\nret;\n}\n", 1, 8, "4 registers"},
    {KERNEL "brx.idx %r1, T;\nret;\n}\n", 1, 8, ".branchtargets"},
    {KERNEL "mov.u32 %r1, 5\nret;\n}\n", 1, 9, "expected"},
    {KERNEL "call %x, ();\nret;\n}\n", 1, 8, "prototype"},
};

static void test_rows(void **state)
{
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mt_ptx_result result;
        struct reader_words words;
        LLVMModuleRef m = reader_read(rows[i].text, strlen(rows[i].text), &result, &words);
        int as_said = !m == !rows[i].one && (!m || result.failed == 1) && words.line == rows[i].line &&
                      strstr(words.text, rows[i].words);
        if (!as_said)
            fail_msg("row %u: %s, line %u: %s", i, m ? "read" : "refused", words.line, words.text);
        if (m)
            LLVMDisposeModule(m);
    }
}

/* The other kernels are there. */
static void test_others_stay(void **state)
{
    static const char text[] =
        HEAD ".visible .entry good(.param .u64 p) { ret; }\n.visible .entry bad() { .nothing; }\n";
    struct mt_ptx_result result;
    struct reader_words words;
    LLVMModuleRef m = reader_read(text, strlen(text), &result, &words);
    assert_non_null(m);
    assert_int_equal(result.kernels, 2);
    assert_int_equal(result.failed, 1);
    assert_non_null(strstr(words.text, "bad"));
    LLVMDisposeModule(m);
}

/* `before`, then `n` times `again`, then `after`. */
static char *refused_repeat(const char *before, const char *again, unsigned n, const char *after,
                            size_t *length)
{
    size_t a = strlen(before), b = strlen(again), c = strlen(after);
    char *text = malloc(a + b * n + c + 1), *at = text;
    assert_non_null(text);
    at = (char *)memcpy(at, before, a) + a;
    for (unsigned i = 0; i < n; i++)
        at = (char *)memcpy(at, again, b) + b;
    memcpy(at, after, c + 1);
    *length = (size_t)(at - text) + c;
    return text;
}

static void test_bounds(void **state)
{
    static const struct {
        const char *before, *again, *after;
        unsigned n;
    } cases[] = {{KERNEL, "{", "ret; }", 200000},
                 {KERNEL "add.s32 %r1, ", "-", "%r1, 1; ret; }", 200000},
                 {KERNEL "mov.b64 ", "{", "%r1", 200000},
                 {KERNEL, ".reg .b32 %q<1000000>;\n", "ret; }", 50},
                 {KERNEL, "ld.global.u32 %r1, [%x]; add.u64 %x, %x, %x;\n", "ret; }", 20000},
                 {KERNEL, "add.u64 %x, %x, %x; ", "ld.global.u32 %r1, [%x]; ret; }", 40000},
                 {HEAD ".global .u32 a[16777215] = {", "{", "1}", 100000},
                 {HEAD ".global .b8 a[268435000] = {1};\n", ".global .u8 b; ", "", 3},
                 {HEAD, ".visible .entry k(.param .u64 p);", "", 50000},
                 {HEAD ".visible .entry k(", ".param .u64 p,", ") { ret; }", 100000},
                 {KERNEL "add", ".a", " %r1, %r1, %r1; ret; }", 100000}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        struct mt_ptx_result result;
        struct reader_words words;
        char *text = refused_repeat(cases[i].before, cases[i].again, cases[i].n, cases[i].after, &length);
        clock_t begin = clock();
        LLVMModuleRef m = reader_read(text, length, &result, &words);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 20)
            fail_msg("case %u: %.1f s", i, seconds);
        if (m)
            LLVMDisposeModule(m);
        free(text);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    assert_true(use.ru_maxrss < 3 << 20); /* in KiB */
}

/* Cut off anywhere. */
static void test_truncated(void **state)
{
    static const char text[] =
        HEAD ".file 1 \"a.cu\"\n.global .align 8 .u64 t[2] = {generic(v)+8, 0xFF(v)};\n.extern .shared "
             ".align 16 .b8 s[];\n"
             ".func (.param .b32 r) g(.param .align 4 .b8 a[12]) .noreturn;\n"
             ".visible .entry k(.param .u64 .ptr .global .align 4 p, .param .f32 f) .maxntid 32, 1, 1\n{\n"
             ".reg .pred %p<2>; .reg .b32 %r<4>;\n.loc 1 3 5, function_name $L0, inlined_at 1 9 2\n"
             "P: .callprototype (.param .b32 _) _ (.param .b64 _);\n{ .param .b32 q; @!%p1 bra $L1; "
             "ld.volatile.shared.v2.u32 "
             "{%r1, _}, [s+-4]; }\n$L1: ret;\n}\n.section .debug_str\n{\n$L0:\n.b8 97,98,0\n}\n";
    for (size_t n = 0; n <= sizeof text - 1; n++) {
        struct mt_ptx_result result;
        struct reader_words words;
        LLVMModuleRef m = reader_read(text, n, &result, &words);
        if (m)
            LLVMDisposeModule(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_others_stay),
                                       cmocka_unit_test(test_bounds), cmocka_unit_test(test_truncated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
