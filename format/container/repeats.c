/* Detection of repeating entries, which are omitted before they are encoded. */
#include "repeats.h"
#include "writer.h"
#include <string.h>
#ifndef MT_CONTAINER_STORED
#include <immintrin.h>
#endif

enum {
    LEAST = 128, /* minimum number of entries omitted at once */
    STEP = 16,   /* entries between two searches for a period */
    MISSES = 16, /* failed searches before the rest stays unchanged */
    REST_MAX = 64,
    WIDE = 7 /* longest period of which two fit into registers */
};

typedef uint64_t two_words __attribute__((vector_size(16), aligned(8), may_alias));
typedef uint64_t four_words __attribute__((vector_size(32), aligned(8), may_alias));

#ifdef MT_CONTAINER_STORED /* PinCRT cannot query the processor */
static size_t repeats_wide(const struct mt_host_entry *e, size_t left, size_t period)
{
    (void)e, (void)left, (void)period;
    return 0;
}
#else
/* Compares pairs of periods, with the predicted values in registers: one load per two entries. Always inlined
 * with a constant period. */
static inline __attribute__((always_inline, target("avx2"))) size_t
repeats_pairs(const struct mt_host_entry *e, size_t left, size_t period)
{
    const two_words *now = (const void *)(e + 1), *was = now - period, *earlier = was - period;
    const four_words *in = (const void *)now;
    two_words step[2 * WIDE], next[2 * WIDE];
    four_words by[WIDE], to[WIDE];
    size_t n = 0;
    for (size_t i = 0; i < 2 * period; i++) {
        step[i] = was[i % period] - earlier[i % period];
        step[i] += step[i];
        next[i] = earlier[i] + step[i];
    }
    memcpy(by, step, period * sizeof *by);
    memcpy(to, next, period * sizeof *to);
    for (; n + 2 * period <= left; n += 2 * period, in += period) {
        four_words odd = {0, 0, 0, 0};
#pragma GCC unroll 8
        for (size_t i = 0; i < period; i++) {
            odd |= in[i] ^ to[i];
            to[i] += by[i];
        }
        if (!_mm256_testz_si256((__m256i)odd, (__m256i)odd))
            break;
    }
    return n;
}

static __attribute__((target("avx2"))) size_t repeats_registers(const struct mt_host_entry *e, size_t left,
                                                                size_t period)
{
    switch (period) {
    case 1:
        return repeats_pairs(e, left, 1);
    case 2:
        return repeats_pairs(e, left, 2);
    case 3:
        return repeats_pairs(e, left, 3);
    case 4:
        return repeats_pairs(e, left, 4);
    case 5:
        return repeats_pairs(e, left, 5);
    case 6:
        return repeats_pairs(e, left, 6);
    case WIDE:
        return repeats_pairs(e, left, WIDE);
    default:
        return 0;
    }
}

static size_t repeats_wide(const struct mt_host_entry *e, size_t left, size_t period)
{
    return __builtin_cpu_supports("avx2") ? repeats_registers(e, left, period) : 0;
}
#endif

size_t mt_repeats_length(const struct mt_host_entry *e, size_t left, size_t period)
{
    const two_words *now = (const void *)(e + 1), *was = now - period, *earlier = was - period;
    size_t n = repeats_wide(e, left, period);
    for (; n + 4 <= left; n += 4) {
        two_words odd = {0, 0};
        for (size_t i = n; i < n + 4; i++)
            odd |= (now[i] - was[i]) ^ (was[i] - earlier[i]);
        if (odd[0] | odd[1])
            break;
    }
    for (; n < left; n++) {
        two_words odd = (now[n] - was[n]) ^ (was[n] - earlier[n]);
        if (odd[0] | odd[1])
            break;
    }
    return n;
}

size_t mt_repeats_period(const struct mt_host_entry *first, const struct mt_host_entry *e)
{
    size_t room = (size_t)(e + 1 - first) / 2, most = room < MT_PERIOD_MAX ? room : MT_PERIOD_MAX;
    for (size_t period = 1; period <= most; period++)
        if (e[0 - period].site == e->site)
            return period;
    return 0;
}

/* Returns the length of the whole periods from `x` on that continue the two before it. */
static size_t repeats_from(const struct mt_host_entry *first, const struct mt_host_entry *x,
                           const struct mt_host_entry *end, size_t period)
{
    if (!period || (size_t)(x - first) < 2 * period)
        return 0;
    for (size_t k = 1; k <= period; k++) {
        const struct mt_host_entry *now = x - k, *was = now - period;
        if (!now->site || now->site != was->site || now->size != was->size)
            return 0;
        for (size_t i = 1; i < k; i++)
            if (x[0 - i].site == now->site)
                return 0;
    }
    size_t n = mt_repeats_length(x - 1, (size_t)(end - x), period);
    n -= n % period;
    return n >= LEAST + 2 * period ? n : 0;
}

/* Tries the latest period, then another one. Returns the number of repeating entries. */
static size_t repeats_find(struct mt_mtc_repeats *r, const struct mt_host_entry *first,
                           const struct mt_host_entry *x, const struct mt_host_entry *end)
{
    size_t n = repeats_from(first, x, end, r->period), period;
    if (n || x == first || !(period = mt_repeats_period(first, x - 1)) || period == r->period)
        return n;
    if ((n = repeats_from(first, x, end, period)))
        r->period = (uint32_t)period;
    return n;
}

/* Reduces the frequency of searches after failures. */
static void repeats_rest(struct mt_mtc_repeats *r, int found)
{
    uint32_t more = r->patience ? 2 * r->patience : 1;
    r->patience = found ? 0 : more < REST_MAX ? more : REST_MAX;
    r->rest = r->patience;
}

struct mt_host_entry *mt_mtc_shorten(struct mt_mtc_repeats *r, const struct mt_host_entry *first,
                                     struct mt_host_entry *from, const struct mt_host_entry *end)
{
    struct mt_host_entry *out = from, *keep = from,
                         *x = from; /* end of the output; start of entries to keep; current position */
    if (r->rest) {
        r->rest--;
        return from + (end - from);
    }
    for (unsigned misses = 0; end - x > LEAST && misses < MISSES;) {
        size_t n = repeats_find(r, first, x, end), out_of = n ? n - 2 * r->period : 0;
        if (!n) {
            x += STEP;
            misses++;
            continue;
        }
        memmove(out, keep, (size_t)(x - keep) * sizeof *x);
        out += x - keep;
        *out++ = (struct mt_host_entry){out_of, 0, MT_MTC_REPEAT | r->period << 6};
        keep = x + out_of;
        x += n;
        x += end - x < 2 * r->period ? end - x : 2 * r->period; /* the pattern may continue after a jump */
        r->left_out += out_of;
        first = keep;
    }
    repeats_rest(r, out != from);
    memmove(out, keep, (size_t)(end - keep) * sizeof *x);
    return out + (end - keep);
}
