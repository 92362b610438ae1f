/* Functions of PTX as wholes, run on the host: jumps, calls, parameters of all kinds,
 * variables with first values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "reader.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

typedef uint32_t one(uint32_t);
typedef uint64_t wide(uint64_t);

static void test_loop(void **state)
{
    one *f = (one *)reader_jit(HEAD ".visible .func (.param .b32 r) f(.param .b32 n)\n{\n"
                                    ".reg .pred %p<2>; .reg .b32 %r<4>;\n"
                                    "ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, 0;\n"
                                    "$L__BB0_1: setp.ge.u32 %p1, %r3, %r1; @%p1 bra $L__BB0_2;\n"
                                    "add.u32 %r2, %r2, %r3; add.u32 %r3, %r3, 1; bra.uni $L__BB0_1;\n"
                                    "$L__BB0_2: st.param.b32 [r], %r2; ret;\n}\n",
                               "f");
    assert_int_equal(f(10), 45);
    assert_int_equal(f(0), 0);
}

static void test_recursion(void **state)
{
    one *f = (one *)reader_jit(
        HEAD
        ".visible .func (.param .b32 r) fib(.param .b32 n);\n"
        ".visible .func (.param .b32 r) fib(.param .b32 n)\n{\n"
        ".reg .pred %p1; .reg .b32 %n, %a, %b;\n"
        "ld.param.b32 %n, [n]; setp.gt.u32 %p1, %n, 1; @%p1 bra MORE; st.param.b32 [r], %n; ret;\nMORE:\n"
        "{ .param .b32 p0; .param .b32 q0; .reg .b32 %t; sub.u32 %t, %n, 1; st.param.b32 [p0], %t;\n"
        "call.uni (q0), fib, (p0); ld.param.b32 %a, [q0]; }\n"
        "{ .param .b32 p0; .param .b32 q0; .reg .b32 %t; sub.u32 %t, %n, 2; st.param.b32 [p0], %t;\n"
        "call.uni (q0), fib, (p0); ld.param.b32 %b, [q0]; }\n"
        "add.u32 %a, %a, %b; st.param.b32 [r], %a; ret;\n}\n",
        "fib");
    assert_int_equal(f(20), 6765);
}

typedef void words(uint32_t *, const uint32_t *, const uint32_t *);

/* The carry flag lives on across blocks: a - b of 512 bits in a loop whose first word is handled apart; then
 * what the flag is after it, as addc and as subc see it. */
static void test_carry(void **state)
{
    words *f = (words *)reader_jit(
        HEAD ".visible .func f(.param .b64 d, .param .b64 a, .param .b64 b)\n{\n"
             ".reg .pred %p; .reg .b32 %x, %y, %i; .reg .b64 %d, %a, %b;\n"
             "ld.param.u64 %d, [d]; ld.param.u64 %a, [a]; ld.param.u64 %b, [b];\n"
             "ld.u32 %x, [%a]; ld.u32 %y, [%b]; sub.cc.u32 %x, %x, %y; st.u32 [%d], %x; mov.u32 %i, 1;\n"
             "L: add.u64 %d, %d, 4; add.u64 %a, %a, 4; add.u64 %b, %b, 4; ld.u32 %x, [%a]; ld.u32 %y, [%b];\n"
             "subc.cc.u32 %x, %x, %y; st.u32 [%d], %x;\n"
             "add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 16; @%p bra L;\n"
             "addc.u32 %x, 0, 0; subc.u32 %y, 0, 0; st.u32 [%d+4], %x; st.u32 [%d+8], %y; ret;\n}\n",
        "f");
    uint32_t a[16], b[16], d[18], seed = 7;
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned i = 0; i < 16; i++) {
            seed = seed * 1664525 + 1013904223;
            a[i] = seed & 0x10000 ? seed : seed & 0x20000 ? 0 : UINT32_MAX;
            b[i] = seed & 0x40000 ? a[i] : seed * 22695477 + 1;
        }
        int64_t borrow = 0;
        f(d, a, b);
        for (unsigned i = 0; i < 16; i++) {
            int64_t difference = (int64_t)a[i] - b[i] - borrow;
            borrow = difference < 0;
            assert_int_equal(d[i], (uint32_t)difference);
        }
        assert_int_equal(d[16], !borrow);
        assert_int_equal(d[17], borrow ? UINT32_MAX : 0);
    }
}

/* Labels belong to their braces: each asm block of a program has its own. */
static void test_scopes(void **state)
{
    one *f =
        (one *)reader_jit(HEAD ".visible .func (.param .b32 r) f(.param .b32 n)\n{\n"
                               ".reg .b32 %x; .reg .pred %p; ld.param.u32 %x, [n]; setp.gt.u32 %p, %x, 5;\n"
                               "{ .reg .b32 %x; mov.u32 %x, 99; @%p bra DONE; mov.u32 %x, 98; DONE: }\n"
                               "{ @%p bra DONE; add.u32 %x, %x, 100; DONE: add.u32 %x, %x, 1; }\n"
                               "st.param.b32 [r], %x; ret;\n}\n",
                          "f");
    assert_int_equal(f(3), 104);
    assert_int_equal(f(7), 8);
}

static void test_switch(void **state)
{
    one *f = (one *)reader_jit(HEAD ".visible .func (.reg .b32 %r) f(.reg .b32 %n)\n{\n"
                                    "$L_0: .branchtargets A, B, C;\n"
                                    "brx.idx %n, $L_0;\nA: mov.u32 %r, 11; ret;\nB: mov.u32 %r, 22; ret;\n"
                                    "C: mov.u32 %r, 33; ret;\n}\n",
                               "f");
    assert_int_equal(f(0), 11);
    assert_int_equal(f(1), 22);
    assert_int_equal(f(2), 33);
}

enum { JUMPS = 66000, LABELS = 37 };

static unsigned jump_label(unsigned i)
{
    return i < 200 ? i % 3 : i * i / 7 % LABELS;
}

/* Long lists, with labels that have many entries; two places jump by one list. */
static void test_long_switch(void **state)
{
    static const unsigned sizes[] = {1, 17, 256, 257, JUMPS};
    static char text[JUMPS * 8 + 4096];
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned n = sizes[s];
        size_t at = (size_t)sprintf(text, HEAD ".visible .func (.reg .b32 %%r) f(.reg .b32 %%n)\n{\n"
                                               ".reg .pred %%p; .reg .b32 %%h;\nT: .branchtargets ");
        for (unsigned i = 0; i < n; i++)
            at += (size_t)sprintf(text + at, "%sL%u", i ? "," : "", jump_label(i));
        at += (size_t)sprintf(text + at,
                              ";\nmov.u32 %%h, 0;\nsetp.ge.u32 %%p, %%n, 1000000;\n@!%%p brx.idx %%n, T;\n"
                              "sub.u32 %%n, %%n, 1000000;\nmov.u32 %%h, 500;\nbrx.idx %%n, T;\n");
        for (unsigned k = 0; k < LABELS; k++)
            at += (size_t)sprintf(text + at, "L%u: add.u32 %%r, %%h, %u;\nret;\n", k, 1000 + k);
        sprintf(text + at, "}\n");
        one *f = (one *)reader_jit(text, "f");
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(f(i), 1000 + jump_label(i));
            assert_int_equal(f(1000000 + i), 1500 + jump_label(i));
        }
    }
}

/* Few values, and many zeros, which are not spelt out. */
static void test_zeros(void **state)
{
    one *f = (one *)reader_jit(
        HEAD
        ".global .align 4 .u32 a[5000] = {7, 8, 9};\n.global .align 2 .u16 b[3][4000] = {{1}, {2, 3}};\n"
        ".global .align 8 .u64 c[3000] = {generic(a)+8};\n"
        ".visible .func (.reg .b32 %r) f(.reg .b32 %n)\n{ .reg .b64 %p, %x; .reg .b32 %a; .reg .b16 %h;\n"
        ".reg .pred %q; mov.u64 %p, a; mul.wide.u32 %x, %n, 4; add.u64 %x, %p, %x; ld.global.u32 %r, [%x];\n"
        "mov.u64 %p, b; mul.wide.u32 %x, %n, 2; add.u64 %x, %p, %x; ld.global.u16 %h, [%x];\n"
        "cvt.u32.u16 %a, %h; mad.lo.u32 %r, %a, 100, %r; rem.u32 %a, %n, 3000;\n"
        "mov.u64 %p, c; mul.wide.u32 %x, %a, 8; add.u64 %x, %p, %x; ld.global.u64 %x, [%x];\n"
        "setp.eq.u64 %q, %x, 0; @%q ret; ld.u32 %a, [%x]; mad.lo.u32 %r, %a, 10000, %r; ret; }\n",
        "f");
    static const unsigned want[][2] = {{0, 7 + 100 + 90000}, {1, 8},      {2, 9},      {3, 0},   {2999, 0},
                                       {3000, 90000},        {4000, 200}, {4001, 300}, {4999, 0}};
    for (unsigned i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(f(want[i][0]), want[i][1]);
}

/* Several results, as registers: without ptxas's ABI. One of them goes nowhere. */
static void test_results(void **state)
{
    one *f =
        (one *)reader_jit(HEAD ".func (.reg .b32 %q, .reg .b32 %m, .reg .b64 %w) three(.reg .b32 %n)\n{\n"
                               "div.u32 %q, %n, 10; rem.u32 %m, %n, 10; cvt.u64.u32 %w, %n; ret;\n}\n"
                               ".visible .func (.reg .b32 %r) f(.reg .b32 %n)\n{\n"
                               ".reg .b32 %a, %b; .reg .b64 %c;\n"
                               "call (%a, %b, %c), three, (%n);\n"
                               "mad.lo.u32 %r, %b, 1000, %a; cvt.u32.u64 %a, %c; xor.b32 %r, %r, %a;\n"
                               "call (%a, _, _), three, (%a); add.u32 %r, %r, %a; ret;\n}\n",
                          "f");
    assert_int_equal(f(123), (3012 ^ 123) + 12);
}

/* Through a table of functions, one of them by an alias. */
static void test_pointers(void **state)
{
    one *f = (one *)reader_jit(
        HEAD
        ".func (.param .b32 r) plus(.param .b32 n) { .reg .b32 %x; ld.param.b32 %x, [n]; add.u32 %x, %x, 7; "
        "st.param.b32 [r], %x; ret; }\n"
        ".func (.param .b32 r) times(.param .b32 n) { .reg .b32 %x; ld.param.b32 %x, [n]; mul.lo.u32 %x, %x, "
        "7; "
        "st.param.b32 [r], %x; ret; }\n"
        ".func (.param .b32 r) other(.param .b32 n);\n.alias other, times;\n"
        ".global .align 8 .u64 table[2] = {plus, times};\n"
        ".visible .func (.param .b32 r) f(.param .b32 n)\n{\n"
        ".reg .b64 %t, %p; .reg .b32 %x, %i;\n"
        "ld.param.b32 %x, [n]; and.b32 %i, %x, 1; mov.u64 %t, table; mad.wide.u32 %t, %i, 8, %t; "
        "ld.global.u64 %p, [%t];\n"
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %x;\n"
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (b), %p, (a), proto; ld.param.b32 "
        "%x, [b]; }\n"
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %x; call (b), other, (a); ld.param.b32 %x, [b]; "
        "}\n"
        "st.param.b32 [r], %x; ret;\n}\n",
        "f");
    assert_int_equal(f(4), (4 + 7) * 7);
    assert_int_equal(f(5), 5 * 7 * 7);
}

/* Structures by value, there and back: { u32 a; u8 b; u64 c }. */
static void test_structures(void **state)
{
    wide *f = (wide *)reader_jit(
        HEAD
        ".func (.param .align 8 .b8 r[16]) swap(.param .align 8 .b8 s[16])\n{ .reg .b32 %a; .reg .b16 %b; "
        ".reg .b64 %c;\n"
        "ld.param.u32 %a, [s]; ld.param.u8 %b, [s+4]; ld.param.u64 %c, [s+8]; add.u64 %c, %c, 1;\n"
        "st.param.u32 [r], %a; add.u16 %b, %b, %b; st.param.u8 [r+4], %b; st.param.b64 [r+8], %c; ret; }\n"
        ".visible .func (.param .b64 r) f(.param .b64 n)\n{ .reg .b64 %x, %y; .reg .b16 %b; .reg .b32 %a;\n"
        "ld.param.b64 %x, [n];\n"
        "{ .param .align 8 .b8 p[16]; .param .align 8 .b8 q[16]; st.param.b32 [p+0], 1000; st.param.b8 "
        "[p+4], 21;\n"
        "st.param.b64 [p+8], %x; call.uni (q), swap, (p);\n"
        "ld.param.b32 %a, [q+0]; ld.param.u8 %b, [q+4]; ld.param.b64 %x, [q+8]; }\n"
        "cvt.u64.u32 %y, %a; add.u64 %x, %x, %y; cvt.u64.u16 %y, %b; add.u64 %x, %x, %y;\n"
        "st.param.b64 [r], %x; ret; }\n",
        "f");
    assert_int_equal(f(5), 1000 + 42 + 6);
}

/* Variables: numbers of all sorts, addresses whole and byte by byte, rows that are not full, the stack. */
static void test_memory(void **state)
{
    wide *f = (wide *)reader_jit(
        HEAD
        ".global .align 4 .u32 a[3] = {1, 0x20, 0300};\n"
        ".global .align 4 .f32 e[2] = {1.5, 0f40000000};\n"
        ".global .align 1 .b8 rows[2][3] = {{1}, {2, 3}};\n"
        ".global .align 8 .u64 there = generic(a)+4;\n"
        ".global .align 8 .b8 bytes[16] = {5, 0,0,0,0,0,0,0, 0xFF(a), 0xFF00(a), 0xFF0000(a), 0xFF000000(a), "
        "0xFF00000000(a), 0xFF0000000000(a), 0xFF000000000000(a), 0xFF00000000000000(a)};\n"
        ".visible .func (.param .b64 r) f(.param .b64 n)\n{ .reg .b64 %x, %p, %y; .reg .b32 %a, %b; .reg "
        ".f32 %e, %g;\n"
        ".local .align 8 .b8 depot[16]; .reg .b16 %h;\n"
        "ld.global.u64 %p, [there]; ld.u32 %a, [%p]; cvt.u64.u32 %x, %a;\n"                         /* 32 */
        "ld.global.u64 %p, [bytes+8]; ld.u32 %a, [%p+8]; cvt.u64.u32 %y, %a; add.u64 %x, %x, %y;\n" /* 192 */
        "ld.global.u8 %h, [rows+3]; cvt.u64.u16 %y, %h; add.u64 %x, %x, %y;\n"                      /* 2 */
        "ld.global.v2.f32 {%e, %g}, [e]; add.rn.f32 %e, %e, %g; mul.rn.f32 %e, %e, 0f40000000; "
        "cvt.rzi.s32.f32 %a, %e;\n"
        "cvt.u64.u32 %y, %a; add.u64 %x, %x, %y;\n" /* (1.5 + 2) * 2 = 7 */
        "mov.u64 %p, depot; cvta.local.u64 %p, %p; mov.u32 %a, 1; mov.u32 %b, 2; st.local.v2.u32 [depot+8], "
        "{%a, %b};\n"
        "ld.u64 %y, [%p+8]; add.u64 %x, %x, %y;\n" /* 1 + 2^33 */
        "st.param.b64 [r], %x; ret; }\n",
        "f");
    assert_int_equal(f(0), 32 + 192 + 2 + 7 + 1 + (2ull << 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),        cmocka_unit_test(test_carry),  cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_scopes),      cmocka_unit_test(test_switch), cmocka_unit_test(test_pointers),
        cmocka_unit_test(test_structures),  cmocka_unit_test(test_memory), cmocka_unit_test(test_results),
        cmocka_unit_test(test_long_switch), cmocka_unit_test(test_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
