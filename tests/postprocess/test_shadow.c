/* Spans of pages against a plain array, and a shadow that has them against an array of writers: fills, rows
 * and copies of many pages, in one shadow and in three that share the memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../postprocess/analysis/comm/shadow.h"

#define BASE 0x7f0000003123ull
enum { PAGES = 400, SIZE = PAGES * MT_PAGE_BYTES, PARTS = 3, REGION = 1 << 16 };

static uint32_t plain[SIZE], moved[SIZE];
static unsigned seed = 7;

static uint64_t shadow_pick(uint64_t below)
{
    return ((uint64_t)rand_r(&seed) << 20 ^ (uint64_t)rand_r(&seed)) % below;
}

static void shadow_spans(void **state)
{
    (void)state;
    enum { N = 200 };
    static uint32_t is[N];
    struct mt_spans s = {0};
    for (int step = 0; step < 20000; step++) {
        uint64_t first = shadow_pick(N), end = first + shadow_pick(N - first + 1);
        struct mt_page_span new = {first, end, (uint32_t)shadow_pick(5), 0, 0};
        assert_int_equal(new.entry ? mt_spans_set(&s, &new) : mt_spans_clear(&s, first, end), 0);
        for (uint64_t i = first; i < end; i++)
            is[i] = new.entry;
        for (uint64_t i = 0; i < N; i++) {
            const struct mt_page_span *at = mt_spans_find(&s, i);
            assert_int_equal(at ? at->entry : 0, is[i]);
        }
        for (size_t i = 0; i + 1 < s.n; i++)
            assert_true(s.at[i].first < s.at[i].end && s.at[i].end <= s.at[i + 1].first);
    }
    mt_spans_free(&s);
}

/* ---- one shadow, or several ---- */

static unsigned shadow_owner(uint64_t address, unsigned n)
{
    return n > 1 ? (unsigned)(address / REGION * 0x9e3779b97f4a7c15ull >> 33) % n : 0;
}

struct world {
    struct mt_shadow shadow[PARTS], *part[PARTS];
    unsigned n;
};

static uint32_t shadow_writer(struct world *w, uint64_t address)
{
    struct mt_page *p = mt_shadow_find(&w->shadow[shadow_owner(address, w->n)], address >> MT_PAGE_BITS);
    uint32_t in = address & (MT_PAGE_BYTES - 1);
    return !p ? 0 : mt_page_entry(p, in);
}

/* As the analysis does: what is far goes to all. */
static void shadow_fill(struct world *w, uint64_t address, uint64_t length, uint32_t entry)
{
    for (unsigned i = 0; i < w->n && (w->n == 1 || length >= MT_SHADOW_FAR); i++)
        mt_shadow_fill(&w->shadow[i], address, length, entry, 0);
    for (uint64_t n; w->n > 1 && length < MT_SHADOW_FAR && length > 0; address += n, length -= n) {
        n = REGION - address % REGION;
        n = n < length ? n : length;
        mt_shadow_fill(&w->shadow[shadow_owner(address, w->n)], address, n, entry, 0);
    }
}

static void fill_rows(struct world *w, const struct mt_rows *r, uint32_t entry)
{
    const struct mt_comb c = {BASE + r->dst, r->width, r->height, r->dpitch, entry, 0, 0};
    if (r->height <= MT_SHADOW_TALL && w->n > 1)
        for (uint64_t row = 0; row < r->height; row++)
            shadow_fill(w, BASE + r->dst + row * r->dpitch, r->width, entry);
    else
        for (unsigned i = 0; i < w->n; i++)
            mt_shadow_fill_rows(&w->shadow[i], &c);
    for (uint64_t row = 0; row < r->height; row++)
        for (uint64_t i = 0; i < r->width; i++)
            plain[r->dst + row * r->dpitch + i] = entry;
}

static void shadow_copy(struct world *w, const struct mt_rows *r, uint32_t nobody)
{
    const struct mt_shadow_parts parts = {w->part, w->n, shadow_owner, REGION};
    struct mt_rows at = *r;
    at.dst += BASE;
    at.src += BASE;
    assert_int_equal(mt_shadow_move(&parts, &at, nobody), 0);
    for (uint64_t row = 0; row < r->height; row++)
        memcpy(moved + row * r->width, plain + r->src + row * r->spitch, r->width * sizeof *plain);
    for (uint64_t k = 0; k < r->height * r->width; k++)
        plain[r->dst + k / r->width * r->dpitch + k % r->width] = moved[k] ? moved[k] : nobody;
}

/* Rows that fit; tall ones have gaps. Copies of several rows do not overlap: their order would matter. */
static struct mt_rows some_rows(int tall, int apart)
{
    for (;;) {
        struct mt_rows r = {.height = tall ? 4097 + shadow_pick(3000) : 1 + shadow_pick(4)};
        r.width = 1 + shadow_pick(tall ? 60 : shadow_pick(3) ? 100 : SIZE / 8);
        r.dpitch = r.width + shadow_pick(tall ? 60 : 5000) + 1;
        r.spitch = r.width + shadow_pick(tall ? 60 : 5000) + 1;
        uint64_t to = (r.height - 1) * r.dpitch + r.width, from = (r.height - 1) * r.spitch + r.width;
        if (to > SIZE || from > SIZE)
            continue;
        r.dst = shadow_pick(SIZE - to + 1);
        r.src = shadow_pick(SIZE - from + 1);
        if (!apart || r.height == 1 || r.dst + to <= r.src || r.src + from <= r.dst)
            return r;
    }
}

static void one_step(struct world *w)
{
    uint32_t entry =
        shadow_pick(4) ? (shadow_pick(2) ? MT_ENTRY_HOST : 0) | (uint32_t)(1 + shadow_pick(50)) : 0;
    uint64_t from = shadow_pick(SIZE), n = shadow_pick(shadow_pick(2) ? SIZE : 20000);
    n = n < SIZE - from ? n : SIZE - from;
    struct mt_rows r = {.dst = shadow_pick(SIZE - n + 1), .src = from, .width = n, .height = 1};
    switch (shadow_pick(6)) {
    case 0:
    case 1:
        shadow_fill(w, BASE + from, n, entry);
        for (uint64_t i = 0; i < n; i++)
            plain[from + i] = entry;
        break;
    case 2:
        r = some_rows(shadow_pick(2) != 0, 0);
        fill_rows(w, &r, entry);
        break;
    case 3:
        r = some_rows(shadow_pick(2) != 0, 1);
        shadow_copy(w, &r, entry);
        break;
    default:
        if (n)
            shadow_copy(w, &r, shadow_pick(2) ? 0 : MT_ENTRY_HOST | 3);
    }
}

static void against_array(unsigned n)
{
    for (int round = 0; round < 40; round++) {
        struct world w = {.n = n};
        memset(plain, 0, sizeof plain);
        for (unsigned i = 0; i < n; i++) {
            w.part[i] = &w.shadow[i];
            assert_int_equal(mt_shadow_init(&w.shadow[i], 0), 0);
        }
        for (int step = 0; step < 12; step++) {
            one_step(&w);
            for (int k = 0; k < 50; k++) { /* some pages are asked for on the way */
                uint64_t at = shadow_pick(SIZE);
                assert_int_equal(shadow_writer(&w, BASE + at), plain[at]);
            }
        }
        for (uint64_t i = 0; i < SIZE; i++)
            if (shadow_writer(&w, BASE + i) != plain[i])
                fail_msg("round %d: byte %llu: %x, not %x", round, (unsigned long long)i,
                         shadow_writer(&w, BASE + i), plain[i]);
        for (unsigned i = 0; i < n; i++)
            mt_shadow_free(&w.shadow[i]);
    }
}

static void shadow_one(void **state)
{
    (void)state;
    against_array(1);
}

static void shadow_three(void **state)
{
    (void)state;
    against_array(PARTS);
}

/* Returns the bytes of the chunks of memory, which are linked by their first words and followed by their
 * sizes. */
static size_t chunks_size(const struct mt_arena *a)
{
    size_t sum = 0, size;
    for (char *chunk = a->chunk, *next; chunk; chunk = next) {
        memcpy(&next, chunk, sizeof next);
        memcpy(&size, chunk + sizeof next, sizeof size);
        sum += size;
    }
    return sum;
}

/* One byte of each page costs no more than a piece, in byte order or not, with starts or without; the same of
 * pages whose other words are written, and the rest of the page is as it was. */
static void shadow_sparse(void **state)
{
    (void)state;
    enum { N = 40000, SLACK = 32 << 20 };
    static const size_t most[2][2] = {{1000, 2200}, {2000, 4600}}; /* by kind of page, and starts */
    for (int dense = 0; dense < 2; dense++)
        for (int starts = 0; starts < 2; starts++) {
            struct mt_shadow s;
            assert_int_equal(mt_shadow_init(&s, starts), 0);
            for (uint64_t i = 0; i < N; i++) {
                uint64_t page = BASE + (i * 7919 % N) * MT_PAGE_BYTES;
                if (dense)
                    mt_shadow_fill(&s, page / 4 * 4 + 400, 8, 5, page / 4 * 4 + 400);
                mt_shadow_fill(&s, page, 1, (uint32_t)(6 + i % 9), page);
            }
            for (uint64_t i = 0; i < N; i++) {
                uint64_t page = BASE + (i * 7919 % N) * MT_PAGE_BYTES;
                struct mt_stretch out[MT_PAGE_BYTES];
                const unsigned in = page & (MT_PAGE_BYTES - 1);
                assert_int_equal(mt_shadow_stretches(&s, page - in, MT_PAGE_BYTES, out), dense ? 5 : 3);
                assert_int_equal(out[0].length, in);
                assert_int_equal(out[1].length, 1);
                assert_int_equal(out[1].entry, 6 + i % 9);
                assert_int_equal(out[1].start, starts ? page : 0);
                assert_int_equal(out[0].entry | out[2].entry, 0);
                if (dense)
                    assert_true(out[3].length == 8 && out[3].entry == 5);
            }
            assert_true(chunks_size(&s.arena) < N * most[dense][starts] + SLACK);
            mt_shadow_free(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shadow_sparse), cmocka_unit_test(shadow_spans),
                                       cmocka_unit_test(shadow_one), cmocka_unit_test(shadow_three)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
