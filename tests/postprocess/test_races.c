/* Races of random programs (analysis/onchip: suspects.h, hazards.h): the words that have one are those of
 * which two events conflict and no path of edges leads from one to the other. The edges are drawn one by one,
 * after the rules of PTX's memory model as docs/check.md has them; there are no clocks here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "analysis/onchip/hazards.h"
#include "analysis/onchip/suspects.h"

enum {
    EVENTS = 192,
    CTAS = 3,
    WARPS = 2,
    LANES = 32,
    THREADS = CTAS * WARPS * LANES,
    ACTIVE = 3, /* lanes of a warp that do something of their own */
    DATA = 40,
    WORDS = DATA + 3, /* the last ones are for synchronisation */
    SETS = EVENTS / 64 + 1,
    PROGRAMS = 20000,
    KINDS = 64 /* sites of a word */
};
static const uint64_t memory = 0x7f0000000000;
static uint64_t seed;
static unsigned few,
    wholes; /* of the program: how few plain accesses it has; whether whole warps make some */
static int strict;

static unsigned races_below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

/* ---- events ---- */

enum what { LOAD, STORE, UPDATE, STRONG_LOAD, STRONG_STORE, FENCE, BARRIER, LANES_MEET };

struct event {
    enum what what;
    unsigned thread, word, byte, size;
    int wide, releases, acquires, whole; /* whole: of all lanes of the warp, lane i at word + i */
    int number;                          /* of the run: events of one are not ordered and no race */
};

static struct event events[EVENTS];
static uint64_t before[EVENTS][SETS], near[EVENTS][SETS], seen[EVENTS][SETS]; /* seen: by what was read */
static unsigned count;

/* Strict: what a thread was told by reads, and waits for its next fence; far: one of all CTAs. */
static struct {
    uint64_t before[SETS], near[SETS], far[SETS];
} told[THREADS];

static int is_in(uint64_t set[SETS], unsigned i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void races_unite(uint64_t to[SETS], const uint64_t from[SETS])
{
    for (unsigned i = 0; i < SETS; i++)
        to[i] |= from[i];
}

static void races_join(uint64_t to[SETS], const uint64_t from[SETS], unsigned own)
{
    races_unite(to, from);
    to[own / 64] |= 1ull << (own % 64);
}

static unsigned cta_of(unsigned thread)
{
    return thread / (WARPS * LANES);
}

static int is_strong(enum what w)
{
    return w == UPDATE || w == STRONG_LOAD || w == STRONG_STORE;
}

static int is_write(enum what w)
{
    return w == STORE || w == UPDATE || w == STRONG_STORE;
}

/* Whether both are atomics to each other. */
static int morally_strong(const struct event *a, const struct event *b)
{
    return is_strong(a->what) && is_strong(b->what) &&
           (cta_of(a->thread) == cta_of(b->thread) || (a->wide && b->wide));
}

static int is_overlapping(const struct event *a, const struct event *b)
{
    return a->word == b->word && a->byte < b->byte + b->size && b->byte < a->byte + a->size;
}

/* Joins what write `w` releases by itself, or by fences known to its thread (wide: those of all CTAs). */
static void edges_released(unsigned w, int wide, uint64_t to[SETS], uint64_t to_near[SETS])
{
    if (events[w].releases) {
        races_join(to, before[w], w);
        races_join(to_near, near[w], w);
    }
    for (unsigned f = 0; f < w; f++)
        if (events[f].what == FENCE && (!wide || events[f].wide) && is_in(near[w], f) &&
            cta_of(events[f].thread) == cta_of(events[w].thread)) {
            races_join(to, before[f], f);
            races_join(to_near, near[f], f);
        }
}

/* Draws the edges to event `e` from an earlier strong write of its word. */
static void edges_of_words(unsigned e)
{
    uint64_t none[SETS] = {0};
    const struct event *to = &events[e];
    if (to->what != UPDATE && to->what != STRONG_LOAD)
        return;
    for (unsigned w = 0; w < e; w++) {
        const struct event *from = &events[w];
        if (!is_strong(from->what) || from->word != to->word)
            continue;
        if (!is_write(from->what))
            continue;
        if (to->what == UPDATE && morally_strong(from, to))
            races_join(seen[e], seen[w], w);
        int now = !strict || to->acquires, t = (int)to->thread;
        if (cta_of(from->thread) == cta_of(to->thread)) {
            if (strict) {
                edges_released(w, 0, now ? before[e] : told[t].before, now ? near[e] : told[t].near);
            } else {
                races_join(before[e], before[w], w);
                races_join(near[e], near[w], w);
            }
        }
        if (from->wide && to->wide)
            edges_released(w, 1, now ? before[e] : told[t].far, none);
    }
}

/* Draws the edges to a fence from what its thread was told. */
static void edges_of_fence(unsigned e)
{
    unsigned t = events[e].thread;
    races_unite(before[e], told[t].before);
    races_unite(near[e], told[t].near);
    if (events[e].wide)
        races_unite(before[e], told[t].far);
}

/* ---- a program ---- */

static unsigned last[THREADS]; /* each thread's latest event + 1 */
static int arrived[CTAS][WARPS];
static unsigned runs;

static void races_edge(unsigned from, unsigned to)
{
    races_join(before[to], before[from], from);
    races_join(near[to], near[from], from);
}

static unsigned event_add(struct event x)
{
    unsigned e = count++;
    events[e] = x;
    memset(before[e], 0, sizeof before[e]);
    memset(near[e], 0, sizeof near[e]);
    memset(seen[e], 0, sizeof seen[e]);
    if (last[x.thread])
        races_edge(last[x.thread] - 1, e);
    edges_of_words(e);
    if (x.what == FENCE)
        edges_of_fence(e);
    return e;
}

static struct mt_access_run run_of(const struct event *x, uint32_t type, uint32_t size, uint32_t mask)
{
    unsigned in_cta = x->thread % (WARPS * LANES);
    return (struct mt_access_run){.base = memory + x->word * 4 + x->byte,
                                  .stride = x->whole ? 4 : 0,
                                  .cta = (uint64_t)cta_of(x->thread) << 32,
                                  .warp = in_cta / LANES,
                                  .meta = type << 28 | size,
                                  .count = (uint32_t)__builtin_popcount(mask),
                                  .mask = mask};
}

static uint8_t site_strong[WORDS * KINDS + 1];

static struct mt_access_run access_add(struct event x)
{
    static const uint32_t types[] = {MT_LOAD, MT_STORE, MT_ATOMIC, MT_LOAD, MT_STORE};
    uint32_t lane = x.thread % LANES,
             kind = x.what << 3 | (unsigned)x.acquires << 2 | (unsigned)x.wide << 1 | (unsigned)x.releases;
    struct mt_access_run r = run_of(&x, types[x.what], x.size, x.whole ? UINT32_MAX : 1u << lane);
    unsigned order = x.releases   ? x.acquires ? MT_ORDER_ACQ_REL : MT_ORDER_RELEASE
                     : x.acquires ? MT_ORDER_ACQUIRE
                                  : MT_ORDER_RELAXED,
             scope = x.wide ? MT_SCOPE_GPU : MT_SCOPE_CTA;
    r.site = 1 + x.word * KINDS + kind; /* of a whole warp: of its first word */
    site_strong[r.site] = is_strong(x.what) ? (uint8_t)((x.what != UPDATE) | scope << 2 | order << 5) : 0;
    x.number = (int)++runs;
    for (unsigned i = 0; i < (x.whole ? LANES : 1u); i++) {
        struct event y = x;
        y.thread += i;
        y.word += i;
        last[y.thread] = event_add(y) + 1;
    }
    return r;
}

/* Lets the threads that have met go on: all come after what all have done. */
static void races_meet(unsigned first, unsigned n, enum what what)
{
    unsigned e = count++;
    events[e] = (struct event){.what = what, .thread = first, .word = WORDS};
    memset(before[e], 0, sizeof before[e]);
    memset(near[e], 0, sizeof near[e]);
    memset(seen[e], 0, sizeof seen[e]);
    for (unsigned t = first; t < first + n; t++)
        if (last[t])
            races_edge(last[t] - 1, e);
    for (unsigned t = first; t < first + n; t++)
        last[t] = e + 1;
}

static struct mt_access_run sync_add(unsigned cta, unsigned warp, enum what what)
{
    unsigned first = (cta * WARPS + warp) * LANES;
    struct event x = {.thread = first, .what = what};
    struct mt_access_run r = run_of(&x, what == BARRIER ? MT_SYNC_BARRIER : MT_SYNC_WARP,
                                    what == BARRIER ? MT_SYNC_OF_NUMBER : MT_SYNC_OF_LANES, UINT32_MAX);
    r.base = what == BARRIER ? 0 : UINT32_MAX;
    if (what == LANES_MEET) {
        races_meet(first, LANES, what);
        return r;
    }
    int all = arrived[cta][warp] = 1;
    for (unsigned w = 0; w < WARPS; w++)
        all &= arrived[cta][w];
    if (all) {
        races_meet(cta * WARPS * LANES, WARPS * LANES, what);
        memset(arrived[cta], 0, sizeof arrived[cta]);
    }
    return r;
}

static struct mt_access_run fence_add(unsigned thread)
{
    struct event x = {.what = FENCE, .thread = thread, .wide = races_below(3) != 0};
    struct mt_access_run r = run_of(&x, MT_SYNC_ARRIVE, MT_SYNC_OF_NUMBER, 1u << thread % LANES);
    r.base = MT_BARRIER_FENCE + (x.wide ? MT_SCOPE_GPU : MT_SCOPE_CTA);
    x.word = WORDS;
    last[thread] = event_add(x) + 1;
    return r;
}

/* One step of one warp that does not wait. Returns 0 if it waits, or there is no room. */
static int races_step(struct mt_access_run *r)
{
    unsigned cta = races_below(CTAS), warp = races_below(WARPS), first = (cta * WARPS + warp) * LANES;
    unsigned thread = first + races_below(ACTIVE), way = races_below(100);
    if (arrived[cta][warp] || count + LANES > EVENTS)
        return 0;
    if (way < 8)
        *r = sync_add(cta, warp, BARRIER);
    else if (way < 14)
        *r = sync_add(cta, warp, LANES_MEET);
    else if (way < 30)
        *r = fence_add(thread);
    else if (way < 34 && wholes)
        *r = access_add((struct event){.what = races_below(2) ? LOAD : STORE,
                                       .thread = first,
                                       .word = races_below(4),
                                       .size = 4,
                                       .whole = 1});
    else if (way < 60 + few)
        *r = access_add((struct event){.what = (enum what)(UPDATE + races_below(3)),
                                       .thread = thread,
                                       .word = DATA + races_below(WORDS - DATA),
                                       .size = 4,
                                       .wide = races_below(5) != 0,
                                       .releases = races_below(4) == 0,
                                       .acquires = races_below(4) == 0});
    else {
        enum what what = (enum what)races_below(way < 66 + few ? 3 : 2);
        int part = what != UPDATE &&
                   races_below(8) == 0; /* PTX: atomics of different sizes are none to each other */
        *r = access_add((struct event){.what = what,
                                       .thread = thread,
                                       .word = races_below(6),
                                       .byte = part ? races_below(4) : 0,
                                       .size = part ? 1 : 4,
                                       .wide = 1});
    }
    return 1;
}

/* ---- what should be found, and what is ---- */

static int is_race(unsigned a, unsigned b)
{
    const struct event *x = &events[a], *y = &events[b];
    if (x->word >= WORDS || !is_overlapping(x, y) || x->thread == y->thread || x->number == y->number ||
        is_in(before[b], a))
        return 0;
    for (unsigned f = a + 1; f < b; f++) /* an atomic that saw it comes before */
        if (is_in(seen[f], a) && is_in(before[b], f) && (!strict || x->wide))
            return 0;
    if (is_strong(x->what) && is_strong(y->what))
        return (is_write(x->what) || is_write(y->what)) && !morally_strong(x, y);
    if (strict && (x->what == LOAD || y->what == LOAD) && (is_write(x->what) || is_write(y->what)))
        return 1; /* a load beside an atomic, too */
    return x->what == STORE || y->what == STORE;
}

/* Returns 1 if two threads, one with a plain store, have the word: it takes an order to make that right. */
static int is_met(const struct event *x, const struct event *y)
{
    return x->word < WORDS && is_overlapping(x, y) && x->thread != y->thread &&
           (x->what == STORE || y->what == STORE);
}

/* Returns the number of words that an order makes right. */
static unsigned races_due(int due[WORDS])
{
    int met[WORDS] = {0};
    unsigned right = 0;
    memset(due, 0, WORDS * sizeof *due);
    for (unsigned b = 0; b < count; b++)
        for (unsigned a = 0; a < b; a++) {
            if (is_met(&events[a], &events[b]))
                met[events[b].word] = 1;
            if (events[b].word < WORDS && is_race(a, b))
                due[events[b].word] = 1;
        }
    for (unsigned i = 0; i < WORDS; i++)
        right += met[i] && !due[i];
    return right;
}

static void races_found(int found[WORDS], const struct mt_access_run *list, size_t n, int filter)
{
    struct mt_suspects suspects = {.strict = strict};
    struct mt_hazards hazards = {
        .words = 1, .strict = strict, .most_views = filter ? 0 : 1}; /* 1: moved at each run */
    static uint32_t lines[WORDS * KINDS + 1];
    struct mt_site_table sites = {.line = lines, .strong = site_strong, .count = WORDS * KINDS + 1};
    struct mt_launch_event launch = {.grid = {CTAS, 1, 1}, .block = {WARPS * LANES, 1, 1}, .barriers = 1};
    struct mt_run_launch l = {.kernel = "k", .event = &launch};
    for (uint32_t i = 0; i <= WORDS * KINDS; i++)
        lines[i] = i;
    memset(found, 0, WORDS * sizeof *found);
    suspects.sites = hazards.sites = &sites;
    assert_int_equal(mt_suspects_analysis.launch(&suspects, &l), 0);
    assert_int_equal(mt_suspects_analysis.runs(&suspects, list, n), 0);
    hazards.suspects = filter ? &suspects : NULL;
    assert_int_equal(mt_hazards_analysis.launch(&hazards, &l), 0);
    for (size_t i = 0; i < n; i++) /* each address has its own run, so that a hazard tells its word */
        assert_int_equal(mt_hazards_analysis.runs(&hazards, &list[i], 1), 0);
    for (size_t i = 0; i < hazards.count; i++)
        found[(hazards.list[i].address - memory) / 4] = 1;
    assert_int_equal(hazards.unjudged + hazards.parted, 0);
    mt_hazards_analysis.free(&hazards);
    mt_suspects_analysis.free(&suspects);
}

/* Accesses larger than any instruction's, of a damaged trace, are counted and cost nothing. */
static void races_of_any_size(void **state)
{
    struct mt_suspects suspects = {0};
    struct mt_launch_event launch = {.grid = {CTAS, 1, 1}, .block = {LANES, 1, 1}, .library = ""};
    struct mt_run_launch l = {.kernel = "k", .event = &launch};
    assert_int_equal(mt_suspects_analysis.launch(&suspects, &l), 0);
    for (uint64_t i = 0; i < 100000; i++) {
        struct mt_access_run r = {.base = memory,
                                  .cta = (i & 1) << 32,
                                  .meta = MT_STORE << 28 | MT_RAW_MAX_SIZE,
                                  .count = 1,
                                  .mask = 1};
        assert_int_equal(mt_suspects_analysis.runs(&suspects, &r, 1), 0);
    }
    assert_int_equal(suspects.unseen, 100000);
    mt_suspects_analysis.free(&suspects);
    (void)state;
}

/* Sites of whole warps stand for several words: only whether any word races is compared for these. */
static int whole_words(int *of)
{
    int any = 0;
    for (unsigned i = 0; i < WORDS; i++)
        any |= of[i];
    return any;
}

/* Of words with accesses of narrow scope a race may be missed; nothing else, and none is made up. */
static int races_differ(const int due[WORDS], const int found[WORDS])
{
    int narrow[WORDS + 1] = {0}, differ = 0;
    for (unsigned e = 0; e < count; e++)
        narrow[events[e].word] |= is_strong(events[e].what) && !events[e].wide;
    for (unsigned i = 0; i < WORDS; i++)
        differ |= due[i] != found[i] && (found[i] || !narrow[i]);
    return differ;
}

static void races_program(uint64_t number, unsigned *racy, unsigned *right)
{
    static struct mt_access_run list[EVENTS];
    int due[WORDS], found[WORDS], all[WORDS];
    size_t n = 0;
    unsigned most = 40 + (unsigned)(number % 100);
    seed = 88172645463325252ull ^ number * 0x9e3779b97f4a7c15u;
    few = races_below(32);
    wholes = races_below(4) == 0;
    count = runs = 0;
    memset(last, 0, sizeof last);
    memset(arrived, 0, sizeof arrived);
    memset(told, 0, sizeof told);
    for (unsigned tries = 0; tries < most && n < EVENTS; tries++)
        n += (size_t)races_step(&list[n]);
    *right += races_due(due);
    races_found(found, list, n, 1);
    races_found(all, list, n, 0);
    assert_memory_equal(found, all, sizeof found); /* the first pass drops nothing */
    int whole = 0;
    for (unsigned e = 0; e < count; e++)
        whole |= events[e].whole;
    if (whole ? whole_words(due) != whole_words(found) : races_differ(due, found)) {
        for (unsigned i = 0; i < WORDS; i++)
            if (due[i] != found[i])
                print_message("program %llu: word %u: due %d, found %d\n", (unsigned long long)number, i,
                              due[i], found[i]);
        for (unsigned e = 0; e < count; e++)
            print_message("  %u: thread %u what %d word %u+%u size %u wide %d releases %d acquires %d\n", e,
                          events[e].thread, events[e].what, events[e].word, events[e].byte, events[e].size,
                          events[e].wide, events[e].releases, events[e].acquires);
        fail();
    }
    for (unsigned i = 0; i < WORDS; i++)
        *racy += (unsigned)due[i];
}

static void races_of_programs(void **state)
{
    unsigned racy = 0, right = 0;
    strict = *state != NULL;
    for (uint64_t i = 1; i <= (strict ? PROGRAMS / 2 : PROGRAMS); i++)
        races_program(i, &racy, &right);
    print_message("%u words with races, %u that an order makes right\n", racy, right);
    assert_true(racy > PROGRAMS && right > PROGRAMS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(races_of_any_size),
                                       cmocka_unit_test(races_of_programs),
                                       cmocka_unit_test_prestate(races_of_programs, &strict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
