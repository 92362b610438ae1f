/* The matrix operations of a warp that LLVM has intrinsics for: their names are read, and say the same number
 * of registers as LLVM's own signatures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <string.h>
#include "ptx/asm/asm_matrix.h"

#define MAX_WORDS 24

static int read_name(const char *name, size_t length, struct mt_matrix_op *op)
{
    char text[160], *save = NULL;
    const char *words[MAX_WORDS];
    unsigned n = 0;
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    for (char *word = strtok_r(text, ".", &save); word && n < MAX_WORDS; word = strtok_r(NULL, ".", &save))
        words[n++] = word;
    return mt_matrix_read(words + 2, n - 2, op); /* without "llvm.nvvm." */
}

static unsigned count_results(LLVMTypeRef type)
{
    LLVMTypeRef result = LLVMGetReturnType(type);
    if (LLVMGetTypeKind(result) == LLVMStructTypeKind)
        return LLVMCountStructElementTypes(result);
    return LLVMGetTypeKind(result) != LLVMVoidTypeKind;
}

static int is_matrix(const char *name)
{
    return !strncmp(name, "llvm.nvvm.mma.", 14) || !strncmp(name, "llvm.nvvm.wmma.", 15) ||
           !strncmp(name, "llvm.nvvm.ldmatrix.", 19);
}

static void test_signatures(void **state)
{
    (void)state;
    LLVMContextRef c = LLVMContextCreate();
    LLVMTypeRef pointer = LLVMPointerTypeInContext(c, 1);
    const char *name, from[] = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16";
    unsigned first = LLVMLookupIntrinsicID(from, strlen(from)), seen = 0, refused = 0;
    size_t length;
    assert_true(first != 0);
    for (unsigned id = first; (name = LLVMIntrinsicGetName(id, &length)) && !strncmp(name, "llvm.nvvm.", 10);
         id++) {
        struct mt_matrix_op op;
        if (!is_matrix(name))
            continue;
        seen++;
        int overloaded = LLVMIntrinsicIsOverloaded(id);
        LLVMTypeRef type = LLVMIntrinsicGetType(c, id, &pointer, overloaded);
        if (read_name(name, length, &op)) { /* other roundings of doubles: not on the CPU device */
            refused++;
            if (!strstr(name, ".rz.f64") && !strstr(name, ".rm.f64") && !strstr(name, ".rp.f64"))
                fail_msg("%s is not read", name);
            continue;
        }
        unsigned others = (unsigned)overloaded + (strstr(name, ".stride.") != NULL);
        if (LLVMCountParamTypes(type) != op.nin + others || count_results(type) != op.nout)
            fail_msg("%s: %u parameters and %u results, not %u + %u and %u", name, LLVMCountParamTypes(type),
                     count_results(type), op.nin, others, op.nout);
        assert_true(op.nin <= 32 && op.nout <= 32);
    }
    assert_true(seen > 400);
    assert_int_equal(refused, 12);
    LLVMContextDispose(c);
}

static void test_refused(void **state)
{
    static const char *const names[] = {
        "llvm.nvvm.mma.sp.m16n8k32.row.col.f32.f16.f16.f32", /* sparse */
        "llvm.nvvm.mma.m16n8k32.row.col.f32.f16.f16.f32",    /* no such shape */
        "llvm.nvvm.mma.m16n8k32.row.row.f32.e4m3.e4m3.f32",  /* no such layout */
        "llvm.nvvm.mma.m16n8k16.row.col.f32.f16.s8.f32",     /* no such pair */
        "llvm.nvvm.mma.m16n8k32.row.col.f16.s8.s8.f16",      /* no such sum */
        "llvm.nvvm.wmma.m32n32k16.load.a.row.f16",           /* no such shape */
        "llvm.nvvm.wmma.m16n16k16.store.a.row.f16",          /* no such store */
        "llvm.nvvm.ldmatrix.sync.aligned.m16n16.x1.trans.b8",
        "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x3.b16",
        "llvm.nvvm.movmatrix.sync.aligned.m8n8.b16",
    };
    (void)state;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        struct mt_matrix_op op;
        if (!read_name(names[i], strlen(names[i]), &op))
            fail_msg("%s is read", names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_signatures), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
