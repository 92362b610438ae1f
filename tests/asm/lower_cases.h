/* Cases of lowered asm: compiled as lowered and after -O2, run on edge values and random ones. */
#ifndef TEST_ASM_LOWER_CASES_H
#define TEST_ASM_LOWER_CASES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"

static inline asm_function *compile(const char *text, const char *constraints, const char *outs,
                                    const char *ins, int opt)
{
    struct asm_shape shape = {text, constraints, outs, ins};
    struct mt_asm_error error = {0};
    asm_function *f = asm_compile(&shape, opt, &error);
    if (!f)
        fail_msg("%s: %s", text, error.message);
    return f;
}

static uint64_t seed = 42;
static inline uint64_t next_random(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 31 ^ seed << 20;
}

static inline uint64_t sample(char type)
{
    static const uint64_t edges[] = {0,          1,          2,          31,         32,         33,
                                     63,         64,         255,        256,        0x7f,       0x80,
                                     0x7fff,     0x8000,     0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe,
                                     INT64_MAX,  1ull << 63, UINT64_MAX, 0x12345678, 0x87654321, 0xffff0000,
                                     0x3f800000, 0xbf800000, 0x7f800000, 0x7fc00000};
    uint64_t v = next_random() % 2 ? edges[next_random() % (sizeof edges / sizeof *edges)] : next_random();
    if (next_random() % 4 == 0)
        v &= 0x3f;
    return type == 'r' || type == 'f' ? v & 0xffffffff : type == 'h' ? v & 0xffff : v;
}

typedef void reference(uint64_t *out, const uint64_t *in);
struct op_case {
    const char *text, *constraints, *outs, *ins;
    reference *f;
};

static inline void run_case(const struct op_case *c)
{
    unsigned nin = (unsigned)strlen(c->ins), nout = (unsigned)strlen(c->outs);
    for (int opt = 0; opt < 2; opt++) {
        asm_function *f = compile(c->text, c->constraints, c->outs, c->ins, opt);
        for (unsigned n = 0; n < 3000; n++) {
            uint64_t in[16] = {0}, want[16] = {0}, got[16] = {0};
            for (unsigned i = 0; i < nin; i++)
                in[i] = sample(c->ins[i]);
            c->f(want, in);
            f(got, in);
            for (unsigned i = 0; i < nout; i++)
                if (got[i] != want[i])
                    fail_msg("%s (%lx, %lx, %lx, %lx): result %u is %lx, not %lx", c->text, in[0], in[1],
                             in[2], in[3], i, got[i], want[i]);
        }
    }
}

#define R32(name, expression)                                                                                \
    static void name(uint64_t *out, const uint64_t *in)                                                      \
    {                                                                                                        \
        uint32_t a = (uint32_t)in[0], b = (uint32_t)in[1], c = (uint32_t)in[2];                              \
        (void)a, (void)b, (void)c;                                                                           \
        out[0] = (uint32_t)(expression);                                                                     \
    }
#define R64(name, expression)                                                                                \
    static void name(uint64_t *out, const uint64_t *in)                                                      \
    {                                                                                                        \
        uint64_t a = in[0], b = in[1], c = in[2];                                                            \
        (void)a, (void)b, (void)c;                                                                           \
        out[0] = (uint64_t)(expression);                                                                     \
    }

static inline float as_float(uint64_t bits)
{
    uint32_t u = (uint32_t)bits;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
#endif
