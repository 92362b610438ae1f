/* What masked accesses, gathers and scatters touch (host/machine/elements.h), beside what this
 * processor does: bytes of memory are numbered, so that a load's result says which were read; a store's show
 * in memory. Instructions that the processor lacks are left out, and counted. */
#include "elements.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 255, BASE = 100, WIDE = 64, MASKS = 40, THIRD = 3, RDX = 2, RSI = 6, RDI = 7 };

struct state {
    uint8_t vector[3][WIDE]; /* registers 0: data; 1: indices; 2: zeros, or a vector's mask */
    uint64_t mask;           /* k1 */
    uint8_t memory[BYTES + 1];
    const uint8_t *code;
    uint64_t length;
};

/* rsi and rdi: BASE of memory, rdx: THIRD. */
#define CASE(name, begin, text, end)                                                                         \
    static void name(struct state *s)                                                                        \
    {                                                                                                        \
        const uint8_t *from, *to;                                                                            \
        __asm__ volatile(begin "1:\n\t" text "\n2:\n\t" end                                                  \
                               "lea 1b(%%rip), %0\n\tlea 2b(%%rip), %1\n\tvzeroupper\n\t"                    \
                         : "=&r"(from), "=&r"(to)                                                            \
                         : "r"(s->vector), "r"(s->mask), "S"(s->memory + BASE), "D"(s->memory + BASE),       \
                           "d"((uint64_t)THIRD)                                                              \
                         : "memory", "xmm0", "xmm1", "xmm2");                                                \
        s->code = from;                                                                                      \
        s->length = (uint64_t)(to - from);                                                                   \
    }
#define EVEX(name, text)                                                                                     \
    CASE(name,                                                                                               \
         "vmovdqu64 (%2), %%zmm0\n\tvmovdqu64 64(%2), %%zmm1\n\tvmovdqu64 128(%2), %%zmm2\n\t"               \
         "kmovq %3, %%k1\n\t",                                                                               \
         text, "vmovdqu64 %%zmm0, (%2)\n\t")
#define VEX(name, text)                                                                                      \
    CASE(name, "vmovdqu (%2), %%ymm0\n\tvmovdqu 64(%2), %%ymm1\n\tvmovdqu 128(%2), %%ymm2\n\t", text,        \
         "vmovdqu %%ymm0, (%2)\n\t")

EVEX(load32, "vmovdqu32 (%%rsi), %%zmm0%{%%k1%}%{z%}")
EVEX(load8, "vmovdqu8 64(%%rsi), %%zmm0%{%%k1%}%{z%}")
EVEX(load16, "vmovdqu16 (%%rsi,%%rdx,2), %%ymm0%{%%k1%}%{z%}")
EVEX(load64, "vmovupd -64(%%rsi,%%rdx,1), %%zmm0%{%%k1%}%{z%}")
EVEX(expand, "vpexpandd (%%rsi), %%zmm0%{%%k1%}%{z%}")
EVEX(add, "vpaddd 8(%%rsi), %%zmm2, %%zmm0%{%%k1%}%{z%}")
EVEX(broadcast, "vpaddd 8(%%rsi)%{1to16%}, %%zmm2, %%zmm0%{%%k1%}%{z%}")
EVEX(scalar, "vmovss 4(%%rsi), %%xmm0%{%%k1%}%{z%}")
EVEX(gather_dps, "vgatherdps (%%rsi,%%zmm1,1), %%zmm0%{%%k1%}")
EVEX(gather_dpd, "vgatherdpd 8(%%rsi,%%ymm1,1), %%zmm0%{%%k1%}")
EVEX(gather_qd, "vpgatherqd (%%rsi,%%zmm1,1), %%ymm0%{%%k1%}")
EVEX(gather_qq, "vpgatherqq (%%rsi,%%ymm1,1), %%ymm0%{%%k1%}")
EVEX(store32, "vmovdqu32 %%zmm0, (%%rsi)%{%%k1%}")
EVEX(store8, "vmovdqu8 %%ymm0, 3(%%rsi)%{%%k1%}")
EVEX(store_scalar, "vmovsd %%xmm0, (%%rsi)%{%%k1%}")
EVEX(store_narrow, "vpmovdb %%zmm0, (%%rsi)%{%%k1%}")
EVEX(store_half, "vcvtps2ph $0, %%zmm0, (%%rsi)%{%%k1%}")
EVEX(store_part, "vextracti32x4 $1, %%zmm0, (%%rsi)%{%%k1%}")
EVEX(compress32, "vpcompressd %%zmm0, (%%rsi)%{%%k1%}")
EVEX(compress64, "vcompresspd %%zmm0, 16(%%rsi)%{%%k1%}")
EVEX(scatter_dd, "vpscatterdd %%zmm0, (%%rsi,%%zmm1,1)%{%%k1%}")
EVEX(scatter_qd, "vpscatterqd %%ymm0, (%%rsi,%%zmm1,1)%{%%k1%}")
EVEX(scatter_dq, "vpscatterdq %%zmm0, (%%rsi,%%ymm1,1)%{%%k1%}")
VEX(mask_load_ps, "vmaskmovps (%%rsi), %%ymm2, %%ymm0")
VEX(mask_load_q, "vpmaskmovq 8(%%rsi), %%xmm2, %%xmm0")
VEX(mask_store_d, "vpmaskmovd %%ymm0, %%ymm2, (%%rsi)")
VEX(mask_store_pd, "vmaskmovpd %%ymm0, %%ymm2, (%%rsi,%%rdx,8)")
VEX(mask_bytes, "vmaskmovdqu %%xmm2, %%xmm0")
VEX(vex_gather_dps, "vgatherdps %%ymm2, (%%rsi,%%ymm1,1), %%ymm0")
VEX(vex_gather_qd, "vpgatherqd %%xmm2, (%%rsi,%%ymm1,1), %%xmm0")
VEX(vex_gather_qq, "vpgatherqq %%ymm2, 8(%%rsi,%%ymm1,1), %%ymm0")

static const struct row {
    const char *name;
    void (*run)(struct state *s);
    int evex, stores;
    int index; /* bytes of an index; 0: neither gather nor scatter */
} rows[] = {
#define ROW(name, ...) {#name, name, __VA_ARGS__}
    ROW(load32, 1, 0, 0),        ROW(load8, 1, 0, 0),          ROW(load16, 1, 0, 0),
    ROW(load64, 1, 0, 0),        ROW(expand, 1, 0, 0),         ROW(add, 1, 0, 0),
    ROW(broadcast, 1, 0, 0),     ROW(scalar, 1, 0, 0),         ROW(gather_dps, 1, 0, 4),
    ROW(gather_dpd, 1, 0, 4),    ROW(gather_qd, 1, 0, 8),      ROW(gather_qq, 1, 0, 8),
    ROW(store32, 1, 1, 0),       ROW(store8, 1, 1, 0),         ROW(store_scalar, 1, 1, 0),
    ROW(store_narrow, 1, 1, 0),  ROW(store_half, 1, 1, 0),     ROW(store_part, 1, 1, 0),
    ROW(compress32, 1, 1, 0),    ROW(compress64, 1, 1, 0),     ROW(scatter_dd, 1, 1, 4),
    ROW(scatter_qd, 1, 1, 8),    ROW(scatter_dq, 1, 1, 4),     ROW(mask_load_ps, 0, 0, 0),
    ROW(mask_load_q, 0, 0, 0),   ROW(mask_store_d, 0, 1, 0),   ROW(mask_store_pd, 0, 1, 0),
    ROW(mask_bytes, 0, 1, 0),    ROW(vex_gather_dps, 0, 0, 4), ROW(vex_gather_qd, 0, 0, 8),
    ROW(vex_gather_qq, 0, 0, 8),
};

static uint64_t elements_random(void)
{
    static uint64_t x = 88172645463325252ull;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

static void elements_fill(struct state *s, const struct row *row, unsigned round)
{
    static const uint64_t first[] = {0, ~0ull, 1, 0x5555555555555555ull, 0xff0ull};
    memset(s, 0, sizeof *s);
    s->mask = round < sizeof first / sizeof *first ? first[round] : elements_random();
    for (unsigned i = 0; i < WIDE; i++)
        s->vector[0][i] = row->stores ? (uint8_t)(0x40 + (i & 7)) : 0;
    for (unsigned i = 0; row->index && i < WIDE / (unsigned)row->index; i++) {
        int64_t at = (int64_t)(elements_random() % 200) - 90;
        memcpy(s->vector[1] + i * (unsigned)row->index, &at, (size_t)row->index);
    }
    for (unsigned i = 0; i < WIDE && !row->evex;
         i++) /* each byte its own bit, the last of an element counts */
        s->vector[2][i] = s->mask >> i & 1 ? 0x80 : 0;
}

/* Which bytes of memory the processor read or wrote. */
static void elements_really(const struct state *given, const struct row *row, struct state *after,
                            uint8_t touched[BYTES + 1])
{
    memset(touched, 0, BYTES + 1);
    for (int fill = 0; fill < (row->stores ? 2 : 1); fill++) { /* a byte may be written as it was */
        *after = *given;
        for (unsigned i = 0; i < BYTES; i++)
            after->memory[i] = row->stores ? (uint8_t)-fill : (uint8_t)(i + 1);
        row->run(after);
        for (unsigned i = 0; i < BYTES; i++)
            touched[i] |= row->stores && after->memory[i] != (uint8_t)-fill;
        for (unsigned i = 0; i < WIDE && !row->stores; i++)
            if (after->vector[0][i])
                touched[after->vector[0][i] - 1] = 1;
    }
}

static unsigned elements_runs(const uint8_t touched[BYTES + 1])
{
    unsigned n = 0;
    for (unsigned i = 0; i < BYTES; i++)
        n += touched[i] && (i == 0 || !touched[i - 1]);
    return n;
}

static int elements_check(const struct row *row, unsigned round)
{
    struct state given, after;
    struct mt_elements_registers r = {0};
    struct mt_element e[MT_ELEMENTS_MAX];
    uint8_t touched[BYTES + 1], said[BYTES + 1] = {0};
    elements_fill(&given, row, round);
    elements_really(&given, row, &after, touched);
    r.general[RSI] = r.general[RDI] = BASE;
    r.general[RDX] = THIRD;
    r.mask[1] = given.mask;
    memcpy(r.vector, given.vector, sizeof given.vector);
    struct mt_elements_form *form = mt_elements_form(after.code, (unsigned)after.length);
    if (!form)
        return printf("%s: not taken for a masked access\n", row->name), 1;
    unsigned n = mt_elements(form, &r, e);
    free(form);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < e[i].size; k++)
            if (e[i].address + k < BYTES)
                said[e[i].address + k] = 1;
            else
                return printf("%s: outside of memory\n", row->name), 1;
    if (memcmp(said, touched, sizeof said) != 0 || (!row->index && n != elements_runs(touched))) {
        printf("%s, mask %#llx: %u elements, the processor touched %u runs\n", row->name,
               (unsigned long long)given.mask, n, elements_runs(touched));
        for (unsigned i = 0; i < BYTES; i++)
            if (said[i] != touched[i])
                printf("  byte %d: %s\n", (int)i - BASE,
                       touched[i] ? "touched, not said" : "said, not touched");
        return 1;
    }
    return 0;
}

int main(void)
{
    unsigned done = 0, left = 0, failed = 0;
    int avx2 = __builtin_cpu_supports("avx2");
    int avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("avx512dq");
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].evex ? !avx512 : !avx2) {
            left++;
            continue;
        }
        done++;
        for (unsigned round = 0; round < MASKS; round++)
            if (elements_check(&rows[i], round)) {
                failed++;
                break;
            }
    }
    printf("%u forms right, %u wrong, %u that this processor lacks\n", done - failed, failed, left);
    return failed ? 1 : done ? 0 : 77;
}
