/* Integer, bit and video builtins against loops over bits, lanes and 128-bit integers. */
#include "check.h"
typedef __int128 wide;

/* ---- integers ---- */
uint32_t mtb_ptx_fns_b32(uint32_t, uint32_t, int32_t);

static wide bits_cut(wide x, int bits, int is_signed)
{
    wide m = ((wide)1 << bits) - 1;
    x &= m;
    return is_signed && x >> (bits - 1) & 1 ? x - m - 1 : x;
}
static void bits_integers(void)
{
    for (int i = 0; i < 200000; i++) {
        uint64_t a = any_u64(), b = any_u64(), c = any_u64();
        uint32_t ua = (uint32_t)a, want;
#define SAME(got, want, name)                                                                                \
    CHECK((wide)(got) == (wide)(want), name "(%llx, %llx, %llx) = %llx", (long long)a, (long long)b,         \
          (long long)c, (long long)(got))
        unsigned base = (uint32_t)b % 32;
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
        SAME(mtb_ptx_fns_b32(ua, base, offset), want, "fns");
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
uint32_t mtb_ptx_mbarrier_pending_count_b64(uint64_t);
void mtb_ptx_cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes(void *, const void *, uint32_t,
                                                                               uint64_t *);
_Bool mtb_ptx_mbarrier_try_wait_parity_shared_b64(uint64_t *, uint32_t),
    mtb_ptx_mbarrier_test_wait_shared_b64(uint64_t *, uint64_t);
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
        CHECK(mtb_ptx_mbarrier_pending_count_b64(state) == left, "pending %u",
              mtb_ptx_mbarrier_pending_count_b64(state));
        if (phase < 2)
            mtb_ptx_mbarrier_arrive_shared_b64(&bar, 1);
        else if (phase == 2)
            mtb_ptx_mbarrier_arrive_drop_shared_b64(&bar, 1); /* from the next phase on there are two */
        CHECK(!mtb_ptx_mbarrier_try_wait_parity_shared_b64(&bar, phase & 1), "phase %u ended early", phase);
        mtb_ptx_mbarrier_arrive_shared_b64(&bar, 1);
        CHECK(!mtb_ptx_mbarrier_test_wait_shared_b64(&bar, state), "phase %u did not wait for the copy",
              phase);
        memset(to, 0, sizeof to);
        mtb_ptx_cp_async_bulk_shared__cluster_global_mbarrier__complete_tx__bytes(to, from, 100, &bar);
        CHECK(!memcmp(from, to, 100), "copy");
        CHECK(mtb_ptx_mbarrier_try_wait_parity_shared_b64(&bar, phase & 1), "phase %u did not end", phase);
        CHECK(mtb_ptx_mbarrier_test_wait_shared_b64(&bar, state), "phase %u did not end", phase);
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
