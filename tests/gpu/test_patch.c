/* The patches' own source (runtime/gpu/patch), run by host threads as the lanes of warps, into rings that the
 * real reader empties; and a model that is told what was called, and counts apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include "gpu/rings.h"
#include "host_warp.h"
#include "patch_calls.h"
#include "format/cta_rule.h"

#define LANES 8u
#define CTAS 2u
#define RINGS 2u
#define CONTEXTS 4u
#define SLOTS 32u
#define QUEUE 4096u
#define CODE 0x7f0000100000ull

_Thread_local struct host_thread host_thread;

/* What a record must be. */
struct expected {
    uint32_t meta, site;
    uint64_t address;
};
/* Of a context, a CTA and a lane, in order. */
static struct queue {
    struct expected is[QUEUE];
    unsigned put, got;
} queues[CONTEXTS][CTAS][32];
/* The same, as it came, where polls are counted: not all of it must come. */
static struct queue came[CONTEXTS][CTAS][32];
static int polls;          /* data says that polls are counted */
static unsigned cta_scale; /* distance of the CTAs' numbers */
/* Of a context: what it must have counted by now, and when each of its launches ended. */
static struct counts {
    unsigned long records, untraced;
} made[CONTEXTS], at_end[CONTEXTS][QUEUE];
static unsigned ends_must[CONTEXTS], ends[CONTEXTS];
static unsigned long records, wrong;

static struct {
    struct mt_slot slots[RINGS][SLOTS];
    uint64_t tail[RINGS][8];
    _Alignas(128) struct mt_gpu_ring ring[RINGS];
    _Alignas(256) struct mt_gpu_context context[CONTEXTS];
    struct mt_ring reader[RINGS];
    struct mt_poll polls[MT_POLLS];
} rig;

/* ---- the reader ---------------------------------------------------------------------------------- */

static unsigned patch_cta(const struct mt_packet *p)
{
    return (unsigned)(p->cta >> 32) / cta_scale;
}

static void compare(const struct mt_packet *p, unsigned lane, uint32_t meta, uint64_t address)
{
    struct queue *q = &queues[p->context][patch_cta(p)][lane], *c = &came[p->context][patch_cta(p)][lane];
    const struct expected *e = &q->is[q->got % QUEUE];
    records++;
    if (polls) {
        c->is[c->put++ % QUEUE] = (struct expected){meta, p->site, address};
        return;
    }
    int same = q->got < __atomic_load_n(&q->put, __ATOMIC_ACQUIRE) && e->site == p->site && e->meta == meta &&
               e->address == address;
    if (!same && !wrong++)
        fprintf(stderr, "context %u CTA %u lane %u, %u of %u: %x %llx site %x, must be %x %llx site %x\n",
                p->context, patch_cta(p), lane, q->got, q->put, meta, (unsigned long long)address, p->site,
                e->meta, (unsigned long long)e->address, e->site);
    q->got++;
}

/* All threads of the launch have ended; what they counted must be there, whatever else runs. */
static void take_end(const struct mt_packet *p)
{
    unsigned c = p->context, n = ends[c]++;
    int due = n < __atomic_load_n(&ends_must[c], __ATOMIC_ACQUIRE);
    const struct counts *e = &at_end[c][n % QUEUE];
    if ((!due || p->words[0] + p->words[2] != e->records || p->words[1] != e->untraced ||
         (p->words[2] && !polls)) &&
        !wrong++)
        fprintf(stderr, "context %u, end %u (due %d): %llu records, %llu without, must be %lu, %lu\n", c, n,
                due, (unsigned long long)p->words[0], (unsigned long long)p->words[1], e->records,
                e->untraced);
}

/* Lane by lane, as raw traces do not: lanes are what is compared. */
static void take(const struct mt_packet *p)
{
    unsigned i = 0;
    if (p->kind == MT_PACKET_NOTHING)
        return;
    if (p->context >= CONTEXTS || patch_cta(p) >= CTAS || p->warp != 0 || p->smid != 3) {
        wrong++;
        return;
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(p->mask >> lane & 1))
            continue;
        if (p->kind == MT_PACKET_EXIT)
            take_end(p);
        else if (p->kind == MT_PACKET_BLOCKS)
            compare(p, lane, p->meta | (uint32_t)p->words[2 * i + 1], p->words[2 * i]);
        else
            compare(p, lane, p->meta,
                    p->kind == MT_PACKET_REGULAR ? p->words[0] + i * p->words[1] : p->words[i]);
        i++;
    }
}

static int reading;
static void *read_rings(void *unused)
{
    struct mt_packet p;
    for (int more = 1, last = 0; more || !last;) {
        last = !__atomic_load_n(&reading, __ATOMIC_ACQUIRE); /* before the rings are looked at */
        more = 0;
        for (unsigned r = 0; r < RINGS; r++) {
            int got = mt_ring_take(&rig.reader[r], &p);
            if (got < 0)
                abort();
            if (got)
                take(&p);
            mt_ring_publish(&rig.reader[r]);
            more |= got;
        }
        if (!more)
            sched_yield();
    }
    return unused;
}

/* ---- the device ---------------------------------------------------------------------------------- */

static struct step {
    enum patch_call call;
    uint32_t lanes; /* that are called together, */
    uint32_t meet;  /* and of these those that come to record */
    unsigned context, cta;
    uintptr_t data; /* the user data */
    struct patch_arguments a[32];
} step;
static unsigned lane_count;
static pthread_barrier_t begin, done;
static struct host_warp warp;
static int over;

static void *lane_main(void *number)
{
    unsigned lane = (unsigned)(size_t)number;
    for (;;) {
        pthread_barrier_wait(&begin);
        if (over)
            return NULL;
        host_thread = (struct host_thread){.warp = &warp,
                                           .lane = lane,
                                           .sm = 3,
                                           .cta = {step.cta * cta_scale},
                                           .grid = {CTAS * cta_scale, 1},
                                           .cluster_rank = 1,
                                           .threads = CTAS * lane_count,
                                           .block = lane_count};
        if (step.lanes >> lane & 1 && patch_call(step.call, (void *)step.data, &step.a[lane]))
            abort(); /* the warp would be ended */
        pthread_barrier_wait(&done);
    }
}

static void run_step(void)
{
    for (unsigned i = 0; i < 64; i++)
        if (warp.meets[i].here)
            abort();
    memset(warp.meets, 0, sizeof warp.meets);
    warp.mask = step.meet;
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&done);
}

/* ---- the model ----------------------------------------------------------------------------------- */

static void must(unsigned lane, uint64_t pc, uint32_t meta, uint64_t address)
{
    struct queue *q = &queues[step.context][step.cta][lane];
    while (q->put - __atomic_load_n(&q->got, __ATOMIC_ACQUIRE) >= QUEUE)
        sched_yield();
    int64_t at = (int64_t)(pc - CODE) / 16;
    q->is[q->put % QUEUE] = (struct expected){meta, (uint32_t)at & 0x3fffffff, address};
    made[step.context].records++;
    __atomic_store_n(&q->put, q->put + 1, __ATOMIC_RELEASE);
}

static unsigned random_below(unsigned n)
{
    return (unsigned)((unsigned long)random() % n);
}

static uint64_t address_like(unsigned shape, unsigned lane, uint32_t size)
{
    switch (shape) {
    case 0:
        return 0x7f5500000000 + (uint64_t)lane * size; /* regular */
    case 1:
        return 0x7f5500000000 - (uint64_t)lane * size * 3;
    case 2:
        return 0x7f5500000000 + (uint64_t)random_below(1u << 29);
    default:
        return (uint64_t)random() << 17 & ~(1ull << 63);
    }
}

/* Is this lane the lowest of those at its pc? */
static int is_lowest(unsigned lane)
{
    for (unsigned i = 0; i < lane; i++)
        if (step.meet >> i & 1 && step.a[i].pc == step.a[lane].pc)
            return 0;
    return 1;
}

static void expect_lane(unsigned lane)
{
    struct patch_records r = patch_expected(step.call, &step.a[lane], lane, is_lowest(lane),
                                            rig.context[step.context].spaces != 0, 1);
    for (unsigned i = 0; i < r.n; i++)
        must(lane, step.a[lane].pc, r.meta[i], r.address[i]);
    made[step.context].untraced += r.untraced;
}

static unsigned threads_left[CONTEXTS];

/* The launch ends if these lanes are its last ones. */
static void expect_exit(uint32_t lanes)
{
    unsigned c = step.context;
    threads_left[c] = (threads_left[c] ? threads_left[c] : CTAS * lane_count) - mt_bits(lanes);
    if (threads_left[c])
        return;
    at_end[c][ends_must[c] % QUEUE] = made[c];
    __atomic_store_n(&ends_must[c], ends_must[c] + 1, __ATOMIC_RELEASE);
}

/* Random lanes call this patch together, at one to three places; `left_out`: the CTA is not traced. */
static void call_patch(enum patch_call call, unsigned context, unsigned cta, uint32_t lanes, int left_out)
{
    unsigned places = 1 + random_below(3), shape = random_below(4);
    uint32_t size = 1u << random_below(5), choice[3] = {random_below(64), random_below(64), random_below(64)};
    step = (struct step){.call = call, .lanes = lanes, .context = context, .cta = cta};
    step.data = (uintptr_t)&rig.context[context] | (rig.context[context].ctas ? MT_CONTEXT_IN_PARTS : 0) |
                MT_CONTEXT_EXITS | (polls ? MT_CONTEXT_POLLS : 0);
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(lanes >> lane & 1))
            continue;
        unsigned place = random_below(places);
        step.a[lane] = (struct patch_arguments){.pc = CODE + 16 * (place * 1000) - 16 * 500,
                                                .address = address_like(shape, lane, size),
                                                .size = size,
                                                .choice = choice[place],
                                                .over = random_below(2)};
        if (patch_is_uniform(call)) { /* as the instruction has it: the same for all lanes */
            unsigned first = mt_lowest(lanes);
            step.a[lane].choice = step.a[first].choice;
            step.a[lane].address = step.a[first].address;
        }
        patch_settle(call, &step.a[lane], lane);
        if (patch_comes(call, &step.a[lane], lane) && (!left_out || call == PATCH_CALL_exit))
            step.meet |= 1u << lane;
    }
    if (patch_is_uniform(call)) /* so is the place */
        for (unsigned lane = 0; lane < 32; lane++)
            step.a[lane].pc = step.a[mt_lowest(lanes)].pc;
    for (unsigned times = polls && call != PATCH_CALL_exit ? 1 + random_below(8) : 1; times--;) {
        for (unsigned lane = 0; lane < 32; lane++)
            if (step.meet >> lane & 1)
                expect_lane(lane);
        if (call == PATCH_CALL_exit)
            expect_exit(lanes);
        run_step();
    }
}

static uint32_t some_lanes(uint32_t all)
{
    uint32_t lanes = (uint32_t)random() & all;
    return random_below(3) ? all : lanes ? lanes : all & -all;
}

static enum patch_call some_call(void)
{
    if (polls && random_below(2))
        return PATCH_CALL_global;
    return 1 + random_below(PATCH_CALLS - 1); /* all but the first: */
}
_Static_assert(PATCH_CALL_exit == 0, "lanes end once");

/* Waits for the reader, and marks this moment in what must come and what came. */
static void all_has_come(unsigned context)
{
    const struct expected end = {~0u, 0, 0};
    for (unsigned r = 0; r < RINGS; r++)
        while (__atomic_load_n(rig.tail[r], __ATOMIC_ACQUIRE) != rig.ring[r].head)
            sched_yield();
    for (unsigned cta = 0; cta < CTAS; cta++)
        for (unsigned lane = 0; lane < 32; lane++) {
            queues[context][cta][lane].is[queues[context][cta][lane].put++] = end;
            came[context][cta][lane].is[came[context][cta][lane].put++] = end;
        }
}

static int is_like(const struct expected *a, const struct expected *b)
{
    return a->meta == b->meta && a->site == b->site && a->address == b->address;
}

static unsigned alike_from(const struct queue *q, unsigned at)
{
    unsigned n = at < q->put;
    while (n && at + n < q->put && is_like(&q->is[at], &q->is[at + n]))
        n++;
    return n;
}

/* Of accesses of a lane that are alike and follow each other, the first and the last must have come; of the
 * others any number. */
static void lane_is_right(const struct queue *must_come, const struct queue *has_come)
{
    unsigned i = 0, k = 0;
    assert_true(must_come->put < QUEUE && has_come->put < QUEUE);
    while (i < must_come->put) {
        unsigned due = alike_from(must_come, i), here = alike_from(has_come, k);
        assert_true(here && is_like(&must_come->is[i], &has_come->is[k]));
        assert_in_range(here, due < 2 ? 1 : 2, due);
        i += due;
        k += here;
    }
    assert_int_equal(k, has_come->put);
}

/* Each CTA makes so many calls while its lanes end one after the other. */
static void launch(unsigned number, unsigned calls, uint32_t lanes)
{
    unsigned context = number % CONTEXTS;
    for (unsigned cta = 0; cta < CTAS; cta++) {
        int left_out = rig.context[context].ctas && cta;
        for (uint32_t left = lanes, end; left; left &= ~end) {
            for (unsigned i = 0; i < calls; i++)
                call_patch(some_call(), context, cta, some_lanes(left), left_out);
            end = some_lanes(left);
            call_patch(PATCH_CALL_exit, context, cta, end, left_out);
        }
    }
    if (polls)
        all_has_come(context);
}

/* ---- cases --------------------------------------------------------------------------------------- */

static pthread_t reader, lane_id[32];

static void patch_start(unsigned lanes, uint64_t spaces, const struct mt_cta_rule *rule)
{
    memset(&rig, 0, sizeof rig);
    memset(queues, 0, sizeof queues);
    memset(came, 0, sizeof came);
    cta_scale = cta_scale ? cta_scale : 1;
    memset(made, 0, sizeof made);
    memset(ends, 0, sizeof ends);
    memset(ends_must, 0, sizeof ends_must);
    memset(threads_left, 0, sizeof threads_left);
    for (unsigned r = 0; r < RINGS; r++) {
        rig.ring[r].slots = (uint64_t)(uintptr_t)rig.slots[r];
        rig.ring[r].tail = (uint64_t)(uintptr_t)rig.tail[r];
        rig.ring[r].mask = SLOTS - 1;
        rig.reader[r] = (struct mt_ring){rig.slots[r], rig.tail[r], SLOTS - 1, 0, 0};
    }
    for (unsigned i = 0; i < CONTEXTS; i++)
        rig.context[i] = (struct mt_gpu_context){.rings = (uint64_t)(uintptr_t)rig.ring,
                                                 .ring_mask = RINGS - 1,
                                                 .id = i,
                                                 .code = CODE,
                                                 .spaces = spaces,
                                                 .polls = (uint64_t)(uintptr_t)rig.polls,
                                                 .ctas = (uint64_t)(uintptr_t)rule};
    warp = (struct host_warp){.lock = PTHREAD_MUTEX_INITIALIZER, .all_here = PTHREAD_COND_INITIALIZER};
    records = wrong = 0;
    over = 0;
    reading = 1;
    lane_count = lanes;
    pthread_barrier_init(&begin, NULL, lanes + 1);
    pthread_barrier_init(&done, NULL, lanes + 1);
    pthread_create(&reader, NULL, read_rings, NULL);
    for (size_t i = 0; i < lanes; i++)
        pthread_create(&lane_id[i], NULL, lane_main, (void *)i);
}

/* Returns the number of records that the lanes of a context must have. */
static unsigned long lanes_are_right(unsigned c)
{
    unsigned long must_come = 0;
    for (unsigned cta = 0; cta < CTAS; cta++)
        for (unsigned lane = 0; lane < 32; lane++) {
            const struct queue *q = &queues[c][cta][lane];
            if (polls)
                lane_is_right(q, &came[c][cta][lane]);
            else
                assert_int_equal(q->got, q->put);
            must_come += q->put - (polls ? ends[c] : 0);
        }
    return must_come;
}

static void patch_end(void)
{
    unsigned long must_come = 0, counted = 0, untraced = 0, repeated = 0;
    unsigned all = 0;
    over = 1;
    pthread_barrier_wait(&begin);
    for (unsigned i = 0; i < lane_count; i++)
        pthread_join(lane_id[i], NULL);
    __atomic_store_n(&reading, 0, __ATOMIC_RELEASE);
    pthread_join(reader, NULL);
    assert_int_equal(wrong, 0);
    for (unsigned c = 0; c < CONTEXTS; c++) {
        for (unsigned i = 0; i < MT_GPU_COUNTERS; i++)
            counted += rig.context[c].records[i];
        assert_int_equal(ends[c], ends_must[c]);
        must_come += lanes_are_right(c);
        assert_int_equal(rig.context[c].exits, CTAS * lane_count * (threads_left[c] != 0) - threads_left[c]);
        assert_int_equal(rig.context[c].untraced, made[c].untraced);
        untraced += made[c].untraced;
        repeated += rig.context[c].repeated;
        all += ends[c];
    }
    assert_int_equal(records + repeated, must_come);
    assert_int_equal(counted, records);     /* the device's own count */
    for (unsigned i = 0; i < MT_POLLS; i++) /* no warp is left */
        assert_false(rig.polls[i].state >> 63);
    printf("%lu records, %lu accesses without one, %lu repeats, %u ends\n", records, untraced, repeated, all);
}

/* 1,000 launches in rings of 32 slots, with all kinds of instructions. */
static void all_kinds(void **state)
{
    srandom(1);
    patch_start(LANES, 1, NULL);
    for (unsigned i = 0; i < 1000; i++)
        launch(i, 1, (1u << LANES) - 1);
    patch_end();
}

/* Whole warps; every kind on its own. */
static void whole_warps(void **state)
{
    srandom(2);
    patch_start(32, 1, NULL);
    for (unsigned call = 1; call < PATCH_CALLS; call++)
        for (unsigned i = 0; i < 6; i++)
            call_patch(call, i % CONTEXTS, i % CTAS, ~0u >> (i % 3 ? 0 : 5), 0);
    for (unsigned i = 0; i < CONTEXTS * CTAS; i++)
        call_patch(PATCH_CALL_exit, i / CTAS, i % CTAS, ~0u, 0);
    patch_end();
}

/* Global memory alone, as raw traces have it: copies write nothing into shared memory. */
static void global_only(void **state)
{
    static const enum patch_call calls[] = {PATCH_CALL_global,      PATCH_CALL_copy,
                                            PATCH_CALL_bulk_load,   PATCH_CALL_bulk_store,
                                            PATCH_CALL_bulk_reduce, PATCH_CALL_tensor};
    srandom(3);
    patch_start(LANES, 0, NULL);
    for (unsigned i = 0; i < 400; i++)
        call_patch(calls[i % 6], i % CONTEXTS, i / 6 % CTAS, some_lanes((1u << LANES) - 1), 0);
    patch_end();
}

/* CTA 0 alone is traced; threads of the other one end all the same. */
static void ctas_left_out(void **state)
{
    static const struct mt_cta_rule rule = {
        .terms = 1, .every = 1, .term = {{0, 0, {0, 0, 0}, {~0u, ~0u, ~0u}}}};
    srandom(4);
    patch_start(LANES, 1, &rule);
    for (unsigned i = 0; i < 100; i++)
        launch(i, 3, (1u << LANES) - 1);
    patch_end();
}

/* A launch whose number of ends is not known: nobody counts them. */
static void exits_unknown(void **state)
{
    patch_start(LANES, 1, NULL);
    step = (struct step){.call = PATCH_CALL_exit, .lanes = (1u << LANES) - 1, .meet = (1u << LANES) - 1};
    step.data = (uintptr_t)&rig.context[0];
    run_step();
    assert_int_equal(rig.context[0].exits, 0);
    patch_end();
}

/* Polls are counted: what is recorded lacks nothing but repeats. */
static void polls_counted(void **state)
{
    srandom(5);
    polls = 1;
    patch_start(LANES, 1, NULL);
    for (unsigned i = 0; i < 200; i++)
        launch(i, 1, (1u << LANES) - 1);
    patch_end();
}

/* Both CTAs have the same place: the second finds it taken while the first has it. */
static void polls_collide(void **state)
{
    srandom(6);
    cta_scale = MT_POLLS;
    patch_start(LANES, 1, NULL);
    for (unsigned i = 0; i < 200; i++) {
        uint32_t lanes = (1u << LANES) - 1;
        for (unsigned k = 0; k < 3; k++)
            call_patch(PATCH_CALL_global, i % CONTEXTS, k % 2, some_lanes(lanes), 0);
        for (unsigned cta = 0; cta < CTAS; cta++)
            call_patch(PATCH_CALL_exit, i % CONTEXTS, cta, lanes, 0);
        all_has_come(i % CONTEXTS);
    }
    patch_end();
    cta_scale = 1;
}

static void spin(uint32_t lanes, uint64_t address, unsigned times)
{
    step = (struct step){.call = PATCH_CALL_global, .lanes = lanes, .meet = lanes};
    step.data = (uintptr_t)&rig.context[0] | MT_CONTEXT_EXITS | MT_CONTEXT_POLLS;
    for (unsigned lane = 0; lane < LANES; lane++)
        step.a[lane] = (struct patch_arguments){.pc = CODE + 16, .address = address, .size = 4};
    while (times--) {
        for (unsigned lane = 0; lane < LANES; lane++)
            if (lanes >> lane & 1)
                expect_lane(lane);
        run_step();
    }
}

/* A lane waits for a flag while others of its warp work; then all of them wait, and end waiting. */
static void polls_of_one_lane(void **state)
{
    patch_start(LANES, 1, NULL);
    spin(1, 0x0ff8, 3); /* elsewhere */
    spin(1, 0x1000, 500);
    spin(0xf0, 0x2000, 1); /* has its record: the waiting lane goes on */
    spin(1, 0x1000, 500);
    spin(0xff, 0x1000, 100);
    spin(0x0f, 0x3000, 1);
    spin(0xff, 0x1000, 100);
    call_patch(PATCH_CALL_exit, 0, 0, 0xff, 0);
    call_patch(PATCH_CALL_exit, 0, 1, 0xff, 0);
    all_has_come(0);
    patch_end();
    assert_int_equal(records, 2 + 2 + 4 + 16 + 4 + 16);
    polls = 0;
}

/* Of a launch that is not traced. */
static void no_data(void **state)
{
    patch_start(LANES, 1, NULL);
    for (unsigned call = 0; call < PATCH_CALLS; call++) {
        step = (struct step){.call = call, .lanes = (1u << LANES) - 1};
        run_step();
    }
    patch_end();
    assert_int_equal(records, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds),     cmocka_unit_test(whole_warps),       cmocka_unit_test(global_only),
        cmocka_unit_test(ctas_left_out), cmocka_unit_test(exits_unknown),     cmocka_unit_test(polls_counted),
        cmocka_unit_test(polls_collide), cmocka_unit_test(polls_of_one_lane), cmocka_unit_test(no_data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
