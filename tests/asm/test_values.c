/* Lowered inline assembly that computes (integers, bits, moves, floats), compiled and run, against C written
 * from the PTX manual's pseudo-code. */
#include "lower_cases.h"

const struct asm_symbol asm_symbols[] = {{NULL, NULL, NULL}};

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
R32(ref_mad24_sat, ({
        int64_t x = ((int64_t)((int32_t)(a << 8) / 256) * ((int32_t)(b << 8) / 256) >> 16) + (int32_t)c;
        x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x;
    }))
R32(ref_sad_u16, (uint16_t)(c + ((uint16_t)a > (uint16_t)b ? a - b : b - a)))
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

static void values_integers(void **state)
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
        {"mad24.hi.sat.s32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_mad24_sat},
        {"sad.u16 $0, $1, $2, $3;", "=h,h,h,h", "h", "hhh", ref_sad_u16},
        {"add.cc.u64 $0, $2, $4; addc.u64 $1, $3, $5;", "=&l,=l,l,l,l,l", "ll", "llll", ref_add128},
        {"sub.cc.u32 $0, $3, $6; subc.cc.u32 $1, $4, $7; subc.u32 $2, $5, $8;", "=&r,=&r,=r,r,r,r,r,r,r",
         "rrr", "rrrrrr", ref_sub96},
        {"mad.lo.cc.u32 $0, $3, $5, $6; madc.hi.cc.u32 $1, $3, $5, $7; addc.u32 $2, 0, 0;"
         "mad.lo.cc.u32 $1, $4, $5, $1; madc.hi.u32 $2, $4, $5, $2;",
         "=&r,=&r,=&r,r,r,r,r,r", "rrr", "rrrrr", ref_mad_chain}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i]);
}

/* Chains of additions, subtractions and products of any types, each step with or without the flag in and out,
 * and under a predicate or not. The model says "nothing was borrowed" by comparing. */
struct carry_step {
    char op; /* + - l h: mad.lo, mad.hi */
    int reads, writes, guarded, wide, is_signed;
    unsigned from[3]; /* inputs: 0 to 3 of 32 bits, 4 to 7 of 64 */
};

static struct carry_step carry_choose(void)
{
    struct carry_step s = {"+-lh"[next_random() % 4],
                           next_random() % 4 != 0,
                           next_random() % 4 != 0,
                           next_random() % 4 == 0,
                           next_random() % 2,
                           next_random() % 2,
                           {0}};
    s.writes |= !s.reads;
    for (unsigned i = 0; i < 3; i++)
        s.from[i] = (unsigned)(next_random() % 4) + 4u * (unsigned)s.wide;
    return s;
}

static void carry_write(FILE *f, const struct carry_step *s, unsigned to)
{
    const char *name = s->op == '+' ? "add" : s->op == '-' ? "sub" : "mad";
    fprintf(f, "%s%s%s%s%s.%c%d $%u, $%u, $%u", s->guarded ? "@p " : "", name, s->reads ? "c" : "",
            s->op == 'l'   ? ".lo"
            : s->op == 'h' ? ".hi"
                           : "",
            s->writes ? ".cc" : "", s->is_signed ? 's' : 'u', s->wide ? 64 : 32, to, 6 + s->from[0],
            6 + s->from[1]);
    if (s->op == 'l' || s->op == 'h')
        fprintf(f, ", $%u", 6 + s->from[2]);
    fputs(";\n", f);
}

static uint64_t carry_product(const struct carry_step *s, uint64_t a, uint64_t b)
{
    if (s->op == 'l')
        return a * b;
    if (s->wide)
        return s->is_signed ? (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64)
                            : (uint64_t)((unsigned __int128)a * b >> 64);
    return s->is_signed ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32 : a * b >> 32;
}

static uint64_t carry_model(const struct carry_step *s, const uint64_t *in, int *flag)
{
    uint64_t top = s->wide ? UINT64_MAX : UINT32_MAX, a = in[s->from[0]], b = in[s->from[1]];
    int writes = s->writes, out;
    unsigned __int128 x = a, y = b;
    if (s->op == '-') {
        y += s->reads && !*flag; /* what is taken away */
        out = x >= y;
        x -= y;
    } else {
        if (s->op != '+')
            x = carry_product(s, a, b) & top, y = in[s->from[2]];
        x += y + (unsigned)(s->reads && *flag);
        out = x > top;
    }
    if (writes)
        *flag = out;
    return (uint64_t)x & top;
}

static void carry_chain(void)
{
    struct carry_step s[6];
    char *text, constraints[100] = "", outs[7] = "";
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fputs("{ .reg .pred p; setp.lt.u32 p, $6, $7;\n", f);
    for (unsigned i = 0; i < 6; i++) {
        s[i] = carry_choose();
        s[i].reads &= i != 0;
        s[i].writes |= i == 0;
        s[i].guarded &= i != 0;
        if (s[i].guarded)
            fprintf(f, "mov.b%d $%u, 9;\n", s[i].wide ? 64 : 32, i);
        carry_write(f, &s[i], i);
        outs[i] = s[i].wide ? 'l' : 'r';
        strcat(constraints, s[i].wide ? "=&l," : "=&r,");
    }
    fputs("}", f);
    fclose(f);
    strcat(constraints, "r,r,r,r,l,l,l,l");
    asm_function *run = compile(text, constraints, outs, "rrrrllll", next_random() % 2);
    for (unsigned n = 0; n < 200; n++) {
        uint64_t in[16] = {0}, got[16] = {0}, want;
        int flag = 0;
        for (unsigned i = 0; i < 8; i++)
            in[i] = sample(i < 4 ? 'r' : 'l');
        run(got, in);
        for (unsigned i = 0; i < 6; i++) {
            want = s[i].guarded && in[0] >= in[1] ? 9 : carry_model(&s[i], in, &flag);
            if (got[i] != want)
                fail_msg("%s: result %u is %lx, not %lx", text, i, got[i], want);
        }
    }
    free(text);
}

static void carry_chains(void **state)
{
    for (unsigned i = 0; i < 300; i++)
        carry_chain();
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
R64(ref_cnot64, a == 0)
R32(ref_popc, __builtin_popcountll(in[0]))
R32(ref_clz, a ? __builtin_clz(a) : 32)
R32(ref_szext, c ? 0 : b >= 32 ? a : b == 0 ? 0 : (uint32_t)((int32_t)(a << (32 - b)) >> (32 - b)))

static uint64_t values_bfe(uint64_t a, unsigned pos, unsigned len, int is_signed, unsigned msb)
{
    uint64_t d = 0, sign = 0;
    pos &= 255, len &= 255;
    if (is_signed && len)
        sign = a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1;
    for (unsigned i = 0; i <= msb; i++)
        d |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign) << i;
    return d;
}
R32(ref_bfe_u, values_bfe(a, b, c, 0, 31))
R32(ref_bfe_s, values_bfe(a, b, c, 1, 31))
R64(ref_bfe_s64, values_bfe(a, (unsigned)b, (unsigned)c, 1, 63))
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
static uint32_t values_prmt(const uint64_t *in, const unsigned *selector)
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
    out[0] = values_prmt(in, s);
}
static void ref_prmt_b4e(uint64_t *out, const uint64_t *in)
{
    static const unsigned table[4][4] = {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}};
    out[0] = values_prmt(in, table[in[2] & 3]);
}
static void ref_prmt_rc16(uint64_t *out, const uint64_t *in)
{
    static const unsigned table[4][4] = {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}};
    out[0] = values_prmt(in, table[in[2] & 3]);
}
static void ref_dp4a(uint64_t *out, const uint64_t *in)
{
    int64_t sum = (int32_t)in[2];
    for (int i = 0; i < 4; i++)
        sum += (int64_t)(int8_t)(in[0] >> 8 * i) * (uint8_t)(in[1] >> 8 * i);
    out[0] = (uint32_t)sum;
}

static void ref_dp2a_hi(uint64_t *out, const uint64_t *in)
{
    int64_t sum = (int32_t)in[2];
    for (int i = 0; i < 2; i++)
        sum += (int64_t)(uint16_t)(in[0] >> 16 * i) * (int8_t)(in[1] >> (16 + 8 * i));
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
        {"cnot.b64 $0, $1;", "=l,l", "l", "l", ref_cnot64},
        {"cnot.b16 $0, $1;", "=h,h", "h", "h", ref_cnot},
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
        {"dp2a.hi.u32.s32 $0, $1, $2, $3;", "=r,r,r,r", "r", "rrr", ref_dp2a_hi},
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

static void values_moves(void **state)
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

static float values_flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
R32(ref_setp_ftz, (values_flush(as_float(a)) < values_flush(as_float(b))) * 5 +
                      (values_flush(as_float(a)) == values_flush(as_float(b))) * 7)
R32(ref_slct_f, as_float(c) >= 0 ? a : b)
R32(ref_slct_ftz, values_flush(as_float(c)) >= 0 ? a : b)
R32(ref_copysign, (a & 0x80000000) | (b & INT32_MAX))
static void ref_cvt_ftz(uint64_t *out, const uint64_t *in)
{
    double d = (double)values_flush(as_float((uint32_t)in[0]));
    memcpy(out, &d, sizeof d);
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
        isnan(x) ? y : isnan(y) ? x : x < y ? x : y;
    })))
R32(ref_testp, (isnan(as_float(a)) ? 1 : 0) | (isfinite(as_float(a)) ? 2 : 0) |
                   (isnormal(as_float(a)) || as_float(a) == 0 ? 4 : 0))

static void values_floats(void **state)
{
    /* NaN results may differ in sign and payload: samples with NaN results are compared as NaN. The minimum
     * of two zeros is either of them here. */
    static const struct op_case cases[] = {
        {"add.ftz.f32 $0, $1, $2;", "=f,f,f", "f", "ff", ref_fadd_ftz},
        {"{ .reg .pred p; setp.lt.ftz.f32 p, $1, $2; selp.u32 $0, 5, 0, p; setp.eq.ftz.f32 p, $1, $2;"
         " @p add.u32 $0, $0, 7; }",
         "=&r,f,f", "r", "ff", ref_setp_ftz},
        {"{ .reg .u32 t; set.lt.ftz.u32.f32 t, $1, $2; and.b32 $0, t, 5; set.eq.ftz.u32.f32 t, $1, $2;"
         " and.b32 t, t, 7; add.u32 $0, $0, t; }",
         "=&r,f,f", "r", "ff", ref_setp_ftz},
        {"slct.u32.f32 $0, $1, $2, $3;", "=r,r,r,f", "r", "rrf", ref_slct_f},
        {"slct.ftz.u32.f32 $0, $1, $2, $3;", "=r,r,r,f", "r", "rrf", ref_slct_ftz},
        {"copysign.f32 $0, $1, $2;", "=f,f,f", "f", "ff", ref_copysign},
        {"cvt.ftz.f64.f32 $0, $1;", "=d,f", "d", "f", ref_cvt_ftz},
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
                uint64_t in[16] = {0}, want[16] = {0}, got[16] = {0};
                for (unsigned k = 0; c->ins[k]; k++)
                    in[k] = sample(c->ins[k]);
                c->f(want, in);
                f(got, in);
                if (*c->outs == 'f' && isnan(as_float(want[0])) && isnan(as_float(got[0])))
                    continue;
                if (c->f == ref_fmin && as_float(want[0]) == 0 && as_float(got[0]) == 0)
                    continue;
                if (got[0] != want[0])
                    fail_msg("%s (%lx, %lx, %lx): %lx, not %lx", c->text, in[0], in[1], in[2], got[0],
                             want[0]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_integers),    cmocka_unit_test(carry_chains),
                                       cmocka_unit_test(carry_across_calls), cmocka_unit_test(bit_operations),
                                       cmocka_unit_test(values_moves),       cmocka_unit_test(values_floats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
