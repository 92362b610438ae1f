/* Accesses of warps from accesses of threads (runtime/cpu/warps.c), on random programs of sequences, branches
 * and loops, in which iterations may have no access at all. A model runs each program thread by thread, as
 * the CPU device does, and once more warp by warp with a mask of active lanes, as a GPU does. Entries have
 * places that rise along the program, or ones that say no order. Whatever the buffers' sizes and the order
 * of threads, each thread must get its own accesses back, in its order; where the buffer holds whole warps,
 * the accesses of warps must be the model's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "warps.h"

enum { THREADS = 96, LONGEST = 4000, SITE_BASE = 1000, SIZE = 4 };

static uint64_t seed;

static uint64_t warps_mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

static uint64_t warps_draw(uint64_t below)
{
    return warps_mix(++seed) % below;
}

/* ---- programs ---- */

enum kind { ACCESS, WAIT, BRANCH, LOOP };
struct node {
    enum kind kind;
    uint32_t site, how; /* how: of addresses, conditions, counts */
    uint64_t at, step;  /* place in an iteration of the loop around it; how far an iteration's are apart */
    struct node *body, *other, *next;
};
static struct node nodes[64];
static unsigned used;
static uint32_t sites;

/* depth: of branches and loops that may still be opened; waits are where all threads come. */
static struct node *warps_make(unsigned depth, unsigned length, int waits)
{
    struct node *first = NULL, **to = &first;
    for (; length && used < sizeof nodes / sizeof *nodes; length--) {
        struct node *n = &nodes[used++];
        uint64_t what = warps_draw(8);
        *n = (struct node){.kind = what >= 6 && depth   ? LOOP
                                   : what >= 4 && depth ? BRANCH
                                   : what == 3 && waits ? WAIT
                                                        : ACCESS,
                           .how = (uint32_t)warps_draw(1000)};
        if (n->kind == ACCESS) {
            n->site = sites++;
        } else if (n->kind == LOOP) {
            n->body = warps_make(depth - 1, 1 + (unsigned)warps_draw(4), 0);
        } else if (n->kind == BRANCH) {
            n->body = warps_make(depth - 1, 1 + (unsigned)warps_draw(3), 0);
            if (n->how % 2)
                n->other = warps_make(depth - 1, 1 + (unsigned)warps_draw(3), 0);
        }
        *to = n;
        to = &n->next;
    }
    return first;
}

enum { ITERATIONS = 5 };

/* Gives nodes their places, from `at` on. Returns what comes after them. */
static uint64_t warps_lay(struct node *n, uint64_t at)
{
    for (; n; n = n->next) {
        n->at = at;
        if (n->kind == LOOP) {
            n->step = warps_lay(n->body, 0);
            at += n->step * ITERATIONS;
        } else {
            at = n->kind == BRANCH ? warps_lay(n->other, warps_lay(n->body, at)) : at + 1;
        }
    }
    return at;
}

static int places_tell_order;
static uint64_t place_of(uint64_t place)
{
    return (places_tell_order ? place : warps_mix(place)) & ((1ull << 53) - 1);
}

/* A thread's state: what conditions and counts hang on. */
struct thread {
    uint32_t number, steps;
};

static uint64_t address_of(const struct node *n, const struct thread *t)
{
    switch (n->how % 3) {
    case 0:
        return 0x10000 + t->number * 4ull + n->how * 4096ull;
    case 1:
        return 0x10000 + n->how; /* all the same */
    default:
        return warps_mix(n->how * 1000003ull + t->number * 7919ull + t->steps);
    }
}

static uint32_t meta_of(const struct node *n, const struct thread *t)
{
    return n->how % 7 == 0 && t->number % 5 == 0 ? SIZE + 1 : SIZE; /* a block copy of another length */
}

static int warps_condition(const struct node *n, struct thread *t)
{
    return warps_mix(n->how * 31ull + t->number * 17ull + t->steps++) % 3 != 0;
}

static unsigned count_of(const struct node *n, struct thread *t)
{
    return n->how % 4 == 0 ? 3 : (unsigned)(warps_mix(n->how + t->number * 13ull + t->steps++) % 5);
}

/* ---- thread by thread ---- */

struct access {
    uint64_t address, what; /* what: site << 32 | meta; 0: a wait */
    uint64_t place;
};
struct sequence {
    struct access a[LONGEST];
    size_t n, at;
};
static struct sequence expected[THREADS];

static void run_thread(const struct node *n, struct thread *t, struct sequence *s, uint64_t base)
{
    for (; n; n = n->next) {
        assert_true(s->n < LONGEST);
        switch (n->kind) {
        case ACCESS:
            s->a[s->n++] = (struct access){address_of(n, t), (uint64_t)n->site << 32 | meta_of(n, t),
                                           place_of(base + n->at)};
            t->steps++;
            break;
        case WAIT:
            s->a[s->n++] = (struct access){0, 0, 0};
            break;
        case BRANCH:
            run_thread(warps_condition(n, t) ? n->body : n->other, t, s, base);
            break;
        case LOOP:
            for (unsigned i = 0, k = count_of(n, t); i < k; i++)
                run_thread(n->body, t, s, base + n->at + i * n->step);
        }
    }
}

/* ---- warp by warp ---- */

struct row {
    uint32_t warp, mask, site;
};
static struct row rows[200000];
static size_t nrows;

static void run_warp(const struct node *n, struct thread *t, uint32_t mask)
{
    for (; n && mask; n = n->next) {
        uint32_t taken = 0;
        unsigned count[32];
        switch (n->kind) {
        case ACCESS: /* lanes of another length apart: one access has one size */
            for (uint32_t size = SIZE; size <= SIZE + 1; size++) {
                uint32_t these = 0;
                for (unsigned l = 0; l < 32; l++)
                    these |= mask >> l & 1 && meta_of(n, &t[l]) == size ? 1u << l : 0;
                if (these)
                    rows[nrows++] = (struct row){t[0].number / 32, these, n->site};
            }
            for (unsigned l = 0; l < 32; l++)
                t[l].steps += mask >> l & 1;
            break;
        case WAIT:
            break;
        case BRANCH:
            for (unsigned l = 0; l < 32; l++)
                taken |= mask >> l & 1 && warps_condition(n, &t[l]) ? 1u << l : 0;
            run_warp(n->body, t, taken);
            run_warp(n->other, t, mask & ~taken);
            break;
        case LOOP:
            for (unsigned l = 0; l < 32; l++)
                count[l] = mask >> l & 1 ? count_of(n, &t[l]) : 0;
            for (unsigned i = 0;; i++) {
                uint32_t still = 0;
                for (unsigned l = 0; l < 32; l++)
                    still |= i < count[l] ? 1u << l : 0;
                if (!still)
                    break;
                run_warp(n->body, t, still);
            }
        }
    }
}

/* ---- the buffer ---- */

static uint64_t *entries;
static size_t nentries, room;

static void warps_put(uint64_t a, uint64_t b, uint64_t c)
{
    if (nentries == room) {
        room = room ? 2 * room : 4096;
        entries = realloc(entries, room * MT_ENTRY_WORDS * sizeof *entries);
        assert_non_null(entries);
    }
    uint64_t *e = entries + nentries++ * MT_ENTRY_WORDS;
    e[0] = a;
    e[1] = b;
    e[2] = c;
}

/* The accesses of a thread up to its next wait. 0: it has ended. */
static int put_thread(uint32_t t, struct sequence *s)
{
    for (; s->at < s->n; s->at++) {
        if (!s->a[s->at].what) {
            s->at++;
            return 1;
        }
        warps_put(s->a[s->at].what, s->a[s->at].address, s->a[s->at].place << MT_ENTRY_PLACE_AT | t);
    }
    return 0;
}

/* ---- what comes out ---- */

static struct sequence got[THREADS];
static uint64_t cta_now, came;
static struct row out[200000];
static size_t nout;

static void warps_take(void *ctx, const struct mt_access_run *runs, size_t count, uint64_t accesses)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_access_run *r = &runs[i];
        uint32_t k = 0;
        assert_int_equal(r->count, __builtin_popcount(r->mask));
        assert_int_equal(r->cta, cta_now);
        assert_int_equal(r->smid, cta_now + 1);
        assert_true(!r->addresses || r->base == r->addresses[0]);
        for (uint32_t m = r->mask; m; m &= m - 1, k++) {
            struct sequence *s = &got[r->warp * 32 + (uint32_t)__builtin_ctz(m)];
            uint64_t a = r->addresses ? r->addresses[k] : r->base + k * (uint64_t)r->stride;
            s->a[s->n++] = (struct access){a, (uint64_t)(r->site - SITE_BASE) << 32 | r->meta, 0};
        }
        out[nout++] = (struct row){r->warp, r->mask, r->site - SITE_BASE};
        sum += r->count;
    }
    assert_int_equal(sum, accesses);
    assert_true(count <= MT_WARPS_RUNS && accesses <= MT_WARPS_ACCESSES);
    came += accesses;
}

static uint64_t warps_feed(struct mt_warps *w, size_t window)
{
    uint64_t total = 0, accesses;
    for (size_t at = 0; at < nentries;) {
        size_t n = nentries - at < window ? nentries - at : window;
        size_t used = mt_warps_put(w, entries + at * MT_ENTRY_WORDS, n, 0, &accesses);
        assert_true(used <= n);
        total += accesses;
        at += used;
        if (used)
            continue;
        /* One warp fills the window: the window is all there is, or it is the end. */
        used = mt_warps_put(w, entries + at * MT_ENTRY_WORDS, n, 1, &accesses);
        assert_int_equal(used, n);
        total += accesses;
        at += used;
    }
    mt_warps_flush(w);
    return total;
}

static void check_threads(uint32_t nthreads)
{
    for (uint32_t t = 0; t < nthreads; t++) {
        size_t k = 0;
        for (size_t i = 0; i < expected[t].n; i++) {
            const struct access *a = &expected[t].a[i];
            if (!a->what)
                continue;
            assert_true(k < got[t].n);
            assert_int_equal(got[t].a[k].what, a->what);
            assert_int_equal(got[t].a[k].address, a->address);
            k++;
        }
        assert_int_equal(got[t].n, k);
    }
}

enum order { THREAD_AFTER_THREAD, FIBERS, ANY, UNEVEN /* any, and it says so */ };

/* The lanes of a warp that have more to do. */
static uint64_t lanes_after(uint32_t first, uint32_t nthreads)
{
    uint64_t lanes = 0;
    for (uint32_t t = first; t < nthreads && t < first + 32; t++)
        lanes |= (uint64_t)(expected[t].at < expected[t].n) << t % 32;
    return lanes;
}

/* One CTA of the program: its entries, in this order of threads. */
static uint64_t warps_fill(const struct node *program, uint32_t nthreads, enum order order)
{
    uint64_t total = 0;
    nentries = 0;
    warps_put(cta_now + 1, cta_now, MT_ENTRY_MARK);
    for (uint32_t t = 0; t < nthreads; t++) {
        struct thread state = {.number = t};
        memset(&expected[t], 0, offsetof(struct sequence, a));
        expected[t].n = expected[t].at = got[t].n = 0;
        run_thread(program, &state, &expected[t], 0);
        for (size_t i = 0; i < expected[t].n; i++)
            total += expected[t].a[i].what != 0;
    }
    if (order == UNEVEN) { /* the first warp's first thread may come before that is said */
        if (expected[0].n && expected[0].a[0].what)
            warps_put(expected[0].a[0].what, expected[0].a[0].address,
                      expected[0].a[0].place << MT_ENTRY_PLACE_AT);
        expected[0].at = nentries > 1;
        for (uint32_t first = 0; first < nthreads; first += 32)
            warps_put(lanes_after(first, nthreads), first / 32, MT_ENTRY_LANES);
    }
    if (order == ANY || order == UNEVEN) {
        for (uint64_t left = total - expected[0].at; left;) {
            uint32_t t = (uint32_t)warps_draw(nthreads);
            size_t before = nentries;
            for (uint64_t k = 1 + warps_draw(9); k && expected[t].at < expected[t].n; k--) {
                const struct access *a = &expected[t].a[expected[t].at++];
                if (a->what)
                    warps_put(a->what, a->address, a->place << MT_ENTRY_PLACE_AT | t);
            }
            left -= nentries - before;
            if (order == UNEVEN && nentries > before && expected[t].at == expected[t].n)
                warps_put(lanes_after(t / 32 * 32, nthreads), t / 32, MT_ENTRY_LANES);
        }
        return total;
    }
    for (int more = 1; more;) {
        more = 0;
        for (uint32_t t = 0; t < nthreads; t++)
            do
                more |= put_thread(t, &expected[t]);
            while (order == THREAD_AFTER_THREAD && expected[t].at < expected[t].n);
    }
    return total;
}

static int row_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct row));
}

static void check_rows(const struct node *program, uint32_t nthreads, int in_order)
{
    nrows = 0;
    for (uint32_t first = 0; first < nthreads; first += 32) {
        struct thread t[32];
        for (uint32_t l = 0; l < 32; l++)
            t[l] = (struct thread){.number = first + l};
        run_warp(program, t, nthreads - first < 32 ? (1u << (nthreads - first)) - 1 : ~0u);
    }
    assert_int_equal(nout, nrows);
    if (!places_tell_order || !in_order) {
        qsort(out, nrows, sizeof *out, row_order);
        qsort(rows, nrows, sizeof *rows, row_order);
    }
    for (size_t i = 0; i < nrows; i++)
        assert_memory_equal(&out[i], &rows[i], sizeof out[i]);
}

static void warps_programs(enum order order, int exact)
{
    struct mt_warps *w = mt_warps_new();
    assert_non_null(w);
    for (unsigned round = 0; round < 3000; round++) {
        seed = round * 1000003ull + (unsigned)order * 17;
        used = sites = 0;
        struct node *program = warps_make(4, 1 + (unsigned)warps_draw(5), order == FIBERS);
        warps_lay(program, 1);
        uint32_t nthreads = 1 + (uint32_t)warps_draw(THREADS);
        cta_now = round;
        uint64_t total = warps_fill(program, nthreads, order);
        size_t window = exact && order != UNEVEN ? nentries + 1 : 1 + warps_draw(nentries + 40);
        if (order == UNEVEN && window < 3)
            window = 3; /* what is said of the first entry is there with it */
        came = nout = 0;
        mt_warps_open(w, SITE_BASE, warps_take, NULL);
        assert_int_equal(warps_feed(w, window), total);
        assert_int_equal(came, total);
        check_threads(nthreads);
        if (exact)
            check_rows(program, nthreads, order != UNEVEN);
    }
    mt_warps_free(w);
}

static void as_a_warp_runs_them(void **state)
{
    for (places_tell_order = 0; places_tell_order < 2; places_tell_order++)
        warps_programs(THREAD_AFTER_THREAD, 1);
}

static void in_whatever_order_they_come(void **state)
{
    for (places_tell_order = 0; places_tell_order < 2; places_tell_order++)
        warps_programs(UNEVEN, 1);
}

static void each_thread_keeps_its_order(void **state)
{
    for (places_tell_order = 0; places_tell_order < 2; places_tell_order++) {
        warps_programs(THREAD_AFTER_THREAD, 0);
        warps_programs(FIBERS, 0);
        warps_programs(ANY, 0);
        warps_programs(UNEVEN, 0);
    }
}

/* Between two waits, threads of a CTA come one after the other: nothing is split. */
static void waits_split_nothing(void **state)
{
    struct mt_warps *w = mt_warps_new();
    uint64_t accesses;
    nentries = 0;
    cta_now = 7;
    warps_put(8, 7, MT_ENTRY_MARK);
    for (unsigned round = 0; round < 10; round++)
        for (uint32_t t = 0; t < 64; t++) {
            got[t].n = 0;
            for (uint64_t k = 0; k < 3; k++)
                warps_put(k << 32 | SIZE, 4096 * k + 4 * t, t);
        }
    came = nout = 0;
    mt_warps_open(w, SITE_BASE, warps_take, NULL);
    assert_int_equal(mt_warps_put(w, entries, nentries, 1, &accesses), nentries);
    mt_warps_flush(w);
    assert_int_equal(accesses, 10 * 64 * 3);
    assert_int_equal(nout, 10 * 2 * 3);
    for (size_t i = 0; i < nout; i++)
        assert_int_equal(out[i].mask, ~0u);
    mt_warps_free(w);
}

/* The warp that was last at work is held back, and no other; a mark ends it. */
static void what_is_held_back(void **state)
{
    struct mt_warps *w = mt_warps_new();
    uint64_t accesses;
    nentries = 0;
    cta_now = 0;
    warps_put(1, 0, MT_ENTRY_MARK);
    for (uint32_t t = 0; t < 40; t++)
        warps_put(SIZE, 4 * t, t);
    mt_warps_open(w, SITE_BASE, warps_take, NULL);
    assert_int_equal(mt_warps_put(w, entries, nentries, 0, &accesses), 33);
    assert_int_equal(accesses, 32);
    warps_put(2, 1, MT_ENTRY_MARK);
    for (uint32_t t = 0; t < 64; t++)
        got[t].n = 0;
    assert_int_equal(mt_warps_put(w, entries + 33 * MT_ENTRY_WORDS, nentries - 33, 0, &accesses), 9);
    assert_int_equal(accesses, 8);
    mt_warps_flush(w);
    mt_warps_free(w);
}

/* Where places say no order, what has happened first comes first: another lane may have read it. */
static void as_it_happened(void **state)
{
    struct mt_warps *w = mt_warps_new();
    uint64_t accesses;
    nentries = 0;
    cta_now = 0;
    warps_put(1, 0, MT_ENTRY_MARK);
    warps_put(3, 0, MT_ENTRY_LANES);
    for (uint64_t k = 0; k < 20; k++) /* the sites in order, at places that fall and rise */
        warps_put(k << 32 | SIZE, 4 * k, (100 - 30 * (k % 3)) << MT_ENTRY_PLACE_AT | k / 2 % 2);
    got[0].n = got[1].n = came = nout = 0;
    mt_warps_open(w, SITE_BASE, warps_take, NULL);
    assert_int_equal(mt_warps_put(w, entries, nentries, 0, &accesses), nentries);
    mt_warps_flush(w);
    assert_int_equal(nout, 20);
    for (uint32_t k = 0; k < 20; k++)
        assert_int_equal(out[k].site, k);
    mt_warps_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_a_warp_runs_them),         cmocka_unit_test(in_whatever_order_they_come),
        cmocka_unit_test(each_thread_keeps_its_order), cmocka_unit_test(waits_split_nothing),
        cmocka_unit_test(what_is_held_back),           cmocka_unit_test(as_it_happened),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(entries);
    return failed;
}
