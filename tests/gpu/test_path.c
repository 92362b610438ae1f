/* The whole GPU path without a GPU: the device's record functions compiled for host threads (host_warp.h),
 * runtime/gpu as it is, a CUDA runtime of host threads (fake_cuda.h), and small rings, so that kernels have
 * to wait for room. What is in the trace is compared with what each kernel was told to do. */
#include "path.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- cases -------------------------------------------------------------------------------------- */

static void one_launch(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "one", .ctas = 7, .accesses = 60, .seed = 1};
    size_t n;
    launch(&k, s, t, cudaSuccess);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&k, got);
    assert_true(got->count > 500 / fake_every);
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* Many launches without waiting, on two streams at once; contexts are lent again and again. */
static void two_streams(void **state)
{
    enum { N = 20 };
    struct fake_stream *s[2] = {fake_stream_new(), fake_stream_new()};
    struct mt_trace *t[2] = {fake_trace_new(), fake_trace_new()};
    static struct kernel k[2][N];
    size_t n;
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < 2; j++) {
            k[j][i] = (struct kernel){.ctas = 1 + i % 3, .accesses = i % 10, .seed = 100 * i + j};
            snprintf(k[j][i].name, sizeof k[j][i].name, "k%u.%u", j, i);
            launch(&k[j][i], s[j], t[j], cudaSuccess);
        }
    for (unsigned j = 0; j < 2; j++) {
        sync_stream(s[j], t[j]);
        const struct fake_launch *got = fake_trace_launches(t[j], &n);
        assert_int_equal(n, N);
        for (unsigned i = 0; i < N; i++) {
            check(&k[j][i], &got[i]);
            assert_true(!i || got[i].line.seq > got[i - 1].line.seq);
        }
        mt_gpu()->stream_ends((cudaStream_t)s[j], t[j]);
        fake_stream_free(s[j]);
        fake_trace_free(t[j]);
    }
}

/* The second kernel runs and records while the first has not ended: its records wait. */
static struct kernel early;
static pthread_t early_thread;
static void *run_early(void *k)
{
    run_kernel(k);
    return NULL;
}
static void run_early_first(struct kernel *k)
{
    pthread_create(&early_thread, NULL, run_early, &early);
    pthread_join(early_thread, NULL);
}
static void path_nothing(void *data)
{
}

static void path_overtaking(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "first", .ctas = 2, .accesses = 20, .seed = 5, .before = run_early_first};
    early = (struct kernel){.name = "second", .ctas = 3, .accesses = 80, .seed = 6};
    struct mt_gpu_launch l[2] = {{.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = "first"}},
                                 {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = "second"}}};
    sem_t hold;
    size_t n;
    k.context = mt_gpu()->launch(&l[0]);
    sem_init(&hold, 0, 0);
    fake_stream_run(s, hold_up, &hold);
    fake_stream_run(s, run_kernel, &k);
    mt_gpu()->issued(&l[0], cudaSuccess);
    early.context = mt_gpu()->launch(&l[1]);
    fake_stream_run(s, path_nothing, NULL);
    mt_gpu()->issued(&l[1], cudaSuccess);
    sem_post(&hold);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    check(&k, &got[0]);
    check(&early, &got[1]);
    fake_stream_free(s);
    fake_trace_free(t);
}

static void not_issued(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel bad = {.name = "bad"}, good = {.name = "good", .ctas = 1, .accesses = 5, .seed = 9};
    struct kernel plain = {.name = "plain", .ctas = 1, .accesses = 5, .seed = 9};
    size_t n;
    unsigned before = fake_untraced();
    launch(&bad, s, t, cudaErrorInvalidConfiguration);
    launch(&good, s, t, cudaSuccess);
    launch(&plain, s, NULL, cudaSuccess);
    assert_null(plain.context); /* and the record functions do nothing */
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&good, got);
    assert_int_equal(fake_untraced(), before + 2);
    assert_false(mt_gpu()->capturing((cudaStream_t)s));
    fake_capturing = 1;
    assert_true(mt_gpu()->capturing((cudaStream_t)s));
    fake_capturing = 0;
    fake_stream_free(s);
    fake_trace_free(t);
}

/* With record calls the device refused it, and the API layer launched it without: it is counted as missing,
 * and the launches around it are whole, whether they had ended then or not. */
static void path_refused(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel first = {.name = "first", .ctas = 1, .accesses = 5, .seed = 9};
    struct kernel plain = {.name = "plain", .ctas = 1, .accesses = 5, .seed = 10};
    struct kernel last = {.name = "last", .ctas = 1, .accesses = 5, .seed = 11};
    struct mt_gpu_launch l = {.trace = t, .stream = (cudaStream_t)s, .line = {.kernel = "plain"}};
    sem_t hold;
    size_t n;
    unsigned before = fake_untraced();
    sem_init(&hold, 0, 0);
    fake_stream_run(s, hold_up, &hold);
    launch(&first, s, t, cudaSuccess);
    assert_non_null(mt_gpu()->launch(&l));
    fake_stream_run(s, run_kernel, &plain); /* its context is NULL */
    l.plain = 1;
    mt_gpu()->issued(&l, cudaSuccess);
    launch(&last, s, t, cudaSuccess);
    sem_post(&hold);
    sync_stream(s, t);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 2);
    check(&first, &got[0]);
    check(&last, &got[1]);
    assert_int_equal(fake_untraced(), before + 1);
    assert_int_equal(fake_missed(t), 1);
    assert_non_null(mt_gpu()->launch(&l)); /* and refused without record calls, too */
    mt_gpu()->issued(&l, cudaErrorLaunchOutOfResources);
    sync_stream(s, t);
    assert_int_equal(fake_untraced(), before + 2);
    assert_int_equal(fake_missed(t), 1);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* The compiler found no room for its context: no trace, counted, and the user hears why. */
static void no_room(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct mt_image_kernel kernel = {.flags = MT_KERNEL_TRACED | MT_KERNEL_GPU_UNTRACED};
    struct mt_gpu_launch l = {
        .trace = t, .kernel = &kernel, .stream = (cudaStream_t)s, .line = {.kernel = "full"}};
    size_t n;
    unsigned before = fake_untraced();
    assert_null(mt_gpu()->launch(&l));
    mt_gpu()->issued(&l, cudaSuccess);
    synced(s, t, cudaSuccess);
    assert_int_equal(fake_untraced(), before + 1);
    assert_int_equal(fake_missed(t), 1);
    fake_trace_launches(t, &n);
    assert_int_equal(n, 0);
    assert_non_null(strstr(fake_report, "full is not traced"));
    fake_stream_free(s);
    fake_trace_free(t);
}

static void without_write_value(void **state)
{
    fake_no_write_value = 1;
    one_launch(state);
    fake_no_write_value = 0;
}

/* The device fails: the wait ends, what had come is in the trace, which is not complete. */
static void device_dies(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "dies", .ctas = 1, .accesses = 10, .seed = 3};
    size_t n;
    fake_drop_marks = 1;
    launch(&k, s, t, cudaSuccess);
    fake_stream_wait(s);
    fake_stream_error = cudaErrorIllegalAddress;
    synced(s, t, cudaSuccess);
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->line.status, cudaErrorIllegalAddress);
    assert_true(got->line.records > got->count); /* counts as incomplete */
    assert_non_null(strstr(fake_report, "did not end"));
    fake_drop_marks = 0;
    fake_stream_error = cudaSuccess;
    fake_stream_free(s);
    fake_trace_free(t);
}

/* The program's own wait fails. Errors that say nothing of the device end nothing;
 * others end the stream's launches. */
static void wait_fails(void **state)
{
    struct fake_stream *s[2] = {fake_stream_new(), fake_stream_new()};
    struct mt_trace *t[2] = {fake_trace_new(), fake_trace_new()};
    struct kernel k[2] = {{.name = "lost", .ctas = 1, .accesses = 10, .seed = 3},
                          {.name = "lost, too", .ctas = 1, .accesses = 10, .seed = 4}};
    size_t n;
    fake_drop_marks = 1;
    for (unsigned i = 0; i < 2; i++) {
        launch(&k[i], s[i], t[i], cudaSuccess);
        fake_stream_wait(s[i]);
    }
    fake_report[0] = 0;
    synced(s[0], t[0], cudaErrorInvalidResourceHandle);
    assert_string_equal(fake_report, "");
    synced(NULL, NULL, cudaErrorLaunchFailure); /* another device's: this one is well */
    assert_string_equal(fake_report, "");
    synced(s[0], t[0], cudaErrorLaunchFailure);
    assert_non_null(strstr(fake_report, "did not end"));
    const struct fake_launch *got = fake_trace_launches(t[0], &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->line.status, cudaErrorLaunchFailure);
    assert_true(got->count > 0 && got->line.records > got->count);
    fake_stream_error = (cudaError_t)721; /* cudaErrorTensorMemoryLeak, of newer drivers */
    synced(NULL, NULL, fake_stream_error);
    got = fake_trace_launches(t[1], &n);
    assert_int_equal(n, 1);
    assert_int_equal(got->line.status, 721);
    fake_drop_marks = 0;
    fake_stream_error = cudaSuccess;
    for (unsigned i = 0; i < 2; i++) {
        fake_stream_free(s[i]);
        fake_trace_free(t[i]);
    }
}

/* The device is reset after a launch that nobody waited for, and used again: it is set up anew. */
static void is_reset(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k[3] = {{.name = "before", .ctas = 2, .accesses = 30, .seed = 4},
                          {.name = "after", .ctas = 2, .accesses = 30, .seed = 5},
                          {.name = "again", .ctas = 3, .accesses = 30, .seed = 6}};
    size_t n;
    for (unsigned i = 0; i < 3; i++) {
        launch(&k[i], s, t, cudaSuccess);
        mt_gpu()->reset();
    }
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 3);
    for (unsigned i = 0; i < 3; i++)
        check(&k[i], &got[i]);
    mt_gpu()->reset(); /* not in use */
    mt_gpu()->stream_ends((cudaStream_t)s, t);
    fake_stream_free(s);
    fake_trace_free(t);
}

static void at_exit(void **state)
{
    struct fake_stream *s = fake_stream_new();
    struct mt_trace *t = fake_trace_new();
    struct kernel k = {.name = "late", .ctas = 2, .accesses = 30, .seed = 4};
    size_t n;
    launch(&k, s, t, cudaSuccess);
    mt_gpu()->finish(); /* the program never waited */
    const struct fake_launch *got = fake_trace_launches(t, &n);
    assert_int_equal(n, 1);
    check(&k, got);
    fake_stream_free(s);
    fake_trace_free(t);
}

/* ---- the program ends ---------------------------------------------------------------------------- */

static struct mt_trace *last_trace;
static struct kernel last = {.name = "last", .ctas = 2, .accesses = 40, .seed = 8};
static struct kernel later = {.name = "later", .ctas = 1, .accesses = 5, .seed = 9};

/* As the library's own: after all exit handlers. What the trace holds then is what it will hold. */
__attribute__((destructor)) static void look_at_last(void)
{
    size_t n;
    if (!last_trace)
        return;
    mt_gpu()->finish();
    const struct fake_launch *got = fake_trace_launches(last_trace, &n);
    if (n != 1 || got->line.status || got->count != got->line.records || got->count < 100 ||
        fake_missed(last_trace) != 1 || !strstr(fake_report, "about to shut down")) {
        fprintf(stderr, "%zu launches, %zu records of %llu; %s\n", n, got->count,
                (unsigned long long)got->line.records, fake_report);
        _exit(1);
    }
}

/* A handler of the program's that runs when ours has: its kernel runs, and is counted as missing. */
static void launch_later(void)
{
    struct fake_stream *s = fake_stream_new();
    launch(&later, s, last_trace, cudaSuccess);
    fake_stream_wait(s);
    if (later.context)
        _exit(2);
}

/* "kernel; copy; return 0": the copy has waited for the kernel, nobody for its records, and the driver's exit
 * handler takes the rings. */
static int end_of_program(void)
{
    struct fake_stream *s;
    fake_unmaps_at_exit = 1;
    fake_sink_us = 500;
    s = fake_stream_new();
    last_trace = fake_trace_new();
    atexit(launch_later);
    launch(&last, s, last_trace, cudaSuccess);
    fake_stream_wait(s);
    return 0;
}

/* With an argument n, every n-th CTA is traced; with two, into compact traces. "exit": a program that ends;
 * "errors": check_errors. */
int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "exit"))
        return end_of_program();
    if (argc > 1 && !strcmp(argv[1], "errors")) {
        fake_every = 1;
        return check_errors(argv + 2);
    }
    fake_compact = argc > 2;
    fake_every = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_launch),       cmocka_unit_test(two_streams),
        cmocka_unit_test(path_overtaking),  cmocka_unit_test(not_issued),
        cmocka_unit_test(at_exit),          cmocka_unit_test(without_write_value),
        cmocka_unit_test(device_dies),      cmocka_unit_test(no_room),
        cmocka_unit_test(wait_fails),       cmocka_unit_test(is_reset),
        cmocka_unit_test(graphs),           cmocka_unit_test(graphs_without_write_value),
        cmocka_unit_test(graph_not_issued), cmocka_unit_test(sites_of_files),
        cmocka_unit_test(two_devices),      cmocka_unit_test(others_run),
        cmocka_unit_test(path_refused),     cmocka_unit_test(slow_sink),
        cmocka_unit_test(stale_packets),    cmocka_unit_test(late_mark),
        cmocka_unit_test(set_up_beside),    cmocka_unit_test(damaged_ring),
        cmocka_unit_test(in_a_child),       cmocka_unit_test(late_mark_of_node),
        cmocka_unit_test(other_context),    cmocka_unit_test(not_set_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
