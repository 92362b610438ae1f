/* Each plain instruction that the reader turns into plain IR, run on the host by LLVM's JIT, against a model
 * in C. One that were left as inline asm would not compile for the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reader.h"

#define S16(x) ((int64_t)(int16_t)(x))
#define S32(x) ((int64_t)(int32_t)(x))
#define N(x) ((uint32_t)(x))
#define CLAMP32(x) ((uint32_t)((x) < INT32_MIN ? INT32_MIN : (x) > INT32_MAX ? INT32_MAX : (x)))
#define F32(x) native_float((uint32_t)(x))
#define F64(x) native_double(x)
#define BITS32(x) native_bits32(x)
#define BITS64(x) native_bits64(x)

static float native_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double native_double(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static uint64_t native_bits32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static uint64_t native_bits64(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static uint32_t native_reverse32(uint32_t x)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (x >> i & 1) << (31 - i);
    return r;
}

static int64_t to_int(float f, double low, double high)
{
    double d = trunc((double)f);
    return isnan(d) ? 0 : (int64_t)(d < low ? low : d > high ? high : d);
}

#define X(name, text, to, from, value)                                                                       \
    static uint64_t model_##name(uint64_t a, uint64_t b, uint64_t c)                                         \
    {                                                                                                        \
        (void)a, (void)b, (void)c;                                                                           \
        return (uint64_t)(value);                                                                            \
    }
#include "native.def"
#undef X

static const struct native_row {
    const char *name, *text;
    char to, from;
    uint64_t (*model)(uint64_t a, uint64_t b, uint64_t c);
} rows[] = {
#define X(name, text, to, from, value) {#name, text, #to[0], #from[0], model_##name},
#include "native.def"
#undef X
};
#define NROWS (sizeof rows / sizeof *rows)

static const char *native_type(char c)
{
    return c == 'h'   ? "b16"
           : c == 'r' ? "b32"
           : c == 'l' ? "b64"
           : c == 'f' ? "f32"
           : c == 'd' ? "f64"
                      : "pred";
}

static uint64_t native_cut(char c, uint64_t x)
{
    return c == 'h' ? (uint16_t)x : c == 'r' || c == 'f' ? (uint32_t)x : x;
}

/* One function for all rows: row i reads in[3 i …] and writes out[i]. */
static char *native_write(void)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fputs(".version 8.0\n.target sm_80\n.address_size 64\n"
          ".visible .func run(.param .b64 run_out, .param .b64 run_in)\n{\n"
          ".reg .b64 %out, %in;\nld.param.u64 %out, [run_out];\nld.param.u64 %in, [run_in];\n",
          f);
    for (unsigned i = 0; i < NROWS; i++) {
        const char *from = native_type(rows[i].from), *to = native_type(rows[i].to);
        fprintf(f, "{\n.reg .%s %%a, %%b, %%c;\n.reg .%s %%d;\n.reg .b32 %%n;\n", from, to);
        for (unsigned k = 0; k < 3; k++)
            fprintf(f, "ld.%s %%%c, [%%in+%u];\n", from, "abc"[k], 8 * (3 * i + k));
        fprintf(f, "ld.b32 %%n, [%%in+%u];\n%s\n", 8 * (3 * i + 1), rows[i].text);
        if (rows[i].to == 'p')
            fprintf(f, "{ .reg .b32 %%x; selp.b32 %%x, 1, 0, %%d; st.b32 [%%out+%u], %%x; }\n}\n", 8 * i);
        else
            fprintf(f, "st.%s [%%out+%u], %%d;\n}\n", to, 8 * i);
    }
    fputs("ret;\n}\n", f);
    fclose(f);
    return text;
}

static uint64_t native_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Limits of all types, floats of all kinds, and anything. */
static uint64_t native_operand(uint64_t *state, char type)
{
    static const uint64_t whole[] = {0,         1,          2,         31,         32,         33,
                                     63,        64,         127,       128,        255,        256,
                                     0x7fff,    0x8000,     0xffff,    0x7fffffff, 0x80000000, 0xffffffff,
                                     INT64_MAX, 1ull << 63, UINT64_MAX};
    static const uint64_t single[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                      0xff800000, 0x7fc00000, 1,          0x00800000, 0x4f000000,
                                      0x4f800000, 0xcf000000, 0x3effffff, 0x4b000001};
    static const uint64_t twice[] = {
        0, 1ull << 63,         0x3ff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
        1, 0x41e0000000000000, 0x3810000000000000};
    uint64_t r = native_random(state), which = native_random(state);
    if (which & 3)
        return type == 'f' && which & 4   ? native_bits32((float)(int64_t)r / (float)(1 << (which >> 8 & 15)))
               : type == 'd' && which & 4 ? native_bits64((double)(int64_t)r / 1e9)
               : which & 8                ? r >> (which >> 16 & 63)
                                          : r;
    return type == 'f'   ? single[r % (sizeof single / sizeof *single)]
           : type == 'd' ? twice[r % (sizeof twice / sizeof *twice)]
                         : whole[r % (sizeof whole / sizeof *whole)];
}

static int native_same(char type, uint64_t a, uint64_t b)
{
    if (type == 'f' && isnan(F32(a)) && isnan(F32(b)))
        return 1;
    return a == b || (type == 'd' && isnan(F64(a)) && isnan(F64(b)));
}

static void test_rows(void **state)
{
    static uint64_t in[3 * NROWS], out[NROWS];
    char *text = native_write();
    void (*run)(uint64_t *, const uint64_t *) =
        (void (*)(uint64_t *, const uint64_t *))reader_jit(text, "run");
    uint64_t seed = 88172645463325252u;
    unsigned wrong = 0;
    for (unsigned round = 0; round < 3000; round++) {
        for (unsigned i = 0; i < 3 * NROWS; i++)
            in[i] = native_cut(rows[i / 3].from, native_operand(&seed, rows[i / 3].from));
        memset(out, 0, sizeof out);
        run(out, in);
        for (unsigned i = 0; i < NROWS && wrong < 20; i++) {
            uint64_t want = native_cut(rows[i].to, rows[i].model(in[3 * i], in[3 * i + 1], in[3 * i + 2]));
            if (native_same(rows[i].to, want, out[i]))
                continue;
            wrong++;
            print_error("%s: a %#llx b %#llx c %#llx: got %#llx, expected %#llx\n", rows[i].name,
                        (unsigned long long)in[3 * i], (unsigned long long)in[3 * i + 1],
                        (unsigned long long)in[3 * i + 2], (unsigned long long)out[i],
                        (unsigned long long)want);
        }
    }
    assert_int_equal(wrong, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
