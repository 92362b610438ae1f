/* The asm parser against results written down by hand, and against damaged texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ptx/asm/asm.h"

static struct mt_asm *parse_run(const char *text)
{
    struct mt_asm_error error;
    struct mt_asm *a = mt_asm_parse(text, strlen(text), &error);
    if (!a)
        fail_msg("%s: %s at %zu", text, error.message, error.offset);
    return a;
}

static void parse_refuse(const char *text, const char *words, size_t offset)
{
    struct mt_asm_error error;
    struct mt_asm *a = mt_asm_parse(text, strlen(text), &error);
    assert_null(a);
    if (!strstr(error.message, words))
        fail_msg("%s: '%s' does not say '%s'", text, error.message, words);
    assert_int_equal(error.offset, offset);
}

static void one_instruction(void **state)
{
    struct mt_asm *a = parse_run("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {$0,$1, $2 ,$3}, [$4+-32];");
    assert_int_equal(a->nstatements, 1);
    struct mt_asm_statement *s = a->statements;
    assert_string_equal(s->opcode, "ld.global.nc.L1::no_allocate.L2::128B.v4.f32");
    assert_int_equal(s->nparts, 7);
    assert_string_equal(s->parts[3], "L1::no_allocate");
    assert_string_equal(s->parts[6], "f32");
    assert_true(mt_asm_has(s, "nc"));
    assert_false(mt_asm_has(s, "ld"));
    assert_int_equal(s->noperands, 2);
    assert_int_equal(s->operands[0].kind, MT_ASM_VECTOR);
    assert_int_equal(s->operands[0].nitems, 4);
    assert_int_equal(s->operands[0].items[3].index, 3);
    assert_int_equal(s->operands[1].kind, MT_ASM_MEMORY);
    assert_int_equal(s->operands[1].items[0].index, 4);
    assert_true(s->operands[1].offset == -32);
    mt_asm_free(a);
}

static void blocks_and_registers(void **state)
{
    struct mt_asm *a = parse_run("{\n\t.reg .pred p, %q; .reg.b32 r<3>; /* r0 to r2 */\n"
                                 " setp.ne.b32 p, $1, 0; // compare\n"
                                 " @!p mov.u32 r2, 0x1F; { .reg .f64 p; mov.f64 p, 0d3FF0000000000000; }\n"
                                 " @%q add.s32 ${0}, r2, -7;\n}");
    assert_int_equal(a->nregs, 6);
    assert_string_equal(a->regs[1].name, "%q");
    assert_int_equal(a->regs[0].type, 'p');
    assert_int_equal(a->regs[0].bits, 1);
    assert_string_equal(a->regs[4].name, "r2");
    assert_int_equal(a->regs[5].bits, 64);
    assert_int_equal(a->nstatements, 4);
    struct mt_asm_statement *s = a->statements;
    assert_int_equal(s[0].operands[0].index, 0);
    assert_int_equal(s[0].operands[2].kind, MT_ASM_INT);
    assert_int_equal(s[1].predicate->inverted, 1);
    assert_int_equal(s[1].predicate->index, 0);
    assert_int_equal(s[1].operands[1].bits, 0x1f);
    assert_int_equal(s[2].operands[0].index, 5); /* the inner p */
    assert_int_equal(s[2].operands[1].kind, MT_ASM_F64);
    assert_true(s[2].operands[1].bits == 0x3ff0000000000000);
    assert_int_equal(s[3].predicate->index, 1);
    assert_int_equal(s[3].predicate->inverted, 0);
    assert_true((int64_t)s[3].operands[2].bits == -7);
    mt_asm_free(a);
}

static void operand_forms(void **state)
{
    struct mt_asm *a =
        parse_run("shfl.sync.down.b32 $0|p, $1, 0x10, 31, -1; mov.u32 $0, %tid.x; mov.u64 $0, %clock64;"
                  "mov.f32 $0, 0f3F800000; mov.f32 $0, 1.5; mov.b32 {$0, _}, $1; bra $$L__${:uid}_1;"
                  "$$L__${:uid}_1: call (x), f, (a, b); st.shared.b32 [$0 + 8 + 4], {x};"
                  "cp.async.bulk.tensor.2d.shared::cluster.global [d], [$0, {$1, $2}], [$3];"
                  "ld.global.b32 $0, [$1+$2]; mov.b32 $0, 017; mov.b32 $0, 0b101; mov.b32 $0, 5U");
    struct mt_asm_statement *s = a->statements;
    assert_int_equal(a->nstatements, 15);
    assert_string_equal(s[0].operands[0].second->name, "p");
    assert_true(s[0].operands[4].bits == UINT64_MAX);
    assert_int_equal(s[1].operands[1].kind, MT_ASM_SREG);
    assert_string_equal(s[1].operands[1].name, "tid.x");
    assert_string_equal(s[2].operands[1].name, "clock64");
    assert_int_equal(s[3].operands[1].kind, MT_ASM_F32);
    assert_int_equal(s[3].operands[1].bits, 0x3f800000);
    assert_true(s[4].operands[1].bits == 0x3ff8000000000000);
    assert_int_equal(s[5].operands[0].items[1].kind, MT_ASM_SINK);
    assert_string_equal(s[6].operands[0].name, "$L__uid_1");
    assert_string_equal(s[7].label, "$L__uid_1");
    assert_int_equal(s[8].noperands, 3);
    assert_int_equal(s[8].operands[2].nitems, 2);
    assert_int_equal(s[9].operands[0].offset, 12);
    assert_int_equal(s[10].operands[1].nitems, 2);
    assert_int_equal(s[10].operands[1].items[1].kind, MT_ASM_VECTOR);
    assert_int_equal(s[11].operands[1].second->index, 2);
    assert_int_equal(s[12].operands[1].bits, 15);
    assert_int_equal(s[13].operands[1].bits, 5);
    assert_int_equal(s[14].operands[1].bits, 5);
    mt_asm_free(a);
}

static void parse_nothing(void **state)
{
    static const char *const texts[] = {"",         " \n\t", ";",         "// words",
                                        "/* words", "{}",    "{ { ; } }", ".pragma \"x\";"};
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mt_asm *a = parse_run(texts[i]);
        assert_int_equal(a->nstatements, 0);
        mt_asm_free(a);
    }
}

static void parse_errors(void **state)
{
    parse_refuse("mov.u32 $0, ", "operand expected", 12);
    parse_refuse("{ mov.u32 $0, 1;", "'}' missing", 16);
    parse_refuse("mov.u32 $0, 1; }", "'}' without", 16);
    parse_refuse("mov.u32 $0 1;", "';' expected", 11);
    parse_refuse(".reg .v2 .f32 a;", "register type .v2", 8);
    parse_refuse(".shared .b32 a;", "directive .shared", 7);
    parse_refuse("ld.u32 $0, [$1;", "']' expected", 14);
    parse_refuse("mov.u32 ${0, 1;", "'}' expected", 15);
    parse_refuse("mov.u32 $x, 1;", "operand number", 9);
    parse_refuse("mov.f32 $0, 0f12;", "hexadecimal digits", 16);
    parse_refuse(".reg .b32 r<99999>;", "too many registers", 18);
}

/* Every prefix, and every text with one byte changed, is parsed or refused; sanitizers see the rest. */
static void parse_damaged(void **state)
{
    static const char *const texts[] = {
        "{ .reg .pred p; .reg .b32 h<4>; setp.ne.u32 p, $2, 0; @p ld.global.v2.f32 {$0, h1}, [$1+16]; }",
        "$$L: mbarrier.try_wait.shared::cta.b64 p, [$0], ${1:x}; @!p bra $$L; mov.f64 $0, "
        "0d4000000000000000; // x",
        "shfl.sync.up.b32 $0|p, $1, $2, 0x0, 1e5; cp.async [a], [b, {1, -2, %ctaid.x}], 16, !p; /* c */"};
    static const char bytes[] = "\0{}[]()<>;,.:|@!$%-+0f\"/*\n \377";
    unsigned whole = 0;
    for (unsigned t = 0; t < sizeof texts / sizeof *texts; t++) {
        size_t n = strlen(texts[t]);
        for (size_t i = 0; i <= n; i++)
            for (size_t k = 0; k < sizeof bytes; k++) {
                struct mt_asm_error error;
                size_t length = k == 0 ? i : n;
                char *copy = malloc(length ? length : 1); /* exact: a read beyond it is seen */
                memcpy(copy, texts[t], length);
                if (k && i < n)
                    copy[i] = bytes[k - 1];
                struct mt_asm *a = mt_asm_parse(copy, length, &error);
                assert_true(a || error.message[0]);
                assert_true(a || error.offset <= length);
                whole += a != NULL;
                mt_asm_free(a);
                free(copy);
            }
    }
    assert_true(whole > 500);
}

static void random_texts(void **state)
{
    static const char alphabet[] = "{}[]()<>;,.:|@!$%-+0123abxrpf_ \n/*\"";
    uint64_t seed = 12345;
    for (unsigned n = 0; n < 200000; n++) {
        char text[64];
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        size_t length = (seed >> 33) % sizeof text;
        for (size_t i = 0; i < length; i++) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            text[i] = alphabet[(seed >> 33) % (sizeof alphabet - 1)];
        }
        struct mt_asm_error error;
        struct mt_asm *a = mt_asm_parse(text, length, &error);
        assert_true(a || error.message[0]);
        mt_asm_free(a);
    }
    char deep[4000];
    for (unsigned kind = 0; kind < 4; kind++) {
        struct mt_asm_error error;
        memset(deep, "{[(|"[kind], sizeof deep);
        memcpy(deep, "mov a", kind ? 5 : 0);
        assert_null(mt_asm_parse(deep, sizeof deep, &error));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_instruction), cmocka_unit_test(blocks_and_registers),
        cmocka_unit_test(operand_forms),   cmocka_unit_test(parse_nothing),
        cmocka_unit_test(parse_errors),    cmocka_unit_test(parse_damaged),
        cmocka_unit_test(random_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
