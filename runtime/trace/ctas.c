/* Parser of MEMTRACE_CTAS and MEMTRACE_SAMPLE, and number of CTAs of a grid that they select. */
#include "ctas.h"
#include "memtrace/order.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts -------------------------------------------------------------------------------------- */

static int ctas_number(const char **text, uint64_t *out)
{
    char *end;
    if (**text < '0' || **text > '9')
        return 0;
    errno = 0;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return !errno;
}

/* Parses a range at *text and moves past it. Returns 0, or -1 if there is none. */
static int ctas_range(const char **text, uint64_t *low, uint64_t *high)
{
    *low = 0;
    *high = UINT64_MAX;
    if (**text == '*') {
        ++*text;
        return 0;
    }
    int has_low = ctas_number(text, low), colon = **text == ':';
    *text += colon;
    int has_high = colon && ctas_number(text, high);
    if (!colon)
        *high = *low;
    return (has_low || has_high) && *low <= *high ? 0 : -1;
}

static uint32_t ctas_cut(uint64_t n)
{
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static int ctas_term(struct mt_cta_term *t, const char **text)
{
    uint64_t low[3] = {0, 0, 0}, high[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    unsigned n = 0;
    do {
        *text += n > 0;
        if (ctas_range(text, &low[n], &high[n]))
            return -1;
        n++;
    } while (**text == ',' && n < 3);
    *t = (struct mt_cta_term){.first = n == 1 ? low[0] : 0, .last = n == 1 ? high[0] : UINT64_MAX};
    for (unsigned i = 0; i < 3; i++) {
        t->low[i] = n == 1 ? 0 : ctas_cut(low[i]);
        t->high[i] = n == 1 ? UINT32_MAX : ctas_cut(high[i]);
    }
    return 0;
}

int mt_ctas_parse(struct mt_cta_rule *rule, const char *text, char *why, size_t size)
{
    struct mt_cta_rule r = *rule;
    const char *at = text;
    r.terms = 0;
    do {
        at += r.terms > 0;
        const char *begin = at;
        if (r.terms == MT_CTA_TERMS) {
            snprintf(why, size, "more than %u terms", MT_CTA_TERMS);
            return -1;
        }
        if (ctas_term(&r.term[r.terms++], &at) || (*at && *at != '+')) {
            snprintf(why, size,
                     "'%.40s' is neither a range of CTA numbers (A, A:B, A:, :B) nor ranges x,y or x,y,z "
                     "(* is any)",
                     begin);
            return -1;
        }
    } while (*at);
    *rule = r;
    return 0;
}

int mt_sample_parse(uint32_t *ctas, uint32_t *launches, const char *text, char *why, size_t size)
{
    uint32_t got[2] = {0, 0}; /* CTAs, launches */
    const char *at = text;
    do {
        uint64_t n;
        int launch = !strncmp(at += at > text, "launch:", 7), cta = !strncmp(at, "cta:", 4);
        at += launch ? 7 : cta ? 4 : 0;
        if (!ctas_number(&at, &n) || !n || n > UINT32_MAX || got[launch] || (*at && *at != ',')) {
            snprintf(why, size,
                     "not N or cta:N (every N-th CTA), launch:N (every N-th launch of each kernel), "
                     "or cta:N,launch:M; N is 1 or more");
            return -1;
        }
        got[launch] = (uint32_t)n;
    } while (*at);
    *ctas = got[0] ? got[0] : 1;
    *launches = got[1] ? got[1] : 1;
    return 0;
}

/* ---- counting ----------------------------------------------------------------------------------- */

struct span {
    uint64_t from, to; /* linear numbers, both included */
};

MT_ORDER_1(by_from, struct span, from)

static uint64_t ctas_multiples(uint64_t from, uint64_t to, uint32_t every)
{
    return to / every + 1 - (from + every - 1) / every;
}

/* Finds the spans that the terms select in the row of `length` CTAs starting at number `first`. y, z: -1 if
 * the row is the whole grid and no term uses them. */
static unsigned spans_of(const struct mt_cta_rule *r, uint64_t first, uint64_t length, int64_t y, int64_t z,
                         struct span *out)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < r->terms; i++) {
        const struct mt_cta_term *t = &r->term[i];
        uint64_t from = first, to = first + length - 1;
        if (y >= 0) {
            if ((uint64_t)y < t->low[1] || (uint64_t)y > t->high[1] || (uint64_t)z < t->low[2] ||
                (uint64_t)z > t->high[2])
                continue;
            from += t->low[0];
            to = t->high[0] < length ? first + t->high[0] : to;
        }
        from = from < t->first ? t->first : from;
        to = to > t->last ? t->last : to;
        if (from <= to)
            out[n++] = (struct span){from, to};
    }
    return n;
}

/* Counts the CTAs of spans that may overlap. */
static uint64_t count_row(struct span *s, unsigned n, uint32_t every)
{
    uint64_t sum = 0, next = 0; /* numbers below `next` are already counted */
    qsort(s, n, sizeof *s, by_from);
    for (unsigned i = 0; i < n; i++) {
        uint64_t from = s[i].from < next ? next : s[i].from;
        if (from > s[i].to)
            continue;
        sum += ctas_multiples(from, s[i].to, every);
        next = s[i].to + 1;
    }
    return sum;
}

uint64_t mt_ctas_count(const struct mt_cta_rule *rule, uint32_t every, const uint32_t grid[3])
{
    uint64_t row = grid[0], total = row * grid[1] * grid[2], sum = 0;
    struct span spans[MT_CTA_TERMS];
    int linear = 1;
    if (!total)
        return 0;
    if (!rule->terms)
        return ctas_multiples(0, total - 1, every);
    for (uint32_t i = 0; i < rule->terms; i++)
        for (unsigned k = 0; k < 3; k++)
            linear &= rule->term[i].low[k] == 0 && rule->term[i].high[k] == UINT32_MAX;
    if (linear)
        return count_row(spans, spans_of(rule, 0, total, -1, -1, spans), every);
    for (uint64_t z = 0, first = 0; z < grid[2]; z++)
        for (uint64_t y = 0; y < grid[1]; y++, first += row)
            sum += count_row(spans, spans_of(rule, first, row, (int64_t)y, (int64_t)z, spans), every);
    return sum;
}
