/* Parts of modules: what a base and a kernel consist of, and which modules cannot be divided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "reader.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define REGS "{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n"
#define FUNCTION(name, more) ".func " name "()\n" REGS more "ret;\n}\n"
#define KERNEL(name, more) ".visible .entry " name "(.param .u64 p)\n" REGS more "ret;\n}\n"
#define TWO KERNEL("a", "") KERNEL("b", "")

static struct reader_words words;

static LLVMModuleRef divide_read(const char *text, enum mt_ptx_part part, const char *kernel,
                                 struct mt_ptx_result *result)
{
    LLVMModuleRef m = reader_part(text, part, kernel, result, &words);
    if (words.count)
        fail_msg("line %u: %s", words.line, words.text);
    return m;
}

/* Names in the module, a letter before each: d defined, i for this module alone, u elsewhere. */
static void divide_list(LLVMModuleRef m, char *out, size_t size)
{
    size_t n;
    *out = 0;
    for (int variables = 0; variables < 2; variables++)
        for (LLVMValueRef v = variables ? LLVMGetFirstGlobal(m) : LLVMGetFirstFunction(m); v;
             v = variables ? LLVMGetNextGlobal(v) : LLVMGetNextFunction(v)) {
            const char *name = LLVMGetValueName2(v, &n);
            if (strncmp(name, "llvm.", 5) == 0)
                continue;
            strncat(out,
                    LLVMIsDeclaration(v)                       ? "u:"
                    : LLVMGetLinkage(v) == LLVMInternalLinkage ? "i:"
                                                               : "d:",
                    size - strlen(out) - 1);
            strncat(out, name, size - strlen(out) - 1);
            strncat(out, " ", size - strlen(out) - 1);
        }
}

static const char module[] = HEAD ".global .u32 x = 7;\n.const .u32 c[2] = {1, 2};\n" FUNCTION("leaf", "")
    FUNCTION("direct", "call leaf, ();\n") FUNCTION("by_table", "// leaf\ncall.uni \n leaf,\n ();\n")
        FUNCTION("by_mov", "") FUNCTION("both", "call by_mov, ();\n")
            FUNCTION("unused", "") ".global .u64 table[1] = {by_table};\n" KERNEL(
                "first", "{ // callseq\n@%p1 call.uni direct, ();\n}\nmov.u64 %rd1, x;\n"
                         "L: .loc 1 2 3, function_name $s, inlined_at 1 2 3\ncall direct, ();\n")
                KERNEL("second", "mov.b64 "
                                 "{%r1,%r2}, "
                                 "by_mov;\n"
                                 "call by_mov, ();\n"
                                 "call both, ();\n");

static void divide_parts(void **state)
{
    static const struct {
        enum mt_ptx_part part;
        const char *kernel, *names;
    } rows[] = {{MT_PTX_BASE, NULL, "i:leaf d:by_table d:by_mov d:x d:c d:table "},
                {MT_PTX_KERNEL, "first", "i:leaf i:direct d:first u:x u:c u:table "},
                {MT_PTX_KERNEL, "second", "i:by_mov i:both d:second u:mtd.by_mov u:x u:c u:table "}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mt_ptx_result r;
        char found[400];
        LLVMModuleRef m = divide_read(module, rows[i].part, rows[i].kernel, &r);
        assert_non_null(m);
        divide_list(m, found, sizeof found);
        assert_string_equal(found, rows[i].names);
        assert_int_equal(r.pointers, 1);
        assert_null(r.undivided);
        assert_string_equal(words.kernels,
                            rows[i].kernel ? rows[i].part == MT_PTX_KERNEL && i == 1 ? "first " : "second "
                                           : "first second ");
        LLVMDisposeModule(m);
    }
}

static void divide_refuses(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {HEAD TWO, NULL},
        {HEAD FUNCTION("f", "") TWO, NULL},
        {HEAD KERNEL("a", ""), "one kernel"},
        {HEAD KERNEL("a", "") KERNEL("b", "mov.u64 %rd1, a;\n"), "the address of a kernel"},
        {HEAD FUNCTION("f", ".global .u32 own;\n") TWO, "a variable of its own"},
        {HEAD ".extern .global .u32 other;\n" TWO, "other files"},
        {HEAD ".shared .u32 s;\n" TWO, NULL},
        {HEAD ".shared .u32 s;\n" FUNCTION("f", "mov.u32 %r1, s;\nst.shared.u32 [%r1], %r1;\n")
             KERNEL("a", "call f, ();\n") KERNEL("b", ""),
         NULL},
        {HEAD ".shared .u32 s;\n" FUNCTION("f", "mov.u32 %r1, s;\nst.shared.u32 [%r1], %r1;\n")
             KERNEL("a", "mov.u64 %rd1, f;\n") KERNEL("b", ""),
         "shared memory"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mt_ptx_result r;
        LLVMModuleRef m = divide_read(rows[i].text, MT_PTX_BASE, NULL, &r);
        if (!rows[i].why != !r.undivided || (rows[i].why && !strstr(r.undivided, rows[i].why)) ||
            !m != !!rows[i].why)
            fail_msg("row %zu: %s", i, r.undivided ? r.undivided : "divided");
        if (m)
            LLVMDisposeModule(m);
    }
}

/* Two versions of a module: is kernel a made of the same in both, and where are its lines? */
#define BODY(loop, more) "(.param .u64 p)\n" REGS loop ":\n" more "@%p1 bra " loop ";\nret;\n}\n"
#define A(loop, more) ".visible .entry a" BODY(loop, more)
#define B(loop) ".visible .entry b" BODY(loop, "")
#define CALL "{ // callseq 3, 0\ncall f, ();\n}\n"
#define LINES(one, two)                                                                                      \
    ".loc 1 " one " 5\nadd.s32 %r1, %r1, 1;\n.loc 1 " two " 7\nadd.s32 %r1, %r1, 1;\n.loc 1 " one " 9\n"
#define FILE1(name) ".file 1 \"" name "\"\n"

static void divide_contents(void **state)
{
    static const struct {
        const char *one, *two;
        int same;
        const char *lines; /* in the second one; NULL: whatever */
    } rows[] = {
        {HEAD A("$L__BB0_1", "") B("$L__BB1_1"), HEAD B("$L__BB0_1") A("$L__BB1_1", ""), 1, ":13+9 "},
        {HEAD A("$L__BB0_1", "") B("$L__BB1_1"), HEAD A("$L__BB0_1", "add.s32 %r1, %r1, 1;\n") B("$L__BB1_1"),
         0, NULL},
        {HEAD A("$L__BB0_1", "// one\n") B("x"), HEAD A("$L__BB0_1", "// two\n") B("x"), 1, NULL},
        {HEAD FUNCTION("f", "") A("x", CALL) B("x"),
         HEAD FUNCTION("f", "") FUNCTION("g", "") A("x", CALL) B("x"), 1, NULL},
        {HEAD FUNCTION("f", "") A("x", CALL) B("x"),
         HEAD FUNCTION("f", "mov.u32 %r1, 1;\n") A("x", CALL) B("x"), 0, NULL},
        {HEAD FUNCTION("f", "") A("x", "") B("x"), HEAD FUNCTION("f", "mov.u32 %r1, 1;\n") A("x", "") B("x"),
         1, NULL},
        {HEAD ".global .u32 v;\n" A("x", "mov.u64 %rd1, v;\n") B("x"),
         HEAD ".global .u32 w;\n.global .u32 v;\n" A("x", "mov.u64 %rd1, v;\n") B("x"), 1, NULL},
        {HEAD ".global .u32 v;\n" A("x", "mov.u64 %rd1, v;\n") B("x"),
         HEAD ".global .u64 v;\n" A("x", "mov.u64 %rd1, v;\n") B("x"), 0, NULL},
        {HEAD ".const .u32 v = 1;\n" A("x", "mov.u64 %rd1, v;\n") B("x"),
         HEAD ".const .u32 v = 2;\n" A("x", "mov.u64 %rd1, v;\n") B("x"), 1, NULL},
        {HEAD A("x", "") B("x"), ".version 8.0\n.target sm_86\n.address_size 64\n" A("x", "") B("x"), 0,
         NULL},
        /* a function that is called by pointer changes how parts are compiled */
        {HEAD FUNCTION("f", "") A("x", "") KERNEL("b", ""),
         HEAD FUNCTION("f", "") A("x", "") KERNEL("b", "mov.u64 %rd1, f;\n"), 0, NULL},
        {HEAD FILE1("d/a.cu") A("x", LINES("10", "11")) B("x"),
         HEAD FILE1("d/a.cu") A("x", LINES("20", "28")) B("x"), 1, ":5+1 d/a.cu:20+1 d/a.cu:28+1 "},
        {HEAD FILE1("d/a.cu") A("x", LINES("10", "11")) B("x"),
         HEAD FILE1("d/a.cu") A("x", LINES("20", "20")) B("x"), 0, NULL},
        {HEAD FILE1("d/a.cu") A("x", LINES("10", "11")) B("x"),
         HEAD FILE1("d/b.cu") A("x", LINES("10", "11")) B("x"), 0, NULL},
        {HEAD FILE1("d/a.cu") A("x", LINES("10", "11")) B("x"),
         HEAD FILE1("d/a.cu") A("x", LINES("10", "0")) B("x"), 0, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mt_ptx_result r;
        static struct reader_words first;
        LLVMModuleRef one = divide_read(rows[i].one, MT_PTX_BASE, NULL, &r);
        first = words;
        LLVMModuleRef two = divide_read(rows[i].two, MT_PTX_BASE, NULL, &r);
        assert_true(one && two && *first.content && *words.content);
        if ((strcmp(first.content, words.content) == 0) != rows[i].same)
            fail_msg("row %zu:\n%s\n%s", i, first.content, words.content);
        if (rows[i].lines)
            assert_string_equal(words.places, rows[i].lines);
        LLVMDisposeModule(one);
        LLVMDisposeModule(two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(divide_parts), cmocka_unit_test(divide_refuses),
                                       cmocka_unit_test(divide_contents)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
