/* Lowered inline assembly, compiled and run, against C written from the PTX manual's pseudo-code. Each case
 * runs on edge values and random ones, as lowered and after -O2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"

/* ---- functions of the CPU device, as far as these tests need them ------------------------------- */

static char shared_memory[4096] __attribute__((aligned(64)));
static uint64_t seen[8];
static unsigned yields;

static void *shared_base(void)
{
    return shared_memory;
}
static uint32_t laneid(void)
{
    return 21;
}
static uint64_t clock64(void)
{
    return 0x123456789abcdef0;
}
static uint64_t shfl(uint32_t mask, uint32_t value, uint32_t lane, uint32_t c, uint32_t mode)
{
    memcpy(seen, (uint64_t[]){mask, value, lane, c, mode}, 40);
    return 1ull << 32 | (value ^ 0xffffffff);
}
static uint32_t vote(uint32_t mask, uint32_t predicate, uint32_t mode)
{
    memcpy(seen, (uint64_t[]){mask, predicate, mode}, 24);
    return predicate ? mask : 0;
}
static uint32_t barrier(uint32_t kind, uint32_t id, uint32_t count, uint32_t value)
{
    memcpy(seen, (uint64_t[]){kind, id, count, value}, 32);
    return 40 + value;
}
static void yield(void)
{
    yields++;
}
static uint32_t words_seen[12];
static void texture(uint64_t object, uint32_t what, const uint32_t *in, uint64_t *out)
{
    memcpy(seen, (uint64_t[]){object, what}, 16);
    memcpy(words_seen, in, what >> 9 ? 16 : 48); /* surfaces have a count of elements there, and 4 words */
    for (uint64_t i = 0; i < 4; i++)
        out[i] = 0x1234567890ull + i;
}
static void surface_store(uint64_t object, uint32_t what, const uint32_t *in, const uint64_t *value)
{
    memcpy(seen, (uint64_t[]){object, what, value[0], value[1]}, 32);
    memcpy(words_seen, in, 16);
}
static uint32_t texture_size(uint64_t object, uint32_t dimension)
{
    return (uint32_t)object + dimension;
}
static float scaled(float a, uint32_t b)
{
    return a * (float)b;
}
static void split(uint64_t a, uint32_t b, uint64_t *out)
{
    out[0] = a & 0xffff;
    out[1] = b;
    out[2] = 1;
}
static uint32_t reads(void *p)
{
    return *(uint32_t *)p + 1;
}

static uint64_t arrive(void *p, uint32_t count)
{
    seen[0] = (uintptr_t)p;
    return count;
}
static _Bool try_wait(void *p, uint64_t state)
{
    return p == shared_memory + 8 && state == 1;
}

const struct asm_symbol asm_symbols[] = {
    {"mtb_shared_base", shared_base, "p"},
    {"mtb_ptx_sreg_laneid", laneid, "r"},
    {"mtb_nvvm_read_ptx_sreg_clock64", clock64, "l"},
    {"mt_cpu_shfl", shfl, "lrrrrr"},
    {"mt_cpu_vote", vote, "rrrr"},
    {"mt_cpu_barrier", barrier, "rrrrr"},
    {"mt_cpu_yield", yield, "v"},
    {"mt_cpu_tex", texture, "vlrpp"},
    {"mt_cpu_surf_load", texture, "vlrpp"},
    {"mt_cpu_surf_store", surface_store, "vlrpp"},
    {"mt_cpu_tex_size", texture_size, "rlr"},
    {"mtb_ptx_frob_f32", scaled, "ffr"},
    {"mtb_ptx_split_x3_b32", split, "vlrp"},
    {"mtb_ptx_mbarrier_peek_shared_b32", reads, "rp"},
    {"mtb_ptx_mbarrier_arrive_noComplete_shared__cta_b64", arrive, "lpr"},
    {"mtb_ptx_mbarrier_try_wait_shared_b64", try_wait, "bpl"},
    {NULL, NULL, NULL}};

/* ---- running ------------------------------------------------------------------------------------ */

static asm_function *compile(const char *text, const char *constraints, const char *outs, const char *ins,
                             int opt)
{
    struct asm_shape shape = {text, constraints, outs, ins};
    struct mt_asm_error error = {0};
    asm_function *f = asm_compile(&shape, opt, &error);
    if (!f)
        fail_msg("%s: %s", text, error.message);
    return f;
}

static uint64_t seed = 42;
static uint64_t next_random(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 31 ^ seed << 20;
}

static uint64_t sample(char type)
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

static void run_case(const struct op_case *c)
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

/* ---- integer arithmetic ------------------------------------------------------------------------- */

R32(ref_add, a + b)
R64(ref_sub64, a - b)
R32(ref_add_sat, (int64_t)(int32_t)a + (int32_t)b > INT32_MAX   ? INT32_MAX
                 : (int64_t)(int32_t)a + (int32_t)b < INT32_MIN ? INT32_MIN
                                                                : (int32_t)(a + b))
R32(ref_mul_hi_s, (int64_t)(int32_t)a *(int32_t)b >> 32)
R32(ref_mul_hi_u, (uint64_t)a *b >> 32)
R64(ref_mul_hi64, (unsigned __int128)a *b >> 64)
R64(ref_mad_wide, (uint64_t)((int64_t)(int32_t)a *(int32_t)b) + c)
R32(ref_mad_lo, a *b + c)
R32(ref_mul24_s, (int64_t)((int32_t)(a << 8) / 256) * ((int32_t)(b << 8) / 256))
R32(ref_mul24_hi, (uint64_t)(a & 0xffffff) * (b & 0xffffff) >> 16)
R32(ref_div_s, b == 0 ? UINT32_MAX : b == UINT32_MAX ? 0 - a : (uint32_t)((int32_t)a / (int32_t)b))
R32(ref_rem_u, b ? a % b : a)
R32(ref_abs, (int32_t)a < 0 ? 0 - a : a)
R32(ref_min_s, (int32_t)a < (int32_t)b ? a : b)
R64(ref_max_u64, a > b ? a : b)
R32(ref_sad, c + ((int32_t)a > (int32_t)b ? a - b : b - a))

static void ref_add128(uint64_t *out, const uint64_t *in)
{
    unsigned __int128 x = (unsigned __int128)in[1] << 64 | in[0], y = (unsigned __int128)in[3] << 64 | in[2];
    out[0] = (uint64_t)(x + y);
    out[1] = (uint64_t)((x + y) >> 64);
}
static void ref_sub96(uint64_t *out, const uint64_t *in)
{
    unsigned __int128 x = (unsigned __int128)in[2] << 64 | in[1] << 32 | in[0];
    unsigned __int128 y = (unsigned __int128)in[5] << 64 | in[4] << 32 | in[3], d = x - y;
    for (int i = 0; i < 3; i++)
        out[i] = (uint32_t)(d >> 32 * i);
}
/* a * b + c of 64-bit numbers in 32-bit limbs, low 96 bits */
static void ref_mad_chain(uint64_t *out, const uint64_t *in)
{
    unsigned __int128 x = (in[1] << 32 | in[0]), d = x * in[2] + (in[4] << 32 | in[3]);
    for (int i = 0; i < 3; i++)
        out[i] = (uint32_t)(d >> 32 * i);
}

static void integers(void **state)
{
    static const struct op_case cases[] = {
        {"add.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_add},
        {"sub.u64 $0, $1, $2;", "=l,l,l", "l", "ll", ref_sub64},
        {"add.sat.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_add_sat},
        {"mul.hi.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_mul_hi_s},
        {"mul.hi.u32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_mul_hi_u},
        {"mul.hi.u64 $0, $1, $2;", "=l,l,l", "l", "ll", ref_mul_hi64},
        {"mad.wide.s32 $0, $1, $2, $3;", "=l,r,r,l", "l", "rrl", ref_mad_wide},
        {"mad.lo.s32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_mad_lo},
        {"mul24.lo.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_mul24_s},
        {"mul24.hi.u32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_mul24_hi},
        {"div.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_div_s},
        {"rem.u32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_rem_u},
        {"abs.s32 $0, $1;", "=r,r", "r", "r", ref_abs},
        {"min.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_min_s},
        {"max.u64 $0, $1, $2;", "=l,l,l", "l", "ll", ref_max_u64},
        {"sad.s32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_sad},
        {"add.cc.u64 $0, $2, $4; addc.u64 $1, $3, $5;", "=&l,=l,l,l,l,l", "ll", "llll", ref_add128},
        {"sub.cc.u32 $0, $3, $6; subc.cc.u32 $1, $4, $7; subc.u32 $2, $5, $8;", "=&r,=&r,=r,r,r,r,r,r,r",
         "rrr", "rrrrrr", ref_sub96},
        {"mad.lo.cc.u32 $0, $3, $5, $6; madc.hi.cc.u32 $1, $3, $5, $7; addc.u32 $2, 0, 0;"
         "mad.lo.cc.u32 $1, $4, $5, $1; madc.hi.u32 $2, $4, $5, $2;",
         "=&r,=&r,=&r,r,r,r,r,r", "rrr", "rrrrr", ref_mad_chain}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i]);
}

/* The carry flag lives on between asm statements. */
static void carry_across_calls(void **state)
{
    struct asm_shape parts[] = {{"add.cc.u32 $0, $1, $2;", "=r,r,r", "r", "rr"},
                                {"addc.cc.u32 $0, $1, $2;", "=r,r,r", "r", "rr"},
                                {"addc.u32 $0, 0, 0;", "=r", "r", ""}};
    struct mt_asm_error error = {0};
    for (int opt = 0; opt < 2; opt++) {
        asm_function *f = asm_compile_many(parts, 3, opt, &error);
        assert_non_null(f);
        for (unsigned n = 0; n < 1000; n++) {
            uint64_t in[48] = {0}, out[48] = {0}, a = sample('l'), b = sample('l');
            in[0] = (uint32_t)a, in[1] = (uint32_t)b, in[16] = a >> 32, in[17] = b >> 32;
            f(out, in);
            assert_true((out[16] << 32 | out[0]) == a + b);
            assert_int_equal(out[32], a + b < a);
        }
    }
}

/* ---- bits --------------------------------------------------------------------------------------- */

R32(ref_shl, b > 31 ? 0 : a << b)
R32(ref_shr_s, (int32_t)a >> (b > 31 ? 31 : b))
R64(ref_shr_u64, (uint32_t)b > 63 ? 0 : a >> b)
R32(ref_shf_l_wrap, ((uint64_t)b << 32 | a) << (c & 31) >> 32)
R32(ref_shf_r_clamp, ((uint64_t)b << 32 | a) >> (c > 32 ? 32 : c))
R32(ref_xor3, a ^ b ^ c)
R32(ref_maj, (a & b) | (a & c) | (b & c))
R32(ref_cnot, a == 0)
R32(ref_popc, __builtin_popcountll(in[0]))
R32(ref_clz, a ? __builtin_clz(a) : 32)
R32(ref_szext, c ? 0 : b >= 32 ? a : b == 0 ? 0 : (uint32_t)((int32_t)(a << (32 - b)) >> (32 - b)))

static uint64_t bfe(uint64_t a, unsigned pos, unsigned len, int is_signed, unsigned msb)
{
    uint64_t d = 0, sign = 0;
    pos &= 255, len &= 255;
    if (is_signed && len)
        sign = a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1;
    for (unsigned i = 0; i <= msb; i++)
        d |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign) << i;
    return d;
}
R32(ref_bfe_u, bfe(a, b, c, 0, 31))
R32(ref_bfe_s, bfe(a, b, c, 1, 31))
R64(ref_bfe_s64, bfe(a, (unsigned)b, (unsigned)c, 1, 63))
static void ref_bfi(uint64_t *out, const uint64_t *in)
{
    uint32_t f = (uint32_t)in[1], pos = in[2] & 255, len = in[3] & 255;
    for (uint32_t i = 0; i < len && pos + i <= 31; i++)
        f = (f & ~(1u << (pos + i))) | ((uint32_t)in[0] >> i & 1) << (pos + i);
    out[0] = f;
}
static void ref_bmsk(uint64_t *out, const uint64_t *in)
{
    uint64_t a = in[0] > 32 ? 32 : in[0], b = in[1] > 32 ? 32 : in[1], m = 0;
    for (uint64_t i = a; i < a + b && i < 32; i++)
        m |= 1ull << i;
    out[0] = m;
}
static void ref_brev(uint64_t *out, const uint64_t *in)
{
    for (int i = 0; i < 32; i++)
        out[0] |= (in[0] >> i & 1) << (31 - i);
}
static void ref_bfind_s(uint64_t *out, const uint64_t *in)
{
    uint32_t a = (uint32_t)in[0], d = UINT32_MAX;
    if ((int32_t)a < 0)
        a = ~a;
    for (unsigned i = 0; i < 32; i++)
        if (a >> i & 1)
            d = i;
    out[0] = d;
}
static uint32_t prmt(const uint64_t *in, const unsigned *selector)
{
    unsigned char bytes[8];
    uint32_t d = 0;
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(in[i / 4] >> 8 * (i % 4));
    for (int i = 0; i < 4; i++) {
        unsigned byte = bytes[selector[i] & 7];
        if (selector[i] & 8)
            byte = byte & 128 ? 255 : 0;
        d |= byte << 8 * i;
    }
    return d;
}
static void ref_prmt(uint64_t *out, const uint64_t *in)
{
    unsigned s[4];
    for (int i = 0; i < 4; i++)
        s[i] = in[2] >> 4 * i & 15;
    out[0] = prmt(in, s);
}
static void ref_prmt_b4e(uint64_t *out, const uint64_t *in)
{
    static const unsigned table[4][4] = {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}};
    out[0] = prmt(in, table[in[2] & 3]);
}
static void ref_prmt_rc16(uint64_t *out, const uint64_t *in)
{
    static const unsigned table[4][4] = {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}};
    out[0] = prmt(in, table[in[2] & 3]);
}
static void ref_dp4a(uint64_t *out, const uint64_t *in)
{
    int64_t sum = (int32_t)in[2];
    for (int i = 0; i < 4; i++)
        sum += (int64_t)(int8_t)(in[0] >> 8 * i) * (uint8_t)(in[1] >> 8 * i);
    out[0] = (uint32_t)sum;
}

static void bit_operations(void **state)
{
    static const struct op_case cases[] = {
        {"shl.b32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_shl},
        {"shr.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_shr_s},
        {"shr.u64 $0, $1, $2;", "=l,l,r", "l", "lr", ref_shr_u64},
        {"shf.l.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_shf_l_wrap},
        {"shf.r.clamp.b32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_shf_r_clamp},
        {"lop3.b32 $0, $1, $2, $3, 0x96;", "=r,r,r,r", "r", "rrr", ref_xor3},
        {"lop3.b32 $0, $1, $2, $3, 0xE8;", "=r,r,r,r", "r", "rrr", ref_maj},
        {"cnot.b32 $0, $1;", "=r,r", "r", "r", ref_cnot},
        {"popc.b64 $0, $1;", "=r,l", "r", "l", ref_popc},
        {"clz.b32 $0, $1;", "=r,r", "r", "r", ref_clz},
        {"brev.b32 $0, $1;", "=r,r", "r", "r", ref_brev},
        {"bfind.s32 $0, $1;", "=r,r", "r", "r", ref_bfind_s},
        {"szext.clamp.s32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_szext},
        {"bfe.u32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_bfe_u},
        {"bfe.s32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_bfe_s},
        {"bfe.s64 $0, $1, $2, $3;", "=l,l,r,r", "l", "lrr", ref_bfe_s64},
        {"bfi.b32 $0, $1, $2, $3, $4;", "=r,r,r,r,r", "r", "rrrr", ref_bfi},
        {"bmsk.clamp.b32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_bmsk},
        {"prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_prmt},
        {"prmt.b32.b4e $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_prmt_b4e},
        {"prmt.b32.rc16 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_prmt_rc16},
        {"dp4a.s32.u32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_dp4a}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i]);
}

/* ---- moves, comparison, selection, conversion --------------------------------------------------- */

static void ref_unpack(uint64_t *out, const uint64_t *in)
{
    out[0] = (uint32_t)in[0], out[1] = in[0] >> 32;
}
R64(ref_pack, a | b << 32)
R32(ref_swap16, a << 16 | a >> 16)
R32(ref_setp, ((int32_t)a < (int32_t)b && c != 0) * 5 + !((int32_t)a < (int32_t)b) * 16 * (c != 0))
R32(ref_selp, c ? a : b)
R32(ref_set_gt, a > b ? UINT32_MAX : 0)
R32(ref_slct, (int32_t)c >= 0 ? a : b)
static float as_float(uint64_t bits)
{
    uint32_t u = (uint32_t)bits;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
R32(ref_setp_f, (as_float(a) < as_float(b)) |
                    (isnan(as_float(a)) || isnan(as_float(b)) || as_float(a) >= as_float(b)) << 1)
R64(ref_cvt_s64_s8, (int64_t)(int8_t)a)
R32(ref_cvt_u16_s32, (uint16_t)a)
R32(ref_cvt_sat_u8_s32, (int32_t)a < 0 ? 0 : (int32_t)a > 255 ? 255 : a)
R32(ref_cvt_sat_s32_u64, in[0] > INT32_MAX ? INT32_MAX : in[0])
R32(ref_cvt_rzi, isnan(as_float(a))       ? 0
                 : as_float(a) >= 0x1p31f ? INT32_MAX
                 : as_float(a) < -0x1p31f ? INT32_MIN
                                          : (int32_t)as_float(a))
R32(ref_cvt_floor_u, isnan(as_float(a)) || as_float(a) < 0 ? 0
                     : as_float(a) >= 0x1p32f              ? UINT32_MAX
                                                           : (uint32_t)floorf(as_float(a)))
R32(ref_cvt_f32_u64, float_bits((float)in[0]))

static void moves(void **state)
{
    static const struct op_case cases[] = {
        {"mov.b64 {$0,$1}, $2;", "=r,=r,l", "rr", "l", ref_unpack},
        {"mov.b64 $0, {$1,$2};", "=l,r,r", "l", "rr", ref_pack},
        {"{ .reg .b16 lo, hi; mov.b32 {lo, hi}, $1; mov.b32 $0, {hi, lo}; }", "=r,r", "r", "r", ref_swap16},
        {"{ .reg .pred p, q, r; setp.ne.u32 r, $3, 0; setp.lt.and.s32 p|q, $1, $2, r; mov.u32 $0, 0;"
         " @p add.u32 $0, $0, 5; @q add.u32 $0, $0, 16; }",
         "=&r,r,r,r", "r", "rrr", ref_setp},
        {"{ .reg .pred p; setp.ne.b32 p, $3, 0; selp.b32 $0, $1, $2, p; }", "=r,r,r,r", "r", "rrr", ref_selp},
        {"{ .reg .pred p; setp.eq.b32 p, $3, 0; not.pred p, p; mov.b32 $0, $2; @p mov.b32 $0, $1; }",
         "=&r,r,r,r", "r", "rrr", ref_selp},
        {"set.gt.u32.u32 $0, $1, $2;", "=r,r,r", "r", "rr", ref_set_gt},
        {"slct.u32.s32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_slct},
        {"{ .reg .pred p, q; setp.lt.f32 p, $1, $2; setp.geu.f32 q, $1, $2; selp.u32 $0, 1, 0, p; @q or.b32 "
         "$0, $0, 2; }",
         "=&r,f,f", "r", "ff", ref_setp_f},
        {"cvt.s64.s8 $0, $1;", "=l,r", "l", "r", ref_cvt_s64_s8},
        {"cvt.u16.s32 $0, $1;", "=r,r", "r", "r", ref_cvt_u16_s32},
        {"cvt.sat.u8.s32 $0, $1;", "=r,r", "r", "r", ref_cvt_sat_u8_s32},
        {"cvt.sat.s32.u64 $0, $1;", "=r,l", "r", "l", ref_cvt_sat_s32_u64},
        {"cvt.rzi.s32.f32 $0, $1;", "=r,f", "r", "f", ref_cvt_rzi},
        {"cvt.rmi.u32.f32 $0, $1;", "=r,f", "r", "f", ref_cvt_floor_u},
        {"cvt.rn.f32.u64 $0, $1;", "=f,l", "f", "l", ref_cvt_f32_u64},
        {"{ .reg .b32 a<2>; { .reg .b32 a0; mov.u32 a0, 7; } mov.u32 a0, $1; mov.u32 a1, $2; add.u32 $0, a0, "
         "a1; }",
         "=r,r,r", "r", "rr", ref_add}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i]);
}

R32(ref_fadd_ftz, float_bits(({
        float x = as_float(a), y = as_float(b);
        x = fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
        y = fabsf(y) < 0x1p-126f ? copysignf(0, y) : y;
        x += y;
        fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
    })))
R32(ref_fma_sat, float_bits(({
        float x = fmaf(as_float(a), as_float(b), as_float(c));
        !(x > 0) ? 0.0f : x > 1 ? 1.0f : x;
    })))
R32(ref_fmin, float_bits(({
        float x = as_float(a), y = as_float(b);
        isnan(x) ? y : isnan(y) ? x : x == y ? (signbit(x) ? x : y) : x < y ? x : y;
    })))
R32(ref_testp, (isnan(as_float(a)) ? 1 : 0) | (isfinite(as_float(a)) ? 2 : 0) |
                   (isnormal(as_float(a)) || as_float(a) == 0 ? 4 : 0))

static void floats(void **state)
{
    /* NaN results may differ in sign and payload: samples with NaN results are compared as NaN. */
    static const struct op_case cases[] = {
        {"add.ftz.f32 $0, $1, $2;", "=f,f,f", "f", "ff", ref_fadd_ftz},
        {"fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f", "f", "fff", ref_fma_sat},
        {"min.f32 $0, $1, $2;", "=f,f,f", "f", "ff", ref_fmin},
        {"{ .reg .pred p, q, r; testp.notanumber.f32 p, $1; testp.finite.f32 q, $1; testp.normal.f32 r, $1;"
         " selp.u32 $0, 1, 0, p; @q or.b32 $0, $0, 2; @r or.b32 $0, $0, 4; }",
         "=&r,f", "r", "f", ref_testp}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int opt = 0; opt < 2; opt++) {
            const struct op_case *c = &cases[i];
            asm_function *f = compile(c->text, c->constraints, c->outs, c->ins, opt);
            for (unsigned n = 0; n < 3000; n++) {
                uint64_t in[16] = {sample('f'), sample('f'), sample('f')}, want[16] = {0}, got[16] = {0};
                c->f(want, in);
                f(got, in);
                if (*c->outs == 'f' && isnan(as_float(want[0])) && isnan(as_float(got[0])))
                    continue;
                if (got[0] != want[0])
                    fail_msg("%s (%lx, %lx, %lx): %lx, not %lx", c->text, in[0], in[1], in[2], got[0],
                             want[0]);
            }
        }
}

/* ---- memory ------------------------------------------------------------------------------------- */

#define CALL(out, text, constraints, outs, ins, ...)                                                         \
    for (int opt = 0; opt < 2; opt++) {                                                                      \
        uint64_t in_[16] = {__VA_ARGS__};                                                                    \
        compile(text, constraints, outs, ins, opt)(out, in_);                                                \
    }

static void loads_and_stores(void **state)
{
    uint32_t words[8] = {0x80, 0x12345678, 3, 4, 5, 6, 7, 8};
    uint64_t out[16] = {0}, p = (uintptr_t)words;
    CALL(out, "ld.global.nc.v4.u32 {$0,$1,$2,$3}, [$4+4];", "=r,=r,=r,=r,l", "rrrr", "p", p);
    assert_true(out[0] == 0x12345678 && out[1] == 3 && out[2] == 4 && out[3] == 5);
    CALL(out, "ld.s8 $0, [$1];", "=r,l", "r", "l", p);
    assert_int_equal(out[0], 0xffffff80);
    CALL(out, "ld.u8 $0, [$1];", "=r,l", "r", "l", p);
    assert_int_equal(out[0], 0x80);
    CALL(out, "ld.acquire.sys.v2.b32 {$0, $1}, [$2];", "=r,=r,l", "rr", "l", p + 8);
    assert_true(out[0] == 3 && out[1] == 4);
    CALL(out, "st.release.gpu.v2.u32 [$0], {$1, $2};", "l,r,r", "", "prr", p, 77, 78);
    assert_true(words[0] == 77 && words[1] == 78);
    CALL(out, "st.volatile.global.u16 [$0+2], $1;", "l,r", "", "pr", p, 0xabcd1234);
    assert_int_equal(words[0], 0x1234004d);
    /* the address register is a destination too */
    CALL(out, "ld.v2.b64 {$0, $1}, [$0];", "=l,=l,0", "ll", "l", p + 16);
    assert_true(out[0] == (6ull << 32 | 5) && out[1] == (8ull << 32 | 7));
    CALL(out, "{ .reg .b128 q; ld.b128 q, [$0]; st.b128 [$1], q; }", "l,l", "", "ll", p + 16,
         (uintptr_t)shared_memory);
    assert_memory_equal(shared_memory, words + 4, 16);
}

static void shared_addresses(void **state)
{
    uint64_t out[16] = {0}, p = (uintptr_t)shared_memory;
    *(uint32_t *)(shared_memory + 24) = 0xfeed;
    /* the low half of the pointer, an offset from the base, the whole pointer */
    CALL(out, "ld.shared.u32 $0, [$1+8];", "=r,r", "r", "r", (uint32_t)(p + 16));
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "ld.shared.u32 $0, [$1];", "=r,r", "r", "r", 24);
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "ld.shared::cta.u32 $0, [$1];", "=r,l", "r", "l", p + 24);
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "ld.shared.u32 $0, [$1];", "=r,l", "r", "l", (uint32_t)(p + 24));
    assert_int_equal(out[0], 0xfeed);
    CALL(out, "cvta.shared.u64 $0, $1;", "=l,l", "l", "l", (uint32_t)(p + 24));
    assert_true(out[0] == p + 24);
    CALL(out, "{ .reg .u64 t; cvta.to.shared.u64 t, $1; cvt.u32.u64 $0, t; }", "=r,l", "r", "l", p + 24);
    assert_true(out[0] == (uint32_t)(p + 24));
}

static void atomics(void **state)
{
    uint32_t word;
    uint64_t out[16] = {0}, p = (uintptr_t)&word;
#define ATOM(start, text, constraints, ins, operand, want_old, want_new)                                     \
    do {                                                                                                     \
        for (int opt = 0; opt < 2; opt++) {                                                                  \
            uint64_t in_[16] = {p, operand, 9};                                                              \
            word = start;                                                                                    \
            compile(text, constraints, "r", ins, opt)(out, in_);                                             \
            if (out[0] != (want_old) || word != (want_new))                                                  \
                fail_msg("%s: %lx %x", text, out[0], word);                                                  \
        }                                                                                                    \
    } while (0)
    ATOM(5, "atom.global.add.u32 $0, [$1], $2;", "=r,l,r", "lr", 7, 5, 12);
    ATOM(5, "atom.acq_rel.gpu.max.s32 $0, [$1], $2;", "=r,l,r", "lr", 0xffffffff, 5, 5);
    ATOM(5, "atom.max.u32 $0, [$1], $2;", "=r,l,r", "lr", 0xffffffff, 5, 0xffffffff);
    ATOM(5, "atom.inc.u32 $0, [$1], $2;", "=r,l,r", "lr", 5, 5, 0);
    ATOM(0, "atom.dec.u32 $0, [$1], $2;", "=r,l,r", "lr", 6, 0, 6);
    ATOM(6, "atom.xor.b32 $0, [$1], $2;", "=r,l,r", "lr", 3, 6, 5);
    ATOM(6, "atom.exch.release.sys.b32 $0, [$1], $2;", "=r,l,r", "lr", 3, 6, 3);
    ATOM(6, "atom.acquire.cta.cas.b32 $0, [$1], $2, $3;", "=r,l,r,r", "lrr", 6, 6, 9);
    ATOM(7, "atom.relaxed.gpu.cas.b32 $0, [$1], $2, $3;", "=r,l,r,r", "lrr", 6, 7, 7);
    ATOM(float_bits(1.5f), "atom.add.f32 $0, [$1], $2;", "=r,l,r", "lr", float_bits(2.25f), float_bits(1.5f),
         float_bits(3.75f));
    /* f16x2: {1.0, 2.0} + {0.5, -4.0} */
    ATOM(0x40003c00, "atom.add.noftz.f16x2 $0, [$1], $2;", "=r,l,r", "lr", 0xc4003800, 0x40003c00,
         0xc0003e00);
    /* bf16x2: {1.0, 256.0} + {2^-8 (a tie: stays even), 1.0 (a tie: stays)} */
    ATOM(0x43803f80, "atom.global.add.noftz.bf16x2 $0, [$1], $2;", "=r,l,r", "lr", 0x3f803b80, 0x43803f80,
         0x43803f80);
    /* bf16 1.0 + 0.0117 rounds up */
    ATOM(0x3f80, "{ .reg .b16 o, v; cvt.u16.u32 v, $2; atom.add.noftz.bf16 o, [$1], v; cvt.u32.u16 $0, o; }",
         "=r,l,r", "lr", 0x3c40, 0x3f80, 0x3f82);
    ATOM(5, "{ .reg .pred p; setp.gt.u32 p, $2, 100; mov.u32 $0, 1; @p atom.add.u32 $0, [$1], $2; }",
         "=&r,l,r", "lr", 7, 1, 5);
    ATOM(5, "{ .reg .pred p; setp.gt.u32 p, $2, 100; mov.u32 $0, 1; @!p red.add.u32 [$1], $2; }", "=&r,l,r",
         "lr", 7, 1, 12);
    float f[4] = {1, 2, 3, 4};
    for (int opt = 0; opt < 2; opt++) {
        uint64_t in_[16] = {(uintptr_t)f, float_bits(0.5f)};
        compile("red.global.v4.f32.add [$0], {$1,$1,$1,$1};", "l,f", "", "lf", opt)(out, in_);
    }
    assert_true(f[0] == 2 && f[1] == 3 && f[2] == 4 && f[3] == 5);
}

static void copies(void **state)
{
    char from[16] = "0123456789abcde", zeros[16] = {0};
    uint64_t out[16] = {0}, p = (uintptr_t)shared_memory, q = (uintptr_t)from;
    CALL(out, "cp.async.cg.shared.global.L2::128B [$0], [$1], 16;", "r,l", "", "rl", (uint32_t)p, q);
    assert_memory_equal(shared_memory, from, 16);
    CALL(out, "cp.async.ca.shared.global [$0], [$1], $2, $3;", "r,l,n,r", "", "rlrr", (uint32_t)p, q, 8, 3);
    assert_memory_equal(shared_memory, "012\0\0\0\0\00089abcde", 16);
    CALL(out, "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r", "", "rlr", (uint32_t)p, q, 0);
    assert_memory_equal(shared_memory, zeros, 16);
    CALL(out,
         "cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all; fence.acq_rel.gpu; membar.sys;",
         "", "", "", 0);
    CALL(out, "prefetch.global.L2 [$0];", "l", "", "l", 8);
}

/* ---- calls and control -------------------------------------------------------------------------- */

static void builtins(void **state)
{
    uint64_t out[16] = {0};
    CALL(out, "mov.u32 $0, %laneid; mov.u64 $1, %clock64;", "=r,=l", "rl", "", 0);
    assert_true(out[0] == 21 && out[1] == 0x123456789abcdef0);
    CALL(out, "frob.f32 $0, $1, $2;", "=f,f,r", "f", "fr", float_bits(1.5f), 4);
    assert_int_equal(out[0], float_bits(6));
    CALL(out, "{ .reg .pred p; split.sync.aligned.x3.b32 {$0, $1}|p, $2, $3; @p add.u32 $1, $1, 1; }",
         "=h,=r,l,r", "hr", "lr", 0xabcdef, 6);
    assert_true(out[0] == 0xcdef && out[1] == 7);
    *(uint32_t *)(shared_memory + 40) = 99;
    CALL(out, "mbarrier.peek.shared.b32 $0, [$1+8];", "=r,r", "r", "r",
         (uint32_t)(uintptr_t)shared_memory + 32);
    assert_int_equal(out[0], 100);
    seen[0] = 0;
    CALL(out, "mbarrier.arrive.release.cta.shared::cta.b64 $0, [$1], $2;", "=l,r,r", "l", "rr", 8, 7);
    assert_true(out[0] == 7 && seen[0] == (uintptr_t)shared_memory + 8);
    CALL(out, "{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [$1], $2, $3; selp.u32 $0, 1, 0, p; }",
         "=r,r,l,r", "r", "rlr", 8, 1, 1000000);
    assert_int_equal(out[0], 1);
    CALL(out, "shfl.sync.down.b32 $0, $1, 3, 0x1f, 0xff;", "=r,r", "r", "r", 0xf0f0f0f0);
    assert_int_equal(out[0], 0x0f0f0f0f);
    assert_true(seen[0] == 0xff && seen[1] == 0xf0f0f0f0 && seen[2] == 3 && seen[3] == 31 && seen[4] == 1);
    CALL(out, "{ .reg .pred p; shfl.sync.bfly.b32 $0|p, $1, 1, 31, -1; @!p mov.u32 $0, 0; }", "=r,r", "r",
         "r", 5);
    assert_int_equal(out[0], 0xfffffffa);
    CALL(out, "{ .reg .pred p, q; setp.ne.u32 p, $1, 0; vote.sync.any.pred q, !p, 7; selp.u32 $0, 1, 0, q; }",
         "=r,r", "r", "r", 0);
    assert_true(out[0] == 1 && seen[0] == 7 && seen[1] == 1 && seen[2] == 1);
    CALL(out, "{ .reg .pred p; setp.ne.u32 p, $1, 0; barrier.cta.red.popc.aligned.u32 $0, 2, 64, p; }",
         "=r,r", "r", "r", 8);
    assert_true(out[0] == 41 && seen[0] == 1 && seen[1] == 2 && seen[2] == 64 && seen[3] == 1);
    CALL(out, "bar.sync 0;", "~{memory}", "", "", 0);
    assert_true(seen[0] == 0 && seen[1] == 0 && seen[2] == 0);
}

/* Operands of texture instructions: every word where runtime/cpu/abi.h says, numbers of the enums by hand. */
static void textures(void **state)
{
    uint64_t out[16] = {0};
    CALL(out, "tex.3d.v4.f32.f32 {$0, $1, $2, $3}, [$4, {$5, $6, $7, $7}];", "=r,=r,=r,=r,l,r,r,r", "rrrr",
         "lrrr", 77, 5, 6, 7);
    assert_true(seen[0] == 77 && seen[1] == 2 && !memcmp(words_seen, (uint32_t[]){5, 6, 7}, 12));
    assert_true(out[0] == 0x34567890 && out[1] == 0x34567891 && out[3] == 0x34567893);
    CALL(
        out,
        "{ .reg .pred p; tex.grad.a2d.v4.u32.f32 {_, _, _, $0}|p, [$2, {$3, $4, $5, $5}], {$6, $7}, {$8, $9};"
        " selp.u16 $1, 1, 0, p; }",
        "=r,=h,l,r,r,r,r,r,r,r", "rh", "lrrrrrrr", 1, 2, 3, 4, 5, 6, 7, 8);
    assert_true(out[0] == 0x34567893 && out[1] == 1 && seen[1] == (4 | 2 << 3));
    assert_true(!memcmp(words_seen, (uint32_t[]){2, 3, 4}, 12));
    assert_true(words_seen[4] == 5 && words_seen[5] == 6 && words_seen[8] == 7 && words_seen[9] == 8);
    CALL(out, "tex.level.1d.v4.s32.f32 {$0, _, _, _}, [$1, {$2}], 0f3f800000;", "=r,l,r", "r", "lr", 1, 9);
    assert_true(seen[1] == 1 << 3 && words_seen[0] == 9 && words_seen[4] == 0x3f800000);
    CALL(out, "tex.acube.v4.f32.f32 {$0, _, _, _}, [$1, {$2, $3, $4, $5}];", "=r,l,r,r,r,r", "r", "lrrrr", 1,
         9, 8, 7, 6);
    assert_true(seen[1] == 6 && !memcmp(words_seen, (uint32_t[]){9, 8, 7, 6}, 16));
    CALL(out, "tex.1d.v4.f32.s32 {$0, _, _, _}, [$1, {$2}];", "=r,l,r", "r", "lr", 1, 9);
    assert_int_equal(seen[1], 1 << 5);
    CALL(out, "tld4.b.2d.v4.f32.f32 {$0, _, _, _}, [$1, {$2, $3}];", "=r,l,r,r", "r", "lrr", 1, 9, 8);
    assert_int_equal(seen[1], 1 | 3 << 3 | 2 << 6);
    CALL(out, "suld.b.a1d.v2.b16.clamp {$0, $1}, [$2, {$3, $4}];", "=h,=h,l,r,r", "hh", "lrr", 3, 4, 5);
    assert_true(out[0] == 0x7890 && out[1] == 0x7891 && seen[0] == 3);
    assert_true(seen[1] == (3 | 1 << 3 | 2 << 5 | 2 << 9) && words_seen[0] == 4 && words_seen[1] == 5);
    CALL(out, "sust.b.2d.cg.v2.b8.zero [$0, {$1, $2}], {$3, $4};", "l,r,r,h,h", "", "lrrhh", 3, 4, 5, 0x1ff,
         2);
    assert_true(seen[1] == (1 | 2 << 3 | 1 << 5 | 2 << 9) && seen[2] == 0xff && seen[3] == 2);
    CALL(out, "sust.b.1d.b64.trap [$0, {$1}], $2;", "l,r,l", "", "lrl", 3, 4, 1ull << 40);
    assert_true(seen[1] == (8 << 5 | 1 << 9) && seen[2] == 1ull << 40);
    CALL(out, "txq.height.b32 $0, [$1];", "=r,l", "r", "l", 40);
    assert_int_equal(out[0], 41);
    seen[0] = 0;
    CALL(out, "{ .reg .pred p; setp.ne.u32 p, $2, 0; @p tex.1d.v4.f32.f32 {$0, _, _, _}, [$1, {$2}]; }",
         "=r,l,r", "r", "lr", 5, 0);
    assert_int_equal(seen[0], 0);
}

/* Sum of 1 … n by a loop in the asm, n = 0 leaves at once; each turn back yields. */
static void labels(void **state)
{
    uint64_t out[16] = {0};
    for (uint64_t n = 0; n < 5; n++) {
        yields = 0;
        CALL(out,
             "{ .reg .pred p; .reg .u32 i; mov.u32 $0, 0; mov.u32 i, $1; setp.eq.u32 p, i, 0; @p bra "
             "DONE${:uid};"
             "AGAIN${:uid}: add.u32 $0, $0, i; sub.u32 i, i, 1; setp.ne.u32 p, i, 0; @p bra.uni AGAIN${:uid};"
             "DONE${:uid}: }",
             "=&r,r", "r", "r", n);
        assert_int_equal(out[0], n * (n + 1) / 2);
        assert_int_equal(yields, n ? 2 * (n - 1) : 0);
    }
}

/* The code around a split block keeps its phis: a loop around an asm that needs branches. */
static void split_in_loop(void **state)
{
    LLVMContextRef c = asm_context();
    LLVMTypeRef i32 = LLVMInt32TypeInContext(c), none = LLVMVoidTypeInContext(c);
    struct asm_shape shape = {"{ .reg .pred p; setp.gt.u32 p, $1, 2; @p red.add.u32 [$0], $1; }", "l,r", "",
                              "lr"};
    LLVMValueRef call;
    LLVMModuleRef m = asm_module(&shape, &call);
    LLVMValueRef f = LLVMAddFunction(m, "loop", LLVMFunctionType(i32, (LLVMTypeRef[]){i32}, 1, 0));
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(c, f, ""),
                      body = LLVMAppendBasicBlockInContext(c, f, ""),
                      end = LLVMAppendBasicBlockInContext(c, f, "");
    LLVMBuilderRef b = LLVMCreateBuilderInContext(c);
    LLVMPositionBuilderAtEnd(b, entry);
    LLVMValueRef sum = LLVMBuildAlloca(b, i32, ""), zero = LLVMConstInt(i32, 0, 0),
                 one = LLVMConstInt(i32, 1, 0);
    LLVMBuildStore(b, zero, sum);
    LLVMBuildBr(b, body);
    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef i = LLVMBuildPhi(b, i32, "");
    LLVMValueRef at = LLVMBuildPtrToInt(b, sum, LLVMInt64TypeInContext(c), "");
    LLVMTypeRef type = LLVMFunctionType(none, (LLVMTypeRef[]){LLVMTypeOf(at), i32}, 2, 0);
    LLVMValueRef text =
        LLVMGetInlineAsm(type, shape.text, strlen(shape.text), "l,r", 3, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef inner = LLVMBuildCall2(b, type, text, (LLVMValueRef[]){at, i}, 2, "");
    LLVMValueRef next = LLVMBuildAdd(b, i, one, "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, next, LLVMGetParam(f, 0), ""), body, end);
    LLVMAddIncoming(i, (LLVMValueRef[]){zero, next}, (LLVMBasicBlockRef[]){entry, body}, 2);
    LLVMPositionBuilderAtEnd(b, end);
    LLVMValueRef last = LLVMBuildPhi(b, i32, "");
    LLVMAddIncoming(last, &next, &body, 1);
    LLVMBuildRet(b, LLVMBuildAdd(b, LLVMBuildLoad2(b, i32, sum, ""), last, ""));
    LLVMDisposeBuilder(b);
    struct mt_asm_error error;
    struct mt_asm_builtins none_b = {NULL, NULL};
    assert_int_equal(mt_asm_lower(m, inner, &none_b, &error), 0);
    assert_int_equal(mt_asm_lower(m, call, &none_b, &error), 0);
    uint32_t (*loop)(uint32_t) = (uint32_t (*)(uint32_t))asm_jit(m, "loop", &error);
    if (!loop)
        fail_msg("%s", error.message);
    assert_int_equal(loop(6), 3 + 4 + 5 + 6);
}

/* What is not supported says so and leaves the module as it was. */
static void refusals(void **state)
{
    static const struct {
        struct asm_shape shape;
        const char *words;
    } cases[] = {{{"frob.f64 $0, $1;", "=d,d", "d", "d"}, "frob.f64"},
                 {{"mov.u32 $0, 1; add.rz.f32 $0, $0, $0;", "=r", "r", ""}, "add.rz.f32"},
                 {{"{ .reg .pred p; setp.ne.u32 p, $1, 0; @p st.u32 [$0], 1; "
                   "sured.b.add.1d.u32.trap [$0, {$1}], $1; }",
                   "l,r", "", "lr"},
                  "sured.b"},
                 {{"tex.1d.v4.f16.f32 {_,_,_,_}, [$0, {$1}];", "l,f", "", "lf"}, "f16"},
                 {{"bra NOWHERE;", "", "", ""}, "unknown label"},
                 {{"A: A: bra A;", "", "", ""}, "twice"},
                 {{"mov.u32 $0, %nothing;", "=r", "r", ""}, "%nothing"},
                 {{"mov.u64 $0, global_name;", "=l", "l", ""}, "global_name"},
                 {{"add.u32 $0, $1;", "=r,r", "r", "r"}, "2 operands"},
                 {{"add.u32 $1, $0, $0;", "=r,r", "r", "r"}, "destination"},
                 {{"mov.u32 $0, $7;", "=r", "r", ""}, "operand"},
                 {{"mov.u32 $0, 1", "=*m", "", "p"}, "constraint"},
                 {{"{ mov.u32 $0, 1;", "=r", "r", ""}, "'}' missing"}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        LLVMValueRef call;
        LLVMModuleRef m = asm_module(&cases[i].shape, &call);
        struct mt_asm_builtins b = {NULL, NULL};
        struct mt_asm_error error;
        char *before = LLVMPrintModuleToString(m);
        assert_int_equal(mt_asm_lower(m, call, &b, &error), -1);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: '%s' does not say '%s'", cases[i].shape.text, error.message, cases[i].words);
        char *after = LLVMPrintModuleToString(m);
        assert_string_equal(before, after);
        LLVMDisposeMessage(before);
        LLVMDisposeMessage(after);
        LLVMDisposeModule(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),         cmocka_unit_test(carry_across_calls),
        cmocka_unit_test(bit_operations),   cmocka_unit_test(moves),
        cmocka_unit_test(floats),           cmocka_unit_test(loads_and_stores),
        cmocka_unit_test(shared_addresses), cmocka_unit_test(atomics),
        cmocka_unit_test(copies),           cmocka_unit_test(builtins),
        cmocka_unit_test(textures),         cmocka_unit_test(labels),
        cmocka_unit_test(split_in_loop),    cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
