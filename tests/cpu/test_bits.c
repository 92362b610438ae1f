/* Integer, bit and video builtins against loops over bits, lanes and 128-bit integers. */
#include "check.h"
typedef __int128 wide;

/* ---- integers ---- */
int32_t mtb_nvvm_mul24_i(int32_t, int32_t), mtb_nvvm_mulhi_i(int32_t, int32_t),
    mtb_nvvm_sad_i(int32_t, int32_t, int32_t);
uint32_t mtb_nvvm_mul24_ui(uint32_t, uint32_t), mtb_nvvm_mulhi_ui(uint32_t, uint32_t),
    mtb_nvvm_sad_ui(uint32_t, uint32_t, uint32_t), mtb_nvvm_prmt(uint32_t, uint32_t, uint32_t),
    mtb_nvvm_fns(uint32_t, uint32_t, int32_t), mtb_nvvm_rotate_b32(uint32_t, uint32_t);
int64_t mtb_nvvm_mulhi_ll(int64_t, int64_t), mtb_nvvm_sad_ll(int64_t, int64_t, int64_t);
uint64_t mtb_nvvm_mulhi_ull(uint64_t, uint64_t), mtb_nvvm_sad_ull(uint64_t, uint64_t, uint64_t),
    mtb_nvvm_rotate_b64(uint64_t, uint32_t), mtb_nvvm_rotate_right_b64(uint64_t, uint32_t),
    mtb_nvvm_swap_lo_hi_b64(uint64_t);
int16_t mtb_nvvm_mulhi_s(int16_t, int16_t), mtb_nvvm_sad_s(int16_t, int16_t, int16_t);
uint16_t mtb_nvvm_mulhi_us(uint16_t, uint16_t), mtb_nvvm_sad_us(uint16_t, uint16_t, uint16_t);

static wide bits_cut(wide x, int bits, int is_signed)
{
    wide m = ((wide)1 << bits) - 1;
    x &= m;
    return is_signed && x >> (bits - 1) & 1 ? x - m - 1 : x;
}
static wide bits_distance(wide a, wide b)
{
    return a > b ? a - b : b - a;
}

static uint64_t rotate_left(uint64_t x, unsigned n, int bits)
{
    uint64_t r = 0;
    for (int i = 0; i < bits; i++)
        if (x >> i & 1)
            r |= 1ull << ((unsigned)i + n) % (unsigned)bits;
    return r;
}

static void bits_integers(void)
{
    for (int i = 0; i < 200000; i++) {
        uint64_t a = any_u64(), b = any_u64(), c = any_u64();
        int32_t sa = (int32_t)a, sb = (int32_t)b, sc = (int32_t)c;
        uint32_t ua = (uint32_t)a, ub = (uint32_t)b, uc = (uint32_t)c;
#define SAME(got, want, name)                                                                                \
    CHECK((wide)(got) == (wide)(want), name "(%llx, %llx, %llx) = %llx", (long long)a, (long long)b,         \
          (long long)c, (long long)(got))
        SAME(mtb_nvvm_mul24_i(sa, sb), bits_cut(bits_cut(sa, 24, 1) * bits_cut(sb, 24, 1), 32, 1), "mul24.i");
        SAME(mtb_nvvm_mul24_ui(ua, ub), bits_cut(bits_cut(ua, 24, 0) * bits_cut(ub, 24, 0), 32, 0),
             "mul24.ui");
        SAME(mtb_nvvm_mulhi_i(sa, sb), (wide)sa * sb >> 32, "mulhi.i");
        SAME(mtb_nvvm_mulhi_ui(ua, ub), (wide)ua * ub >> 32, "mulhi.ui");
        SAME(mtb_nvvm_mulhi_s((int16_t)a, (int16_t)b), (wide)(int16_t)a * (int16_t)b >> 16, "mulhi.s");
        SAME(mtb_nvvm_mulhi_us((uint16_t)a, (uint16_t)b), (wide)(uint16_t)a * (uint16_t)b >> 16, "mulhi.us");
        /* 64-bit high products by schoolbook halves */
        wide lo = (wide)ua * ub, m1 = (wide)(a >> 32) * ub, m2 = (wide)ua * (b >> 32),
             hi = (wide)(a >> 32) * (b >> 32);
        wide carry = ((lo >> 32) + bits_cut(m1, 32, 0) + bits_cut(m2, 32, 0)) >> 32;
        wide high = hi + (m1 >> 32) + (m2 >> 32) + carry;
        SAME(mtb_nvvm_mulhi_ull(a, b), bits_cut(high, 64, 0), "mulhi.ull");
        wide shigh = high - ((int64_t)a < 0 ? (wide)b : 0) - ((int64_t)b < 0 ? (wide)a : 0);
        SAME(mtb_nvvm_mulhi_ll((int64_t)a, (int64_t)b), bits_cut(shigh, 64, 1), "mulhi.ll");
        SAME(mtb_nvvm_sad_i(sa, sb, sc), bits_cut(sc + bits_distance(sa, sb), 32, 1), "sad.i");
        SAME(mtb_nvvm_sad_ui(ua, ub, uc), bits_cut(uc + bits_distance(ua, ub), 32, 0), "sad.ui");
        SAME(mtb_nvvm_sad_ll((int64_t)a, (int64_t)b, (int64_t)c),
             bits_cut((wide)(int64_t)c + bits_distance((int64_t)a, (int64_t)b), 64, 1), "sad.ll");
        SAME(mtb_nvvm_sad_ull(a, b, c), bits_cut((wide)c + bits_distance((wide)a, (wide)b), 64, 0),
             "sad.ull");
        SAME(mtb_nvvm_sad_s((int16_t)a, (int16_t)b, (int16_t)c),
             bits_cut((int16_t)c + bits_distance((int16_t)a, (int16_t)b), 16, 1), "sad.s");
        SAME(mtb_nvvm_sad_us((uint16_t)a, (uint16_t)b, (uint16_t)c),
             bits_cut((uint16_t)c + bits_distance((uint16_t)a, (uint16_t)b), 16, 0), "sad.us");
        SAME(mtb_nvvm_rotate_b32(ua, ub), rotate_left(ua, ub % 32, 32), "rotate.b32");
        SAME(mtb_nvvm_rotate_b64(a, ub), rotate_left(a, ub % 64, 64), "rotate.b64");
        SAME(mtb_nvvm_rotate_right_b64(a, ub), rotate_left(a, 64 - ub % 64, 64), "rotate.right.b64");
        SAME(mtb_nvvm_swap_lo_hi_b64(a), rotate_left(a, 32, 64), "swap.lo.hi");

        uint8_t bytes[8];
        memcpy(bytes, &ua, 4);
        memcpy(bytes + 4, &ub, 4);
        uint8_t out[4];
        for (int k = 0; k < 4; k++) {
            unsigned nibble = uc / (1u << 4 * k) % 16;
            out[k] = nibble < 8 ? bytes[nibble] : (int8_t)bytes[nibble - 8] < 0 ? 255 : 0;
        }
        uint32_t want;
        memcpy(&want, out, 4);
        SAME(mtb_nvvm_prmt(ua, ub, uc), want, "prmt");

        unsigned base = ub % 32;
        int offset = (int)(c % 9) - 4, count = 0;
        want = ~0u;
        if (offset == 0) {
            if (ua & 1u << base)
                want = base;
        } else if (offset > 0) {
            for (unsigned k = base; k < 32 && want == ~0u; k++)
                if (ua & 1u << k && ++count == offset)
                    want = k;
        } else {
            for (int k = (int)base; k >= 0 && want == ~0u; k--)
                if (ua & 1u << k && ++count == -offset)
                    want = (uint32_t)k;
        }
        SAME(mtb_nvvm_fns(ua, base, offset), want, "fns");
    }
}

/* ---- packed integers ---- */
typedef uint32_t video(uint32_t, uint32_t, uint32_t);
#define DECLARE(op)                                                                                          \
    video mtb_ptx_v##op##2_u32_u32_u32, mtb_ptx_v##op##2_s32_s32_s32, mtb_ptx_v##op##4_u32_u32_u32,          \
        mtb_ptx_v##op##4_s32_s32_s32, mtb_ptx_v##op##2_u32_u32_u32_sat, mtb_ptx_v##op##2_s32_s32_s32_sat,    \
        mtb_ptx_v##op##4_u32_u32_u32_sat, mtb_ptx_v##op##4_s32_s32_s32_sat,                                  \
        mtb_ptx_v##op##2_u32_u32_u32_add, mtb_ptx_v##op##2_s32_s32_s32_add,                                  \
        mtb_ptx_v##op##4_u32_u32_u32_add, mtb_ptx_v##op##4_s32_s32_s32_add;
DECLARE(add)
DECLARE(sub)
DECLARE(avrg)
DECLARE(absdiff)
DECLARE(min)
DECLARE(max)
#define COMPARED(cmp)                                                                                        \
    video mtb_ptx_vset2_u32_u32_##cmp, mtb_ptx_vset2_s32_s32_##cmp, mtb_ptx_vset4_u32_u32_##cmp,             \
        mtb_ptx_vset4_s32_s32_##cmp;
COMPARED(eq)
COMPARED(ne)
COMPARED(lt)
COMPARED(le)
COMPARED(gt)
COMPARED(ge)

static int floor_half(int x) /* towards minus infinity */
{
    return x >= 0 ? x / 2 : -((1 - x) / 2);
}
static int lane_op(const char *op, int x, int y)
{
    return !strcmp(op, "add")       ? x + y
           : !strcmp(op, "sub")     ? x - y
           : !strcmp(op, "avrg")    ? floor_half(x + y + (x + y >= 0 ? 1 : 0))
           : !strcmp(op, "absdiff") ? abs(x - y)
           : !strcmp(op, "min")     ? (x < y ? x : y)
           : !strcmp(op, "max")     ? (x > y ? x : y)
           : !strcmp(op, "eq")      ? x == y
           : !strcmp(op, "ne")      ? x != y
           : !strcmp(op, "lt")      ? x < y
           : !strcmp(op, "le")      ? x <= y
           : !strcmp(op, "gt")      ? x > y
                                    : x >= y;
}

static uint32_t bits_lanes(const char *op, uint32_t a, uint32_t b, uint32_t c, int n, int is_signed,
                           const char *form)
{
    int bits = 32 / n, top = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1,
        low = is_signed ? -top - 1 : 0;
    uint32_t r = 0;
    for (int i = n - 1; i >= 0; i--) {
        int x = (int)bits_cut(a >> bits * i, bits, is_signed),
            y = (int)bits_cut(b >> bits * i, bits, is_signed);
        int v = lane_op(op, x, y);
        if (!strcmp(form, "_sat"))
            v = v > top ? top : v < low ? low : v;
        if (!strcmp(form, "_add"))
            c += (uint32_t)v;
        r = (n == 4 ? r << 8 : r << 16) | (uint32_t)bits_cut(v, bits, 0);
    }
    return !strcmp(form, "_add") ? c : r;
}

#define V(op, n, t, s, form)                                                                                 \
    CHECK(mtb_ptx_v##op##n##_##t##_##t##_##t##form(a, b, c) == bits_lanes(#op, a, b, c, n, s, #form),        \
          "v" #op #n "." #t #form "(%08x, %08x, %08x) = %08x, expected %08x", a, b, c,                       \
          mtb_ptx_v##op##n##_##t##_##t##_##t##form(a, b, c), bits_lanes(#op, a, b, c, n, s, #form))
#define V_ALL(op)                                                                                            \
    V(op, 2, u32, 0, );                                                                                      \
    V(op, 2, s32, 1, );                                                                                      \
    V(op, 4, u32, 0, );                                                                                      \
    V(op, 4, s32, 1, );                                                                                      \
    V(op, 2, u32, 0, _sat);                                                                                  \
    V(op, 2, s32, 1, _sat);                                                                                  \
    V(op, 4, u32, 0, _sat);                                                                                  \
    V(op, 4, s32, 1, _sat);                                                                                  \
    V(op, 2, u32, 0, _add);                                                                                  \
    V(op, 4, s32, 1, _add)
#define VSET(n, t, s, cmp)                                                                                   \
    CHECK(mtb_ptx_vset##n##_##t##_##t##_##cmp(a, b, c) == bits_lanes(#cmp, a, b, c, n, s, ""),               \
          "vset" #n "." #t "." #cmp "(%08x, %08x)", a, b)
#define VSET_ALL(cmp)                                                                                        \
    VSET(2, u32, 0, cmp);                                                                                    \
    VSET(2, s32, 1, cmp);                                                                                    \
    VSET(4, u32, 0, cmp);                                                                                    \
    VSET(4, s32, 1, cmp)

static void bits_packed(void)
{
    for (int i = 0; i < 50000; i++) {
        uint32_t a = (uint32_t)rnd(), b = i % 3 ? (uint32_t)rnd() : a ^ (0xffu << (i % 4 * 8)),
                 c = (uint32_t)rnd();
        V_ALL(add);
        V_ALL(sub);
        V_ALL(avrg);
        V_ALL(absdiff);
        V_ALL(min);
        V_ALL(max);
        VSET_ALL(eq);
        VSET_ALL(ne);
        VSET_ALL(lt);
        VSET_ALL(le);
        VSET_ALL(gt);
        VSET_ALL(ge);
    }
}

/* ---- mbarrier: three threads and 100 bytes per phase ---- */
void mtb_ptx_mbarrier_init_shared_b64(uint64_t *, uint32_t);
uint64_t mtb_ptx_mbarrier_arrive_shared_b64(uint64_t *, uint32_t),
    mtb_ptx_mbarrier_arrive_drop_shared_b64(uint64_t *, uint32_t),
    mtb_ptx_mbarrier_arrive_expect_tx_release_cta_shared__cta_b64(uint64_t *, uint32_t);
uint32_t mtb_nvvm_mbarrier_pending_count(uint64_t);
void mtb_ptx_cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes(void *, const void *, uint32_t,
                                                                               uint64_t *);
_Bool mtb_ptx_mbarrier_try_wait_parity_shared_b64(uint64_t *, uint32_t),
    mtb_nvvm_mbarrier_test_wait_shared(uint64_t *, uint64_t);
static int yields;
void __wrap_mt_cpu_yield(void) /* instead of the device's: there is no kernel here */
{
    yields++;
}

static void bits_mbarriers(void)
{
    uint64_t bar, state;
    char from[100], to[100];
    memset(from, 7, sizeof from);
    mtb_ptx_mbarrier_init_shared_b64(&bar, 3);
    for (unsigned phase = 0; phase < 5; phase++) {
        unsigned left = phase < 3 ? 3 : 2;
        state = mtb_ptx_mbarrier_arrive_expect_tx_release_cta_shared__cta_b64(&bar, 100);
        CHECK(mtb_nvvm_mbarrier_pending_count(state) == left, "pending %u",
              mtb_nvvm_mbarrier_pending_count(state));
        if (phase < 2)
            mtb_ptx_mbarrier_arrive_shared_b64(&bar, 1);
        else if (phase == 2)
            mtb_ptx_mbarrier_arrive_drop_shared_b64(&bar, 1); /* from the next phase on there are two */
        CHECK(!mtb_ptx_mbarrier_try_wait_parity_shared_b64(&bar, phase & 1), "phase %u ended early", phase);
        mtb_ptx_mbarrier_arrive_shared_b64(&bar, 1);
        CHECK(!mtb_nvvm_mbarrier_test_wait_shared(&bar, state), "phase %u did not wait for the copy", phase);
        memset(to, 0, sizeof to);
        mtb_ptx_cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes(to, from, 100, &bar);
        CHECK(!memcmp(from, to, 100), "copy");
        CHECK(mtb_ptx_mbarrier_try_wait_parity_shared_b64(&bar, phase & 1), "phase %u did not end", phase);
        CHECK(mtb_nvvm_mbarrier_test_wait_shared(&bar, state), "phase %u did not end", phase);
    }
    CHECK(yields == 10, "%d yields", yields);
}

int main(void)
{
    bits_integers();
    bits_packed();
    bits_mbarriers();
    return report("integers and bits");
}
