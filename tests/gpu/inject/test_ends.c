/* How launches of patched code end: when all threads have said so, at waits by heads and counters, or never.
 */
#include "device.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct bench {
    struct mt_inject_context context;
    struct mt_trace *trace;
};
static struct bench b;
static Sanitizer_StreamHandle stream;

static int set_up(void **state)
{
    char why[200];
    b = (struct bench){.trace = fake_trace_new()};
    b.context.rings = mt_inject_rings(NULL, 0x7000000000, why, sizeof why);
    device_call = (struct mt_inject_call){0};
    return !b.context.rings;
}

static uint32_t site_is(const struct mt_flight *f, uint32_t site, uint32_t meta)
{
    uint64_t pc = mt_packet_pc_of(site, f->code);
    return pc ? (uint32_t)(pc - 0x7000000000) : 0;
}

/* A launch of `threads`; what its patches get. */
static const void *begin_as(uint64_t threads, struct mt_flight **out, int node)
{
    struct mt_flight *f = calloc(1, sizeof *f);
    f->launch.line.kernel = "k";
    f->launch.trace = b.trace;
    f->site = site_is;
    f->exits = threads;
    const void *data = mt_inject_lend(&b.context, f, 0, stream, node);
    if (!data) {
        free(f);
        return NULL;
    }
    struct mt_flight_queue *q = NULL;
    assert_int_equal(mt_flight_begin(f, &q), 0);
    mt_flight_issued(f);
    mt_queue_leave(q);
    if (out)
        *out = f;
    return data;
}

static const void *begin(uint64_t threads, struct mt_flight **out)
{
    return begin_as(threads, out, 0);
}

static unsigned left_after(unsigned ms)
{
    struct mt_flight_filter its = {.rings = b.context.rings};
    return mt_flight_wait(&its, ms);
}

static const struct fake_launch *launches(size_t must)
{
    size_t n;
    const struct fake_launch *l = fake_trace_launches(b.trace, &n);
    assert_int_equal(n, must);
    return l;
}

/* The program waits for everything; the wait began when `issued` launches had been. */
static void wait_of_program(uint64_t issued)
{
    device_call = (struct mt_inject_call){.depth = 1, .waits = 1, .launches = issued};
    mt_inject_synced(&b.context, stream, NULL, 0);
    device_call = (struct mt_inject_call){0};
}

static void ends_by_exits(void **state)
{
    const void *data = begin(96, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    device_store(data, 1, 7, 0x2000, 0);
    device_exit(data, 0, 32, 96);
    device_note(data, 5, 7);
    device_exit(data, 1, 31, 96);
    device_exit(data, 2, 32, 96);
    assert_int_equal(left_after(100), 1); /* one thread runs still */
    device_store(data, 1, 1, 0x3000, 0);
    device_exit(data, 1, 1, 96);
    assert_int_equal(left_after(60000), 0);
    const struct fake_launch *l = launches(1);
    assert_int_equal(l->count, 40);
    assert_int_equal(l->line.records, 40);
    assert_int_equal(l->line.untraced, 5);
    assert_int_equal(l->line.repeated, 7);
    assert_int_equal(l->line.status, 0);
    wait_of_program(mt_flight_issued_so_far());
    assert_int_equal(fake_missed(b.trace), 0);
}

/* More than the rings hold, and contexts are lent again. */
static void many_launches(void **state)
{
    for (int i = 0; i < 100; i++) {
        const void *data = begin(32, NULL);
        assert_non_null(data);
        for (uint32_t k = 0; k < 10; k++)
            device_store(data, (uint32_t)i, 32, 0x1000, 0);
        device_exit(data, (uint32_t)i, 32, 32);
    }
    assert_int_equal(left_after(60000), 0);
    const struct fake_launch *l = launches(100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(l[i].count, 320);
    wait_of_program(mt_flight_issued_so_far());
    assert_int_equal(fake_missed(b.trace), 0);
}

static void no_context_is_free(void **state)
{
    const void *data[MT_GPU_CONTEXTS];
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++)
        assert_non_null(data[i] = begin(1, NULL));
    assert_null(mt_rings_lend(b.context.rings, &(struct mt_flight){0}, 0));
    for (unsigned i = 0; i < MT_GPU_CONTEXTS; i++)
        device_exit(data[i], i, 1, 1);
    assert_int_equal(left_after(60000), 0);
    assert_non_null(data[0] = begin(1, NULL));
    device_exit(data[0], 0, 1, 1);
    assert_int_equal(left_after(60000), 0);
}

/* The end may come before what other rings have still to bring. */
static void ends_with_all_records(void **state)
{
    const void *data = begin(64, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    device_lose(data, 32);
    device_exit(data, 0, 64, 64);
    assert_int_equal(left_after(100), 1);
    device_bring(data, 1, 32, 0x2000, 0);
    assert_int_equal(left_after(60000), 0);
    const struct fake_launch *l = launches(1);
    assert_int_equal(l->count, 64);
    assert_int_equal(l->line.records, 64);
}

/* What a context counted for the launches before is not the next one's. */
static void counters_go_on(void **state)
{
    const void *data[2];
    for (unsigned i = 0; i < 2; i++) {
        data[i] = begin(32, NULL);
        device_store(data[i], 0, 32, 0x1000, 0);
        device_note(data[i], 5 + i, 7 + i);
        device_exit(data[i], 0, 32, 32);
        assert_int_equal(left_after(60000), 0);
    }
    assert_ptr_equal(data[0], data[1]);
    const struct fake_launch *l = launches(2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(l[i].line.records, 32);
        assert_int_equal(l[i].line.untraced, 5 + i);
        assert_int_equal(l[i].line.repeated, 7 + i);
    }
}

/* The launch has ended by its threads, and its counter says more than arrived. */
static void lost_records_are_seen(void **state)
{
    const void *data = begin(32, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    device_lose(data, 3);
    device_exit(data, 0, 32, 32);
    assert_int_equal(left_after(60000), 0);
    assert_int_equal(launches(1)->count, 32);
    assert_int_equal(launches(1)->line.records, 35);
    wait_of_program(mt_flight_issued_so_far());
    assert_int_equal(fake_missed(b.trace), 0); /* told already */
}

static void sites_are_places(void **state)
{
    fake_compact = 1;
    const void *data = begin(1, NULL);
    device_store(data, 0, 1, 0x1000, 0x123);                   /* behind the place by so many instructions */
    device_store(data, 0, 1, 0x1000, MT_SITE_UNKNOWN | 0x123); /* not known */
    device_exit(data, 0, 1, 1);
    assert_int_equal(left_after(60000), 0);
    const struct fake_launch *l = launches(1);
    assert_int_equal(l->count, 2);
    assert_int_equal(l->sites[0], 0x1230);
    assert_int_equal(l->sites[1], 0);
    fake_compact = 0;
}

/* A launch of after the wait began goes on. */
static void waits_reach_so_far(void **state)
{
    uint64_t before = mt_flight_issued_so_far();
    const void *data = begin(32, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    wait_of_program(before);
    assert_int_equal(left_after(0), 1);
    device_call =
        (struct mt_inject_call){0}; /* not within a call that waits: nothing is known to have ended */
    mt_inject_synced(&b.context, stream, NULL, 0);
    assert_int_equal(left_after(0), 1);
    device_exit(data, 0, 32, 32);
    assert_int_equal(left_after(60000), 0);
    assert_int_equal(launches(1)->count, 32);
}

static void device_fails(void **state)
{
    const void *data = begin(32, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    mt_inject_synced(&b.context, stream, NULL, 700);
    assert_int_equal(left_after(0), 0);
    const struct fake_launch *l = launches(1);
    assert_int_equal(l->count, 32);
    assert_int_equal(l->line.status, 700);
    assert_int_equal(l->line.records, 33); /* one stands for what is missing */
}

static void context_is_destroyed(void **state)
{
    const void *data = begin(64, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    device_exit(data, 0, 32, 64);
    mt_inject_drain(&b.context, "a test");
    mt_rings_retire(b.context.rings);
    assert_int_equal(left_after(0), 0);
    assert_int_equal(launches(1)->line.records, 33);
    for (uint32_t i = 0; i < 100; i++) /* its tail is where there is always room */
        device_store(data, 0, 32, 0x1000, 0);
}

static void *end_later(void *data)
{
    usleep(100000);
    device_exit(data, 0, 32, 32);
    return NULL;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A node of a graph waits for a launch from before its graph, and not for other nodes, which have not begun.
 */
static void nodes_wait_for_others(void **state)
{
    const void *before = begin(32, NULL), *node[MT_GPU_CONTEXTS];
    pthread_t t;
    unsigned n = 0;
    device_call = (struct mt_inject_call){.depth = 1};
    while (n < MT_GPU_CONTEXTS - 1) {
        node[n] = begin_as(32, NULL, 1);
        if (!n++)
            device_call.first = mt_flight_issued_so_far() - 1;
        device_call.after = mt_flight_issued_so_far();
    }
    pthread_create(&t, NULL, end_later, (void *)(uintptr_t)before);
    node[n] = begin_as(32, NULL, 1);
    pthread_join(t, NULL);
    assert_non_null(node[n++]);
    double since = seconds();
    for (int i = 0; i < 3; i++)
        assert_null(begin_as(32, NULL, 1));
    assert_true(seconds() - since < 5); /* one wait would take ten */
    while (n-- > 0)
        device_exit(node[n], 0, 32, 32);
    assert_int_equal(left_after(60000), 0);
    device_call = (struct mt_inject_call){0};
}

/* Last: from here on it is known that threads do not say when they end. */
static void ends_by_heads(void **state)
{
    assert_int_equal(mt_inject_exits_count(), 1);
    const void *data = begin(64, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    device_store(data, 5, 32, 0x1000, 0);
    assert_int_equal(left_after(100), 1);
    wait_of_program(mt_flight_issued_so_far());
    assert_int_equal(left_after(0), 0);
    assert_int_equal(launches(1)->count, 64);
    assert_int_equal(launches(1)->line.records, 64);
    assert_int_equal(mt_inject_exits_count(), 0);
    const void *ended = data;
    data = begin(0, NULL); /* the device counted more than came */
    device_store(data, 1, 32, 0x1000, 0);
    device_lose(data, 10);
    wait_of_program(mt_flight_issued_so_far());
    assert_int_equal(left_after(0), 0);
    assert_int_equal(launches(2)[1].count, 32);
    assert_int_equal(launches(2)[1].line.records, 42);
    assert_int_equal(fake_missed(b.trace), 0);
    data = begin(0, NULL); /* the first one had not ended after all: that is not this one's record */
    assert_ptr_not_equal(data, ended);
    device_store(ended, 2, 1, 0x1000, 0);
    wait_of_program(mt_flight_issued_so_far());
    assert_int_equal(launches(3)[2].count, 0);
    assert_int_equal(fake_missed(b.trace), 1);
}

/* Where not even the heads can be read, nobody knows whether that is all: one record stands for what is
 * missing. */
static void heads_cannot_be_read(void **state)
{
    const void *data = begin(0, NULL);
    device_store(data, 0, 32, 0x1000, 0);
    usleep(100000);
    device_copy_result = SANITIZER_ERROR_UNKNOWN;
    wait_of_program(mt_flight_issued_so_far());
    device_copy_result = SANITIZER_SUCCESS;
    assert_int_equal(left_after(0), 0);
    assert_int_equal(launches(1)->line.records, 33);
}

/* A driver that reports a thread's end twice. In a process of its own: it is known from then on. */
static void exits_beyond(void **state)
{
    const void *data = begin(32, NULL);
    device_exit(data, 0, 32, 32);
    device_exit(data, 0, 1, 32);
    assert_int_equal(left_after(60000), 0);
    assert_int_equal(mt_inject_exits_count(), 1);
    wait_of_program(mt_flight_issued_so_far());
    assert_int_equal(mt_inject_exits_count(), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest beyond[] = {cmocka_unit_test_setup(exits_beyond, set_up)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ends_by_exits, set_up),
        cmocka_unit_test_setup(many_launches, set_up),
        cmocka_unit_test_setup(no_context_is_free, set_up),
        cmocka_unit_test_setup(ends_with_all_records, set_up),
        cmocka_unit_test_setup(counters_go_on, set_up),
        cmocka_unit_test_setup(lost_records_are_seen, set_up),
        cmocka_unit_test_setup(sites_are_places, set_up),
        cmocka_unit_test_setup(waits_reach_so_far, set_up),
        cmocka_unit_test_setup(device_fails, set_up),
        cmocka_unit_test_setup(context_is_destroyed, set_up),
        cmocka_unit_test_setup(nodes_wait_for_others, set_up),
        cmocka_unit_test_setup(ends_by_heads, set_up),
        cmocka_unit_test_setup(heads_cannot_be_read, set_up),
    };
    if (argc > 1)
        return cmocka_run_group_tests(beyond, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
